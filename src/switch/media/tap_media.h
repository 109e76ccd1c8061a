#pragma once

#include <memory>
#include <optional>
#include <string>

#include "phy/tap/tap_port.h"
#include "switch/media/media_device.h"

namespace mtl::switchd {

/// A TAP interface. One that was deleted is made anew.
class TapMedia final : public MediaDevice {
 public:
  TapMedia(const Plan& plan, PortId first);

  const std::string& name() const override { return config_.interface; }
  Result<void> check() override;
  std::uint32_t room() const override { return plan_->pool_room(); }
  Result<void> open(phy::MbufPool& pool) override;
  void close() override { port_.reset(); }
  phy::Port* port() const override { return port_.get(); }
  Mac mac() const override { return config_.macs.front(); }
  DropReading drops() const override { return {}; }
  std::string fault() const override { return port_ == nullptr ? "" : port_->fault(); }
  bool wants_reopening() const override { return port_ == nullptr || port_->gone(); }
  std::string interface() const override { return config_.interface; }
  void follow(const phy::InterfaceState& state) override;
  void sample() override {}

 private:
  phy::TapConfig config_;
  std::optional<phy::TapPlan> plan_;  ///< after check()
  std::unique_ptr<phy::TapPort> port_;
};

}  // namespace mtl::switchd
