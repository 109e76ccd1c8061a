#include "switch/media/media_device.h"

#include <algorithm>
#include <variant>

#include "switch/media/af_packet_media.h"
#include "switch/media/af_xdp_media.h"
#include "switch/media/ethdev_media.h"
#include "switch/media/pcap_media.h"
#include "switch/media/ring_media.h"
#include "switch/media/tap_media.h"

namespace mtl::switchd {

std::vector<PortId> ports_on_device(const Plan& plan, PortId first) {
  std::vector<PortId> out;
  for (const PortPlan& port : plan.ports) {
    if (port.first_on_device == first) out.push_back(port.port);
  }
  return out;
}

std::uint32_t longest_frame_on_device(const Plan& plan, PortId first) {
  std::uint32_t longest = 0;
  for (const PortId port : ports_on_device(plan, first)) {
    longest = std::max(longest, plan.ports[port.value()].max_frame);
  }
  return longest;
}

std::unique_ptr<MediaDevice> make_media_device(const Plan& plan, PortId first) {
  const Device& device = plan.ports[first.value()].device;
  if (std::holds_alternative<AfPacketDevice>(device)) {
    return std::make_unique<AfPacketMedia>(plan, first);
  }
  if (std::holds_alternative<AfXdpDevice>(device)) return std::make_unique<AfXdpMedia>(plan, first);
  if (std::holds_alternative<TapDevice>(device)) return std::make_unique<TapMedia>(plan, first);
  if (std::holds_alternative<PcapDevice>(device)) return std::make_unique<PcapMedia>(plan, first);
  if (std::holds_alternative<RingDevice>(device)) return std::make_unique<RingMedia>(plan, first);
  return std::make_unique<EthdevMedia>(plan, first);
}

}  // namespace mtl::switchd
