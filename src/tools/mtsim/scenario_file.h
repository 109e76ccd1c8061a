#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "sim/schedule.h"

/// Scenarios in files (proto/mtlink/scenario.proto).
namespace mtl::mtsim {

/// Reads and checks a scenario. Errors begin "file:line:column: ", name the field and its value,
/// and say what it may be.
Result<sim::Schedule> read_scenario(const std::filesystem::path& file);

/// The scenario in text format, as read_scenario() reads it: the same run. What only a seed gives
/// (Schedule::traffic) has no place in a file and must be empty.
std::string scenario_text(const sim::Schedule& schedule);

}  // namespace mtl::mtsim
