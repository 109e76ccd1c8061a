#pragma once

#include <sys/types.h>

#include <boost/json/object.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "conformance/live.h"
#include "tools/interrupt.h"
#include "tools/mtreplay/packet_port.h"
#include "tools/mtreplay/stimulus_command.h"

namespace mtl::tools {

/// An answer with "ok": true; else an Error of what its "why" says.
Result<boost::json::object> ask_ok(StimulusCommand& command, const boost::json::object& line);

/// Puts what the device told of itself in the place of what was taken for granted. Deliveries get
/// the times of the trace's.
void take(const conformance::Told& told, const conformance::Trace& trace,
          conformance::Outcome& outcome);

/// A trace being played to a device, in real time.
class LiveSession {
 public:
  /// All are kept by reference. `ports`: one a port of the trace.
  LiveSession(const conformance::Trace& trace, const conformance::LivePlan& plan,
              const conformance::LiveOptions& options, std::vector<PacketPort*> ports,
              const Interrupt& interrupt)
      : trace_(trace),
        plan_(plan),
        options_(options),
        ports_(std::move(ports)),
        interrupt_(interrupt) {}

  /// The device is a process of this host; what it waits for a CPU is not its fault. 0: it is none.
  void watch(pid_t pid) { pid_ = pid; }

  /// Waits for carrier on all ports, forgets what came before, and does what the trace says to its
  /// end, or until the device differs. The Error: the medium or the command failed; what was done
  /// until then stands.
  Result<void> play(StimulusCommand* command);

  /// What was played; nullptr: nothing, as play() failed before.
  const conformance::LiveRun* run() const { return run_.get(); }
  /// Whether what play() failed for is an interface: then nothing that the device did counts.
  bool medium_failed() const { return medium_failed_; }
  conformance::LiveVerdict verdict(const conformance::Outcome& outcome, bool deliveries_known) {
    return run_->verdict(outcome, deliveries_known, stalls_, ended_);
  }

 private:
  Result<void> play_on(StimulusCommand* command);
  Result<void> drain();
  Result<void> act(StimulusCommand* command);
  bool wait();
  Result<void> wait_for_carrier();
  Result<void> check_carrier();
  void look_at_device();

  const conformance::Trace& trace_;
  const conformance::LivePlan& plan_;
  const conformance::LiveOptions& options_;
  std::vector<PacketPort*> ports_;
  const Interrupt& interrupt_;
  std::unique_ptr<conformance::LiveRun> run_;
  pid_t pid_ = 0;
  Duration delay_{};  ///< of the device so far
  Time looked_{};     ///< at it
  Time ended_{};
  bool medium_failed_ = false;
  std::vector<conformance::Stall> stalls_;
};

/// Whether a process of this host is there and has not ended.
bool alive(pid_t pid);

}  // namespace mtl::tools
