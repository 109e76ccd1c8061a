#pragma once

#include <string>

#include "mtlink/topology.pb.h"
#include "topology/graph.h"

namespace mtl::topology {

/// Graphviz: `dot -Tsvg`. Groups are clusters, parallel links one edge with their number.
std::string to_dot(const Graph& graph, const mtlink::topology::Topology& topology);

/// A Mermaid flowchart, for pages that draw it themselves.
std::string to_mermaid(const Graph& graph);

/// A picture on its own. Nodes stand by what the fabric is: switches above what hangs on them by
/// level; torus and mesh by their coordinates, planes of a third dimension side by side; else round
/// a circle. Names, rates and ports are titles that a viewer shows at the pointer, and names are
/// written where there is room.
std::string to_svg(const Graph& graph);

}  // namespace mtl::topology
