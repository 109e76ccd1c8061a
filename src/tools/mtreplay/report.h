#pragma once

#include <string>
#include <vector>

#include "tools/mtreplay/run.h"

namespace mtl::tools {

/// The results for machines: JUnit's XML (one <testcase> a trace), TAP 13 (one line a trace, what
/// failed in a YAML block), or JSON (docs/mtreplay.md names its members). Ends with a newline.
std::string render(ReportFormat format, const std::vector<TraceResult>& results);

}  // namespace mtl::tools
