#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/time.h"
#include "phy/port.h"

namespace mtl::runtime {

/// How a worker idles.
struct IdleConfig {
  bool always_poll = false;                         ///< never sleep
  Duration spin = std::chrono::microseconds(50);    ///< polls so long after the last work
  Duration first = std::chrono::microseconds(50);   ///< the first sleep, where no doorbell wakes
  Duration longest = std::chrono::milliseconds(2);  ///< what it grows to, doubling
  Duration longest_wait = std::chrono::seconds(1);  ///< with doorbells, and no deadline before
  Duration least = std::chrono::microseconds(20);   ///< shorter sleeps cost more than polling
};

/// Decides after each pass whether the worker polls on or sleeps, and for how long. Sans I/O.
class IdlePolicy {
 public:
  explicit IdlePolicy(const IdleConfig& config) : config_(config), next_(config.first) {}

  /// `busy`: the pass did something; `now`: its time; `deadline`: the next timer; `bells`: whatever
  /// may come rings a bell, so that a sleep ends with it. Zero: poll on. Else sleep for at most so
  /// long.
  Duration after_pass(bool busy, Time now, Time deadline, bool bells);

 private:
  IdleConfig config_;
  Duration next_;
  Time last_work_ = Time::min();
};

/// Where a worker sleeps: on the doorbells of its ports and on a bell of its own that other threads
/// ring. One sleeping thread; ring() from any thread.
///
/// No wake-up is lost: the sleeper announces itself (prepare()), then looks once more at everything
/// that others may have left for it, and only then wait()s; who leaves something does so first and
/// rings then.
class Sleeper {
 public:
  Sleeper();
  ~Sleeper();
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  /// Wakes the sleeper if it sleeps or is about to; one atomic exchange otherwise. Any thread.
  void ring();

  /// Announces the sleep and arms the ports' doorbells. False: a port has frames, do not sleep
  /// (everything is disarmed again). True: wait() or cancel() must follow.
  bool prepare(std::span<phy::Port* const> ports);
  /// Sleeps until a bell rings or `timeout` has passed; then disarms.
  void wait(std::span<phy::Port* const> ports, Duration timeout);
  /// Takes prepare() back.
  void cancel(std::span<phy::Port* const> ports);

  /// Makes room for the doorbells of so many ports, so that prepare() allocates nothing.
  void reserve(std::size_t ports) { polled_.reserve(ports + 1); }
  bool asleep() const { return asleep_.load(std::memory_order_relaxed); }

 private:
  int bell_ = -1;
  std::atomic<bool> asleep_{false};
  std::vector<pollfd> polled_;
};

}  // namespace mtl::runtime
