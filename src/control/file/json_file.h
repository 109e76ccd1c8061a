#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "control/file/message_file.h"

namespace mtl::control {

/// parse_message() for JSON; `text` is UTF-8 of bounded size.
Result<Locations> parse_json(std::string_view text, std::string file,
                             google::protobuf::Message& message);

}  // namespace mtl::control
