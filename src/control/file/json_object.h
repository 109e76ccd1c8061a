#pragma once

#include <boost/json/object.hpp>

namespace google::protobuf {
class Message;
}

namespace mtl::control {

/// What programs print of a message with --json: its fields under their names in the .proto file,
/// numbers as numbers (64-bit ones too), enumerators in lower case. Every field is there, but
/// optional ones and messages that are not set. Any thread.
boost::json::object to_json(const google::protobuf::Message& message);

}  // namespace mtl::control
