#include "sim/node_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/byte_order.h"
#include "link/codec.h"

namespace mtl::sim {
namespace {

constexpr std::uint64_t kTimers = 0;
constexpr std::uint64_t kRings = 1;
constexpr std::uint64_t kConsume = 2;  // | slot << 2 | life << 34
// Steps of a move, | shard << 3 | life << 16.
constexpr std::uint64_t kTake = 0;
constexpr std::uint64_t kTakeIn = 1;
constexpr std::uint64_t kPut = 2;
constexpr std::uint64_t kLook = 3;  // of a replacement, of no shard
constexpr std::uint64_t kAdd = 4;
// Between two looks at whether a port is settled.
constexpr Duration kLookAgain = std::chrono::microseconds(500);
// Frames of one call, as the real loop takes them from a device.
constexpr std::size_t kBurst = 32;
// Buffers beyond the capacity: a burst being looked at while every credit is out.
constexpr std::uint32_t kReceiveReserve = kBurst + 3;
// Of a DATA: after so many a receiver may give it up (L12).
constexpr std::uint32_t kDamagedToPoison = 3;
// A restarted node does not know its last epoch and would meet it again in one of 254 cases; what
// was in flight then could pass for fresh. The simulator keeps epochs apart for as long as frames
// may fly.
constexpr std::size_t kEpochsApart = 16;
// More timers than these at one instant: expire() does not come to an end.
constexpr int kMaxTimersAtOnce = 100'000;

// The most packets that the credits can stand for: the shortest ones.
std::uint32_t packets_received(const link::Config& link) {
  const std::uint16_t least = link::CellSize(link.cell).cells(link::kMinPacket);
  std::uint32_t packets = 0;
  for (const std::uint16_t capacity : link.capacity) packets += capacity / least;
  return packets;
}

std::uint32_t frame_room(const link::Config& link) {
  return link.mtu + static_cast<std::uint32_t>(link::kFrameHeader + link::kVlanTag);
}

/// Whether the link may give up the DATA that this frame carries, which is one damage more (L12).
bool may_poison(const Buffer& frame, PortSlot& slot) {
  if (frame.length < link::kFrameHeader) return false;
  const std::byte* header = frame.data + link::kEthernetHeader;
  const std::size_t length = load16(header + 2);
  const bool data = (load8(header) & 0x0F) == static_cast<std::uint8_t>(link::Kind::kData);
  if (!data || length < link::kNetworkHeader + link::kPacketCrc) return false;
  if (length > frame.length - link::kFrameHeader) return false;
  if (link::packet_crc_ok(frame.bytes().subspan(link::kFrameHeader, length))) return false;
  return ++slot.damaged[load16(header + 4)] >= kDamagedToPoison;
}

}  // namespace

std::uint32_t own_room(const NodePlan& plan) {
  constexpr std::uint32_t kBeyond = 256;
  std::uint32_t longest = link::kMinMtu;
  for (const network::PortConfig& port : plan.config.ports) {
    longest = std::max<std::uint32_t>(longest, port.link.mtu);
  }
  return longest + kBeyond;
}

std::uint64_t buffer_bytes(const NodePlan& plan) {
  const auto bytes = [](std::uint64_t count, std::uint32_t room) {
    return count * (sizeof(Buffer) + kHeadroom + room);
  };
  std::uint64_t all = bytes(plan.config.shards * std::uint64_t{plan.own_buffers}, own_room(plan));
  for (const network::PortConfig& port : plan.config.ports) {
    all += bytes(packets_received(port.link) + kReceiveReserve, frame_room(port.link));
  }
  return all;
}

PortPool::PortPool(NodeHost& node, const link::Config& link)
    : node_(node),
      port_(link.port),
      pool_(packets_received(link) + kReceiveReserve, frame_room(link), this) {}

void PortPool::given(const Buffer& buffer) {
  ShardHost* const active = node_.active();
  if (active == nullptr) return;
  if (active->shard().link(port_) != nullptr) {
    active->attribute(buffer);
    return;
  }
  node_.context().watcher.broken(
      "pool_of_another", fmt::format("node {}: shard {} gave to the pool of port {}, which it has "
                                     "not",
                                     node_.index(), active->id().value(), port_.value()));
}

void PortPool::misgiven(const Buffer&) {
  node_.context().watcher.broken(
      "misgiven", fmt::format("node {} port {}: a buffer given back that is not out", node_.index(),
                              port_.value()));
}

ShardHost::ShardHost(NodeHost& node, ShardId id, Random random)
    : node_(node),
      id_(id),
      random_(random),
      from_(node.plan().config.shards),
      timers_(node.context().queue, *this, kTimers),
      rings_(node.context().queue, *this, kRings) {}

void ShardHost::boot(Time now) {
  ++life_;
  now_ = now;
  attributed_.fill(0);
  paused_ = false;
  PoolWatcher* const watcher = this;  // make_unique does not see the private base
  own_pool_ =
      std::make_unique<CheckedPool>(node_.plan().own_buffers, own_room(node_.plan()), watcher);
  network::ShardOwner& owner = *this;
  shard_ = std::make_unique<network::Shard>(node_.node(), id_, *own_pool_, owner);
}

bool ShardHost::was_delivered(const Buffer& buffer) const {
  return std::find(waiting_.begin(), waiting_.end(), &buffer) != waiting_.end();
}

void ShardHost::halt() {
  for (Ring& ring : from_) {
    for (const Passed& passed : ring.queue) give_back(passed.buffer);
    ring.queue.clear();
  }
  while (!kept_.empty()) give_back(kept_.pop());
  for (Buffer* buffer : waiting_) {
    if (buffer != nullptr) give_back(buffer);
  }
  waiting_.clear();
  free_slots_.clear();
  waiting_count_ = 0;
  shard_.reset();
}

void ShardHost::begin(Time now) {
  now_ = now;
  node_.set_active(this);
}

void ShardHost::end() {
  node_.set_active(nullptr);
}

void ShardHost::enable(PortId port, Time now) {
  begin(now);
  shard_->enable(port, now);
  settle(now);
}

void ShardHost::disable(PortId port, Time now) {
  begin(now);
  shard_->disable(port, now);
  settle(now);
}

void ShardHost::set_carrier(PortId port, bool carrier, Time now) {
  begin(now);
  shard_->set_carrier(port, carrier, now);
  settle(now);
}

// A burst ends where a DATA may be given up: so it is known which one was.
void ShardHost::frames_in(PortId port, std::span<Buffer* const> frames, Time now) {
  PortSlot& slot = node_.slot(port);
  std::size_t n = 0;
  while (!frames.empty()) {
    const bool last = may_poison(*frames[n++], slot);
    if (!last && n < frames.size() && n < kBurst) continue;
    burst_in(port, frames.first(n), now);
    frames = frames.subspan(std::exchange(n, 0));
  }
}

void ShardHost::burst_in(PortId port, std::span<Buffer* const> burst, Time now) {
  FabricContext& context = node_.context();
  CheckedPool& pool = node_.pool(port);
  burst_.clear();
  for (const Buffer* const frame : burst) {
    Buffer* const buffer = pool.take();
    if (buffer == nullptr || frame->length > buffer->tailroom) {
      context.watcher.broken(
          "no_buffer", fmt::format("node {} port {}: no buffer for a frame of {} bytes; {} in use",
                                   node_.index(), port.value(), frame->length, pool.in_use()));
      if (buffer != nullptr) give_back(buffer);
      continue;
    }
    std::memcpy(buffer->data, frame->data, frame->length);
    buffer->length = frame->length;
    buffer->tailroom -= frame->length;
    burst_.push_back(buffer);
  }
  node_.slot(port).given += burst_.size();
  const auto& poisoned = shard_->link(port)->counters().drops;
  const std::uint64_t before = poisoned.get(Drop::kPoisoned);
  begin(now);
  shard_->receive(port, burst_, now);
  if (poisoned.get(Drop::kPoisoned) != before) {
    context.watcher.poisoned({node_.index(), port},
                             Seq(load16(&burst.back()->data[link::kEthernetHeader + 4])));
  }
  settle(now);
}

void ShardHost::room_again(Time now) {
  begin(now);
  settle(now);
}

network::Submit ShardHost::submit(Buffer* packet, Time now) {
  begin(now);
  const network::Submit result = shard_->submit(packet, now);
  settle(now);
  if (result == network::Submit::kQueueFull) give_back(packet);
  return result;
}

void ShardHost::pull(PortId port, Time now) {
  PortSlot& slot = node_.slot(port);
  const link::Link& link = *shard_->link(port);
  while (link.wants_to_send() && slot.wire->room(slot.direction, now)) {
    if (!shard_->next_frame(port, now, out_)) break;
    ++slot.pulled[static_cast<std::size_t>(out_.kind)];
    node_.context().watcher.sent({node_.index(), port}, slot.session, out_);
    slot.wire->send(slot.direction, out_, now);
  }
}

// The end of every event: what was delivered and is consumed at once leaves the buffer within it
// (C4), then the frames that it made leave (C2).
void ShardHost::settle(Time now) {
  while (!at_once_.empty()) {
    Buffer* packet = at_once_.front();
    at_once_.pop_front();
    shard_->release(packet, now);
  }
  for (const PortId port : shard_->ports()) pull(port, now);
  end();
  if (new_drop()) {
    node_.context().watcher.broken(
        "drop_of_nothing",
        fmt::format("node {}: a drop was counted and no buffer let go", node_.index()));
  }
  timers_.set(std::max(shard_->next_deadline(), now));
  node_.context().watcher.settled(*this);
}

void ShardHost::run_timers(Time now) {
  for (int i = 0; i < kMaxTimersAtOnce; ++i) {
    begin(now);
    if (!shard_->expire(now)) {
      end();
      const Time next = shard_->next_deadline();
      // A deadline that has come and does nothing would come again for ever.
      timers_.set(next <= now ? now + Duration(1) : next);
      return;
    }
    settle(now);
  }
  node_.context().watcher.broken("timers",
                                 fmt::format("node {}: expire() does not end", node_.index()));
}

// Takes in what is due by `until`; when the next is due.
Time ShardHost::run_ring(Ring& ring, Time until, Time now) {
  while (!ring.queue.empty() && ring.queue.front().due <= until) {
    Buffer* buffer = ring.queue.front().buffer;
    ring.queue.pop_front();
    begin(now);
    shard_->from_shard(buffer, now);
    settle(now);
  }
  return ring.queue.empty() ? kNever : ring.queue.front().due;
}

void ShardHost::run_rings(Time now) {
  Time next = kNever;
  for (Ring& ring : from_) next = std::min(next, run_ring(ring, now, now));
  rings_.set(next);
}

void ShardHost::take_in(Time now) {
  for (Ring& ring : from_) run_ring(ring, kNever, now);
}

std::vector<std::unique_ptr<link::Link>> ShardHost::take_links(std::span<const PortId> ports,
                                                               Time now) {
  std::vector<std::unique_ptr<link::Link>> links;
  begin(now);
  for (const PortId port : ports) links.push_back(shard_->take_link(port));
  settle(now);
  return links;
}

void ShardHost::put_links(std::vector<std::unique_ptr<link::Link>> links, Time now) {
  begin(now);
  for (auto& link : links) shard_->put_link(std::move(link), now);
  settle(now);
  for (std::uint32_t n = kept_.size(); n > 0; --n) {  // before all else
    begin(now);
    shard_->from_shard(kept_.pop(), now);
    settle(now);
  }
}

void ShardHost::consume(std::uint64_t what, Time now) {
  const auto slot = static_cast<std::uint32_t>(what >> 2);
  const auto life = static_cast<std::uint32_t>(what >> 34);
  if (life != (life_ & 0x3FFFFFFF) || slot >= waiting_.size() || waiting_[slot] == nullptr) return;
  if (paused_) return;
  Buffer* packet = std::exchange(waiting_[slot], nullptr);
  free_slots_.push_back(slot);
  --waiting_count_;
  begin(now);
  shard_->release(packet, now);
  settle(now);
}

void ShardHost::resume(Time now) {
  paused_ = false;
  for (std::uint32_t slot = 0; slot < waiting_.size(); ++slot) {
    if (waiting_[slot] == nullptr) continue;
    const std::uint64_t life = life_ & 0x3FFFFFFF;
    node_.context().queue.at(now, *this, kConsume | std::uint64_t{slot} << 2 | life << 34);
  }
}

void ShardHost::on_event(Time now, std::uint64_t what) {
  now_ = now;
  switch (what & 3) {
    case kTimers:
      timers_.fired();
      if (running()) run_timers(now);
      break;
    case kRings:
      rings_.fired();
      if (running()) run_rings(now);
      break;
    default:
      if (running()) consume(what, now);
  }
}

void ShardHost::delivered(Buffer* packet, PortId, Vc) {
  node_.context().watcher.delivered(node_.index(), *packet, false);
  const NodePlan& plan = node_.plan();
  if (plan.leak_ppm != 0 && random_.chance(plan.leak_ppm)) return;
  if (!paused_ && !random_.chance(plan.consume_later_ppm)) {
    at_once_.push_back(packet);
    return;
  }
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(waiting_.size());
    waiting_.push_back(packet);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    waiting_[slot] = packet;
  }
  ++waiting_count_;
  const auto longest = static_cast<std::uint64_t>(plan.consume_delay.count());
  const Duration delay(static_cast<std::int64_t>(random_.between(0, longest)));
  const std::uint64_t life = life_ & 0x3FFFFFFF;
  node_.context().queue.at(now_ + delay, *this, kConsume | std::uint64_t{slot} << 2 | life << 34);
}

