#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace mtl {

/// An integer that belongs to one space of numbers: two spaces do not mix without saying so.
template <class Tag, class Rep>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  Rep value_ = 0;
};

/// A node of the fabric, 1..65534 (N3).
using NodeId = Id<struct NodeTag, std::uint16_t>;
inline constexpr std::uint16_t kMinNode = 1;
inline constexpr std::uint16_t kMaxNode = 65534;

/// A port of a node (INIT bytes 10-11): also the index into the node's port tables, so a node
/// numbers its ports from 0 without large gaps.
using PortId = Id<struct PortTag, std::uint16_t>;
/// No port: a packet made here, or delivered by the node to itself (C4).
inline constexpr PortId kNoPort{0xFFFF};

/// A shard of a node: the ports that one worker owns.
using ShardId = Id<struct ShardTag, std::uint8_t>;
/// No shard: the owner of a number that no port has.
inline constexpr ShardId kNoShard{0xFF};

/// A virtual channel, 0..7: class x 4 + layer (N1).
using Vc = Id<struct VcTag, std::uint8_t>;
inline constexpr std::size_t kVcs = 8;
inline constexpr std::uint8_t kLayers = 4;

using Partition = Id<struct PartitionTag, std::uint16_t>;

/// An 802.1Q VLAN, 1..4094 (P3).
using VlanId = Id<struct VlanTag, std::uint16_t>;
inline constexpr std::uint16_t kMinVlan = 1;
inline constexpr std::uint16_t kMaxVlan = 4094;

/// An Ethernet address in the order of the wire.
using Mac = std::array<std::byte, 6>;

}  // namespace mtl

template <class Tag, class Rep>
struct std::hash<mtl::Id<Tag, Rep>> {
  std::size_t operator()(mtl::Id<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};
