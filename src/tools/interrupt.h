#pragma once

#include <poll.h>

#include <chrono>
#include <csignal>
#include <span>

#include "base/fd.h"

namespace mtl::tools {

/// Takes SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP as long as it lives, so that a
/// long command ends with its summary, also when its terminal is gone.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  /// Waits for `time`, or until one of `others` has something to tell, as poll() does, which fills
  /// in what; true at once when a signal has come, which stays until it is taken.
  bool wait(std::chrono::nanoseconds time, std::span<pollfd> others = {}) const;
  /// Takes a signal that has come, so that the next one can be waited for; false: none has.
  bool take() const;

 private:
  sigset_t before_{};
  Fd fd_;
};

}  // namespace mtl::tools
