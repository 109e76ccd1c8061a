#include "switch/media.h"

#include <algorithm>
#include <utility>

namespace mtl::switchd {
namespace {

/// The sentence with the port in front: "port p1: interface x is down: ...".
Error at_port(const PortPlan& plan, const Error& error) {
  return Error{"port " + plan.name + ": " + error.message};
}

phy::AfPacketConfig af_packet_config(const Plan& plan, const PortPlan& port,
                                     const AfPacketDevice& device) {
  phy::AfPacketConfig config;
  config.interface = device.interface;
  config.frames = device.frames;
  config.max_frame = port.max_frame;
  config.ether_type = plan.node.ports[port.port.value()].link.ether_type;
  config.mac = port.mac;
  return config;
}

}  // namespace

Result<MediaPlan> plan_media(const Plan& plan) {
  MediaPlan media;
  media.room = plan.buffers.room;
  media.af_packet.resize(plan.ports.size());
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    const auto* device = std::get_if<AfPacketDevice>(&plan.ports[i].device);
    if (device == nullptr) continue;
    auto checked = phy::plan_af_packet(af_packet_config(plan, plan.ports[i], *device));
    if (!checked) return at_port(plan.ports[i], checked.error());
    media.room = std::max(media.room, checked->rings.pool_room());
    media.af_packet[i] = std::move(*checked);
  }
  return media;
}

Result<std::unique_ptr<Media>> Media::open(const Plan& plan, const MediaPlan& media,
                                           std::vector<phy::MbufPool*> pools, Log& log) {
  std::unique_ptr<Media> out(new Media(log));
  auto monitor = phy::CarrierMonitor::open(
      [raw = out.get()](const phy::InterfaceState& state) { raw->interface_is(state); });
  if (!monitor) return monitor.error();
  out->monitor_ = std::move(*monitor);
  out->entries_.resize(plan.ports.size());
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    Entry& entry = out->entries_[i];
    entry.pool = pools[plan.node.ports[i].shard.value()];
    if (auto opened = out->open_one(plan.ports[i], media, entry); !opened) {
      return at_port(plan.ports[i], opened.error());
    }
  }
  for (const Entry& entry : out->entries_) {
    if (!entry.interface.empty()) out->monitor_->watch(entry.interface);
  }
  return out;
}

Result<void> Media::open_one(const PortPlan& plan, const MediaPlan& media, Entry& entry) {
  entry.id = plan.port;
  if (const auto* slot = std::get_if<SlotDevice>(&plan.device)) {
    phy::LocalPortConfig config;
    config.name = plan.name;
    config.ring_bytes = slot->ring_bytes;
    config.max_frame = plan.max_frame;
    auto port = phy::LocalPort::create(config, *entry.pool);
    if (!port) return port.error();
    entry.local = std::move(*port);
    return {};
  }
  if (const auto* device = std::get_if<EthdevDevice>(&plan.device)) {
    phy::EthdevOptions options;
    options.device = device->devargs;
    options.max_frame = plan.max_frame;
    options.descriptors = device->receive_ring;
    auto port = phy::open_ethdev(device->devargs, *entry.pool, options);
    if (!port) return port.error();
    entry.ethdev = std::move(*port);
    entry.mac = entry.ethdev->mac();
    return {};
  }
  entry.plan = media.af_packet[plan.port.value()];
  entry.interface = entry.plan->config.interface;
  auto port = phy::AfPacketPort::open(*entry.plan, *entry.pool);
  if (!port) return port.error();
  entry.af_packet = std::move(*port);
  entry.mac = entry.af_packet->mac();
  return {};
}

phy::EthdevPort* Media::device(const Entry& entry) const {
  if (entry.af_packet != nullptr) return entry.af_packet.get();
  return entry.ethdev.get();
}

phy::Port* Media::port(PortId port) const {
  const Entry& entry = entries_[port.value()];
  if (entry.local != nullptr) return entry.local.get();
  return device(entry);
}

std::optional<Mac> Media::device_mac(PortId port) const {
  return entries_[port.value()].mac;
}

const phy::DeviceCounters* Media::device_counters(PortId port) const {
  const phy::EthdevPort* ethdev = device(entries_[port.value()]);
  return ethdev == nullptr ? nullptr : &ethdev->device_counters();
}

std::string Media::fault(PortId port) const {
  const Entry& entry = entries_[port.value()];
  const phy::EthdevPort* ethdev = device(entry);
  return ethdev == nullptr ? entry.fault : ethdev->fault();
}

void Media::watch() {
  if (const auto result = monitor_->process(); !result) {
    log_.error("cannot follow interfaces any more", {{"error", result.error().message}});
  }
}

void Media::interface_is(const phy::InterfaceState& state) {
  for (Entry& entry : entries_) {
    if (entry.interface != state.name) continue;
    if (entry.af_packet != nullptr) entry.af_packet->follow_interface(state);
    const bool gone = entry.af_packet == nullptr || state.index != entry.plan->interface.index;
    if (!gone || !state.exists || !state.admin_up || entry.reopening || !reopen_) continue;
    entry.reopening = true;
    reopen_(entry.id);
  }
}

bool Media::reopen(PortId port) {
  Entry& entry = entries_[port.value()];
  entry.reopening = false;
  if (entry.interface.empty()) return false;
  entry.af_packet.reset();  // first: the driver would not open the name twice
  phy::AfPacketConfig config = entry.plan->config;
  config.mac = entry.mac;  // the peers know the link by it
  auto plan = phy::plan_af_packet(config);
  if (!plan) {
    entry.fault = plan.error().message;
    return false;
  }
  auto opened = phy::AfPacketPort::open(*plan, *entry.pool);
  if (!opened) {
    entry.fault = opened.error().message;
    return false;
  }
  entry.plan = std::move(*plan);
  entry.af_packet = std::move(*opened);
  entry.fault.clear();
  return true;
}

void Media::sample() {
  for (const Entry& entry : entries_) {
    if (phy::EthdevPort* ethdev = device(entry)) ethdev->sample();
  }
}

bool Media::samples_carrier() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& entry) { return entry.ethdev != nullptr; });
}

}  // namespace mtl::switchd
