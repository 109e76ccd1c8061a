#include "tools/mtreplay/record.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "conformance/record.h"
#include "conformance/trace_writer.h"
#include "tools/mtreplay/output.h"
#include "tools/mtreplay/run.h"
#include "tools/printable.h"
#include "tools/standard_streams.h"

namespace mtl::tools {
namespace {

using conformance::Trace;

Result<Trace> make(const RecordOptions& options) {
  auto scenario = conformance::load_scenario(options.scenario);
  if (!scenario) return scenario;
  Result<void> taken;
  std::optional<std::vector<conformance::TraceFrame>> seen;
  if (!options.frames.empty()) taken = conformance::take_frames(options.frames, *scenario);
  if (!options.live_capture.empty()) {
    auto all = conformance::take_live(options.live_capture, *scenario);
    if (!all) return all.error();
    seen = std::move(*all);
  }
  if (taken) taken = conformance::record(*scenario, options.digest);
  if (taken && seen) taken = conformance::same_deeds(*seen, *scenario);
  if (taken) taken = conformance::write_trace(json_of(options.output), *scenario);
  if (!taken) return taken.error();
  return scenario;
}

}  // namespace

int record_trace(const RecordOptions& options, std::ostream& out, std::ostream& err) {
  const auto complain = [&](const std::string& what) {
    err << fmt::format("mtreplay: {}\n", printable(what));
    return kUnusable;
  };
  const auto trace = make(options);
  if (!trace) return complain(trace.error().message);
  const std::size_t deliveries = trace->digest ? trace->digest->count : trace->deliveries.size();
  out << fmt::format("{}: {} frames, {} stimuli, {} deliveries until {}\n",
                     printable(json_of(options.output).string()), trace->frames.size(),
                     trace->stimuli.size(), deliveries, conformance::time_text(trace->end));
  if (const auto fault = end_output(out)) return complain(*fault);
  return kConforms;
}

}  // namespace mtl::tools
