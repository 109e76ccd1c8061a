#include "transport/receive_flow.h"

#include <cassert>
#include <cstring>

namespace mtl::transport {
namespace {

/// `held` saturates below kHeldNone (T18).
constexpr std::uint32_t kLongestHeld = kHeldNone - 1;

}  // namespace

HeldPool::HeldPool(std::uint32_t packets, std::uint16_t mtu)
    : memory_(new std::byte[std::size_t{packets} * mtu]), packets_(packets) {
  free_.reserve(packets);
  for (std::size_t i = packets; i != 0; --i) {
    packets_[i - 1].body = memory_.get() + (i - 1) * mtu;
    free_.push_back(&packets_[i - 1]);
  }
}

HeldPacket* HeldPool::take(std::span<const std::byte> body) {
  if (free_.empty()) return nullptr;
  HeldPacket* packet = free_.back();
  free_.pop_back();
  std::memcpy(packet->body, body.data(), body.size());
  packet->size = static_cast<std::uint16_t>(body.size());
  return packet;
}

ReceiveFlow::ReceiveFlow(const Settings& settings, HeldPool& pool)
    : settings_(settings),
      pool_(pool),
      held_(std::size_t{1} << settings.window),
      mask_((std::uint32_t{1} << settings.window) - 1) {}

void ReceiveFlow::start(Psn first) {
  expected_ = first;
  limit_ = first + (std::uint32_t{1} << settings_.window);
  last_ = Psn{};
  any_ = false;
  marks_ = Marks{};
  untold_ = 0;
  due_ = false;
  assert(beyond_ == 0);
}

void ReceiveFlow::clear() {
  for (; beyond_ != 0; expected_ += 1) {
    if (!bit(expected_)) continue;
    flip(expected_);
    --beyond_;
    HeldPacket*& held = held_[expected_.value() & mask_];
    if (held != nullptr) pool_.give(held);
    held = nullptr;
  }
}

std::uint32_t ReceiveFlow::held(Time now) const {
  if (!any_) return kHeldNone;
  const auto ns = static_cast<std::uint64_t>((now - last_at_).count());
  return ns < kLongestHeld ? static_cast<std::uint32_t>(ns) : kLongestHeld;
}

ReceiveFlow::Place ReceiveFlow::place(Psn psn) const {
  if (psn.before(expected_)) return Place::kArrived;
  if (!psn.before(limit_)) return Place::kBeyond;
  if (bit(psn)) return Place::kArrived;
  return psn == expected_ ? Place::kNext : Place::kAhead;
}

void ReceiveFlow::note(Time now) {
  if (untold_++ == 0) untold_at_ = now;
  due_ = due_ || untold_ >= settings_.timers.ack_every;
}

void ReceiveFlow::arrived(Psn psn, bool congested, HeldPacket* held, Time now) {
  flip(psn);
  ++beyond_;
  held_[psn.value() & mask_] = held;
  last_ = psn;
  last_at_ = now;
  any_ = true;
  if (congested) marks_ += 1;
  note(now);
}

void ReceiveFlow::copy(Time now) {
  note(now);
  due_ = true;
}

void ReceiveFlow::executed() {
  assert(bit(expected_));
  flip(expected_);
  --beyond_;
  held_[expected_.value() & mask_] = nullptr;
  expected_ += 1;
}

HeldPacket* ReceiveFlow::take_held() {
  while (bit(expected_)) {
    HeldPacket*& held = held_[expected_.value() & mask_];
    if (held != nullptr) {
      HeldPacket* packet = held;
      held = nullptr;
      return packet;
    }
    executed();
  }
  return nullptr;
}

void ReceiveFlow::told(bool all) {
  const Psn limit = expected_ + (std::uint32_t{1} << settings_.window);
  if (limit.after(limit_)) limit_ = limit;
  if (!all) return;
  untold_ = 0;
  due_ = false;
}

std::size_t ReceiveFlow::bitmap(std::span<std::uint32_t, kMaxWords> words) const {
  std::size_t count = 0;
  std::uint32_t left = beyond_;
  const std::uint32_t shift = expected_.value() % kWordBits;
  const std::uint32_t from = expected_.value() % kBits / kWordBits;
  for (std::size_t i = 0; left != 0; ++i) {
    const std::uint64_t low = arrived_[(from + i) % kMaxWords];
    const std::uint64_t high = arrived_[(from + i + 1) % kMaxWords];
    words[i] = static_cast<std::uint32_t>((high << kWordBits | low) >> shift);
    left -= static_cast<std::uint32_t>(__builtin_popcount(words[i]));
    count = i + 1;
  }
  return count;
}

}  // namespace mtl::transport
