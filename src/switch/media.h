#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "phy/dpdk/af_packet.h"
#include "phy/dpdk/carrier.h"
#include "phy/dpdk/ethdev_port.h"
#include "phy/dpdk/mbuf_pool.h"
#include "phy/local_port.h"
#include "phy/shared_device.h"
#include "switch/config/node_config.h"
#include "switch/log.h"
#include "switch/reading.h"

namespace mtl::switchd {

/// What has been found out about the devices of a node before anything starts.
struct MediaPlan {
  /// By port; of those that share a device the first.
  std::vector<std::optional<phy::AfPacketPlan>> af_packet;
  std::uint32_t room = 0;  ///< that the pools' buffers need
};

/// Checks every interface of the plan: errors name the port, the interface and the remedy.
Result<MediaPlan> plan_media(const Plan& plan);

/// The media of a node's ports, opened, watched and opened anew by the control thread; between the
/// commands that attach and detach them a worker uses them.
class Media {
 public:
  /// Opens the devices of all ports; a port's frames come into the pool of its worker. Needs a
  /// started Eal. `pools` (by worker) and `log` outlive the media.
  static Result<std::unique_ptr<Media>> open(const Plan& plan, const MediaPlan& media,
                                             std::vector<phy::MbufPool*> pools, Log& log);

  phy::Port* port(PortId port) const { return entries_[port.value()].port; }
  /// The port of a slot; nullptr for others.
  phy::LocalPort* slot(PortId port) const { return entries_[port.value()].local.get(); }
  /// The device's MAC, for a port on one.
  std::optional<Mac> device_mac(PortId port) const;
  /// What the device that is this port's alone dropped and its worker did not count.
  DropReading device_drops(PortId port) const;
  /// Why the port does not work; empty if nothing is known.
  std::string fault(PortId port) const;

  /// A device whose ports tell their frames apart by VLAN or source.
  struct SharedReading {
    std::string name;
    std::vector<PortId> ports;
    DropReading drops{};  ///< by no port counted: what is foreign, the driver's and the kernel's
  };
  std::vector<SharedReading> shared_devices() const;

  // Watching. Interfaces come and go: a port whose interface was deleted is opened anew when there
  // is one of its name again.

  /// Becomes readable when watch() has something to take in.
  int monitor_fd() const { return monitor_->fd(); }
  /// `reopen(ports)` is called when the device of these ports is gone and may be there again: take
  /// all of them from their worker, call reopen() for the first, attach them again.
  using Reopen = std::function<void(const std::vector<PortId>& ports)>;
  void on_reopen(Reopen reopen) { reopen_ = std::move(reopen); }
  void watch();
  /// The worker has let go of all ports on the device of `port`: closes it and opens the one that
  /// is there now. False: none (yet); on_reopen's function is called when that may have changed.
  bool reopen(PortId port);
  /// Reads carrier and counters from the drivers; about once a second, tenfold if
  /// samples_carrier().
  void sample();
  bool samples_carrier() const;

 private:
  struct Device {
    std::string interface;  ///< on AF_PACKET; empty: by devargs
    std::string name;       ///< interface or devargs
    std::uint16_t ether_type = 0;
    std::vector<PortId> ports;
    std::vector<phy::Share> shares;  ///< by port; empty: the only port is the device itself
    std::optional<phy::AfPacketPlan> plan;
    std::unique_ptr<phy::EthdevPort> port;   ///< nullptr: could not be opened anew
    phy::AfPacketPort* af_packet = nullptr;  ///< `port`, if it is one
    std::unique_ptr<phy::SharedDevice> shared;
    phy::MbufPool* pool = nullptr;
    Mac mac{};               ///< as at the start: the links keep it
    DropReading before{};    ///< own_drops() of former ones
    bool reopening = false;  ///< on_reopen was called and reopen() not yet
    std::string fault;       ///< why it could not be opened anew

    DropReading own_drops() const;
  };
  struct Entry {
    phy::Port* port = nullptr;
    Device* device = nullptr;  ///< nullptr: a slot
    std::unique_ptr<phy::LocalPort> local;
  };

  explicit Media(Log& log) : log_(log) {}
  Result<void> open_slot(const PortPlan& plan, Entry& entry, phy::MbufPool& pool);
  Result<void> open_device(const Plan& plan, const MediaPlan& media, PortId first,
                           phy::MbufPool& pool);
  Result<void> open_af_packet(Device& device);
  void give_ports(Device& device);
  void close(Device& device);
  void interface_is(const phy::InterfaceState& state);

  Log& log_;
  std::vector<Entry> entries_;  ///< by port
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<phy::CarrierMonitor> monitor_;
  Reopen reopen_;
};

}  // namespace mtl::switchd
