#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "control/socket_path.h"
#include "phy/memif/memif_hub.h"
#include "phy/memif/memif_port.h"
#include "switch/media/media_device.h"

namespace mtl::switchd {

/// The sockets that a node's memif servers listen at, and the hub of all its memif ends.
class MemifCenter {
 public:
  /// @param name what peers are told of the node
  static Result<std::unique_ptr<MemifCenter>> open(const std::string& name);
  phy::MemifHub& hub() { return *hub_; }

 private:
  MemifCenter() = default;
  Result<Fd> listen(const std::string& socket);
  void unlisten(const std::string& socket);

  std::unique_ptr<phy::MemifHub> hub_;
  std::list<control::ListeningSocket> sockets_;  ///< those that are paths; go before the hub
};

/// One end of memif. Its peer comes and goes by itself: it is never opened anew, and closed only
/// when the port is removed.
class MemifMedia final : public MediaDevice {
 public:
  /// `hub` outlives it.
  MemifMedia(const Plan& plan, PortId first, phy::MemifHub& hub);

  const std::string& name() const override { return name_; }
  Result<void> check() override { return {}; }
  Result<void> open(phy::MbufPool& pool) override;
  void close() override;
  phy::Port* port() const override { return port_.get(); }
  Mac mac() const override { return mac_; }
  DropReading drops() const override { return {}; }
  std::string fault() const override { return port_ == nullptr ? "" : hub_.fault(end_); }
  bool wants_reopening() const override { return false; }
  void sample() override { hub_.sample(); }

  phy::MemifPort& memif() { return *port_; }
  /// Its number in the hub.
  std::size_t end() const { return end_; }

 private:
  std::string name_;
  phy::MemifHub& hub_;
  phy::MemifEndConfig config_;
  std::uint32_t max_frame_;
  Mac mac_;
  std::unique_ptr<phy::MemifPort> port_;
  std::size_t end_ = 0;
};

}  // namespace mtl::switchd
