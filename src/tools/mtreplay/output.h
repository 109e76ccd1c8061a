#pragma once

#include <optional>
#include <string>

namespace mtl::tools {

/// Writes a report to the file that --output named, replacing it; why it could not.
std::optional<std::string> write_output(const std::string& path, const std::string& text);

}  // namespace mtl::tools
