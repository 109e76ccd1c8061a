#pragma once

#include <array>
#include <boost/json/fwd.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/drop.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "conformance/pcap_file.h"
#include "link/config.h"
#include "link/link.h"
#include "network/node.h"
#include "network/route_table.h"

namespace mtl::conformance {

/// Bounds of what a trace may ask for, so that a broken file costs an error and not the machine.
inline constexpr std::size_t kMaxTracePorts = 1024;
inline constexpr std::size_t kMaxTraceText = std::size_t{64} << 20;  ///< bytes of NAME.json
inline constexpr Time kMaxTraceTime{std::chrono::hours(24 * 365)};   ///< of "end" and every "at"
inline constexpr Duration kMaxTraceTimer = std::chrono::hours(24 * 365);

/// One port of the device under test.
struct TracePort {
  network::PortConfig config;            ///< everything but the shard, which replay() chooses
  Mac peer_mac{};                        ///< source of the frames received here
  std::vector<Mac> other_macs;           ///< further sources of such frames
  std::vector<link::BringUp> bring_ups;  ///< nonce and epoch of each bring-up, in order
};

/// What the owner of the device under test does.
struct Stimulus {
  enum class Do : std::uint8_t { kEnable, kDisable, kCarrierDown, kCarrierUp, kSubmit, kRelease };
  Time at;
  Do what = Do::kEnable;
  PortId port;                    ///< of kEnable to kCarrierUp
  std::vector<std::byte> packet;  ///< of kSubmit
  std::uint32_t count = 0;        ///< of kRelease: the oldest so many delivered packets
};
const char* name(Stimulus::Do what);

/// A frame of the capture, on the port and in the direction that its source MAC tells.
struct TraceFrame {
  Time at;
  std::vector<std::byte> bytes;
  PortId port;
  bool received = false;   ///< by the device under test; else it must send it
  std::size_t number = 0;  ///< in the capture, from 1
};

/// A packet that the node took (N4).
struct Delivery {
  Time at;
  PortId port;  ///< kNoPort: from the node itself
  Vc vc;
  std::vector<std::byte> packet;
  friend bool operator==(const Delivery&, const Delivery&) = default;
};

using Sha256 = std::array<std::byte, 32>;
/// For long traces: how many packets, and the digest over them one after another.
struct DeliveryDigest {
  std::size_t count = 0;
  Sha256 sha256{};
};
/// SHA-256 over the packets of `deliveries` one after another.
Sha256 digest(const std::vector<Delivery>& deliveries);

/// Counters that are not 0.
using DropCounts = std::map<Drop, std::uint64_t>;

/// A conformance trace (protocol page, section 6), checked: two files made one.
struct Trace {
  std::string name;  ///< of the files, without folder and extension
  std::string about;
  std::vector<std::string> rules;

  NodeId node;
  std::vector<TracePort> ports;  ///< port i at index i
  std::vector<network::Route> routes;
  bool consume = true;             ///< delivered packets leave the buffer at once
  std::vector<Stimulus> stimuli;   ///< in order of time
  std::vector<TraceFrame> frames;  ///< in order of time, both ways
  Time end;

  std::vector<Delivery> deliveries;  ///< expected, unless digest is
  std::optional<DeliveryDigest> digest;
  std::vector<DropCounts> port_drops;  ///< expected, by port
  DropCounts node_drops;               ///< expected, of the network layer
};

/// Loads NAME.json and NAME.pcap; `json` is the path of the first. Every field is checked, unknown
/// ones are errors; an Error names the file and the field (or the frame).
Result<Trace> load_trace(const std::filesystem::path& json);

/// Loads NAME.json alone, as a scenario: "delivered" and "counters" may be absent, and are not
/// looked at.
Result<Trace> load_scenario(const std::filesystem::path& json);

/// Puts the frames of a capture into a trace that has none, by source MAC (C3). The Error names the
/// frame: of another source, after the trace's end, or before the frame before it.
Result<void> place_frames(std::vector<CapturedFrame> capture, Trace& trace);

/// What a device that was run live tells of itself; absent: it cannot.
struct Told {
  std::optional<std::vector<Delivery>> deliveries;  ///< their times are 0
  std::optional<std::vector<DropCounts>> port_drops;
  DropCounts node_drops;
};
/// Reads "delivered" (a list, times are not looked at) and "counters" of `answer`, both as in
/// NAME.json. The Error names `who` and the field.
Result<Told> read_told(const std::string& who, const boost::json::object& answer,
                       const Trace& trace);

/// The traces of a folder, in order of name: every NAME.json beside a NAME.pcap. An Error if there
/// is none, or if one of a pair is missing; what ends in vectors.json is not a trace.
Result<std::vector<std::filesystem::path>> find_traces(const std::filesystem::path& folder);

}  // namespace mtl::conformance
