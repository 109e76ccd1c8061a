#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mtl::tools {

/// What is wrong with --output naming one of `inputs`, which would be lost.
std::optional<std::string> output_fault(const std::string& path,
                                        const std::vector<std::filesystem::path>& inputs);

/// Writes a report to the file that --output named, replacing it; why it could not.
std::optional<std::string> write_output(const std::string& path, const std::string& text);

}  // namespace mtl::tools