void ShardHost::answered(const Buffer& request, PortId, Vc) {
  node_.context().watcher.delivered(node_.index(), request, true);
}

void ShardHost::pass(ShardId to, Buffer* buffer) {
  if (buffer->notes.returning) attribute(*buffer);
  if (to == id_) {
    kept_.push(buffer);
    return;
  }
  ShardHost& target = *node_.shards()[to.value()];
  Ring& ring = target.from_[id_.value()];
  const auto longest = static_cast<std::uint64_t>(node_.plan().ring_delay.count());
  const Duration delay(static_cast<std::int64_t>(random_.between(0, longest)));
  ring.last = std::max(ring.last, now_ + delay);
  ring.queue.push_back({ring.last, buffer});
  target.rings_.set(ring.queue.front().due);
}

link::BringUp ShardHost::bring_up(PortId port, std::uint8_t last_epoch) {
  PortSlot& slot = node_.slot(port);
  ++slot.session;
  link::BringUp numbers;
  numbers.nonce = static_cast<std::uint32_t>(random_.between(1, 0xFFFFFFFF));
  do {
    numbers.epoch = static_cast<std::uint8_t>(random_.between(1, 255));
  } while (numbers.epoch == last_epoch ||
           std::find(slot.epochs.begin(), slot.epochs.end(), numbers.epoch) != slot.epochs.end());
  slot.epochs.push_back(numbers.epoch);
  if (slot.epochs.size() > kEpochsApart) slot.epochs.pop_front();
  return numbers;
}

