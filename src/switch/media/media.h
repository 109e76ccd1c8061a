#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/ids.h"
#include "base/result.h"
#include "phy/dpdk/carrier.h"
#include "phy/dpdk/mbuf_pool.h"
#include "phy/local_port.h"
#include "phy/shared_device.h"
#include "switch/config/node_config.h"
#include "switch/log.h"
#include "switch/media/media_device.h"
#include "switch/media/memif_media.h"
#include "switch/reading.h"

namespace mtl::switchd {

/// The media of a node's ports, opened, watched and opened anew by the control thread; between the
/// commands that attach and detach them a worker uses them.
class Media {
 public:
  /// Checks every device of the plan, before anything starts: errors name the port, the device and
  /// the remedy. `log` outlives the media.
  static Result<std::unique_ptr<Media>> check(const Plan& plan, Log& log);
  /// Bytes that the pools' buffers must hold.
  std::uint32_t room() const { return room_; }
  /// Opens the devices of all ports, whose frames come into `pool`. Needs a started Eal. `pool`
  /// outlives the media. Once; after an error, which leaves no file behind, only the destructor.
  Result<void> open(const Plan& plan, phy::MbufPool& pool);

  /// The pool into which the frames of these ports are to come, which are all on one device, with
  /// buffers of at least `room` bytes; it outlives their stay.
  using PoolOf =
      std::function<Result<phy::MbufPool*>(const std::vector<PortId>& ports, std::uint32_t room)>;
  /// Checks and opens the devices of further ports of `plan`, all that are on these devices; the
  /// others go on. After an error, whose text is that of check() and open(), none of them is there,
  /// nor what they had made. What overwrites a file is opened last.
  Result<void> add(const Plan& plan, const std::vector<PortId>& ports, const PoolOf& pool_of);
  /// Only looks whether they could be opened; `plan` as for add().
  static Result<void> check(const Plan& plan, const std::vector<PortId>& ports);
  /// Closes the devices of these ports (ascending), all that are on them: their workers have let go
  /// of them.
  void remove(const std::vector<PortId>& ports);
  /// What the devices of ports that were removed had dropped, and no port had counted.
  const DropReading& removed_drops() const { return removed_drops_; }

  phy::Port* port(PortId port) const { return entries_[port.value()].port; }
  /// The port of a slot; nullptr for others.
  phy::LocalPort* slot(PortId port) const { return entries_[port.value()].local.get(); }
  /// Likewise of memif.
  phy::MemifPort* memif(PortId port) const { return entries_[port.value()].memif; }
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

  // Watching. Devices come and go: one that was lost is opened anew when it is there again.

  /// Becomes readable when watch() has something to take in.
  int monitor_fd() const { return poll_.get(); }
  /// `reopen(ports)` is called when the device of these ports is lost and may be there again: take
  /// all of them from their worker, call reopen() for the first, attach them again.
  using Reopen = std::function<void(const std::vector<PortId>& ports)>;
  void on_reopen(Reopen reopen) { reopen_ = std::move(reopen); }
  /// `hand_over(port, memory)` is called when a memif peer has come, with the memory that is to be
  /// the port's on its worker, and when it has left, with none. From now on they may come.
  using HandOver = std::function<void(PortId port, std::unique_ptr<phy::MemifSegment> memory)>;
  void let_memif_peers_in(HandOver hand_over);
  void watch();
  /// Has on_reopen's function called for every device that wants it; about once a second.
  void revive();
  /// The worker has let go of all ports on the device of `port`: closes it and opens the one that
  /// is there now. False: none (yet), and fault() says why.
  bool reopen(PortId port);
  /// Reads carrier and counters from the drivers; about once a second, tenfold if
  /// samples_carrier().
  void sample();
  bool samples_carrier() const;

 private:
  /// A device and the ports on it.
  struct Place {
    std::unique_ptr<MediaDevice> device;
    std::uint16_t ether_type = 0;
    std::vector<PortId> ports;
    std::vector<phy::Share> shares;  ///< by port; empty: the only port is the device itself
    std::unique_ptr<phy::SharedDevice> shared;
    phy::MbufPool* pool = nullptr;
    DropReading before{};    ///< own_drops() of former ones
    bool reopening = false;  ///< on_reopen was called and reopen() not yet
    std::string fault;       ///< why it could not be opened anew

    DropReading own_drops() const;
    bool open() const { return device->port() != nullptr; }
  };
  struct Entry {
    phy::Port* port = nullptr;
    Place* place = nullptr;  ///< nullptr: a slot
    std::unique_ptr<phy::LocalPort> local;
    phy::MemifPort* memif = nullptr;
  };

  explicit Media(Log& log) : log_(log) {}
  Result<void> add_place(const Plan& plan, PortId first);
  Result<void> open_ports(const Plan& plan, const std::vector<PortId>& ports,
                          const PoolOf& pool_of);
  Result<void> make_memif(const std::string& name);
  Result<void> watch(int fd);
  void start_memif();
  Result<void> open_slot(const PortPlan& plan, Entry& entry, phy::MbufPool& pool);
  Result<void> open_place(Place& place, phy::MbufPool& pool);
  void undo(const std::vector<PortId>& ports);
  Result<void> watch_all();
  void give_ports(Place& place);
  void close(Place& place);
  void revive(Place& place);
  void interface_is(const phy::InterfaceState& state);

  Log& log_;
  std::uint32_t room_ = 0;
  std::vector<Entry> entries_;  ///< by port
  std::vector<std::unique_ptr<Place>> places_;
  std::unique_ptr<MemifCenter> memif_;  ///< nullptr: no port is memif
  std::unique_ptr<phy::CarrierMonitor> monitor_;
  Fd poll_;                         ///< an epoll over what watch() takes in
  std::vector<PortId> memif_ends_;  ///< by number in the hub
  Reopen reopen_;
  HandOver hand_over_;
  DropReading removed_drops_{};
};

}  // namespace mtl::switchd
