#include "link/receiver.h"

#include <algorithm>
#include <bit>

namespace mtl::link {
namespace {

constexpr std::uint8_t kCrcFailuresToPoison = 3;  // L12

}  // namespace

Receiver::Receiver(std::uint16_t window)
    : slots_(std::bit_ceil(window)),
      mask_(static_cast<std::uint16_t>(slots_.size() - 1)),
      window_(window) {}

void Receiver::reset() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  expected_ = horizon_ = Seq{};
  held_ = unlisted_ = 0;
  oldest_bound_ = kNever;
}

Receiver::Place Receiver::place(Seq seq) const {
  if (seq == expected_) return Place::kNext;
  if (seq.before(expected_)) return Place::kBehind;
  if (!seq.in_window(expected_, window_)) return Place::kOutside;
  // Beyond the horizon nothing is held, and slots there may still serve sequence numbers behind E.
  if (!seq.before(horizon_)) return Place::kAhead;
  return slot(seq).content == Content::kNothing ? Place::kAhead : Place::kHeldAlready;
}

void Receiver::extend(Seq horizon) {
  unlisted_ += horizon.since(horizon_);
  horizon_ = horizon;
}

bool Receiver::crc_failed(Seq seq) {
  if (!seq.before(horizon_)) {
    extend(seq + 1);
  } else if (slot(seq).listed) {
    slot(seq).listed = false;
    ++unlisted_;
  }
  return ++slot(seq).crc_failures >= kCrcFailuresToPoison;
}

void Receiver::accept_next() {
  if (expected_ == horizon_) {  // nothing is missing: the slot was never touched
    expected_ += 1;
    horizon_ = expected_;
    return;
  }
  Slot& here = slot(expected_);
  if (!here.listed) --unlisted_;
  here = Slot{};
  expected_ += 1;
}

void Receiver::hold(Seq seq, const Frame& frame) {
  if (!seq.before(horizon_)) extend(seq + 1);
  Slot& here = slot(seq);
  if (!here.listed) --unlisted_;
  here.listed = false;
  here.packet = frame.packet;
  here.cells = frame.cells;
  here.vc = frame.vc;
  here.content = frame.packet == nullptr ? Content::kPoison : Content::kPacket;
  ++held_;
}

bool Receiver::next_held(Frame& frame) {
  if (held_ == 0) return false;
  Slot& here = slot(expected_);
  if (here.content == Content::kNothing) return false;
  frame = {here.packet, here.vc, here.cells};
  here = Slot{};
  --held_;
  expected_ += 1;
  return true;
}

bool Receiver::drain(Frame& frame) {
  if (held_ == 0) return false;
  Seq seq = expected_;
  while (slot(seq).content == Content::kNothing) seq += 1;
  Slot& here = slot(seq);
  frame = {here.packet, here.vc, here.cells};
  here = Slot{};
  --held_;
  return true;
}

void Receiver::peer_next(Seq next) {
  if (horizon_.before(next) && next.since(expected_) <= window_) extend(next);
}

std::size_t Receiver::list_missing(Time now, Duration age, std::span<NackRange> out, bool& more) {
  more = false;
  std::size_t ranges = 0;
  bool open = false;  // whether the last range ends just before `seq`
  for (Seq seq = expected_; seq != horizon_; seq += 1) {
    Slot& here = slot(seq);
    const bool missing = here.content == Content::kNothing;
    if (!missing || (here.listed && now - here.listed_at < age)) {
      open = false;
      continue;
    }
    if (!open && ranges == out.size()) {
      more = true;
      break;
    }
    if (!here.listed) --unlisted_;
    here.listed = true;
    here.listed_at = now;
    oldest_bound_ = std::min(oldest_bound_, now);
    if (open) {
      ++out[ranges - 1].count;
    } else {
      out[ranges++] = {seq, 1};
      open = true;
    }
  }
  return ranges;
}

Time Receiver::oldest_listing() {
  oldest_bound_ = kNever;
  for (Seq seq = expected_; seq != horizon_; seq += 1) {
    const Slot& here = slot(seq);
    if (here.content == Content::kNothing && here.listed) {
      oldest_bound_ = std::min(oldest_bound_, here.listed_at);
    }
  }
  return oldest_bound_;
}

}  // namespace mtl::link
