#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

/// Whether the fabric stays free of deadlock (N10) if `node` uses `routes`, with these `ports`, and
/// all others have theirs from fabric_routes(). The error tells the cycle link by link. How others
/// number their ports is not known: in the cycle, their ports count from 0 in the order of
/// neighbours().
Result<void> check_routes(const Fabric& fabric, NodeId node, std::span<const PortPeer> ports,
                          const std::vector<network::Route>& routes);

/// The same while packets that `node` routed by `former` are still under way, and others go by
/// `routes`: what either table allows, together.
Result<void> check_change(const Fabric& fabric, NodeId node, std::span<const PortPeer> ports,
                          const std::vector<network::Route>& former,
                          const std::vector<network::Route>& routes);

}  // namespace mtl::topology
