#include "sim/wire.h"

#include <algorithm>
#include <utility>

#include "base/byte_order.h"
#include "link/codec.h"
#include "network/packet.h"

namespace mtl::sim {
namespace {

// Deep enough for what a delay holds back; beyond it frames go through at once, which is only less
// of a fault.
constexpr std::uint32_t kImpairmentDepth = 64;
constexpr std::uint64_t kRoomEvent = 2;  // + direction
constexpr std::uint64_t kLateEvent = 4;
// Late frames arrive within this after the restoration: while bring-up and first traffic go on.
constexpr std::uint64_t kLateSpread = 5'000'000;

// Changes the last byte before the packet CRC of a DATA and makes the CRC fit.
void forge_packet(Buffer& frame) {
  auto body = frame.bytes().subspan(link::kFrameHeader);
  if ((load8(&frame.data[link::kEthernetHeader]) & 0xF) != 0) return;
  body = body.first(
      std::min<std::size_t>(load16(&frame.data[link::kEthernetHeader + 2]), body.size()));
  if (body.size() <= network::kMinPacket) return;
  body[body.size() - network::kCrc - 1] ^= std::byte{1};
  network::seal(body);
}

// A frame on a wire has come in at no port yet: these notes, which a copy has too, take its stamp.
void set_stamp(Buffer& frame, std::uint32_t stamp) {
  frame.notes.ingress = PortId(static_cast<std::uint16_t>(stamp >> 16));
  frame.notes.egress = PortId(static_cast<std::uint16_t>(stamp));
}
std::uint32_t stamp(const Buffer& frame) {
  return std::uint32_t{frame.notes.ingress.value()} << 16 | frame.notes.egress.value();
}

}  // namespace

Wire::Wire(const WirePlan& plan, ClockQueue& queue, WirePool& pool, WireEnd& owner, Random random)
    : plan_(plan), queue_(queue), pool_(pool), owner_(owner), random_(random) {
  for (std::size_t i = 0; i < 2; ++i) {
    lanes_[i].impairment =
        std::make_unique<phy::Impairment>(phy::ImpairmentConfig{}, kImpairmentDepth);
    EventTarget& self = *this;
    if (plan_.rate) lanes_[i].pacer.emplace(*plan_.rate, queue_.now());
    lanes_[i].alarm.emplace(queue_, self, std::uint64_t{i});
  }
}

bool Wire::room(std::size_t direction, Time now) {
  Lane& lane = lanes_[direction];
  if (!lane.pacer || lane.pacer->ready(now)) return true;
  if (!std::exchange(lane.wants_room, true)) {
    queue_.at(lane.pacer->next(), *this, kRoomEvent + direction);
  }
  return false;
}

void Wire::send(std::size_t direction, const link::FrameOut& frame, Time now) {
  Lane& lane = lanes_[direction];
  ++counters_.sent;
  const std::uint32_t length = frame.length();
  // Room is told of at the very instant: nothing is ever late, so the pacer need not hear what
  // waits.
  if (lane.pacer) lane.pacer->charge(length, now);
  if (tap_ != nullptr) {
    Buffer* seen = pool_.take();
    seen->length = frame.write(seen->data);
    tap_->sent(index_, direction, seen->bytes(), now);
    give_back(seen);
  }
  if (cut_) {
    ++counters_.cut;
    return;
  }
  if (lane.limit && length > *lane.limit) {
    ++counters_.too_long;
    return;
  }
  Buffer* copy = pool_.take();
  copy->length = frame.write(copy->data);
  copy->tailroom -= copy->length;
  set_stamp(*copy, lane.age.made(copy->bytes()));
  if (forge_) forge_packet(*copy);
  const Time sent = lane.pacer ? lane.pacer->next() : now;
  lane.flying.push_back({sent + plan_.delay, copy});
  set_alarm(direction);
}

void Wire::set_alarm(std::size_t direction) {
  Lane& lane = lanes_[direction];
  if (!lane.flying.empty()) lane.alarm->set(lane.flying.front().due);
  const Time delayed = lane.impairment->next_deadline();
  if (delayed != kNever) lane.alarm->set(std::max(delayed, queue_.now()));
}

void Wire::on_event(Time now, std::uint64_t what) {
  if (what == kLateEvent) {
    if (late_due_ == 0 || late_.empty()) return;
    --late_due_;
    const Late late = late_.front();
    late_.pop_front();
    if (!cut_ && !too_late(late.direction, *late.frame)) {
      ++counters_.late;
      hand_over(late.direction, {&late.frame, 1}, now);
    }
    give_back(late.frame);
    return;
  }
  if (what >= kRoomEvent) {
    const std::size_t direction = what - kRoomEvent;
    lanes_[direction].wants_room = false;
    owner_.room_again(plan_.ends[direction], now);
    return;
  }
  lanes_[what].alarm->fired();
  run_lane(what, now);
}

void Wire::run_lane(std::size_t direction, Time now) {
  Lane& lane = lanes_[direction];
  burst_.clear();
  const auto on = [this](Buffer* frame) { burst_.push_back(frame); };
  lane.impairment->pop_due(now, on);
  // A wire that does nothing to frames need not draw for each that it does nothing: to be impaired
  // begins a new stream.
  const bool well = !lane.impairment->config().active();
  while (!lane.flying.empty() && lane.flying.front().due <= now) {
    Buffer* frame = lane.flying.front().frame;
    lane.flying.pop_front();
    if (well) {
      on(frame);
    } else {
      lane.impairment->push(frame, now, on);
    }
  }
  if (cut_) {
    counters_.cut += burst_.size();
  } else {
    std::erase_if(burst_, [&](Buffer* frame) {
      if (!too_late(direction, *frame)) return false;
      give_back(frame);
      return true;
    });
    hand_over(direction, burst_, now);
  }
  for (Buffer* const frame : burst_) give_back(frame);
  set_alarm(direction);
}

bool Wire::too_late(std::size_t direction, const Buffer& frame) {
  const bool late = lanes_[direction].age.too_late(frame.bytes(), stamp(frame));
  counters_.too_late += late ? 1u : 0u;
  return late;
}

void Wire::hand_over(std::size_t direction, std::span<Buffer* const> frames, Time now) {
  if (frames.empty()) return;
  counters_.arrived += frames.size();
  for (const Buffer* const frame : frames) {
    if (tap_ != nullptr) tap_->arrived(index_, direction, frame->bytes(), now);
  }
  owner_.frames_in(plan_.ends[1 - direction], frames, now);
}

void Wire::impair(std::size_t direction, const phy::ImpairmentConfig& config) {
  phy::ImpairmentConfig seeded = config;
  seeded.seed = random_.next();
  lanes_[direction].impairment->configure(seeded);
}

void Wire::limit_length(std::size_t direction, std::optional<std::uint32_t> bytes) {
  lanes_[direction].limit = bytes;
}

void Wire::cut(bool carrier, bool late) {
  if (cut_) return;
  cut_ = true;
  for (std::size_t i = 0; i < 2; ++i) {
    for (const InFlight& flight : lanes_[i].flying) {
      if (late && random_.chance(500'000)) {
        late_.push_back({i, flight.frame});
      } else {
        ++counters_.cut;
        give_back(flight.frame);
      }
    }
    lanes_[i].flying.clear();
  }
  if (!carrier) return;
  carrier_ = false;
  for (const PortRef& end : plan_.ends) owner_.carrier_changed(end, false, queue_.now());
}

void Wire::restore() {
  if (!cut_) return;
  cut_ = false;
  for (; late_due_ < late_.size(); ++late_due_) {
    const Duration after(static_cast<std::int64_t>(random_.below(kLateSpread)));
    queue_.at(queue_.now() + after, *this, kLateEvent);
  }
  if (std::exchange(carrier_, true)) return;
  for (const PortRef& end : plan_.ends) owner_.carrier_changed(end, true, queue_.now());
}

bool Wire::idle() const {
  return lanes_[0].flying.empty() && lanes_[1].flying.empty() &&
         lanes_[0].impairment->next_deadline() == kNever &&
         lanes_[1].impairment->next_deadline() == kNever && late_.empty();
}

}  // namespace mtl::sim
