#include "switch/config/port_plan.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <tuple>
#include <utility>

#include "link/codec.h"
#include "switch/config/device_plan.h"
#include "switch/config/link_plan.h"
#include "switch/config/rate_plan.h"

namespace mtl::switchd {

using std::chrono::microseconds;

namespace {

constexpr std::uint32_t kMinRing = 65536;
constexpr std::uint32_t kMaxRing = 1U << 28;
constexpr std::uint32_t kRecordOverhead = 16;  // header of 8, and up to a multiple of 8
constexpr std::uint32_t kMinEtherType = 0x0600;
constexpr std::uint32_t kMillion = 1'000'000;
constexpr std::uint64_t kMaxDelayUs = 60'000'000;
/// Types that would take the host's own traffic for ours, and the tags that are taken off before.
constexpr std::array<std::uint32_t, 5> kForeignTypes{0x0800, 0x0806, 0x8100, 0x86DD, 0x88A8};

std::string in_quotes(const std::string& s) {
  return "\"" + s + "\"";
}

/// 02:4D (locally administered), node, port: the same after each start, and different in each port
/// whose device has none.
Mac own_mac(NodeId node, PortId port) {
  const auto high = [](std::uint16_t v) { return static_cast<std::byte>(v >> 8); };
  const auto low = [](std::uint16_t v) { return static_cast<std::byte>(v & 0xFF); };
  return {std::byte{0x02},   std::byte{0x4D},    high(node.value()),
          low(node.value()), high(port.value()), low(port.value())};
}

}  // namespace

phy::Share share_of(const link::Config& link, const PortPlan& plan) {
  return {plan.vlan, link.peer_mac};
}

phy::ImpairmentConfig read_impairment(const mtlink::config::Impairment& from,
                                      const std::string& path, Problems& problems) {
  const auto rate = [&](std::uint32_t value, const char* name) {
    problems.range(path + "." + name, value, 0, kMillion);
    return value;
  };
  const auto time = [&](std::uint64_t value, const char* name) {
    return microseconds(problems.range(path + "." + name, value, 0, kMaxDelayUs) ? value : 0);
  };
  phy::ImpairmentConfig out;
  out.drop_ppm = rate(from.drop_ppm(), "drop_ppm");
  out.corrupt_header_ppm = rate(from.corrupt_header_ppm(), "corrupt_header_ppm");
  out.corrupt_packet_ppm = rate(from.corrupt_packet_ppm(), "corrupt_packet_ppm");
  out.duplicate_ppm = rate(from.duplicate_ppm(), "duplicate_ppm");
  out.reorder_ppm = rate(from.reorder_ppm(), "reorder_ppm");
  if (from.reorder_delay_us() != 0) {
    out.reorder_delay = time(from.reorder_delay_us(), "reorder_delay_us");
  }
  out.delay = time(from.delay_us(), "delay_us");
  out.jitter = time(from.jitter_us(), "jitter_us");
  if (from.seed() != 0) out.seed = from.seed();
  return out;
}

Result<phy::ImpairmentConfig> plan_impairment(const mtlink::config::Impairment& impairment) {
  const control::Locations nowhere;
  Problems problems(nowhere);
  const auto out = read_impairment(impairment, "impairment", problems);
  if (!problems.none()) return problems.error();
  return out;
}

void PortPlanner::plan() {
  const std::size_t all = static_cast<std::size_t>(config_.ports_size()) +
                          static_cast<std::size_t>(config_.slots_size());
  if (all > kMaxPorts) {
    problems_.add("", "the node has " + std::to_string(all) + " ports and slots; at most " +
                          std::to_string(kMaxPorts));
    return;
  }
  for (int i = 0; i < config_.ports_size(); ++i) port(config_.ports(i), item("ports", i));
  for (int i = 0; i < config_.slots_size(); ++i) slot(config_.slots(i), item("slots", i));
  if (config_.ports().empty() && config_.slots().empty()) {
    problems_.add("", "the node has no ports and no slots; give at least one");
  }
  finish();
}

void PortPlanner::peer(const mtlink::config::Port& from, const std::string& path, Draft& draft) {
  if (from.has_peer_port() && problems_.range(path + ".peer_port", from.peer_port(), 0, 65534)) {
    draft.config.link.expect_port = PortId(static_cast<std::uint16_t>(from.peer_port()));
  }
  if (!from.has_peer_node() ||
      !problems_.range(path + ".peer_node", from.peer_node(), kMinNode, kMaxNode)) {
    return;
  }
  if (from.peer_node() == config_.node()) {
    problems_.add(path + ".peer_node", "is " + std::to_string(from.peer_node()) +
                                           ", this node itself; name the other end");
    return;
  }
  const NodeId node(static_cast<std::uint16_t>(from.peer_node()));
  draft.config.link.expect_node = node;
  peers_.push_back({{draft.plan.port, node}, path + ".peer_node"});
}

std::optional<Mac> PortPlanner::address(const std::string& text, const std::string& path) {
  Mac mac{};
  // Six times two hex digits, colons between.
  bool good = text.size() == 17;
  for (std::size_t i = 0; good && i < mac.size(); ++i) {
    unsigned value = 0;
    const char* const begin = text.data() + i * 3;
    const auto result = std::from_chars(begin, begin + 2, value, 16);
    good = result.ec == std::errc() && result.ptr == begin + 2 &&
           (i + 1 == mac.size() || begin[2] == ':');
    mac[i] = static_cast<std::byte>(value);
  }
  if (!good) {
    problems_.add(path,
                  "is " + in_quotes(text) + "; an Ethernet address looks like 02:00:00:00:00:01");
    return std::nullopt;
  }
  if ((mac[0] & std::byte{1}) != std::byte{0} || mac == Mac{}) {
    problems_.add(path,
                  "is " + text + ", which no single port can have (a group address, or zero)");
    return std::nullopt;
  }
  return mac;
}

void PortPlanner::addresses(const mtlink::config::Port& from, const std::string& path,
                            Draft& draft) {
  if (!from.mac().empty()) draft.plan.mac = address(from.mac(), path + ".mac");
  if (!from.peer_mac().empty()) {
    draft.config.link.peer_mac = address(from.peer_mac(), path + ".peer_mac");
  }
  if (draft.plan.mac && draft.plan.mac == draft.config.link.peer_mac) {
    problems_.add(path + ".peer_mac", "is our own mac; name the other end's");
  }
  if (!from.has_ether_type() ||
      !problems_.range(path + ".ether_type", from.ether_type(), kMinEtherType, 0xFFFF)) {
    return;
  }
  if (std::find(kForeignTypes.begin(), kForeignTypes.end(), from.ether_type()) !=
      kForeignTypes.end()) {
    problems_.add(path + ".ether_type",
                  "is " + std::to_string(from.ether_type()) +
                      ", which belongs to IPv4, ARP, IPv6 or a VLAN tag; leave "
                      "it out for 0x88B5");
    return;
  }
  draft.config.link.ether_type = static_cast<std::uint16_t>(from.ether_type());
}

std::vector<Partition> PortPlanner::partitions(
    const google::protobuf::RepeatedField<std::uint32_t>& from, const std::string& path) {
  std::vector<Partition> out;
  for (int i = 0; i < from.size(); ++i) {
    if (!problems_.range(item(path, i), from[i], 0, 65535)) continue;
    const Partition partition(static_cast<std::uint16_t>(from[i]));
    if (std::find(out.begin(), out.end(), partition) != out.end()) {
      problems_.add(item(path, i), "is " + std::to_string(from[i]) + ", which is listed already");
    }
    out.push_back(partition);
  }
  if (out.empty()) out.push_back(Partition(0));
  return out;
}

void PortPlanner::edge(const mtlink::config::Edge& from, const std::string& path, Draft& draft) {
  network::Edge edge;
  if (from.nodes().empty()) {
    problems_.add(path + ".nodes", "is empty: nobody could send; list the nodes behind the port");
  }
  for (int i = 0; i < from.nodes_size(); ++i) {
    const std::string at = path + "." + item("nodes", i);
    if (!problems_.range(at, from.nodes(i), kMinNode, kMaxNode)) continue;
    if (from.nodes(i) == config_.node()) {
      problems_.add(at, "is this node itself, which is not behind a port");
    }
    edge.nodes.push_back(NodeId(static_cast<std::uint16_t>(from.nodes(i))));
  }
  edge.partitions = partitions(from.partitions(), path + ".partitions");
  draft.config.edge = std::move(edge);
}

void PortPlanner::name(const std::string& given, const std::string& fallback,
                       const std::string& path, Draft& draft) {
  draft.plan.name = given.empty() ? fallback : given;
  if (!good_name(draft.plan.name)) {
    problems_.add(path + ".name", "is " + in_quotes(draft.plan.name) + "; " + kNameRule);
  }
  const auto [first, fresh] = names_.emplace(draft.plan.name, path);
  if (!fresh) {
    problems_.add(path + ".name", "is " + in_quotes(draft.plan.name) + ", which " + first->second +
                                      " has; names must differ");
  }
}

void PortPlanner::vlan(const mtlink::config::Port& from, const std::string& path, Draft& draft) {
  if (!from.has_vlan() || !problems_.range(path + ".vlan", from.vlan(), kMinVlan, kMaxVlan)) return;
  draft.plan.vlan = VlanId(static_cast<std::uint16_t>(from.vlan()));
}

void PortPlanner::worker(bool given, std::uint32_t index, const std::string& path, Draft& draft) {
  draft.worker_given = given;
  if (!given) return;
  if (index >= plan_.runtime.workers) {
    problems_.add(path + ".worker",
                  "is " + std::to_string(index) + ", but there are " +
                      std::to_string(plan_.runtime.workers) +
                      " worker(s), counted from 0; each entry of runtime.cpus makes one");
    return;
  }
  draft.config.shard = ShardId(static_cast<std::uint8_t>(index));
}

void PortPlanner::port(const mtlink::config::Port& from, const std::string& path) {
  Draft draft;
  draft.plan.port = PortId(static_cast<std::uint16_t>(from.port()));
  draft.plan.enabled = !from.has_enabled() || from.enabled();
  name(from.name(), "p" + std::to_string(from.port()), path, draft);
  const DeviceSource device{from, path, config_.defaults(), host_};
  const std::uint32_t frame = plan_device(device, problems_, draft.plan.device);
  peer(from, path, draft);
  addresses(from, path, draft);
  // What has no address of its own, or that of the host's side, gets one.
  if (!draft.plan.mac && needs_mac(draft.plan.device)) {
    draft.plan.mac = own_mac(plan_.node.node, draft.plan.port);
  }
  vlan(from, path, draft);
  if (from.has_edge()) edge(from.edge(), path + ".edge", draft);
  draft.plan.impairment = read_impairment(from.impairment(), path + ".impairment", problems_);
  worker(from.has_worker(), from.worker(), path, draft);
  const LinkSource source{from.link(), path + ".link", config_.defaults(),
                          path,        frame,          carrier_of(draft.plan.device)};
  plan_link(source, problems_, draft.config.link);
  if (auto* memif = std::get_if<MemifDevice>(&draft.plan.device)) {
    plan_memif_sizes(from.memif(), path + ".memif", draft.config.link.mtu, problems_, *memif);
    if (from.has_vlan()) {
      problems_.add(path + ".vlan", "has no place on memif, which has one peer; leave it out");
    }
  }
  if (from.has_rate()) {
    draft.plan.rate = plan_rate(from.rate(), path + ".rate", draft.config.link, problems_);
  }
  keep(from.port(), path, std::move(draft));
}

void PortPlanner::ring_bytes(const mtlink::config::Slot& from, const std::string& path,
                             Draft& draft) {
  auto& device = std::get<SlotDevice>(draft.plan.device);
  const std::uint32_t frame =
      draft.config.link.mtu + static_cast<std::uint32_t>(link::kFrameHeader);
  if (!from.has_ring_bytes()) return;
  if (!problems_.range(path + ".ring_bytes", from.ring_bytes(), kMinRing, kMaxRing)) return;
  if (!std::has_single_bit(from.ring_bytes())) {
    problems_.add(path + ".ring_bytes", "is " + std::to_string(from.ring_bytes()) +
                                            ", not a power of two; take " +
                                            std::to_string(std::bit_ceil(from.ring_bytes())));
    return;
  }
  const std::uint32_t least = 2 * (frame + kRecordOverhead);
  if (from.ring_bytes() < least) {
    problems_.add(path + ".ring_bytes",
                  "is " + std::to_string(from.ring_bytes()) +
                      ", too little for two longest frames of " + std::to_string(frame) +
                      " bytes; take " + std::to_string(std::bit_ceil(least)) + ", or lower mtu");
    return;
  }
  device.ring_bytes = from.ring_bytes();
}

void PortPlanner::slot(const mtlink::config::Slot& from, const std::string& path) {
  Draft draft;
  draft.plan.port = PortId(static_cast<std::uint16_t>(from.port()));
  name(from.name(), "slot" + std::to_string(from.port()), path, draft);
  if (from.node() == 0) {
    problems_.add(path + ".node", "is missing; give the endpoint's node id, 1..65534");
  } else if (from.node() == config_.node()) {
    problems_.add(path + ".node", "is " + std::to_string(from.node()) +
                                      ", this node itself; an endpoint has an id of its own");
  } else if (problems_.range(path + ".node", from.node(), kMinNode, kMaxNode)) {
    const auto [first, fresh] = slot_nodes_.emplace(from.node(), path);
    if (!fresh) {
      problems_.add(path + ".node", "is " + std::to_string(from.node()) + ", which " +
                                        first->second +
                                        " has; each slot's endpoint has an id of its own");
    }
  }
  const NodeId node(static_cast<std::uint16_t>(from.node()));
  const auto allowed = partitions(from.partitions(), path + ".partitions");
  draft.plan.device = SlotDevice{node, allowed};
  draft.plan.mac = own_mac(plan_.node.node, draft.plan.port);
  // A slot is where the fabric ends: its process is nobody else, whatever it writes (N5).
  draft.config.edge = network::Edge{{node}, allowed};
  draft.config.link.expect_node = node;
  peers_.push_back({{draft.plan.port, node}, path + ".node"});
  draft.plan.impairment = read_impairment(from.impairment(), path + ".impairment", problems_);
  worker(from.has_worker(), from.worker(), path, draft);
  const LinkSource source{from.link(),
                          path + ".link",
                          config_.defaults(),
                          path,
                          kMaxMtu + static_cast<std::uint32_t>(link::kFrameHeader),
                          "the slot"};
  plan_link(source, problems_, draft.config.link);
  if (from.has_rate()) {
    draft.plan.rate = plan_rate(from.rate(), path + ".rate", draft.config.link, problems_);
  }
  ring_bytes(from, path, draft);
  keep(from.port(), path, std::move(draft));
}

void PortPlanner::keep(std::uint32_t number, const std::string& path, Draft draft) {
  if (!problems_.range(path + ".port", number, 0, kMaxPorts - 1)) return;
  const auto [first, fresh] = numbers_.emplace(number, path);
  if (!fresh) {
    problems_.add(path + ".port", "is " + std::to_string(number) + ", which " + first->second +
                                      " has; number ports and slots differently, from 0");
    return;
  }
  draft.path = path;
  draft.plan.first_on_device = draft.plan.port;
  draft.plan.impairment_depth = BufferPlan::kImpairmentDepth;
  draft.config.link.node = plan_.node.node;
  draft.config.link.port = draft.plan.port;
  if (draft.plan.mac) draft.config.link.mac = *draft.plan.mac;
  drafts_.emplace(number, std::move(draft));
}

/// Of two ends alike a peer could reach only one.
void PortPlanner::memif_ends() {
  std::map<std::tuple<std::string, bool, std::uint32_t>, std::string> ends;
  for (const auto& [number, draft] : drafts_) {
    const auto* memif = std::get_if<MemifDevice>(&draft.plan.device);
    if (memif == nullptr || memif->socket.empty()) continue;
    const auto [first, fresh] =
        ends.emplace(std::tuple(memif->socket, memif->client, memif->id), draft.path);
    if (fresh) continue;
    problems_.add(draft.path + ".memif.id",
                  "is " + std::to_string(memif->id) + ", as that of " + first->second +
                      ", which has the same socket and role; give each an id of its own");
  }
}

void PortPlanner::share_devices() {
  std::map<std::string, std::vector<Draft*>> by_device;
  for (auto& [number, draft] : drafts_) {
    const std::string device = shared_name(draft.plan.device);
    if (device.empty()) continue;
    std::vector<Draft*>& others = by_device[device];
    for (const Draft* other : others) {
      if (!share_of(draft.config.link, draft.plan).meets(share_of(other->config.link, other->plan)))
        continue;
      problems_.add(draft.path, "is on " + device + ", as " + other->path +
                                    " is, and nothing tells their frames apart; give each a vlan "
                                    "of its own, or both the peer_mac of their peers (P3)");
      break;
    }
    if (!others.empty()) share(*others.front(), draft);
    others.push_back(&draft);
  }
}

/// What belongs to the device is the same for all ports on it: the first one says it.
void PortPlanner::share(Draft& first, Draft& draft) {
  draft.plan.first_on_device = first.plan.port;
  const auto differs = [&](const std::string& field, const std::string& remedy) {
    problems_.add(draft.path + field, "differs from that of " + first.path +
                                          ", which is on the same device; " + remedy);
  };
  if (draft.config.link.ether_type != first.config.link.ether_type) {
    differs(".ether_type", "they must agree");
  }
  if (draft.plan.device.index() != first.plan.device.index()) {
    differs("", "the kind of device must be the same, too");
  } else if (rings(draft.plan.device) != rings(first.plan.device)) {
    differs("." + std::string(kind_of(draft.plan.device)) + ".frames",
            "the interface has one pair of rings: give both the same");
  }
  if (draft.worker_given && !first.worker_given) {
    first.worker_given = true;
    first.config.shard = draft.config.shard;
  } else if (draft.worker_given && first.config.shard != draft.config.shard) {
    differs(".worker", "a device has one worker: give both the same");
  }
}

void PortPlanner::give_workers() {
  std::size_t turn = 0;
  for (auto& [number, draft] : drafts_) {
    if (draft.worker_given) continue;
    const auto first = drafts_.find(draft.plan.first_on_device.value());
    draft.config.shard = &first->second != &draft
                             ? first->second.config.shard
                             : ShardId(static_cast<std::uint8_t>(turn++ % plan_.runtime.workers));
  }
}

/// Each ring has two ends.
void PortPlanner::join_rings() {
  std::map<std::string, std::vector<const Draft*>> ends;
  for (const auto& [number, draft] : drafts_) {
    const auto* ring = std::get_if<RingDevice>(&draft.plan.device);
    if (ring != nullptr && !ring->name.empty()) ends[ring->name].push_back(&draft);
  }
  for (const auto& [name, ports] : ends) {
    if (ports.size() == 2) continue;
    problems_.add(ports.back()->path + ".ring.name", "is " + in_quotes(name) + ", which " +
                                                         std::to_string(ports.size()) +
                                                         " port(s) name; a ring joins two");
  }
}

void PortPlanner::finish() {
  share_devices();
  join_rings();
  memif_ends();
  give_workers();
  for (auto& [number, draft] : drafts_) {
    add_numbers(plan_, number + 1);
    draft.plan.worker_given =
        draft.worker_given || drafts_.at(draft.plan.first_on_device.value()).worker_given;
    plan_.node.ports.back() = std::move(draft.config);
    plan_.ports.back() = std::move(draft.plan);
  }
}

void add_numbers(Plan& plan, std::size_t count) {
  while (plan.ports.size() < count) {
    PortPlan& port = plan.ports.emplace_back();
    port.port = PortId(static_cast<std::uint16_t>(plan.ports.size() - 1));
    port.first_on_device = port.first_of_worker_group = port.port;
    plan.node.ports.emplace_back().shard = kNoShard;
  }
}

std::size_t count(const std::vector<PortPlan>& ports) {
  return static_cast<std::size_t>(
      std::count_if(ports.begin(), ports.end(), [](const PortPlan& p) { return p.present(); }));
}

std::string numbers(const std::vector<PortPlan>& ports) {
  std::string out;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!ports[i].present()) continue;
    const std::size_t first = i;
    while (i + 1 < ports.size() && ports[i + 1].present()) ++i;
    out += (out.empty() ? "" : ", ") + std::to_string(first);
    if (i > first) out += ".." + std::to_string(i);
  }
  return out;
}

}  // namespace mtl::switchd
