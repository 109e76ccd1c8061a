#include "tools/mtctl/interrupt.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <algorithm>

namespace mtl::tools {

Interrupt::Interrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  fd_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

Interrupt::~Interrupt() {
  // The signal was the command's to take: unblocked, it would kill us before the exit status is
  // told.
  if (signalfd_siginfo taken{}; wait({})) (void)!::read(fd_.get(), &taken, sizeof taken);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupt::wait(std::chrono::nanoseconds time) const {
  const auto left = std::max(time, std::chrono::nanoseconds(0));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  pollfd entry{fd_.get(), POLLIN, 0};
  return ::ppoll(&entry, 1, &limit, nullptr) > 0;
}

}  // namespace mtl::tools
