#include "switch/media/tap_media.h"

#include <utility>
#include <variant>

namespace mtl::switchd {

TapMedia::TapMedia(const Plan& plan, PortId first) {
  config_.interface = std::get<TapDevice>(plan.ports[first.value()].device).interface;
  config_.max_frame = longest_frame_on_device(plan, first);
  config_.ether_type = plan.node.ports[first.value()].link.ether_type;
  for (const PortId id : ports_on_device(plan, first)) {
    config_.macs.push_back(*plan.ports[id.value()].mac);  // each has one: needs_mac()
  }
}

Result<void> TapMedia::check() {
  auto plan = phy::plan_tap(config_);
  if (!plan) return plan.error();
  plan_ = std::move(*plan);
  return {};
}

Result<void> TapMedia::open(phy::MbufPool& pool) {
  auto port = phy::TapPort::open(*plan_, pool);
  if (!port) return port.error();
  port_ = std::move(*port);
  return {};
}

/// What is told may be of an interface that this very port has replaced: the kernel is asked how it
/// is now.
void TapMedia::follow(const phy::InterfaceState&) {
  if (port_ == nullptr) return;
  if (const auto now = phy::query_interface(config_.interface)) port_->follow_interface(*now);
}

}  // namespace mtl::switchd
