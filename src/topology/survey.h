#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/routes.h"

namespace mtl::topology {

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
