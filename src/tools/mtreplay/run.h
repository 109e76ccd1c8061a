#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "conformance/live.h"
#include "conformance/replay.h"

namespace mtl::tools {

/// Exit status of mtreplay; the worst of what was done decides.
inline constexpr int kConforms = 0;
inline constexpr int kDiffers = 1;
inline constexpr int kUnusable = 2;      ///< an argument or a file that cannot be used
inline constexpr int kInconclusive = 3;  ///< it was run live, and says nothing sure of the device
/// Of one trace alone: it was not run against the device; no exit status.
inline constexpr int kNotRun = 4;

/// What is told of a trace that was run live beside how it went.
struct LiveFacts {
  std::uint64_t time_scale = 1;
  unsigned attempts = 1;             ///< this was the last one of so many
  std::vector<std::string> earlier;  ///< why the attempts before it were inconclusive
  conformance::Lateness inputs;      ///< what was done to the device
  conformance::Lateness frames;      ///< what the device sent
  /// What the device's command did not tell, though the trace has some of it: "counters",
  /// "deliveries", or what a slow one left open, "times of 3 frames". Empty: the whole trace was
  /// compared.
  std::vector<std::string> not_compared;
};

/// How one trace went.
struct TraceResult {
  std::filesystem::path path;  ///< of NAME.json
  std::string name;
  int status = kUnusable;
  std::string message;  ///< kDiffers: the report for people; else, but for kConforms: why
  /// kDiffers: all differences, by time; kInconclusive: those that may be none.
  std::vector<conformance::Difference> differences;
  std::vector<std::string> rules;  ///< that the trace shows; empty when it could not be loaded
  std::optional<LiveFacts> live;   ///< if it was run live
};

enum class ReportFormat : std::uint8_t { kJunit, kTap, kJson };

/// Where the results go.
struct ReportOptions {
  std::optional<ReportFormat> report;
  std::string output;  ///< file of the report; empty: standard output, in place of the text
  /// Whether the text is wanted, on standard output.
  bool text() const { return !report || !output.empty(); }
};

struct RunOptions : ReportOptions {
  std::vector<std::string> traces;  ///< NAME, NAME.json, NAME.pcap, or folders of traces
  std::size_t shards = 1;
  std::string dump;  ///< folder for what was received and sent; empty: none
  std::size_t jobs = 1;
};

/// The traces that `arguments` name, folders opened, in their order, each once; never none. An
/// Error names the argument.
Result<std::vector<std::filesystem::path>> expand_traces(const std::vector<std::string>& arguments);

/// NAME.json of NAME, NAME.json or NAME.pcap.
std::filesystem::path json_of(std::filesystem::path path);

/// Both files of each trace.
std::vector<std::filesystem::path> files_of(const std::vector<std::filesystem::path>& traces);

/// What `replay` makes of a trace. An exception makes it kUnusable.
TraceResult guarded(const std::filesystem::path& path,
                    const std::function<TraceResult(const std::filesystem::path&)>& replay);

/// What `replay` makes of each trace, by `jobs` threads, in the order of `traces`. An exception
/// makes its trace kUnusable, and no other one.
std::vector<TraceResult> replay_each(
    const std::vector<std::filesystem::path>& traces, std::size_t jobs,
    const std::function<TraceResult(const std::filesystem::path&)>& replay);

/// `mtreplay run`: replays the traces and says on `out` how each went, in the order given whatever
/// `jobs` is; what cannot be used is said on `err`, too. The exit status.
int run_traces(const RunOptions& options, std::ostream& out, std::ostream& err);

}  // namespace mtl::tools
