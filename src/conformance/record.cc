#include "conformance/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/byte_order.h"
#include "conformance/describe.h"
#include "conformance/pcap_file.h"
#include "conformance/replay.h"
#include "link/codec.h"

namespace mtl::conformance {
namespace {

constexpr Duration kMargin =
    std::chrono::milliseconds(1);              // before the first frame, and behind the last
constexpr std::size_t kMaxFrames = 1'000'000;  // that a port may send
constexpr std::uint8_t kLayers = 4;            // of a class (N1)

Error in(const std::filesystem::path& path, const std::string& what) {
  return Error{fmt::format("{}: {}", path.string(), what)};
}

std::set<Mac> macs_of(const Trace& trace) {
  std::set<Mac> macs;
  for (const TracePort& port : trace.ports) {
    macs.insert({port.config.link.mac, port.peer_mac});
    macs.insert(port.other_macs.begin(), port.other_macs.end());
  }
  return macs;
}

/// Leaves the frames of the trace's MACs and of the links' EtherType.
void leave_link(const Trace& trace, std::vector<CapturedFrame>& frames) {
  const std::set<Mac> macs = macs_of(trace);
  std::erase_if(frames, [&](const CapturedFrame& frame) {
    if (frame.bytes.size() < link::kEthernetHeader) return true;
    Mac source;
    std::memcpy(source.data(), frame.bytes.data() + source.size(), source.size());
    return !macs.contains(source) || load16(frame.bytes.data() + 12) != link::kDefaultEtherType;
  });
}

/// An echo reply or error: the node makes them by itself (N11).
bool made_by_node(std::span<const std::byte> packet) {
  constexpr unsigned kResponseEcho = 0x12;  // class 1, proto 2
  return load8(packet.data() + 2) == kResponseEcho &&
         load8(packet.data() + link::kNetworkHeader) != 1;
}

/// What the owner of a device did, by what the device sent.
class Owner {
 public:
  explicit Owner(Trace& trace) : trace_(trace) {}

  /// Takes a frame that the device sent; why it cannot.
  std::optional<std::string> sent(const TraceFrame& frame) {
    const auto decoded =
        link::decode(frame.bytes, trace_.ports[frame.port.value()].config.link.mtu);
    if (decoded.drop) return std::nullopt;  // damaged on the way to the capture
    const auto& [header, body] = decoded.frame;
    switch (header.kind) {
      case link::Kind::kInit:
        init(frame, link::decode_init(body));
        return std::nullopt;
      case link::Kind::kClose:
        if (load8(body.data()) != static_cast<unsigned>(link::CloseReason::kDisabled))
          return std::nullopt;
        enabled_.erase(frame.port);
        act({frame.at, Stimulus::Do::kDisable, frame.port, {}, 0});
        return std::nullopt;
      case link::Kind::kData:
        return data(frame, header, body);
      default:
        return std::nullopt;
    }
  }

 private:
  void act(Stimulus stimulus) { trace_.stimuli.push_back(std::move(stimulus)); }

  void init(const TraceFrame& frame, const link::Init& told) {
    auto& bring_ups = trace_.ports[frame.port.value()].bring_ups;
    if (bring_ups.empty() || bring_ups.back().nonce != told.nonce) {
      bring_ups.push_back({told.nonce, told.epoch});
    }
    if (!enabled_.insert(frame.port).second) return;
    act({frame.at, Stimulus::Do::kEnable, frame.port, {}, 0});
  }

  /// The highest layer on which a packet of the node's own may leave by `port` (N7).
  std::uint8_t highest_layer(PortId port) const {
    std::uint8_t layer = 0;
    for (const network::Route& route : trace_.routes) {
      for (const network::Tier& tier : route.tiers) {
        for (const network::NextHop& hop : tier) {
          if (hop.port == port) layer = std::max<std::uint8_t>(layer, hop.raise);
        }
      }
    }
    return layer;
  }

  std::optional<std::string> data(const TraceFrame& frame, const link::Header& header,
                                  std::span<const std::byte> body) {
    if ((header.flags & link::kFlagReplay) != 0) return std::nullopt;
    if (header.vc.value() % kLayers > highest_layer(frame.port)) {
      return fmt::format(
          "frame {}: a DATA on VC {}, where no packet of the node's own goes by its routes (N1, "
          "N7): the "
          "device passes packets on; record all its ports by stimuli instead",
          frame.number, header.vc.value());
    }
    if (made_by_node(body)) return std::nullopt;
    act({frame.at, Stimulus::Do::kSubmit, {}, {body.begin(), body.end()}, 0});
    return std::nullopt;
  }

