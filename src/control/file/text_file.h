#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "control/file/message_file.h"

namespace mtl::control {

/// parse_message() for text format; `text` is UTF-8 of bounded size.
Result<Locations> parse_text(std::string_view text, std::string file,
                             google::protobuf::Message& message);

/// Line and column of byte `offset`.
Position position_of(std::string_view text, std::size_t offset);

}  // namespace mtl::control
