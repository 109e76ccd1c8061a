#include "phy/dpdk/ring_cable.h"

#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <map>
#include <utility>

namespace mtl::phy {
namespace {

/// By name. Control thread.
std::map<std::string, std::weak_ptr<RingCable>>& cables() {
  static std::map<std::string, std::weak_ptr<RingCable>> all;
  return all;
}

}  // namespace

Result<std::shared_ptr<RingCable>> RingCable::take_end(const std::string& name,
                                                       std::uint32_t frames) {
  if (auto there = cables()[name].lock()) {
    if (there.use_count() <= 2) return there;
    return Error{"ring " + name + " has two ports already: give another one a name of its own"};
  }
  std::shared_ptr<RingCable> cable(new RingCable(name));
  for (unsigned end = 0; end < 2; ++end) {
    cable->lanes_[end] =
        rte_ring_create(("mtl_" + name + "." + std::to_string(end)).c_str(), frames, SOCKET_ID_ANY,
                        RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
    if (cable->lanes_[end] == nullptr)
      return Error{"ring " + name + " cannot be made (" + rte_strerror(rte_errno) +
                   "): give DPDK more memory (runtime.memory_mib)"};
  }
  cables()[name] = cable;
  return cable;
}

RingCable::~RingCable() {
  for (rte_ring* lane : lanes_) {
    void* frame = nullptr;
    while (lane != nullptr && rte_ring_dequeue(lane, &frame) == 0)
      rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
    rte_ring_free(lane);
  }
}

Result<std::unique_ptr<EthdevPort>> RingCable::open(MbufPool& pool, EthdevOptions options) {
  const unsigned end = ports_[0] == kNone ? 0 : 1;
  const std::string device = name_ + "." + std::to_string(end);
  const int id = rte_eth_from_rings(device.c_str(), &lanes_[end], 1, &lanes_[1 - end], 1, 0);
  if (id < 0)
    return Error{"ring " + name_ + ": DPDK's net_ring does not take it (" +
                 rte_strerror(rte_errno) + ")"};
  ports_[end] = static_cast<std::uint16_t>(id);
  options.driver_knows_carrier = false;
  options.lossy = false;
  auto port = EthdevPort::open(ports_[end], pool, options);
  if (!port) ports_[end] = kNone;
  return port;
}

void RingCable::closed(std::uint16_t id) {
  for (std::uint16_t& port : ports_) {
    if (port == id) port = kNone;
  }
}

}  // namespace mtl::phy
