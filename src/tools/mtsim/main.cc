// Runs seeded scenarios in virtual time (docs/simulation.md). The lines go to standard output; exit
// code 1 when a check failed or, with --require-kinds, when a kind of event never happened; else 2
// when something that was asked for could not be read, run or written.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/pcap_file.h"
#include "sim/draw.h"
#include "sim/scenario.h"
#include "tools/mtsim/scenario_file.h"
#include "tools/mtsim/shrink_file.h"
#include "tools/standard_streams.h"

namespace {

using namespace mtl::sim;

struct Options {
  std::string seeds = "1..100";
  std::string kind = "pair";
  unsigned jobs = 1;
  bool require_kinds = false;
  bool calm = false;
  bool log = false;
  std::string pcap;
  std::optional<std::size_t> wire;  ///< of pcap; nullopt: all
  std::string at = "sent";          ///< of pcap
  std::string scenario;             ///< file; empty: by kind and seed
  std::string shrink;               ///< file for the smallest schedule that fails
  std::size_t shrink_runs = 5000;
};

/// Keeps the frames of a run for a capture.
class Capture final : public WireTap {
 public:
  explicit Capture(const Options& options) : wire_(options.wire), sent_(options.at == "sent") {}
  const std::vector<mtl::conformance::CapturedFrame>& frames() const { return frames_; }

 private:
  void sent(std::size_t wire, std::size_t, std::span<const std::byte> frame,
            mtl::Time now) override {
    if (sent_) keep(wire, frame, now);
  }
  void arrived(std::size_t wire, std::size_t, std::span<const std::byte> frame,
               mtl::Time now) override {
    if (!sent_) keep(wire, frame, now);
  }
  void keep(std::size_t wire, std::span<const std::byte> frame, mtl::Time now) {
    if (wire_.value_or(wire) == wire) frames_.push_back({now, {frame.begin(), frame.end()}});
  }

  std::optional<std::size_t> wire_;
  bool sent_;
  std::vector<mtl::conformance::CapturedFrame> frames_;
};

struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

/// Below the largest number, so that one may count beyond the last.
std::optional<std::uint64_t> parse_seed(std::string_view text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (seed == std::numeric_limits<std::uint64_t>::max()) return std::nullopt;
  return seed;
}

std::optional<Range> parse_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  const auto first = parse_seed(std::string_view(text).substr(0, dots));
  const auto last =
      dots == std::string::npos ? first : parse_seed(std::string_view(text).substr(dots + 2));
  if (!first || !last || *first > *last) return std::nullopt;
  return Range{*first, *last};
}

// "fabric" takes the kinds that are no pair in turn.
std::optional<Kind> kind_of(const std::string& text, std::uint64_t seed) {
  constexpr auto kFabrics = static_cast<std::uint64_t>(Kind::kCount) - 1;
  if (text == "fabric") return static_cast<Kind>(1 + seed % kFabrics);
  for (std::uint8_t k = 0; k < static_cast<std::uint8_t>(Kind::kCount); ++k) {
    if (text == name(static_cast<Kind>(k))) return static_cast<Kind>(k);
  }
  return std::nullopt;
}

struct Failure {
  std::uint64_t seed;
  RunResult result;
};

class Runner {
 public:
  explicit Runner(const Options& options, Range range)
      : options_(options), range_(range), next_(range.first) {}

  void run() {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < options_.jobs; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    std::sort(failures_.begin(), failures_.end(),
              [](const Failure& a, const Failure& b) { return a.seed < b.seed; });
  }

  const Summary& total() const { return total_; }
  const std::vector<Failure>& failures() const { return failures_; }

 private:
  static constexpr std::size_t kMostFailures = 10;

  void work() {
    Summary mine;
    while (!stop_) {
      const std::uint64_t seed = next_++;
      if (seed > range_.last) break;
      EventLog off;
      ScenarioOptions scenario;
      scenario.faults = !options_.calm;
      RunResult result = run_scenario(*kind_of(options_.kind, seed), seed, off, scenario);
      mine += result.summary;
      if (!result.violations.any()) continue;
      const std::lock_guard guard(mutex_);
      failures_.push_back({seed, std::move(result)});
      if (failures_.size() >= kMostFailures) stop_ = true;
    }
    const std::lock_guard guard(mutex_);
    total_ += mine;
  }

  const Options& options_;
  const Range range_;
  std::atomic<std::uint64_t> next_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  Summary total_;
  std::vector<Failure> failures_;
};

