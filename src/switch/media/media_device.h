#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "phy/dpdk/carrier.h"
#include "phy/dpdk/mbuf_pool.h"
#include "phy/port.h"
#include "switch/config/node_config.h"
#include "switch/reading.h"

namespace mtl::switchd {

/// A device of a node, for one port or for several that share it (P3). There is a class for each
/// kind; Media knows this face of them alone. All by the control thread, but for port(), which a
/// worker uses between the commands that attach and detach it.
class MediaDevice {
 public:
  virtual ~MediaDevice() = default;

  /// As the operator named it: the interface, the devargs.
  virtual const std::string& name() const = 0;
  /// What can be seen to be wrong without opening it. Before DPDK starts, and before each open().
  /// Errors name the device and the remedy.
  virtual Result<void> check() = 0;
  /// Bytes that the buffers of open()'s pool must hold; known after check().
  virtual std::uint32_t room() const { return 0; }

  /// Opens what check() has found good. `pool` outlives it. Needs a started Eal.
  virtual Result<void> open(phy::MbufPool& pool) = 0;
  /// Closes it: no worker uses port() any more. Nothing if it is not open.
  virtual void close() = 0;
  /// After close(), where what was to be opened along with it could not be: removes what open()
  /// has made and close() leaves.
  virtual void undo() {}
  /// Whether open() ends something that undo() cannot bring back: it is opened after all others.
  virtual bool overwrites() const { return false; }
  /// nullptr unless it is open.
  virtual phy::Port* port() const = 0;
  /// Our address on it: what it was when the device was opened first, since peers and links keep
  /// it.
  virtual Mac mac() const = 0;

  /// What driver and kernel dropped since it was opened; port()'s counters do not contain it.
  virtual DropReading drops() const = 0;
  /// Why it does not work, with the remedy; empty if nothing is known.
  virtual std::string fault() const = 0;
  /// Whether it does not work any more, or is not open, and seems to be there (again): it is to be
  /// closed and opened anew. Asked once a second, and when its interface has changed.
  virtual bool wants_reopening() const = 0;

  /// The Linux interface that follow() is to be told of; empty: none.
  virtual std::string interface() const { return {}; }
  virtual void follow(const phy::InterfaceState& state) { (void)state; }
  /// Reads the driver's counters, and its carrier; once a second, tenfold if samples_carrier().
  virtual void sample() = 0;
  virtual bool samples_carrier() const { return false; }
};

/// The device of the port `first`, which is the first on it (not a slot, nor memif, which has its
/// peers by way of Media). The plan is not needed afterwards.
std::unique_ptr<MediaDevice> make_media_device(const Plan& plan, PortId first);

/// The ports on the device of `first`, itself included, ascending.
std::vector<PortId> ports_on_device(const Plan& plan, PortId first);
/// Longest frame of any of them, bytes, its tag not counted.
std::uint32_t longest_frame_on_device(const Plan& plan, PortId first);

}  // namespace mtl::switchd
