#pragma once

#include <cstdint>
#include <string>

#include "topology/routes.h"

namespace mtl::topology {

/// What packets meet in a fabric all of whose links are up. Lengths are those of the routes, which
/// may be longer than the shortest way through the graph.
struct Reach {
  std::uint32_t diameter = 0;  ///< links of the longest way between endpoints by the first tiers
  double mean = 0;             ///< of all pairs of endpoints, each first tier's hops taken alike
  double fewest_ways = 0;      ///< different ways by the first tiers, over all pairs of endpoints
  double most_ways = 0;
  /// Links of the longest way that any tiers allow, between any nodes: switches send echo errors
  /// and are pinged (N11).
  std::uint32_t longest = 0;
  std::uint64_t lost = 0;  ///< pairs (router, destination) from which a packet may not arrive
  std::string example;     ///< one of them
  /// What N6 asks for: twice the longest way, at least 16; above 255: no hop limit does.
  std::uint32_t hop_limit() const;
};

/// The tables must be free of deadlock (find_cycle), else ways have no longest.
Reach measure_reach(const Routes& routes);

}  // namespace mtl::topology
