#include "runtime/shard_loop.h"

#include <algorithm>
#include <array>
#include <utility>

#include "capture/verdict.h"

namespace mtl::runtime {

ShardLoop::ShardLoop(network::Shard& shard, LoopOwner* owner) : shard_(shard), owner_(owner) {
  const std::size_t ports = shard.node().board().size();  // any of them may come here
  for (std::size_t i = 0; i < ports; ++i) {
    Slot& slot = slots_.emplace_back();
    slot.id = PortId(static_cast<std::uint16_t>(i));
    slot.link = shard.link(slot.id);
  }
  active_.reserve(ports);
  media_.reserve(ports);
}

void ShardLoop::renew_active() {
  active_.clear();
  media_.clear();
  all_ring_ = true;
  first_ = 0;
  for (Slot& slot : slots_) {
    if (slot.medium == nullptr) continue;
    active_.push_back(&slot);
    media_.push_back(slot.medium);
    all_ring_ = all_ring_ && slot.medium->traits().wake_fd >= 0;
  }
}

void ShardLoop::renew_ways() {
  plain_ = true;
  for (Slot& slot : slots_) {
    slot.captured = tap_ == nullptr ? capture::kNoInterface : tap_->interface(slot.id);
    const auto captured = [&](capture::Direction way) {
      return slot.captured != capture::kNoInterface && tap_->wants(way);
    };
    slot.slow_in = captured(capture::Direction::kIn) || slot.impairment != nullptr;
    slot.slow_out = captured(capture::Direction::kOut) || slot.pacer != nullptr;
    plain_ = plain_ && slot.impairment == nullptr && slot.pacer == nullptr;
  }
}

void ShardLoop::set_tap(capture::Tap* tap) {
  tap_ = tap;
  renew_ways();
}

void ShardLoop::attach(PortId port, phy::Port& medium, Time now) {
  detach(port, now);
  Slot& slot = slots_[port.value()];
  slot.medium = &medium;
  slot.keeps = !medium.traits().lossy;
  slot.empty = 0;
  renew_active();
}

phy::Port* ShardLoop::detach(PortId port, Time now) {
  Slot& slot = slots_[port.value()];
  if (slot.medium == nullptr) return nullptr;
  cut(port, now);
  if (slot.pacer != nullptr) slot.pacer->looked(false, now);  // nothing waits for the rate now
  slot.held = false;
  phy::Port* medium = std::exchange(slot.medium, nullptr);
  renew_active();
  return medium;
}

void ShardLoop::cut(PortId port, Time now) {
  Slot& slot = slots_[port.value()];
  slot.empty = 0;  // no longer at rest: the next pass finds the carrier
  if (std::exchange(slot.carrier, false)) shard_.set_carrier(port, false, now);
}

std::unique_ptr<phy::Impairment> ShardLoop::set_impairment(
    PortId port, std::unique_ptr<phy::Impairment> impairment, Time now) {
  Slot& slot = slots_[port.value()];
  if (slot.impairment != nullptr) {
    slot.impairment->pop_due(kNever, [&](Buffer* frame) { to_link(slot, frame, now); });
  }
  std::swap(slot.impairment, impairment);
  renew_ways();
  return impairment;
}

std::unique_ptr<phy::Pacer> ShardLoop::set_pacer(PortId port, std::unique_ptr<phy::Pacer> pacer) {
  Slot& slot = slots_[port.value()];
  slot.held = false;
  if (pacer != nullptr && slot.pacer != nullptr) pacer->take_over(*slot.pacer);
  std::swap(slot.pacer, pacer);
  renew_ways();
  return pacer;
}

ShardLoop::MovingPort ShardLoop::take(PortId port) {
  Slot& slot = slots_[port.value()];
  MovingPort moving;
  moving.link = shard_.take_link(port);
  moving.medium = std::exchange(slot.medium, nullptr);
  moving.carrier = std::exchange(slot.carrier, false);
  moving.impairment = std::move(slot.impairment);
  moving.pacer = std::move(slot.pacer);
  slot.link = nullptr;
  slot.held = false;
  renew_active();
  renew_ways();
  return moving;
}

void ShardLoop::put(MovingPort moving, Time now) {
  const PortId port = moving.link->config().port;
  Slot& slot = slots_[port.value()];
  slot.link = moving.link.get();
  slot.medium = moving.medium;
  slot.carrier = moving.carrier;
  slot.impairment = std::move(moving.impairment);
  slot.pacer = std::move(moving.pacer);
  slot.keeps = slot.medium != nullptr && !slot.medium->traits().lossy;
  slot.empty = 0;
  renew_active();
  renew_ways();
  shard_.put_link(std::move(moving.link), now);
}

bool ShardLoop::rests(std::size_t active) const {
  const Slot& slot = *active_[active];
  return busy_ && slot.empty >= kRestAfter && slot.keeps && slot.impairment == nullptr &&
         (passes_ + active) % kRestFor != 0;
}

bool ShardLoop::look_at_carrier(Slot& slot, Time now) {
  const bool carrier = slot.medium->carrier();
  if (carrier == slot.carrier) return false;
  slot.carrier = carrier;
  shard_.set_carrier(slot.id, carrier, now);
  return true;
}

/// Captured frames one by one, so that it is known of each what became of it.
void ShardLoop::to_link(Slot& slot, Buffer* frame, Time now) {
  if (slot.captured == capture::kNoInterface ||
      !tap_->take(frame->bytes(), slot.link->config().ether_type)) {
    return shard_.receive(slot.id, frame, now);
  }
  const capture::BeforeFrame before(*slot.link, shard_.counters(), frame->bytes());
  shard_.receive(slot.id, frame, now);
  tap_->told(slot.captured, now, before.after());
}

void ShardLoop::impair(Slot& slot, Buffer* frame, Time now) {
  phy::Impairment& impairment = *slot.impairment;
  const auto on = [&](Buffer* passed) { to_link(slot, passed, now); };
  if (slot.captured == capture::kNoInterface || impairment.config().drop_ppm == 0) {
    return impairment.push(frame, now, on);
  }
  const std::uint64_t dropped = impairment.counters().dropped.get();
  tap_->keep(frame->bytes());
  impairment.push(frame, now, on);
  if (impairment.counters().dropped.get() == dropped) return;
  tap_->kept_told(slot.captured, slot.link->config().ether_type, now,
                  {capture::Outcome::kDropped, capture::reason(Drop::kImpaired)});
}

[[gnu::noinline]] bool ShardLoop::receive_slowly(Slot& slot, std::span<Buffer* const> frames,
                                                 Time now) {
  if (slot.impairment == nullptr) {
    for (Buffer* frame : frames) to_link(slot, frame, now);
    return false;
  }
  for (Buffer* frame : frames) impair(slot, frame, now);
  if (slot.impairment->next_deadline() > now) return false;
  slot.impairment->pop_due(now, [&](Buffer* frame) { to_link(slot, frame, now); });
  return true;
}

template <class Watch>
bool ShardLoop::receive(Slot& slot, Time now, Watch& watch) {
  bool busy = look_at_carrier(slot, now);
  std::array<Buffer*, kBurst> frames;
  const unsigned n = slot.medium->receive(frames);
  watch.lap(Stage::kDeviceReceive, n);
  slot.empty = n > 0 ? 0 : std::min(slot.empty + 1, kRestAfter);
  if (!slot.slow_in) {
    if (n > 0) shard_.receive(slot.id, std::span(frames).first(n), now);
  } else {
    busy |= receive_slowly(slot, std::span(frames).first(n), now);
  }
  watch.lap(Stage::kLinkReceive, n);
  return busy || n > 0;
}

unsigned ShardLoop::take_ring(BufferRing& ring, std::size_t most, Time now) {
  Buffer* buffer = nullptr;
  unsigned n = 0;
  for (; n < most && ring.pop(buffer); ++n) shard_.from_shard(buffer, now);
  return n;
}

template <class Watch>
bool ShardLoop::take_rings(Time now, Watch& watch) {
  unsigned taken = 0;
  for (BufferRing* ring : rings_) taken += take_ring(*ring, kRingBudget, now);
  watch.lap(Stage::kRings, taken);
  return taken > 0;
}

void ShardLoop::replace_ring(BufferRing& former, BufferRing& ring, Time now) {
  take_ring(former, former.size(), now);
  std::replace(rings_.begin(), rings_.end(), &former, &ring);
}

void ShardLoop::take_in(Time now) {
  for (BufferRing* ring : rings_) take_ring(*ring, ring->size(), now);
}

template <class Watch>
bool ShardLoop::fire(Time now, Watch& watch) {
  bool busy = false;
  // Each timer is an event of its own: its frames are pulled before the next (Link::expire).
  while (shard_.next_deadline() <= now && shard_.expire(now)) {
    busy = true;
    watch.lap(Stage::kTimers);
    pull_all(now, watch);
  }
  watch.lap(Stage::kTimers);
  return busy;
}

template <class Watch>
[[gnu::flatten]] bool ShardLoop::pull(Slot& slot, Time now, Watch& watch) {
  if (slot.slow_out) return pull_slowly(slot, now, watch);
  if (!slot.link->wants_to_send()) return false;
  unsigned room = std::min(slot.medium->room(), kPullBudget);
  if (room == 0) {
    blocked_ = true;
    return false;
  }
  bool busy = false;
  for (; room > 0 && shard_.next_frame(slot.id, now, frame_); --room) {
    watch.lap(Stage::kLinkSend, 1);
    slot.medium->send(frame_);
    watch.lap(Stage::kDeviceSend, 1);
    busy = true;
  }
  return busy;
}

void ShardLoop::send_slowly(Slot& slot, Time now) {
  if (slot.captured == capture::kNoInterface) {
    slot.medium->send(frame_);
    return;
  }
  const capture::DropsBefore before(slot.medium->refusals());
  const bool sent = slot.medium->send(frame_);
  const auto outcome = !sent           ? capture::Outcome::kDropped
                       : frame_.replay ? capture::Outcome::kSentAgain
                                       : capture::Outcome::kSent;
  // A medium that gathers frames may have counted another one meanwhile, of those before.
  const capture::Reasons reasons = sent ? 0 : before.grown(DropLayer::kPhy);
  // The link has a packet until it is acknowledged, so the frame is still there.
  tap_->sent(slot.captured, now, frame_, {outcome, reasons});
}

template <class Watch>
[[gnu::noinline]] bool ShardLoop::pull_slowly(Slot& slot, Time now, Watch& watch) {
  phy::Pacer* const pacer = slot.pacer.get();
  const auto ready = [&] { return pacer == nullptr || pacer->ready(now); };
  bool busy = false;
  if (slot.link->wants_to_send() && ready()) {
    unsigned room = std::min(slot.medium->room(), kPullBudget);
    if (room == 0) blocked_ = true;
    for (; room > 0 && ready() && shard_.next_frame(slot.id, now, frame_); --room) {
      watch.lap(Stage::kLinkSend, 1);
      send_slowly(slot, now);
      watch.lap(Stage::kDeviceSend, 1);
      if (pacer != nullptr) pacer->charge(frame_.length(), now);
      busy = true;
    }
  }
  if (pacer == nullptr) return busy;
  const bool waits = slot.link->wants_to_send();
  pacer->looked(waits, now);
  slot.held = waits && !pacer->ready(now);
  return busy;
}

template <class Watch>
bool ShardLoop::pull_all(Time now, Watch& watch) {
  bool busy = false;
  for (std::size_t i = first_; i < active_.size(); ++i) busy |= pull(*active_[i], now, watch);
  for (std::size_t i = 0; i < first_; ++i) busy |= pull(*active_[i], now, watch);
  watch.lap(Stage::kLinkSend);
  return busy;
}

// Flushed one by one, as soon as pulled: what is written for the other core is then still on its
// way out of this one's caches.
template <class Watch>
bool ShardLoop::pull_and_flush(Slot& slot, Time now, Watch& watch) {
  const bool busy = pull(slot, now, watch);
  watch.lap(Stage::kLinkSend);
  // Each pass, not only after send(): a device may have kept frames back for want of room.
  slot.medium->flush();
  watch.lap(Stage::kFlush);
  return busy;
}

template <class Watch>
bool ShardLoop::pass_watched(Time now, Watch& watch) {
  watch.lap(Stage::kWorker);
  blocked_ = false;
  bool busy = false;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    if (i + 1 < active_.size()) media_[i + 1]->prefetch();
    if (!rests(i)) busy |= receive(*active_[i], now, watch);
  }
  busy |= take_rings(now, watch);
  busy |= fire(now, watch);
  if (owner_ != nullptr) busy |= owner_->work(now);
  watch.lap(Stage::kOwner);
  for (std::size_t i = first_; i < active_.size(); ++i)
    busy |= pull_and_flush(*active_[i], now, watch);
  for (std::size_t i = 0; i < first_; ++i) busy |= pull_and_flush(*active_[i], now, watch);
  first_ = first_ + 1 < active_.size() ? first_ + 1 : 0;
  watch.count(Stage::kFlush, watch.frames(Stage::kDeviceSend));
  ++passes_;
  return busy_ = busy;
}

