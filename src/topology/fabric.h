#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "network/route_table.h"

/// The shapes of whole fabrics and the routes that follow from them. Control plane: allocates, any
/// thread, nothing is shared.
namespace mtl::topology {

enum class Shape : std::uint8_t {
  kLine,      ///< each switch joined to the next
  kStar,      ///< the first joined to each other
  kRing,      ///< a line whose ends are joined
  kFullMesh,  ///< each joined to each other
};

/// A switch of the fabric, with the endpoints that hang on it, each by one link.
struct Switch {
  NodeId node;
  std::vector<NodeId> endpoints;
};

struct Fabric {
  Shape shape = Shape::kLine;
  std::vector<Switch> switches;  ///< in the shape's order
};

/// Whether the fabric can be built: at least one switch, ids in range, none twice.
Result<void> check(const Fabric& fabric);

/// The nodes that `node`, a switch or an endpoint of the fabric, has links to, in order of the
/// fabric; empty if it is not part of it.
std::vector<NodeId> neighbours(const Fabric& fabric, NodeId node);

/// Most links on the way between any two nodes, detours counted: what hop limits must allow (N6).
std::size_t diameter(const Fabric& fabric);

/// Every node of the fabric, each switch followed by its endpoints.
std::vector<NodeId> all_nodes(const Fabric& fabric);

/// A port and the node at its other end. Several ports to one node are parallel links.
struct PortPeer {
  PortId port;
  NodeId peer;
};

/// The routes of `node` to every other node of the fabric, free of deadlock (N10) if every node of
/// the fabric takes its routes from here:
///
/// - Parallel links to the next node stand in one tier: they share the load and stand in for each
/// other.
/// - Line and star have no loop, so no layer is raised.
/// - A ring goes the shorter way, or, if both are as long, either; the layer is raised on the link
///   between the last and the first switch (the dateline), so no chain of waiting goes round. There
///   is no way back round a dead link: the node after it would send the packet back, since it does
///   not know where it came from.
/// - A full mesh goes straight, or, when that link is dead (second tier), by any other switch. Each
/// hop
///   between switches raises the layer, so that chains of waiting climb and end: there are at most
///   three such hops, two of them detours.
///
/// Errors: `node` is not in the fabric; it lacks a port to a neighbour; a port leads to no
/// neighbour; more than RouteTable::kMaxHops links to one neighbour.
Result<std::vector<network::Route>> fabric_routes(const Fabric& fabric, NodeId node,
                                                  std::span<const PortPeer> ports);

}  // namespace mtl::topology
