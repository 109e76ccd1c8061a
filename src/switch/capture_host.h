#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/ids.h"
#include "capture/filter.h"
#include "control/target.h"
#include "runtime/clock.h"
#include "switch/config/node_config.h"
#include "switch/log.h"
#include "switch/node_host.h"

namespace mtl::switchd {

/// The capture of a running node: has the workers put frames into the memory that who asked for it
/// has made, and lets go of that when all of them have. The file is written by the same, with its
/// own rights: the daemon opens none. The control thread's alone, and never holds it up for long.
class CaptureHost {
 public:
  /// All outlive the host.
  struct Parts {
    const Plan& plan;
    NodeHost& host;
    const runtime::Clock& clock;
    Log& log;
  };
  explicit CaptureHost(const Parts& parts) : parts_(parts) {}

  /// Begins the capture that `call` asks for, which has been checked, its ports being there.
  /// Answers when every worker captures, and begins when one that is ending has ended. Error: there
  /// is one already, or the memory is not right.
  control::CaptureId start(const mtlink::control::Capture& call, Fd memory,
                           control::Answer<mtlink::control::CaptureGrant> answer);
  /// No capture's.
  static constexpr control::CaptureId kNone = 0;
  /// Ends it, wherever it is: it may have been refused, or wait for another one's end, or for
  /// workers to begin. Its memory goes when the workers have answered: one that does not keeps it,
  /// and the next capture waits.
  void end(control::CaptureId capture);
  /// The plan has other ports now of these numbers, or none. Before a port that is added is put at
  /// a worker, so that nothing of it is missed.
  void ports_changed(const std::vector<PortId>& ports);

 private:
  struct Run;
  struct Waiting {
    control::CaptureId id;
    mtlink::control::Capture call;
    Fd memory;
    control::Answer<mtlink::control::CaptureGrant> answer;
  };
  std::uint16_t interface_of(Run& run, const PortPlan& port) const;
  void prepare(Waiting start);
  void populate(const std::shared_ptr<Run>& run);
  void begin(const std::shared_ptr<Run>& run);

  Parts parts_;
  std::shared_ptr<Run> run_;  ///< nullptr: none, and none is ending
  bool ending_ = false;
  std::vector<Waiting> waiting_;  ///< for the end
  control::CaptureId last_ = kNone;
};

/// What a worker is to look for.
capture::Filter filter_of(const mtlink::control::Capture& call);

}  // namespace mtl::switchd
