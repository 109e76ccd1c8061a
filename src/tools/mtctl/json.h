#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "mtlink/control.pb.h"

/// What `mtctl -j` prints: the fields of control.proto under their names there, numbers as numbers
/// (64-bit ones too), enumerators in lower case. Every field is there, but optional ones and
/// messages that are not set.
namespace mtl::tools {

boost::json::object to_json(const google::protobuf::Message& message);

/// The part of a node's state that `show VIEW` is about, as one object.
boost::json::object view_json(const std::string& view, const mtlink::control::NodeState& node);

}  // namespace mtl::tools
