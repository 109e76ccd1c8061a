#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "conformance/live.h"
#include "tools/mtreplay/run.h"

namespace mtl::tools {

struct LiveCommandOptions : ReportOptions {
  std::vector<std::string> traces;      ///< NAME, NAME.json, NAME.pcap, or folders of traces
  std::vector<std::string> interfaces;  ///< "PORT=INTERFACE": what leads to that port of the device
  std::string stimulus_command;         ///< for the shell; empty: none
  /// That the command has for each answer, and for its end; above 0. One that takes longer ends the
  /// run: it would take as long for each trace.
  Duration patience = std::chrono::minutes(1);
  conformance::LiveOptions live;
  /// A trace that is inconclusive is run again, so often in all; 1 to 100.
  unsigned attempts = 3;
};

/// `mtreplay live`: replays the traces, one after the other, against the device that the interfaces
/// lead to, and says on `out` how each went. The exit status: kConforms only if at least one was
/// run and all that were run conform; kUnusable also if none was, or an interface cannot be used.
int run_live(const LiveCommandOptions& options, std::ostream& out, std::ostream& err);

}  // namespace mtl::tools
