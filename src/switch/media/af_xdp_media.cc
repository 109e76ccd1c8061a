#include "switch/media/af_xdp_media.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace mtl::switchd {

AfXdpMedia::AfXdpMedia(const Plan& plan, PortId first) {
  const auto& device = std::get<AfXdpDevice>(plan.ports[first.value()].device);
  config_.interface = device.interface;
  config_.frames = device.frames;
  config_.max_frame = longest_frame_on_device(plan, first);
  config_.ether_type = plan.node.ports[first.value()].link.ether_type;
  for (const PortId id : ports_on_device(plan, first)) {
    const PortPlan& port = plan.ports[id.value()];
    if (port.mac) config_.macs.push_back(*port.mac);
    config_.tagged = config_.tagged || port.vlan.has_value();
  }
}

Result<void> AfXdpMedia::check() {
  auto plan = phy::plan_af_xdp(config_);
  if (!plan) return plan.error();
  plan_ = std::move(*plan);
  plan_->may_wait = !mac_;  // what is opened anew is tried again in a second, and ports wait for it
  return {};
}

Result<void> AfXdpMedia::open(phy::MbufPool& pool) {
  auto port = phy::AfXdpPort::open(*plan_, pool);
  if (!port) return port.error();
  port_ = std::move(*port);
  if (mac_) return {};
  mac_ = port_->mac();
  // A later interface of the name may have another address; the peers know the links by this one.
  if (std::find(config_.macs.begin(), config_.macs.end(), *mac_) == config_.macs.end()) {
    config_.macs.push_back(*mac_);
  }
  return {};
}

DropReading AfXdpMedia::drops() const {
  return port_ == nullptr ? DropReading{} : read(port_->device_counters().drops);
}

bool AfXdpMedia::wants_reopening() const {
  return there_ && (port_ == nullptr || port_->gone());
}

void AfXdpMedia::follow(const phy::InterfaceState& state) {
  there_ = state.exists && state.admin_up;
  if (port_ != nullptr) port_->follow_interface(state);
}

void AfXdpMedia::sample() {
  if (port_ != nullptr) port_->sample();
}

}  // namespace mtl::switchd
