#include "sim/schedule.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sim/shape.h"

namespace mtl::sim {
namespace {

constexpr std::uint32_t kGone = 0xFFFFFFFF;

Mac mac_of(PortRef at) {
  const std::uint16_t port = at.port.value();
  return {std::byte{2},       std::byte{0},         std::byte(at.node >> 8),
          std::byte(at.node), std::byte(port >> 8), std::byte(port)};
}

/// New numbers of what stays, kGone for what does not.
std::vector<std::uint32_t> renumber(std::size_t size, const std::vector<bool>& gone) {
  std::vector<std::uint32_t> numbers(size, kGone);
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < size; ++i) {
    if (!gone[i]) numbers[i] = next++;
  }
  return numbers;
}

template <class T>
std::vector<T> kept(const std::vector<T>& all, const std::vector<std::uint32_t>& numbers) {
  std::vector<T> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (numbers[i] != kGone) out.push_back(all[i]);
  }
  return out;
}

/// Leaves those that move() gives a new number.
template <class T, class Move>
void renumber_each(std::vector<T>& all, const Move& move) {
  std::vector<T> out;
  for (T& one : all) {
    if (move(one)) out.push_back(std::move(one));
  }
  all = std::move(out);
}

class Reduction {
 public:
  Reduction(const Schedule& from, const std::vector<std::uint32_t>& nodes,
            const std::vector<std::uint32_t>& wires)
      : from_(from) {
    std::vector<bool> node_gone(from.plan.nodes.size());
    for (const std::uint32_t n : nodes) node_gone[n] = true;
    std::vector<bool> wire_gone(from.plan.wires.size());
    for (const std::uint32_t w : wires) wire_gone[w] = true;
    std::vector<std::vector<bool>> port_gone;
    for (const NodePlan& node : from.plan.nodes) port_gone.emplace_back(node.config.ports.size());
    for (std::size_t w = 0; w < wire_gone.size(); ++w) {
      const auto& ends = from.plan.wires[w].ends;
      if (node_gone[ends[0].node] || node_gone[ends[1].node]) wire_gone[w] = true;
      if (!wire_gone[w]) continue;
      for (const PortRef& end : ends) port_gone[end.node][end.port.value()] = true;
    }
    for (std::size_t n = 0; n < node_gone.size(); ++n) {
      const auto& ports = port_gone[n];
      if (!ports.empty() && std::find(ports.begin(), ports.end(), false) == ports.end()) {
        node_gone[n] = true;
      }
    }
    nodes_ = renumber(node_gone.size(), node_gone);
    wires_ = renumber(wire_gone.size(), wire_gone);
    for (const auto& gone : port_gone) ports_.push_back(renumber(gone.size(), gone));
  }

