#include "tools/mtreplay/run_delay.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace mtl::tools {

Duration run_delay(pid_t pid) {
  Duration sum{};
  std::error_code error;
  std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", pid), error);
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::ifstream in(task->path() / "schedstat");
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    if (in >> ran >> waited) sum += Duration{waited};
  }
  return sum;
}

}  // namespace mtl::tools
