#include "topology/deadlock.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <random>
#include <set>

#include "topology/generate.h"

namespace mtl::topology {
namespace {

using network::NextHop;
using network::Route;
using network::Tier;

NodeId node(std::size_t id) {
  return NodeId(static_cast<std::uint16_t>(id));
}
PortId port(std::size_t id) {
  return PortId(static_cast<std::uint16_t>(id));
}

/// A ring whose dateline does not raise: the fault that N10 is about.
Network broken_ring(std::size_t switches, std::size_t endpoints = 0) {
  Network network = *make_network(make_fabric(Shape::kRing, switches, endpoints), 1);
  for (auto& n : network.nodes) {
    for (auto& route : n.routes) {
      for (auto& tier : route.tiers) {
        for (auto& hop : tier) hop.raise = 0;
      }
    }
  }
  return network;
}

TEST(FindDeadlock, N10_ARingWithoutDatelineIsRefusedWithItsCycle) {
  const auto cycle = find_deadlock(broken_ring(4));
  ASSERT_TRUE(cycle);
  ASSERT_EQ(cycle->size(), 4U);
  // All four links in one direction; packets wait that go two hops, and only those.
  const auto after = [](NodeId n) { return node(n.value() % 4 + 1); };
  const auto before = [](NodeId n) { return node((n.value() + 2) % 4 + 1); };
  const bool rising = cycle->front().channel.to.node == after(cycle->front().channel.from.node);
  for (std::size_t i = 0; i < 4; ++i) {
    const Channel& c = (*cycle)[i].channel;
    const NodeId next = rising ? after(c.from.node) : before(c.from.node);
    EXPECT_EQ(c.to.node, next);
    EXPECT_EQ(c.layer, 0);
    EXPECT_EQ((*cycle)[(i + 1) % 4].channel.from,
              (End{next, (*cycle)[(i + 1) % 4].channel.from.port}));
    EXPECT_EQ((*cycle)[i].destinations, std::vector{rising ? after(next) : before(next)});
  }
}

TEST(FindDeadlock, N10_RingsOfAllSizesNeedTheDateline) {
  for (std::size_t switches = 4; switches <= 12; ++switches) {
    const auto cycle = find_deadlock(broken_ring(switches, 1));
    ASSERT_TRUE(cycle) << switches;
    EXPECT_EQ(cycle->size(), switches);
    // With it, which is what makes the difference, there is none.
    EXPECT_FALSE(find_deadlock(*make_network(make_fabric(Shape::kRing, switches, 1), 1)));
  }
  // In a ring of three nobody goes on after one hop between switches: nothing waits in a circle.
  EXPECT_FALSE(find_deadlock(broken_ring(3, 1)));
}

TEST(FindDeadlock, DescribesTheCycleLinkByLink) {
  // Three nodes in a circle of one-way routes: 1 -> 2 -> 3 -> 1, each for the node two hops on.
  const auto one_way = [](std::size_t dst) { return Route{node(dst), {{{port(0), 0}}}}; };
  const Network network{{{node(1), {one_way(2), one_way(3)}},
                         {node(2), {one_way(3), one_way(1)}},
                         {node(3), {one_way(1), one_way(2)}}},
                        {{{node(1), port(0)}, {node(2), port(1)}},
                         {{node(2), port(0)}, {node(3), port(1)}},
                         {{node(3), port(0)}, {node(1), port(1)}}}};
  const auto cycle = find_deadlock(network);
  ASSERT_TRUE(cycle);
  EXPECT_EQ(describe(*cycle),
            "node 1 port 0 -> node 2 port 1, layer 0: packets for 3 wait for\n"
            "node 2 port 0 -> node 3 port 1, layer 0: packets for 1 wait for\n"
            "node 3 port 0 -> node 1 port 1, layer 0: packets for 2 wait for the first\n");
}

TEST(FindDeadlock, AMeshWithFreeDetoursIsRefused) {
  // The detour raises, the straight way after it does not: i -> k -> j meets k -> j -> i on
  // layer 1.
  Network network = *make_network(make_fabric(Shape::kFullMesh, 3, 0), 1);
  for (auto& n : network.nodes) {
    for (auto& route : n.routes) route.tiers.front().front().raise = 0;
  }
  EXPECT_TRUE(find_deadlock(network));
}

TEST(FindDeadlock, TwoNodesThatSendAThirdsPacketsToEachOtherAreRefused) {
  const auto via = [](std::size_t p) { return Route{node(3), {{{port(p), 0}}}}; };
  const Network network{{{node(1), {via(0)}}, {node(2), {via(0)}}, {node(3), {}}},
                        {{{node(1), port(0)}, {node(2), port(0)}}}};
  EXPECT_TRUE(find_deadlock(network));
}

TEST(FindDeadlock, ALaterTierCounts) {
  Network network = *make_network(make_fabric(Shape::kLine, 3, 0), 1);
  EXPECT_FALSE(find_deadlock(network));
  // Node 2 would send packets for 3 back to 1 when its link is dead.
  for (auto& n : network.nodes) {
    for (auto& route : n.routes) {
      if (n.node == node(2) && route.dst == node(3)) route.tiers.push_back({{port(0), 0}});
    }
  }
  EXPECT_TRUE(find_deadlock(network));
}

TEST(CheckRoutes, N10_OneNodesOwnRoutesAreHeldAgainstTheFabric) {
  const Fabric ring = make_fabric(Shape::kRing, 4, 0);
  // Node 1 with two links to node 2 and one to node 4, numbered its own way.
  const std::vector<PortPeer> ports{{port(5), node(4)}, {port(2), node(2)}, {port(7), node(2)}};
  auto routes = *fabric_routes(ring, node(1), ports);
  EXPECT_TRUE(check_routes(ring, node(1), ports, routes));
  // Without the raise on its side of the dateline, the falling direction (1 to 4) closes a circle.
  for (auto& route : routes) {
    for (auto& hop : route.tiers.front()) hop.raise = 0;
  }
  const auto falling = check_routes(ring, node(1), ports, routes);
  ASSERT_FALSE(falling);
  EXPECT_NE(falling.error().message.find("node 1 port 5 -> node 4"), std::string::npos)
      << falling.error().message;
}

TEST(CheckRoutes, N10_ACircleThroughAnEndpointIsToldAsAHopThatIsNotForIt) {
  // Switch 1 sends what is for endpoint 3 to endpoint 2, whose only way is back.
  const Fabric fabric{Shape::kLine, {{node(1), {node(2), node(3)}}}};
  const std::vector<PortPeer> ports{{port(0), node(2)}, {port(1), node(3)}};
  const auto refused = check_routes(fabric, node(1), ports, {{node(3), {{{port(0), 0}}}}});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("node 2 is an endpoint"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(refused.error().message.find("raise the layer"), std::string::npos);
}

// ---- An independent way to the same verdict -----------------------------------------------------

/// A random network: some nodes, some wires, routes to anywhere by any port.
Network random_network() {
  Network network;
  const auto nodes = *rc::gen::inRange<std::size_t>(2, 6);
  std::vector<std::size_t> ports(nodes);
  const auto wires = *rc::gen::inRange<std::size_t>(1, 9);
  for (std::size_t i = 0; i < wires; ++i) {
    const auto a = *rc::gen::inRange<std::size_t>(0, nodes);
    const auto b = (a + *rc::gen::inRange<std::size_t>(1, nodes)) % nodes;
    network.wires.push_back({{node(a + 1), port(ports[a]++)}, {node(b + 1), port(ports[b]++)}});
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    NodeRoutes routes{node(n + 1), {}};
    for (std::size_t dst = 0; dst < nodes; ++dst) {
      if (dst == n || ports[n] == 0 || *rc::gen::inRange(0, 4) == 0) continue;
      Route route{node(dst + 1), {}};
      const auto tiers = *rc::gen::inRange<std::size_t>(1, 3);
      for (std::size_t t = 0; t < tiers; ++t) {
        // Half of the hops raise: so both verdicts are met often.
        const auto p = *rc::gen::inRange<std::size_t>(0, ports[n]);
        const auto raise = static_cast<std::uint8_t>(*rc::gen::inRange(0, 2));
        route.tiers.push_back({{port(p), raise}});
      }
      routes.routes.push_back(route);
    }
    network.nodes.push_back(routes);
  }
  return network;
}

/// Dependencies by repeated passes over everything until nothing is new, and cycles by transitive
/// closure: nothing shared with the checker but the definition of N10.
class Reference {
 public:
  explicit Reference(const Network& network) : network_(network) {
    for (const auto& wire : network.wires) {
      far_[wire.a] = wire.b;
      far_[wire.b] = wire.a;
    }
    for (const auto& n : network.nodes) {
      for (const auto& route : n.routes) spread(route.dst);
    }
  }
  bool depends(const Channel& a, const Channel& b, NodeId dst) const {
    return dependencies_.contains({a, b, dst});
  }
  bool cyclic() const {
    std::set<std::pair<Channel, Channel>> closure;
    std::set<Channel> all;
    for (const auto& [a, b, dst] : dependencies_) {
      closure.insert({a, b});
      all.insert(a);
    }
    for (const auto& k : all) {
      for (const auto& i : all) {
        if (!closure.contains({i, k})) continue;
        for (const auto& j : all) {
          if (closure.contains({k, j})) closure.insert({i, j});
        }
      }
    }
    for (const auto& c : all) {
      if (closure.contains({c, c})) return true;
    }
    return false;
  }

 private:
  std::set<Channel> leave(NodeId at, NodeId dst, unsigned layer) const {
    std::set<Channel> out;
    if (at == dst) return out;
    for (const auto& n : network_.nodes) {
      if (n.node != at) continue;
      for (const auto& route : n.routes) {
        if (route.dst != dst) continue;
        for (const auto& tier : route.tiers) {
          for (const auto& hop : tier) {
            const auto far = far_.find({at, hop.port});
            if (far == far_.end() || layer + hop.raise > 3) continue;
            out.insert({far->second.node == at ? End{} : End{at, hop.port}, far->second,
                        static_cast<std::uint8_t>(layer + hop.raise)});
          }
        }
      }
    }
    return out;
  }
  void spread(NodeId dst) {
    std::set<Channel> reached;
    for (const auto& n : network_.nodes) reached.merge(leave(n.node, dst, 0));
    for (std::size_t before = 0; before != reached.size();) {
      before = reached.size();
      std::set<Channel> more;
      for (const auto& c : reached) {
        for (const auto& next : leave(c.to.node, dst, c.layer)) {
          dependencies_.insert({c, next, dst});
          more.insert(next);
        }
      }
      reached.merge(more);
    }
  }

  const Network& network_;
  std::map<End, End> far_;
  std::set<std::tuple<Channel, Channel, NodeId>> dependencies_;
};

RC_GTEST_PROP(FindDeadlock, N10_AgreesWithTheReferenceOnRandomNetworks, ()) {
  const Network network = random_network();
  const Reference reference(network);
  const auto cycle = find_deadlock(network);
  RC_CLASSIFY(cycle.has_value(), "cyclic");
  RC_ASSERT(cycle.has_value() == reference.cyclic());
  if (!cycle) return;
  for (std::size_t i = 0; i < cycle->size(); ++i) {
    const auto& next = (*cycle)[(i + 1) % cycle->size()].channel;
    RC_ASSERT(!(*cycle)[i].destinations.empty());
    for (const NodeId dst : (*cycle)[i].destinations) {
      RC_ASSERT(reference.depends((*cycle)[i].channel, next, dst));
    }
  }
}

// ---- The real thing: packets in buffers ---------------------------------------------------------

/// A network where every channel has one buffer. Nodes inject packets to random destinations as
/// long as buffers are free, packets move when the next buffer is free, and are consumed at their
/// destination.
class Buffers {
 public:
  Buffers(const Network& network, unsigned seed) : network_(network), random_(seed) {
    for (const auto& wire : network.wires) {
      far_[wire.a] = wire.b;
      far_[wire.b] = wire.a;
    }
    for (const auto& n : network.nodes) {
      for (const auto& route : n.routes) routes_[{n.node, route.dst}] = &route;
    }
  }
  /// Injects for so many rounds, then waits; whether all packets reached their destination.
  bool drains(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      inject();
      move();
    }
    while (move()) {
    }
    return held_.empty();
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_()) % n; }
  /// Puts a packet at `at` into a random free buffer that its route allows.
  bool put(NodeId at, NodeId dst, unsigned layer) {
    std::vector<Channel> free;
    for (const auto& tier : routes_.at({at, dst})->tiers) {
      for (const auto& hop : tier) {
        const Channel c{
            {at, hop.port}, far_.at({at, hop.port}), static_cast<std::uint8_t>(layer + hop.raise)};
        if (c.layer < kLayers && !held_.contains(c)) free.push_back(c);
      }
      // As with links up: what waits, waits for the first tier.
      if (!tier.empty()) break;
    }
    if (free.empty()) return false;
    held_.emplace(free[below(free.size())], dst);
    return true;
  }
  void inject() {
    for (const auto& n : network_.nodes) put(n.node, n.routes[below(n.routes.size())].dst, 0);
  }
  bool move() {
    bool moved = false;
    const auto before = held_;
    for (const auto& [channel, dst] : before) {
      if (channel.to.node != dst && !put(channel.to.node, dst, channel.layer)) continue;
      held_.erase(channel);
      moved = true;
    }
    return moved;
  }

  const Network& network_;
  std::mt19937 random_;
  std::map<End, End> far_;
  std::map<std::pair<NodeId, NodeId>, const Route*> routes_;
  std::map<Channel, NodeId> held_;
};

int times_stuck(const Network& network) {
  int stuck = 0;
  for (unsigned seed = 1; seed <= 50; ++seed) stuck += Buffers(network, seed).drains(40) ? 0 : 1;
  return stuck;
}

TEST(FindDeadlock, N10_WhatIsRefusedGetsStuckAndWhatIsTakenDoesNot) {
  EXPECT_GT(times_stuck(broken_ring(5, 1)), 0);
  for (const Shape shape : {Shape::kLine, Shape::kStar, Shape::kRing, Shape::kFullMesh}) {
    for (const std::size_t switches : {3u, 4u, 5u, 8u}) {
      EXPECT_EQ(times_stuck(*make_network(make_fabric(shape, switches, 1), 1)), 0)
          << static_cast<int>(shape) << " " << switches;
    }
  }
}

}  // namespace
}  // namespace mtl::topology
