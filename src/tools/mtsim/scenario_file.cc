#include "tools/mtsim/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>
#include <vector>

#include "control/file/message_file.h"
#include "mtlink/scenario.pb.h"
#include "network/route_table.h"
#include "sim/scenario.h"
#include "topology/generate.h"

namespace mtl::mtsim {
namespace {

namespace pb = mtlink::sim;
using sim::PortRef;
using sim::Schedule;

constexpr std::uint64_t kHour = 3'600'000'000'000;
constexpr std::uint64_t kMaxCount = 100'000'000;  // packets of a flow
constexpr std::size_t kMaxNodes = 2048;
constexpr std::size_t kMaxWires = 16'384;
constexpr std::uint64_t kMaxBuffers = std::uint64_t{8} << 30;  // bytes
constexpr std::uint32_t kMaxEntropy = 0x7FFF;                  // above, the ledger has its own
constexpr std::uint32_t kLeastNumbered = 20;  // bytes of a packet that holds its number
constexpr std::uint32_t kLeastEcho = 28;

struct Refusal {
  std::string message;
};

Duration ns(std::uint64_t n) {
  return Duration(static_cast<std::int64_t>(n));
}
std::uint64_t ns(Duration d) {
  return static_cast<std::uint64_t>(d.count());
}
std::uint64_t ns(Time t) {
  return ns(t.time_since_epoch());
}

/// Checks as it reads; what is wrong is thrown as a Refusal and caught by read_scenario().
class Reader {
 public:
  explicit Reader(const control::Located<pb::Scenario>& file) : file_(file), in_(file.message) {}

  Schedule read() {
    out_.about = in_.about().empty() ? file_.locations.file() : in_.about();
    if (in_.has_seed()) out_.seed = in_.seed();
    default_link_ = link({}, in_.link(), "link");
    read_plan();
    sim::assign_addresses(out_.plan);
    check_plan();
    for (int i = 0; i < in_.flows_size(); ++i) read_flow(in_.flows(i), item("flows", i));
    for (int i = 0; i < in_.packets_size(); ++i) read_packet(in_.packets(i), item("packets", i));
    for (int i = 0; i < in_.moves_size(); ++i) read_move(in_.moves(i), item("moves", i));
    for (int i = 0; i < in_.replacements_size(); ++i) {
      read_replacement(in_.replacements(i), item("replacements", i));
    }
    if (in_.has_background()) out_.background = impairment(in_.background(), "background");
    read_end();
    for (int i = 0; i < in_.faults_size(); ++i) read_fault(in_.faults(i), item("faults", i));
    constexpr std::array kOrders{sim::Order::kUnchangedPaths, sim::Order::kUnchangedPaths,
                                 sim::Order::kAlways, sim::Order::kNever};
    out_.order = kOrders[static_cast<std::size_t>(in_.order())];
    out_.pause = duration("pause_ns", in_.pause_ns());
    return std::move(out_);
  }

 private:
  static std::string item(const std::string& list, int i) { return fmt::format("{}[{}]", list, i); }

  [[noreturn]] void refuse(const std::string& path, const std::string& what) const {
    throw Refusal{file_.where(path) + path + ": " + what};
  }
  std::uint64_t within(const std::string& path, std::uint64_t value, std::uint64_t low,
                       std::uint64_t high) const {
    if (value < low || value > high) {
      refuse(path, fmt::format("{} is not {} to {}", value, low, high));
    }
    return value;
  }
  template <class T>
  T number(const std::string& path, std::uint64_t value, std::uint64_t low,
           std::uint64_t high) const {
    return static_cast<T>(within(path, value, low, high));
  }
  Time time(const std::string& path, std::uint64_t value) const {
    return Time(duration(path, value));
  }
  Duration duration(const std::string& path, std::uint64_t value) const {
    return ns(within(path, value, 0, kHour));
  }
  std::uint32_t node(const std::string& path, std::uint32_t value) const {
    const std::size_t nodes = out_.plan.nodes.size();
    if (value >= nodes) {
      refuse(path, fmt::format("there is no node {}; nodes are 0 to {}", value, nodes - 1));
    }
    return value;
  }
  PortId port(const std::string& path, std::uint32_t at, std::uint32_t value) const {
    const std::size_t ports = out_.plan.nodes[at].config.ports.size();
    if (value >= ports) {
      refuse(path,
             fmt::format("node {} has no port {}; it has {}, counted from 0", at, value, ports));
    }
    return PortId(static_cast<std::uint16_t>(value));
  }
  ShardId shard(const std::string& path, std::uint32_t at, std::uint32_t value) const {
    const std::size_t shards = out_.plan.nodes[at].config.shards;
    if (value >= shards) {
      refuse(path,
             fmt::format("node {} has no shard {}; it has {}, counted from 0 (nodes[{}].shards)",
                         at, value, shards, at));
    }
    return ShardId(static_cast<std::uint8_t>(value));
  }

