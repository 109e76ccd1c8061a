#pragma once

#include <memory>
#include <optional>
#include <string>

#include "phy/af_xdp/af_xdp_port.h"
#include "switch/media/media_device.h"

namespace mtl::switchd {

/// A Linux interface through an AF_XDP socket. Deleted, renamed or moved, it is opened anew as soon
/// as there is one of its name that is up.
class AfXdpMedia final : public MediaDevice {
 public:
  AfXdpMedia(const Plan& plan, PortId first);

  const std::string& name() const override { return config_.interface; }
  Result<void> check() override;
  std::uint32_t room() const override { return plan_->pool_room(); }
  Result<void> open(phy::MbufPool& pool) override;
  void close() override { port_.reset(); }
  phy::Port* port() const override { return port_.get(); }
  Mac mac() const override { return *mac_; }
  DropReading drops() const override;
  std::string fault() const override { return port_ == nullptr ? "" : port_->fault(); }
  bool wants_reopening() const override;
  std::string interface() const override { return config_.interface; }
  void follow(const phy::InterfaceState& state) override;
  void sample() override;

 private:
  phy::AfXdpConfig config_;
  std::optional<phy::AfXdpPlan> plan_;  ///< after check()
  std::unique_ptr<phy::AfXdpPort> port_;
  std::optional<Mac> mac_;
  bool there_ = true;  ///< an interface of the name exists and is up
};

}  // namespace mtl::switchd
