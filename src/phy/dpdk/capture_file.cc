#include "phy/dpdk/capture_file.h"

#include <fcntl.h>
#include <pcap/pcap.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/fd.h"

namespace mtl::phy {
namespace {

Error there_already(const std::string& path) {
  return Error{"capture file " + path +
               " is there already: move it away, or allow `overwrite: true`"};
}

Error cannot_be_made(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string directory = file.has_parent_path() ? file.parent_path().string() : ".";
  return Error{"capture file " + path + " cannot be made in " + directory + " (" +
               std::strerror(errno) + "): name a directory that this user may write"};
}

}  // namespace

Result<void> readable_capture(const std::string& path) {
  // Opening a pipe would wait for a writer, and reading it take away what is for the port.
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    return Error{"capture file " + path +
                 " cannot be read: it is no file; name a file in the format of tcpdump"};
  char why[PCAP_ERRBUF_SIZE] = "";
  const std::unique_ptr<pcap_t, void (*)(pcap_t*)> capture(pcap_open_offline(path.c_str(), why),
                                                           pcap_close);
  if (capture == nullptr)
    return Error{"capture file " + path + " cannot be read: " + why +
                 "; name a file in the format of tcpdump"};
  if (pcap_datalink(capture.get()) != DLT_EN10MB)
    return Error{"capture file " + path + " has no Ethernet frames but those of link type " +
                 std::to_string(pcap_datalink(capture.get())) +
                 ": capture on an Ethernet interface"};
  return {};
}

Result<void> writable_capture(const std::string& path, bool overwrite) {
  std::error_code ignored;
  const std::filesystem::path file(path);
  if (std::filesystem::exists(file, ignored)) {
    if (!overwrite) return there_already(path);
    if (std::filesystem::is_regular_file(file, ignored) && ::access(path.c_str(), W_OK) == 0)
      return {};
    return Error{"capture file " + path +
                 " cannot be overwritten: it is no file, or may not be "
                 "written by this user"};
  }
  const std::string directory = file.has_parent_path() ? file.parent_path().string() : ".";
  if (::access(directory.c_str(), W_OK | X_OK) == 0) return {};
  return cannot_be_made(path);
}

Result<MadeCapture> make_capture(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat status {};
  if (fd && ::fstat(fd.get(), &status) == 0) return MadeCapture{path, status.st_dev, status.st_ino};
  return errno == EEXIST ? there_already(path) : cannot_be_made(path);
}

void remove_capture(const MadeCapture& made) {
  struct stat status {};
  if (::lstat(made.path.c_str(), &status) != 0) return;
  if (status.st_dev == made.device && status.st_ino == made.inode) ::unlink(made.path.c_str());
}

}  // namespace mtl::phy
