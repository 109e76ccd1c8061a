#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tools/mtreplay/run.h"

namespace mtl::tools {

/// One result for people, a line or more.
std::string result_text(const TraceResult& result);

/// Ends what is told: the report, where one is wanted, and `sums`, the last line of the text; why
/// it could not be written.
std::optional<std::string> finish_report(const ReportOptions& options,
                                         const std::vector<TraceResult>& results,
                                         const std::string& sums, std::ostream& out);

/// The results for machines: JUnit's XML (one <testcase> a trace), TAP 13 (one line a trace, what
/// failed in a YAML block), or JSON (docs/mtreplay.md names its members). Ends with a newline.
std::string render(ReportFormat format, const std::vector<TraceResult>& results);

}  // namespace mtl::tools
