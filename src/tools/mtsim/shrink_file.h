#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "sim/scenario.h"

/// Failing schedules made small, into files (mtsim --shrink).
namespace mtl::mtsim {

/// Whether a file of this name can be written, asked before the work that is to fill it. The error
/// names the file, why not, and what to do.
Result<void> check_output(const std::filesystem::path& file);

struct ShrunkFile {
  sim::Schedule schedule;  ///< as the file gives it
  std::size_t runs = 0;    ///< that it took
  bool done = false;       ///< nothing more can be left out; else `most_runs` came first
};

/// Writes the smallest scenario that fails as `schedule` does, with the same check first, in the
/// format that the file's name tells. What was sent takes the place of what decides it at random.
/// Each step is judged by what a file would give, and the text itself is read and run again before
/// the file, whole, takes the place of one of its name. `options` are those of every run.
///
/// Errors: the schedule does not fail; it does not when the same packets are sent one by one; the
/// file cannot be written. What had its name is then as it was.
Result<ShrunkFile> shrink_to_file(sim::Schedule schedule, const std::filesystem::path& file,
                                  std::size_t most_runs, sim::ScenarioOptions options = {});

}  // namespace mtl::mtsim
