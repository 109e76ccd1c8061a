#include "switch/config/buffer_plan.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "link/link.h"
#include "network/packet.h"

namespace mtl::switchd {

namespace {

/// Rooms are multiples of a cache line, so that buffers do not share one.
constexpr std::uint32_t kRoomStep = 64;

std::uint32_t port_buffers(const link::Config& link, const PortPlan& port) {
  std::uint32_t n = std::accumulate(link.capacity.begin(), link.capacity.end(), 0U);
  n += BufferPlan::kBurst + port.impairment_depth;
  // Sent frames are copies of the sender's: those under way, and those that are idle in the cache
  // of the worker that took them.
  if (std::holds_alternative<RingDevice>(port.device))
    n += RingDevice::kFrames + BufferPlan::kCache;
  const auto* device = std::get_if<EthdevDevice>(&port.device);
  if (device != nullptr && port.first_on_device == port.port) {
    n += device->receive_ring + device->send_ring;
  }
  return n;
}

/// Nobody's owner: a link is made only to be asked for its size.
class NoOwner final : public link::Owner {
 public:
  void packets_in(PortId, std::span<Buffer* const>) override {}
  void packets_acked(PortId, std::span<Buffer* const>) override {}
  void packet_back(PortId, Buffer*) override {}
  void link_changed(PortId) override {}
  link::BringUp bring_up(PortId, std::uint8_t) override { return {}; }
};

std::uint64_t link_memory(const link::Config& config) {
  NoOwner owner;
  return link::Link(config, owner).memory();
}

}  // namespace

std::uint32_t room_for(const Plan& plan, const std::vector<PortId>& ports) {
  std::uint32_t longest = BufferPlan::kMinRoom;
  for (const PortId id : ports) {
    const std::uint32_t frame = plan.ports[id.value()].max_frame;
    longest = std::max(longest, frame + static_cast<std::uint32_t>(link::kVlanTag));
  }
  return (longest + kRoomStep - 1) / kRoomStep * kRoomStep;
}

void plan_buffers(Plan& plan) {
  BufferPlan& b = plan.buffers;
  b.receive = BufferPlan::kCache * static_cast<std::uint32_t>(plan.runtime.workers);
  std::vector<PortId> all;
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    const network::PortConfig& config = plan.node.ports[i];
    PortPlan& port = plan.ports[i];
    if (!port.present()) continue;
    port.max_frame = static_cast<std::uint32_t>(link::kFrameHeader) + config.link.mtu;
    port.buffers = port_buffers(config.link, port);
    b.receive += port.buffers;
    all.push_back(port.port);
    plan.memory.links += link_memory(config.link);
    if (const auto* slot = std::get_if<SlotDevice>(&port.device)) {
      plan.memory.local_rings += std::uint64_t{2} * slot->ring_bytes;
    }
    if (const auto* memif = std::get_if<MemifDevice>(&port.device)) {
      plan.memory.local_rings += memif->memory();
    }
  }
  b.room = room_for(plan, all);
  b.own = BufferPlan::kOwn * static_cast<std::uint32_t>(plan.runtime.workers);
}

}  // namespace mtl::switchd
