#pragma once

#include <xdp/xsk.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/fd.h"
#include "base/result.h"
#include "phy/af_xdp/xdp_program.h"
#include "phy/dpdk/carrier.h"
#include "phy/dpdk/ethdev_port.h"
#include "phy/port.h"

namespace mtl::phy {

struct AfXdpConfig {
  std::string interface;         ///< Linux interface, of the calling thread's network namespace
  std::uint32_t frames = 1024;   ///< in each direction's rings, a power of two, 64 to 16384
  std::uint32_t max_frame = 0;   ///< longest frame that the link needs, bytes; 0: all it can
  std::uint16_t ether_type = 0;  ///< of the frames that are ours; the host keeps the others
  std::vector<Mac> macs = {};    ///< our addresses beside the interface's
  bool tagged = false;           ///< frames may have an 802.1Q tag, which max_frame does not count
};

/// What was found out about an interface before anything starts.
struct AfXdpPlan {
  AfXdpConfig config;
  InterfaceState interface;
  std::uint32_t max_frame = 0;  ///< longest untagged frame
  bool may_wait = true;         ///< in opening, up to 0.3 s for a queue that is being given up
  /// Room that the pool's buffers must have.
  std::uint32_t pool_room() const;
};
/// Checks everything that can be checked without changing the interface. Errors: those of
/// usable_interface(); frames longer than AF_XDP carries; more than one receive queue; a missing
/// capability; a bad value.
Result<AfXdpPlan> plan_af_xdp(const AfXdpConfig& config);

/// A Linux interface through an AF_XDP socket on its queue 0: the kernel's fast way around its
/// network stack. The frames lie in memory that the port shares with the kernel, and are copied
/// from and to it. docs/devices/af_xdp.md tells what it is good for.
///
/// Not DPDK's net_af_xdp: that of 22.11 keeps the socket, and 2,048 buffers, of a port that was
/// closed, so that none can be opened anew; takes every frame from the host, also those that are
/// not ours; leaves its program on the interface when it is killed, and removes whatever program is
/// there when it is closed; and can wait for a second in a receive.
///
/// Port's functions: one worker. Control thread: what is marked so.
class AfXdpPort final : public Port {
 public:
  /// Received frames go into `pool`, whose room() is at least plan.pool_room(); it outlives the
  /// port. Errors: another XDP program or socket is there; no memory that may be locked; an MTU
  /// for which the driver runs no program. Control thread, in the interface's network namespace.
  static Result<std::unique_ptr<AfXdpPort>> open(const AfXdpPlan& plan, BufferPool& pool);
  /// The worker must have let go of the port. Control thread.
  ~AfXdpPort() override;
  AfXdpPort(const AfXdpPort&) = delete;
  AfXdpPort& operator=(const AfXdpPort&) = delete;

  unsigned receive(std::span<Buffer*> out) override;
  unsigned room() override;
  bool send(const link::FrameOut& frame) override;
  /// What the kernel does not take now goes the next time. Without carrier nothing that was
  /// gathered is kept. What the kernel's ring holds already is sent when the carrier returns, into
  /// another session, whose epoch tells it apart (`stale`).
  void flush() override;
  bool carrier() override { return carrier_.load(std::memory_order_relaxed); }
  /// False also while frames wait to be sent, or chunks to be given back: nothing rings when the
  /// kernel has room for them.
  bool arm() override;

  const Mac& mac() const { return plan_.interface.mac; }
  const DeviceCounters& device_counters() const { return device_; }

  /// Control thread: what CarrierMonitor tells of the interface. Sets carrier, and the frame limit
  /// when the MTU shrinks. A deleted interface stays gone for this port, also when one of its name
  /// comes back: the port must be opened anew.
  void follow_interface(const InterfaceState& state);
  /// The interface was deleted, renamed or moved away, also if it has come back.
  bool gone() const { return gone_; }
  /// Control thread, about once a second: reads what the kernel counts, and whether the interface
  /// still has one receive queue.
  void sample();
  /// Control thread: what is wrong with the device, with the remedy; empty if nothing.
  std::string fault() const;

 private:
  static constexpr unsigned kBurst = 32;
  static constexpr std::uint32_t kChunk = 4096;
  struct Waiting {
    std::uint64_t address;
    std::uint32_t length;
  };

  AfXdpPort(const AfXdpPlan& plan, BufferPool& pool);
  Result<void> make_socket();
  int share_memory();
  int bind_socket();
  Result<void> use_program();
  Buffer* take(const xdp_desc& from);
  void refill();
  void reclaim();
  void push();
  void kick();
  bool unsent();
  std::byte* at(std::uint64_t address) const { return memory_ + address; }

  AfXdpPlan plan_;
  BufferPool& pool_;
  std::optional<XdpProgram> program_;
  Fd addresses_;  ///< holds the addresses that the interface must let in
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
  int fd_ = -1;  ///< the socket's
  xsk_ring_prod fill_{}, tx_{};
  xsk_ring_cons completion_{}, rx_{};
  std::vector<std::uint64_t> free_;  ///< chunks to send from
  std::vector<std::uint64_t>
      emptied_;  ///< chunks to receive into that the kernel does not have yet
  std::array<Waiting, kBurst> gather_{};
  unsigned gathered_ = 0;
  std::atomic<bool> carrier_{false};
  std::atomic<std::uint32_t> limit_{0};
  bool gone_ = false;
  std::uint32_t queues_ = 1;  ///< receive queues of the interface, at the last sample()
  DeviceCounters device_;
  std::uint64_t last_missed_ = 0;
  std::uint64_t last_refused_ = 0;
};

}  // namespace mtl::phy
