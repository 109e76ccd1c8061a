#include "conformance/trace.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "conformance/hex.h"
#include "conformance/json_field.h"

namespace mtl::conformance {
namespace {

constexpr std::string_view kVectors = "vectors.json";  // so end those beside the traces
constexpr std::string_view kNodeCounters = "node";

template <class T>
constexpr std::uint64_t max_of = std::numeric_limits<T>::max();

Time read_time(const JsonField& field) {
  return Time{Duration{
      number_as<std::int64_t>(field, 0, static_cast<std::uint64_t>(nanos(kMaxTraceTime)))}};
}

Duration read_duration(const JsonField& field) {
  return Duration{
      number_as<std::int64_t>(field, 1, static_cast<std::uint64_t>(kMaxTraceTimer.count()))};
}

link::Timers read_timers(const JsonField& field) {
  field.only({"init_interval", "keepalive_interval", "dead_interval", "ack_every", "ack_delay",
              "replay_timeout", "replay_limit", "nack_interval", "hold_down"});
  link::Timers timers;
  timers.init_interval = read_duration(field["init_interval"]);
  timers.keepalive_interval = read_duration(field["keepalive_interval"]);
  timers.dead_interval = read_duration(field["dead_interval"]);
  timers.ack_every = number_as<std::uint16_t>(field["ack_every"], 1, max_of<std::uint16_t>);
  timers.ack_delay = read_duration(field["ack_delay"]);
  timers.replay_timeout = read_duration(field["replay_timeout"]);
  timers.replay_limit = number_as<std::uint32_t>(field["replay_limit"], 0, max_of<std::uint32_t>);
  timers.nack_interval = read_duration(field["nack_interval"]);
  timers.hold_down = read_duration(field["hold_down"]);
  timers.adaptive = false;  // L27: in traces they are as given
  return timers;
}

network::Edge read_edge(const JsonField& field) {
  field.only({"nodes", "partitions"});
  network::Edge edge;
  for (const JsonField& node : field["nodes"].elements()) {
    edge.nodes.emplace_back(number_as<std::uint16_t>(node, kMinNode, kMaxNode));
  }
  for (const JsonField& partition : field["partitions"].elements()) {
    edge.partitions.emplace_back(number_as<std::uint16_t>(partition, 0, max_of<std::uint16_t>));
  }
  return edge;
}

/// L4: a nonce is not 0, an epoch 1..255 and other than the last one.
std::vector<link::BringUp> read_bring_ups(const JsonField& port) {
  const auto nonces = port["nonces"].elements();
  const auto epochs = port["epochs"].elements();
  std::vector<link::BringUp> bring_ups;
  if (nonces.size() != epochs.size()) port["epochs"].fail("must be as many as the nonces");
  for (std::size_t i = 0; i < std::min(nonces.size(), epochs.size()); ++i) {
    const auto epoch = number_as<std::uint8_t>(epochs[i], 1, max_of<std::uint8_t>);
    if (i > 0 && bring_ups.back().epoch == epoch)
      epochs[i].fail("must differ from the one before (L4)");
    bring_ups.push_back({number_as<std::uint32_t>(nonces[i], 1, max_of<std::uint32_t>), epoch});
  }
  return bring_ups;
}

void read_capacity(const JsonField& field, std::array<std::uint16_t, kVcs>& capacity) {
  const auto cells = field.elements();
  if (cells.size() != kVcs) return field.fail(fmt::format("must list {} VCs", kVcs));
  for (std::size_t vc = 0; vc < kVcs; ++vc) {
    capacity[vc] = number_as<std::uint16_t>(cells[vc], 0, link::kMaxCapacitySum);
  }
}

/// What is checked of one port alone; `index` is its place in the list.
TracePort read_port(const JsonField& field, std::size_t index, NodeId node) {
  field.only({"port", "mac", "peer_mac", "fixed_peer_mac", "other_macs", "expect_node",
              "expect_port", "mtu", "cell", "window", "capacity", "nonces", "epochs", "timers",
              "edge"});
  TracePort port;
  link::Config& link = port.config.link;
  link.node = node;
  link.port = PortId{number_as<std::uint16_t>(field["port"], index, index)};
  link.mac = field["mac"].mac();
  port.peer_mac = field["peer_mac"].mac();
  if (field["fixed_peer_mac"].boolean()) link.peer_mac = port.peer_mac;
  if (const auto others = field.find("other_macs")) {
    for (const JsonField& other : others->elements()) port.other_macs.push_back(other.mac());
  }
  if (const auto expected = field.find("expect_node")) {
    link.expect_node = NodeId{number_as<std::uint16_t>(*expected, kMinNode, kMaxNode)};
  }
  if (const auto expected = field.find("expect_port")) {
    link.expect_port = PortId{number_as<std::uint16_t>(*expected, 0, max_of<std::uint16_t>)};
  }
  link.mtu = number_as<std::uint16_t>(field["mtu"], link::kMinMtu, max_of<std::uint16_t>);
  link.cell = number_as<std::uint16_t>(field["cell"], 1, max_of<std::uint16_t>);
  link.window = number_as<std::uint16_t>(field["window"], 1, link::kMaxWindow);
  read_capacity(field["capacity"], link.capacity);
  link.mark_bytes = 0;  // N12: never, in traces
  port.bring_ups = read_bring_ups(field);
  link.timers = read_timers(field["timers"]);
  if (const auto edge = field.find("edge")) port.config.edge = read_edge(*edge);
  if (const char* fault = link::fault(link)) field.fail(fault);
  return port;
}

network::Route read_route(const JsonField& field, std::size_t ports) {
  field.only({"dst", "tiers"});
  network::Route route;
  route.dst = NodeId{number_as<std::uint16_t>(field["dst"], kMinNode, kMaxNode)};
  for (const JsonField& tier : field["tiers"].elements()) {
    network::Tier& hops = route.tiers.emplace_back();
    for (const JsonField& hop : tier.elements()) {
      hop.only({"port", "raise"});
      hops.push_back({PortId{number_as<std::uint16_t>(hop["port"], 0, ports - 1)},
                      number_as<std::uint8_t>(hop["raise"], 0, 1)});
    }
  }
  return route;
}

void read_dut(const JsonField& field, Trace& trace) {
  field.only({"node", "ports", "routes", "consume"});
  trace.node = NodeId{number_as<std::uint16_t>(field["node"], kMinNode, kMaxNode)};
  const auto ports = field["ports"].elements();
  if (ports.empty() || ports.size() > kMaxTracePorts) {
    return field["ports"].fail(fmt::format("must list 1 to {} ports", kMaxTracePorts));
  }
  for (const JsonField& port : ports) {
    trace.ports.push_back(read_port(port, trace.ports.size(), trace.node));
  }
  for (const JsonField& route : field["routes"].elements()) {
    trace.routes.push_back(read_route(route, trace.ports.size()));
  }
  if (const auto table = network::RouteTable::build(trace.routes, trace.ports.size()); !table) {
    field["routes"].fail(table.error().message);
  }
  trace.consume = field["consume"].boolean();
}

PortId read_port_id(const JsonField& field, const Trace& trace) {
  return PortId{number_as<std::uint16_t>(field, 0, trace.ports.size() - 1)};
}

std::vector<std::byte> read_packet(const JsonField& field) {
  auto packet = field.bytes();
  if (packet.size() < link::kMinPacket || packet.size() > max_of<std::uint16_t>) {
    field.fail(fmt::format("a packet has {} to {} bytes", link::kMinPacket, max_of<std::uint16_t>));
  }
  return packet;
}

Stimulus read_stimulus(const JsonField& field, const Trace& trace) {
  using Do = Stimulus::Do;
  constexpr std::array kAll{Do::kEnable,    Do::kDisable, Do::kCarrierDown,
                            Do::kCarrierUp, Do::kSubmit,  Do::kRelease};
  Stimulus stimulus;
  stimulus.at = read_time(field["at"]);
  const std::string what = field["do"].text();
  const auto* known = std::find_if(kAll.begin(), kAll.end(), [&](Do d) { return what == name(d); });
  if (known == kAll.end()) {
    field["do"].fail("must be enable, disable, carrier_down, carrier_up, submit or release");
    return stimulus;
  }
  stimulus.what = *known;
  if (*known == Do::kSubmit) {
    field.only({"at", "do", "packet"});
    stimulus.packet = read_packet(field["packet"]);
  } else if (*known == Do::kRelease) {
    field.only({"at", "do", "count"});
    stimulus.count = number_as<std::uint32_t>(field["count"], 1, max_of<std::uint32_t>);
  } else {
    field.only({"at", "do", "port"});
    stimulus.port = read_port_id(field["port"], trace);
  }
  return stimulus;
}

void read_stimuli(const JsonField& field, Trace& trace) {
  for (const JsonField& element : field.elements()) {
    Stimulus stimulus = read_stimulus(element, trace);
    if (!trace.stimuli.empty() && stimulus.at < trace.stimuli.back().at) {
      element["at"].fail("must not be before the stimulus before it");
    }
    if (stimulus.at > trace.end) element["at"].fail("must not be after \"end\"");
    trace.stimuli.push_back(std::move(stimulus));
  }
}

Delivery read_delivery(const JsonField& field, const Trace& trace) {
  field.only({"at", "port", "vc", "packet"});
  Delivery delivery;
  const JsonField port = field["port"];
  delivery.port = port.is_null() ? kNoPort : read_port_id(port, trace);  // C4: null, to itself
  delivery.vc = Vc{number_as<std::uint8_t>(field["vc"], 0, kVcs - 1)};
  delivery.packet = read_packet(field["packet"]);
  return delivery;
}

void read_delivered(const JsonField& field, Trace& trace) {
  if (!field.is_object()) {
    for (const JsonField& delivery : field.elements()) {
      trace.deliveries.push_back(read_delivery(delivery, trace));
      trace.deliveries.back().at = read_time(delivery["at"]);
    }
    return;
  }
  field.only({"delivered_count", "delivered_sha256"});
  DeliveryDigest& expected = trace.digest.emplace();
  expected.count = field["delivered_count"].number(0, max_of<std::uint32_t>);
  const auto bytes = field["delivered_sha256"].bytes();
  if (bytes.size() != expected.sha256.size())
    return field["delivered_sha256"].fail("must be 64 digits");
  std::copy(bytes.begin(), bytes.end(), expected.sha256.begin());
}

/// Counters of one port (`layer` kLink) or of the node (kNetwork).
/// `least`: a trace does not name what is not counted, a device may.
DropCounts read_drops(const JsonField& field, DropLayer layer, std::uint64_t least) {
  DropCounts drops;
  for (const std::string& key : field.names()) {
    const auto* known = std::find_if(kDropInfo.begin(), kDropInfo.end(), [&](const DropInfo& i) {
      return i.layer == layer && i.name == key;
    });
    if (known == kDropInfo.end()) {
      field[key].fail(layer == DropLayer::kLink ? "is no drop counter of a port (section 3)"
                                                : "is no drop counter of the node (section 4)");
      break;
    }
    const auto count = field[key].number(least, static_cast<std::uint64_t>(max_of<std::int64_t>));
    if (count != 0) drops[static_cast<Drop>(known - kDropInfo.begin())] = count;
  }
  return drops;
}

/// `ports`: one a port of the trace.
void read_counters(const JsonField& field, std::uint64_t least, std::vector<DropCounts>& ports,
                   DropCounts& node) {
  std::vector<std::string> known;
  for (std::size_t port = 0; port < ports.size(); ++port) known.push_back(std::to_string(port));
  for (const std::string& key : field.names()) {
    if (key == kNodeCounters) {
      node = read_drops(field[key], DropLayer::kNetwork, least);
      continue;
    }
    const auto port = std::find(known.begin(), known.end(), key);
    if (port == known.end()) return field[key].fail("must be a port of the trace, or \"node\"");
    ports[static_cast<std::size_t>(port - known.begin())] =
        read_drops(field[key], DropLayer::kLink, least);
  }
}

/// What a scenario has too.
void read_scenario(const JsonField& root, Trace& trace) {
  root.only({"about", "rules", "dut", "stimuli", "end", "delivered", "counters"});
  trace.about = root["about"].text();
  for (const JsonField& rule : root["rules"].elements()) trace.rules.push_back(rule.text());
  trace.end = read_time(root["end"]);
  read_dut(root["dut"], trace);
  if (trace.ports.empty()) return;  // already an error
  read_stimuli(root["stimuli"], trace);
  trace.port_drops.resize(trace.ports.size());
}

void read_trace(const JsonField& root, Trace& trace) {
  read_scenario(root, trace);
  if (trace.ports.empty()) return;  // already an error
  read_delivered(root["delivered"], trace);
  read_counters(root["counters"], 1, trace.port_drops, trace.node_drops);
}

/// Whose frames carry a source MAC.
struct Source {
  PortId port;
  bool received = false;
};
using Sources = std::map<Mac, Source>;

/// Adds a source; false if its MAC is another one's already.
bool add_source(Sources& sources, const Mac& mac, Source source) {
  return sources.emplace(mac, source).second;
}

/// Ports and directions by source MAC (C3), or which MAC is used twice.
Result<Sources> sources_of(const Trace& trace) {
  Sources sources;
  for (const TracePort& port : trace.ports) {
    const PortId id = port.config.link.port;
    bool unique = add_source(sources, port.config.link.mac, {id, false});
    unique = add_source(sources, port.peer_mac, {id, true}) && unique;
    for (const Mac& other : port.other_macs)
      unique = add_source(sources, other, {id, true}) && unique;
    if (!unique) {
      return Error{
          fmt::format("dut.ports[{}]: a MAC is used twice in the trace, so the source of a "
                      "frame does not tell its port and direction",
                      id.value())};
    }
  }
  return sources;
}

}  // namespace

const char* name(Stimulus::Do what) {
  switch (what) {
    case Stimulus::Do::kEnable:
      return "enable";
    case Stimulus::Do::kDisable:
      return "disable";
    case Stimulus::Do::kCarrierDown:
      return "carrier_down";
    case Stimulus::Do::kCarrierUp:
      return "carrier_up";
    case Stimulus::Do::kSubmit:
      return "submit";
    case Stimulus::Do::kRelease:
      return "release";
  }
  return "?";
}

Sha256 digest(const std::vector<Delivery>& deliveries) {
  std::vector<std::byte> all;
  for (const Delivery& delivery : deliveries) {
    all.insert(all.end(), delivery.packet.begin(), delivery.packet.end());
  }
  Sha256 sha256{};
  unsigned int length = 0;
  EVP_Digest(all.data(), all.size(), reinterpret_cast<unsigned char*>(sha256.data()), &length,
             EVP_sha256(), nullptr);
  return sha256;
}

/// Finds port and direction of every frame, and checks the times.
Result<void> place_frames(std::vector<CapturedFrame> capture, Trace& trace) {
  const auto known = sources_of(trace);
  if (!known) return known.error();
  const Sources& sources = *known;
  for (CapturedFrame& frame : capture) {
    const std::size_t number = trace.frames.size() + 1;
    if (frame.bytes.size() < link::kEthernetHeader) {
      return Error{fmt::format("frame {}: has no whole Ethernet header", number)};
    }
    Mac mac;
    std::memcpy(mac.data(), frame.bytes.data() + mac.size(), mac.size());
    const auto source = sources.find(mac);
    if (source == sources.end()) {
      return Error{
          fmt::format("frame {}: source {} is neither a port of the device under test nor in "
                      "\"peer_mac\" or \"other_macs\" of one",
                      number, to_text(mac))};
    }
    if (frame.at > trace.end) return Error{fmt::format("frame {}: is after \"end\"", number)};
    if (!trace.frames.empty() && frame.at < trace.frames.back().at) {
      return Error{fmt::format("frame {}: is before the frame before it", number)};
    }
    trace.frames.push_back(
        {frame.at, std::move(frame.bytes), source->second.port, source->second.received, number});
  }
  return {};
}

Result<Trace> load_scenario(const std::filesystem::path& json) {
  auto file = JsonFile::load(json, kMaxTraceText);
  if (!file) return file.error();
  Trace trace;
  trace.name = json.stem().string();
  read_scenario(JsonField{*file}, trace);
  if (file->error()) return *file->error();
  return trace;
}

Result<Trace> load_trace(const std::filesystem::path& json) {
  auto file = JsonFile::load(json, kMaxTraceText);
  if (!file) return file.error();
  Trace trace;
  trace.name = json.stem().string();
  read_trace(JsonField{*file}, trace);
  if (file->error()) return *file->error();
  // Of the JSON, and not of the capture, which is then not looked at.
  if (const auto sources = sources_of(trace); !sources) {
    return Error{fmt::format("{}: {}", json.string(), sources.error().message)};
  }
  std::filesystem::path pcap = json;
  pcap.replace_extension(".pcap");
  auto capture = read_capture(pcap);
  if (!capture) return capture.error();
  if (const auto placed = place_frames(std::move(*capture), trace); !placed) {
    return Error{fmt::format("{}: {}", pcap.string(), placed.error().message)};
  }
  return trace;
}

Result<Told> read_told(const std::string& who, const boost::json::object& answer,
                       const Trace& trace) {
  JsonFile file = JsonFile::of(who, answer);
  const JsonField root{file};
  Told told;
  if (const auto delivered = root.find("delivered")) {
    told.deliveries.emplace();
    for (const JsonField& delivery : delivered->elements()) {
      told.deliveries->push_back(read_delivery(delivery, trace));
    }
  }
  if (const auto counters = root.find("counters")) {
    told.port_drops.emplace(trace.ports.size());
    read_counters(*counters, 0, *told.port_drops, told.node_drops);
  }
  if (file.error()) return *file.error();
  return told;
}

Result<std::vector<std::filesystem::path>> find_traces(const std::filesystem::path& folder) {
  std::error_code error;
  std::set<std::filesystem::path> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto& path = entry.path();
    const bool ours = path.extension() == ".json" || path.extension() == ".pcap";
    if (ours && !path.filename().string().ends_with(kVectors)) {
      names.insert(path.parent_path() / path.stem());
    }
  }
  if (error) return Error{fmt::format("{}: {}", folder.string(), error.message())};
  if (names.empty())
    return Error{fmt::format("{}: no trace (NAME.json and NAME.pcap) in it", folder.string())};
  std::vector<std::filesystem::path> traces;
  for (const auto& path : names) {
    for (const char* extension : {".json", ".pcap"}) {
      const std::filesystem::path half = path.string() + extension;
      if (!std::filesystem::exists(half, error)) {
        return Error{fmt::format("{}: missing; a trace is NAME.json and NAME.pcap", half.string())};
      }
    }
    traces.emplace_back(path.string() + ".json");
  }
  return traces;
}

}  // namespace mtl::conformance
