#include "switch/media.h"

#include <algorithm>
#include <utility>

namespace mtl::switchd {
namespace {

/// The sentence with the port in front: "port p1: interface x is down: ...".
Error at_port(const PortPlan& plan, const Error& error) {
  return Error{"port " + plan.name + ": " + error.message};
}

/// The ports on the device of `first`, itself included.
std::vector<PortId> ports_on_device(const Plan& plan, PortId first) {
  std::vector<PortId> out;
  for (const PortPlan& port : plan.ports) {
    if (port.first_on_device == first) out.push_back(port.port);
  }
  return out;
}

/// Longest frame of any of `ports`, its tag not counted.
std::uint32_t longest_frame(const Plan& plan, const std::vector<PortId>& ports) {
  std::uint32_t longest = 0;
  for (const PortId port : ports) longest = std::max(longest, plan.ports[port.value()].max_frame);
  return longest;
}

phy::AfPacketConfig af_packet_config(const Plan& plan, PortId first, const AfPacketDevice& device) {
  const std::vector<PortId> ports = ports_on_device(plan, first);
  phy::AfPacketConfig config;
  config.interface = device.interface;
  config.frames = device.frames;
  config.max_frame = longest_frame(plan, ports);
  config.ether_type = plan.node.ports[first.value()].link.ether_type;
  for (const PortId id : ports) {
    const PortPlan& port = plan.ports[id.value()];
    if (port.mac) config.macs.push_back(*port.mac);
    config.tagged = config.tagged || port.vlan.has_value();
  }
  return config;
}

/// What tells the frames of `ports` apart; empty: a single port, whose are all without a tag.
std::vector<phy::Share> shares(const Plan& plan, const std::vector<PortId>& ports) {
  std::vector<phy::Share> out;
  out.reserve(ports.size());
  for (const PortId id : ports) {
    out.push_back(share_of(plan.node.ports[id.value()].link, plan.ports[id.value()]));
  }
  if (out.size() == 1 && !out.front().vlan) out.clear();
  return out;
}

void add(const DropReading& more, DropReading& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

}  // namespace

Result<MediaPlan> plan_media(const Plan& plan) {
  MediaPlan media;
  media.room = plan.buffers.room;
  media.af_packet.resize(plan.ports.size());
  for (const PortPlan& port : plan.ports) {
    const auto* device = std::get_if<AfPacketDevice>(&port.device);
    if (device == nullptr || port.first_on_device != port.port) continue;
    auto checked = phy::plan_af_packet(af_packet_config(plan, port.port, *device));
    if (!checked) return at_port(port, checked.error());
    media.room = std::max(media.room, checked->rings.pool_room());
    media.af_packet[port.port.value()] = std::move(*checked);
  }
  return media;
}

// --- opening ---

Result<std::unique_ptr<Media>> Media::open(const Plan& plan, const MediaPlan& media,
                                           std::vector<phy::MbufPool*> pools, Log& log) {
  std::unique_ptr<Media> out(new Media(log));
  auto monitor = phy::CarrierMonitor::open(
      [raw = out.get()](const phy::InterfaceState& state) { raw->interface_is(state); });
  if (!monitor) return monitor.error();
  out->monitor_ = std::move(*monitor);
  out->entries_.resize(plan.ports.size());
  for (const PortPlan& port : plan.ports) {
    phy::MbufPool& pool = *pools[plan.node.ports[port.port.value()].shard.value()];
    Result<void> opened;
    if (std::holds_alternative<SlotDevice>(port.device)) {
      opened = out->open_slot(port, out->entries_[port.port.value()], pool);
    } else if (port.first_on_device == port.port) {
      opened = out->open_device(plan, media, port.port, pool);
    }
    if (!opened) return at_port(port, opened.error());
  }
  for (const auto& device : out->devices_) {
    if (!device->interface.empty()) out->monitor_->watch(device->interface);
  }
  return out;
}

Result<void> Media::open_slot(const PortPlan& plan, Entry& entry, phy::MbufPool& pool) {
  phy::LocalPortConfig config;
  config.name = plan.name;
  config.ring_bytes = std::get<SlotDevice>(plan.device).ring_bytes;
  config.max_frame = plan.max_frame;
  auto port = phy::LocalPort::create(config, pool);
  if (!port) return port.error();
  entry.local = std::move(*port);
  entry.port = entry.local.get();
  return {};
}

Result<void> Media::open_device(const Plan& plan, const MediaPlan& media, PortId first,
                                phy::MbufPool& pool) {
  auto made = std::make_unique<Device>();
  Device& device = *made;
  device.ports = ports_on_device(plan, first);
  device.shares = shares(plan, device.ports);
  device.ether_type = plan.node.ports[first.value()].link.ether_type;
  device.pool = &pool;
  if (const auto* ethdev = std::get_if<EthdevDevice>(&plan.ports[first.value()].device)) {
    phy::EthdevOptions options;
    options.device = device.name = ethdev->devargs;
    options.max_frame = longest_frame(plan, device.ports);
    options.descriptors = ethdev->receive_ring;
    auto port = phy::open_ethdev(ethdev->devargs, pool, options);
    if (!port) return port.error();
    device.port = std::move(*port);
  } else {
    device.plan = media.af_packet[first.value()];
    device.interface = device.name = device.plan->config.interface;
    if (auto opened = open_af_packet(device); !opened) return opened;
  }
  device.mac = device.port->mac();
  give_ports(device);
  devices_.push_back(std::move(made));
  return {};
}

Result<void> Media::open_af_packet(Device& device) {
  auto port = phy::AfPacketPort::open(*device.plan, *device.pool);
  if (!port) return port.error();
  device.af_packet = port->get();
  device.port = std::move(*port);
  return {};
}

void Media::give_ports(Device& device) {
  if (!device.shares.empty()) {
    device.shared =
        std::make_unique<phy::SharedDevice>(*device.port, device.ether_type, device.shares);
  }
  for (std::size_t i = 0; i < device.ports.size(); ++i) {
    Entry& entry = entries_[device.ports[i].value()];
    entry.device = &device;
    entry.port = device.shared != nullptr ? &device.shared->port(i) : device.port.get();
  }
}

/// The ports are nobody's any more; what was dropped stays known.
void Media::close(Device& device) {
  add(device.own_drops(), device.before);
  for (const PortId port : device.ports) entries_[port.value()].port = nullptr;
  device.shared.reset();
  device.af_packet = nullptr;
  device.port.reset();
}

// --- what is known ---

/// What no port of the device counts: the driver's and the kernel's, and of a shared one its own.
DropReading Media::Device::own_drops() const {
  DropReading out{};
  if (port == nullptr) return out;
  add(read(port->device_counters().drops), out);
  if (shared != nullptr) {
    add(read(port->counters().drops), out);
    add(read(shared->counters().drops), out);
  }
  return out;
}

std::optional<Mac> Media::device_mac(PortId port) const {
  const Device* device = entries_[port.value()].device;
  if (device == nullptr) return std::nullopt;
  return device->mac;
}

DropReading Media::device_drops(PortId port) const {
  const Device* device = entries_[port.value()].device;
  DropReading out{};
  if (device == nullptr || !device->shares.empty()) return out;
  out = device->before;
  add(device->own_drops(), out);
  return out;
}

std::vector<Media::SharedReading> Media::shared_devices() const {
  std::vector<SharedReading> out;
  for (const auto& device : devices_) {
    if (device->shares.empty()) continue;
    SharedReading& reading = out.emplace_back();
    reading.name = device->name;
    reading.ports = device->ports;
    reading.drops = device->before;
    add(device->own_drops(), reading.drops);
  }
  return out;
}

std::string Media::fault(PortId port) const {
  const Device* device = entries_[port.value()].device;
  if (device == nullptr) return {};
  return device->port == nullptr ? device->fault : device->port->fault();
}

// --- watching ---

void Media::watch() {
  if (const auto result = monitor_->process(); !result) {
    log_.error("cannot follow interfaces any more", {{"error", result.error().message}});
  }
}

void Media::interface_is(const phy::InterfaceState& state) {
  for (const auto& device : devices_) {
    if (device->interface != state.name) continue;
    if (device->af_packet != nullptr) device->af_packet->follow_interface(state);
    const bool gone = device->af_packet == nullptr || device->af_packet->gone();
    if (!gone || !state.exists || !state.admin_up || device->reopening || !reopen_) continue;
    device->reopening = true;
    reopen_(device->ports);
  }
}

bool Media::reopen(PortId port) {
  Device& device = *entries_[port.value()].device;
  device.reopening = false;
  close(device);  // first: the driver would not open the name twice
  phy::AfPacketConfig config = device.plan->config;
  // The peers know the links by it.
  if (std::find(config.macs.begin(), config.macs.end(), device.mac) == config.macs.end()) {
    config.macs.push_back(device.mac);
  }
  auto plan = phy::plan_af_packet(config);
  if (!plan) {
    device.fault = plan.error().message;
    return false;
  }
  device.plan = std::move(*plan);
  if (auto opened = open_af_packet(device); !opened) {
    device.fault = opened.error().message;
    return false;
  }
  device.fault.clear();
  give_ports(device);
  return true;
}

void Media::sample() {
  for (const auto& device : devices_) {
    if (device->port != nullptr) device->port->sample();
  }
}

bool Media::samples_carrier() const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [](const auto& device) { return device->interface.empty(); });
}

}  // namespace mtl::switchd
