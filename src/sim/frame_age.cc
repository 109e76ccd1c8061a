#include "sim/frame_age.h"

#include <algorithm>

#include "base/byte_order.h"
#include "link/codec.h"

namespace mtl::sim {
namespace {

// Of a frame without a tag, as links make them here; section 2.
constexpr std::size_t kKind = link::kEthernetHeader;
constexpr std::size_t kEpoch = kKind + 1;
constexpr std::size_t kSeq = kKind + 4;
constexpr std::size_t kAck = kKind + 6;
constexpr std::size_t kCreditVc = kKind + 8;
constexpr std::size_t kCredit = kKind + 10;

link::Kind kind_of(std::span<const std::byte> frame) {
  return static_cast<link::Kind>(load8(&frame[kKind]) & 0xF);
}

bool in_session(std::span<const std::byte> frame) {
  return frame.size() >= link::kFrameHeader && kind_of(frame) <= link::Kind::kNack;
}

}  // namespace

/// What is sent again has an old seq, which is no step back.
void FrameAge::move_on(std::uint16_t& number, std::uint16_t to, std::uint16_t& most) const {
  const auto by = static_cast<std::uint16_t>(to - number);
  if (by >= kMost) return;
  number = to;
  most = std::max(most, by);
}

std::uint32_t FrameAge::made(std::span<const std::byte> frame) {
  if (!in_session(frame)) return moved_;
  const int epoch = load8(&frame[kEpoch]);
  if (epoch != epoch_) {
    epoch_ = epoch;
    seq_ = ack_ = 0;
    credit_ = {};
  }
  std::uint16_t most = 0;
  move_on(seq_, load16(&frame[kSeq]), most);
  move_on(ack_, load16(&frame[kAck]), most);
  const std::uint8_t vc = load8(&frame[kCreditVc]) & 0xF;
  if (vc < kVcs) move_on(credit_[vc], load16(&frame[kCredit]), most);
  if (kind_of(frame) == link::Kind::kStatus &&
      frame.size() >= link::kFrameHeader + link::kStatusBody) {
    for (std::size_t v = 0; v < kVcs; ++v) {
      move_on(credit_[v], load16(&frame[link::kFrameHeader + 2 * v]), most);
    }
  }
  moved_ += most;
  return moved_;
}

bool FrameAge::too_late(std::span<const std::byte> frame, std::uint32_t stamp) const {
  return moved_ - stamp >= kMost && in_session(frame) && load8(&frame[kEpoch]) == epoch_;
}

}  // namespace mtl::sim
