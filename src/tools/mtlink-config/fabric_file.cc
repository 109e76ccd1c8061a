#include "tools/mtlink-config/fabric_file.h"

#include <fmt/format.h>

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
  control::FileFormat format = control::FileFormat::kText;
  if (!output.empty()) {
    const auto named = control::format_of(output);
    if (!named) return named.error();
    format = *named;
  }
  std::string text = control::to_text(message, format);
  if (text.size() <= control::kMaxMessageFile) return text;
  return Error{
      fmt::format("{}the file would have {} bytes, {} - {} = {} more than are read again; "
                  "take a smaller fabric{}",
                  output.empty() ? "" : output + ": ", text.size(), text.size(),
                  control::kMaxMessageFile, text.size() - control::kMaxMessageFile,
                  format == control::FileFormat::kJson ? ", or .textproto" : "")};
}

}  // namespace mtl::tools
