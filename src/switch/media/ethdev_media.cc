#include "switch/media/ethdev_media.h"

#include <utility>
#include <variant>

#include "phy/dpdk/pci_device.h"

namespace mtl::switchd {

EthdevMedia::EthdevMedia(const Plan& plan, PortId first) {
  const auto& device = std::get<EthdevDevice>(plan.ports[first.value()].device);
  devargs_ = device.devargs;
  options_.device = device.devargs;
  options_.max_frame = longest_frame_on_device(plan, first);
  options_.descriptors = device.receive_ring;
}

Result<void> EthdevMedia::check() {
  return phy::check_pci_device(devargs_);
}

Result<void> EthdevMedia::open(phy::MbufPool& pool) {
  auto port = phy::open_ethdev(devargs_, pool, options_);
  if (!port) return port.error();
  port_ = std::move(*port);
  if (!mac_) mac_ = port_->mac();
  return {};
}

DropReading EthdevMedia::drops() const {
  return port_ == nullptr ? DropReading{} : read(port_->device_counters().drops);
}

void EthdevMedia::sample() {
  if (port_ != nullptr) port_->sample();
}

}  // namespace mtl::switchd