  Schedule run() {
    Schedule out = from_;
    out.plan.nodes = kept(from_.plan.nodes, nodes_);
    out.plan.wires = kept(from_.plan.wires, wires_);
    for (WirePlan& wire : out.plan.wires) {
      for (PortRef& end : wire.ends) move(end);
    }
    std::size_t next = 0;
    for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n] != kGone) reduce_node(out.plan.nodes[next++], n);
    }
    assign_addresses(out.plan);
    if (!out.traffic.packets.empty()) out.traffic.packets = kept(out.traffic.packets, nodes_);
    renumber_each(out.flows, [&](Flow& f) {
      return move(f.from) && move(f.to) && has_route(out.plan.nodes[f.from], f.to);
    });
    renumber_each(out.sends, [this](Send& s) { return move(s.packet); });
    renumber_each(out.faults, [this](Fault& f) { return move(f); });
    renumber_each(out.moves, [this](Move& m) { return move(m); });
    renumber_each(out.replacements, [this](Replacement& r) {
      PortRef at{r.node, r.port};
      const bool stays = move(at);
      r.node = at.node;
      r.port = at.port;
      return stays;
    });
    return out;
  }

 private:
  bool move(std::uint32_t& node) const {
    node = nodes_[node];
    return node != kGone;
  }
  bool move(PortRef& at) const {
    const std::uint32_t port = ports_[at.node][at.port.value()];
    if (port == kGone || nodes_[at.node] == kGone) return false;
    at = {nodes_[at.node], PortId(static_cast<std::uint16_t>(port))};
    return true;
  }
  bool move(PacketPlan& packet) const {
    if (!move(packet.at)) return false;
    // An id that was no node's stays none.
    for (NodeId* id : {&packet.header.src, &packet.header.dst}) {
      const std::size_t index = id->value() - std::size_t{1};
      if (index >= nodes_.size()) continue;
      if (nodes_[index] == kGone) return false;
      *id = node_id(nodes_[index]);
    }
    return true;
  }
  bool move(Fault& fault) const {
    const bool of_node = fault.what == Fault::What::kHalt;
    if (of_node && nodes_[fault.port.node] == kGone) return false;
    const std::uint32_t wire = wires_[fault.wire];
    if (of_node) {
      fault.port = {nodes_[fault.port.node], PortId(0)};
      fault.wire = wire == kGone ? 0 : wire;
      return true;
    }
    fault.wire = wire;
    return wire != kGone && move(fault.port);
  }
  bool move(Move& m) const {
    std::vector<PortId> ports;
    for (const PortId port : m.ports) {
      PortRef at{m.node, port};
      if (move(at)) ports.push_back(at.port);
    }
    m.ports = std::move(ports);
    return move(m.node) && !m.ports.empty();
  }

  void reduce_node(NodePlan& node, std::uint32_t was) const {
    node.config.ports = kept(node.config.ports, ports_[was]);
    const auto stays = [&](PortId& port) {
      PortRef at{was, port};
      const bool moved = move(at);
      port = at.port;
      return moved;
    };
    for (network::TrunkConfig& trunk : node.config.trunks) {
      renumber_each(trunk.lanes, stays);
    }
    // The routes name the leader, which may be gone; what is left of the trunk has another.
    for (network::Route& route : node.routes) {
      for (network::Tier& tier : route.tiers) lead_again(tier, was);
    }
    std::erase_if(node.config.trunks, [](const network::TrunkConfig& trunk) {
      return trunk.lanes.size() < network::Trunk::kMinLanes;
    });
    for (network::Route& route : node.routes) {
      for (network::Tier& tier : route.tiers) {
        renumber_each(tier, [&](network::NextHop& hop) { return stays(hop.port); });
      }
      std::erase_if(route.tiers, [](const network::Tier& tier) { return tier.empty(); });
      const std::size_t dst = route.dst.value() - std::size_t{1};
      if (dst >= nodes_.size()) continue;
      if (nodes_[dst] == kGone) {
        route.tiers.clear();
      } else {
        route.dst = node_id(nodes_[dst]);
      }
    }
    std::erase_if(node.routes, [](const network::Route& route) { return route.tiers.empty(); });
  }

  /// Of each trunk whose leader is gone, the first lane that stays takes its place in `tier`.
  void lead_again(network::Tier& tier, std::uint32_t node) const {
    for (network::NextHop& hop : tier) {
      if (ports_[node][hop.port.value()] != kGone) continue;
      for (const network::TrunkConfig& trunk : from_.plan.nodes[node].config.trunks) {
        if (trunk.lanes.front() != hop.port) continue;
        const auto lane = std::find_if(trunk.lanes.begin(), trunk.lanes.end(), [&](PortId port) {
          return ports_[node][port.value()] != kGone;
        });
        if (lane != trunk.lanes.end()) hop.port = *lane;
      }
    }
  }

  const Schedule& from_;
  std::vector<std::uint32_t> nodes_, wires_;
  std::vector<std::vector<std::uint32_t>> ports_;  ///< by node
};

}  // namespace

void assign_addresses(FabricPlan& plan) {
  for (std::uint32_t n = 0; n < plan.nodes.size(); ++n) {
    network::NodeConfig& node = plan.nodes[n].config;
    node.node = node_id(n);
    for (std::size_t p = 0; p < node.ports.size(); ++p) {
      link::Config& link = node.ports[p].link;
      link.node = node.node;
      link.port = PortId(static_cast<std::uint16_t>(p));
      link.mac = mac_of({n, link.port});
    }
  }
  for (const WirePlan& wire : plan.wires) {
    for (std::size_t d = 0; d < 2; ++d) {
      const PortRef peer = wire.ends[1 - d];
      network::PortConfig& port =
          plan.nodes[wire.ends[d].node].config.ports[wire.ends[d].port.value()];
      if (port.edge) port.edge = network::Edge{{node_id(peer.node)}, {kGoodPartition}};
      if (port.link.peer_mac) port.link.peer_mac = mac_of(peer);
      if (port.link.expect_node) port.link.expect_node = node_id(peer.node);
    }
  }
}

