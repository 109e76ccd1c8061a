#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "link/codec.h"

namespace mtl::tools {

struct JudgeOptions {
  std::string capture;  ///< file; "-": standard input
  std::uint16_t ether_type = link::kDefaultEtherType;
  bool complete = false;          ///< nothing is missing in the capture: judge::Options
  std::vector<std::string> only;  ///< MACs whose findings count and are told; empty: all
  bool json = false;
  std::string output;  ///< file of the JSON, beside the text; empty: standard output, in its place
};

/// `mtreplay judge`: the exit status (run.h). kConforms: frames were judged, and nothing is wrong;
/// kDiffers: a finding that is told is certain, or the capture is complete; kUnusable, and why on
/// `err`: the capture cannot be read to its end, or not one frame of it, or of a side that was
/// asked for, could be judged.
int judge_capture(const JudgeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace mtl::tools
