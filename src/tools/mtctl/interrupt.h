#pragma once

#include <chrono>
#include <csignal>

#include "base/fd.h"

namespace mtl::tools {

/// Takes SIGINT and SIGTERM as long as it lives, so that a long command ends with its summary.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  /// Waits for `time`; true at once when a signal has come.
  bool wait(std::chrono::nanoseconds time) const;

 private:
  sigset_t before_{};
  Fd fd_;
};

}  // namespace mtl::tools
