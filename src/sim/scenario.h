#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sim/event_log.h"
#include "sim/schedule.h"
#include "sim/shape.h"
#include "sim/summary.h"
#include "sim/violation.h"

namespace mtl::sim {

/// What a run may be told beyond its kind and seed.
struct ScenarioOptions {
  bool faults = true;  ///< of run_scenario(); false: nothing does wrong, sources neither
  /// A defect built in on purpose, that a checker must find: wire 0 forges packets, node 0 forgets
  /// to release, cut wires are never mended.
  enum class Defect : std::uint8_t { kNone, kForge, kLeak, kStaysCut } defect = Defect::kNone;
  /// Hears of the frames on all wires, the first being 0; nullptr: nobody does. Changes nothing.
  WireTap* tap = nullptr;
  /// Takes every packet that a node took, so that the run can be played again without what made
  /// them (Schedule::sends); nullptr: nobody does. Changes nothing.
  std::vector<Send>* record = nullptr;
  /// The run ends at so many events, with the check "events".
  std::uint64_t most_events = std::numeric_limits<std::uint64_t>::max();
};

struct RunResult {
  Summary summary;
  Violations violations;
  std::string about;  ///< the shape and parameters that the seed gave, one line
  Time ended{};       ///< virtual time of the end, or of the first violation
  /// Moves and replacements, or ports of them, that met what keeps them from being done, and what
  /// it was; a line each.
  std::vector<std::string> undone;
};

/// One run. After faults_end all faults have ended, and the fabric must come to rest, every packet
/// having ended once, or the violations say what did not hold. The same arguments give the same
/// run, event for event.
RunResult run_schedule(Schedule schedule, EventLog& log, const ScenarioOptions& options = {});

/// The run of a fabric of `kind` with random parameters, traffic and faults, all from `seed`.
RunResult run_scenario(Kind kind, std::uint64_t seed, EventLog& log,
                       const ScenarioOptions& options = {});

}  // namespace mtl::sim
