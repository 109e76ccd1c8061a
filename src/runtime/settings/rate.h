#pragma once

#include "mtlink/config.pb.h"
#include "phy/pacer.h"

namespace mtl::runtime {

/// The pacer that a configuration's message means. Ranges are phy::fault()'s business.
phy::PacerConfig pacer_config(const mtlink::config::Rate& message);

/// The message that means `config`.
mtlink::config::Rate rate_message(const phy::PacerConfig& config);

}  // namespace mtl::runtime
