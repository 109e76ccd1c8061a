#include "tools/interrupt.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace mtl::tools {

Interrupt::Interrupt() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  struct sigaction hang_up {};
  const bool known = ::sigaction(SIGHUP, nullptr, &hang_up) == 0;
  if (known && hang_up.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  fd_.reset(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

Interrupt::~Interrupt() {
  // The signals were the command's to take: unblocked, one would kill us before the exit status is
  // told.
  while (take()) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool Interrupt::wait(std::chrono::nanoseconds time, std::span<pollfd> others) const {
  const auto left = std::max(time, std::chrono::nanoseconds(0));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  std::vector<pollfd> entries(others.begin(), others.end());
  entries.push_back({fd_.get(), POLLIN, 0});
  if (::ppoll(entries.data(), entries.size(), &limit, nullptr) <= 0) return false;
  std::copy_n(entries.begin(), others.size(), others.begin());
  return entries.back().revents != 0;
}

bool Interrupt::take() const {
  signalfd_siginfo taken{};
  return ::read(fd_.get(), &taken, sizeof taken) > 0;
}

}  // namespace mtl::tools
