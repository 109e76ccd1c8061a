#pragma once

#include <ostream>
#include <string>

namespace mtl::tools {

struct RecordOptions {
  std::string scenario;      ///< NAME.json
  std::string frames;        ///< capture of what the device receives; empty: nothing
  std::string live_capture;  ///< capture of a link that was live; empty: the scenario's own stimuli
  std::string output;        ///< NAME or NAME.json of the trace
  bool digest = false;
};

/// `mtreplay record`: makes a trace. The exit status: kConforms, or kUnusable, and `err` says why.
int record_trace(const RecordOptions& options, std::ostream& out, std::ostream& err);

}  // namespace mtl::tools