Duration interval(const Flow& flow) {
  return Duration(
      static_cast<std::int64_t>(std::uint64_t{flow.length} * 8 * 1'000'000'000 / flow.rate));
}

Time last_planned(const Schedule& schedule) {
  Time last{};
  for (const Fault& f : schedule.faults) last = std::max(last, f.at + f.lasts);
  for (const Send& s : schedule.sends) last = std::max(last, s.at);
  for (const Move& m : schedule.moves) last = std::max(last, m.at);
  for (const Replacement& r : schedule.replacements) last = std::max(last, r.at);
  for (const Flow& f : schedule.flows) last = std::max(last, f.end == kNever ? f.start : f.end);
  return last;
}

namespace {

/// From the death of a link to its being usable again, and whatever else its timers hold up.
Duration all_timers(const link::Timers& t) {
  return t.init_interval + t.keepalive_interval + t.dead_interval + t.ack_delay + t.replay_timeout +
         t.nack_interval + t.hold_down + (t.adaptive ? 2 * t.adaptive_max : Duration(0));
}

Duration delays(const phy::ImpairmentConfig& impairment) {
  return impairment.delay + impairment.jitter + impairment.reorder_delay;
}

/// The longest packet of a plan, by what its links take.
std::uint32_t longest_packet(const FabricPlan& plan) {
  std::uint32_t longest = 0;
  for (const NodePlan& node : plan.nodes) {
    for (const network::PortConfig& port : node.config.ports) {
      longest = std::max<std::uint32_t>(longest, port.link.mtu);
    }
  }
  return longest;
}

/// One way over a wire, behind some frames that are on it.
Duration way_over(const WirePlan& wire, std::uint32_t longest) {
  const Duration frame = wire.rate ? phy::wire_time(*wire.rate, longest + 64) : Duration(0);
  return wire.delay + 4 * (frame + Duration(1));
}

}  // namespace

Duration longest_wait(const Schedule& schedule) {
  constexpr Duration kLeast = std::chrono::seconds(30);
  Duration timers{0}, ways{0}, nodes{0}, consume{0}, once{0}, faults = delays(schedule.background);
  for (const NodePlan& node : schedule.plan.nodes) {
    nodes += node.ring_delay + 3 * node.move_delay;
    consume = std::max(consume, node.consume_delay);
    for (const network::PortConfig& port : node.config.ports) {
      timers = std::max(timers, all_timers(port.link.timers));
    }
  }
  // A packet goes round by all wires at most, as does the credit that it waits for.
  const std::uint32_t longest = longest_packet(schedule.plan);
  for (const WirePlan& wire : schedule.plan.wires) ways += way_over(wire, longest);
  for (const Flow& flow : schedule.flows) {
    if (flow.rate != 0) once = std::max(once, interval(flow));
  }
  for (const Replacement& r : schedule.replacements) once = std::max(once, r.rest);
  for (const Fault& fault : schedule.faults) faults = std::max(faults, delays(fault.impairment));
  return kLeast + 4 * (timers + ways + nodes) + consume + once + faults;
}

const network::TrunkConfig* trunk_of(const network::NodeConfig& node, PortId port) {
  const auto found =
      std::find_if(node.trunks.begin(), node.trunks.end(), [port](const auto& trunk) {
        return std::find(trunk.lanes.begin(), trunk.lanes.end(), port) != trunk.lanes.end();
      });
  return found == node.trunks.end() ? nullptr : &*found;
}

bool has_route(const NodePlan& node, std::uint32_t to) {
  return std::any_of(node.routes.begin(), node.routes.end(),
                     [to](const network::Route& route) { return route.dst == node_id(to); });
}

Duration settling_time(const Schedule& schedule) {
  const FabricPlan& plan = schedule.plan;
  const bool losses = !schedule.faults.empty() || schedule.background.active();
  Duration ack{0}, keepalive{0}, way{0};
  for (const NodePlan& node : plan.nodes) {
    for (const network::PortConfig& port : node.config.ports) {
      ack = std::max(ack, port.link.timers.ack_delay);
      keepalive = std::max(keepalive, port.link.timers.keepalive_interval);
    }
  }
  const std::uint32_t longest = longest_packet(plan);
  for (const WirePlan& wire : plan.wires) way = std::max(way, way_over(wire, longest));
  // What a loss kept from being told, and nobody waits for, is told by the next keepalive (L23).
  return 2 * ack + 3 * way + (losses ? keepalive : Duration(0));
}

Schedule without(const Schedule& schedule, const std::vector<std::uint32_t>& nodes,
                 const std::vector<std::uint32_t>& wires) {
  return Reduction(schedule, nodes, wires).run();
}

}  // namespace mtl::sim
