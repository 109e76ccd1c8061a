#pragma once

#include "link/config.h"
#include "mtlink/config.pb.h"

namespace mtl::runtime {

/// The timers that a configuration's message means: the profile's values (lab unless it says fast),
/// with what it gives in their place. Ranges are link::fault()'s business.
link::Timers link_timers(const mtlink::config::Timers& message);

}  // namespace mtl::runtime
