#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "conformance/trace.h"

/// Traces as they stand in files (protocol page, section 6), the other way than load_trace().
namespace mtl::conformance {

/// "dut" of NAME.json. Timers are `time_scale` times those of the trace.
boost::json::object dut_object(const Trace& trace, std::uint64_t time_scale = 1);

/// One element of "stimuli".
boost::json::object stimulus_object(const Stimulus& stimulus);

/// The text of NAME.json: load_trace() gives the same trace again.
std::string trace_text(const Trace& trace);

/// Writes NAME.json, `json` being its path, and NAME.pcap beside it. Neither may be there already:
/// an Error says so. On any error neither is left.
Result<void> write_trace(const std::filesystem::path& json, const Trace& trace);

}  // namespace mtl::conformance
