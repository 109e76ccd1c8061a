#pragma once

#include <memory>
#include <optional>
#include <string>

#include "phy/dpdk/capture_file.h"
#include "phy/dpdk/ethdev_port.h"
#include "switch/media/media_device.h"

namespace mtl::switchd {

/// Capture files, or a Linux interface through libpcap, by DPDK's net_pcap. An interface that was
/// deleted is opened anew as soon as there is one of its name that is up.
class PcapMedia final : public MediaDevice {
 public:
  PcapMedia(const Plan& plan, PortId first);

  const std::string& name() const override { return options_.device; }
  Result<void> check() override;
  Result<void> open(phy::MbufPool& pool) override;
  void close() override { port_.reset(); }
  void undo() override;
  bool overwrites() const override { return device_.overwrite; }
  phy::Port* port() const override { return port_.get(); }
  Mac mac() const override { return mac_; }
  DropReading drops() const override;
  std::string fault() const override;
  bool wants_reopening() const override;
  std::string interface() const override { return device_.interface; }
  void follow(const phy::InterfaceState& state) override;
  void sample() override;

 private:
  std::string devargs() const;

  PcapDevice device_;
  phy::EthdevOptions options_;
  Mac mac_{};
  std::optional<phy::MadeCapture> made_;  ///< by the last open()
  std::unique_ptr<phy::EthdevPort> port_;
  int index_ = 0;      ///< of the interface that is open
  bool gone_ = false;  ///< it is not there any more
  bool there_ = true;  ///< one of its name exists and is up
};

}  // namespace mtl::switchd
