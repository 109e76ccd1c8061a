#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/describe.h"
#include "conformance/trace.h"

namespace mtl::conformance {

/// Something that is done to the device under test: exactly one of both.
struct Input {
  Time at;
  const TraceFrame* frame = nullptr;
  const Stimulus* stimulus = nullptr;
  /// By port: so many frames of the device come before, and are waited for; empty: none are.
  std::vector<std::size_t> after;
};
/// The received frames and the stimuli of a trace in C2's order, none waiting. They point into it.
std::vector<Input> inputs_of(const Trace& trace);

struct ReplayOptions {
  /// The node's ports are spread over so many shards, port i on shard i % shards; its own packets
  /// are submitted to the shards in turn. What is to be seen is the same for any number. 1 to 255.
  std::size_t shards = 1;
  /// Frames beyond the trace's that a port may send before the run is given up: a core that never
  /// stops must not take the machine with it.
  std::size_t frames_beyond = 1000;
  /// Ends then, and not with the trace.
  std::optional<Time> end = {};
  bool note_order = false;  ///< Outcome::sent_before is wanted
};

/// A frame that the device under test sent.
struct SentFrame {
  Time at;
  std::vector<std::byte> bytes;
};

/// A thing that differs from the trace.
struct Difference {
  enum class Kind : std::uint8_t {
    kReplayer,  ///< a promise of the core broken: books, buffers, timers, bring-ups, N13
    kFrame,     ///< the first frame of a port that differs
    kDelivery,  ///< the first delivery that differs
    kCounter,
  };
  Time at;  ///< when it shows: the earlier of what was expected and what came
  Kind kind = Kind::kReplayer;
  std::optional<PortId> port;
  std::size_t frame = 0;  ///< kFrame: number in the capture of the frame expected; 0: none was
  std::size_t index =
      0;  ///< kFrame: among the frames sent by the port; kDelivery: among the deliveries
  std::vector<FieldDifference> fields;  ///< kFrame, where both sides have a frame
  std::string what;                     ///< one line
  std::string detail;  ///< expected and got side by side, several lines; may be empty
};

/// What the device under test did.
struct Outcome {
  std::vector<std::vector<SentFrame>> sent;  ///< by port, in order
  std::vector<Delivery> deliveries;
  std::vector<DropCounts> port_drops;  ///< by port
  DropCounts node_drops;
  std::vector<CapturedFrame> capture;  ///< received and sent on all ports, as they came
  std::vector<Difference> faults;      ///< of kind kReplayer
  /// By input, and by port: frames that had been sent when it came; empty of inputs that never
  /// came, and where it is not wanted.
  std::vector<std::vector<std::size_t>> sent_before;
};

/// Runs the trace's frames and stimuli through a node in virtual time (C1, C2). Deterministic.
Outcome run(const Trace& trace, const ReplayOptions& options = {});
/// The same, with other inputs than the trace's, or at other times: `inputs` in order of time. One
/// that waits comes as soon as it may.
Outcome run(const Trace& trace, const std::vector<Input>& inputs,
            const ReplayOptions& options = {});

/// The differences between a trace and what was done (C3, C4), by time; none: it conforms. Of
/// frames the first of each port is told, of deliveries the first: what follows one differs with
/// it.
std::vector<Difference> compare(const Trace& trace, const Outcome& outcome);

/// run() and compare().
std::vector<Difference> replay(const Trace& trace, const ReplayOptions& options = {});

/// The first difference at length, the others in a line each; for people. `differences` is not
/// empty.
std::string report(const Trace& trace, const std::vector<Difference>& differences);

}  // namespace mtl::conformance
