#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/fd.h"
#include "base/ids.h"
#include "base/result.h"
#include "mtlink/control.pb.h"

namespace mtl::control {

/// How a Target answers: once (trace: once for each hop), now or later, on the server's thread. An
/// answer that comes when the connection is gone, or after the last one, does nothing.
template <class T>
using Answer = std::function<void(Result<T>)>;

/// A claimed slot: what the process is told, and the descriptors that it gets (the memory, then its
/// end of the doorbell). The server sends the descriptors and closes its copies.
struct SlotClaim {
  PortId port;
  mtlink::control::SlotGrant grant;
  std::vector<Fd> fds;  ///< kGrantFds of them
};

/// Tells captures apart, also those that have not begun or were refused.
using CaptureId = std::uint64_t;

/// What the control server serves: a running node. The calls come on the server's thread, their
/// values checked by check_request(), and must not wait: whoever has to ask a worker answers when
/// the worker has replied. Outlives the server.
class Target {
 public:
  virtual ~Target() = default;
  /// Everything, in one consistent reading.
  virtual void get_node(Answer<mtlink::control::NodeState> answer) = 0;
  virtual void ping(const mtlink::control::Ping& call,
                    Answer<mtlink::control::PingResult> answer) = 0;
  /// One answer for each hop, the last marked `last`; an error ends it too.
  virtual void trace(const mtlink::control::Trace& call,
                     Answer<mtlink::control::TraceHop> answer) = 0;
  virtual void set_port(const mtlink::control::SetPort& call, Answer<void> answer) = 0;
  /// Moves a port to another worker, with those that go with it.
  virtual void move_port(const mtlink::control::MovePort& call,
                         Answer<mtlink::control::Moved> answer) = 0;
  /// Moves ports from busy workers to others, or tells which it would.
  virtual void balance_workers(const mtlink::control::BalanceWorkers& call,
                               Answer<mtlink::control::Balanced> answer) = 0;
  /// Replaces the impairment of a port; all rates and delays 0 ends it.
  virtual void set_impairment(const mtlink::control::SetImpairment& call, Answer<void> answer) = 0;
  /// Replaces the rate at which a port sends; without a rate it sends as fast as it can.
  virtual void set_rate(const mtlink::control::SetRate& call, Answer<void> answer) = 0;
  /// Whether the workers measure where their cycles go.
  virtual void set_measuring(const mtlink::control::SetMeasuring& call, Answer<void> answer) = 0;
  /// All or nothing.
  virtual void set_routes(const mtlink::control::SetRoutes& call, Answer<void> answer) = 0;
  /// Reads the daemon's configuration file anew. All or nothing.
  virtual void reload(const mtlink::control::Reload& call,
                      Answer<mtlink::control::Reloaded> answer) = 0;
  virtual void claim_slot(const mtlink::control::ClaimSlot& call, Answer<SlotClaim> answer) = 0;
  /// The connection that claimed the slot has ended. Called once for every SlotClaim answered,
  /// possibly from within that answer.
  virtual void slot_released(PortId port) = 0;
  /// Begins a capture, of which there is one at a time, into `memory`, which the peer has made: a
  /// capture::Segment, if it is right.
  virtual CaptureId capture(const mtlink::control::Capture& call, Fd memory,
                            Answer<mtlink::control::CaptureGrant> answer) = 0;
  /// The connection that asked for a capture has ended, whether that has been answered or not.
  virtual void capture_ended(CaptureId capture) = 0;
};

}  // namespace mtl::control
