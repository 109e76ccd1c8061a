#include "control/socket_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "control/socket_address.h"

namespace mtl::control {
namespace {

constexpr int kBacklog = 16;
constexpr mode_t kOwnerOnly = 0600;
constexpr int kLockTries = 2000;
constexpr std::chrono::milliseconds kLockNap{1};

Error errno_error(const std::string& what, const std::string& remedy) {
  return Error{fmt::format("{}: {}; {}", what, std::strerror(errno), remedy)};
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string elsewhere(const SocketKind& kind) {
  return fmt::format("set {} to another path", kind.field);
}

/// Opens the socket's directory, made if missing, and locks it: two that start at once must not
/// remove each other's fresh socket as stale. The lock is held for the few calls of open() alone.
Result<Fd> lock_directory(const std::string& directory, const SocketKind& kind) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return errno_error(fmt::format("cannot make the directory {} for the {}", directory, kind.what),
                       "make it, or " + elsewhere(kind));
  Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0)
    return errno_error(fmt::format("cannot open the directory {} of the {}", directory, kind.what),
                       elsewhere(kind));
  if ((status.st_mode & S_IWOTH) != 0 && (status.st_mode & S_ISVTX) == 0)
    return Error{fmt::format("everyone may write the directory {} of the {}: chmod o-w it, or {}",
                             directory, kind.what, elsewhere(kind))};
  for (int i = 0; i < kLockTries; ++i) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    std::this_thread::sleep_for(kLockNap);
  }
  return errno_error(fmt::format("cannot lock the directory {} of the {}", directory, kind.what),
                     "start again, or " + elsewhere(kind));
}

/// Removes the socket that a killed process left at `path`. Error: it is alive, or no socket.
Result<void> remove_stale(const std::string& path, const sockaddr_un& address,
                          const SocketKind& kind) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return errno_error(fmt::format("cannot look at {}", path), elsewhere(kind));
  }
  if (!S_ISSOCK(status.st_mode))
    return Error{fmt::format("{} is there already and is no socket: remove it, or {}", path,
                             elsewhere(kind))};
  // Non-blocking: a live server whose backlog is full says EAGAIN instead of making us wait.
  Fd probe(::socket(AF_UNIX, kind.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return errno_error("cannot make a socket", "raise the limit of open files");
  const auto* target = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(probe.get(), target, sizeof address) == 0 || errno == EAGAIN)
    return Error{
        fmt::format("{}: it answers on {}; stop it, or {}", kind.taken, path, elsewhere(kind))};
  if (errno != ECONNREFUSED)
    return errno_error(fmt::format("cannot tell whether somebody listens on {}", path),
                       "remove it, or " + elsewhere(kind));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return errno_error(fmt::format("cannot remove the stale socket {}", path),
                       "remove it, or " + elsewhere(kind));
  return {};
}

}  // namespace

const SocketKind kControlSocket{SOCK_STREAM, "control socket", "control.socket",
                                "another mtswitchd runs there"};

Result<ListeningSocket> ListeningSocket::open(const std::string& path, const SocketKind& kind) {
  const auto address = socket_address(path);
  if (!address) return address.error();
  const auto lock = lock_directory(directory_of(path), kind);
  if (!lock) return lock.error();
  if (const auto stale = remove_stale(path, *address, kind); !stale) return stale.error();

  Fd fd(::socket(AF_UNIX, kind.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("cannot make a socket", "raise the limit of open files");
  // Linux gives a socket's mode, less the umask, to the path at bind(). So it is owner-only from
  // its first instant, without touching the umask, which belongs to all threads.
  if (::fchmod(fd.get(), kOwnerOnly) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return errno_error(fmt::format("cannot bind the {} {}", kind.what, path),
                       fmt::format("set {} to a path that this user may write", kind.field));
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    auto error =
        errno_error(fmt::format("cannot listen on the {} {}", kind.what, path), elsewhere(kind));
    ::unlink(path.c_str());
    return error;
  }
  return ListeningSocket(path, std::move(fd), status.st_dev, status.st_ino);
}

ListeningSocket::ListeningSocket(ListeningSocket&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      fd_(std::move(other.fd_)),
      device_(other.device_),
      inode_(other.inode_) {}

void ListeningSocket::remove() {
  if (path_.empty()) return;
  struct stat status {};
  // Somebody may have put another socket there since.
  if (::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_)
    ::unlink(path_.c_str());
  path_.clear();
}

}  // namespace mtl::control
