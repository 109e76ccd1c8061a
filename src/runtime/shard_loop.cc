#include "runtime/shard_loop.h"

#include <algorithm>
#include <array>
#include <utility>

namespace mtl::runtime {

ShardLoop::ShardLoop(network::Shard& shard, LoopOwner* owner) : shard_(shard), owner_(owner) {
  std::size_t ports = 0;
  for (const PortId port : shard.ports()) {
    ports = std::max(ports, std::size_t{port.value()} + 1);
  }
  slots_.resize(ports);
  for (const PortId port : shard.ports()) {
    slots_[port.value()].id = port;
    slots_[port.value()].link = shard.link(port);
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

void ShardLoop::attach(PortId port, phy::Port& medium, Time now) {
  detach(port, now);
  slots_[port.value()].medium = &medium;
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
  if (std::exchange(slots_[port.value()].carrier, false)) shard_.set_carrier(port, false, now);
}

std::unique_ptr<phy::Impairment> ShardLoop::set_impairment(
    PortId port, std::unique_ptr<phy::Impairment> impairment, Time now) {
  Slot& slot = slots_[port.value()];
  if (slot.impairment != nullptr) {
    slot.impairment->pop_due(kNever, [&](Buffer* frame) { shard_.receive(port, frame, now); });
  }
  return std::exchange(slot.impairment, std::move(impairment));
}

std::unique_ptr<phy::Pacer> ShardLoop::set_pacer(PortId port, std::unique_ptr<phy::Pacer> pacer) {
  Slot& slot = slots_[port.value()];
  slot.held = false;
  if (pacer != nullptr && slot.pacer != nullptr) pacer->take_over(*slot.pacer);
  return std::exchange(slot.pacer, std::move(pacer));
}

bool ShardLoop::receive(Slot& slot, Time now) {
  bool busy = false;
  const bool carrier = slot.medium->carrier();
  if (carrier != slot.carrier) {
    slot.carrier = carrier;
    shard_.set_carrier(slot.id, carrier, now);
    busy = true;
  }
  std::array<Buffer*, kBurst> frames;
  const unsigned n = slot.medium->receive(frames);
  if (slot.impairment == nullptr) {
    for (unsigned i = 0; i < n; ++i) {
      if (i + 1 < n) __builtin_prefetch(frames[i + 1]->data);
      shard_.receive(slot.id, frames[i], now);
    }
    return busy || n > 0;
  }
  const auto to_link = [&](Buffer* frame) { shard_.receive(slot.id, frame, now); };
  for (unsigned i = 0; i < n; ++i) slot.impairment->push(frames[i], now, to_link);
  if (slot.impairment->next_deadline() <= now) {
    slot.impairment->pop_due(now, to_link);
    busy = true;
  }
  return busy || n > 0;
}

bool ShardLoop::take_rings(Time now) {
  bool busy = false;
  for (BufferRing* ring : rings_) {
    Buffer* buffer = nullptr;
    for (unsigned i = 0; i < kRingBudget && ring->pop(buffer); ++i) {
      shard_.from_shard(buffer, now);
      busy = true;
    }
  }
  return busy;
}

bool ShardLoop::fire(Time now) {
  bool busy = false;
  // Each timer is an event of its own: its frames are pulled before the next (Link::expire).
  while (shard_.next_deadline() <= now && shard_.expire(now)) {
    busy = true;
    pull_all(now);
  }
  return busy;
}

bool ShardLoop::pull(Slot& slot, Time now) {
  if (slot.pacer != nullptr) return pull_paced(slot, now);
  if (!slot.link->wants_to_send()) return false;
  unsigned room = std::min(slot.medium->room(), kPullBudget);
  if (room == 0) {
    blocked_ = true;
    return false;
  }
  bool busy = false;
  for (; room > 0 && shard_.next_frame(slot.id, now, frame_); --room) {
    slot.medium->send(frame_);
    busy = true;
  }
  return busy;
}

bool ShardLoop::pull_paced(Slot& slot, Time now) {
  phy::Pacer& pacer = *slot.pacer;
  bool busy = false;
  if (slot.link->wants_to_send() && pacer.ready(now)) {
    unsigned room = std::min(slot.medium->room(), kPullBudget);
    if (room == 0) blocked_ = true;
    for (; room > 0 && pacer.ready(now) && shard_.next_frame(slot.id, now, frame_); --room) {
      slot.medium->send(frame_);
      pacer.charge(frame_.length(), now);
      busy = true;
    }
  }
  const bool waits = slot.link->wants_to_send();
  pacer.looked(waits, now);
  slot.held = waits && !pacer.ready(now);
  return busy;
}

bool ShardLoop::pull_all(Time now) {
  bool busy = false;
  for (std::size_t i = first_; i < active_.size(); ++i) busy |= pull(*active_[i], now);
  for (std::size_t i = 0; i < first_; ++i) busy |= pull(*active_[i], now);
  return busy;
}

bool ShardLoop::pass(Time now) {
  blocked_ = false;
  bool busy = false;
  for (Slot* slot : active_) busy |= receive(*slot, now);
  busy |= take_rings(now);
  busy |= fire(now);
  if (owner_ != nullptr) busy |= owner_->work(now);
  busy |= pull_all(now);
  first_ = first_ + 1 < active_.size() ? first_ + 1 : 0;
  // Each pass, not only after send(): a device may have kept frames back for want of room.
  for (phy::Port* medium : media_) medium->flush();
  return busy;
}

Time ShardLoop::next_deadline() const {
  Time deadline = shard_.next_deadline();
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