bool ShardLoop::pass(Time now) {
  NoWatch watch;
  return pass_watched(now, watch);
}

bool ShardLoop::measured_pass(Time now, const TickSource& ticks, std::uint64_t began) {
  StageWatch watch(ticks, began);
  const bool busy = pass_watched(now, watch);
  if (busy) watch.add_to(stages_);
  return busy;
}

Time ShardLoop::next_deadline() const {
  Time deadline = shard_.next_deadline();
  if (plain_) return deadline;
  for (const Slot* slot : active_) {
    if (slot->held) deadline = std::min(deadline, slot->pacer->next());
    if (slot->impairment == nullptr) continue;
    deadline = std::min(deadline, slot->impairment->next_deadline());
  }
  return deadline;
}

bool ShardLoop::waiting() const {
  if (owner_ != nullptr && owner_->waiting()) return true;
  return std::any_of(rings_.begin(), rings_.end(),
                     [](const BufferRing* ring) { return !ring->empty(); });
}

bool ShardLoop::wants_to_send() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const Slot* slot) { return slot->link->wants_to_send(); });
}

bool ShardLoop::wants_a_pass() const {
  return std::any_of(active_.begin(), active_.end(),
                     [](const Slot* slot) { return !slot->held && slot->link->wants_to_send(); });
}

}  // namespace mtl::runtime
