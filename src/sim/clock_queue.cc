#include "sim/clock_queue.h"

#include <algorithm>
#include <cassert>

namespace mtl::sim {

void ClockQueue::at(Time when, EventTarget& target, std::uint64_t what) {
  assert(when >= now_);
  heap_.push_back({when, order_++, &target, what});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
}

bool ClockQueue::step(Time until) {
  if (heap_.empty() || heap_.front().when > until) {
    if (until != kNever) now_ = std::max(now_, until);
    return false;
  }
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.when;
  ++executed_;
  event.target->on_event(now_, event.what);
  return true;
}

}  // namespace mtl::sim
