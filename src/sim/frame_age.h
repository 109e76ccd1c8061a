#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace mtl::sim {

/// Tells which frames of one way are later than the protocol can bear: seq, ack and credit have 16
/// bits, so once one of them has moved on by 2^15 since a frame of the session was made, the frame
/// looks newer than those behind it (L11, L16, L21), and no rule could tell. A path that keeps
/// frames back for as long is none for this protocol.
class FrameAge {
 public:
  /// Takes note of a frame that its link has made, in the order in which it makes them; the stamp
  /// that goes with it.
  std::uint32_t made(std::span<const std::byte> frame);
  /// Whether that frame, of that stamp, would now be taken for what it is not.
  bool too_late(std::span<const std::byte> frame, std::uint32_t stamp) const;

 private:
  static constexpr std::uint32_t kMost = 1u << 15;

  void move_on(std::uint16_t& number, std::uint16_t to, std::uint16_t& most) const;

  int epoch_ = -1;  ///< of the session; none yet
  std::uint16_t seq_ = 0;
  std::uint16_t ack_ = 0;
  std::array<std::uint16_t, kVcs> credit_{};
  /// Of each frame that number which moved most, summed: at least as much as any of them moved.
  std::uint32_t moved_ = 0;
};

}  // namespace mtl::sim
