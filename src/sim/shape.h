#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "network/route_table.h"
#include "sim/wire.h"

namespace mtl::sim {

enum class Kind : std::uint8_t { kPair, kRing, kLine, kStar, kMesh, kCount };
std::string_view name(Kind kind);

/// Who is joined to whom, and the routes: a fabric without its configuration. Node i has the id i
/// + 1. The routes are free of deadlock (N10), as
/// topology::find_deadlock() says in the tests.
struct Shape {
  struct Node {
    bool endpoint = true;    ///< sends and takes packets of its own
    std::vector<bool> edge;  ///< by port: whether it is an edge port (N5), to a lone endpoint
    std::vector<network::Route> routes;
  };
  std::vector<Node> nodes;
  std::vector<std::array<PortRef, 2>> wires;
};

constexpr NodeId node_id(std::uint32_t index) {
  return NodeId(static_cast<std::uint16_t>(index + 1));
}

/// In each, neighbours are joined by `lanes` parallel links of equal standing.

/// Two endpoints. `spread`: equal links; else each further lane serves only when those before are
/// gone.
Shape make_pair(std::uint32_t lanes, bool spread);
/// `n` endpoints in a row, each forwards. No raise: a packet never turns.
Shape make_line(std::uint32_t n, std::uint32_t lanes);
/// `n` endpoints in a ring, at least 3, the shorter way round; raise where it closes (the dateline
/// between the last node and the first), so no layer's links form a cycle.
Shape make_ring(std::uint32_t n, std::uint32_t lanes);
/// A switch, node 0, with `leaves` endpoints at edge ports.
Shape make_star(std::uint32_t leaves, std::uint32_t lanes);
/// `switches` switches, each joined to each, each with `endpoints` endpoints at edge ports. Every
/// hop between switches raises, so a detour over a third switch (second tier) cannot close a cycle
/// either; the third raise is the last.
Shape make_mesh(std::uint32_t switches, std::uint32_t endpoints, std::uint32_t lanes);

}  // namespace mtl::sim
