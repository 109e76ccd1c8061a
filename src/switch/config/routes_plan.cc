#include "switch/config/routes_plan.h"

#include <algorithm>
#include <set>

#include "topology/generate.h"

namespace mtl::switchd {

using mtlink::config::NextHop;
using network::Route;
using network::RouteTable;
using network::Tier;
using topology::Fabric;
using topology::PortPeer;

namespace {

std::string text(NodeId node) {
  return std::to_string(node.value());
}

bool node_id(std::uint32_t id, const std::string& path, Problems& problems) {
  return problems.range(path, id, kMinNode, kMaxNode);
}

void read_hop(const NextHop& hop, const std::string& path, const std::vector<PortPlan>& ports,
              Tier& tier, Problems& problems) {
  if (hop.port() >= ports.size() || !ports[hop.port()].present()) {
    problems.add(path + ".port", "is " + std::to_string(hop.port()) + ", but the node has ports " +
                                     numbers(ports) + " only");
    return;
  }
  const std::uint32_t weight = hop.has_weight() ? hop.weight() : 1;
  if (!problems.range(path + ".raise", hop.raise(), 0, 1)) return;
  if (!problems.range(path + ".weight", weight, 1, RouteTable::kMaxHops)) return;
  // A hop listed k times has weight k (N7).
  tier.insert(
      tier.end(), weight,
      {PortId(static_cast<std::uint16_t>(hop.port())), static_cast<std::uint8_t>(hop.raise())});
}

Tier read_tier(const mtlink::config::Tier& from, const std::string& path,
               const std::vector<PortPlan>& ports, Problems& problems) {
  Tier tier;
  if (from.hops().empty()) problems.add(path, "has no hops; give one, or leave the tier out");
  for (int i = 0; i < from.hops_size(); ++i) {
    read_hop(from.hops(i), path + "." + item("hops", i), ports, tier, problems);
    // Bounds what a file of many heavy hops makes of memory, too.
    if (tier.size() > RouteTable::kMaxHops) {
      problems.add(path, "has more than " + std::to_string(RouteTable::kMaxHops) +
                             " hops, weights counted; lower the weights");
      return tier;
    }
  }
  return tier;
}

}  // namespace

std::vector<Route> read_routes(const RouteList& routes, NodeId self,
                               const std::vector<PortPlan>& ports, Problems& problems) {
  std::vector<Route> out;
  std::set<std::uint32_t> seen;
  for (int i = 0; i < routes.size(); ++i) {
    const auto& from = routes[i];
    const std::string path = item("routes", i);
    if (!node_id(from.dst(), path + ".dst", problems)) continue;
    Route route{NodeId(static_cast<std::uint16_t>(from.dst())), {}};
    if (route.dst == self) {
      problems.add(path + ".dst", "is " + text(self) + ", this node itself; leave the route out");
    }
    if (!seen.insert(from.dst()).second) {
      problems.add(path + ".dst",
                   "is " + text(route.dst) + ", which has a route already; merge both into one");
    }
    const auto tiers = static_cast<std::size_t>(from.tiers_size());
    if (tiers == 0 || tiers > RouteTable::kMaxTiers) {
      problems.add(path + ".tiers", "has " + std::to_string(tiers) + " entries; it must have 1.." +
                                        std::to_string(RouteTable::kMaxTiers));
      continue;
    }
    for (int t = 0; t < from.tiers_size(); ++t) {
      route.tiers.push_back(
          read_tier(from.tiers(t), path + "." + item("tiers", t), ports, problems));
    }
    out.push_back(std::move(route));
  }
  return out;
}

std::optional<Fabric> read_fabric(const mtlink::config::NodeConfig& config, Problems& problems) {
  using From = mtlink::config::Fabric;
  if (!config.has_fabric()) return std::nullopt;
  Fabric fabric;
  switch (config.fabric().shape()) {
    case From::LINE:
      fabric.shape = topology::Shape::kLine;
      break;
    case From::STAR:
      fabric.shape = topology::Shape::kStar;
      break;
    case From::RING:
      fabric.shape = topology::Shape::kRing;
      break;
    case From::FULL_MESH:
      fabric.shape = topology::Shape::kFullMesh;
      break;
    default:
      problems.add("fabric.shape", "is missing; it must be LINE, STAR, RING or FULL_MESH");
      return std::nullopt;
  }
  bool good = true;
  std::set<std::uint32_t> seen;
  const auto read = [&](std::uint32_t id, const std::string& path) {
    if (!node_id(id, path, problems)) return good = false, NodeId();
    if (!seen.insert(id).second) {
      problems.add(path, "is " + std::to_string(id) + ", which stands in the fabric already");
      good = false;
    }
    return NodeId(static_cast<std::uint16_t>(id));
  };
  for (int i = 0; i < config.fabric().nodes_size(); ++i) {
    const auto& from = config.fabric().nodes(i);
    const std::string path = "fabric." + item("nodes", i) + ".";
    auto& node = fabric.switches.emplace_back();
    node.node = read(from.node(), path + "node");
    for (int e = 0; e < from.endpoints_size(); ++e) {
      node.endpoints.push_back(read(from.endpoints(e), path + item("endpoints", e)));
    }
  }
  if (fabric.switches.empty()) problems.add("fabric.nodes", "is empty; list the switches in order");
  if (!good || fabric.switches.empty()) return std::nullopt;
  return fabric;
}

namespace {

/// Routes to the nodes at the other end of a port, over all ports that lead there.
std::vector<Route> neighbour_routes(const std::vector<KnownPeer>& peers) {
  std::vector<Route> routes;
  for (const auto& [port, path] : peers) {
    const auto known = std::find_if(routes.begin(), routes.end(),
                                    [&](const Route& r) { return r.dst == port.peer; });
    Route& route = known == routes.end() ? routes.emplace_back(Route{port.peer, {{}}}) : *known;
    if (route.tiers.front().size() < RouteTable::kMaxHops)
      route.tiers.front().push_back({port.port, 0});
  }
  return routes;
}

bool ports_fit(const Fabric& fabric, NodeId self, const std::vector<KnownPeer>& peers,
               Problems& problems) {
  const auto all = topology::all_nodes(fabric);
  if (std::find(all.begin(), all.end(), self) == all.end()) {
    problems.add("fabric", "does not name this node, " + text(self) +
                               "; add it to its nodes or to a node's endpoints");
    return false;
  }
  const auto wanted = topology::neighbours(fabric, self);
  std::string list;
  for (const NodeId node : wanted) list += (list.empty() ? "" : ", ") + text(node);
  bool fit = true;
  for (const auto& [port, path] : peers) {
    if (std::find(wanted.begin(), wanted.end(), port.peer) != wanted.end()) continue;
    problems.add(path, "is " + text(port.peer) + ", which the fabric does not join to node " +
                           text(self) + "; its neighbours are: " + (list.empty() ? "none" : list));
    fit = false;
  }
  for (const NodeId node : wanted) {
    const auto leads = [&](const KnownPeer& p) { return p.port.peer == node; };
    if (std::any_of(peers.begin(), peers.end(), leads)) continue;
    problems.add("fabric", "joins node " + text(self) + " to node " + text(node) +
                               ", but no port has it as peer_node and no slot as node; add one");
    fit = false;
  }
  return fit;
}

std::vector<PortPeer> plain(const std::vector<KnownPeer>& peers) {
  std::vector<PortPeer> out;
  for (const auto& peer : peers) out.push_back(peer.port);
  return out;
}

}  // namespace

std::vector<Route> make_routes(const std::optional<Fabric>& fabric, std::vector<Route> by_hand,
                               NodeId self, const std::vector<KnownPeer>& peers,
                               Problems& problems) {
  if (!fabric) return by_hand.empty() ? neighbour_routes(peers) : by_hand;
  if (!ports_fit(*fabric, self, peers, problems)) return {};
  const auto ports = plain(peers);
  auto routes = topology::fabric_routes(*fabric, self, ports);
  if (!routes) {
    problems.add("fabric", "cannot be routed: " + routes.error().message);
    return {};
  }
  if (by_hand.empty()) return *routes;
  for (Route& route : *routes) {
    const auto other = std::find_if(by_hand.begin(), by_hand.end(),
                                    [&](const Route& r) { return r.dst == route.dst; });
    if (other == by_hand.end()) continue;
    route = std::move(*other);
    by_hand.erase(other);
  }
  std::move(by_hand.begin(), by_hand.end(), std::back_inserter(*routes));
  if (auto ok = topology::check_routes(*fabric, self, ports, *routes); !ok) {
    problems.add("routes", "do not go with the fabric: " + ok.error().message);
  }
  return *routes;
}

}  // namespace mtl::switchd
