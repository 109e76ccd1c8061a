// A node's configuration file of any bytes, in either format: read, or refused with a place and a
// reason; what is read can be written and read again as the same.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "control/file/message_file.h"
#include "mtlink/config.pb.h"

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using mtl::control::FileFormat;
  using mtlink::config::NodeConfig;
  if (size == 0) return 0;
  const FileFormat format = data[0] == '{' ? FileFormat::kJson : FileFormat::kText;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = mtl::control::parse<NodeConfig>(text, format, "node");
  if (!read) {
    require(read.error().message.starts_with("node:"), "an error begins with its file");
    return 0;
  }
  const std::string again = mtl::control::to_text(read->message, format);
  const auto reread = mtl::control::parse<NodeConfig>(again, format, "again");
  require(static_cast<bool>(reread), "what was written can be read");
  require(reread->message.SerializeAsString() == read->message.SerializeAsString(),
          "what was written is what was read");
  return 0;
}
