#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "network/route_table.h"

namespace mtl::topology {

/// One end of a wire.
struct End {
  NodeId node;
  PortId port;
  friend auto operator<=>(const End&, const End&) = default;
};

/// A link between two ports.
struct Wire {
  End a;
  End b;
};

/// What one node does with packets for others.
struct NodeRoutes {
  NodeId node;
  std::vector<network::Route> routes;
};

/// A whole fabric as it is cabled and routed: what N10 is about.
struct Network {
  std::vector<NodeRoutes> nodes;
  std::vector<Wire> wires;
};

/// The receive buffer of a link's far end for one layer: what packets hold, and wait for. Classes
/// do not mix on the way (N1), and a request's buffer waits for a response's (N11) but never the
/// other way round, so one class stands for both.
struct Channel {
  End from;  ///< the end that sends
  End to;    ///< the end whose buffer it is
  std::uint8_t layer = 0;
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

/// A channel of a cycle, and the destinations of the packets that hold it while they wait for the
/// next channel of the cycle (after the last comes the first).
struct CycleStep {
  Channel channel;
  std::vector<NodeId> destinations;  ///< ascending
};

/// Looks for a cycle in the channel dependency graph (N10). Counted are the packets that each node
/// may send to every destination that it has a route for, from layer 0 on, by any hop of any tier
/// at every node, since any of them may be the only usable one (N7, N9). A packet ends at its
/// destination, where it has no route, and where no hop keeps its layer below 4. Hops to ports
/// without a wire do not exist.
///
/// Returns a shortest cycle through some channel, or nothing: then no packets can wait for each
/// other for ever.
std::optional<std::vector<CycleStep>> find_deadlock(const Network& network);

/// The cycle, link by link, one a line:
///   node 1 port 0 -> node 2 port 1, layer 0: packets for 3, 4 wait for
///   ...
///   node 3 port 0 -> node 1 port 1, layer 0: packets for 2 wait for the first
std::string describe(const std::vector<CycleStep>& cycle);

}  // namespace mtl::topology
