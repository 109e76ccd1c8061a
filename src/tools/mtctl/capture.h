#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/client.h"
#include "tools/mtctl/commands.h"

namespace mtl::tools {

struct CaptureOptions {
  mtlink::control::Capture call;   ///< its ports are filled in by capture()
  std::vector<std::string> ports;  ///< numbers or names; none: all
  std::string file;                ///< "-": standard output
  bool replace = false;
  std::uint64_t frames = 0;           ///< ends after so many; 0: not
  std::chrono::microseconds time{0};  ///< likewise
  std::uint64_t file_bytes = 0;       ///< a new file after so many; 0: one file
  std::uint64_t files = 0;            ///< only so many are kept; 0: all
};

/// Captures frames of the node until interrupted, or to one of the limits; tells on Output::err how
/// many were written and how many missed. An Error also if the node goes away: what came until then
/// is in the file.
Result<int> capture(control::Client& client, const CaptureOptions& options, const Output& output);

}  // namespace mtl::tools
