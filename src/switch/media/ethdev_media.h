#pragma once

#include <memory>
#include <optional>
#include <string>

#include "phy/dpdk/ethdev_port.h"
#include "switch/media/media_device.h"

namespace mtl::switchd {

/// Any DPDK Ethernet device, by its devargs.
class EthdevMedia final : public MediaDevice {
 public:
  EthdevMedia(const Plan& plan, PortId first);

  const std::string& name() const override { return devargs_; }
  Result<void> check() override;
  Result<void> open(phy::MbufPool& pool) override;
  void close() override { port_.reset(); }
  phy::Port* port() const override { return port_.get(); }
  Mac mac() const override { return *mac_; }
  DropReading drops() const override;
  std::string fault() const override { return port_ == nullptr ? "" : port_->fault(); }
  bool wants_reopening() const override { return port_ == nullptr || port_->removed(); }
  void sample() override;
  bool samples_carrier() const override { return true; }

 private:
  std::string devargs_;
  phy::EthdevOptions options_;
  std::unique_ptr<phy::EthdevPort> port_;
  std::optional<Mac> mac_;
};

}  // namespace mtl::switchd
