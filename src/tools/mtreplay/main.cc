// mtreplay: replays conformance traces against this implementation of MTLink.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "conformance/pcap_file.h"
#include "conformance/replay.h"
#include "conformance/trace.h"

namespace {

namespace fs = std::filesystem;
using namespace mtl::conformance;

constexpr int kConforms = 0;
constexpr int kDiffers = 1;
constexpr int kUnusable = 2;  // an argument or a trace that cannot be used

struct Options {
  std::vector<std::string> traces;
  std::size_t shards = 1;
  std::string dump;
};

/// NAME.json of NAME, NAME.json or NAME.pcap.
fs::path json_of(fs::path path) {
  const bool half = path.extension() == ".json" || path.extension() == ".pcap";
  return half ? path.replace_extension(".json") : fs::path(path.string() + ".json");
}

/// The traces that the arguments name, folders opened; never none.
mtl::Result<std::vector<fs::path>> expand(const std::vector<std::string>& arguments) {
  std::vector<fs::path> all;
  for (const std::string& argument : arguments) {
    if (!fs::is_directory(argument)) {
      all.push_back(json_of(argument));
      continue;
    }
    auto found = find_traces(argument);
    if (!found) return found.error();
    all.insert(all.end(), found->begin(), found->end());
  }
  return all;
}

/// Replays one trace and says how it went; the exit status.
int replay_one(const fs::path& path, const Options& options) {
  const auto trace = load_trace(path);
  if (!trace) {
    fmt::print(stderr, "{}\n", trace.error().message);
    return kUnusable;
  }
  const Outcome outcome = run(*trace, {options.shards});
  int status = kConforms;
  if (const auto differences = compare(*trace, outcome); differences.empty()) {
    fmt::print("ok      {}\n", trace->name);
  } else {
    fmt::print("FAILED  {}", report(*trace, differences));
    status = kDiffers;
  }
  if (!options.dump.empty()) {
    const auto written =
        write_capture(fs::path(options.dump) / (trace->name + ".pcap"), outcome.capture);
    if (!written) {
      fmt::print(stderr, "{}\n", written.error().message);
      return kUnusable;
    }
  }
  return status;
}

int replay_all(const Options& options) {
  const auto traces = expand(options.traces);
  if (!traces) {
    fmt::print(stderr, "{}\n", traces.error().message);
    return kUnusable;
  }
  int status = kConforms;
  std::size_t conform = 0;
  for (const fs::path& path : *traces) {
    const int one = replay_one(path, options);
    if (one == kConforms) ++conform;
    status = std::max(status, one);
  }
  fmt::print("{} of {} traces conform, ports over {} shard{}\n", conform, traces->size(),
             options.shards, options.shards == 1 ? "" : "s");
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Replays MTLink conformance traces, byte for byte, in virtual time."};
  app.require_subcommand(1);
  app.footer("Exit status: 0 all conform, 1 one differs, 2 an argument or a trace cannot be used.");
  Options options;
  CLI::App* run = app.add_subcommand("run", "Replay traces against this implementation");
  run->add_option("TRACE", options.traces, "NAME, NAME.json, NAME.pcap, or a folder of traces")
      ->required();
  run->add_option("--shards", options.shards, "Spread the ports over so many shards")
      ->check(CLI::Range(1, 255))
      ->capture_default_str();
  run->add_option("--dump", options.dump,
                  "Write what was received and sent to NAME.pcap in this folder")
      ->check(CLI::ExistingDirectory);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? kConforms : kUnusable;
  }
  return replay_all(options);
}
