#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "base/counter.h"
#include "runtime/clock.h"
#include "runtime/idle.h"
#include "runtime/mailbox.h"
#include "runtime/shard_loop.h"

namespace mtl::runtime {

/// What a worker holds of tables that another thread replaces (RCU): told when it may look at them
/// and when it must have let go. Called by the worker's thread.
class Gate {
 public:
  /// A pass begins: everything held from earlier passes has been let go; take what is current.
  virtual void enter() = 0;
  /// Nothing is held until awake() returns and the next enter(): before sleeping, and at the end.
  virtual void rest() = 0;
  /// After rest(); enter() follows. Also called once before the first enter().
  virtual void awake() = 0;

 protected:
  ~Gate() = default;
};

/// Where a worker's time went. One writer: the worker.
struct WorkerCounters {
  Counter loops;       ///< passes
  Counter busy_ticks;  ///< of passes that did something
  Counter idle_ticks;  ///< of passes that did nothing, and of getting ready to sleep
  Counter sleep_ns;
  Counter sleeps;
};

/// One thread's life with a shard: passes, commands between them, sleep when there is nothing to
/// do. Whoever has a thread calls run() on it (an EAL lcore, a std::thread). Other threads talk to
/// it by post(), ring() and stop() alone.
class Worker {
 public:
  /// `loop`, `clock`, `gate` (may be nullptr) outlive the worker.
  Worker(const IdleConfig& idle, ShardLoop& loop, const Clock& clock, Gate* gate = nullptr);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Works until stop(). What was posted before stop() is run before it returns.
  void run();
  /// Ends run() after the pass in hand. Any thread.
  void stop();

  /// Has `run` called on the worker's thread between two passes, with the clock's time, then `done`
  /// (may be empty) by collect(). Any thread.
  void post(Mailbox::Run run, Mailbox::Done done = {});
  /// Calls completions; the one thread that cares for them.
  void collect() { mailbox_.collect(); }
  /// Told on the worker's thread when completions wait for collect(), of each command. Set before
  /// run().
  void on_done(std::function<void()> notify) { notify_ = std::move(notify); }
  /// Wakes it if it sleeps: something was left in a ring. Any thread.
  void ring() { sleeper_.ring(); }

  const WorkerCounters& counters() const { return counters_; }
  /// Whether it sleeps, and was not rung since it fell asleep. Any thread.
  bool asleep() const { return sleeper_.asleep(); }

  /// From the next pass on measures where a pass's time goes, from nothing (ShardLoop::stages()),
  /// or not any more, which leaves what was measured. In a command, or before run().
  void measure(bool on);
  /// In a command.
  bool measuring() const { return measuring_; }

 private:
  bool pass(Time now, std::uint64_t began) {
    return measuring_ ? loop_.measured_pass(now, ticks_, began) : loop_.pass(now);
  }
  void sleep(Duration longest);

  ShardLoop& loop_;
  const Clock& clock_;
  Gate* gate_;
  IdlePolicy idle_;
  Sleeper sleeper_;
  Mailbox mailbox_;
  std::function<void()> notify_;
  WorkerCounters counters_;
  const TickSource ticks_;
  bool measuring_ = false;
  std::atomic<bool> stop_{false};
};

}  // namespace mtl::runtime
