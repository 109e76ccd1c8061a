#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace mtl::control {

/// What a listening socket is for.
struct SocketKind {
  int type;           ///< SOCK_STREAM or SOCK_SEQPACKET
  const char* what;   ///< for sentences: "control socket"
  const char* field;  ///< of the configuration, that names it
  const char* taken;  ///< who is there if somebody is: "another mtswitchd runs there"
};
extern const SocketKind kControlSocket;

/// A Unix socket that listens at a path which only its owner may open (mode 0600). The path
/// is removed by remove() and the destructor, if it is still this socket's.
class ListeningSocket {
 public:
  /// Makes the last directory of `path` (0700) if it is missing, removes the socket that a killed
  /// process left there, binds and listens. Errors: somebody listens there already; the path is
  /// too long, not a socket, or not writable; everyone may write the directory.
  static Result<ListeningSocket> open(const std::string& path,
                                      const SocketKind& kind = kControlSocket);

  ListeningSocket(ListeningSocket&& other) noexcept;
  ListeningSocket& operator=(ListeningSocket&&) = delete;
  ~ListeningSocket() { remove(); }

  /// Gives the descriptor away; the path stays this object's, to be removed before the descriptor
  /// is closed (then the inode that tells whose path it is may be another's).
  int release() { return fd_.release(); }
  void remove();
  const std::string& path() const { return path_; }

 private:
  ListeningSocket(std::string path, Fd fd, dev_t device, ino_t inode)
      : path_(std::move(path)), fd_(std::move(fd)), device_(device), inode_(inode) {}

  std::string path_;
  Fd fd_;
  dev_t device_;
  ino_t inode_;
};

}  // namespace mtl::control
