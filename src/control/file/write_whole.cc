#include "control/file/write_whole.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/fd.h"

namespace mtl::control {

namespace fs = std::filesystem;

namespace {

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

/// The file that is to be replaced, at the end of all links; or why it is not.
Result<fs::path> target(const fs::path& file) {
  std::error_code error;
  const fs::file_type kind = fs::status(file, error).type();
  if (kind == fs::file_type::not_found) {
    // Its place would be taken by the file, and what it leads to would still not be there.
    if (fs::is_symlink(fs::symlink_status(file, error))) {
      return unwritable(file, "it is a link to nothing");
    }
    return file;
  }
  if (kind == fs::file_type::directory) return unwritable(file, "it is a folder");
  if (kind == fs::file_type::none) return unwritable(file, error.message());
  if (kind != fs::file_type::regular) return unwritable(file, "it is no regular file");
  fs::path real = fs::canonical(file, error);
  if (error) return unwritable(file, error.message());
  return real;
}

/// 0, or what went wrong.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return ::fsync(fd) == 0 ? 0 : errno;
}

/// A new file with this content, on the disk. 0, or what went wrong.
int create(const fs::path& part, std::string_view text) {
  Fd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return errno;
  const int error = write_all(fd.get(), text);
  // Some file systems tell only here that there is no room.
  if (::close(fd.release()) != 0 && error == 0) return errno;
  return error;
}

/// Brings the names in a folder to the disk. 0, or what went wrong.
int sync_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno;
  // EINVAL: a file system that has nothing to bring there.
  return ::fsync(fd.get()) == 0 || errno == EINVAL ? 0 : errno;
}

}  // namespace

Error unwritable(const fs::path& file, std::string_view why) {
  return Error{file.string() + ": cannot be written: " + std::string(why) +
               "; name a file in a folder that is there and writable"};
}

Result<void> write_whole(const fs::path& file, std::string_view text) {
  const auto real = target(file);
  if (!real) return real.error();
  // Of this process alone; what a killed one of the same number left, or somebody put there, is not
  // written into.
  const fs::path part = real->string() + ".part" + std::to_string(::getpid());
  std::error_code error;
  fs::remove(part, error);
  error.assign(create(part, text), std::generic_category());
  if (!error) fs::rename(part, *real, error);
  if (error) {
    std::error_code ignored;
    fs::remove(part, ignored);
    return unwritable(file, error.message());
  }
  const int lost = sync_folder(real->has_parent_path() ? real->parent_path() : ".");
  if (lost == 0) return {};
  return Error{file.string() +
               ": is written, but may be lost if the machine fails: its folder: " + reason(lost)};
}

}  // namespace mtl::control
