#include "tools/mtsim/shrink_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "control/file/write_whole.h"
#include "sim/shrink.h"
#include "tools/mtsim/scenario_file.h"

namespace mtl::mtsim {
namespace {

using sim::Schedule;

// A step that takes twice the events of the first run, and these, is no smaller run, and may be one
// without end.
constexpr std::uint64_t kMoreEvents = 100'000;

struct Outcome {
  std::string_view check;  ///< that failed first; empty: none
  std::uint64_t events = 0;
};

Outcome run(Schedule schedule, const sim::ScenarioOptions& options) {
  sim::EventLog off;
  const sim::RunResult result = sim::run_schedule(std::move(schedule), off, options);
  return {result.violations.any() ? result.violations.list()[0].check : std::string_view(),
          result.summary.events};
}

}  // namespace

Result<void> check_output(const std::filesystem::path& file) {
  std::error_code ignored;
  const bool there = std::filesystem::exists(file, ignored);
  if (std::filesystem::is_directory(file, ignored))
    return control::unwritable(file, "it is a folder");
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (::access((there ? file : folder).c_str(), W_OK) == 0) return {};
  return control::unwritable(file, std::strerror(errno));
}

Result<ShrunkFile> shrink_to_file(Schedule schedule, const std::filesystem::path& file,
                                  std::size_t most_runs, sim::ScenarioOptions options) {
  const auto format = control::format_of(file);
  if (!format) return format.error();
  Schedule played = schedule;
  played.sends.clear();
  options.record = &played.sends;
  const auto [check, events] = run(schedule, options);
  options.record = nullptr;
  if (check.empty()) {
    return Error{file.string() + ": the run does not fail; there is nothing to shrink"};
  }
  options.most_events = 2 * events + kMoreEvents;
  const auto fails = [&, check = check](const Schedule& candidate) {
    const auto read = as_read(candidate);
    return read && run(*read, options).check == check;
  };
  played.traffic = {};
  played.flows.clear();
  if (fails(played)) {
    schedule = std::move(played);
  } else if (!schedule.traffic.packets.empty() || !fails(schedule)) {
    return Error{
        fmt::format("{}: {} does not come again when the same packets are sent one by "
                    "one; use --seeds and --log",
                    file.string(), check)};
  }
  sim::Shrunk shrunk = sim::shrink(std::move(schedule), fails, most_runs);
  shrunk.schedule.about = fmt::format("fails: {}", check);
  const std::string text = scenario_text(shrunk.schedule, *format);
  auto back = parse_scenario(text, *format, file.string());
  if (!back || run(*back, options).check != check) {
    return Error{fmt::format(
        "{}: what was found does not fail as a file ({}); this is a defect of "
        "mtsim, use --seeds and --log meanwhile",
        file.string(), back ? "it runs otherwise" : std::string_view(back.error().message))};
  }
  if (auto written = control::write_whole(file, text); !written) return written.error();
  return ShrunkFile{std::move(*back), shrunk.runs, shrunk.done};
}

}  // namespace mtl::mtsim
