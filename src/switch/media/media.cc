#include "switch/media/media.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

namespace mtl::switchd {
namespace {

/// The sentence with the port in front: "port p1: interface x is down: ...".
Error at_port(const PortPlan& plan, const Error& error) {
  return Error{"port " + plan.name + ": " + error.message};
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

void add_up(const DropReading& more, DropReading& to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

}  // namespace

// --- opening ---

Result<std::unique_ptr<Media>> Media::check(const Plan& plan, Log& log) {
  std::unique_ptr<Media> out(new Media(log));
  out->room_ = plan.buffers.room;
  out->entries_.resize(plan.ports.size());
  for (const PortPlan& port : plan.ports) {
    if (!port.present() || std::holds_alternative<SlotDevice>(port.device)) continue;
    if (port.first_on_device != port.port) continue;
    if (auto added = out->add_place(plan, port.port); !added) return at_port(port, added.error());
  }
  return out;
}

Result<void> Media::add_place(const Plan& plan, PortId first) {
  auto place = std::make_unique<Place>();
  if (std::holds_alternative<MemifDevice>(plan.ports[first.value()].device)) {
    if (auto made = make_memif(plan.name); !made) return made;
    place->device = std::make_unique<MemifMedia>(plan, first, memif_->hub());
  } else {
    place->device = make_media_device(plan, first);
  }
  place->ports = ports_on_device(plan, first);
  place->shares = shares(plan, place->ports);
  place->ether_type = plan.node.ports[first.value()].link.ether_type;
  if (auto checked = place->device->check(); !checked) return checked;
  room_ = std::max(room_, place->device->room());
  for (const PortId port : place->ports) entries_[port.value()].place = place.get();
  places_.push_back(std::move(place));
  return {};
}

Result<void> Media::make_memif(const std::string& name) {
  if (memif_ != nullptr) return {};
  auto center = MemifCenter::open(name);
  if (!center) return center.error();
  if (poll_) {  // the others run
    if (auto watched = watch((*center)->hub().fd()); !watched) return watched;
  }
  memif_ = std::move(*center);
  if (hand_over_) start_memif();
  return {};
}

Result<void> Media::open(const Plan& plan, phy::MbufPool& pool) {
  auto monitor =
      phy::CarrierMonitor::open([this](const phy::InterfaceState& state) { interface_is(state); });
  if (!monitor) return monitor.error();
  monitor_ = std::move(*monitor);
  std::vector<PortId> ports;
  for (const PortPlan& port : plan.ports) {
    if (port.present()) ports.push_back(port.port);
  }
  auto opened = open_ports(plan, ports, [&pool](const auto&, std::uint32_t) { return &pool; });
  if (opened) opened = watch_all();
  if (!opened) undo(ports);
  return opened;
}

Result<void> Media::watch_all() {
  poll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (auto watched = watch(monitor_->fd()); !watched) return watched;
  return memif_ == nullptr ? Result<void>() : watch(memif_->hub().fd());
}

Result<void> Media::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Error{std::string("cannot watch the devices: ") + std::strerror(errno) +
               "; raise the limit of open files"};
}

void Media::let_memif_peers_in(HandOver hand_over) {
  hand_over_ = std::move(hand_over);
  if (memif_ != nullptr) start_memif();
}

void Media::start_memif() {
  memif_->hub().start([this](std::size_t end, std::unique_ptr<phy::MemifSegment> memory) {
    hand_over_(memif_ends_[end], std::move(memory));
  });
}

// --- ports that come and go ---

Result<void> Media::add(const Plan& plan, const std::vector<PortId>& ports, const PoolOf& pool_of) {
  Result<void> done;
  for (const PortId id : ports) {  // what is missing is named before anything is opened
    const PortPlan& port = plan.ports[id.value()];
    if (!done || std::holds_alternative<SlotDevice>(port.device)) continue;
    if (port.first_on_device != id) continue;
    done = add_place(plan, id);
    if (!done) done = at_port(port, done.error());
  }
  if (done) done = open_ports(plan, ports, pool_of);
  if (!done) {
    undo(ports);
    remove(ports);
  }
  return done;
}

Result<void> Media::open_ports(const Plan& plan, const std::vector<PortId>& ports,
                               const PoolOf& pool_of) {
  struct Opening {
    PortId port;
    phy::MbufPool* pool;
  };
  std::vector<Opening> all;  // first what may fail before anything is open
  for (const PortId id : ports) {
    if (plan.ports[id.value()].first_on_device != id) continue;
    const Place* place = entries_[id.value()].place;
    auto pool = place == nullptr ? pool_of({id}, 0) : pool_of(place->ports, place->device->room());
    if (!pool) return at_port(plan.ports[id.value()], pool.error());
    all.push_back({id, *pool});
  }
  std::stable_partition(all.begin(), all.end(), [this](const Opening& one) {
    const Place* place = entries_[one.port.value()].place;
    return place == nullptr || !place->device->overwrites();
  });
  for (const Opening& one : all) {
    const PortPlan& port = plan.ports[one.port.value()];
    Entry& entry = entries_[one.port.value()];
    auto opened = entry.place == nullptr ? open_slot(port, entry, *one.pool)
                                         : open_place(*entry.place, *one.pool);
    if (!opened) return at_port(port, opened.error());
  }
  return {};
}

/// Closes those of them that are open, and takes back what they had made.
void Media::undo(const std::vector<PortId>& ports) {
  for (const PortId id : ports) {
    Place* const place = entries_[id.value()].place;
    if (place == nullptr || place->ports.front() != id || !place->open()) continue;
    close(*place);
    place->device->undo();
  }
}

Result<void> Media::check(const Plan& plan, const std::vector<PortId>& ports) {
  for (const PortId id : ports) {
    const PortPlan& port = plan.ports[id.value()];
    if (port.first_on_device != id || std::holds_alternative<SlotDevice>(port.device) ||
        std::holds_alternative<MemifDevice>(port.device)) {
      continue;
    }
    if (auto checked = make_media_device(plan, id)->check(); !checked) {
      return at_port(port, checked.error());
    }
  }
  return {};
}

void Media::remove(const std::vector<PortId>& ports) {
  // The first on a device, which is the lowest, goes last.
  for (auto id = ports.rbegin(); id != ports.rend(); ++id) {
    Place* const place = std::exchange(entries_[id->value()], {}).place;
    if (place == nullptr || place->ports.front() != *id) continue;
    if (place->open()) close(*place);
    add_up(place->before, removed_drops_);
    if (!place->device->interface().empty()) monitor_->unwatch(place->device->interface());
    std::erase_if(places_, [place](const auto& other) { return other.get() == place; });
  }
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

Result<void> Media::open_place(Place& place, phy::MbufPool& pool) {
  place.pool = &pool;
  if (auto opened = place.device->open(pool); !opened) return opened;
  give_ports(place);
  if (!place.device->interface().empty()) monitor_->watch(place.device->interface());
  if (auto* const memif = dynamic_cast<MemifMedia*>(place.device.get()); memif != nullptr) {
    entries_[place.ports.front().value()].memif = &memif->memif();
    memif_ends_.resize(std::max(memif_ends_.size(), memif->end() + 1));
    memif_ends_[memif->end()] = place.ports.front();
  }
  return {};
}

void Media::give_ports(Place& place) {
  phy::Port& port = *place.device->port();
  if (!place.shares.empty()) {
    place.shared = std::make_unique<phy::SharedDevice>(port, place.ether_type, place.shares);
  }
  for (std::size_t i = 0; i < place.ports.size(); ++i) {
    entries_[place.ports[i].value()].port =
        place.shared != nullptr ? &place.shared->port(i) : &port;
  }
}

/// The ports are nobody's any more; what was dropped stays known.
void Media::close(Place& place) {
  place.device->sample();  // what the device counted since the last time goes with it
  add_up(place.own_drops(), place.before);
  for (const PortId port : place.ports) entries_[port.value()].port = nullptr;
  place.shared.reset();
  place.device->close();
}

// --- what is known ---

/// What no port of the device counts: the driver's and the kernel's, and of a shared one its own.
DropReading Media::Place::own_drops() const {
  DropReading out = device->drops();
  if (shared != nullptr) {
    add_up(read(device->port()->counters().drops), out);
    add_up(read(shared->counters().drops), out);
  }
  return out;
}

std::optional<Mac> Media::device_mac(PortId port) const {
  const Place* place = entries_[port.value()].place;
  if (place == nullptr) return std::nullopt;
  return place->device->mac();
}

DropReading Media::device_drops(PortId port) const {
  const Place* place = entries_[port.value()].place;
  DropReading out{};
  if (place == nullptr || !place->shares.empty()) return out;
  out = place->before;
  add_up(place->own_drops(), out);
  return out;
}

std::vector<Media::SharedReading> Media::shared_devices() const {
  std::vector<SharedReading> out;
  for (const auto& place : places_) {
    if (place->shares.empty()) continue;
    SharedReading& reading = out.emplace_back();
    reading.name = place->device->name();
    reading.ports = place->ports;
    reading.drops = place->before;
    add_up(place->own_drops(), reading.drops);
  }
  return out;
}

std::string Media::fault(PortId port) const {
  const Place* place = entries_[port.value()].place;
  if (place == nullptr) return {};
  return place->open() ? place->device->fault() : place->fault;
}

// --- watching ---

void Media::watch() {
  if (memif_ != nullptr) memif_->hub().process();
  if (const auto result = monitor_->process(); !result) {
    log_.error("cannot follow interfaces any more", {{"error", result.error().message}});
  }
}

void Media::interface_is(const phy::InterfaceState& state) {
  for (const auto& place : places_) {
    if (place->device->interface() != state.name) continue;
    place->device->follow(state);
    revive(*place);
  }
}

void Media::revive() {
  for (const auto& place : places_) revive(*place);
}

void Media::revive(Place& place) {
  if (place.reopening || !reopen_ || !place.device->wants_reopening()) return;
  place.reopening = true;
  reopen_(place.ports);
}

bool Media::reopen(PortId port) {
  Place& place = *entries_[port.value()].place;
  place.reopening = false;
  close(place);  // first: a driver would not open the name twice
  auto opened = place.device->check();
  if (opened) opened = place.device->open(*place.pool);
  if (!opened) {
    place.fault = opened.error().message;
    return false;
  }
  place.fault.clear();
  give_ports(place);
  return true;
}

void Media::sample() {
  for (const auto& place : places_) place->device->sample();
}

bool Media::samples_carrier() const {
  return std::any_of(places_.begin(), places_.end(),
                     [](const auto& place) { return place->device->samples_carrier(); });
}

}  // namespace mtl::switchd