void ShardHost::link_changed(PortId port) {
  node_.context().watcher.link_changed({node_.index(), port});
}

std::optional<Drop> ShardHost::new_drop() {
  const DropCounters& drops = shard_->counters().drops;
  for (std::size_t i = 0; i < attributed_.size(); ++i) {
    if (drops.get(kNetworkDrops[i]) == attributed_[i]) continue;
    ++attributed_[i];
    return kNetworkDrops[i];
  }
  return std::nullopt;
}

// A shard counts a drop and lets the buffer go: the first buffer that goes after the count is the
// one.
void ShardHost::attribute(const Buffer& buffer) {
  const std::optional<Drop> reason = new_drop();
  if (reason) node_.context().watcher.dropped(node_.index(), *reason, buffer);
}

void ShardHost::given(const Buffer& buffer) {
  if (node_.active() == this) {
    attribute(buffer);
  } else if (node_.active() != nullptr) {
    node_.context().watcher.broken(
        "pool_of_another", fmt::format("node {}: shard {} gave to the pool of shard {}",
                                       node_.index(), node_.active()->id().value(), id_.value()));
  }
}

void ShardHost::misgiven(const Buffer&) {
  node_.context().watcher.broken(
      "misgiven", fmt::format("node {} shard {}: a buffer given back that is not out",
                              node_.index(), id_.value()));
}

