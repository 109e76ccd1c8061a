#include "topology/generate.h"

#include <algorithm>
#include <map>
#include <set>

namespace mtl::topology {

namespace {

/// The ports of every node, as make_network() numbers them.
std::map<NodeId, std::vector<PortPeer>> number_ports(const Fabric& fabric, std::size_t lanes) {
  std::set<NodeId> switches;
  for (const Switch& s : fabric.switches) switches.insert(s.node);
  std::map<NodeId, std::vector<PortPeer>> out;
  for (const NodeId node : all_nodes(fabric)) {
    auto& ports = out[node];
    for (const NodeId peer : neighbours(fabric, node)) {
      const bool trunk = switches.contains(node) && switches.contains(peer);
      for (std::size_t lane = 0; lane < (trunk ? lanes : 1); ++lane) {
        ports.push_back({PortId(static_cast<std::uint16_t>(ports.size())), peer});
      }
    }
  }
  return out;
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
  Network network;
  const auto ports = number_ports(fabric, lanes);
  for (const auto& [node, own] : ports) {
    auto routes = fabric_routes(fabric, node, own);
    if (!routes) return routes.error();
    network.nodes.push_back({node, std::move(*routes)});
    // Lane k to a peer meets the peer's lane k to us; each wire is made from its lower end.
    std::map<NodeId, std::size_t> lane;
    for (const PortPeer& p : own) {
      const std::size_t skip = lane[p.peer]++;
      if (p.peer < node) continue;
      std::size_t seen = 0;
      for (const PortPeer& q : ports.at(p.peer)) {
        if (q.peer == node && seen++ == skip) {
          network.wires.push_back({{node, p.port}, {p.peer, q.port}});
        }
      }
    }
  }
  return network;
}

}  // namespace mtl::topology
