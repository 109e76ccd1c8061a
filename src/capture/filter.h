#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "link/codec.h"

namespace mtl::capture {

/// Which way a frame went at its port; the numbers are those of pcapng's epb_flags.
enum class Direction : std::uint8_t { kIn = 1, kOut = 2 };

/// Longer than any frame that a port carries.
inline constexpr std::uint32_t kMaxSnap = 65536;

/// Which frames of a port a capture wants, and how much of each. What is asked of kind, VC and node
/// goes by the bytes that stand in the frame, damaged or not.
struct Filter {
  bool in = true;
  bool out = true;
  bool by_kind = false;           ///< frames of `kinds` alone
  std::uint8_t kinds = 0;         ///< by link::Kind, a bit each
  bool by_vc = false;             ///< DATA of `vcs` alone
  std::uint8_t vcs = 0;           ///< a bit each
  NodeId node{};                  ///< not 0: DATA from or to it alone
  bool drops_only = false;        ///< what was dropped, here or by the node behind
  std::uint32_t snap = kMaxSnap;  ///< bytes kept of each frame, from the Ethernet header on

  bool wants(Direction direction) const { return direction == Direction::kIn ? in : out; }
  /// Whether a frame that begins with `head` is wanted, whatever became of it, where the link has
  /// `ether_type`. `head` is the whole frame, or kHead bytes of it at least. A frame of another
  /// EtherType, or whose kind is none, passes only where nothing is asked of kind, VC and node.
  bool passes(std::span<const std::byte> head, std::uint16_t ether_type) const;
  /// What passes() looks at.
  static constexpr std::size_t kHead = link::kFrameHeader + link::kNetworkHeader;
};

}  // namespace mtl::capture
