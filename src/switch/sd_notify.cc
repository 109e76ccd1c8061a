#include "switch/sd_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace mtl::switchd {

Result<void> sd_notify(std::string_view state) {
  const char* const name = std::getenv("NOTIFY_SOCKET");
  if (name == nullptr || *name == '\0') return {};
  const std::size_t length = std::strlen(name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((name[0] != '/' && name[0] != '@') || length >= sizeof address.sun_path) {
    return Error{"NOTIFY_SOCKET is \"" + std::string(name) +
                 "\": it must be an absolute path or @name that fits a socket address"};
  }
  std::memcpy(address.sun_path, name, length);
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error{std::string("cannot make a socket for sd_notify: ") + strerror(errno)};
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  const ssize_t sent = sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), size);
  const int failure = errno;
  close(fd);
  if (sent < 0) {
    return Error{"cannot tell the service manager at " + std::string(name) + ": " +
                 strerror(failure)};
  }
  return {};
}

}  // namespace mtl::switchd
