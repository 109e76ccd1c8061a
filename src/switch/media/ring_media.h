#pragma once

#include <memory>
#include <string>

#include "phy/dpdk/ring_cable.h"
#include "switch/media/media_device.h"

namespace mtl::switchd {

/// One end of a cable within the node.
class RingMedia final : public MediaDevice {
 public:
  RingMedia(const Plan& plan, PortId first);
  ~RingMedia() override { close(); }

  const std::string& name() const override { return name_; }
  Result<void> check() override { return {}; }
  Result<void> open(phy::MbufPool& pool) override;
  void close() override;
  phy::Port* port() const override { return port_.get(); }
  Mac mac() const override { return mac_; }
  DropReading drops() const override;
  std::string fault() const override;
  bool wants_reopening() const override { return port_ == nullptr; }
  void sample() override;
  bool samples_carrier() const override { return true; }

 private:
  std::string name_;
  phy::EthdevOptions options_;
  Mac mac_{};
  std::shared_ptr<phy::RingCable> cable_;
  std::unique_ptr<phy::EthdevPort> port_;
};

}  // namespace mtl::switchd