NodeHost::NodeHost(std::uint32_t index, NodePlan plan, FabricContext context, Random random)
    : index_(index),
      plan_(std::move(plan)),
      context_(context),
      random_(random.stream("moves")),
      slots_(plan_.config.ports.size()),
      between_(slots_.size()) {
  for (std::size_t i = 0; i < plan_.config.shards; ++i) {
    const ShardId id(static_cast<std::uint8_t>(i));
    shards_.push_back(std::make_unique<ShardHost>(*this, id, random.stream("shard", i)));
  }
}

void NodeHost::boot(Time now) {
  node_ = std::make_unique<network::Node>(plan_.config);
  pools_.clear();
  for (const network::PortConfig& port : plan_.config.ports) {
    pools_.push_back(std::make_unique<PortPool>(*this, port.link));
  }
  for (PortSlot& slot : slots_) {
    slot.pulled.fill(0);
    slot.given = 0;
  }
  for (const auto& shard : shards_) shard->boot(now);
  set_routes(plan_.routes);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const PortId port(static_cast<std::uint16_t>(i));
    if (slots_[i].carrier_lost == 0) set_carrier(port, true, now);
    if (slots_[i].enabled) enable(port, true, now);
  }
}

void NodeHost::halt() {
  context_.watcher.retiring(*this);
  // First all are asked: a shard that ends gives back buffers of the others' too.
  for (const auto& shard : shards_) report_lost(shard->own_pool());
  for (const auto& port : pools_) report_lost(port->pool());
  ++life_;  // the move that is under way comes to nothing
  moving_.clear();
  replaced_.reset();
  for (Between& between : between_) between = {};
  for (const auto& shard : shards_) shard->halt();
  if (in_use() != 0) {
    context_.watcher.broken("leak",
                            fmt::format("node {}: {} buffers out after its end", index_, in_use()));
  }
  node_.reset();
}

