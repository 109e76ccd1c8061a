#include "sim/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "link/codec.h"

namespace mtl::sim {
namespace {

std::uint32_t longest_frame(const FabricPlan& plan) {
  std::uint32_t mtu = 0;
  for (const NodePlan& node : plan.nodes) {
    for (const network::PortConfig& port : node.config.ports) {
      mtu = std::max<std::uint32_t>(mtu, port.link.mtu);
    }
  }
  return mtu + static_cast<std::uint32_t>(link::kFrameHeader + link::kVlanTag);
}

}  // namespace

Fabric::Fabric(const FabricPlan& plan, ClockQueue& queue, Random random, FabricWatcher& watcher,
               EventLog& log)
    : context_{queue, watcher, log}, wire_pool_(longest_frame(plan)), dark_(plan.nodes.size()) {
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    nodes_.push_back(
        std::make_unique<NodeHost>(i, plan.nodes[i], context_, random.stream("node", i)));
  }
  WireEnd& end = *this;  // make_unique does not see the private base
  for (std::size_t i = 0; i < plan.wires.size(); ++i) {
    const WirePlan& wire = plan.wires[i];
    wires_.push_back(
        std::make_unique<Wire>(wire, queue, wire_pool_, end, random.stream("wire", i)));
    for (std::size_t d = 0; d < 2; ++d) {
      PortSlot& slot = nodes_[wire.ends[d].node]->slot(wire.ends[d].port);
      slot.wire = wires_.back().get();
      slot.direction = d;
      slot.peer = wire.ends[1 - d];
    }
  }
}

Fabric::~Fabric() {
  for (const auto& node : nodes_) {
    if (node->running()) node->halt();
  }
}

void Fabric::start() {
  for (const auto& node : nodes_) node->boot(now());
}

void Fabric::halt_node(std::uint32_t index, bool carrier) {
  NodeHost& node = *nodes_[index];
  if (!node.running()) return;
  if (context_.log.on()) context_.log.line(now(), fmt::format("node {} halts", index));
  node.halt();
  dark_[index] = carrier;
  for (const PortSlot& slot : node.slots()) {
    if (carrier) carrier_changed(slot.peer, false, now());
  }
}

void Fabric::boot_node(std::uint32_t index) {
  NodeHost& node = *nodes_[index];
  if (node.running()) return;
  if (context_.log.on()) context_.log.line(now(), fmt::format("node {} boots", index));
  node.boot(now());
  if (!dark_[index]) return;
  dark_[index] = false;
  for (const PortSlot& slot : node.slots()) carrier_changed(slot.peer, true, now());
}

void Fabric::set_enabled(PortRef port, bool enabled) {
  NodeHost& node = *nodes_[port.node];
  node.slot(port.port).enabled = enabled;
  if (node.running()) node.enable(port.port, enabled, now());
}

void Fabric::frames_in(PortRef end, std::span<Buffer* const> frames, Time now) {
  NodeHost& node = *nodes_[end.node];
  if (node.running()) node.frames_in(end.port, frames, now);
}

void Fabric::room_again(PortRef end, Time now) {
  NodeHost& node = *nodes_[end.node];
  if (node.running()) node.room_again(end.port, now);
}

// Several causes may take the carrier; it is back when none is left.
void Fabric::carrier_changed(PortRef end, bool carrier, Time now) {
  NodeHost& node = *nodes_[end.node];
  std::uint32_t& lost = node.slot(end.port).carrier_lost;
  const bool had = lost == 0;
  lost = carrier ? lost - 1 : lost + 1;
  const bool has = lost == 0;
  if (had != has && node.running()) node.set_carrier(end.port, has, now);
}

bool Fabric::all_usable() const {
  for (const auto& node : nodes_) {
    for (std::size_t i = 0; i < node->slots().size(); ++i) {
      const link::Link* link = node->link(PortId(static_cast<std::uint16_t>(i)));
      if (link == nullptr || !link->usable()) return false;
    }
  }
  return true;
}

std::uint32_t Fabric::in_use() const {
  std::uint32_t n = 0;
  for (const auto& node : nodes_) {
    if (node->running()) n += node->in_use();
  }
  return n;
}

namespace {

std::string describe(std::uint32_t node, PortId port, const PortSlot& slot,
                     const link::Link& link) {
  std::string text = fmt::format(
      "node {} port {} (to node {} port {}): {} {}{} session {} queued {} unacknowledged {} held "
      "{}",
      node, port.value(), slot.peer.node, slot.peer.port.value(), link::name(link.state()),
      link::name(link.down_reason()), link.usable() ? " usable" : "", slot.session, link.queued(),
      link.unacknowledged(), link.held());
  for (std::uint8_t v = 0; v < kVcs; ++v) {
    const Vc vc{v};
    if (link.queued_cells(vc) == 0 && link.occupied(vc) == 0) continue;
    text += fmt::format("; vc {}: queued cells {} credit {} occupied {}", v, link.queued_cells(vc),
                        link.credit(vc), link.occupied(vc));
  }
  return text + '\n';
}

}  // namespace

std::string Fabric::dump() const {
  std::string text;
  for (const auto& node : nodes_) {
    if (!node->running()) {
      text += fmt::format("node {}: halted\n", node->index());
      continue;
    }
    for (std::size_t i = 0; i < node->slots().size(); ++i) {
      const PortId port(static_cast<std::uint16_t>(i));
      if (node->link(port) == nullptr) {
        text += fmt::format("node {} port {}: removed\n", node->index(), port.value());
        continue;
      }
      const link::Link& link = *node->link(port);
      bool idle = link.usable() && link.queued() == 0 && link.unacknowledged() == 0;
      for (std::uint8_t v = 0; v < kVcs; ++v) idle = idle && link.occupied(Vc{v}) == 0;
      if (!idle) text += describe(node->index(), port, node->slots()[i], link);
    }
    if (node->in_use() == 0) continue;
    text += fmt::format("node {}: {} buffers out\n", node->index(), node->in_use());
    for (const auto& shard : node->shards()) {
      if (shard->waiting() == 0) continue;
      text += fmt::format("node {} shard {}: {} delivered and not consumed\n", node->index(),
                          shard->id().value(), shard->waiting());
    }
  }
  return text;
}

}  // namespace mtl::sim
