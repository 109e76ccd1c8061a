#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/file/message_file.h"

namespace mtl::control {

/// parse_message() for text format; `text` is UTF-8 of bounded size.
Result<Locations> parse_text(std::string_view text, std::string file,
                             google::protobuf::Message& message);

/// Where the lines of a text begin, so that finding the places of many fields does not read the
/// text anew for each.
class Lines {
 public:
  explicit Lines(std::string_view text);
  /// Line and column of byte `offset`.
  Position at(std::size_t offset) const;

 private:
  std::vector<std::size_t> begins_{0};
};

/// Line and column of byte `offset`, for who asks once.
Position position_of(std::string_view text, std::size_t offset);

}  // namespace mtl::control
