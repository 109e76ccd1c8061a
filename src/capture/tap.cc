#include "capture/tap.h"

#include <algorithm>
#include <cstring>

#include "base/byte_order.h"

namespace mtl::capture {
namespace {

constexpr std::size_t kTypeAt = 12;

constexpr std::uint64_t record_bytes(std::uint32_t captured) {
  return (sizeof(Record) + captured + kRecordUnit - 1) / kRecordUnit * kRecordUnit;
}
static_assert(4 * record_bytes(kMaxSnap) > Segment::kMinRing &&
              3 * record_bytes(kMaxSnap) <= Segment::kMinRing);

}  // namespace

Tap::Tap(Segment& segment, std::size_t ring, const Filter& filter, std::size_t ports)
    : segment_(segment),
      ring_(ring),
      filter_(filter),
      by_port_(ports, kNoInterface),
      base_(segment.ring(ring)),
      size_(segment.ring_bytes()),
      kept_(kMaxSnap) {}

/// Where `captured` bytes of a frame go, or nullptr: there is no room. The reader's word is only
/// compared: whatever stands there, we write within the ring.
std::byte* Tap::place(std::uint32_t captured) {
  const std::uint64_t bytes = record_bytes(captured);
  const std::uint64_t to_end = size_ - head_ % size_;
  record_ = bytes <= to_end ? head_ : head_ + to_end;
  const std::uint64_t end = record_ + bytes;
  if (end - tail_seen_ > size_) {
    tail_seen_ = segment_.tail(ring_).load(std::memory_order_acquire);
    if (end - tail_seen_ > size_) return nullptr;
  }
  captured_ = captured;
  return base_ + record_ % size_ + sizeof(Record);
}

bool Tap::take(std::span<const std::byte> frame, std::uint16_t ether_type) {
  taken_ = Taken::kUnwanted;
  if (!filter_.in || !filter_.passes(frame, ether_type)) return false;
  length_ = static_cast<std::uint32_t>(frame.size());
  std::byte* const to = place(std::min(length_, filter_.snap));
  taken_ = to == nullptr ? Taken::kNoRoom : Taken::kCopied;
  if (to != nullptr) std::memcpy(to, frame.data(), captured_);
  return true;
}

void Tap::told(std::uint16_t interface, Time at, const Verdict& verdict) {
  put_down(interface, Direction::kIn, at, verdict);
}

void Tap::keep(std::span<const std::byte> frame) {
  kept_length_ = static_cast<std::uint32_t>(frame.size());
  if (filter_.in) std::memcpy(kept_.data(), frame.data(), std::min(frame.size(), kept_.size()));
}

void Tap::kept_told(std::uint16_t interface, std::uint16_t ether_type, Time at,
                    const Verdict& verdict) {
  take(std::span(kept_).first(std::min<std::size_t>(kept_length_, kept_.size())), ether_type);
  length_ = kept_length_;
  told(interface, at, verdict);
}

/// Copies the first bytes of a frame on its way out, as many as `out` has, padding included.
void Tap::copy(const link::FrameOut& frame, std::span<std::byte> out) {
  const auto add = [&out](const std::byte* from, std::size_t bytes) {
    const std::size_t n = std::min(bytes, out.size());
    if (n > 0) std::memcpy(out.data(), from, n);
    out = out.subspan(n);
  };
  add(frame.head.data(), frame.head_length);
  if (frame.packet != nullptr) add(frame.packet->data, frame.packet->length);
  std::fill(out.begin(), out.end(), std::byte{});
}

void Tap::sent(std::uint16_t interface, Time at, const link::FrameOut& frame,
               const Verdict& verdict) {
  taken_ = Taken::kUnwanted;
  if (!filter_.out || (filter_.drops_only && !verdict.dropped())) return;
  static_assert(Filter::kHead <= link::kMinFrame);
  std::array<std::byte, Filter::kHead> head;
  copy(frame, head);
  if (!filter_.passes(head, load16(head.data() + kTypeAt))) return;  // the link's own
  length_ = frame.length();
  std::byte* const to = place(std::min(length_, filter_.snap));
  taken_ = to == nullptr ? Taken::kNoRoom : Taken::kCopied;
  if (to != nullptr) copy(frame, {to, captured_});
  put_down(interface, Direction::kOut, at, verdict);
}

void Tap::put_down(std::uint16_t interface, Direction direction, Time at, const Verdict& verdict) {
  if (taken_ == Taken::kUnwanted || (filter_.drops_only && !verdict.dropped())) return;
  if (taken_ == Taken::kNoRoom) {
    segment_.missed(ring_, interface).store(++missed_[interface], std::memory_order_release);
    return;
  }
  if (record_ != head_) {
    Record filler;
    filler.bytes = static_cast<std::uint32_t>(record_ - head_);
    filler.interface = Record::kFiller;
    std::memcpy(base_ + head_ % size_, &filler, sizeof filler);
  }
  Record record;
  record.bytes = static_cast<std::uint32_t>(record_bytes(captured_));
  record.captured = captured_;
  record.length = length_;
  record.interface = interface;
  record.direction = static_cast<std::uint8_t>(direction);
  record.outcome = static_cast<std::uint8_t>(verdict.outcome);
  record.at = nanos(at);
  record.reasons = verdict.reasons;
  record.missed = missed_[interface];
  std::memcpy(base_ + record_ % size_, &record, sizeof record);
  head_ = record_ + record.bytes;
  segment_.head(ring_).store(head_, std::memory_order_release);
  taken_ = Taken::kUnwanted;
}

}  // namespace mtl::capture
