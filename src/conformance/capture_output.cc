#include "conformance/capture_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace mtl::conformance {
namespace {

const char* remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "make room, or write smaller files (--file-size, --files)";
    case EPIPE:
    case ECONNRESET:
      return "its reader has ended";
    case ENXIO:
      return "start its reader first";
    default:
      return "write to another file (-w)";
  }
}

Error told(const std::string& name, const char* what, int error) {
  return Error{fmt::format("{}: {}: {}; {}", name, what, std::strerror(error), remedy(error))};
}

Error there_already(const std::string& name) {
  return Error{fmt::format(
      "{}: is there already; write to another file (-w), or replace it (--overwrite)", name)};
}

Result<Fd> make_file(const std::string& name) {
  Fd fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd && errno == EEXIST) return there_already(name);
  if (!fd) return told(name, "cannot be written", errno);
  return fd;
}

/// Without waiting for the reader of a pipe, and never to be truncated: should it have become a
/// file meanwhile, it is not ours.
Result<Fd> open_as_it_is(const std::string& name) {
  Fd fd(::open(name.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return told(name, "cannot be written", errno);
  if (S_ISREG(status.st_mode)) return there_already(name);
  return fd;
}

Result<Fd> open_path(const std::string& name, bool replace) {
  struct stat itself {};
  if (::lstat(name.c_str(), &itself) != 0) {
    if (errno != ENOENT) return told(name, "cannot be written", errno);
    return make_file(name);
  }
  struct stat target = itself;
  // One that leads nowhere counts as one to a file: what would be made there, nobody asked for.
  const bool link = S_ISLNK(itself.st_mode);
  const bool to_file = link && (::stat(name.c_str(), &target) != 0 || S_ISREG(target.st_mode));
  if (to_file) {
    return Error{fmt::format("{}: is a symbolic link; name the file itself (-w)", name)};
  }
  if (!S_ISREG(target.st_mode)) return open_as_it_is(name);
  if (!replace) return there_already(name);
  if (::unlink(name.c_str()) != 0 && errno != ENOENT) {
    return told(name, "cannot be replaced", errno);
  }
  return make_file(name);
}

}  // namespace

CaptureOutput::CaptureOutput(std::string name, Fd fd, Wait wait)
    : name_(std::move(name)), fd_(std::move(fd)), wait_(std::move(wait)) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) return;
  if (S_ISREG(status.st_mode)) kind_ = Kind::kFile;
  if (S_ISSOCK(status.st_mode)) kind_ = Kind::kSocket;
}

Result<CaptureOutput> CaptureOutput::open(const std::filesystem::path& path, bool replace,
                                          Wait wait) {
  if (path == "-") {
    Fd fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!fd) return told("standard output", "cannot be written", errno);
    return CaptureOutput("standard output", std::move(fd), std::move(wait));
  }
  auto fd = open_path(path.string(), replace);
  if (!fd) return fd.error();
  return CaptureOutput(path.string(), std::move(*fd), std::move(wait));
}

bool CaptureOutput::takes_some() const {
  pollfd entry{fd_.get(), POLLOUT, 0};
  return ::poll(&entry, 1, 0) > 0;
}

/// Never waits: O_NONBLOCK would hold for everybody who has our standard output, so a pipe gets
/// what it has room for when poll() says that it has any.
std::ptrdiff_t CaptureOutput::put(std::span<const std::byte> bytes) const {
  switch (kind_) {
    case Kind::kFile:
      return ::write(fd_.get(), bytes.data(), bytes.size());
    case Kind::kSocket:
      return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    case Kind::kOther:
      break;
  }
  return ::write(fd_.get(), bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
}

Result<void> CaptureOutput::write(std::span<const std::byte> bytes, std::size_t& done) {
  done = 0;
  while (done < bytes.size()) {
    if (kind_ != Kind::kFile && !takes_some()) {
      if (wait_ && !wait_(fd_.get())) {
        return Error{fmt::format(
            "{}: cannot be written completely: its reader takes nothing any more; end that",
            name_)};
      }
      continue;
    }
    const std::ptrdiff_t n = put(bytes.subspan(done));
    if (n >= 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno != EINTR && errno != EAGAIN) {
      return fault("cannot be written completely");
    }
  }
  return {};
}

Result<void> CaptureOutput::cut(std::uint64_t bytes) {
  const auto end = static_cast<off_t>(bytes);
  if (::ftruncate(fd_.get(), end) != 0 || ::lseek(fd_.get(), end, SEEK_SET) != end) {
    return fault("cannot be shortened");
  }
  return {};
}

Result<void> CaptureOutput::close() {
  if (::close(fd_.release()) != 0) return fault("cannot be written completely");
  return {};
}

Error CaptureOutput::fault(const char* what) const {
  return told(name_, what, errno);
}

}  // namespace mtl::conformance
