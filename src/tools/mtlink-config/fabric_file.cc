#include "tools/mtlink-config/fabric_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "control/file/message_file.h"

namespace mtl::tools {

namespace pb = mtlink::topology;

Result<FabricFile> read_fabric(const std::string& file) {
  auto loaded = control::load<pb::Topology>(file);
  if (!loaded) return loaded.error();
  auto built = topology::Graph::build(loaded->message);
  if (const auto* faults = std::get_if<std::vector<topology::Fault>>(&built)) {
    std::string all;
    for (const topology::Fault& fault : *faults) {
      all += fmt::format("{}{}{} {}", all.empty() ? "" : "\n", loaded->where(fault.path),
                         fault.path, fault.what);
    }
    return Error{all};
  }
  return FabricFile{std::move(loaded->message), std::make_shared<const topology::Graph>(
                                                    std::get<topology::Graph>(std::move(built)))};
}

Result<std::string> message_text(const google::protobuf::Message& message,
                                 const std::string& output) {
  if (output.empty()) return control::to_text(message, control::FileFormat::kText);
  const auto format = control::format_of(output);
  if (!format) return format.error();
  return control::to_text(message, *format);
}

Result<void> write_whole(const std::string& file, const std::string& text) {
  const std::string part = fmt::format("{}.part{}", file, getpid());
  std::error_code error;
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) {
      const std::string why = std::strerror(errno);
      std::filesystem::remove(part, error);
      return Error{fmt::format("{}: cannot be written: {}", file, why)};
    }
  }
  std::filesystem::rename(part, file, error);
  if (!error) return {};
  const std::string why = error.message();
  std::filesystem::remove(part, error);
  return Error{fmt::format("{}: cannot be written: {}", file, why)};
}

}  // namespace mtl::tools