  link::Timers timers(link::Timers t, const pb::Timers& in, const std::string& path) const {
    if (in.profile() == mtlink::config::Timers::LAB) t = link::lab_timers();
    if (in.profile() == mtlink::config::Timers::FAST) t = {};
    const auto take = [&](bool has, std::uint64_t value, const char* name, Duration& to) {
      if (has) to = ns(within(path + "." + name, value, 1, kHour));
    };
    take(in.has_init_interval_ns(), in.init_interval_ns(), "init_interval_ns", t.init_interval);
    take(in.has_keepalive_interval_ns(), in.keepalive_interval_ns(), "keepalive_interval_ns",
         t.keepalive_interval);
    take(in.has_dead_interval_ns(), in.dead_interval_ns(), "dead_interval_ns", t.dead_interval);
    take(in.has_ack_delay_ns(), in.ack_delay_ns(), "ack_delay_ns", t.ack_delay);
    take(in.has_replay_timeout_ns(), in.replay_timeout_ns(), "replay_timeout_ns", t.replay_timeout);
    take(in.has_nack_interval_ns(), in.nack_interval_ns(), "nack_interval_ns", t.nack_interval);
    take(in.has_hold_down_ns(), in.hold_down_ns(), "hold_down_ns", t.hold_down);
    take(in.has_adaptive_min_ns(), in.adaptive_min_ns(), "adaptive_min_ns", t.adaptive_min);
    take(in.has_adaptive_max_ns(), in.adaptive_max_ns(), "adaptive_max_ns", t.adaptive_max);
    if (in.has_ack_every()) {
      t.ack_every = number<std::uint16_t>(path + ".ack_every", in.ack_every(), 1, 65'535);
    }
    if (in.has_replay_limit()) t.replay_limit = in.replay_limit();
    if (in.has_adaptive()) t.adaptive = in.adaptive();
    return t;
  }

  link::Config link(link::Config config, const pb::Link& in, const std::string& path) const {
    const auto take = [&](bool has, std::uint32_t value, const char* name, std::uint16_t& to) {
      if (has) to = number<std::uint16_t>(path + "." + name, value, 1, 65'535);
    };
    take(in.has_mtu(), in.mtu(), "mtu", config.mtu);
    take(in.has_cell(), in.cell(), "cell", config.cell);
    take(in.has_window(), in.window(), "window", config.window);
    take(in.has_send_window(), in.send_window(), "send_window", config.send_window);
    const int values = in.capacity_size();
    if (values != 0 && values != 1 && values != static_cast<int>(kVcs)) {
      refuse(path + ".capacity",
             fmt::format("{} values; give one for all VCs, or {}", values, kVcs));
    }
    for (std::size_t v = 0; v < kVcs && values != 0; ++v) {
      const int i = values == 1 ? 0 : static_cast<int>(v);
      config.capacity[v] = number<std::uint16_t>(item(path + ".capacity", i), in.capacity(i), 0,
                                                 link::kMaxCapacitySum);
    }
    if (in.mark_bytes() != 0) config.mark_bytes = in.mark_bytes();
    if (in.has_timers()) config.timers = timers(config.timers, in.timers(), path + ".timers");
    config.node = NodeId(1);  // until its place is known
    if (const char* fault = link::fault(config)) refuse(path, fault);
    return config;
  }

  void read_plan() {
    if (in_.has_topology()) {
      if (in_.nodes_size() != 0) {
        refuse("nodes", "cannot stand beside topology, which makes nodes and wires; keep one");
      }
      if (in_.wires_size() != 0) refuse("wires", "cannot stand beside topology; leave them out");
      read_topology(in_.topology());
      return;
    }
    if (in_.nodes_size() == 0)
      refuse("nodes", "there are none; give a topology, or nodes and wires");
    if (in_.wires_size() == 0) refuse("wires", "there are none; join the nodes' ports by wires");
    const auto at_most = [this](const char* path, std::uint64_t count, std::uint64_t most) {
      if (count > most) refuse(path, fmt::format("there are {}, more than {}", count, most));
    };
    at_most("nodes", static_cast<std::uint64_t>(in_.nodes_size()), kMaxNodes);
    at_most("wires", static_cast<std::uint64_t>(in_.wires_size()), kMaxWires);
    for (int i = 0; i < in_.nodes_size(); ++i) read_node(in_.nodes(i), item("nodes", i));
    for (int i = 0; i < in_.wires_size(); ++i) read_wire(in_.wires(i), item("wires", i));
  }

  void read_node(const pb::Node& in, const std::string& path) {
    sim::NodePlan node;
    if (in.has_shards()) {
      node.config.shards = number<std::size_t>(path + ".shards", in.shards(), 1, 16);
    }
    if (in.has_own_limit()) {
      node.config.own_limit = number<std::uint32_t>(path + ".own_limit", in.own_limit(), 1, 65'536);
    }
    if (in.has_own_buffers()) {
      node.own_buffers = number<std::uint32_t>(path + ".own_buffers", in.own_buffers(), 1, 65'536);
    }
    node.consume_later_ppm =
        number<std::uint32_t>(path + ".consume_later_ppm", in.consume_later_ppm(), 0, 1'000'000);
    node.consume_delay = duration(path + ".consume_delay_ns", in.consume_delay_ns());
    node.ring_delay = duration(path + ".ring_delay_ns", in.ring_delay_ns());
    node.move_delay = duration(path + ".move_delay_ns", in.move_delay_ns());
    if (in.hop_choice() == mtlink::config::NodeConfig::SHORTEST_QUEUE) {
      node.config.hop_choice = network::HopChoice::kShortestQueue;
    }
    within(path + ".ports", static_cast<std::uint64_t>(in.ports_size()), 1, 1024);
    out_.plan.nodes.push_back(std::move(node));
    const auto at = static_cast<std::uint32_t>(out_.plan.nodes.size() - 1);
    for (int i = 0; i < in.ports_size(); ++i) {
      read_port(at, in.ports(i), item(path + ".ports", i));
    }
    for (int i = 0; i < in.trunks_size(); ++i) {
      read_trunk(at, in.trunks(i), item(path + ".trunks", i));
    }
    for (int i = 0; i < in.routes_size(); ++i) {
      read_route(at, in.routes(i), item(path + ".routes", i));
    }
  }

  void read_port(std::uint32_t at, const pb::Port& in, const std::string& path) {
    network::PortConfig port;
    port.link = in.has_link() ? link(default_link_, in.link(), path + ".link") : default_link_;
    port.shard = shard(path + ".shard", at, in.shard());
    if (in.edge()) port.edge.emplace();
    if (in.knows_peer_mac()) port.link.peer_mac.emplace();
    if (in.knows_peer_node()) port.link.expect_node.emplace();
    out_.plan.nodes[at].config.ports.push_back(std::move(port));
  }

  void read_trunk(std::uint32_t at, const pb::Trunk& in, const std::string& path) {
    network::NodeConfig& config = out_.plan.nodes[at].config;
    network::TrunkConfig trunk;
    within(path + ".ports", static_cast<std::uint64_t>(in.ports_size()), network::Trunk::kMinLanes,
           network::Trunk::kMaxLanes);
    for (int i = 0; i < in.ports_size(); ++i) {
      const std::string where = item(path + ".ports", i);
      const PortId lane = port(where, at, in.ports(i));
      const bool twice =
          std::find(trunk.lanes.begin(), trunk.lanes.end(), lane) != trunk.lanes.end();
      if (twice || sim::trunk_of(config, lane) != nullptr) {
        refuse(where,
               fmt::format("port {} is a lane already; each is one lane alone", lane.value()));
      }
      trunk.lanes.push_back(lane);
      if (config.ports[lane.value()].shard != config.ports[trunk.lanes.front().value()].shard) {
        refuse(where, "all lanes of a trunk have one shard; give these ports the same");
      }
    }
    if (in.spread() == mtlink::config::Trunk::SHORTEST_QUEUE) {
      trunk.spread = network::Spread::kShortestQueue;
    }
    config.trunks.push_back(std::move(trunk));
  }

  void read_route(std::uint32_t at, const pb::Route& in, const std::string& path) {
    network::Route route;
    if (in.to() >= static_cast<std::uint32_t>(in_.nodes_size())) {
      refuse(path + ".to",
             fmt::format("there is no node {}; nodes are 0 to {}", in.to(), in_.nodes_size() - 1));
    }
    route.dst = sim::node_id(in.to());
    for (int t = 0; t < in.tiers_size(); ++t) {
      network::Tier& tier = route.tiers.emplace_back();
      for (int h = 0; h < in.tiers(t).hops_size(); ++h) {
        const auto& hop = in.tiers(t).hops(h);
        const std::string where = item(item(path + ".tiers", t) + ".hops", h);
        const PortId to = port(where + ".port", at, hop.port());
        const auto raise = number<std::uint8_t>(where + ".raise", hop.raise(), 0, 1);
        const std::uint64_t weight = within(where + ".weight", hop.has_weight() ? hop.weight() : 1,
                                            1, network::RouteTable::kMaxHops);
        tier.insert(tier.end(), weight, network::NextHop{to, raise});
      }
    }
    out_.plan.nodes[at].routes.push_back(std::move(route));
  }

  void read_wire(const pb::Wire& in, const std::string& path) {
    sim::WirePlan wire;
    wire.ends = {end(in.a(), path + ".a"), end(in.b(), path + ".b")};
    wire.delay = duration(path + ".delay_ns", in.delay_ns());
    if (in.bps() != 0) {
      wire.rate = phy::PacerConfig{};
      wire.rate->bits_per_second = within(path + ".bps", in.bps(), phy::kMinRate, phy::kMaxRate);
      if (in.has_overhead()) {
        wire.rate->overhead =
            number<std::uint32_t>(path + ".overhead", in.overhead(), 0, phy::kMaxOverhead);
      }
    }
    out_.plan.wires.push_back(wire);
  }
  PortRef end(const pb::End& in, const std::string& path) const {
    const std::uint32_t at = node(path + ".node", in.node());
    return {at, port(path + ".port", at, in.port())};
  }

  void read_topology(const pb::Topology& in) {
    using Shape = mtlink::config::Fabric;
    const auto switches = number<std::size_t>("topology.switches", in.switches(), 1, 1000);
    const auto endpoints = number<std::size_t>("topology.endpoints", in.endpoints(), 0, 1000);
    const auto lanes =
        number<std::size_t>("topology.lanes", in.has_lanes() ? in.lanes() : 1, 1, 16);
    check_size(in, switches, endpoints, lanes);
    constexpr std::array kShapes{topology::Shape::kLine, topology::Shape::kLine,
                                 topology::Shape::kStar, topology::Shape::kRing,
                                 topology::Shape::kFullMesh};
    if (in.shape() == Shape::SHAPE_UNSPECIFIED) {
      refuse("topology.shape", "is missing; it is LINE, STAR, RING or FULL_MESH");
    }
    const auto network = topology::make_network(
        topology::make_fabric(kShapes[static_cast<std::size_t>(in.shape())], switches, endpoints),
        lanes);
    if (!network) refuse("topology", network.error().message);
    if (network->wires.empty()) refuse("topology", "a lone node; give more switches or endpoints");
    out_.plan.nodes.resize(network->nodes.size());
    for (const topology::NodeRoutes& routes : network->nodes) {
      out_.plan.nodes[routes.node.value() - 1u].routes = routes.routes;
    }
    for (const topology::Wire& made : network->wires) add_wire(made, in);
    for (sim::NodePlan& node : out_.plan.nodes) {
      for (auto& route : node.routes) {
        for (auto& tier : route.tiers) {
          for (auto& hop : tier) hop.raise = in.one_layer() ? std::uint8_t{0} : hop.raise;
        }
      }
    }
  }
  /// Before anything is made of it.
  void check_size(const pb::Topology& in, std::size_t switches, std::size_t endpoints,
                  std::size_t lanes) const {
    const std::size_t nodes = switches * (1 + endpoints);
    if (nodes > kMaxNodes) {
      refuse("topology", fmt::format("it has {} nodes, more than {}; give fewer switches or "
                                     "endpoints",
                                     nodes, kMaxNodes));
    }
    const bool mesh = in.shape() == mtlink::config::Fabric::FULL_MESH;
    const std::size_t joined = mesh ? switches * (switches - 1) / 2 : switches;
    const std::size_t wires = joined * lanes + switches * endpoints;
    if (wires > kMaxWires) {
      refuse("topology", fmt::format("it has {} wires, more than {}; give fewer switches, lanes or "
                                     "endpoints",
                                     wires, kMaxWires));
    }
  }
  void add_wire(const topology::Wire& made, const pb::Topology& in) {
    sim::WirePlan wire;
    wire.delay = duration("topology.delay_ns", in.delay_ns());
    if (in.bps() != 0) {
      wire.rate = phy::PacerConfig{within("topology.bps", in.bps(), phy::kMinRate, phy::kMaxRate)};
    }
    for (std::size_t d = 0; d < 2; ++d) {
      const topology::End& end = d == 0 ? made.a : made.b;
      const std::uint32_t at = end.node.value() - 1u;
      wire.ends[d] = {at, end.port};
      auto& ports = out_.plan.nodes[at].config.ports;
      if (ports.size() <= end.port.value()) ports.resize(end.port.value() + std::size_t{1});
      ports[end.port.value()].link = default_link_;
      ports[end.port.value()].shard = ShardId(0);
    }
    out_.plan.wires.push_back(wire);
  }

  void check_buffers() const {
    std::uint64_t bytes = 0;
    for (const sim::NodePlan& n : out_.plan.nodes) bytes += sim::buffer_bytes(n);
    if (bytes > kMaxBuffers) {
      refuse(in_.has_topology() ? "topology" : "nodes",
             fmt::format("the buffers of all nodes take {} MiB, more than {}; give fewer nodes, "
                         "own_buffers, or a capacity of fewer cells, or larger ones",
                         bytes >> 20, kMaxBuffers >> 20));
    }
  }

  /// What no single field tells.
  void check_plan() const {
    check_buffers();
    std::vector<std::vector<int>> wires;
    for (const auto& n : out_.plan.nodes) wires.emplace_back(n.config.ports.size(), -1);
    for (std::size_t w = 0; w < out_.plan.wires.size(); ++w) {
      for (const PortRef& end : out_.plan.wires[w].ends) {
        int& first = wires[end.node][end.port.value()];
        if (first >= 0) {
          refuse(item("wires", static_cast<int>(w)),
                 fmt::format("node {} port {} is an end of wires[{}] already; a port has one wire",
                             end.node, end.port.value(), first));
        }
        first = static_cast<int>(w);
      }
    }
    for (std::size_t n = 0; n < wires.size(); ++n) {
      const auto bare = std::find(wires[n].begin(), wires[n].end(), -1);
      const std::string path = item("nodes", static_cast<int>(n));
      if (bare != wires[n].end()) {
        refuse(path, fmt::format("port {} of node {} is the end of no wire; add one to wires",
                                 bare - wires[n].begin(), n));
      }
      const auto table = network::RouteTable::build(out_.plan.nodes[n].routes, wires[n].size());
      if (!table) refuse(path + ".routes", table.error().message);
    }
  }

  void read_flow(const pb::Flow& in, const std::string& path) {
    sim::Flow flow;
    flow.from = node(path + ".from", in.from());
    flow.to = node(path + ".to", in.to());
    if (flow.from == flow.to) {
      refuse(path + ".to", fmt::format("node {} sends to itself; name another node", flow.to));
    }
    if (!sim::has_route(out_.plan.nodes[flow.from], flow.to)) {
      refuse(path + ".to", fmt::format("node {} has no route to node {}; add one to its routes",
                                       flow.from, flow.to));
    }
    flow.packet_class = number<std::uint8_t>(path + ".packet_class", in.packet_class(), 0, 1);
    flow.entropy = number<std::uint16_t>(path + ".entropy", in.entropy(), 0, kMaxEntropy);
    flow.echo = in.echo();
    if (flow.echo && flow.packet_class != network::kClassRequest) {
      refuse(path + ".packet_class", "an echo is a request; leave it 0");
    }
    if (in.has_bytes()) flow.length = in.bytes();
    within(path + ".bytes", flow.length, flow.echo ? kLeastEcho : kLeastNumbered,
           longest_that_fits());
    flow.count = within(path + ".count", in.count(), 0, kMaxCount);
    flow.rate = in.bps();
    if (flow.rate != 0) within(path + ".bps", flow.rate, phy::kMinRate, phy::kMaxRate);
    flow.start = time(path + ".start_ns", in.start_ns());
    if (in.end_ns() != 0) flow.end = time(path + ".end_ns", in.end_ns());
    if (flow.end <= flow.start) {
      refuse(path + ".end_ns",
             fmt::format("{} is not after start_ns {}", in.end_ns(), in.start_ns()));
    }
    if (flow.count == 0 && in.end_ns() == 0) {
      refuse(path, "it has no end; give count, or end_ns");
    }
    check_length(flow, path);
    out_.flows.push_back(flow);
  }
  /// That what is planned is over within the longest time there is.
  void check_length(const sim::Flow& flow, const std::string& path) const {
    if (flow.count == 0 || flow.rate == 0 || flow.end != kNever) return;
    const auto bits = static_cast<unsigned __int128>(flow.count) * flow.length * 8;
    if (bits * 1'000'000'000 / flow.rate > kHour) {
      refuse(path + ".count", fmt::format("{} packets of {} bytes take longer than an hour at {} "
                                          "bits/s; lower it, raise bps, or give end_ns",
                                          flow.count, flow.length, flow.rate));
    }
  }
  /// Bytes that every link takes; longer packets are dropped, which only a single one may ask for.
  std::uint32_t longest_that_fits() const {
    std::uint32_t least = 0xFFFF;
    for (const auto& n : out_.plan.nodes) {
      for (const auto& p : n.config.ports) least = std::min<std::uint32_t>(least, p.link.mtu);
    }
    return least;
  }

  void read_packet(const pb::Packet& in, const std::string& path) {
    sim::Send send;
    send.at = time(path + ".at_ns", in.at_ns());
    sim::PacketPlan& packet = send.packet;
    packet.at = node(path + ".from", in.from());
    packet.length = in.has_bytes() ? in.bytes() : 64;
    within(path + ".bytes", packet.length,
           in.echo() ? kLeastEcho : static_cast<std::uint32_t>(network::kMinPacket),
           sim::own_room(out_.plan.nodes[packet.at]));
    packet.bad_crc = in.bad_crc();
    network::Header& header = packet.header;
    header.proto =
        static_cast<std::uint8_t>(in.echo() ? network::Proto::kEcho : network::Proto::kDatagram);
    header.packet_class = number<std::uint8_t>(path + ".packet_class", in.packet_class(), 0, 15);
    header.dst = NodeId(number<std::uint16_t>(path + ".to_id", in.to_id(), 1, 65'534));
    if (packet.bad_crc && header.dst == sim::node_id(packet.at)) {
      refuse(path + ".bad_crc",
             "a packet to its own node passes no link that looks at its CRC; "
             "leave it out, or send to another node");
    }
    header.src = sim::node_id(packet.at);
    if (in.has_from_id()) {
      header.src = NodeId(number<std::uint16_t>(path + ".from_id", in.from_id(), 1, 65'534));
    }
    header.entropy = number<std::uint16_t>(path + ".entropy", in.entropy(), 0, kMaxEntropy);
    if (in.has_hop_limit()) {
      header.hop_limit = number<std::uint8_t>(path + ".hop_limit", in.hop_limit(), 0, 255);
    }
    header.partition = sim::kGoodPartition;
    if (in.has_partition()) {
      header.partition =
          Partition(number<std::uint16_t>(path + ".partition", in.partition(), 0, 65'535));
    }
    out_.sends.push_back(send);
  }

  phy::ImpairmentConfig impairment(const pb::Impairment& in, const std::string& path) const {
    phy::ImpairmentConfig config;
    config.drop_ppm = in.drop_ppm();
    config.corrupt_header_ppm = in.corrupt_header_ppm();
    config.corrupt_packet_ppm = in.corrupt_packet_ppm();
    config.duplicate_ppm = in.duplicate_ppm();
    config.reorder_ppm = in.reorder_ppm();
    config.delay = duration(path + ".delay_ns", in.delay_ns());
    config.jitter = duration(path + ".jitter_ns", in.jitter_ns());
    if (in.reorder_delay_ns() != 0) {
      config.reorder_delay = duration(path + ".reorder_delay_ns", in.reorder_delay_ns());
    }
    if (const char* fault = phy::fault(config)) refuse(path, fault);
    return config;
  }

  void read_end() {
    Time last = sim::last_planned(out_);  // but the faults, which may last until then
    for (int i = 0; i < in_.faults_size(); ++i) {
      const auto& fault = in_.faults(i);
      const std::string path = item("faults", i);
      Time end = time(path + ".at_ns", fault.at_ns());
      if (fault.has_lasts_ns()) end += duration(path + ".lasts_ns", fault.lasts_ns());
      last = std::max(last, end);
    }
    out_.faults_end = in_.has_faults_end_ns() ? time("faults_end_ns", in_.faults_end_ns()) : last;
  }

  void read_fault(const pb::Fault& in, const std::string& path) {
    using What = sim::Fault::What;
    constexpr std::array kWhat{What::kCount, What::kImpair,  What::kLimit, What::kSilence,
                               What::kCut,   What::kDisable, What::kHalt};
    sim::Fault fault;
    fault.what = kWhat[static_cast<std::size_t>(in.what())];
    if (fault.what == What::kCount) {
      refuse(path + ".what", "is missing; it is IMPAIR, LIMIT, SILENCE, CUT, DISABLE or HALT");
    }
    fault.at = time(path + ".at_ns", in.at_ns());
    if (fault.at > out_.faults_end) {
      refuse(path + ".at_ns", fmt::format("{} is after faults_end_ns {}; begin it before",
                                          in.at_ns(), ns(out_.faults_end)));
    }
    fault.lasts = out_.faults_end - fault.at;
    if (in.has_lasts_ns()) {
      fault.lasts = std::min(fault.lasts, duration(path + ".lasts_ns", in.lasts_ns()));
    }
    const std::size_t wires = out_.plan.wires.size();
    if (in.wire() >= wires) {
      refuse(path + ".wire",
             fmt::format("there is no wire {}; wires are 0 to {}", in.wire(), wires - 1));
    }
    fault.wire = in.wire();
    fault.direction = number<std::uint32_t>(path + ".direction", in.direction(), 0, 1);
    fault.port = out_.plan.wires[fault.wire].ends[fault.direction];
    if (fault.what == What::kDisable || fault.what == What::kHalt) {
      fault.port.node = node(path + ".node", in.node());
      fault.port.port = port(path + ".port", fault.port.node, in.port());
    }
    if (fault.what == What::kDisable) find_wire(fault);
    fault.carrier = in.carrier();
    fault.late = in.late();
    fault.impairment = impairment(in.impairment(), path + ".impairment");
    out_.faults.push_back(fault);
  }

  /// Sets wire and direction by the port.
  void find_wire(sim::Fault& fault) const {
    for (std::uint32_t w = 0; w < out_.plan.wires.size(); ++w) {
      for (std::uint32_t d = 0; d < 2; ++d) {
        if (out_.plan.wires[w].ends[d] != fault.port) continue;
        fault.wire = w;
        fault.direction = d;
      }
    }
  }

  void read_move(const pb::Move& in, const std::string& path) {
    sim::Move move;
    move.at = time(path + ".at_ns", in.at_ns());
    move.node = node(path + ".node", in.node());
    if (in.ports_size() == 0) refuse(path + ".ports", "there are none; name those that move");
    for (int i = 0; i < in.ports_size(); ++i) {
      const std::string where = item(path + ".ports", i);
      const PortId moved = port(where, move.node, in.ports(i));
      if (std::find(move.ports.begin(), move.ports.end(), moved) != move.ports.end()) {
        refuse(where, fmt::format("port {} stands here twice; keep one", moved.value()));
      }
      move.ports.push_back(moved);
    }
    move.to = shard(path + ".shard", move.node, in.shard());
    if (out_.plan.nodes[move.node].config.shards == 1) {
      refuse(path + ".node", fmt::format("node {} has one shard, so that no port can move; give it "
                                         "more (nodes[{}].shards)",
                                         move.node, move.node));
    }
    out_.moves.push_back(std::move(move));
  }

  void read_replacement(const pb::Replacement& in, const std::string& path) {
    sim::Replacement replacement;
    replacement.at = time(path + ".at_ns", in.at_ns());
    replacement.node = node(path + ".node", in.node());
    replacement.port = port(path + ".port", replacement.node, in.port());
    const network::NodeConfig& config = out_.plan.nodes[replacement.node].config;
    if (sim::trunk_of(config, replacement.port) != nullptr) {
      refuse(path + ".port", fmt::format("port {} is a lane of a trunk, and none of those is "
                                         "replaced; name another, or leave it out of the trunk",
                                         replacement.port.value()));
    }
    replacement.shard = shard(path + ".shard", replacement.node, in.shard());
    replacement.rest = duration(path + ".rest_ns", in.rest_ns());
    out_.replacements.push_back(replacement);
  }

  const control::Located<pb::Scenario>& file_;
  const pb::Scenario& in_;
  Schedule out_;
  link::Config default_link_;
};

// --- writing ---

void write(const link::Config& from, pb::Link& to) {
  to.set_mtu(from.mtu);
  to.set_cell(from.cell);
  to.set_window(from.window);
  to.set_send_window(from.send_window);
  for (const std::uint16_t cells : from.capacity) to.add_capacity(cells);
  to.set_mark_bytes(from.mark_bytes);
  const link::Timers& t = from.timers;
  pb::Timers& timers = *to.mutable_timers();
  timers.set_init_interval_ns(ns(t.init_interval));
  timers.set_keepalive_interval_ns(ns(t.keepalive_interval));
  timers.set_dead_interval_ns(ns(t.dead_interval));
  timers.set_ack_every(t.ack_every);
  timers.set_ack_delay_ns(ns(t.ack_delay));
  timers.set_replay_timeout_ns(ns(t.replay_timeout));
  timers.set_replay_limit(t.replay_limit);
  timers.set_nack_interval_ns(ns(t.nack_interval));
  timers.set_hold_down_ns(ns(t.hold_down));
  timers.set_adaptive(t.adaptive);
  timers.set_adaptive_min_ns(ns(t.adaptive_min));
  timers.set_adaptive_max_ns(ns(t.adaptive_max));
}

void write(const network::Route& from, pb::Route& to) {
  to.set_to(from.dst.value() - 1u);
  for (const network::Tier& tier : from.tiers) {
    auto& hops = *to.add_tiers()->mutable_hops();
    for (const network::NextHop& hop : tier) {
      auto& out = *hops.Add();
      out.set_port(hop.port.value());
      out.set_raise(hop.raise);
    }
  }
}

void write(const sim::NodePlan& from, pb::Node& to) {
  to.set_shards(static_cast<std::uint32_t>(from.config.shards));
  to.set_own_limit(from.config.own_limit);
  to.set_own_buffers(from.own_buffers);
  to.set_consume_later_ppm(from.consume_later_ppm);
  to.set_consume_delay_ns(ns(from.consume_delay));
  to.set_ring_delay_ns(ns(from.ring_delay));
  to.set_move_delay_ns(ns(from.move_delay));
  if (from.config.hop_choice == network::HopChoice::kShortestQueue) {
    to.set_hop_choice(mtlink::config::NodeConfig::SHORTEST_QUEUE);
  }
  for (const network::PortConfig& port : from.config.ports) {
    pb::Port& out = *to.add_ports();
    write(port.link, *out.mutable_link());
    out.set_shard(port.shard.value());
    out.set_edge(port.edge.has_value());
    out.set_knows_peer_mac(port.link.peer_mac.has_value());
    out.set_knows_peer_node(port.link.expect_node.has_value());
  }
  for (const network::TrunkConfig& trunk : from.config.trunks) {
    pb::Trunk& out = *to.add_trunks();
    for (const PortId lane : trunk.lanes) out.add_ports(lane.value());
    if (trunk.spread == network::Spread::kShortestQueue) {
      out.set_spread(mtlink::config::Trunk::SHORTEST_QUEUE);
    }
  }
  for (const network::Route& route : from.routes) write(route, *to.add_routes());
}

void write(const sim::WirePlan& from, pb::Wire& to) {
  for (std::size_t d = 0; d < 2; ++d) {
    pb::End& end = d == 0 ? *to.mutable_a() : *to.mutable_b();
    end.set_node(from.ends[d].node);
    end.set_port(from.ends[d].port.value());
  }
  to.set_delay_ns(ns(from.delay));
  if (!from.rate) return;
  to.set_bps(from.rate->bits_per_second);
  to.set_overhead(from.rate->overhead);
}

void write(const sim::Flow& from, pb::Flow& to) {
  to.set_from(from.from);
  to.set_to(from.to);
  to.set_packet_class(from.packet_class);
  to.set_entropy(from.entropy);
  to.set_bytes(from.length);
  to.set_echo(from.echo);
  to.set_count(from.count);
  to.set_bps(from.rate);
  to.set_start_ns(ns(from.start));
  if (from.end != kNever) to.set_end_ns(ns(from.end));
}

void write(const sim::Send& from, pb::Packet& to) {
  const sim::PacketPlan& packet = from.packet;
  const network::Header& header = packet.header;
  to.set_at_ns(ns(from.at));
  to.set_from(packet.at);
  to.set_to_id(header.dst.value());
  to.set_bytes(packet.length);
  to.set_packet_class(header.packet_class);
  to.set_entropy(header.entropy);
  to.set_echo(header.proto == static_cast<std::uint8_t>(network::Proto::kEcho));
  to.set_bad_crc(packet.bad_crc);
  if (header.hop_limit != network::kDefaultHopLimit) to.set_hop_limit(header.hop_limit);
  if (header.partition != sim::kGoodPartition) to.set_partition(header.partition.value());
  if (header.src != sim::node_id(packet.at)) to.set_from_id(header.src.value());
}

void write(const phy::ImpairmentConfig& from, pb::Impairment& to) {
  to.set_drop_ppm(from.drop_ppm);
  to.set_corrupt_header_ppm(from.corrupt_header_ppm);
  to.set_corrupt_packet_ppm(from.corrupt_packet_ppm);
  to.set_duplicate_ppm(from.duplicate_ppm);
  to.set_reorder_ppm(from.reorder_ppm);
  to.set_reorder_delay_ns(ns(from.reorder_delay));
  to.set_delay_ns(ns(from.delay));
  to.set_jitter_ns(ns(from.jitter));
}

void write(const sim::Fault& from, pb::Fault& to) {
  using What = sim::Fault::What;
  to.set_what(static_cast<pb::Fault::What>(static_cast<int>(from.what) + 1));
  to.set_at_ns(ns(from.at));
  to.set_lasts_ns(ns(from.lasts));
  to.set_carrier(from.carrier);
  to.set_late(from.late);
  if (from.what == What::kDisable || from.what == What::kHalt) {
    to.set_node(from.port.node);
    to.set_port(from.what == What::kDisable ? from.port.port.value() : 0u);
    return;
  }
  to.set_wire(from.wire);
  to.set_direction(from.direction);
  if (from.what == What::kImpair) write(from.impairment, *to.mutable_impairment());
}

pb::Scenario::Order order_of(sim::Order order) {
  switch (order) {
    case sim::Order::kAlways:
      return pb::Scenario::ALWAYS;
    case sim::Order::kNever:
      return pb::Scenario::NEVER;
    default:
      return pb::Scenario::UNCHANGED_PATHS;
  }
}

pb::Scenario message_of(const Schedule& from) {
  assert(from.traffic.packets.empty());
  pb::Scenario to;
  to.set_about(from.about);
  to.set_seed(from.seed);
  for (const auto& node : from.plan.nodes) write(node, *to.add_nodes());
  for (const auto& wire : from.plan.wires) write(wire, *to.add_wires());
  for (const auto& flow : from.flows) write(flow, *to.add_flows());
  for (const auto& send : from.sends) write(send, *to.add_packets());
  for (const auto& fault : from.faults) write(fault, *to.add_faults());
  for (const sim::Move& move : from.moves) {
    pb::Move& out = *to.add_moves();
    out.set_at_ns(ns(move.at));
    out.set_node(move.node);
    for (const PortId port : move.ports) out.add_ports(port.value());
    out.set_shard(move.to.value());
  }
  for (const sim::Replacement& replacement : from.replacements) {
    pb::Replacement& out = *to.add_replacements();
    out.set_at_ns(ns(replacement.at));
    out.set_node(replacement.node);
    out.set_port(replacement.port.value());
    out.set_shard(replacement.shard.value());
    out.set_rest_ns(ns(replacement.rest));
  }
  if (from.background.active()) write(from.background, *to.mutable_background());
  to.set_faults_end_ns(ns(from.faults_end));
  to.set_order(order_of(from.order));
  to.set_pause_ns(ns(from.pause));
  return to;
}

Result<Schedule> check(const Result<control::Located<pb::Scenario>>& read) {
  if (!read) return read.error();
  try {
    return Reader(*read).read();
  } catch (const Refusal& refusal) {
    return Error{refusal.message};
  }
}

}  // namespace

Result<Schedule> read_scenario(const std::filesystem::path& file) {
  return check(control::load<pb::Scenario>(file));
}

Result<Schedule> parse_scenario(std::string_view text, control::FileFormat format,
                                std::string name) {
  return check(control::parse<pb::Scenario>(text, format, std::move(name)));
}

std::string scenario_text(const Schedule& schedule, control::FileFormat format) {
  return control::to_text(message_of(schedule), format);
}

Result<Schedule> as_read(const Schedule& schedule) {
  return check(control::Located<pb::Scenario>{message_of(schedule), {}});
}

}  // namespace mtl::mtsim
