#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/file/message_file.h"
#include "sim/schedule.h"

/// Scenarios in files (proto/mtlink/scenario.proto).
namespace mtl::mtsim {

/// Reads and checks a scenario. Errors begin "file:line:column: ", name the field and its value,
/// and say what it may be.
Result<sim::Schedule> read_scenario(const std::filesystem::path& file);

/// The same of a text; `name` stands for its file in errors.
Result<sim::Schedule> parse_scenario(std::string_view text, control::FileFormat format,
                                     std::string name);

/// The scenario as the text of a file that parse_scenario() reads: the same run. What only a seed
/// gives (Schedule::traffic) has no place in a file and must be empty.
std::string scenario_text(const sim::Schedule& schedule, control::FileFormat format);

/// What a file of the schedule would give when it is read, without the text; an error says why it
/// would be refused. Likewise without traffic.
Result<sim::Schedule> as_read(const sim::Schedule& schedule);

}  // namespace mtl::mtsim
