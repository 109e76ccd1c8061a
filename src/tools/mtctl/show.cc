#include "tools/mtctl/show.h"

#include <fmt/format.h>

#include <algorithm>

#include "phy/pacer.h"
#include "tools/mtctl/table.h"

namespace mtl::tools {
namespace {

using mtlink::control::NodeState;
using mtlink::control::PortState;
using Align = Table::Align;

Cell state_cell(const PortState& port) {
  if (!port.fault().empty()) return {"fault", Colour::kBad};
  const auto& state = port.link().state();
  return {state, state == "up" ? Colour::kGood : state == "init" ? Colour::kWarn : Colour::kBad};
}

std::uint64_t total(const google::protobuf::RepeatedPtrField<mtlink::control::DropCount>& drops) {
  std::uint64_t sum = 0;
  for (const auto& drop : drops) sum += drop.count();
  return sum;
}

/// "rate 160.0 Mbit/s: 160.0 Mbit/s over 1.00 s, off by -0.002 %, in use 93.1 %".
std::string pace_note(const mtlink::control::PaceState& pace) {
  std::string text = fmt::format("rate {}: ", describe(pace.rate()));
  if (pace.has_achieved_bps()) {
    text +=
        fmt::format("{}, off by {:+.2f} %, ", bit_rate(static_cast<double>(pace.achieved_bps())),
                    static_cast<double>(pace.error_ppm()) / 1e4);
  }
  return text + fmt::format("in use {:.1f} % of {}",
                            static_cast<double>(pace.utilisation_ppm()) / 1e4,
                            duration(pace.interval_ns()));
}

/// What the operator should know of a port beyond its figures.
std::string note(const PortState& port) {
  std::vector<std::string> notes;
  if (!port.fault().empty()) notes.push_back(port.fault());
  if (port.slot())
    notes.push_back(port.claimed() ? fmt::format("node {} is here", port.endpoint_node())
                                   : fmt::format("free, for node {}", port.endpoint_node()));
  if (port.edge()) notes.emplace_back("edge");
  if (port.has_pace()) notes.push_back(pace_note(port.pace()));
  if (const auto impairment = describe(port.impairment()); !impairment.empty())
    notes.push_back(fmt::format("impaired: {} ({} frames so far)", impairment, port.impaired()));
  return fmt::format("{}", fmt::join(notes, "; "));
}

/// A length that the operator compares, never rounded.
std::string exact_bytes(std::uint32_t count) {
  return fmt::format("{} B", count);
}

/// Packets that this node set CE of, on all VCs.
std::uint64_t marked(const mtlink::control::LinkState& link) {
  std::uint64_t sum = 0;
  for (const auto& vc : link.vcs()) sum += vc.marked();
  return sum;
}

std::string peer(const PortState& port) {
  const auto& link = port.link();
  if (link.peer_node() == 0) return "-";
  return fmt::format("node {} port {}", link.peer_node(), link.peer_port());
}

std::string name_of_port(const NodeState& node, std::uint32_t number) {
  for (const auto& port : node.ports())
    if (port.port() == number) return port_label(port);
  return std::to_string(number);
}

/// What routes mean by a port: the trunk whose first lane it is, or itself.
std::string name_of_hop(const NodeState& node, std::uint32_t number) {
  for (const auto& trunk : node.trunks())
    if (trunk.lanes_size() != 0 && trunk.lanes(0).port() == number)
      return fmt::format("trunk {}", trunk.name());
  return name_of_port(node, number);
}

std::string lines(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::size_t widest = 0;
  for (const auto& [key, value] : pairs) widest = std::max(widest, key.size());
  std::string text;
  for (const auto& [key, value] : pairs) text += fmt::format("{:<{}}  {}\n", key, widest, value);
  return text;
}

}  // namespace

std::string port_label(const PortState& port) {
  if (port.name().empty()) return std::to_string(port.port());
  return fmt::format("{} ({})", port.port(), port.name());
}

std::string describe(const mtlink::config::Impairment& impairment) {
  std::vector<std::string> parts;
  const auto add_rate = [&](const char* what, std::uint32_t ppm) {
    if (ppm != 0) parts.push_back(fmt::format("{} {}", what, percent_of_ppm(ppm)));
  };
  const auto add_time = [&](const char* what, std::uint64_t us) {
    if (us != 0) parts.push_back(fmt::format("{} {}", what, duration(us * 1000)));
  };
  add_rate("drop", impairment.drop_ppm());
  add_rate("corrupt-header", impairment.corrupt_header_ppm());
  add_rate("corrupt", impairment.corrupt_packet_ppm());
  add_rate("duplicate", impairment.duplicate_ppm());
  add_rate("reorder", impairment.reorder_ppm());
  add_time("delay", impairment.delay_us());
  add_time("jitter", impairment.jitter_us());
  if (parts.empty()) return "";
  if (impairment.seed() != 0) parts.push_back(fmt::format("seed {}", impairment.seed()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Whether the routes can deadlock (N10), as far as the node knows.
std::string deadlock_check(const std::string& check) {
  if (check == "proved") return "proved for the fabric";
  if (check == "unproved") return "unproved: routes by hand";
  if (check == "not_needed") return "not needed: neighbours only";
  return check;
}

/// How one of several hops is chosen (N8).
std::string hop_choice(const std::string& choice) {
  if (choice == "hash") return "by the flow's hash";
  if (choice == "shortest_queue") return "the shortest queue";
  return choice;
}

/// What became of the bound on the node's own packets (N13).
std::string own_packets(const NodeState& node) {
  std::uint64_t refused = 0, dropped = 0;
  for (const auto& shard : node.shards()) {
    refused += shard.refused();
    for (const auto& drop : shard.drops())
      if (drop.name() == "own_queue_full") dropped += drop.count();
  }
  return fmt::format("at most {} in a queue; beyond, {} refused, {} dropped (own_queue_full)",
                     node.own_limit(), refused, dropped);
}

std::string describe(const mtlink::config::Rate& rate) {
  const std::string text = bit_rate(static_cast<double>(rate.bps()));
  if (!rate.has_overhead() || rate.overhead() == phy::kEthernetOverhead) return text;
  return fmt::format("{} with {} B beside each frame", text, rate.overhead());
}

std::string show_node(const NodeState& node, bool) {
  const auto up = std::count_if(node.ports().begin(), node.ports().end(),
                                [](const auto& port) { return port.link().state() == "up"; });
  return lines({{"node", fmt::format("{} ({})", node.node(), node.name())},
                {"version", node.version()},
                {"running for", long_duration(node.uptime_ns())},
                {"process", std::to_string(node.pid())},
                {"ports", fmt::format("{}, {} of them up", node.ports_size(), up)},
                {"routes", fmt::format("to {} nodes", node.routes_size())},
                {"hop choice", hop_choice(node.hop_choice())},
                {"deadlock check", deadlock_check(node.deadlock_check())},
                {"own packets", own_packets(node)},
                {"workers", std::to_string(node.workers_size())}});
}

std::string show_ports(const NodeState& node, bool colour) {
  Table table({{"PORT", Align::kRight},
               {"NAME"},
               {"LINK"},
               {"DRIVER"},
               {"DEVICE"},
               {"CARRIER"},
               {"WORKER", Align::kRight},
               {"LONGEST", Align::kRight},
               {"FRAMES IN", Align::kRight},
               {"FRAMES OUT", Align::kRight},
               {"BYTES IN", Align::kRight},
               {"BYTES OUT", Align::kRight},
               {"FULL", Align::kRight},
               {"DROPS", Align::kRight},
               {"NOTE"}});
  for (const auto& port : node.ports())
    table.add({port.port(), port.name(),
               port.enabled() ? state_cell(port) : Cell("off", Colour::kWarn), port.driver(),
               port.device(), port.carrier() ? Cell("yes") : Cell("no", Colour::kBad),
               port.worker(), exact_bytes(port.max_frame()), port.frames_in(), port.frames_out(),
               bytes(port.bytes_in()), bytes(port.bytes_out()), port.send_full(),
               total(port.drops()), note(port)});
  return table.text(colour);
}

std::string show_links(const NodeState& node, bool colour) {
  Table table({{"PORT", Align::kRight},
               {"NAME"},
               {"LINK"},
               {"PEER"},
               {"PEER MAC"},
               {"MTU", Align::kRight},
               {"ROUND TRIP", Align::kRight},
               {"PACKETS IN", Align::kRight},
               {"ACKED", Align::kRight},
               {"UNACKED", Align::kRight},
               {"QUEUED", Align::kRight},
               {"HELD", Align::kRight},
               {"MARKED", Align::kRight},
               {"REPLAYS", Align::kRight},
               {"TIMEOUTS", Align::kRight},
               {"STALLS", Align::kRight},
               {"UPS", Align::kRight},
               {"LAST DOWN"}});
  for (const auto& port : node.ports()) {
    const auto& link = port.link();
    table.add({port.port(), port.name(), state_cell(port), peer(port),
               link.peer_mac().empty() ? "-" : link.peer_mac(),
               link.mtu() == 0 ? "-" : exact_bytes(link.mtu()),
               link.round_trip_ns() == 0 ? "-" : duration(link.round_trip_ns()), link.packets_in(),
               link.packets_acked(), link.unacknowledged(), link.queued(), link.held(),
               marked(link), link.replays(), link.replay_timeouts(), link.credit_stalls(),
               link.ups(), link.down_reason().empty() ? "-" : link.down_reason()});
  }
  return table.text(colour);
}

std::string show_vcs(const NodeState& node, bool colour) {
  Table table({{"PORT", Align::kRight},
               {"NAME"},
               {"VC", Align::kRight},
               {"CAPACITY", Align::kRight},
               {"OCCUPIED", Align::kRight},
               {"CREDIT AT PEER", Align::kRight},
               {"QUEUED", Align::kRight},
               {"MARKED", Align::kRight}});
  for (const auto& port : node.ports())
    for (const auto& vc : port.link().vcs())
      table.add({port.port(), port.name(), vc.vc(), vc.capacity(), vc.occupied(), vc.credit(),
                 vc.queued_cells(), vc.marked()});
  return table.text(colour) +
         "in cells (a cell is what one credit pays for); marked: packets, CE set here (N12)\n";
}

std::string show_routes(const NodeState& node, bool colour) {
  Table table({{"NODE", Align::kRight}, {"TIER", Align::kRight}, {"BY PORT"}});
  for (const auto& route : node.routes()) {
    for (int tier = 0; tier < route.tiers_size(); ++tier) {
      std::vector<std::string> hops;
      for (const auto& hop : route.tiers(tier).hops()) {
        std::string text = name_of_hop(node, hop.port());
        if (hop.has_weight() && hop.weight() != 1) text += fmt::format(" weight {}", hop.weight());
        if (hop.raise() != 0) text += " raise";
        hops.push_back(std::move(text));
      }
      table.add({route.dst(), static_cast<std::uint64_t>(tier) + 1,
                 fmt::format("{}", fmt::join(hops, ", "))});
    }
  }
  return table.empty() ? "no routes\n" : table.text(colour);
}

std::string show_trunks(const NodeState& node, bool colour) {
  Table table({{"TRUNK"},
               {"SPREAD"},
               {"PORT"},
               {"LANE"},
               {"FLOWS", Align::kRight},
               {"QUEUED", Align::kRight},
               {"PACKETS", Align::kRight},
               {"MOVES", Align::kRight},
               {"FORCED", Align::kRight}});
  for (const auto& trunk : node.trunks()) {
    for (int i = 0; i < trunk.lanes_size(); ++i) {
      const auto& lane = trunk.lanes(i);
      const auto once = [&](auto value) { return i == 0 ? Cell(value) : Cell(""); };
      table.add({once(trunk.name()), once(trunk.spread()), name_of_port(node, lane.port()),
                 lane.usable() ? Cell("usable", Colour::kGood) : Cell("lost", Colour::kBad),
                 lane.flows(), lane.queued(), lane.packets(), once(trunk.moves()),
                 once(trunk.forced_moves())});
    }
  }
  return table.empty() ? "no trunks\n" : table.text(colour);
}

std::string show_drops(const NodeState& node, bool colour) {
  Table table({{"WHERE"}, {"LAYER"}, {"REASON"}, {"COUNT", Align::kRight}});
  const auto add = [&](const std::string& where, const auto& drops) {
    for (const auto& drop : drops)
      if (drop.count() != 0) table.add({where, drop.layer(), drop.name(), drop.count()});
  };
  for (const auto& port : node.ports()) add("port " + port_label(port), port.drops());
  for (const auto& device : node.shared_devices()) add("device " + device.name(), device.drops());
  add("removed ports", node.removed().drops());
  for (const auto& shard : node.shards())
    add(fmt::format("shard {}", shard.shard()), shard.drops());
  return table.empty() ? "nothing was dropped\n" : table.text(colour);
}

namespace {

/// "0 (cable0), 2 (slot2)", "-" if there are none.
std::string ports_text(const NodeState& node,
                       const google::protobuf::RepeatedField<std::uint32_t>& ports) {
  std::string text;
  for (const auto& port : node.ports()) {
    if (std::find(ports.begin(), ports.end(), port.port()) == ports.end()) continue;
    text += (text.empty() ? "" : ", ") + port_label(port);
  }
  return text.empty() ? "-" : text;
}

/// Where the cycles of measured passes went; "" if none were.
std::string stages(const NodeState& node, bool colour) {
  Table table({{"WORKER", Align::kRight},
               {"STAGE"},
               {"CYCLES", Align::kRight},
               {"SHARE", Align::kRight},
               {"FRAMES", Align::kRight},
               {"CYCLES/FRAME", Align::kRight}});
  std::string text;
  for (const auto& worker : node.workers()) {
    if (worker.measuring() || worker.measured_passes() > 0)
      text += fmt::format("worker {}: {} passes measured{}\n", worker.worker(),
                          worker.measured_passes(), worker.measuring() ? " so far" : "");
    std::uint64_t all = 0;
    for (const auto& stage : worker.stages()) all += stage.cycles();
    for (const auto& stage : worker.stages())
      table.add({worker.worker(), stage.stage(), stage.cycles(), share(stage.cycles(), all),
                 stage.frames(),
                 stage.frames() == 0
                     ? "-"
                     : fmt::format("{:.1f}", static_cast<double>(stage.cycles()) /
                                                 static_cast<double>(stage.frames()))});
  }
  return (text.empty() ? "" : "\n" + text) + (table.empty() ? "" : "\n" + table.text(colour));
}

}  // namespace

std::string show_workers(const NodeState& node, bool colour) {
  Table table({{"WORKER", Align::kRight},
               {"CPU", Align::kRight},
               {"LOOPS", Align::kRight},
               {"BUSY", Align::kRight},
               {"POLLING IDLE", Align::kRight},
               {"ASLEEP", Align::kRight},
               {"SLEEPS", Align::kRight},
               {"OF UPTIME BUSY", Align::kRight},
               {"BUSY NOW", Align::kRight},
               {"PORTS"}});
  const auto ns = [](std::uint64_t cycles, std::uint64_t hz) {
    return hz == 0 ? std::uint64_t{0}
                   : static_cast<std::uint64_t>(1e9 * static_cast<double>(cycles) /
                                                static_cast<double>(hz));
  };
  for (const auto& worker : node.workers()) {
    const auto busy = ns(worker.busy_cycles(), worker.cycles_hz());
    table.add({worker.worker(), worker.cpu() < 0 ? "any" : std::to_string(worker.cpu()),
               worker.loops(), duration(busy),
               duration(ns(worker.idle_cycles(), worker.cycles_hz())), duration(worker.sleep_ns()),
               worker.sleeps(), share(busy, node.uptime_ns()),
               worker.interval_ns() == 0 ? "-" : share(worker.busy_ppm(), 1'000'000),
               ports_text(node, worker.ports())});
  }
  return table.text(colour) + stages(node, colour);
}

std::string show_memory(const NodeState& node, bool) {
  const auto& memory = node.memory();
  return lines({{"buffers", fmt::format("{}, {} of them free, {} in all", memory.pool_buffers(),
                                        memory.pool_free(), bytes(memory.buffer_bytes()))},
                {"links", bytes(memory.links_bytes())},
                {"local ports", bytes(memory.local_rings_bytes())}});
}

const std::vector<View>& views() {
  static const std::vector<View> kViews{
      {"node", "what runs here", show_node},
      {"ports", "ports and their frames", show_ports},
      {"links", "links, their peers, replays and queues", show_links},
      {"vcs", "virtual channels and their credit", show_vcs},
      {"routes", "routes by destination and tier", show_routes},
      {"trunks", "trunks, their lanes and flows", show_trunks},
      {"drops", "what was dropped, by place and reason", show_drops},
      {"workers", "worker threads and their time", show_workers},
      {"memory", "buffers and tables", show_memory},
  };
  return kViews;
}

}  // namespace mtl::tools
