#pragma once

#include <cstddef>
#include <functional>

#include "sim/schedule.h"

namespace mtl::sim {

struct Shrunk {
  Schedule schedule;
  std::size_t runs = 0;  ///< how often fails() was asked
  bool done = false;     ///< nothing more can be left out; else `most_runs` came first
};

/// The smallest schedule that still fails and is found by leaving out nodes, wires, packets,
/// flows, faults, moves, replacements (halves first, then ever smaller parts, down to single ones)
/// and by making what is left plainer: rates of faults to 0, times shorter and rounder, one shard,
/// no trunks, short packets. Each step is kept only if `fails` says so. `schedule` fails. The same
/// arguments give the same result.
Shrunk shrink(Schedule schedule, const std::function<bool(const Schedule&)>& fails,
              std::size_t most_runs);

}  // namespace mtl::sim
