#include "sim/node_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "link/codec.h"

namespace mtl::sim {
namespace {

constexpr std::uint64_t kTimers = 0;
constexpr std::uint64_t kRings = 1;
constexpr std::uint64_t kConsume = 2;  // | slot << 2 | life << 34
// Buffers beyond the capacity: a frame being looked at while every credit is out.
constexpr std::uint32_t kReceiveReserve = 4;
// A restarted node does not know its last epoch and would meet it again in one of 254 cases; what
// was in flight then could pass for fresh. The simulator keeps epochs apart for as long as frames
// may fly.
constexpr std::size_t kEpochsApart = 16;
// More timers than these at one instant: expire() does not come to an end.
constexpr int kMaxTimersAtOnce = 100'000;

bool is_network_drop(Drop reason) {
  return info(reason).layer == DropLayer::kNetwork;
}

}  // namespace

ShardHost::ShardHost(NodeHost& node, ShardId id, Random random)
    : node_(node),
      id_(id),
      random_(random),
      from_(node.plan().config.shards),
      timers_(node.context().queue, *this, kTimers),
      rings_(node.context().queue, *this, kRings) {}

void ShardHost::make_pools() {
  std::uint32_t buffers = 0;
  std::uint32_t room = 0;
  for (const network::PortConfig& port : node_.plan().config.ports) {
    if (port.shard != id_) continue;
    // The most packets that the credits can stand for: the shortest ones.
    const std::uint16_t least = link::CellSize(port.link.cell).cells(link::kMinPacket);
    for (const std::uint16_t capacity : port.link.capacity) buffers += capacity / least;
    room = std::max<std::uint32_t>(room, port.link.mtu);
  }
  const auto frame = static_cast<std::uint32_t>(link::kFrameHeader + link::kVlanTag);
  PoolWatcher* watcher = this;  // make_unique does not see the private base
  receive_pool_ = std::make_unique<CheckedPool>(buffers + kReceiveReserve, room + frame, watcher);
  own_pool_ =
      std::make_unique<CheckedPool>(node_.plan().own_buffers, node_.plan().own_room, watcher);
}

void ShardHost::boot(Time now) {
  ++life_;
  now_ = now;
  attributed_.fill(0);
  paused_ = false;
  make_pools();
  network::ShardOwner& owner = *this;
  shard_ = std::make_unique<network::Shard>(node_.node(), id_, *own_pool_, owner);
}

void ShardHost::report_lost(const CheckedPool& pool) {
  pool.for_each_in_use([&](const Buffer& buffer) {
    // What was delivered has arrived, even if its buffer is not free yet.
    if (std::find(waiting_.begin(), waiting_.end(), &buffer) == waiting_.end()) {
      node_.context().watcher.lost(node_.index(), buffer);
    }
  });
}

void ShardHost::report_lost() {
  report_lost(*receive_pool_);
  report_lost(*own_pool_);
}

void ShardHost::halt() {
  for (Ring& ring : from_) {
    for (const Passed& passed : ring.queue) give_back(passed.buffer);
    ring.queue.clear();
  }
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

void ShardHost::frame_in(PortId port, const Buffer& frame, Time now) {
  FabricContext& context = node_.context();
  Buffer* buffer = receive_pool_->take();
  if (buffer == nullptr || frame.length > buffer->tailroom) {
    context.watcher.broken(
        "no_buffer",
        fmt::format("node {} port {}: no buffer for a frame of {} bytes; {} in use", node_.index(),
                    port.value(), frame.length, receive_pool_->in_use()));
    if (buffer != nullptr) give_back(buffer);
    return;
  }
  std::memcpy(buffer->data, frame.data, frame.length);
  buffer->length = frame.length;
  buffer->tailroom -= frame.length;
  ++node_.slot(port).given;
  const auto& poisoned = shard_->link(port)->counters().drops;
  const std::uint64_t before = poisoned.get(Drop::kPoisoned);
  begin(now);
  shard_->receive(port, buffer, now);
  if (poisoned.get(Drop::kPoisoned) != before) {
    context.watcher.poisoned({node_.index(), port},
                             Seq(load16(&frame.data[link::kEthernetHeader + 4])));
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

void ShardHost::run_ring(Time now) {
  Time next = kNever;
  for (Ring& ring : from_) {
    while (!ring.queue.empty() && ring.queue.front().due <= now) {
      Buffer* buffer = ring.queue.front().buffer;
      ring.queue.pop_front();
      begin(now);
      shard_->from_shard(buffer, now);
      settle(now);
    }
    if (!ring.queue.empty()) next = std::min(next, ring.queue.front().due);
  }
  rings_.set(next);
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
      if (running()) run_ring(now);
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
    const auto reason = static_cast<Drop>(i);
    if (!is_network_drop(reason) || drops.get(reason) == attributed_[i]) continue;
    ++attributed_[i];
    return reason;
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
    : index_(index), plan_(std::move(plan)), context_(context), slots_(plan_.config.ports.size()) {
  for (std::size_t i = 0; i < plan_.config.shards; ++i) {
    const ShardId id(static_cast<std::uint8_t>(i));
    shards_.push_back(std::make_unique<ShardHost>(*this, id, random.stream("shard", i)));
  }
}

void NodeHost::boot(Time now) {
  node_ = std::make_unique<network::Node>(plan_.config);
  for (PortSlot& slot : slots_) {
    slot.pulled.fill(0);
    slot.given = 0;
  }
  for (const auto& shard : shards_) shard->boot(now);
  set_routes(plan_.routes);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const PortId port(static_cast<std::uint16_t>(i));
    if (slots_[i].carrier_lost == 0) shard_of(port).set_carrier(port, true, now);
    if (slots_[i].enabled) shard_of(port).enable(port, now);
  }
}

void NodeHost::halt() {
  context_.watcher.retiring(*this);
  // First all are asked: a shard that ends gives back buffers of the others' too.
  for (const auto& shard : shards_) shard->report_lost();
  for (const auto& shard : shards_) shard->halt();
  for (const auto& shard : shards_) {
    if (shard->in_use() == 0) continue;
    context_.watcher.broken("leak", fmt::format("node {} shard {}: {} buffers out after its end",
                                                index_, shard->id().value(), shard->in_use()));
  }
  node_.reset();
}

void NodeHost::set_routes(const std::vector<network::Route>& routes) {
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
  return shards_[plan_.config.ports[port.value()].shard.value()]->shard().link(port);
}

}  // namespace mtl::sim
