#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "conformance/trace.h"

/// Makes traces, by letting this implementation do in virtual time what a scenario says. So a
/// recorded trace says what this implementation does; whether that is right, the protocol page
/// says.
namespace mtl::conformance {

/// Gives a scenario the frames of `capture` that its device receives: those whose source is a
/// "peer_mac" or in "other_macs". Frames of the device's own MACs are left out, so that the capture
/// of a trace serves; those of others are an Error.
Result<void> take_frames(const std::filesystem::path& capture, Trace& scenario);

/// Makes a scenario of a link that was live. `scenario` has the device's configuration, and neither
/// nonces, epochs nor stimuli; `capture` has both directions. Taken are what the device received,
/// at the capture's times (its first frame of the link is at 1 ms); nonces and epochs from the
/// INITs that the device sent; and what its owner must have done: enable with the first INIT,
/// disable with a CLOSE by disable and enable with the INIT behind it, submit with each new DATA on
/// a layer that packets of the node's own leave on. The end is 1 ms behind the last frame. Frames
/// are put in order of time; those of other MACs or another EtherType are left out. An Error:
/// nothing of the device is in it, or a DATA on another layer. Returns all frames of the link, for
/// same_deeds().
Result<std::vector<TraceFrame>> take_live(const std::filesystem::path& capture, Trace& scenario);

/// Runs a scenario, and puts into it what the device sends, delivers and counts: then it is a
/// trace, and replays. `digest`: the digest of what is delivered, instead of the packets. The
/// Error: a promise of the core was broken, or a bring-up begins for which the scenario has no
/// nonce.
Result<void> record(Trace& scenario, bool digest);

/// Of a trace made of a link that was live: whether this implementation offers, sends and ends in
/// it what the device did, `seen`, in the same order: every INIT but repeated ones, new DATA,
/// CLOSE. What is left out hangs on times that a capture does not have. The Error names the first
/// that differs: the trace would not be what was seen.
Result<void> same_deeds(const std::vector<TraceFrame>& seen, const Trace& made);

}  // namespace mtl::conformance
