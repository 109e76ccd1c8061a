#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "mtlink/scenario.pb.h"
#include "topology/routes.h"

namespace mtl::tools {

struct ScenarioWish {
  std::uint64_t scale = 1000;  ///< rates are divided by it
  std::uint32_t bytes = 512;   ///< of a packet
  std::uint64_t count = 20;    ///< packets from each endpoint to each other
  std::optional<std::uint32_t>
      cut;  ///< index of a link that is cut, both ends noticing, and mended
};

/// The fabric in the simulator (mtsim --scenario), every endpoint sending to every other, as fast
/// as it can, requests and responses by turns. Nodes and links are numbered as in the fabric's
/// file, ports by their order. Errors: more than the simulator takes; no such link.
Result<mtlink::sim::Scenario> scenario_of(const topology::Routes& routes, const ScenarioWish& wish);

}  // namespace mtl::tools
