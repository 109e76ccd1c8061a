#include "topology/fabric.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "topology/deadlock.h"
#include "topology/generate.h"

namespace mtl::topology {
namespace {

using network::NextHop;
using network::Route;
using network::Tier;

constexpr std::array kShapes{Shape::kLine, Shape::kStar, Shape::kRing, Shape::kFullMesh};

NodeId node(unsigned id) {
  return NodeId(static_cast<std::uint16_t>(id));
}
PortId port(unsigned id) {
  return PortId(static_cast<std::uint16_t>(id));
}
NextHop hop(unsigned p, unsigned raise) {
  return {port(p), static_cast<std::uint8_t>(raise)};
}

/// Port i leads to the i-th of `peers`.
std::vector<PortPeer> ports_to(std::initializer_list<unsigned> peers) {
  std::vector<PortPeer> out;
  for (const unsigned peer : peers)
    out.push_back({port(static_cast<unsigned>(out.size())), node(peer)});
  return out;
}

std::vector<Route> routes_of(const Fabric& fabric, unsigned id,
                             const std::vector<PortPeer>& ports) {
  auto routes = fabric_routes(fabric, node(id), ports);
  EXPECT_TRUE(routes) << routes.error().message;
  return routes ? *routes : std::vector<Route>();
}

/// What `network` does with packets, walked hop by hop, with links that may be dead.
class Walker {
 public:
  explicit Walker(const Network& network) {
    for (const auto& wire : network.wires) {
      far_[wire.a] = wire.b;
      far_[wire.b] = wire.a;
    }
    for (const auto& n : network.nodes) {
      for (const auto& route : n.routes) tiers_[{n.node, route.dst}] = &route.tiers;
    }
  }
  void kill(End end) { dead_.insert({end, far_.at(end)}), dead_.insert({far_.at(end), end}); }
  /// Most hops that a packet may take, whichever hop of the first usable tier is picked each time
  /// (N7); nothing if it may be dropped, or goes on for more than 20 hops.
  std::optional<int> longest(NodeId from, NodeId dst) { return walk(from, dst, 0, 20); }

 private:
  std::optional<int> walk(NodeId at, NodeId dst, unsigned layer, int left) {
    if (at == dst) return 0;
    const std::tuple key(at, dst, layer, left);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    return known_[key] = go_on(at, dst, layer, left);
  }
  std::optional<int> go_on(NodeId at, NodeId dst, unsigned layer, int left) {
    const auto found = tiers_.find({at, dst});
    if (found == tiers_.end() || left == 0) return std::nullopt;
    for (const Tier& tier : *found->second) {
      std::optional<int> most;
      for (const NextHop& h : tier) {
        const End end{at, h.port};
        if (!far_.contains(end) || dead_.contains({end, far_.at(end)})) continue;
        if (layer + h.raise >= kLayers) continue;
        const auto rest = walk(far_.at(end).node, dst, layer + h.raise, left - 1);
        if (!rest) return std::nullopt;
        most = std::max(most.value_or(0), *rest + 1);
      }
      if (most) return most;
    }
    return std::nullopt;
  }

