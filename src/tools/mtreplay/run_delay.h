#pragma once

#include <sys/types.h>

#include "base/time.h"

namespace mtl::tools {

/// How long the threads of a process of this host have waited for a CPU so far, in all
/// (/proc/PID/task/*/schedstat). Zero where that cannot be read.
Duration run_delay(pid_t pid);

}  // namespace mtl::tools
