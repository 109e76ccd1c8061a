#pragma once

#include <cstddef>

#include "base/result.h"
#include "topology/deadlock.h"
#include "topology/fabric.h"

namespace mtl::topology {

/// A fabric of `switches` switches with `endpoints` endpoints each: switches are numbered from 1,
/// the endpoints after the last switch, switch by switch.
Fabric make_fabric(Shape shape, std::size_t switches, std::size_t endpoints);

/// Cables the fabric, `lanes` parallel links between neighbouring switches and one to each
/// endpoint, and routes every node by fabric_routes(). Each node numbers its ports from 0,
/// neighbour by neighbour in the order of neighbours(), lane by lane.
Result<Network> make_network(const Fabric& fabric, std::size_t lanes);

}  // namespace mtl::topology