void NodeHost::report_lost(const CheckedPool& pool) {
  pool.for_each_in_use([&](const Buffer& buffer) {
    // What was delivered has arrived, even if its buffer is not free yet.
    const bool arrived = std::any_of(shards_.begin(), shards_.end(), [&](const auto& shard) {
      return shard->was_delivered(buffer);
    });
    if (!arrived) context_.watcher.lost(index_, buffer);
  });
}

std::uint32_t NodeHost::in_use() const {
  std::uint32_t n = 0;
  for (const auto& shard : shards_) n += shard->in_use();
  for (const auto& port : pools_) n += port->pool().in_use();
  return n;
}

// --- ports, wherever they are ---

ShardHost* NodeHost::shard_of(PortId port) {
  for (const auto& shard : shards_) {
    if (shard->shard().link(port) != nullptr) return shard.get();
  }
  return nullptr;
}

void NodeHost::enable(PortId port, bool enabled, Time now) {
  ShardHost* const shard = shard_of(port);
  if (shard == nullptr) return;  // put() and add_again() see to it
  if (enabled && replaced_ && replaced_->port == port) return;
  if (enabled) {
    shard->enable(port, now);
  } else {
    shard->disable(port, now);
  }
}

void NodeHost::set_carrier(PortId port, bool carrier, Time now) {
  if (ShardHost* const shard = shard_of(port)) shard->set_carrier(port, carrier, now);
}

void NodeHost::frames_in(PortId port, std::span<Buffer* const> frames, Time now) {
  if (ShardHost* const shard = shard_of(port)) {
    shard->frames_in(port, frames, now);
    return;
  }
  if (replaced_ && replaced_->port == port) return;  // nobody listens
  for (const Buffer* const frame : frames) {
    const auto bytes = frame->bytes();
    between_[port.value()].frames.emplace_back(bytes.begin(), bytes.end());
  }
}

