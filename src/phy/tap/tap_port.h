#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/result.h"
#include "phy/dpdk/carrier.h"
#include "phy/dpdk/ethdev_port.h"
#include "phy/port.h"

namespace mtl::phy {

struct TapConfig {
  std::string interface;  ///< name of the TAP interface, in the calling thread's network namespace
  std::uint32_t max_frame = 0;   ///< longest frame of the link, untagged, bytes
  std::uint16_t ether_type = 0;  ///< of the frames that come to us; the kernel's own ones do not
  std::vector<Mac> macs = {};  ///< ours, at least one: none is the interface's, which is the host's
};

/// What was found out before anything starts.
struct TapPlan {
  TapConfig config;
  bool ours = true;  ///< the interface is made by the port, and goes with it
  /// Room that the pool's buffers must have: a tagged frame, and a byte by which a longer one
  /// shows.
  std::uint32_t pool_room() const;
};
/// Looks at what there is, and changes nothing. Errors, each with the remedy: a name that cannot be
/// used; an interface of that name that is no TAP, is too short, down, used by a program, or
/// another user's; no /dev/net/tun; no CAP_NET_ADMIN for a new one.
Result<TapPlan> plan_tap(const TapConfig& config);

/// A TAP interface: what the host sends on it arrives here, and what is sent here the host receives
/// on it. So a link reaches into a Linux bridge, a virtual machine or a container. An interface
/// that is not there is made, with the link's MTU and up, and goes with the port; one that an
/// operator made
/// (`ip tuntap add`) is used as it is, and stays.
///
/// Not DPDK's net_tap: that carries 1,500 bytes, has no descriptor to wait for, and interrupts the
/// process by a signal for each frame.
///
/// Port's functions: one worker. Control thread: what is marked so.
class TapPort final : public Port {
 public:
  /// Received frames go into `pool`, whose room() is at least plan.pool_room(); it outlives the
  /// port. Errors: another process uses the interface; the kernel refuses. Control thread.
  static Result<std::unique_ptr<TapPort>> open(const TapPlan& plan, BufferPool& pool);
  /// The worker must have let go of the port. Control thread.
  ~TapPort() override;
  TapPort(const TapPort&) = delete;
  TapPort& operator=(const TapPort&) = delete;

  unsigned receive(std::span<Buffer*> out) override;
  unsigned room() override { return carrier() ? kBurst : 0; }
  bool send(const link::FrameOut& frame) override;
  void flush() override {}
  bool carrier() override { return carrier_.load(std::memory_order_relaxed); }
  bool arm() override;

  const Mac& mac() const { return plan_.config.macs.front(); }
  const DeviceCounters& device_counters() const { return device_; }

  /// Control thread: what CarrierMonitor tells of the interface: up is carrier. Once it was deleted
  /// or renamed it stays gone for this port.
  void follow_interface(const InterfaceState& state);
  bool gone() const { return gone_; }
  /// Control thread: what is wrong with the device, with the remedy; empty if nothing.
  std::string fault() const;

 private:
  static constexpr unsigned kBurst = 32;
  TapPort(const TapPlan& plan, BufferPool& pool, Fd fd);
  Result<void> set_up();

  TapPlan plan_;
  BufferPool& pool_;
  Fd fd_;
  std::vector<std::byte> frame_;  ///< the one that is being sent, in one piece
  int index_ = 0;
  std::atomic<bool> carrier_{false};
  std::atomic<std::uint32_t> limit_{0};
  bool gone_ = false;
  DeviceCounters device_;
};

}  // namespace mtl::phy
