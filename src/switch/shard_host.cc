#include "switch/shard_host.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/byte_order.h"

namespace mtl::switchd {
namespace {

/// Where an echo's data begins in a packet: network header and the 8 bytes of N11.
constexpr std::size_t kEchoData = network::kHeader + network::kEchoHeader;
/// What must be left of a dropped packet to tell which echo request it was.
constexpr std::size_t kDroppedHead = network::kHeader + network::kEchoHeader;

std::uint64_t changed(const phy::ImpairmentCounters& c) {
  return c.dropped.get() + c.header_corrupted.get() + c.packet_corrupted.get() +
         c.duplicated.get() + c.reordered.get();
}

}  // namespace

ShardHost::ShardHost(Config config, network::Node& node, BufferPool& pool,
                     const runtime::Clock& clock, TablePublisher& tables)
    : node_(node),
      pool_(pool),
      clock_(clock),
      tables_(tables),
      notify_(std::move(config.notify)),
      watches_(node.config().ports.size()),
      untold_(node.config().ports.size()),
      retired_(node.config().ports.size()),
      outlets_(node.config().shards),
      shard_(node, config.id, pool, *this),
      loop_(shard_, this),
      worker_(config.idle, loop_, clock, this) {
  worker_.on_done([this] {
    if (!notified_.exchange(true, std::memory_order_acq_rel) && notify_) notify_();
  });
}

ShardHost::~ShardHost() {
  while (!done_.empty()) give_back(done_.pop());
  while (!waiting_.empty()) give_back(waiting_.pop());
  for (Outlet& outlet : outlets_) {
    Buffer* buffer = nullptr;
    while (outlet.ring != nullptr && outlet.ring->pop(buffer)) give_back(buffer);
  }
}

void ShardHost::join(ShardHost& a, ShardHost& b, std::size_t buffers) {
  const auto lead = [buffers](ShardHost& from, ShardHost& to) {
    Outlet& outlet = from.outlets_[to.id().value()];
    outlet.ring = std::make_unique<runtime::BufferRing>(buffers);
    outlet.to = &to;
    to.loop_.add_ring(*outlet.ring);
  };
  lead(a, b);
  lead(b, a);
}

// --- the shard's calls ---

void ShardHost::pass(ShardId to, Buffer* buffer) {
  if (to == id()) {
    waiting_.push(buffer);
    return;
  }
  Outlet& outlet = outlets_[to.value()];
  // Holds: the ring has a place for every buffer that exists.
  [[maybe_unused]] const bool pushed = outlet.ring->push(buffer);
  assert(pushed);
  outlet.used = true;
}

link::BringUp ShardHost::bring_up(PortId, std::uint8_t last_epoch) {
  return random_.bring_up(last_epoch);
}

bool ShardHost::may_tell(PortWatch& watch, Time now) {
  if (now - watch.told_from >= std::chrono::seconds(1)) {
    watch.told_from = now;
    watch.told = 0;
  }
  return watch.told++ < kLinkEvents;
}

void ShardHost::link_changed(PortId port) {
  const link::Link& link = *shard_.link(port);
  PortWatch& watch = watches_[port.value()];
  const link::State before = std::exchange(watch.state, link.state());
  if (before == watch.state) return;
  // A link's change is rare: the clock may be read outside the pass's one reading.
  const Time now = clock_.now();
  if (watch.state == link::State::kUp) watch.last_up = now;
  if (before == link::State::kUp) {
    watch.last_down = now;
    settle_reroute();
    reroute_ = Reroute{port, now, shard_.counters().rerouted.get()};
  }
  if (!may_tell(watch, now)) {
    untold_[port.value()].add();
    return;
  }
  Event event;
  event.kind = Event::Kind::kLink;
  event.at = now;
  event.port = port;
  event.state = watch.state;
  event.before = before;
  event.reason = link.down_reason();
  if (link.peer()) {
    event.peer_node = link.peer()->node;
    event.peer_port = link.peer()->port;
  }
  tell(event, events_, events_lost_);
}

/// L9 hands everything back within the event in which the link leaves UP, and N9 routes it at once:
/// so the first look after that event sees whether anything was.
void ShardHost::settle_reroute() {
  if (!reroute_) return;
  if (shard_.counters().rerouted.get() != reroute_->rerouted) {
    const Duration took = clock_.now() - reroute_->since;
    watches_[reroute_->port.value()].reroute = std::max(took, Duration(1));
  }
  reroute_.reset();
}

void ShardHost::delivered(Buffer* packet, PortId, Vc) {
  tell_echo(*packet);
  // Datagrams to the switch itself have no consumer here: taken, counted by the shard, let go.
  done_.push(packet);  // not released here: Shard's calls do not nest
}

/// Replies, and errors about an echo request of this node's own, go to the control thread if it
/// waits for any: every node can send as many as its links carry.
void ShardHost::own_dropped(network::EchoType type, const Buffer& packet) {
  const std::optional<network::Echo> echo = network::decode_echo(packet.bytes());
  if (!echo || echo->type != static_cast<std::uint8_t>(network::EchoType::kRequest)) return;
  Event event;
  event.at = clock_.now();
  event.kind = Event::Kind::kEchoError;
  event.echo = type;
  event.from = node_.config().node;
  event.id = echo->id;
  event.number = echo->number;
  tell(event, echoes_, echoes_lost_);
}

void ShardHost::tell_echo(const Buffer& packet) {
  if (echoes_expected_.load(std::memory_order_relaxed) == 0) return;
  const std::optional<network::Echo> echo = network::decode_echo(packet.bytes());
  if (!echo) return;
  const network::Header header = network::decode(packet.bytes());
  Event event;
  event.at = clock_.now();
  event.from = header.src;
  event.echo = static_cast<network::EchoType>(echo->type);
  if (event.echo == network::EchoType::kReply) {
    event.kind = Event::Kind::kEchoReply;
    event.id = echo->id;
    event.number = echo->number;
    tell(event, echoes_, echoes_lost_);
    return;
  }
  if (event.echo != network::EchoType::kHopLimitExceeded &&
      event.echo != network::EchoType::kUnreachable) {
    return;
  }
  // The data is the start of what was dropped (N11): our request, if it is long enough to say so.
  // It came over the wire like everything else, so it is read within its bounds and matched later.
  if (packet.length < kEchoData + kDroppedHead + network::kCrc) return;
  const std::span<const std::byte> dropped =
      packet.bytes().subspan(kEchoData, packet.length - kEchoData - network::kCrc);
  const network::Header about = network::decode(dropped);
  const std::byte* const inner = dropped.data() + network::kHeader;
  if (about.src != node_.config().node ||
      about.proto != static_cast<std::uint8_t>(network::Proto::kEcho) ||
      load8(inner) != static_cast<std::uint8_t>(network::EchoType::kRequest)) {
    return;
  }
  event.kind = Event::Kind::kEchoError;
  event.id = load16(inner + 2);
  event.number = load16(inner + 4);
  tell(event, echoes_, echoes_lost_);
}

void ShardHost::tell(const Event& event, EventRing& ring, Counter& lost) {
  if (!ring.push(event)) lost.add();
  if (!notified_.exchange(true, std::memory_order_acq_rel) && notify_) notify_();
}

// --- the pass ---

bool ShardHost::work(Time now) {
  if (reroute_) settle_reroute();
  const bool busy = !done_.empty();
  while (!done_.empty()) shard_.release(done_.pop(), now);
  ring_others();
  return busy;
}

void ShardHost::ring_others() {
  for (Outlet& outlet : outlets_) {
    if (std::exchange(outlet.used, false)) outlet.to->worker_.ring();
  }
}

void ShardHost::enter() {
  // The shard holds no table while it says so: what it held may be freed from here on.
  shard_.set_table(nullptr);
  tables_.quiescent(id().value());
  shard_.set_table(tables_.load());
}

void ShardHost::rest() {
  ring_others();
  if (random_.low()) random_.top_up();
  shard_.set_table(nullptr);
  tables_.offline(id().value());
}

void ShardHost::awake() {
  tables_.online(id().value());
}

// --- commands ---

void ShardHost::detach(PortId port, Time now) {
  const phy::Port* medium = loop_.detach(port, now);
  if (medium != nullptr) watches_[port.value()].former.add(medium->counters());
}

std::unique_ptr<phy::Impairment> ShardHost::impair(PortId port,
                                                   std::unique_ptr<phy::Impairment> impairment,
                                                   Time now) {
  std::unique_ptr<phy::Impairment> former = loop_.set_impairment(port, std::move(impairment), now);
  if (former != nullptr) {
    watches_[port.value()].impaired += changed(former->counters());
    watches_[port.value()].impaired_dropped += former->counters().dropped.get();
  }
  return former;
}

void ShardHost::take(PortId port, MovingPort& out) {
  settle_reroute();
  out.port = loop_.take(port);
  out.watch = std::exchange(watches_[port.value()], {});
}

void ShardHost::put(std::span<MovingPort> ports, Time now) {
  for (MovingPort& moving : ports) {
    watches_[moving.port.link->config().port.value()] = moving.watch;
    loop_.put(std::move(moving.port), now);
  }
  for (std::uint32_t n = waiting_.size(); n > 0; --n) shard_.from_shard(waiting_.pop(), now);
}

void ShardHost::remove(PortId port, MovingPort& out) {
  take(port, out);
  removed_.add(out.port.link->counters(), out.watch.former);
  removed_.medium.drops[static_cast<std::size_t>(Drop::kImpaired)] += out.watch.impaired_dropped;
}

void ShardHost::disable_all(Time now) {
  for (const PortId port : shard_.ports()) {
    shard_.disable(port, now);
    // Nothing but the CLOSE leaves, and that waits for no rate. Freed by whoever frees the host.
    auto pacer = loop_.set_pacer(port, nullptr);
    if (pacer != nullptr) retired_[port.value()] = std::move(pacer);
  }
}

EchoSubmit ShardHost::submit_echo(const EchoRequest& request, Time now) {
  std::array<std::byte, network::kEchoHeader + EchoRequest::kMaxBytes> payload{};
  const std::size_t length = network::kEchoHeader + std::min(request.bytes, EchoRequest::kMaxBytes);
  if (pool_.room() < network::kMinPacket + length) return EchoSubmit::kNoBuffer;
  Buffer* packet = pool_.take();
  if (packet == nullptr) return EchoSubmit::kNoBuffer;

  store8(payload.data(), static_cast<std::uint8_t>(network::EchoType::kRequest));
  store16(payload.data() + 2, request.id);
  store16(payload.data() + 4, request.number);
  for (std::size_t i = network::kEchoHeader; i < length; ++i) {
    payload[i] = static_cast<std::byte>(i);
  }
  network::Header header;
  header.hop_limit = request.hop_limit;
  header.proto = static_cast<std::uint8_t>(network::Proto::kEcho);
  header.dst = request.dst;
  header.src = node_.config().node;
  header.entropy = request.entropy;
  header.partition = request.partition;
  network::make_packet(*packet, header, std::span(payload).first(length));
  if (shard_.submit(packet, now) != network::Submit::kTaken) {
    give_back(packet);
    return EchoSubmit::kQueueFull;
  }
  return EchoSubmit::kSent;
}

/// N11 has no error for the node itself: without this its own pings would wait in vain where a
/// neighbour's are told.

// --- readings ---

ShardReading ShardHost::blank_reading() const {
  ShardReading blank;
  blank.shard = shard_.id();
  blank.ports.reserve(node_.board().size());
  for (const network::Trunk& trunk : node_.trunks()) {
    blank.trunks.emplace_back().lanes.resize(trunk.lanes().size());
  }
  return blank;
}

void ShardHost::read(ShardReading& out, Time now) const {
  out.at = now;
  out.counters = shard_.counters();
  out.held = shard_.held();
  out.removed = removed_;
  for (std::size_t i = 0; i < out.trunks.size(); ++i) {
    switchd::read(shard_, node_.trunks()[i], out.trunks[i]);
  }
  out.measuring = worker_.measuring();
  out.stages = loop_.stages();
  out.ports.resize(shard_.ports().size());
  for (std::size_t i = 0; i < out.ports.size(); ++i) {
    const PortId port = shard_.ports()[i];
    const PortWatch& watch = watches_[port.value()];
    PortReading& reading = out.ports[i];
    reading.port = port;
    switchd::read(*shard_.link(port), reading);
    reading.medium = watch.former;
    if (const phy::Port* medium = loop_.medium(port)) reading.medium.add(medium->counters());
    reading.impaired = watch.impaired;
    reading.impaired_dropped = watch.impaired_dropped;
    reading.impairment.reset();
    if (const phy::Impairment* impairment = loop_.impairment(port)) {
      reading.impairment = impairment->config();
      reading.impaired += changed(impairment->counters());
      reading.impaired_dropped += impairment->counters().dropped.get();
    }
    reading.pace.reset();
    if (const phy::Pacer* pacer = loop_.pacer(port)) {
      reading.pace = PaceReading{pacer->config(), pacer->total(now), pacer->last(now)};
    }
    reading.last_up = watch.last_up;
    reading.last_down = watch.last_down;
    reading.reroute = watch.reroute;
  }
}

}  // namespace mtl::switchd
