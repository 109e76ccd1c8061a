#pragma once

#include <atomic>
#include <functional>

#include "base/time.h"

namespace mtl::runtime {

/// Closures that other threads leave for a worker, run between its passes, and their completions,
/// run by the thread that asked. A closure is allocated and freed by the asking side: the worker
/// does neither. In order for each poster.
class Mailbox {
 public:
  using Run = std::function<void(Time now)>;
  using Done = std::function<void()>;

  Mailbox() = default;
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  /// What was not run is dropped; what was not collected too. No other thread may use it any more.
  ~Mailbox();

  /// Leaves `run` for the worker and `done` (may be empty) for collect(). Any thread.
  void post(Run run, Done done);
  /// Whether something waits for the worker: one relaxed load.
  bool pending() const { return posted_.load(std::memory_order_relaxed) != nullptr; }
  /// The worker: runs what waits, in the order of posting; false if nothing did. `told` (may be
  /// empty) is called as soon as a completion waits for collect(), so that a command which does not
  /// return keeps none of those before it back.
  bool run_all(Time now, const Done& told = {});
  /// The asking side (one thread): calls the completions of what was run, in order.
  void collect();

 private:
  struct Command {
    Run run;
    Done done;
    Command* next = nullptr;
  };
  static void push(std::atomic<Command*>& stack, Command* command);
  static Command* take_in_order(std::atomic<Command*>& stack);
  static void free_all(Command* list);

  std::atomic<Command*> posted_{nullptr};  ///< newest first
  std::atomic<Command*> done_{nullptr};    ///< newest first
};

}  // namespace mtl::runtime
