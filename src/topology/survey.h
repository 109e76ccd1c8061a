#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/routes.h"

namespace mtl::topology {

/// What packets meet in a fabric all of whose links are up.
struct Reach {
  std::uint32_t diameter = 0;  ///< links between endpoints, by the first tiers' shortest way
  double mean = 0;             ///< the same, over all pairs
  double fewest_ways = 0;      ///< different ways by the first tiers, over all pairs of endpoints
  double most_ways = 0;
  std::uint32_t longest = 0;  ///< links of the longest way that any tiers allow
  std::uint64_t lost = 0;     ///< pairs (router, destination) from which a packet may not arrive
  std::string example;        ///< one of them
  /// What N6 asks for: twice the longest way, at least 16; above 255: no hop limit does.
  std::uint32_t hop_limit() const;
};
/// The tables must be free of deadlock (find_cycle), else ways have no longest.
Reach measure_reach(const Routes& routes);

/// What the tables do about single failures, before anybody computes new ones.
struct Survey {
  struct Count {
    std::size_t tried = 0;
    std::size_t survived = 0;    ///< every packet still arrives, whatever is drawn (N8)
    std::size_t new_tables = 0;  ///< a way is left, but some packets do not find it
    std::size_t cut_off = 0;     ///< no way is left for some endpoint
  };
  std::size_t links = 0;
  Count inner;                        ///< links between nodes that forward
  Count outer;                        ///< links of endpoints that do not
  std::vector<std::string> examples;  ///< of links that need new tables, a few
};
/// All links if there are no more than `most`, else so many, drawn evenly.
Survey survey_failures(const Routes& routes, std::size_t most);

/// Bits per second that fit between the endpoints with the lower half of the ids and the others,
/// one way: the least cut, whichever side switches are on.
std::uint64_t bisection(const Graph& graph);

}  // namespace mtl::topology
