#include "capture/collector.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "capture/tap.h"
#include "link/codec.h"

namespace mtl::capture {

void add_tag(std::span<const std::byte> frame, VlanId vlan, Direction direction,
             std::vector<std::byte>& out, std::size_t& length) {
  constexpr std::size_t kAddresses = 12;
  constexpr std::size_t kBodyLength = link::kEthernetHeader + 2;
  if (frame.size() < kAddresses) {  // cut short: no place for a tag
    out.assign(frame.begin(), frame.end());
    length += link::kVlanTag;
    return;
  }
  out.assign(frame.begin(), frame.begin() + kAddresses);
  out.resize(kAddresses + link::kVlanTag);
  store16(out.data() + kAddresses, link::kVlanEtherType);
  store16(out.data() + kAddresses + 2, vlan.value());
  out.insert(out.end(), frame.begin() + kAddresses, frame.end());
  // P4: 60 bytes, the tag included.
  if (direction == Direction::kOut && length == link::kMinFrame &&
      frame.size() >= kBodyLength + 2) {
    const std::size_t content = link::kFrameHeader + load16(frame.data() + kBodyLength);
    length = std::max(link::kMinFrame, content + link::kVlanTag);
    out.resize(std::min(out.size(), length));
  } else {
    length += link::kVlanTag;
  }
}

Collector::Collector(std::unique_ptr<Segment> segment)
    : segment_(std::move(segment)),
      tails_(segment_->rings(), 0),
      missed_(segment_->rings(), std::vector<std::uint64_t>(Segment::kMaxInterfaces, 0)) {}

std::uint64_t Collector::missed(std::size_t interface) const {
  std::uint64_t sum = 0;
  for (std::size_t ring = 0; ring < segment_->rings(); ++ring) {
    const std::uint64_t now =
        ends_.empty() ? segment_->missed(ring, interface).load(std::memory_order_relaxed)
                      : ends_[ring].missed[interface];
    // A frame behind them may have been put down between these words and the head.
    sum += std::max(now, missed_[ring][interface]);
  }
  return sum;
}

/// First how many were missed, then how far the ring is: those that are counted were missed before
/// the last frame, or behind it before anything else was put down.
void Collector::freeze() {
  if (!ends_.empty()) return;
  ends_.resize(segment_->rings());
  for (std::size_t ring = 0; ring < ends_.size(); ++ring) {
    End& end = ends_[ring];
    for (std::size_t i = 0; i < Segment::kMaxInterfaces; ++i) {
      end.missed.push_back(segment_->missed(ring, i).load(std::memory_order_acquire));
    }
    end.head = segment_->head(ring).load(std::memory_order_acquire);
  }
}

Result<std::uint64_t> Collector::gather() {
  std::uint64_t found = 0;
  for (std::size_t ring = 0; ring < segment_->rings(); ++ring) {
    const auto of_ring = gather(ring);
    if (!of_ring) return of_ring.error();
    found += *of_ring;
  }
  return found;
}

Result<std::uint64_t> Collector::gather(std::size_t ring) {
  const Error wrong{
      "capture: a record in the memory shared with mtswitchd is not right; use an mtctl of its "
      "version"};
  const std::uint64_t size = segment_->ring_bytes();
  const std::byte* const base = segment_->ring(ring);
  std::uint64_t& tail = tails_[ring];
  const std::uint64_t head =
      ends_.empty() ? segment_->head(ring).load(std::memory_order_acquire) : ends_[ring].head;
  const std::uint64_t found = head - tail;
  if (found > size || found % kRecordUnit != 0) return wrong;
  std::vector<std::byte>& store = stores_[store_];
  while (tail != head) {
    Held held;
    std::memcpy(&held.record, base + tail % size, sizeof(Record));
    const Record& record = held.record;
    if (record.bytes < kRecordUnit || record.bytes % kRecordUnit != 0 ||
        record.bytes > std::min(head - tail, size - tail % size)) {
      return wrong;
    }
    if (record.interface != Record::kFiller) {
      while (known_.size() < segment_->interfaces()) {
        known_.push_back(segment_->interface(known_.size()));
      }
      if (record.captured > record.bytes - sizeof(Record) || record.interface >= known_.size()) {
        return wrong;
      }
      const std::byte* const bytes = base + tail % size + sizeof(Record);
      held.at = store.size();
      held.store = store_;
      held.delta = record.missed - std::exchange(missed_[ring][record.interface], record.missed);
      store.insert(store.end(), bytes, bytes + record.captured);
      held_.push_back(held);
    }
    tail += record.bytes;
    // At once: the worker may have use for it.
    segment_->tail(ring).store(tail, std::memory_order_release);
  }
  return found;
}

/// Puts in order what is held; how many of it can be given.
std::size_t Collector::sort() {
  std::stable_sort(held_.begin(), held_.end(),
                   [](const Held& a, const Held& b) { return a.record.at < b.record.at; });
  const auto last =
      std::find_if(held_.rbegin(), held_.rend(), [](const Held& held) { return held.old; });
  return static_cast<std::size_t>(held_.rend() - last);
}

Captured Collector::frame(const Held& held) {
  const Record& record = held.record;
  Captured out;
  out.interface = record.interface;
  out.direction = record.direction == static_cast<std::uint8_t>(Direction::kOut) ? Direction::kOut
                                                                                 : Direction::kIn;
  out.verdict = {static_cast<Outcome>(record.outcome), record.reasons};
  out.at = Time{Duration{record.at}};
  out.missed = held.delta;
  out.length = record.length;
  out.bytes = std::span<const std::byte>(stores_[held.store]).subspan(held.at, record.captured);
  const VlanId vlan = known_[record.interface].vlan;
  if (vlan != VlanId{}) {
    add_tag(out.bytes, vlan, out.direction, tagged_, out.length);
    out.bytes = tagged_;
  }
  return out;
}

/// What remains is all of this sweep: the other store is free.
void Collector::forget(std::size_t given) {
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(given));
  for (Held& held : held_) held.old = true;
  store_ ^= 1;
  stores_[store_].clear();
}

}  // namespace mtl::capture