void NodeHost::room_again(PortId port, Time now) {
  if (ShardHost* const shard = shard_of(port)) shard->room_again(now);
}

// --- moves ---

bool NodeHost::move(std::vector<PortId> ports, ShardId to, Time now, std::string& undone) {
  undone.clear();
  if (!running() || !moving_.empty()) {
    undone = running() ? "another move is under way" : "the node is halted";
    return false;
  }
  const auto leave_out = [&](const auto& stays, std::string_view why) {
    std::erase_if(ports, [&](PortId port) {
      if (!stays(port)) return false;
      undone += fmt::format("{}port {} {}", undone.empty() ? "" : "; ", port.value(), why);
      return true;
    });
  };
  leave_out([this](PortId port) { return replaced_ && replaced_->port == port; },
            "is being replaced");
  if (ports.empty()) return false;
  from_ = node_->owner(ports.front());
  leave_out([this](PortId port) { return node_->owner(port) != from_; },
            "is not where the first is");
  if (from_ == to) {
    leave_out([](PortId) { return true; }, "is there already");
    return false;
  }
  add_lanes(ports);
  moving_ = std::move(ports);
  to_ = to;
  for (const PortId port : moving_) node_->set_owner(port, to_);
  if (context_.log.on()) {
    context_.log.line(now, fmt::format("node {} moves {} ports, {} first, to shard {}", index_,
                                       moving_.size(), moving_.front().value(), to_.value()));
  }
  step_later(kTake, from_, now);
  return true;
}

void NodeHost::add_lanes(std::vector<PortId>& ports) const {
  const std::vector<PortId> named = ports;
  for (const PortId port : named) {
    const network::Trunk* const trunk = node_->place(port).trunk;
    if (trunk == nullptr) continue;
    for (const network::Trunk::Lane& lane : trunk->lanes()) {
      if (std::find(ports.begin(), ports.end(), lane.port) == ports.end()) {
        ports.push_back(lane.port);
      }
    }
  }
}

void NodeHost::step_later(std::uint64_t step, ShardId shard, Time now) {
  const auto longest = static_cast<std::uint64_t>(plan_.move_delay.count());
  const Duration delay(static_cast<std::int64_t>(random_.between(0, longest)));
  context_.queue.at(now + delay, *this,
                    step | std::uint64_t{shard.value()} << 3 | std::uint64_t{life_} << 16);
}

void NodeHost::on_event(Time now, std::uint64_t what) {
  if (what >> 16 != life_) return;
  switch (what & 7) {
    case kTake:
      take(now);
      to_take_in_ = shards_.size();
      for (const auto& shard : shards_) step_later(kTakeIn, shard->id(), now);
      break;
    case kTakeIn:
      shards_[(what >> 3) & 0xFF]->take_in(now);
      if (--to_take_in_ == 0) step_later(kPut, to_, now);
      break;
    case kPut:
      put(now);
      break;
    case kLook:
      look_whether_settled(now);
      break;
    default:
      add_again(now);
  }
}

void NodeHost::take(Time now) {
  ShardHost& shard = *shards_[from_.value()];
  shard.take_in(now);
  std::vector<std::unique_ptr<link::Link>> links = shard.take_links(moving_, now);
  for (std::size_t i = 0; i < links.size(); ++i) {
    between_[moving_[i].value()].link = std::move(links[i]);
  }
}

void NodeHost::put(Time now) {
  std::vector<std::unique_ptr<link::Link>> links;
  for (const PortId port : moving_) links.push_back(std::move(between_[port.value()].link));
  shards_[to_.value()]->put_links(std::move(links), now);
  for (const PortId port : std::exchange(moving_, {})) {
    Between between = std::exchange(between_[port.value()], {});
    const PortSlot& slot = slots_[port.value()];
    if (link(port)->carrier() != (slot.carrier_lost == 0)) {
      set_carrier(port, slot.carrier_lost == 0, now);
    }
    if (link(port)->enabled() != slot.enabled) enable(port, slot.enabled, now);
    std::vector<Buffer> frames(between.frames.size());
    std::vector<Buffer*> burst;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      frames[i].data = between.frames[i].data();
      frames[i].length = static_cast<std::uint32_t>(between.frames[i].size());
      burst.push_back(&frames[i]);
    }
    frames_in(port, burst, now);
  }
}

