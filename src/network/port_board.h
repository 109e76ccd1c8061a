#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/ids.h"

namespace mtl::network {

/// What every shard may know of one port (the ports of other shards look like remote ones). Written
/// by the shard that owns the port (`owner`: by whoever moves ports between shards, one thread),
/// read by all. A reader may see a state that has just passed: the owning shard looks again before
/// it queues, and routes anew if the port cannot take the packet.
/// The leader of a trunk shows the trunk: the longest packet that each usable lane takes, own
/// packets on all lanes, bytes on a usable lane on average. Its other lanes show nothing, so that
/// no packet passes the trunk by.
struct alignas(64) PortView {
  /// N7 in one number: the longest packet, in bytes, that the port can take on a VC now; 0 while
  /// the link is not usable, or when the peer has no cells for the VC.
  std::array<std::atomic<std::uint32_t>, kVcs> longest{};
  /// The node's own packets in the link's queue (N13).
  std::atomic<std::uint32_t> queued_own{0};
  /// Bytes of packets in the link's queue; told only where hops are chosen by it (N8).
  std::atomic<std::uint64_t> queued_bytes{0};
  /// The shard to which packets for the port are passed, and those that came in on it go back: it
  /// has the port's link, or is about to get it (Shard::put_link).
  std::atomic<std::uint8_t> owner{0};
};

/// The views of all ports of a node.
class PortBoard {
 public:
  explicit PortBoard(std::size_t ports) : ports_(ports), views_(new PortView[ports]) {}
  std::size_t size() const { return ports_; }
  PortView& operator[](PortId port) { return views_[port.value()]; }
  const PortView& operator[](PortId port) const { return views_[port.value()]; }

 private:
  std::size_t ports_;
  std::unique_ptr<PortView[]> views_;
};

}  // namespace mtl::network
