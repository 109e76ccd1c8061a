#include "topology/generate.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace mtl::topology {

using network::Route;

namespace {

using Ports = std::map<NodeId, std::vector<PortPeer>>;

/// The ports of every node: lanes(node, peer) of them to each neighbour.
template <class Lanes>
Ports number_ports(const Fabric& fabric, const Lanes& lanes) {
  Ports out;
  for (const NodeId node : all_nodes(fabric)) {
    auto& ports = out[node];
    for (const NodeId peer : neighbours(fabric, node)) {
      for (std::size_t lane = 0; lane < lanes(node, peer); ++lane) {
        ports.push_back({PortId(static_cast<std::uint16_t>(ports.size())), peer});
      }
    }
  }
  return out;
}

/// Lane k to a peer meets the peer's lane k to us; each wire is made from its lower end.
std::vector<Wire> cable(const Ports& ports) {
  std::vector<Wire> wires;
  for (const auto& [node, own] : ports) {
    std::map<NodeId, std::size_t> lane;
    for (const PortPeer& p : own) {
      const std::size_t skip = lane[p.peer]++;
      if (p.peer < node) continue;
      std::size_t seen = 0;
      for (const PortPeer& q : ports.at(p.peer)) {
        if (q.peer == node && seen++ == skip) wires.push_back({{node, p.port}, {p.peer, q.port}});
      }
    }
  }
  return wires;
}

/// What to do about a circle: one through an endpoint is a hop to it for packets that are not its.
std::string remedy(const Fabric& fabric, const std::vector<CycleStep>& cycle) {
  for (const CycleStep& step : cycle) {
    const NodeId through = step.channel.to.node;
    for (const Switch& s : fabric.switches) {
      if (std::find(s.endpoints.begin(), s.endpoints.end(), through) == s.endpoints.end()) continue;
      const std::string id = std::to_string(through.value());
      return "node " + id +
             " is an endpoint, in a slot or on a link of its own: a hop to it is for packets to " +
             id + " only";
    }
  }
  return "raise the layer on one hop of the circle, or leave it out";
}

}  // namespace

Fabric make_fabric(Shape shape, std::size_t switches, std::size_t endpoints) {
  Fabric fabric{shape, {}};
  std::uint16_t next = 1;
  for (std::size_t i = 0; i < switches; ++i) fabric.switches.push_back({NodeId(next++), {}});
  for (Switch& s : fabric.switches) {
    for (std::size_t i = 0; i < endpoints; ++i) s.endpoints.push_back(NodeId(next++));
  }
  return fabric;
}

Result<Network> make_network(const Fabric& fabric, std::size_t lanes) {
  if (auto ok = check(fabric); !ok) return ok.error();
  if (lanes == 0) return Error{"neighbouring switches need at least one link; give 1 lane or more"};
  std::set<NodeId> switches;
  for (const Switch& s : fabric.switches) switches.insert(s.node);
  const Ports ports = number_ports(fabric, [&](NodeId node, NodeId peer) {
    return switches.contains(node) && switches.contains(peer) ? lanes : 1;
  });
  Network network;
  for (const auto& [node, own] : ports) {
    auto routes = fabric_routes(fabric, node, own);
    if (!routes) return routes.error();
    network.nodes.push_back({node, std::move(*routes)});
  }
  network.wires = cable(ports);
  return network;
}

Result<void> check_routes(const Fabric& fabric, NodeId node, std::span<const PortPeer> ports,
                          const std::vector<Route>& routes) {
  if (auto ok = check(fabric); !ok) return ok.error();
  const auto lanes_to = [&](NodeId peer) {
    const auto n = std::count_if(ports.begin(), ports.end(),
                                 [&](const PortPeer& p) { return p.peer == peer; });
    return static_cast<std::size_t>(n);
  };
  Ports all = number_ports(fabric, [&](NodeId a, NodeId b) {
    return a == node ? lanes_to(b) : b == node ? lanes_to(a) : 1;
  });
  all[node].assign(ports.begin(), ports.end());
  Network network;
  for (const auto& [id, own] : all) {
    auto generated = fabric_routes(fabric, id, own);
    if (!generated) return generated.error();
    network.nodes.push_back({id, id == node ? routes : std::move(*generated)});
  }
  network.wires = cable(all);
  const auto cycle = find_deadlock(network);
  if (!cycle) return {};
  return Error{"these routes can stand still for ever (N10), because packets wait in a circle:\n" +
               describe(*cycle) + remedy(fabric, *cycle)};
}

Result<void> check_change(const Fabric& fabric, NodeId node, std::span<const PortPeer> ports,
                          const std::vector<Route>& former, const std::vector<Route>& routes) {
  std::vector<Route> both = routes;
  for (const Route& old : former) {
    const auto same = std::find_if(both.begin(), both.end(),
                                   [&](const Route& route) { return route.dst == old.dst; });
    if (same == both.end()) {
      both.push_back(old);
    } else {
      same->tiers.insert(same->tiers.end(), old.tiers.begin(), old.tiers.end());
    }
  }
  return check_routes(fabric, node, ports, both);
}

}  // namespace mtl::topology
