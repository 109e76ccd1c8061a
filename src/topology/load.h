#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/routes.h"

namespace mtl::topology {

/// What every endpoint sends as fast as its links take it.
enum class Traffic : std::uint8_t {
  kUniform,   ///< to every other endpoint alike
  kRing,      ///< to the next endpoint, in order of the ids
  kAllToAll,  ///< to the k-th endpoint on, phase by phase; up to 64 phases, evenly spread
  kMoe,  ///< to eight experts (endpoints) drawn anew in each of 16 phases, the k-th most wanted
         ///< in proportion to 1/k, within groups of 256 endpoints in order of the ids
};
std::string_view name(Traffic traffic);

struct Load {
  double worst = 0;        ///< of all links and phases: what they are to carry / what they can
  std::string worst_link;  ///< "gpu0 port 1 -> leaf0 port 0"
  double mean = 0;  ///< over the links between nodes that forward, both directions, and phases
  /// Share of what the endpoints can send that the fabric carries: of each phase 1 / its worst
  /// link, at most 1; phases follow each other.
  double throughput = 0;
};

/// Loads by the first tiers, each tier's hops taken alike (N8 spreads flows so on average).
/// `seed` draws the experts.
Load measure_load(const Routes& routes, Traffic traffic, std::uint64_t seed = 1);

}  // namespace mtl::topology
