#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "topology/cycle.h"
#include "topology/routes.h"

namespace mtl::tools {

struct CheckOptions {
  std::size_t failures = 2048;  ///< most links whose failure is surveyed
  bool load = true;
  bool digests = false;  ///< of every node
  std::uint64_t seed = 1;
};

/// Proves and measures a fabric. Whether it may be used: no cycle, every packet arrives, a hop
/// limit suffices.
bool report_check(const topology::Routes& routes, const CheckOptions& options, std::ostream& out);

/// "gpu0 port 1 -> gpu1 port 0, layer 0: packets for gpu2 wait for", a line each; the last waits
/// for the first.
std::string describe_cycle(const topology::Routes& routes, const topology::Cycle& cycle);

/// The tables of one node, or of all (`node` = graph.nodes()), a line a destination.
void report_tables(const topology::Routes& routes, std::size_t node, std::ostream& out);

}  // namespace mtl::tools