void show(const RunResult& result, const EventLog& log, std::string_view what) {
  for (const std::string& line : log.lines()) fmt::print("  {}\n", line);
  fmt::print("{} ({}) failed:\n", what, result.about);
  for (const Violation& violation : result.violations.list()) {
    fmt::print("  {}: {}\n", violation.check, violation.text);
  }
}

constexpr std::size_t kLines = 50;

// The run again with its log on: the same seed is the same run.
void show(const Options& options, const Failure& failure) {
  EventLog log(options.log ? SIZE_MAX : kLines);
  ScenarioOptions scenario;
  scenario.faults = !options.calm;
  run_scenario(*kind_of(options.kind, failure.seed), failure.seed, log, scenario);
  show(failure.result, log, fmt::format("seed {}", failure.seed));
  fmt::print("  again: mtsim --kind {} --seeds {} --log\n", options.kind, failure.seed);
}

void print(const Summary& summary, double wall) {
  for (const auto& [field, value] : summary.list()) {
    if (value != 0) fmt::print("  {:<24} {:>14}\n", field, value);
  }
  fmt::print("  {:<24} {:>14}\n", "over_credit", summary.drop(mtl::Drop::kOverCredit));
  fmt::print("  {:<24} {:>14.2f}\n", "wall_s", wall);
  fmt::print("  {:<24} {:>14.0f}\n", "frame_hops_per_s",
             static_cast<double>(summary.frame_hops) / wall);
  fmt::print("  {:<24} {:>14.1f}\n", "virtual_s", static_cast<double>(summary.virtual_ns) / 1e9);
}

/// The run once more, into a capture; false, with a line on stderr, if that failed.
bool write_pcap(const Options& options, Schedule schedule) {
  Capture capture(options);
  EventLog off;
  ScenarioOptions scenario;
  scenario.tap = &capture;
  run_schedule(std::move(schedule), off, scenario);
  if (capture.frames().empty()) {
    fmt::print(stderr, "mtsim: --pcap {}: the run has no frame on wire {}; leave out --pcap-wire\n",
               options.pcap, options.wire.value_or(0));
    return false;
  }
  const auto written = mtl::conformance::write_capture(options.pcap, capture.frames());
  if (!written) fmt::print(stderr, "mtsim: --pcap {}\n", written.error().message);
  return static_cast<bool>(written);
}

/// A line on stderr.
bool refuse(std::string_view option, const std::string& why) {
  fmt::print(stderr, "mtsim: {} {}\n", option, why);
  return false;
}

/// False, with a line on stderr, if what is asked for cannot be written: asked before any run.
bool check_outputs(const Options& options) {
  for (const auto& [option, file] :
       {std::pair("--pcap", &options.pcap), std::pair("--shrink", &options.shrink)}) {
    if (file->empty()) continue;
    const auto writable = mtl::mtsim::check_output(*file);
    if (!writable) return refuse(option, writable.error().message);
  }
  if (options.shrink.empty()) return true;
  const auto format = mtl::control::format_of(options.shrink);
  if (!format) return refuse("--shrink", format.error().message);
  std::error_code not_there;
  if (std::filesystem::equivalent(options.scenario, options.shrink, not_there)) {
    return refuse("--shrink", options.shrink + ": is the scenario itself; name another file");
  }
  return true;
}

/// Writes the smallest schedule that fails as this one does; false, with a line on stderr, if that
/// failed.
bool write_shrunk(const Options& options, Schedule schedule) {
  const auto shrunk =
      mtl::mtsim::shrink_to_file(std::move(schedule), options.shrink, options.shrink_runs);
  if (!shrunk) return refuse("--shrink", shrunk.error().message);
  const Schedule& smallest = shrunk->schedule;
  fmt::print(
      "shrunk to {} nodes, {} wires, {} packets, {} flows, {} faults, {} moves, {} "
      "replacements by {} runs{}\n  again: mtsim --scenario {} --log\n",
      smallest.plan.nodes.size(), smallest.plan.wires.size(), smallest.sends.size(),
      smallest.flows.size(), smallest.faults.size(), smallest.moves.size(),
      smallest.replacements.size(), shrunk->runs,
      shrunk->done ? "" : " (--shrink-runs; more may shrink it further)", options.shrink);
  return true;
}

/// Writes what is asked for of a run; the exit code, which is 1 whatever comes of that if a check
/// failed.
int write_outputs(const Options& options, const Schedule& schedule, int code) {
  bool written = options.pcap.empty() || write_pcap(options, schedule);
  if (!options.shrink.empty()) written = write_shrunk(options, schedule) && written;
  return written || code != 0 ? code : 2;
}

