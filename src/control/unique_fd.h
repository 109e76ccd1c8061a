#pragma once

#include <unistd.h>

#include <utility>

namespace mtl::control {

/// A file descriptor that is closed with its owner. Movable; -1 is none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// Gives the descriptor away: the caller closes it.
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (const int old = std::exchange(fd_, fd); old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace mtl::control
