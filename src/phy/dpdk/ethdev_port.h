#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/counter.h"
#include "base/drop.h"
#include "base/ids.h"
#include "base/result.h"
#include "phy/dpdk/mbuf_pool.h"
#include "phy/port.h"

struct rte_mbuf;

namespace mtl::phy {

struct EthdevOptions {
  std::string device;               ///< how the user named it, for messages
  std::uint32_t max_frame = 0;      ///< longest frame to carry; 0: what device and pool carry
  std::uint16_t descriptors = 512;  ///< of each ring, where the device lets us choose
  bool lossy = true;
  bool driver_knows_carrier = true;  ///< sample() asks it; else set_carrier() is told
  bool all_multicast = true;         ///< hear kUnknownPeer on a NIC that filters (P2)
  bool remove = true;                ///< take the device out of DPDK when the port is closed
};

/// What the driver and the kernel count of their own. One writer: the control thread.
struct DeviceCounters {
  DropCounters drops;  ///< kNotSent, kNotReceived; not contained in PortCounters::drops
  Counter no_mbuf;     ///< times that the driver found the pool empty (a frame may come later)
};

/// A DPDK Ethernet device with one queue each way.
///
/// Received frames are the driver's mbufs; a frame in several pieces is joined. A packet to send is
/// sent from where it lies: the header goes before it and the device gets a reference of its own.
/// It is copied when its memory may not be touched: a device still reads it (it is sent again), it
/// lies in another kind of pool, there is no room around it, or the driver hands the memory itself
/// to the receiver (net_ring); and when a device that reads memory by itself (a NIC) cannot reach
/// it: see MbufPoolConfig::apart.
///
/// Port's functions: one worker. Control thread: what is marked so.
class EthdevPort : public Port {
 public:
  /// Configures and starts DPDK's port `id`; received frames come from `pool`, which outlives the
  /// port. The port owns the device from here on, also if it cannot be opened. Errors: the device
  /// refuses; its frames do not fit the pool's buffers, or these lie where it cannot reach them.
  /// Control thread.
  static Result<std::unique_ptr<EthdevPort>> open(std::uint16_t id, MbufPool& pool,
                                                  const EthdevOptions& options);
  /// The worker must have let go of the port. Control thread.
  ~EthdevPort() override;
  EthdevPort(const EthdevPort&) = delete;
  EthdevPort& operator=(const EthdevPort&) = delete;

  unsigned receive(std::span<Buffer*> out) override;
  unsigned room() override { return carrier() ? kGather - gathered_ : 0; }
  bool send(const link::FrameOut& frame) override;
  /// What the device does not take now stays gathered and goes first the next time. Without carrier
  /// nothing is kept: a frame that waits for a cable would arrive in another session.
  void flush() override;
  bool carrier() override { return carrier_.load(std::memory_order_relaxed); }
  /// Nothing rings when the device has room again for what is gathered: flush() must be called
  /// until it has taken it.
  bool arm() override { return gathered_ == 0; }

  /// Any thread.
  const Mac& mac() const { return mac_; }
  std::uint16_t id() const { return id_; }
  const DeviceCounters& device_counters() const { return device_; }
  /// Longest frame now; traits().max_frame unless the medium shrank under the port.
  std::uint32_t frame_limit() const { return limit_.load(std::memory_order_relaxed); }

  /// Control thread: the medium's carrier, where the driver does not know it.
  void set_carrier(bool carrier) { carrier_.store(carrier, std::memory_order_relaxed); }
  /// Control thread: the longest frame from now on; what is gathered and longer is dropped when the
  /// device does not take it, `too_long`.
  void set_frame_limit(std::uint32_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  /// Control thread, about once a second (10 times where carrier comes from the driver): reads
  /// carrier and counters from the driver.
  virtual void sample();
  /// Control thread: what is wrong with the device, with the remedy; empty if nothing.
  virtual std::string fault() const;
  /// Control thread: whether sample() found that the device was taken away. It must be opened anew.
  bool removed() const { return removed_; }

 protected:
  EthdevPort(std::uint16_t id, MbufPool& pool, const EthdevOptions& options);
  /// Configures and starts the device. Once.
  Result<void> start();
  /// Adds the growth of a driver's number since it was last seen.
  static void follow(std::uint64_t now, std::uint64_t& last, Drop reason, DropCounters& drops);

  EthdevOptions options_;
  DeviceCounters device_;

 private:
  static constexpr unsigned kGather = 32;

  Result<void> check_memory();
  Result<void> check_frame_length();
  Result<void> set_up_queues();
  Error error(const std::string& what, int rc) const;
  Buffer* admit(rte_mbuf* mbuf);
  Buffer* join(rte_mbuf* mbuf);
  bool may_reference(const link::FrameOut& frame) const;
  rte_mbuf* reference(const link::FrameOut& frame);
  rte_mbuf* copy(const link::FrameOut& frame);
  void push();
  void discard_gathered();

  std::uint16_t id_;
  MbufPool& pool_;
  bool hands_over_ = false;  ///< the driver gives our memory to the receiver
  bool by_itself_ = true;    ///< the device reads and writes memory, not the worker
  bool removed_ = false;
  std::atomic<bool> carrier_{true};
  std::atomic<std::uint32_t> limit_{0};
  unsigned gathered_ = 0;
  std::array<rte_mbuf*, kGather> gather_{};
  Mac mac_{};
  std::uint64_t last_errors_out_ = 0;
  std::uint64_t last_errors_in_ = 0;
  std::uint64_t last_no_mbuf_ = 0;
};

/// Brings a device into DPDK by its devargs ("net_tap0,iface=mt0", "0000:03:00.0") and opens it.
/// Control thread.
Result<std::unique_ptr<EthdevPort>> open_ethdev(const std::string& devargs, MbufPool& pool,
                                                EthdevOptions options);

/// DPDK's port number of the device that `devargs` brings in; a device that its driver did not take
/// is an error, although DPDK itself calls that a success. Control thread.
Result<std::uint16_t> attach(const std::string& devargs);

}  // namespace mtl::phy
