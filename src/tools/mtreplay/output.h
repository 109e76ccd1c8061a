#pragma once

#include <optional>
#include <ostream>
#include <string>

namespace mtl::tools {

/// Sees to it that all of `out` was written; why it was not.
std::optional<std::string> end_output(std::ostream& out);

/// Writes a report to the file that --output named, replacing it; why it could not.
std::optional<std::string> write_output(const std::string& path, const std::string& text);

}  // namespace mtl::tools
