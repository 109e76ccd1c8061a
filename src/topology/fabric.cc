#include "topology/fabric.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace mtl::topology {

using network::NextHop;
using network::Route;
using network::RouteTable;
using network::Tier;

namespace {

std::string text(NodeId node) {
  return std::to_string(node.value());
}

/// A node's place: the index of its switch, and whether it is an endpoint there.
struct Place {
  std::size_t at = 0;
  bool endpoint = false;
};

std::optional<Place> find(const Fabric& fabric, NodeId node) {
  for (std::size_t i = 0; i < fabric.switches.size(); ++i) {
    const Switch& s = fabric.switches[i];
    if (s.node == node) return Place{i, false};
    if (std::find(s.endpoints.begin(), s.endpoints.end(), node) != s.endpoints.end()) {
      return Place{i, true};
    }
  }
  return std::nullopt;
}

/// One way to go on from a switch: to the switch of index `to`.
struct Step {
  std::size_t to = 0;
  std::uint8_t raise = 0;
};

/// The ways from switch `from` to another switch `to`, best tier first.
using Ways = std::vector<std::vector<Step>>;

Ways line_ways(std::size_t from, std::size_t to) {
  return {{{from < to ? from + 1 : from - 1, 0}}};
}

Ways star_ways(std::size_t from, std::size_t to) {
  return {{{from == 0 ? to : 0, 0}}};
}

Ways ring_ways(std::size_t n, std::size_t from, std::size_t to) {
  const std::size_t up = (to + n - from) % n;  // hops by rising index
  const std::size_t down = n - up;
  std::vector<Step> steps;
  // The dateline lies between the last switch and the first, for both directions.
  if (up <= down)
    steps.push_back({(from + 1) % n, from == n - 1 ? std::uint8_t{1} : std::uint8_t{0}});
  if (down <= up) {
    steps.push_back({(from + n - 1) % n, from == 0 ? std::uint8_t{1} : std::uint8_t{0}});
  }
  return {std::move(steps)};
}

Ways mesh_ways(std::size_t n, std::size_t from, std::size_t to) {
  Ways ways{{{to, 1}}};
  std::vector<Step> detours;
  // From the next switch on, so that where not all fit a tier, switches differ in those they leave
  // out.
  for (std::size_t i = 1; i < n; ++i) {
    const std::size_t by = (from + i) % n;
    if (by != to) detours.push_back({by, 1});
  }
  if (!detours.empty()) ways.push_back(std::move(detours));
  return ways;
}

Ways ways(const Fabric& fabric, std::size_t from, std::size_t to) {
  const std::size_t n = fabric.switches.size();
  // Two switches are a line, whatever the shape is called.
  if (n == 2) return line_ways(from, to);
  switch (fabric.shape) {
    case Shape::kLine:
      return line_ways(from, to);
    case Shape::kStar:
      return star_ways(from, to);
    case Shape::kRing:
      return ring_ways(n, from, to);
    case Shape::kFullMesh:
      return mesh_ways(n, from, to);
  }
  return {};
}

std::vector<NodeId> switch_neighbours(const Fabric& fabric, std::size_t at) {
  std::set<std::size_t> found;
  for (std::size_t to = 0; to < fabric.switches.size(); ++to) {
    if (to == at) continue;
    // The neighbours are just the switches that some first way leads to.
    const Ways first = ways(fabric, at, to);
    for (const Step& step : first.front()) found.insert(step.to);
  }
  std::vector<NodeId> out;
  for (const std::size_t i : found) out.push_back(fabric.switches[i].node);
  const auto& endpoints = fabric.switches[at].endpoints;
  out.insert(out.end(), endpoints.begin(), endpoints.end());
  return out;
}

/// Adds the ports that lead to `peer`, as far as the tier has room for all of them.
void add_hops(Tier& tier, std::span<const PortPeer> ports, NodeId peer, std::uint8_t raise) {
  const auto leads = [&](const PortPeer& p) { return p.peer == peer; };
  const auto count = static_cast<std::size_t>(std::count_if(ports.begin(), ports.end(), leads));
  if (tier.size() + count > RouteTable::kMaxHops) return;
  for (const PortPeer& p : ports) {
    if (leads(p)) tier.push_back({p.port, raise});
  }
}

Result<void> check_ports(const Fabric& fabric, NodeId node, std::span<const PortPeer> ports) {
  const auto peers = neighbours(fabric, node);
  if (peers.empty() && !find(fabric, node)) {
    return Error{"node " + text(node) + " is not in the fabric; add it to its nodes or endpoints"};
  }
  for (const PortPeer& p : ports) {
    if (std::find(peers.begin(), peers.end(), p.peer) != peers.end()) continue;
    return Error{"port " + std::to_string(p.port.value()) + " leads to node " + text(p.peer) +
                 ", which the fabric does not join to node " + text(node)};
  }
  for (const NodeId peer : peers) {
    const auto count = static_cast<std::size_t>(std::count_if(
        ports.begin(), ports.end(), [&](const PortPeer& p) { return p.peer == peer; }));
    if (count == 0) {
      return Error{"the fabric joins node " + text(node) + " to node " + text(peer) +
                   ", but no port leads there"};
    }
    if (count > RouteTable::kMaxHops) {
      return Error{std::to_string(count) + " ports lead to node " + text(peer) +
                   "; routes hold at most " + std::to_string(RouteTable::kMaxHops)};
    }
  }
  return {};
}

Route switch_route(const Fabric& fabric, std::size_t at, const Place& to, NodeId dst,
                   std::span<const PortPeer> ports) {
  Route route{dst, {}};
  if (to.at == at) {  // an endpoint of this switch
    add_hops(route.tiers.emplace_back(), ports, dst, 0);
    return route;
  }
  const Ways all = ways(fabric, at, to.at);
  for (const auto& steps : all) {
    Tier& tier = route.tiers.emplace_back();
    for (const Step& step : steps) {
      add_hops(tier, ports, fabric.switches[step.to].node, step.raise);
    }
  }
  return route;
}

}  // namespace

