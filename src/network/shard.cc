#include <algorithm>
#include <cstring>

#include "base/byte_order.h"
#include "network/node.h"

namespace mtl::network {
namespace {

constexpr std::size_t kHopLimit = 0;  // offsets in the network header
constexpr std::size_t kFlags = 1;
constexpr std::size_t kClassProto = 2;
constexpr std::size_t kDst = 4;
constexpr std::size_t kSrc = 6;
constexpr std::size_t kPartition = 10;

std::uint8_t class_of(const Buffer& packet) {
  return static_cast<std::uint8_t>(load8(packet.data + kClassProto) >> 4);
}
NodeId dst_of(const Buffer& packet) {
  return NodeId{load16(packet.data + kDst)};
}
NodeId src_of(const Buffer& packet) {
  return NodeId{load16(packet.data + kSrc)};
}
Partition partition_of(const Buffer& packet) {
  return Partition{load16(packet.data + kPartition)};
}
constexpr Vc make_vc(std::uint8_t packet_class, std::uint8_t layer) {
  return Vc{static_cast<std::uint8_t>(packet_class * kLayers + layer)};
}

/// N11: an error is never about an echo of type 2, 3 or 4; the first byte of the payload tells.
bool no_error_about(const Buffer& packet) {
  const bool echo =
      (load8(packet.data + kClassProto) & 0x0F) == static_cast<std::uint8_t>(Proto::kEcho);
  if (!echo || packet.length <= kMinPacket) return false;
  const std::uint8_t type = load8(packet.data + kHeader);
  return type >= static_cast<std::uint8_t>(EchoType::kReply) &&
         type <= static_cast<std::uint8_t>(EchoType::kUnreachable);
}

/// An edge port mostly lists one.
template <class T>
bool listed(const std::vector<T>& sorted, T value) {
  if (!sorted.empty() && sorted.front() == value) return true;
  return sorted.size() > 1 && std::binary_search(sorted.begin(), sorted.end(), value);
}

/// Whether the partitions of a port (nullptr: no edge port) let the packet through, either way
/// (N5).
bool passes(const Edge* edge, const Buffer& packet) {
  return edge == nullptr || listed(edge->partitions, partition_of(packet));
}

}  // namespace

Shard::Shard(Node& node, ShardId id, BufferPool& pool, ShardOwner& owner)
    : node_(node),
      self_(node.config().node),
      id_(id),
      pool_(pool),
      owner_(owner),
      links_(node.config().ports.size()),
      by_queue_(node.config().hop_choice == HopChoice::kShortestQueue) {
  ports_.reserve(links_.size());
  for (const PortConfig& port : node.config().ports) {
    if (port.shard != id) continue;
    ports_.push_back(port.link.port);
    links_[port.link.port.value()] = make_link(port.link);
  }
}

Shard::~Shard() = default;

// ---- events ----

void Shard::enable(PortId port, Time now) {
  now_ = now;
  links_[port.value()]->enable(now);
}

void Shard::disable(PortId port, Time now) {
  now_ = now;
  links_[port.value()]->disable(now);
}

void Shard::set_carrier(PortId port, bool carrier, Time now) {
  now_ = now;
  links_[port.value()]->set_carrier(carrier, now);
}

void Shard::receive(PortId port, std::span<Buffer* const> frames, Time now) {
  now_ = now;
  links_[port.value()]->receive(frames, now);
}

bool Shard::expire(PortId port, Time now) {
  now_ = now;
  if (links_[port.value()]->expire(now)) return true;
  if (deadline_ <= now) find_deadline();
  return false;
}

bool Shard::expire(Time now) {
  if (now < deadline_) return false;
  now_ = now;
  if (std::any_of(ports_.begin(), ports_.end(),
                  [&](PortId port) { return links_[port.value()]->expire(now); })) {
    return true;
  }
  find_deadline();
  return false;
}

void Shard::find_deadline() {
  deadline_ = kNever;
  for (const PortId port : ports_) {
    deadline_ = std::min(deadline_, links_[port.value()]->next_deadline());
  }
}

bool Shard::next_frame(PortId port, Time now, link::FrameOut& out) {
  const bool made = links_[port.value()]->next_frame(now, out);
  if (made && out.packet != nullptr && tells_queue(*out.packet)) publish_queue(port);
  return made;
}

Submit Shard::submit(Buffer* packet, Time now) {
  now_ = now;
  packet->notes = {};
  packet->notes.home = id_;
  packet->notes.own = true;
  if (class_of(*packet) > kClassResponse) {  // N1
    counters_.made.add();
    drop(Drop::kWrongClass, packet);
  } else if (dst_of(*packet) == self_) {
    counters_.made.add();
    local(packet, kNoPort, make_vc(class_of(*packet), 0));
  } else {
    const NextHop* const hop = choose(*packet);
    if (hop && own_full(hop->port)) {  // N13
      counters_.refused.add();
      return Submit::kQueueFull;
    }
    counters_.made.add();
    send(packet, hop);
  }
  return Submit::kTaken;
}

void Shard::release(Buffer* packet, Time now) {
  now_ = now;
  finish(packet);
}

void Shard::from_shard(Buffer* packet, Time now) {
  now_ = now;
  if (packet->notes.returning) {
    packet->notes.returning = false;
    finish(packet);
    return;
  }
  counters_.passed_in.add();
  const PortId port = packet->notes.egress;
  const Vc vc = packet->notes.egress_vc;
  if (can_take(port, vc, *packet)) {
    queue(packet, port, vc);
  } else {
    route_again(packet);  // the link left UP while the packet was on its way here
  }
}

// ---- ports that come, go and move ----

std::unique_ptr<link::Link> Shard::make_link(const link::Config& config) {
  // make_unique cannot see the private base.
  return std::unique_ptr<link::Link>(new link::Link(config, *this));
}

bool Shard::settled(PortId port) const {
  const link::Link& link = *links_[port.value()];
  bool free = link.queued() == 0 && link.unacknowledged() == 0;
  for (std::uint8_t v = 0; v < kVcs; ++v) free = free && link.occupied(Vc(v)) == 0;
  return free;
}

std::unique_ptr<link::Link> Shard::take_link(PortId port) {
  std::unique_ptr<link::Link> link = std::move(links_[port.value()]);
  counters_.passed_out.add(std::uint64_t{link->queued()} + link->unacknowledged());
  ports_.erase(std::find(ports_.begin(), ports_.end(), port));
  find_deadline();
  return link;
}

void Shard::put_link(std::unique_ptr<link::Link> link, Time now) {
  now_ = now;
  const PortId port = link->config().port;
  counters_.passed_in.add(std::uint64_t{link->queued()} + link->unacknowledged());
  link->rebind(*this);
  links_[port.value()] = std::move(link);
  ports_.insert(std::upper_bound(ports_.begin(), ports_.end(), port), port);
  find_deadline();
}

std::uint64_t Shard::held() const {
  std::uint64_t n = 0;
  for (const PortId port : ports_) {
    const link::Link& link = *links_[port.value()];
    n += link.queued() + link.unacknowledged();
  }
  return n;
}

// ---- what links tell ----

[[gnu::flatten]] void Shard::packets_in(PortId port, std::span<Buffer* const> packets) {
  counters_.accepted.add(packets.size());
  const Edge* const edge = node_.edge(port);
  std::uint64_t forwarded = 0;
  for (Buffer* packet : packets) forwarded += packet_in(port, edge, packet);
  counters_.forwarded.add(forwarded);
}

/// `edge`: of the port. Whether the packet is forwarded.
bool Shard::packet_in(PortId port, const Edge* edge, Buffer* packet) {
  const Vc vc = packet->notes.ingress_vc;
  packet->notes.layer = vc.value() % kLayers;
  if (class_of(*packet) != vc.value() / kLayers) {  // N1
    drop(Drop::kWrongClass, packet);
    return false;
  }
  if (edge != nullptr && !listed(edge->nodes, src_of(*packet))) {  // the way in of N5
    drop(Drop::kSpoofed, packet);
    return false;
  }
  if (!passes(edge, *packet)) {
    drop(Drop::kWrongPartition, packet);
    return false;
  }
  if (dst_of(*packet) == self_) {  // N4
    local(packet, port, vc);
    return false;
  }
  const std::uint8_t hop_limit = load8(packet->data + kHopLimit);  // N6
  if (hop_limit <= 1) {
    drop_with_error(Drop::kHopLimitExceeded, EchoType::kHopLimitExceeded, packet);
    return false;
  }
  store8(packet->data + kHopLimit, static_cast<std::uint8_t>(hop_limit - 1));
  return send(packet, choose(*packet));
}

[[gnu::flatten]] void Shard::packets_acked(PortId port, std::span<Buffer* const> packets) {
  if (Trunk* trunk = node_.place(port).trunk) {
    for (const Buffer* packet : packets) trunk->gone(packet->notes.bucket);
  }
  counters_.acked.add(packets.size());
  finish(packets);
}

void Shard::packet_back(PortId port, Buffer* packet) {
  if (Trunk* trunk = node_.place(port).trunk) trunk->gone(packet->notes.bucket);
  if (tells_queue(*packet)) publish_queue(port);
  route_again(packet);
}

void Shard::link_changed(PortId port) {
  publish_longest(port);
  owner_.link_changed(port);
}

void Shard::publish_longest(PortId port) {
  const link::Link& link = *links_[port.value()];
  Trunk::Longest longest{};
  for (std::uint8_t v = 0; v < kVcs && link.usable(); ++v) {
    // N7: ceil(length / cell) <= capacity, with at least one cell
    longest[v] = std::min<std::uint32_t>(
        link.link_mtu(), std::uint32_t{link.peer()->capacity[v]} * link.peer()->cell);
  }
  if (const LanePlace place = node_.place(port); place.trunk != nullptr) {
    place.trunk->set_lane(place.lane, link.usable(), longest);
    longest = place.trunk->longest();
    port = place.trunk->leader();
  }
  PortView& view = node_.board()[port];
  for (std::uint8_t v = 0; v < kVcs; ++v) {
    view.longest[v].store(longest[v], std::memory_order_relaxed);
  }
}

link::BringUp Shard::bring_up(PortId port, std::uint8_t last_epoch) {
  return owner_.bring_up(port, last_epoch);
}

// ---- routing ----

/// N7 and N8: the hop for a packet that has come on its notes' layer; nullptr: none.
const NextHop* Shard::choose(const Buffer& packet) const {
  if (table_ == nullptr) return nullptr;
  for (const auto tier : table_->tiers(dst_of(packet))) {
    if (const NextHop* const hop = choose_in(tier, packet)) return hop;
  }
  return nullptr;
}

/// The same within a tier, which mostly has one hop.
const NextHop* Shard::choose_in(std::span<const NextHop> tier, const Buffer& packet) const {
  if (tier.size() != 1) return choose_among(tier, packet);
  return is_usable(tier.front(), packet) ? &tier.front() : nullptr;
}

[[gnu::noinline]] const NextHop* Shard::choose_among(std::span<const NextHop> tier,
                                                     const Buffer& packet) const {
  std::array<const NextHop*, RouteTable::kMaxHops> usable;
  std::uint32_t n = 0;
  for (const NextHop& hop : tier) {
    if (is_usable(hop, packet)) usable[n++] = &hop;
  }
  if (n == 0) return nullptr;
  if (n > 1 && by_queue_) n = keep_shortest({usable.data(), n});
  return usable[n == 1 ? 0 : pick(path_hash(packet.bytes(), self_), n)];
}

/// N1: the VC on which a packet leaves by a hop of a layer below kLayers.
Vc Shard::vc_by(const NextHop& hop, const Buffer& packet) {
  return make_vc(class_of(packet), static_cast<std::uint8_t>(packet.notes.layer + hop.raise));
}

bool Shard::is_usable(const NextHop& hop, const Buffer& packet) const {
  return packet.notes.layer + hop.raise < kLayers && can_take(hop.port, vc_by(hop, packet), packet);
}

/// Whether the link is usable and its peer can take the packet (N7); of a trunk, whether every
/// usable lane's can. Of this shard's own ports it is exact.
bool Shard::can_take(PortId port, Vc vc, const Buffer& packet) const {
  const PortView& view = node_.board()[port];
  return view.longest[vc.value()].load(std::memory_order_relaxed) >= packet.length;
}

/// N8 by the shortest queue: moves the hops with the fewest bytes queued to the front, and tells
/// how many they are.
[[gnu::noinline]] std::uint32_t Shard::keep_shortest(std::span<const NextHop*> usable) const {
  std::uint64_t least = ~std::uint64_t{0};
  std::uint32_t kept = 0;
  for (const NextHop* hop : usable) {
    const auto bytes = node_.board()[hop->port].queued_bytes.load(std::memory_order_relaxed);
    if (bytes > least) continue;
    if (bytes < least) kept = 0;
    least = bytes;
    usable[kept++] = hop;
  }
  return kept;
}

/// The way out of N5, and the queue; false: dropped. `hop`: as choose() says.
bool Shard::send(Buffer* packet, const NextHop* hop) {
  if (hop == nullptr) {
    drop_with_error(Drop::kNoRoute, EchoType::kUnreachable, packet);
    return false;
  }
  if (!passes(node_.edge(hop->port), *packet)) {
    drop(Drop::kWrongPartition, packet);
    return false;
  }
  queue(packet, hop->port, vc_by(*hop, *packet));
  return true;
}

void Shard::queue(Buffer* packet, PortId hop, Vc vc) {
  packet->notes.egress = hop;
  packet->notes.egress_vc = vc;
  if (links_[hop.value()] == nullptr) {
    counters_.passed_out.add();
    owner_.pass(node_.owner(hop), packet);
    return;
  }
  Trunk* const trunk = node_.place(hop).trunk;
  const PortId port = trunk == nullptr ? hop : take_lane(*trunk, *packet);
  link::Link* link = links_[port.value()].get();
  if (link->queued_cells(vc) > link->mark_cells() &&
      packet->pool->exclusive(*packet)) {  // N12; a device may still read a packet handed back
    packet->data[kFlags] |= std::byte{kFlagCe};
    counters_.marked.add();
    link->count_marked(vc);
  }
  link->submit(packet, now_);
  if (tells_queue(*packet)) publish_queue(port);
}

/// The lane of a trunk for a packet.
[[gnu::noinline]] PortId Shard::take_lane(Trunk& trunk, Buffer& packet) {
  packet.notes.bucket = Trunk::bucket_of(path_hash(packet.bytes(), self_));
  return trunk.take(packet.notes.bucket, *this);
}

/// N9, and what comes too late from another shard.
void Shard::route_again(Buffer* packet) {
  if (send(packet, choose(*packet))) counters_.rerouted.add();
}

bool Shard::own_full(PortId port) const {
  return node_.board()[port].queued_own.load(std::memory_order_relaxed) >= node_.config().own_limit;
}

[[gnu::noinline]] void Shard::publish_queue(PortId port) {
  std::uint32_t own = links_[port.value()]->queued_own();
  std::uint64_t bytes = links_[port.value()]->queued_bytes();
  if (const Trunk* trunk = node_.place(port).trunk) {
    port = trunk->leader();
    own = 0;
    bytes = 0;
    for (const Trunk::Lane& lane : trunk->lanes()) {
      own += links_[lane.port.value()]->queued_own();
      bytes += links_[lane.port.value()]->queued_bytes();
    }
    bytes /= std::max<std::size_t>(trunk->usable_lanes(), 1);
  }
  PortView& view = node_.board()[port];
  view.queued_own.store(own, std::memory_order_relaxed);
  if (by_queue_) view.queued_bytes.store(bytes, std::memory_order_relaxed);
}

// ---- packets for this node, and of it ----

[[gnu::noinline]] void Shard::local(Buffer* packet, PortId port, Vc vc) {
  counters_.delivered.add();
  const auto echo = decode_echo(packet->bytes());
  const bool request = echo && echo->type == static_cast<std::uint8_t>(EchoType::kRequest) &&
                       class_of(*packet) == kClassRequest;
  if (!request) {
    owner_.delivered(packet, port, vc);
    return;
  }
  owner_.answered(*packet, port, vc);
  reply(packet);
}

/// N11: the reply takes over the request's buffer, and with it the request's cells.
void Shard::reply(Buffer* packet) {
  Header header = decode(packet->bytes());
  std::swap(header.dst, header.src);
  header.packet_class = kClassResponse;
  header.hop_limit = node_.config().hop_limit;
  header.flags = 0;
  Echo echo = *decode_echo(packet->bytes());
  echo.type = static_cast<std::uint8_t>(EchoType::kReply);
  encode(header, packet->data);
  encode(echo, packet->data + kHeader);
  seal(packet->bytes());
  packet->notes.own = true;
  counters_.replies.add();
  send_own(packet);
}

/// A reply or error: a packet of the node's, which nobody can be refused.
void Shard::send_own(Buffer* packet) {
  counters_.made.add();
  packet->notes.layer = 0;
  if (dst_of(*packet) == self_) {
    local(packet, kNoPort, make_vc(class_of(*packet), 0));
    return;
  }
  const NextHop* const hop = choose(*packet);
  if (hop && own_full(hop->port)) {
    drop(Drop::kOwnQueueFull, packet);  // N13
  } else {
    send(packet, hop);
  }
}

[[gnu::cold, gnu::noinline]] void Shard::drop(Drop reason, Buffer* packet) {
  counters_.drops.add(reason);
  finish(packet);
}

[[gnu::cold, gnu::noinline]] void Shard::drop_with_error(Drop reason, EchoType type,
                                                         Buffer* packet) {
  make_error(type, *packet);
  drop(reason, packet);
}

void Shard::make_error(EchoType type, const Buffer& dropped) {
  if (no_error_about(dropped)) return;
  if (src_of(dropped) == self_) {
    owner_.own_dropped(type, dropped);
    return;
  }
  if (!node_.take_error(now_)) return;
  Buffer* error = pool_.take();
  if (error == nullptr) {
    counters_.drops.add(Drop::kNoBuffer);
    return;
  }
  std::array<std::byte, kEchoHeader + kErrorData> payload;
  const auto data = std::min<std::size_t>(dropped.length, kErrorData);
  encode(Echo{static_cast<std::uint8_t>(type), 0, 0}, payload.data());
  std::memcpy(payload.data() + kEchoHeader, dropped.data, data);
  const Header about = decode(dropped.bytes());
  make_packet(*error,
              {.hop_limit = node_.config().hop_limit,
               .packet_class = kClassResponse,
               .proto = static_cast<std::uint8_t>(Proto::kEcho),
               .dst = about.src,
               .src = self_,
               .entropy = about.entropy,
               .partition = about.partition},
              {payload.data(), kEchoHeader + data});
  error->notes.home = id_;
  error->notes.own = true;
  counters_.errors.add();
  send_own(error);
}

/// Packets are done with: their cells are free (L20), their buffers go back to their pools. Those
/// in a row that came in on one port and VC at once.
void Shard::finish(std::span<Buffer* const> packets) {
  while (!packets.empty()) {
    const PacketNotes& first = packets.front()->notes;
    std::uint16_t cells = first.ingress_cells;
    std::size_t n = 1;
    for (; n < packets.size(); ++n) {
      const PacketNotes& notes = packets[n]->notes;
      if (notes.ingress != first.ingress || notes.ingress_vc != first.ingress_vc ||
          notes.home != first.home) {
        break;
      }
      cells = static_cast<std::uint16_t>(cells + notes.ingress_cells);
    }
    finish_alike(packets.first(n), cells);
    packets = packets.subspan(n);
  }
}

/// Those that came in on one port and VC, where they take `cells` in all, or are of one shard.
void Shard::finish_alike(std::span<Buffer* const> packets, std::uint16_t cells) {
  const PacketNotes& notes = packets.front()->notes;
  const PortId ingress = notes.ingress;
  link::Link* const link = ingress == kNoPort ? nullptr : links_[ingress.value()].get();
  if (link != nullptr) {
    link->release(notes.ingress_vc, cells, now_);
  } else if (ingress != kNoPort || notes.home != id_) {
    const ShardId to = ingress == kNoPort ? notes.home : node_.owner(ingress);
    for (Buffer* packet : packets) {
      packet->notes.returning = true;
      owner_.pass(to, packet);
    }
    return;
  }
  give_back(packets);
}

}  // namespace mtl::network
