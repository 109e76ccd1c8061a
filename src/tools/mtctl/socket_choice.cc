#include "tools/mtctl/socket_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace mtl::tools {

Result<std::string> choose_socket(const std::string& asked, const char* environment,
                                  const std::string& directory) {
  namespace fs = std::filesystem;
  if (!asked.empty()) return asked;
  if (environment != nullptr && *environment != '\0') return std::string(environment);

  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error))
    if (std::error_code ignored; entry->is_socket(ignored)) found.push_back(entry->path().string());
  if (error && error != std::errc::no_such_file_or_directory)
    return Error{
        fmt::format("cannot look for a control socket in {}: {}; name one with -s or MTLINK_SOCKET",
                    directory, error.message())};
  if (found.size() == 1) return found.front();
  if (found.empty())
    return Error{fmt::format(
        "no mtswitchd runs here, {} has no control socket: start one, or name its socket "
        "with -s or MTLINK_SOCKET",
        directory)};
  std::sort(found.begin(), found.end());
  return Error{fmt::format("several mtswitchd run here: choose one with -s or MTLINK_SOCKET: {}",
                           fmt::join(found, ", "))};
}

}  // namespace mtl::tools
