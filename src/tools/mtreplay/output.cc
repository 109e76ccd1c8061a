#include "tools/mtreplay/output.h"

#include <fmt/format.h>

#include <fstream>

namespace mtl::tools {

std::optional<std::string> end_output(std::ostream& out) {
  out.flush();
  if (out) return std::nullopt;
  return "standard output: cannot be written to its end; is the disk full, or the reader gone?";
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
