#include "link/sender.h"

#include <algorithm>
#include <bit>

namespace mtl::link {

Sender::Sender(std::uint16_t window)
    : slots_(std::bit_ceil(window)),
      again_(slots_.size()),
      cap_(window),
      window_(window),
      mask_(static_cast<std::uint16_t>(slots_.size() - 1)) {}

void Sender::reset(std::uint16_t window) {
  window_ = std::min(window, cap_);
  mask_ = static_cast<std::uint16_t>(std::bit_ceil(window_) - 1);
  una_ = next_ = Seq{};
  again_head_ = again_length_ = again_count_ = 0;
}

Seq Sender::sent(Buffer* packet) {
  const Seq seq = next_;
  slot(seq) = {packet, false};
  next_ += 1;
  return seq;
}

Buffer* Sender::take_oldest() {
  Slot& here = slot(una_);
  Buffer* packet = here.packet;
  if (here.again) --again_count_;  // its entry in again_ is passed over later
  here = {};
  una_ += 1;
  return packet;
}

std::size_t Sender::take_acked(Seq ack, std::span<Buffer*> out) {
  std::size_t n = 0;
  for (; una_ != ack && n < out.size(); ++n) out[n] = take_oldest();
  return n;
}

void Sender::mark_again(Seq seq) {
  Slot& here = slot(seq);
  if (here.again) return;
  // Entries of acknowledged frames leave no room only if the ring is full of them: drop those
  // first.
  if (again_length_ == again_.size()) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < again_length_; ++i) {
      const Seq entry = again_[(again_head_ + i) % again_.size()];
      if (entry.in_window(una_, outstanding()) && slot(entry).again) {
        again_[(again_head_ + kept++) % again_.size()] = entry;
      }
    }
    again_length_ = kept;
  }
  here.again = true;
  again_[(again_head_ + again_length_++) % again_.size()] = seq;
  ++again_count_;
}

void Sender::send_again(Seq first, std::uint16_t count) {
  const std::uint16_t kept = outstanding();
  // [first, first + count) may begin before una, or wrap round to it: two runs at most. A frame
  // that waits already is not listed twice, so a hostile list costs no more than the window once.
  const std::uint16_t skip = first.since(una_);
  if (skip < kept) {
    const auto n = std::min<std::uint32_t>(count, static_cast<std::uint32_t>(kept - skip));
    for (std::uint32_t i = 0; i < n && again_count_ < kept; ++i) {
      mark_again(first + static_cast<std::uint16_t>(i));
    }
  }
  const std::uint32_t wrapped = std::uint32_t{skip} + count;
  if (skip != 0 && wrapped > 65536) {
    const auto n = std::min<std::uint32_t>(wrapped - 65536, kept);
    for (std::uint32_t i = 0; i < n && again_count_ < kept; ++i) {
      mark_again(una_ + static_cast<std::uint16_t>(i));
    }
  }
}

bool Sender::next_again(Seq& seq, Buffer*& packet) {
  while (again_length_ != 0) {
    const Seq entry = again_[again_head_];
    again_head_ = static_cast<std::uint32_t>((again_head_ + 1) % again_.size());
    --again_length_;
    if (!entry.in_window(una_, outstanding())) continue;
    Slot& here = slot(entry);
    if (!here.again) continue;
    here.again = false;
    --again_count_;
    seq = entry;
    packet = here.packet;
    return true;
  }
  return false;
}

}  // namespace mtl::link
