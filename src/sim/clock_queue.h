#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace mtl::sim {

/// Whoever waits for an instant of virtual time. It outlives what it scheduled. Events are not
/// cancelled: one that has lost its meaning is ignored by its target.
class EventTarget {
 public:
  /// `what` is as given to ClockQueue::at(); the target's own.
  virtual void on_event(Time now, std::uint64_t what) = 0;

 protected:
  ~EventTarget() = default;
};

/// Virtual time: events in the order of their instants, and of being scheduled when at the same
/// one, so that a run depends on nothing but its seed. One thread.
class ClockQueue {
 public:
  Time now() const { return now_; }

  /// Calls target.on_event(when, what) at `when`, which is not before now().
  void at(Time when, EventTarget& target, std::uint64_t what);

  /// Runs the next event; false if there is none, or none at or before `until` (now() is then
  /// `until`, unless it never comes).
  bool step(Time until = kNever);

  bool empty() const { return heap_.empty(); }
  std::size_t pending() const { return heap_.size(); }
  std::uint64_t executed() const { return executed_; }

 private:
  struct Event {
    Time when;
    std::uint64_t order;
    EventTarget* target;
    std::uint64_t what;
  };
  struct Later {  // a type of its own, so that the heap's algorithms see into it
    bool operator()(const Event& a, const Event& b) const {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };

  Time now_{};
  std::uint64_t order_ = 0;
  std::uint64_t executed_ = 0;
  std::vector<Event> heap_;
};

/// The wake-ups of a target that wants to be called at the earliest of many instants. Timers move
/// with every frame; only an instant earlier than all that are set already takes a new event, so
/// few are ever pending. An event may come early: the target then sets the alarm anew.
class Alarm {
 public:
  Alarm(ClockQueue& queue, EventTarget& target, std::uint64_t what)
      : queue_(queue), target_(target), what_(what) {}
  /// Makes sure that an event comes at `when` or before.
  void set(Time when) {
    if (when == kNever || (!set_.empty() && set_.back() <= when)) return;
    set_.push_back(when);
    queue_.at(when, target_, what_);
  }
  /// To be called first when the event comes.
  void fired() { set_.pop_back(); }

 private:
  ClockQueue& queue_;
  EventTarget& target_;
  std::uint64_t what_;
  std::vector<Time> set_;  ///< each earlier than the one before it
};

}  // namespace mtl::sim
