#pragma once

#include <optional>
#include <string>

#include "link/config.h"
#include "mtlink/config.pb.h"
#include "phy/pacer.h"
#include "switch/config/problems.h"

namespace mtl::switchd {

/// Checks the rate of a port or slot and converts it; nullopt if it is out of range. Warns where
/// the timers of `link` (planned already) are too short for its longest frame at that rate.
std::optional<phy::PacerConfig> plan_rate(const mtlink::config::Rate& from, const std::string& path,
                                          const link::Config& link, Problems& problems);

}  // namespace mtl::switchd
