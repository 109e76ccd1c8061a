#pragma once

#include <string>
#include <string_view>

namespace mtl::tools {

/// Text out of a file or from a peer, whoever wrote it, as it may go to a terminal or into a
/// report: valid UTF-8, in which control characters, those that turn the direction of writing, and
/// bytes that are no UTF-8 stand as \xNN, each byte of them. Characters in `kept` stay, "\n" say.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace mtl::tools
