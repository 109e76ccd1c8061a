#pragma once

#include <optional>
#include <vector>

#include "topology/forwarding.h"

namespace mtl::topology {

/// A circle of packets that wait for each other: channels, each waiting for the next, the last for
/// the first. Channel = number of the link x 4 + layer.
struct Cycle {
  std::vector<std::size_t> channels;
  /// For each, the columns of packets that hold it while they wait for the next; ascending.
  std::vector<std::vector<std::size_t>> columns;
};

/// N10: looks for a cycle in the channel dependency graph over (link, layer) of all columns and
/// tiers; a shortest one through some channel. Classes do not mix on the way (N1), and a request's
/// buffer waits for a response's (N11) but never the other way round, so one class stands for both.
///
/// Takes a row of bits for each channel, one for each channel that leaves where it arrives; time
/// proportional to columns x hops.
std::optional<Cycle> find_cycle(const Forwarding& tables);

}  // namespace mtl::topology
