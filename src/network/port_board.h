#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/ids.h"

namespace mtl::network {

/// What every shard may know of one port (design: the ports of others look like remote ones). Written
/// by the shard that owns the port, read by all. A reader may see a state that has just passed: the
/// owning shard looks again before it queues, and routes anew if the port cannot take the packet.
struct alignas(64) PortView {
  std::atomic<bool> usable{false};                  ///< N7: UP and heard
  std::atomic<std::uint16_t> link_mtu{0};           ///< bytes
  std::atomic<std::uint16_t> cell{1};               ///< the peer's, bytes
  std::array<std::atomic<std::uint16_t>, kVcs> capacity{};  ///< the peer's, cells
  std::atomic<std::uint32_t> queued_own{0};         ///< own packets queued (N13)
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
