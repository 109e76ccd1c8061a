#pragma once

#include <cstdint>

#include "sim/schedule.h"
#include "sim/shape.h"

namespace mtl::sim {

/// What a seed decides. `faults`: whether there are any.
Schedule draw_run(Kind kind, std::uint64_t seed, bool faults);

}  // namespace mtl::sim
