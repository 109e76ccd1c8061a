// The JSON of a trace of any bytes, beside a capture without a frame: read, or refused with the
// file's name and a reason.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "conformance/pcap_file.h"
#include "conformance/trace.h"
#include "input.h"

namespace {

/// A folder for the two files, which goes with the process.
class Folder {
 public:
  Folder() : path_("/tmp/mtlink-fuzz-trace-" + std::to_string(getpid())) {
    std::filesystem::create_directory(path_);
    const auto written = mtl::conformance::write_capture(path_ / "trace.pcap", {});
    mtl::fuzz::require(static_cast<bool>(written), "there is room for a capture");
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::filesystem::path json() const { return path_ / "trace.json"; }

 private:
  std::filesystem::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  std::ofstream(folder.json(), std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto trace = mtl::conformance::load_trace(folder.json());
  if (!trace) {
    mtl::fuzz::require(trace.error().message.find("trace.") != std::string::npos,
                       "an error names the file");
  }
  return 0;
}
