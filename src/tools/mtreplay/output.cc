#include "tools/mtreplay/output.h"

#include <fmt/format.h>

#include <fstream>
#include <system_error>

namespace mtl::tools {

std::optional<std::string> output_fault(const std::string& path,
                                        const std::vector<std::filesystem::path>& inputs) {
  for (const std::filesystem::path& input : inputs) {
    std::error_code absent;
    if (!std::filesystem::equivalent(path, input, absent)) continue;
    return fmt::format("--output {}: would replace {}, which is read; name another file", path,
                       input.string());
  }
  return std::nullopt;
}

std::optional<std::string> write_output(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return std::nullopt;
  return fmt::format("--output {}: cannot be written; is the folder there, and the disk not full?",
                     path);
}

}  // namespace mtl::tools
