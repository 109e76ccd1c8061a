#include "tools/mtreplay/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <set>
#include <system_error>
#include <thread>

#include "conformance/pcap_file.h"
#include "conformance/trace.h"
#include "tools/mtreplay/output.h"
#include "tools/mtreplay/report.h"
#include "tools/printable.h"
#include "tools/standard_streams.h"

namespace mtl::tools {
namespace {

namespace fs = std::filesystem;
using conformance::Trace;

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(path, error);
  return error ? path.lexically_normal() : whole;
}

fs::path dump_path(const RunOptions& options, const fs::path& trace) {
  return fs::path(options.dump) / (trace.stem().string() + ".pcap");
}

/// What is wrong with writing the dumps: one would replace another one, or a file that is there. A
/// capture does not say whether it is a dump or half of a trace that is not run now.
std::optional<std::string> dump_fault(const RunOptions& options,
                                      const std::vector<fs::path>& traces) {
  if (options.dump.empty()) return std::nullopt;
  std::map<fs::path, fs::path> by_dump;
  for (const fs::path& trace : traces) {
    const fs::path dump = dump_path(options, trace);
    if (resolved(dump) == resolved(fs::path(trace).replace_extension(".pcap"))) {
      return fmt::format("--dump {}: {} would replace the trace itself; name another folder",
                         options.dump, dump.string());
    }
    std::error_code error;
    if (fs::exists(fs::symlink_status(dump, error))) {
      return fmt::format(
          "--dump {}: {} is there already and is not replaced; remove it, or name another folder",
          options.dump, dump.string());
    }
    const auto [at, fresh] = by_dump.emplace(dump, trace);
    if (!fresh) {
      return fmt::format("--dump {}: {} and {} would both be written to {}; run them apart",
                         options.dump, at->second.string(), trace.string(), dump.string());
    }
  }
  return std::nullopt;
}

TraceResult replay_one(const fs::path& path, const RunOptions& options) {
  TraceResult result;
  result.path = path;
  result.name = path.stem().string();
  const auto trace = conformance::load_trace(path);
  if (!trace) {
    result.message = trace.error().message;
    return result;
  }
  result.rules = trace->rules;
  conformance::ReplayOptions replay;
  replay.shards = options.shards;
  const conformance::Outcome outcome = run(*trace, replay);
  result.differences = compare(*trace, outcome);
  result.status = result.differences.empty() ? kConforms : kDiffers;
  if (result.status == kDiffers) result.message = report(*trace, result.differences);
  if (options.dump.empty()) return result;
  const auto written = conformance::write_capture(dump_path(options, path), outcome.capture);
  if (!written) {
    result.status = kUnusable;
    result.message = written.error().message;
  }
  return result;
}

std::string sums(const std::vector<TraceResult>& results, std::size_t shards) {
  const auto conform = std::count_if(results.begin(), results.end(), [](const TraceResult& result) {
    return result.status == kConforms;
  });
  return fmt::format("{} of {} traces conform, ports over {} shard{}\n", conform, results.size(),
                     shards, shards == 1 ? "" : "s");
}

}  // namespace

fs::path json_of(fs::path path) {
  const bool half = path.extension() == ".json" || path.extension() == ".pcap";
  return half ? path.replace_extension(".json") : fs::path(path.string() + ".json");
}

Result<std::vector<fs::path>> expand_traces(const std::vector<std::string>& arguments) {
  std::vector<fs::path> all;
  std::set<fs::path> seen;
  const auto add = [&](const fs::path& path) {
    if (seen.insert(resolved(path)).second) all.push_back(path);
  };
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!fs::is_directory(argument, error)) {
      add(json_of(argument));
      continue;
    }
    auto found = conformance::find_traces(argument);
    if (!found) return found.error();
    for (const fs::path& path : *found) add(path);
  }
  if (all.empty()) return Error{"no trace was named; give files or folders of traces"};
  return all;
}

std::vector<fs::path> files_of(const std::vector<fs::path>& traces) {
  std::vector<fs::path> files = traces;
  for (const fs::path& trace : traces) {
    files.push_back(fs::path(trace).replace_extension(".pcap"));
  }
  return files;
}

TraceResult guarded(const fs::path& path,
                    const std::function<TraceResult(const fs::path&)>& replay) {
  TraceResult failed;
  failed.path = path;
  failed.name = path.stem().string();
  try {
    return replay(path);
  } catch (const std::exception& error) {
    failed.message = fmt::format("{}: could not be replayed: {}", path.string(), error.what());
  } catch (...) {
    failed.message = fmt::format("{}: could not be replayed", path.string());
  }
  return failed;
}

/// Each thread takes the next trace that nobody has taken.
std::vector<TraceResult> replay_each(const std::vector<fs::path>& traces, std::size_t jobs,
                                     const std::function<TraceResult(const fs::path&)>& replay) {
  std::vector<TraceResult> results(traces.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < traces.size(); i = next++) {
      results[i] = guarded(traces[i], replay);
    }
  };
  std::vector<std::thread> threads;
  try {
    for (std::size_t i = 1; i < std::min(jobs, traces.size()); ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads are to be had: those that run, and this one, do all of it.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return results;
}

int run_traces(const RunOptions& options, std::ostream& out, std::ostream& err) {
  const auto traces = expand_traces(options.traces);
  if (!traces) {
    err << fmt::format("mtreplay: {}\n", traces.error().message);
    return kUnusable;
  }
  auto fault = dump_fault(options, *traces);
  if (!fault) fault = output_fault(options.output, files_of(*traces));
  if (fault) {
    err << fmt::format("mtreplay: {}\n", *fault);
    return kUnusable;
  }
  const std::vector<TraceResult> results = replay_each(
      *traces, options.jobs, [&](const fs::path& path) { return replay_one(path, options); });
  int status = kConforms;
  for (const TraceResult& result : results) {
    status = std::max(status, result.status);
    if (result.status == kUnusable) err << fmt::format("mtreplay: {}\n", printable(result.message));
  }
  if (options.text()) {
    for (const TraceResult& result : results) out << result_text(result);
  }
  fault = finish_report(options, results, sums(results, options.shards), out);
  if (!fault) return status;
  err << fmt::format("mtreplay: {}\n", *fault);
  return kUnusable;
}

}  // namespace mtl::tools