int run_file(const Options& options) {
  if (!check_outputs(options)) return 2;
  const auto schedule = mtl::mtsim::read_scenario(options.scenario);
  if (!schedule) {
    fmt::print(stderr, "mtsim: {}\n", schedule.error().message);
    return 2;
  }
  EventLog off;
  const auto before = std::chrono::steady_clock::now();
  const RunResult result = run_schedule(*schedule, off);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - before;
  const bool failed = result.violations.any();
  EventLog log(options.log ? SIZE_MAX : kLines);
  if (failed || options.log) run_schedule(*schedule, log);
  if (failed) {
    show(result, log, options.scenario);
  } else if (options.log) {
    for (const std::string& line : log.lines()) fmt::print("  {}\n", line);
  }
  fmt::print("{} ({}): {}\n", options.scenario, result.about,
             failed ? "failed" : "every check held");
  for (const std::string& line : result.undone) fmt::print("  not done: {}\n", line);
  print(result.summary, wall.count());
  return write_outputs(options, *schedule, failed ? 1 : 0);
}

int run(const Options& options) {
  const auto range = parse_range(options.seeds);
  if (!range) {
    fmt::print(stderr, "mtsim: --seeds '{}' is not A..B with 0 <= A <= B < 2^64 - 1\n",
               options.seeds);
    return 2;
  }
  if (!kind_of(options.kind, 0)) {
    fmt::print(stderr, "mtsim: --kind '{}' is none of pair, fabric, ring, line, star, mesh\n",
               options.kind);
    return 2;
  }
  for (const auto& [option, value] :
       {std::pair("--pcap", &options.pcap), std::pair("--shrink", &options.shrink)}) {
    if (value->empty() || range->first == range->last) continue;
    fmt::print(stderr, "mtsim: {} takes one seed; --seeds '{}' are more\n", option, options.seeds);
    return 2;
  }
  if (!check_outputs(options)) return 2;
  const auto before = std::chrono::steady_clock::now();
  Runner runner(options, *range);
  runner.run();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - before;
  for (const Failure& failure : runner.failures()) show(options, failure);
  fmt::print("{} seeds {}..{}: {} failed\n", options.kind, range->first, range->last,
             runner.failures().size());
  print(runner.total(), wall.count());
  int code = runner.failures().empty() ? 0 : 1;
  if (options.require_kinds) {
    for (const std::string& kind : runner.total().missing_kinds(options.kind != "pair")) {
      fmt::print("never happened: {}\n", kind);
      code = 1;
    }
  }
  if (options.pcap.empty() && options.shrink.empty()) return code;
  return write_outputs(
      options, draw_run(*kind_of(options.kind, range->first), range->first, !options.calm), code);
}

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Runs seeded faults over links and fabrics in virtual time and checks that nothing is lost.");
  CLI::Option* seeds = app.add_option("--seeds", options.seeds, "A..B, or one seed");
  CLI::Option* kind = app.add_option("--kind", options.kind,
                                     "pair, fabric (all of the following), ring, line, star, mesh");
  app.add_option("-j,--jobs", options.jobs, "threads, each runs its own seeds")
      ->check(CLI::Range(1, 256));
  CLI::Option* require = app.add_flag("--require-kinds", options.require_kinds,
                                      "fail when a kind of event never happened in all the runs");
  CLI::Option* calm = app.add_flag("--calm", options.calm, "no faults");
  app.add_flag(
      "--log", options.log,
      "for a failing seed, the whole log instead of its last 50 lines; for a scenario, the "
      "whole log in any case");
  app.add_option("--scenario", options.scenario,
                 "run this file (docs/simulation.md) instead of seeds")
      ->excludes(seeds)
      ->excludes(kind)
      ->excludes(require)
      ->excludes(calm);
  CLI::Option* shrink =
      app.add_option("--shrink", options.shrink,
                     "write the smallest scenario that fails as this seed, or scenario, does");
  app.add_option("--shrink-runs", options.shrink_runs, "runs that shrinking may take (5000)")
      ->needs(shrink)
      ->check(CLI::Range(1, 1'000'000));
  CLI::Option* pcap = app.add_option(
      "--pcap", options.pcap,
      "write the frames of the run of one seed, or of the scenario, to this capture");
  app.add_option("--pcap-wire", options.wire, "only those of this wire, from 0")->needs(pcap);
  app.add_option("--pcap-at", options.at,
                 "sent: as links made them; arrived: what the wires left of them")
      ->needs(pcap)
      ->check(CLI::IsMember({"sent", "arrived"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return options.scenario.empty() ? run(options) : run_file(options);
}

}  // namespace

int main(int argc, char** argv) {
  mtl::tools::hold_standard_streams();
  return mtl::tools::end_program("mtsim", parse_and_run(argc, argv), 2);
}
