#include "conformance/time_sorter.h"

#include <algorithm>

namespace mtl::conformance {

/// Of one time: as the file has them.
bool TimeSorter::later(const Held& a, const Held& b) {
  return a.record.at != b.record.at ? a.record.at > b.record.at : a.record.number > b.record.number;
}

void TimeSorter::hold(const CaptureRecord& record) {
  Held held;
  if (!spare_.empty()) {
    held.bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  bytes_ -= held.bytes.capacity();
  held.bytes.assign(record.bytes.begin(), record.bytes.end());
  bytes_ += held.bytes.capacity();
  while (bytes_ > kMostBytes && !spare_.empty()) {
    bytes_ -= spare_.back().capacity();
    spare_.pop_back();
  }
  held.record = record;
  held.record.bytes = held.bytes;
  if (record.at < given_) ++unsorted_;
  newest_ = std::max(newest_, record.at);
  heap_.push_back(std::move(held));
  std::push_heap(heap_.begin(), heap_.end(), later);
}

bool TimeSorter::ripe() const {
  if (heap_.empty()) return false;
  return heap_.size() > kMostRecords || bytes_ > kMostBytes ||
         newest_ - heap_.front().record.at > kReach;
}

TimeSorter::Held TimeSorter::take() {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  Held held = std::move(heap_.back());
  heap_.pop_back();
  given_ = std::max(given_, held.record.at);
  return held;
}

void TimeSorter::put_back(Held held) {
  if (bytes_ > kMostBytes) {
    bytes_ -= held.bytes.capacity();
  } else {
    spare_.push_back(std::move(held.bytes));
  }
}

}  // namespace mtl::conformance
