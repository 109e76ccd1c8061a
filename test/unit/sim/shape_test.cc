#include "sim/shape.h"

#include <gtest/gtest.h>

#include "topology/deadlock.h"

namespace mtl::sim {
namespace {

bool can_deadlock(const Shape& shape) {
  topology::Network network;
  for (std::uint32_t i = 0; i < shape.nodes.size(); ++i) {
    network.nodes.push_back({node_id(i), shape.nodes[i].routes});
  }
  const auto end = [](const PortRef& ref) { return topology::End{node_id(ref.node), ref.port}; };
  for (const auto& wire : shape.wires) network.wires.push_back({end(wire[0]), end(wire[1])});
  return topology::find_deadlock(network).has_value();
}

// Follows the first hop of the first tier from node to node: how many hops to `dst`, or -1.
int hops_to(const Shape& shape, std::uint32_t at, std::uint32_t dst) {
  int hops = 0;
  while (at != dst) {
    if (++hops > 20) return -1;
    const network::Tier* tier = nullptr;
    for (const auto& route : shape.nodes[at].routes) {
      if (route.dst == node_id(dst)) tier = &route.tiers[0];
    }
    if (tier == nullptr) return -1;
    for (const auto& wire : shape.wires) {
      for (std::size_t d = 0; d < 2; ++d) {
        if (wire[d] == PortRef{at, tier->front().port}) {
          at = wire[1 - d].node;
          d = 2;
          break;
        }
      }
      if (at == dst) break;
    }
  }
  return hops;
}

TEST(Shape, EveryEndpointReachesEveryOther) {
  for (const Shape& shape : {make_pair(2, true), make_line(5, 1), make_ring(6, 2), make_star(4, 1),
                             make_mesh(4, 2, 1)}) {
    for (std::uint32_t a = 0; a < shape.nodes.size(); ++a) {
      for (std::uint32_t b = 0; b < shape.nodes.size(); ++b) {
        if (a == b || !shape.nodes[a].endpoint || !shape.nodes[b].endpoint) continue;
        EXPECT_GT(hops_to(shape, a, b), 0) << a << " to " << b;
      }
    }
  }
}

TEST(Shape, LanesAreParallelLinks) {
  EXPECT_EQ(make_pair(3, true).wires.size(), 3u);
  EXPECT_EQ(make_pair(3, true).nodes[0].routes[0].tiers.size(), 1u);
  EXPECT_EQ(make_pair(3, false).nodes[0].routes[0].tiers.size(), 3u);
  EXPECT_EQ(make_ring(5, 2).wires.size(), 10u);
  EXPECT_EQ(make_mesh(3, 2, 1).wires.size(), 3u + 6u);
}

TEST(Shape, N10_RoutesAreFreeOfDeadlock) {
  EXPECT_FALSE(can_deadlock(make_pair(2, false)));
  EXPECT_FALSE(can_deadlock(make_line(6, 2)));
  for (std::uint32_t n = 3; n <= 8; ++n) EXPECT_FALSE(can_deadlock(make_ring(n, 2))) << n;
  EXPECT_FALSE(can_deadlock(make_star(6, 2)));
  for (std::uint32_t n = 2; n <= 5; ++n) EXPECT_FALSE(can_deadlock(make_mesh(n, 1, 1))) << n;
}

TEST(Shape, N10_ARingWithoutItsDatelineDeadlocks) {
  Shape ring = make_ring(5, 1);
  for (auto& node : ring.nodes) {
    for (auto& route : node.routes) {
      for (auto& tier : route.tiers) {
        for (auto& hop : tier) hop.raise = 0;
      }
    }
  }
  EXPECT_TRUE(can_deadlock(ring));
}

TEST(Shape, N10_AMeshWithDetoursAndNoRaiseDeadlocks) {
  Shape mesh = make_mesh(4, 1, 1);
  for (auto& node : mesh.nodes) {
    for (auto& route : node.routes) {
      for (auto& tier : route.tiers) {
        for (auto& hop : tier) hop.raise = 0;
      }
    }
  }
  EXPECT_TRUE(can_deadlock(mesh));
}

}  // namespace
}  // namespace mtl::sim
