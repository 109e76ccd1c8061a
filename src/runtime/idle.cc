#include "runtime/idle.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace mtl::runtime {

Duration IdlePolicy::after_pass(bool busy, Time now, Time deadline, bool bells) {
  if (busy) {
    last_work_ = now;
    next_ = config_.first;
    return Duration::zero();
  }
  if (config_.always_poll) return Duration::zero();
  if (last_work_ != Time::min() && now - last_work_ < config_.spin) return Duration::zero();
  if (deadline <= now) return Duration::zero();
  Duration sleep = config_.longest_wait;
  if (!bells) {
    sleep = next_;
    next_ = std::min(next_ * 2, config_.longest);
  }
  // Compared as a difference: kNever less `now` does not overflow, now being positive.
  sleep = std::min(sleep, deadline - now);
  return sleep < config_.least ? Duration::zero() : sleep;
}

Sleeper::Sleeper() : bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (bell_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  reserve(16);
}

Sleeper::~Sleeper() {
  close(bell_);
}

void Sleeper::ring() {
  // asleep_ is changed by read-modify-writes alone, here and in prepare() and cancel(), so they
  // stand in one order, each seeing what was before the last: either this one comes after
  // prepare()'s and finds a sleeper, or prepare()'s comes after this one, and the sleeper sees what
  // was left before it.
  if (!asleep_.exchange(false, std::memory_order_acq_rel)) return;
  const std::uint64_t one = 1;
  // Can fail only if the counter is full, and then the bell rings already.
  [[maybe_unused]] const ssize_t n = write(bell_, &one, sizeof one);
}

bool Sleeper::prepare(std::span<phy::Port* const> ports) {
  polled_.clear();
  polled_.push_back({bell_, POLLIN, 0});
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i]->traits().wake_fd < 0) continue;
    if (!ports[i]->arm()) {
      cancel(ports.first(i + 1));
      return false;
    }
    polled_.push_back({ports[i]->traits().wake_fd, POLLIN, 0});
  }
  asleep_.exchange(true, std::memory_order_acq_rel);
  return true;
}

void Sleeper::cancel(std::span<phy::Port* const> ports) {
  asleep_.exchange(false, std::memory_order_acq_rel);
  for (phy::Port* port : ports) {
    if (port->traits().wake_fd >= 0) port->disarm();
  }
}

void Sleeper::wait(std::span<phy::Port* const> ports, Duration timeout) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec t{static_cast<time_t>(seconds.count()),
                   static_cast<long>((timeout - seconds).count())};
  // An interrupted call is a short sleep: the next pass looks at everything anyhow.
  ppoll(polled_.data(), polled_.size(), &t, nullptr);
  if ((polled_[0].revents & POLLIN) != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(bell_, &count, sizeof count);
  }
  cancel(ports);
}

}  // namespace mtl::runtime
