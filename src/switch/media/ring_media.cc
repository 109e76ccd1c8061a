#include "switch/media/ring_media.h"

#include <utility>
#include <variant>

namespace mtl::switchd {

RingMedia::RingMedia(const Plan& plan, PortId first) {
  const PortPlan& port = plan.ports[first.value()];
  name_ = std::get<RingDevice>(port.device).name;
  options_.device = "ring " + name_;
  options_.max_frame = longest_frame_on_device(plan, first);
  options_.descriptors = RingDevice::kFrames;
  mac_ = *port.mac;  // it has one: needs_mac()
}

Result<void> RingMedia::open(phy::MbufPool& pool) {
  auto cable = phy::RingCable::take_end(name_, RingDevice::kFrames);
  if (!cable) return cable.error();
  auto port = (*cable)->open(pool, options_);
  if (!port) return port.error();
  cable_ = std::move(*cable);
  port_ = std::move(*port);
  port_->set_carrier(cable_->whole());
  return {};
}

void RingMedia::close() {
  if (port_ == nullptr) return;
  const std::uint16_t id = port_->id();
  port_.reset();
  cable_->closed(id);
  cable_.reset();
}

DropReading RingMedia::drops() const {
  return port_ == nullptr ? DropReading{} : read(port_->device_counters().drops);
}

std::string RingMedia::fault() const {
  if (port_ == nullptr || cable_->whole()) return {};
  return "ring " + name_ + " has no port on its other end: add one that names it";
}

void RingMedia::sample() {
  if (port_ == nullptr) return;
  port_->sample();
  port_->set_carrier(cable_->whole());
}

}  // namespace mtl::switchd
