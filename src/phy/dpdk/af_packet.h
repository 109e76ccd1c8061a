#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "phy/dpdk/carrier.h"
#include "phy/dpdk/ethdev_port.h"

namespace mtl::phy {

struct AfPacketConfig {
  std::string interface;        ///< Linux interface, of the calling thread's network namespace
  std::uint32_t frames = 1024;  ///< in each of the two kernel rings, 16 to 65536; rounded up
  std::uint32_t max_frame = 0;  ///< longest frame that the link needs, bytes; 0: all of the MTU
  /// Frames of other types stay in the kernel (P2 ignores them anyway): on an interface that the
  /// host uses too, they would cost a copy each. nullopt: everything comes.
  std::optional<std::uint16_t> ether_type = {};
  std::vector<Mac> macs = {};  ///< our addresses beside the interface's
  bool tagged = false;         ///< frames may have an 802.1Q tag, which max_frame does not count
};

/// Sizes of the driver's rings.
struct RingPlan {
  std::uint32_t frame_size = 0;
  std::uint32_t block_size = 0;
  std::uint32_t frames = 0;
  /// Room that the pool's buffers must have: the driver wants a whole ring frame to fit.
  std::uint32_t pool_room() const;
  /// Bytes of kernel memory that both rings take.
  std::uint64_t memory() const;
};
/// The rings for frames of up to `max_frame` bytes, at least `frames` of them. A block is a whole
/// number of pages and of frames (the driver takes the ring for one array), and wastes as little as
/// possible of the power of two of pages that the kernel allocates for it.
RingPlan plan_rings(std::uint32_t max_frame, std::uint32_t frames);

/// What was found out about an interface before anything starts.
struct AfPacketPlan {
  AfPacketConfig config;
  InterfaceState interface;
  std::uint32_t max_frame = 0;
  RingPlan rings;
};
/// Checks everything that can be checked without DPDK. Errors: no such interface, it is no
/// Ethernet, it is down, its MTU is too small for `max_frame` (or for any link), no CAP_NET_RAW, a
/// bad value.
Result<AfPacketPlan> plan_af_packet(const AfPacketConfig& config);

/// A Linux interface through DPDK's net_af_packet: no huge pages, no NIC; every burst is a system
/// call. docs/devices/af_packet.md tells what the driver hides.
class AfPacketPort final : public EthdevPort {
 public:
  /// Needs a started Eal, and a pool with rings.pool_room(). Control thread, in the interface's
  /// network namespace.
  static Result<std::unique_ptr<AfPacketPort>> open(const AfPacketPlan& plan, MbufPool& pool);

  bool arm() override;
  void sample() override;
  std::string fault() const override;

  /// Control thread: what CarrierMonitor tells of the interface. Sets carrier, and the frame limit
  /// when the MTU shrinks. A deleted interface stays gone for this port, also when one of its name
  /// comes back: the port must be opened anew.
  void follow_interface(const InterfaceState& state);
  /// The interface was deleted, renamed or moved away, also if it has come back: the kernel has let
  /// go of the socket's membership and rings for good.
  bool gone() const { return gone_; }
  const std::string& interface() const { return plan_.interface.name; }

 private:
  AfPacketPort(std::uint16_t id, MbufPool& pool, const EthdevOptions& options,
               const AfPacketPlan& plan, Fd addresses);
  Result<void> use_driver_socket(int fd);

  AfPacketPlan plan_;
  Fd addresses_;        ///< holds the addresses that the interface must let in
  int driver_fd_ = -1;  ///< the driver's own socket, if it could be found
  bool gone_ = false;
  std::uint32_t mtu_;
};

}  // namespace mtl::phy
