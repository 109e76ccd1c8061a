#pragma once

#include <string>
#include <vector>

#include "mtlink/perf.pb.h"

namespace mtl::mtperf {

/// What the figures of a run hold against it, a sentence each with what to look at; empty: nothing.
/// A peer that did not come to the end is not among them: why is known to the run itself.
std::vector<std::string> complaints(const mtlink::perf::DatagramReport& report);

}  // namespace mtl::mtperf