  Trace& trace_;
  std::set<PortId> enabled_;
};

void leave_received(Trace& scenario) {
  std::erase_if(scenario.frames, [](const TraceFrame& frame) { return !frame.received; });
}

/// What a frame of the device does whenever it comes: offers, new DATA, ends. All else (repeated
/// INITs, what is sent again, acknowledged, told) hangs on times, which a capture has not exactly.
std::vector<std::byte> deed(const TraceFrame& frame, std::uint16_t mtu) {
  const auto decoded = link::decode(frame.bytes, mtu);
  if (decoded.drop) return {};  // damaged on the way to the capture
  const auto& [header, body] = decoded.frame;
  std::vector<std::byte> deed(4);
  deed[0] = static_cast<std::byte>(header.kind);
  if (header.kind == link::Kind::kData) {
    if ((header.flags & link::kFlagReplay) != 0) return {};
    deed[1] = static_cast<std::byte>(header.vc.value());
    store16(deed.data() + 2, header.seq.value());
  } else if (header.kind != link::Kind::kInit && header.kind != link::Kind::kClose) {
    return {};
  }
  deed.insert(deed.end(), body.begin(), body.end());
  return deed;
}

/// A deed and the frame that did it.
struct Deed {
  std::vector<std::byte> what;
  const TraceFrame* frame;
};

std::vector<Deed> deeds_of(const std::vector<TraceFrame>& frames, const TracePort& port) {
  std::vector<Deed> deeds;
  for (const TraceFrame& frame : frames) {
    if (frame.received || frame.port != port.config.link.port) continue;
    std::vector<std::byte> what = deed(frame, port.config.link.mtu);
    const bool repeated = !deeds.empty() && deeds.back().what == what;
    if (!what.empty() && !repeated) deeds.push_back({std::move(what), &frame});
  }
  return deeds;
}

std::string deed_text(const std::vector<Deed>& deeds, std::size_t index) {
  if (index == deeds.size()) return "nothing";
  return fmt::format("at {} {}", time_text(deeds[index].frame->at),
                     summary(deeds[index].frame->bytes));
}

}  // namespace

Result<void> take_frames(const std::filesystem::path& capture, Trace& scenario) {
  auto frames = read_capture(capture);
  if (!frames) return frames.error();
  if (const auto placed = place_frames(std::move(*frames), scenario); !placed) {
    return in(capture, placed.error().message);
  }
  leave_received(scenario);
  return {};
}

Result<std::vector<TraceFrame>> take_live(const std::filesystem::path& capture, Trace& scenario) {
  const bool fresh = std::all_of(scenario.ports.begin(), scenario.ports.end(),
                                 [](const TracePort& port) { return port.bring_ups.empty(); });
  if (!fresh || !scenario.stimuli.empty()) {
    return Error{
        fmt::format("{}.json: \"nonces\", \"epochs\" and \"stimuli\" must be empty: they are taken "
                    "from the capture",
                    scenario.name)};
  }
  auto frames = read_capture(capture);
  if (!frames) return frames.error();
  leave_link(scenario, *frames);
  if (frames->empty()) return in(capture, "no frame of the ports' MACs in it");
  // Programs that capture on several interfaces write what they read of each at a time.
  std::stable_sort(frames->begin(), frames->end(),
                   [](const CapturedFrame& a, const CapturedFrame& b) { return a.at < b.at; });
  const Duration before = frames->front().at - Time{kMargin};
  for (CapturedFrame& frame : *frames) frame.at -= before;
  scenario.end = frames->back().at + kMargin;
  if (const auto placed = place_frames(std::move(*frames), scenario); !placed) {
    return in(capture, placed.error().message);
  }
  Owner owner(scenario);
  for (const TraceFrame& frame : scenario.frames) {
    if (frame.received) continue;
    if (const auto why = owner.sent(frame)) return in(capture, *why);
  }
  if (scenario.stimuli.empty() || scenario.stimuli.front().what != Stimulus::Do::kEnable) {
    return in(capture,
              "begins within a session: it must have the device's first INIT, before all else that "
              "the device sent");
  }
  std::vector<TraceFrame> seen = scenario.frames;
  leave_received(scenario);
  return seen;
}

Result<void> record(Trace& scenario, bool digest_only) {
  ReplayOptions options;
  options.frames_beyond = kMaxFrames;
  const Outcome outcome = run(scenario, options);
  if (!outcome.faults.empty()) {
    const Difference& first = outcome.faults.front();
    return Error{fmt::format("{}: at {}: {}", scenario.name, time_text(first.at), first.what)};
  }
  scenario.frames.clear();
  if (auto placed = place_frames(outcome.capture, scenario); !placed) return placed;
  scenario.deliveries = outcome.deliveries;
  scenario.digest.reset();
  if (digest_only) {
    scenario.digest = DeliveryDigest{outcome.deliveries.size(), digest(outcome.deliveries)};
    scenario.deliveries.clear();
  }
  scenario.port_drops = outcome.port_drops;
  scenario.node_drops = outcome.node_drops;
  return {};
}

Result<void> same_deeds(const std::vector<TraceFrame>& seen, const Trace& made) {
  for (const TracePort& port : made.ports) {
    const std::vector<Deed> device = deeds_of(seen, port);
    const std::vector<Deed> core = deeds_of(made.frames, port);
    const auto [d, c] =
        std::mismatch(device.begin(), device.end(), core.begin(), core.end(),
                      [](const Deed& a, const Deed& b) { return a.what == b.what; });
    if (d == device.end() && c == core.end()) continue;
    const auto index = static_cast<std::size_t>(d - device.begin());
    return Error{fmt::format(
        "port {}: the device sent {}, this implementation {}: what made it do so is not on the "
        "wire (disabled or without carrier while not UP, a frame that is not in the capture), or "
        "one of both is wrong; `mtreplay judge` may tell",
        port.config.link.port.value(), deed_text(device, index), deed_text(core, index))};
  }
  return {};
}

}  // namespace mtl::conformance
