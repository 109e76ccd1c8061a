#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "base/result.h"

namespace mtl::control {

/// The address of the Unix socket at `path`. Error: the path is empty or longer than the kernel
/// takes.
inline Result<sockaddr_un> socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return Error{"the socket path \"" + path + "\" must have 1 to " +
                 std::to_string(sizeof address.sun_path - 1) + " bytes: choose a shorter one"};
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace mtl::control
