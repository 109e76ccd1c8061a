#pragma once

#include <string_view>

#include "base/result.h"

namespace mtl::switchd {

/// Tells the service manager a state such as "READY=1" or "STOPPING=1": a datagram to the Unix
/// socket that $NOTIFY_SOCKET names (a path, or @ and an abstract name). Nothing happens where that
/// is not set. Error: it is set and cannot be reached.
Result<void> sd_notify(std::string_view state);

}  // namespace mtl::switchd
