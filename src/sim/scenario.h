#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "sim/event_log.h"
#include "sim/fabric.h"
#include "sim/shape.h"
#include "sim/summary.h"
#include "sim/violation.h"

namespace mtl::sim {

/// What a run may be told beyond its kind and seed.
struct ScenarioOptions {
  bool faults = true;  ///< false: wires, ports and nodes do no wrong, and neither do sources
  /// A defect built in on purpose, that a checker must find.
  enum class Defect : std::uint8_t { kNone, kForge, kLeak } defect = Defect::kNone;
  /// Hears of the frames on all wires, the first being 0; nullptr: nobody does. Changes nothing.
  WireTap* tap = nullptr;
};

struct RunResult {
  Summary summary;
  Violations violations;
  std::string about;  ///< the shape and parameters that the seed gave, one line
};

/// One run: a fabric of `kind` with random parameters, traffic and faults, all from `seed`. After
/// the faults have ended it must come to rest, every packet having ended once, or the violations
/// say what did not hold. The same arguments give the same run, event for event.
RunResult run_scenario(Kind kind, std::uint64_t seed, EventLog& log,
                       const ScenarioOptions& options = {});

}  // namespace mtl::sim
