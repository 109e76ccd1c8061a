#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mtlink/config.pb.h"
#include "network/route_table.h"
#include "switch/config/node_config.h"
#include "switch/config/problems.h"
#include "topology/fabric.h"

namespace mtl::switchd {

using RouteList = google::protobuf::RepeatedPtrField<mtlink::config::Route>;

/// Routes by hand, checked against what the node is (N3, N7).
std::vector<network::Route> read_routes(const RouteList& routes, NodeId self,
                                        const std::vector<PortPlan>& ports, Problems& problems);

/// The fabric, its ids checked; nullopt if the configuration has none or a problem was added.
std::optional<topology::Fabric> read_fabric(const mtlink::config::NodeConfig& config,
                                            Problems& problems);

/// A port that leads to a known node, and where the configuration says so.
struct KnownPeer {
  topology::PortPeer port;
  std::string path;
};

/// All routes of the node: the fabric's with those by hand in place of theirs, or those by hand, or
/// just the neighbours. Refuses a fabric that the ports do not fit, and what could deadlock in it
/// (N10).
std::vector<network::Route> make_routes(const std::optional<topology::Fabric>& fabric,
                                        std::vector<network::Route> by_hand, NodeId self,
                                        const std::vector<KnownPeer>& peers, Problems& problems);

}  // namespace mtl::switchd