Result<void> check(const Fabric& fabric) {
  if (fabric.switches.empty()) return Error{"the fabric has no nodes; list its switches"};
  std::set<NodeId> seen;
  for (const NodeId node : all_nodes(fabric)) {
    if (node.value() < kMinNode || node.value() > kMaxNode) {
      return Error{"node id " + text(node) + " of the fabric; it must be 1..65534"};
    }
    if (!seen.insert(node).second) {
      return Error{"node " + text(node) + " stands in the fabric twice; each id names one node"};
    }
  }
  return {};
}

std::size_t diameter(const Fabric& fabric) {
  const std::size_t n = fabric.switches.size();
  if (n == 0) return 0;
  std::size_t between = n - 1;  // of a line
  if (fabric.shape == Shape::kStar) between = std::min<std::size_t>(n - 1, 2);
  if (fabric.shape == Shape::kRing) between = n / 2;
  if (fabric.shape == Shape::kFullMesh) between = std::min<std::size_t>(n - 1, kLayers - 1);
  std::size_t ends = 0;  // links to endpoints, at both ends of the way
  for (const Switch& s : fabric.switches) ends += std::min<std::size_t>(s.endpoints.size(), 2);
  return between + std::min<std::size_t>(ends, 2);
}

std::vector<NodeId> all_nodes(const Fabric& fabric) {
  std::vector<NodeId> out;
  for (const Switch& s : fabric.switches) {
    out.push_back(s.node);
    out.insert(out.end(), s.endpoints.begin(), s.endpoints.end());
  }
  return out;
}

std::vector<NodeId> neighbours(const Fabric& fabric, NodeId node) {
  const auto place = find(fabric, node);
  if (!place) return {};
  if (place->endpoint) return {fabric.switches[place->at].node};
  return switch_neighbours(fabric, place->at);
}

Result<std::vector<Route>> fabric_routes(const Fabric& fabric, NodeId node,
                                         std::span<const PortPeer> ports) {
  if (auto ok = check(fabric); !ok) return ok.error();
  if (auto ok = check_ports(fabric, node, ports); !ok) return ok.error();
  const Place place = *find(fabric, node);
  std::vector<Route> routes;
  for (const NodeId dst : all_nodes(fabric)) {
    if (dst == node) continue;
    if (place.endpoint) {
      Route route{dst, {{}}};
      add_hops(route.tiers.front(), ports, fabric.switches[place.at].node, 0);
      routes.push_back(std::move(route));
    } else {
      routes.push_back(switch_route(fabric, place.at, *find(fabric, dst), dst, ports));
    }
  }
  return routes;
}

}  // namespace mtl::topology
