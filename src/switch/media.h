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
#include "switch/config/node_config.h"
#include "switch/log.h"

namespace mtl::switchd {

/// What has been found out about the devices of a node before anything starts.
struct MediaPlan {
  std::vector<std::optional<phy::AfPacketPlan>> af_packet;  ///< by port
  std::uint32_t room = 0;                                   ///< that the pools' buffers need
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

  phy::Port* port(PortId port) const;
  /// The port of a slot; nullptr for others.
  phy::LocalPort* slot(PortId port) const { return entries_[port.value()].local.get(); }
  /// The device's MAC, for a port on one.
  std::optional<Mac> device_mac(PortId port) const;
  const phy::DeviceCounters* device_counters(PortId port) const;
  /// Why the port does not work; empty if nothing is known.
  std::string fault(PortId port) const;

  // Watching. Interfaces come and go: a port whose interface was deleted is opened anew when there
  // is one of its name again.

  /// Becomes readable when watch() has something to take in.
  int monitor_fd() const { return monitor_->fd(); }
  /// `reopen(port)` is called when a port's device is gone and may be there again: take the port
  /// from its worker, call reopen(), attach it again.
  void on_reopen(std::function<void(PortId)> reopen) { reopen_ = std::move(reopen); }
  void watch();
  /// The worker has let go of the port: closes its device and opens the one that is there now.
  /// False: none (yet); on_reopen's function is called when that may have changed.
  bool reopen(PortId port);
  /// Reads carrier and counters from the drivers; about once a second, tenfold if
  /// samples_carrier().
  void sample();
  bool samples_carrier() const;

 private:
  struct Entry {
    PortId id;
    std::string interface;  ///< of a port on AF_PACKET
    std::optional<phy::AfPacketPlan> plan;
    std::unique_ptr<phy::AfPacketPort> af_packet;
    std::unique_ptr<phy::EthdevPort> ethdev;
    std::unique_ptr<phy::LocalPort> local;
    phy::MbufPool* pool = nullptr;
    std::optional<Mac> mac;  ///< as at the start: the link keeps it
    bool reopening = false;  ///< on_reopen was called and reopen() not yet
    std::string fault;       ///< why it could not be opened anew
  };

  explicit Media(Log& log) : log_(log) {}
  Result<void> open_one(const PortPlan& plan, const MediaPlan& media, Entry& entry);
  void interface_is(const phy::InterfaceState& state);
  phy::EthdevPort* device(const Entry& entry) const;

  Log& log_;
  std::vector<Entry> entries_;  ///< by port
  std::unique_ptr<phy::CarrierMonitor> monitor_;
  std::function<void(PortId)> reopen_;
};

}  // namespace mtl::switchd