  std::map<End, End> far_;
  std::map<std::pair<NodeId, NodeId>, const std::vector<Tier>*> tiers_;
  std::set<std::pair<End, End>> dead_;
  std::map<std::tuple<NodeId, NodeId, unsigned, int>, std::optional<int>> known_;
};

/// Hops between the places of two nodes as the shape's geometry has them.
int distance(const Fabric& fabric, NodeId a, NodeId b) {
  if (a == b) return 0;
  const auto place = [&](NodeId n) {
    for (int i = 0; i < static_cast<int>(fabric.switches.size()); ++i) {
      const auto& s = fabric.switches[static_cast<std::size_t>(i)];
      if (s.node == n) return std::pair(i, 0);
      for (const NodeId e : s.endpoints) {
        if (e == n) return std::pair(i, 1);
      }
    }
    return std::pair(-1, 0);
  };
  const auto [i, i_extra] = place(a);
  const auto [j, j_extra] = place(b);
  const int apart = i < j ? j - i : i - j;
  const int n = static_cast<int>(fabric.switches.size());
  int between = 0;
  switch (fabric.shape) {
    case Shape::kLine:
      between = apart;
      break;
    case Shape::kStar:
      between = apart == 0 ? 0 : (i == 0 || j == 0 ? 1 : 2);
      break;
    case Shape::kRing:
      between = std::min(apart, n - apart);
      break;
    case Shape::kFullMesh:
      between = apart == 0 ? 0 : 1;
      break;
  }
  return between + i_extra + j_extra;
}

/// Calls `on` with every fabric of the sizes that the tests go through.
template <class On>
void for_each_fabric(const On& on) {
  for (const Shape shape : kShapes) {
    for (std::size_t switches = 1; switches <= 12; ++switches) {
      for (std::size_t lanes = 1; lanes <= 3; ++lanes) {
        for (std::size_t endpoints = 0; endpoints <= 3; ++endpoints) {
          SCOPED_TRACE("shape " + std::to_string(static_cast<int>(shape)) + ", " +
                       std::to_string(switches) + " switches, " + std::to_string(lanes) +
                       " lanes, " + std::to_string(endpoints) + " endpoints");
          const Fabric fabric = make_fabric(shape, switches, endpoints);
          const auto network = make_network(fabric, lanes);
          ASSERT_TRUE(network) << network.error().message;
          on(fabric, *network);
        }
      }
    }
  }
}

TEST(FabricRoutes, N10_EveryShapeIsFreeOfDeadlock) {
  for_each_fabric([](const Fabric&, const Network& network) {
    const auto cycle = find_deadlock(network);
    EXPECT_FALSE(cycle) << describe(*cycle);
  });
}

TEST(FabricRoutes, EveryPairIsJoinedTheShortestWay) {
  for_each_fabric([](const Fabric& fabric, const Network& network) {
    Walker walker(network);
    for (const NodeId from : all_nodes(fabric)) {
      for (const NodeId to : all_nodes(fabric)) {
        if (from == to) continue;
        const auto hops = walker.longest(from, to);
        ASSERT_TRUE(hops) << from.value() << " to " << to.value();
        EXPECT_EQ(*hops, distance(fabric, from, to)) << from.value() << " to " << to.value();
      }
    }
  });
}

TEST(FabricRoutes, N6_TheDiameterBoundsEveryWay) {
  for_each_fabric([](const Fabric& fabric, const Network& network) {
    Walker walker(network);
    std::size_t most = 0;
    for (const NodeId from : all_nodes(fabric)) {
      for (const NodeId to : all_nodes(fabric)) {
        most = std::max(most, static_cast<std::size_t>(walker.longest(from, to).value_or(99)));
      }
    }
    if (fabric.shape == Shape::kFullMesh) {
      // Up to two detours, where there are switches to go by.
      EXPECT_EQ(diameter(fabric), most + std::min<std::size_t>(fabric.switches.size(), 4) -
                                      std::min<std::size_t>(fabric.switches.size(), 2));
    } else {
      EXPECT_EQ(diameter(fabric), most);
    }
  });
}

TEST(FabricRoutes, TheTablesBuild) {
  for_each_fabric([](const Fabric&, const Network& network) {
    for (const auto& n : network.nodes) {
      std::size_t ports = 0;
      for (const auto& wire : network.wires)
        ports += (wire.a.node == n.node) + (wire.b.node == n.node);
      EXPECT_EQ(n.routes.size(), network.nodes.size() - 1);
      for (const auto& route : n.routes) {
        EXPECT_FALSE(route.tiers.empty());
        EXPECT_LE(route.tiers.size(), network::RouteTable::kMaxTiers);
        for (const auto& tier : route.tiers) {
          EXPECT_FALSE(tier.empty());
          EXPECT_LE(tier.size(), network::RouteTable::kMaxHops);
          for (const auto& h : tier) EXPECT_LT(h.port.value(), ports);
        }
      }
    }
  });
}

TEST(FabricRoutes, OneDeadLaneOfSeveralHurtsNobody) {
  for (const Shape shape : kShapes) {
    const Fabric fabric = make_fabric(shape, 5, 1);
    const auto network = make_network(fabric, 2);
    ASSERT_TRUE(network);
    for (const auto& wire : network->wires) {
      if (wire.b.node.value() > 5) continue;  // the only link of an endpoint
      Walker walker(*network);
      walker.kill(wire.a);
      for (const NodeId from : all_nodes(fabric)) {
        for (const NodeId to : all_nodes(fabric))
          EXPECT_EQ(walker.longest(from, to), distance(fabric, from, to));
      }
    }
  }
}

TEST(FabricRoutes, AFullMeshGoesAroundADeadLink) {
  for (std::size_t switches = 3; switches <= 6; ++switches) {
    const Fabric fabric = make_fabric(Shape::kFullMesh, switches, 1);
    const auto network = make_network(fabric, 1);
    ASSERT_TRUE(network);
    for (const auto& wire : network->wires) {
      if (wire.b.node.value() > switches) continue;
      Walker walker(*network);
      walker.kill(wire.a);
      for (const NodeId from : all_nodes(fabric)) {
        for (const NodeId to : all_nodes(fabric)) {
          const auto hops = walker.longest(from, to);
          ASSERT_TRUE(hops) << from.value() << " to " << to.value();
          EXPECT_LE(*hops, distance(fabric, from, to) + 1);
        }
      }
    }
  }
}

TEST(FabricRoutes, LineSendsTowardsTheDestinationOverAllLanes) {
  // Switches 10 - 20 - 30; endpoints 11 on 10 and 21 on 20. Node 20: ports 0, 1 to 10, 2 to 30, 3
  // to 21.
  const Fabric fabric{Shape::kLine,
                      {{node(10), {node(11)}}, {node(20), {node(21)}}, {node(30), {}}}};
  const auto routes = routes_of(fabric, 20, ports_to({10, 10, 30, 21}));
  const std::vector<Route> expected{{node(10), {{hop(0, 0), hop(1, 0)}}},
                                    {node(11), {{hop(0, 0), hop(1, 0)}}},
                                    {node(21), {{hop(3, 0)}}},
                                    {node(30), {{hop(2, 0)}}}};
  EXPECT_EQ(routes, expected);
}

TEST(FabricRoutes, RingRaisesAtTheDatelineInBothDirections) {
  // 1 - 2 - 3 - 4 - 1: the dateline lies between 4 and 1. Two ways to the opposite switch.
  const Fabric fabric{Shape::kRing, {{node(1), {}}, {node(2), {}}, {node(3), {}}, {node(4), {}}}};
  EXPECT_EQ(routes_of(fabric, 1, ports_to({2, 4})),
            (std::vector<Route>{{node(2), {{hop(0, 0)}}},
                                {node(3), {{hop(0, 0), hop(1, 1)}}},
                                {node(4), {{hop(1, 1)}}}}));
  EXPECT_EQ(routes_of(fabric, 4, ports_to({1, 3})),
            (std::vector<Route>{{node(1), {{hop(0, 1)}}},
                                {node(2), {{hop(0, 1), hop(1, 0)}}},
                                {node(3), {{hop(1, 0)}}}}));
  EXPECT_EQ(routes_of(fabric, 2, ports_to({1, 3})),
            (std::vector<Route>{{node(1), {{hop(0, 0)}}},
                                {node(3), {{hop(1, 0)}}},
                                {node(4), {{hop(1, 0), hop(0, 0)}}}}));
}

TEST(FabricRoutes, FullMeshRaisesAtEachHopAndKeepsDetours) {
  const Fabric fabric{Shape::kFullMesh, {{node(1), {}}, {node(2), {}}, {node(3), {node(9)}}}};
  EXPECT_EQ(routes_of(fabric, 1, ports_to({2, 3})),
            (std::vector<Route>{{node(2), {{hop(0, 1)}, {hop(1, 1)}}},
                                {node(3), {{hop(1, 1)}, {hop(0, 1)}}},
                                {node(9), {{hop(1, 1)}, {hop(0, 1)}}}}));
}

TEST(FabricRoutes, AnEndpointSendsEverythingToItsSwitch) {
  const Fabric fabric{Shape::kStar, {{node(1), {node(5)}}, {node(2), {node(6)}}}};
  EXPECT_EQ(routes_of(fabric, 6, ports_to({2})),
            (std::vector<Route>{
                {node(1), {{hop(0, 0)}}}, {node(5), {{hop(0, 0)}}}, {node(2), {{hop(0, 0)}}}}));
}

TEST(FabricRoutes, ABigMeshKeepsItsDetourTierInBounds) {
  const Fabric fabric = make_fabric(Shape::kFullMesh, 100, 0);
  const auto network = make_network(fabric, 1);
  ASSERT_TRUE(network) << network.error().message;
  EXPECT_EQ(network->nodes[0].routes[0].tiers[1].size(), network::RouteTable::kMaxHops);
}

std::string error(const Result<std::vector<Route>>& result) {
  return result ? "(no error)" : result.error().message;
}

TEST(FabricRoutes, PortsThatDoNotFitTheFabricAreNamed) {
  const Fabric line = make_fabric(Shape::kLine, 3, 0);
  EXPECT_EQ(error(fabric_routes(line, node(1), ports_to({2, 3}))),
            "port 1 leads to node 3, which the fabric does not join to node 1");
  EXPECT_EQ(error(fabric_routes(line, node(2), ports_to({1}))),
            "the fabric joins node 2 to node 3, but no port leads there");
  EXPECT_EQ(error(fabric_routes(line, node(7), ports_to({1}))),
            "node 7 is not in the fabric; add it to its nodes or endpoints");
  const std::vector<PortPeer> many(65, PortPeer{port(0), node(2)});
  EXPECT_EQ(error(fabric_routes(line, node(1), many)),
            "65 ports lead to node 2; routes hold at most 64");
}

TEST(FabricCheck, IdsAreInRangeAndUnique) {
  EXPECT_FALSE(check({Shape::kLine, {}}));
  EXPECT_FALSE(check({Shape::kLine, {{node(0), {}}}}));
  EXPECT_FALSE(check({Shape::kLine, {{node(65535), {}}}}));
  EXPECT_TRUE(check({Shape::kLine, {{node(65534), {node(1)}}}}));
  const auto twice = check({Shape::kLine, {{node(1), {node(2)}}, {node(2), {}}}});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message, "node 2 stands in the fabric twice; each id names one node");
}

}  // namespace
}  // namespace mtl::topology
