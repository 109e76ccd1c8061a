#include "sim/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "link/codec.h"

namespace mtl::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kPsBits = 8'000'000'000'000;  // ps/byte to bits/s

Duration draw_duration(Random& random, Duration low, Duration high) {
  return Duration(static_cast<std::int64_t>(random.log_between(
      static_cast<std::uint64_t>(low.count()), static_cast<std::uint64_t>(high.count()))));
}

std::uint32_t draw32(Random& random, std::uint64_t low, std::uint64_t high) {
  return static_cast<std::uint32_t>(random.between(low, high));
}

std::uint32_t log32(Random& random, std::uint64_t low, std::uint64_t high) {
  return static_cast<std::uint32_t>(random.log_between(low, high));
}

std::uint16_t log16(Random& random, std::uint64_t low, std::uint64_t high) {
  return static_cast<std::uint16_t>(random.log_between(low, high));
}

Shape draw_shape(Kind kind, bool wraps, Random random) {
  const std::uint32_t lanes = wraps || random.chance(600'000) ? 1 : 2;
  switch (kind) {
    case Kind::kRing:
      return make_ring(draw32(random, 3, 6), lanes);
    case Kind::kLine:
      return make_line(draw32(random, 3, 6), lanes);
    case Kind::kStar:
      return make_star(draw32(random, 2, 6), lanes);
    case Kind::kMesh:
      return make_mesh(draw32(random, 2, 4), draw32(random, 1, 2), lanes);
    default:
      return make_pair(lanes == 1 ? 1 : draw32(random, 2, 4), random.chance(700'000));
  }
}

/// What all links of a run have in common, more or less.
struct Style {
  bool wraps = false;  ///< many small packets: sequence numbers and credits go round
  bool uniform = true;
  std::uint16_t mtu = 0;
  Duration delay{0};
  std::uint32_t ps_per_byte = 0;
  link::Timers timers;
};

link::Timers draw_timers(Random& random, Duration delay) {
  link::Timers t;
  t.init_interval = draw_duration(random, milliseconds(1), milliseconds(20));
  t.keepalive_interval = draw_duration(random, milliseconds(1), milliseconds(10));
  t.dead_interval = t.keepalive_interval * draw32(random, 3, 8);
  t.ack_every = log16(random, 1, 32);
  t.ack_delay = draw_duration(random, microseconds(5), microseconds(200));
  // L27: above twice the round trip.
  const Duration twice = 4 * delay + t.ack_delay;
  t.replay_timeout = twice + draw_duration(random, microseconds(20), milliseconds(2));
  t.nack_interval = twice + draw_duration(random, microseconds(20), milliseconds(1));
  t.replay_limit = log32(random, 2, 100);
  t.hold_down = draw_duration(random, milliseconds(1), milliseconds(50));
  t.adaptive = random.chance(250'000);
  t.adaptive_min = std::max<Duration>(twice, microseconds(100));
  t.adaptive_max = t.adaptive_min + milliseconds(5);
  return t;
}

Style draw_style(Kind kind, Random random) {
  Style style;
  // From where only one link leads away, so that all goes over that one.
  const bool can_wrap = kind == Kind::kPair || kind == Kind::kLine || kind == Kind::kStar;
  style.wraps = can_wrap && random.chance(5'000);
  constexpr std::uint16_t kMtus[] = {64, 100, 256, 1024, 1500, 4096, 9000};
  style.mtu = kMtus[style.wraps ? 0 : random.below(std::size(kMtus))];
  style.uniform = random.chance(800'000);
  style.delay = draw_duration(random, nanoseconds(50), microseconds(style.wraps ? 2 : 200));
  style.ps_per_byte = random.chance(500'000) ? 0 : log32(random, 20, 8000);
  style.timers = draw_timers(random, style.delay);
  return style;
}

void draw_link(link::Config& config, const Style& style, Random& random) {
  config.timers = style.timers;
  config.mtu = style.mtu;
  if (!style.uniform && random.chance(500'000)) {
    config.mtu = static_cast<std::uint16_t>(std::max(64, style.mtu / 2));
  }
  const std::uint32_t fewest = (config.mtu * link::kMinMtu) / 30'000 + 1;  // 8 VCs must fit L6
  config.cell = log16(random, fewest, style.wraps ? 4 : 512);
  config.window = log16(random, style.wraps ? 32 : 1, 256);
  config.send_window = log16(random, style.wraps ? 32 : 1, 256);
  const std::uint32_t least = link::CellSize(config.cell).cells(config.mtu);
  const std::uint64_t most = std::min<std::uint64_t>(least * 16u, link::kMaxCapacitySum / kVcs);
  for (std::uint16_t& capacity : config.capacity) {
    capacity = log16(random, std::min<std::uint64_t>(least, most), most);
  }
  if (!style.uniform && random.chance(100'000)) config.capacity[random.below(kVcs)] = 0;
  config.mark_bytes = random.chance(300'000) ? log32(random, 1, least * 2) * config.cell : 0;
}

NodePlan draw_node(const Shape& shape, std::uint32_t index, const Style& style, Random random) {
  const Shape::Node& node = shape.nodes[index];
  NodePlan plan;
  plan.endpoint = node.endpoint;
  plan.routes = node.routes;
  if (node.edge.size() > 1 && random.chance(400'000)) plan.config.shards = draw32(random, 2, 3);
  plan.config.own_limit = log32(random, style.wraps ? 32 : 1, 256);
  plan.own_buffers = draw32(random, 16, 128) + (style.wraps ? 128 : 0);
  if (!style.wraps && random.chance(500'000)) {
    plan.consume_later_ppm = log32(random, 1'000, 1'000'000);
    plan.consume_delay = draw_duration(random, microseconds(1), milliseconds(2));
  }
  if (random.chance(700'000)) plan.ring_delay = draw_duration(random, Duration(1), microseconds(5));
  for (std::uint32_t i = 0; i < node.edge.size(); ++i) {
    network::PortConfig port;
    port.shard = ShardId(static_cast<std::uint8_t>(random.below(plan.config.shards)));
    draw_link(port.link, style, random);
    plan.config.ports.push_back(std::move(port));
  }
  return plan;
}

void add_wires(Schedule& draw, const Shape& shape, const Style& style, Random random) {
  for (const auto& ends : shape.wires) {
    WirePlan wire;
    wire.ends = ends;
    wire.delay = style.delay;
    if (style.ps_per_byte > 0) wire.rate = phy::PacerConfig{kPsBits / style.ps_per_byte, 0};
    draw.plan.wires.push_back(wire);
    for (std::size_t d = 0; d < 2; ++d) {
      const PortRef at = ends[d];
      network::PortConfig& port = draw.plan.nodes[at.node].config.ports[at.port.value()];
      if (shape.nodes[at.node].edge[at.port.value()]) port.edge.emplace();
      if (random.chance(300'000)) port.link.peer_mac.emplace();
      if (random.chance(300'000)) port.link.expect_node.emplace();
    }
  }
  assign_addresses(draw.plan);
}

bool all_alike(const network::Tier& tier, const network::NextHop& hop) {
  return std::count(tier.begin(), tier.end(), hop) == static_cast<std::ptrdiff_t>(tier.size());
}

/// Whether some tier of the node has hops to choose from.
bool chooses(const NodePlan& node) {
  for (const network::Route& route : node.routes) {
    for (const network::Tier& tier : route.tiers) {
      if (!all_alike(tier, tier.front())) return true;
    }
  }
  return false;
}

/// Whether each destination is reached by one hop or not at all.
bool has_one_way(const NodePlan& node) {
  for (const network::Route& route : node.routes) {
    for (const network::Tier& tier : route.tiers) {
      if (!all_alike(tier, route.tiers.front().front())) return false;
    }
  }
  return true;
}

/// Makes trunks of the lanes to a neighbour: of all, so that a flow has one way alone, or of some.
/// Both ends do, or neither: behind lanes of several shards a packet that has moved to another lane
/// may overtake (docs/configuration.md). Nodes choose by the shortest queue here and there.
void draw_trunks(Schedule& draw, Random random) {
  const bool all = random.chance(500'000);
  bool by_queue = false;
  bool one_way = true;
  std::set<std::pair<std::uint32_t, std::uint32_t>> joined;
  for (std::uint32_t n = 0; n < draw.plan.nodes.size(); ++n) {
    NodePlan& node = draw.plan.nodes[n];
    std::map<std::uint32_t, network::TrunkConfig> by_peer;
    for (const WirePlan& wire : draw.plan.wires) {
      for (std::size_t d = 0; d < 2; ++d) {
        if (wire.ends[d].node != n) continue;
        by_peer[wire.ends[1 - d].node].lanes.push_back(wire.ends[d].port);
      }
    }
    for (auto& [peer, trunk] : by_peer) {
      if (trunk.lanes.size() < network::Trunk::kMinLanes) continue;
      if (peer > n && (all || !random.chance(500'000))) joined.insert({n, peer});
      if (!joined.contains(std::minmax(n, peer))) continue;
      if (random.chance(500'000)) trunk.spread = network::Spread::kShortestQueue;
      for (const PortId lane : trunk.lanes) {
        node.config.ports[lane.value()].shard =
            node.config.ports[trunk.lanes.front().value()].shard;
      }
      node.config.trunks.push_back(std::move(trunk));
    }
    network::name_leaders(node.config.trunks, node.routes);
    const bool shortest = random.chance(200'000);
    if (shortest) node.config.hop_choice = network::HopChoice::kShortestQueue;
    by_queue = by_queue || (shortest && chooses(node));
    one_way = one_way && has_one_way(node);
  }
  draw.order = one_way ? Order::kAlways : by_queue ? Order::kNever : Order::kUnchangedPaths;
}

phy::ImpairmentConfig draw_impairment(Random& random, Duration delay) {
  phy::ImpairmentConfig config;
  const auto rate = [&](std::uint32_t often) {
    return random.chance(often) ? log32(random, 100, 100'000) : 0u;
  };
  config.drop_ppm = rate(700'000);
  config.corrupt_header_ppm = rate(300'000);
  config.corrupt_packet_ppm = rate(400'000);
  config.duplicate_ppm = rate(300'000);
  config.reorder_ppm = rate(300'000);
  config.reorder_delay = draw_duration(random, Duration(100), microseconds(300));
  if (random.chance(200'000)) config.jitter = delay;
  return config;
}

Fault draw_fault(const Schedule& draw, const Style& style, Random& random) {
  Fault fault;
  constexpr Fault::What kOften[] = {
      Fault::What::kImpair,  Fault::What::kCut,     Fault::What::kCut, Fault::What::kLimit,
      Fault::What::kSilence, Fault::What::kDisable, Fault::What::kHalt};
  fault.what = kOften[random.below(std::size(kOften))];
  const auto end = static_cast<std::uint64_t>(nanos(draw.faults_end));
  fault.at = Time(Duration(static_cast<std::int64_t>(random.below(end))));
  fault.lasts = draw_duration(random, microseconds(1), 3 * style.timers.dead_interval);
  fault.wire = draw32(random, 0, draw.plan.wires.size() - 1);
  fault.direction = draw32(random, 0, 1);
  fault.port = draw.plan.wires[fault.wire].ends[fault.direction];
  fault.carrier = random.chance(500'000);
  fault.late = random.chance(600'000);
  fault.impairment = draw_impairment(random, style.delay);
  return fault;
}

void draw_traffic(Schedule& draw, Kind kind, const Style& style, Random random) {
  Traffic& traffic = draw.traffic;
  const bool pair = kind == Kind::kPair;
  for (const NodePlan& node : draw.plan.nodes) {
    std::uint32_t packets = node.endpoint ? log32(random, 16, pair ? 400 : 160) : 0;
    if (style.wraps) {
      const bool first = std::all_of(traffic.packets.begin(), traffic.packets.end(),
                                     [](std::uint32_t n) { return n == 0; });
      packets = !node.endpoint ? 0 : first ? 67'000 : 50;
    }
    traffic.packets.push_back(packets);
  }
  std::uint32_t fits = style.mtu;
  for (const NodePlan& node : draw.plan.nodes) {
    for (const network::PortConfig& port : node.config.ports) {
      fits = std::min<std::uint32_t>(fits, port.link.mtu);
    }
  }
  traffic.longest = fits;
  traffic.burst = log32(random, 1, 16);
  const std::int64_t bursts = 100 / traffic.burst + 1;
  traffic.gap = style.wraps ? nanoseconds(300)
                            : std::max<Duration>(nanoseconds(200),
                                                 draw.faults_end.time_since_epoch() / bursts);
  if (!style.wraps && random.chance(300'000)) traffic.gap = nanoseconds(500);
  const Duration latest =
      std::min<Duration>(2 * style.timers.init_interval, draw.faults_end.time_since_epoch() / 4);
  traffic.start = Time(Duration(
      static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(latest.count())))));
}

void draw_faults(Schedule& draw, const Style& style, Random random) {
  // Short ones are dense: much is on the wires when a fault comes.
  draw.faults_end =
      Time(random.chance(500'000) ? draw_duration(random, microseconds(300), milliseconds(3))
                                  : draw_duration(random, milliseconds(3), milliseconds(150)));
  if (random.chance(600'000)) draw.background = draw_impairment(random, style.delay);
  if (style.wraps) {  // a session must live long for its numbers to go round
    draw.background.drop_ppm = std::min(draw.background.drop_ppm, 5'000u);
    draw.background.corrupt_header_ppm = std::min(draw.background.corrupt_header_ppm, 1'000u);
    return;
  }
  const std::uint64_t count = random.chance(300'000) ? 0 : random.between(1, 6);
  for (std::uint64_t i = 0; i < count; ++i) {
    draw.faults.push_back(draw_fault(draw, style, random));
    // What began before the end ends with it.
    Fault& fault = draw.faults.back();
    fault.lasts = std::min(fault.lasts, draw.faults_end - fault.at);
  }
  draw.traffic.beyond_ppm = random.chance(200'000) ? 10'000 : 0;
  draw.traffic.odd_ppm = random.chance(300'000) ? 30'000 : 0;
  draw.traffic.bad_crc_ppm = random.chance(300'000) ? 10'000 : 0;
}

void draw_replacements(Schedule& draw, Random random) {
  const auto end = static_cast<std::uint64_t>(nanos(draw.faults_end));
  for (std::uint32_t n = 0; n < draw.plan.nodes.size(); ++n) {
    const network::NodeConfig& node = draw.plan.nodes[n].config;
    if (random.chance(600'000)) continue;
    const std::uint64_t count = random.log_between(1, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      Replacement replacement;
      replacement.at = Time(Duration(static_cast<std::int64_t>(random.below(end))));
      replacement.node = n;
      replacement.port = PortId(static_cast<std::uint16_t>(random.below(node.ports.size())));
      replacement.shard = ShardId(static_cast<std::uint8_t>(random.below(node.shards)));
      replacement.rest = draw_duration(random, Duration(1), milliseconds(50));
      // Of a trunk nothing is replaced.
      if (trunk_of(node, replacement.port) == nullptr) draw.replacements.push_back(replacement);
    }
  }
}

void draw_moves(Schedule& draw, Random random) {
  const auto end = static_cast<std::uint64_t>(nanos(draw.faults_end));
  for (std::uint32_t n = 0; n < draw.plan.nodes.size(); ++n) {
    NodePlan& node = draw.plan.nodes[n];
    if (node.config.shards == 1 || random.chance(300'000)) continue;
    // Rings are slow against the steps of a move: what is in them must not be overtaken.
    node.ring_delay = draw_duration(random, Duration(1), microseconds(50));
    if (random.chance(500'000)) {
      node.move_delay = draw_duration(random, Duration(1), microseconds(200));
    }
    const std::uint64_t count = random.log_between(1, 16);
    for (std::uint64_t i = 0; i < count; ++i) {
      Move move;
      move.at = Time(Duration(static_cast<std::int64_t>(random.below(end))));
      move.node = n;
      move.to = ShardId(static_cast<std::uint8_t>(random.below(node.config.shards)));
      const std::uint64_t ports = node.config.ports.size();
      move.ports.push_back(PortId(static_cast<std::uint16_t>(random.below(ports))));
      const PortId other(static_cast<std::uint16_t>(random.below(ports)));
      if (random.chance(300'000) && other != move.ports.front()) move.ports.push_back(other);
      draw.moves.push_back(std::move(move));
    }
  }
}

}  // namespace

Schedule draw_run(Kind kind, std::uint64_t number, bool faults) {
  const Random seed(number);
  Schedule draw;
  draw.seed = number;
  const Style style = draw_style(kind, seed.stream("style"));
  const Shape shape = draw_shape(kind, style.wraps, seed.stream("shape"));
  for (std::uint32_t i = 0; i < shape.nodes.size(); ++i) {
    draw.plan.nodes.push_back(draw_node(shape, i, style, seed.stream("plan", i)));
  }
  add_wires(draw, shape, style, seed.stream("wires"));
  draw_trunks(draw, seed.stream("trunks"));
  draw.faults_end = Time(milliseconds(5));
  if (faults) draw_faults(draw, style, seed.stream("faults"));
  draw_moves(draw, seed.stream("moves"));
  draw_replacements(draw, seed.stream("replacements"));
  draw_traffic(draw, kind, style, seed.stream("traffic"));
  Random random = seed.stream("rest");
  draw.traffic.echo_ppm = random.chance(300'000) ? 50'000 : 0;
  if (!style.wraps && random.chance(300'000)) draw.pause = 20 * draw.traffic.gap;
  draw.about = fmt::format("{}: {} nodes, {} wires, mtu {}, delay {} ns, {} ps/byte, {} faults{}{}",
                           name(kind), draw.plan.nodes.size(), draw.plan.wires.size(), style.mtu,
                           style.delay.count(), style.ps_per_byte, draw.faults.size(),
                           style.uniform ? "" : ", mixed", style.wraps ? ", wraps" : "");
  return draw;
}

}  // namespace mtl::sim