// --- ports that are replaced ---

std::string NodeHost::replace(PortId port, ShardId shard, Duration rest, Time now) {
  if (!running()) return "the node is halted";
  if (replaced_) return fmt::format("port {} is being replaced", replaced_->port.value());
  if (node_->place(port).trunk != nullptr) return "the port is a lane of a trunk";
  if (std::find(moving_.begin(), moving_.end(), port) != moving_.end()) return "the port moves";
  replaced_ = Replaced{port, shard, rest};
  if (context_.log.on()) {
    context_.log.line(now, fmt::format("node {} replaces port {}", index_, port.value()));
  }
  publish_routes();
  shard_of(port)->disable(port, now);
  context_.queue.at(now, *this, kLook | std::uint64_t{life_} << 16);
  return {};
}

void NodeHost::look_whether_settled(Time now) {
  const PortId port = replaced_->port;
  ShardHost& shard = *shard_of(port);
  // What was on its way to the port is routed anew before anybody asks (switch/reload.h): it does
  // not wait in a ring until the next port of this number is there.
  for (const auto& other : shards_) other->take_in(now);
  // A daemon removes no port between the steps of a move, and adds none.
  if (!moving_.empty() || !shard.shard().settled(port)) {
    context_.queue.at(now + kLookAgain, *this, kLook | std::uint64_t{life_} << 16);
    return;
  }
  context_.watcher.retiring(*this, port);
  const std::vector<PortId> ports{port};
  shard.take_links(ports, now);
  network::PortConfig none;
  none.shard = kNoShard;
  node_->set_port(port, std::move(none));
  context_.queue.at(now + replaced_->rest, *this, kAdd | std::uint64_t{life_} << 16);
}

void NodeHost::add_again(Time now) {
  if (!moving_.empty()) {
    context_.queue.at(now + kLookAgain, *this, kAdd | std::uint64_t{life_} << 16);
    return;
  }
  const PortId port = replaced_->port;
  network::PortConfig config = plan_.config.ports[port.value()];
  config.shard = replaced_->shard;
  PortSlot& slot = slots_[port.value()];
  slot.pulled.fill(0);
  slot.given = 0;
  node_->set_port(port, config);
  std::vector<std::unique_ptr<link::Link>> links;
  links.push_back(shards_[config.shard.value()]->make_link(config.link));
  replaced_.reset();
  shards_[config.shard.value()]->put_links(std::move(links), now);
  publish_routes();
  if (slot.carrier_lost == 0) set_carrier(port, true, now);
  if (slot.enabled) enable(port, true, now);
}

void NodeHost::set_routes(const std::vector<network::Route>& routes) {
  routes_ = routes;
  publish_routes();
}

/// Without the hops to a port that is being replaced.
void NodeHost::publish_routes() {
  std::vector<network::Route> routes = routes_;
  for (network::Route& route : routes) {
    for (network::Tier& tier : route.tiers) {
      std::erase_if(tier, [this](const network::NextHop& hop) {
        return replaced_ && hop.port == replaced_->port;
      });
    }
    std::erase_if(route.tiers, [](const network::Tier& tier) { return tier.empty(); });
  }
  std::erase_if(routes, [](const network::Route& route) { return route.tiers.empty(); });
  Result<network::RouteTable> built = network::RouteTable::build(routes, slots_.size());
  if (!built) {
    context_.watcher.broken("routes", built.error().message);
    return;
  }
  auto table = std::make_unique<network::RouteTable>(std::move(*built));
  for (const auto& shard : shards_) shard->set_table(table.get());
  table_ = std::move(table);  // the old one goes when no shard looks at it any more
}

const link::Link* NodeHost::link(PortId port) const {
  if (!running()) return nullptr;
  for (const auto& shard : shards_) {
    if (const link::Link* link = shard->shard().link(port)) return link;
  }
  return between_[port.value()].link.get();
}

}  // namespace mtl::sim
