#include "transport/send_flow.h"

#include <algorithm>

namespace mtl::transport {

SendFlow::SendFlow(const Settings& settings, PacketPool& pool)
    : settings_(settings),
      pool_(pool),
      ring_(std::size_t{1} << settings.send_window),
      mask_((std::uint32_t{1} << settings.send_window) - 1) {}

void SendFlow::start(Psn first, std::uint8_t window) {
  assert(idle());
  const std::uint32_t packets = std::uint32_t{1} << window;
  oldest_ = next_ = passed_ = first;
  limit_ = first + packets;
  marks_ = Marks{};
  congestion_.start(settings_.cwnd_first, packets, settings_.timers.rtt_target);
  order_ = overtaker_ = order_at_progress_ = halved_at_ = 0;
  no_time_out_before_ = kNever;
  at_time_out_ = Duration{0};
}

bool SendFlow::open() const {
  const std::uint32_t kept = next_.since(oldest_);
  // No flow keeps more slots than are left: one whose peer is silent leaves some to all others.
  return overdue_.empty() && flight_.size() < congestion_.packets() && next_.before(limit_) &&
         kept <= mask_ && kept < pool_.available();
}

PacketSlot* SendFlow::again() const {
  return flight_.size() < congestion_.packets() ? overdue_.first() : nullptr;
}

void SendFlow::launch(PacketSlot& s, const RoundTrip& round_trip, Time now) {
  s.sent = now;
  s.order = ++order_;
  ++s.times;
  flight_.append(s);
  no_time_out_before_ = std::min(no_time_out_before_, now + round_trip.timeout(s.times));
  at_time_out_ = std::max(at_time_out_, round_trip.timeout(1));
}

void SendFlow::sent_new(PacketSlot& s, const RoundTrip& round_trip, Time now) {
  s.psn = next_;
  s.first_sent = now;
  slot(next_) = &s;
  next_ += 1;
  launch(s, round_trip, now);
}

void SendFlow::sent_again(PacketSlot& s, const RoundTrip& round_trip, Time now) {
  overdue_.remove(s);
  s.overdue = false;
  launch(s, round_trip, now);
}

void SendFlow::asked(PacketSlot& s) {
  if (!s.asked) ++asked_;
  s.asked = true;
}

bool SendFlow::plausible(Psn ack, std::uint32_t extent) const {
  // Half of all numbers away is neither ahead nor behind: not at most `next_` either.
  const auto sent = [&](Psn psn) { return next_.since(psn) < std::uint32_t{1} << 31; };
  return sent(ack) && sent(ack + extent);
}

void SendFlow::acknowledge(PacketSlot& s) {
  (s.overdue ? overdue_ : flight_).remove(s);
  s.overdue = false;
  s.acknowledged = true;
  if (s.asked) --asked_;
  if (s.times == 1) overtaker_ = std::max(overtaker_, s.order);
}

PacketSlot* SendFlow::take_passed() {
  if (oldest_ == passed_) return nullptr;
  PacketSlot* s = slot(oldest_);
  oldest_ += 1;
  return s;
}

PacketSlot* SendFlow::find(Psn psn) {
  return psn.since(passed_) < next_.since(passed_) ? slot(psn) : nullptr;
}

std::uint32_t SendFlow::expire(const RoundTrip& round_trip, Time now) {
  std::uint32_t timed_out = 0;
  bool halve = false;
  no_time_out_before_ = kNever;
  at_time_out_ = round_trip.timeout(1);
  for (PacketSlot* s = flight_.first(); s != nullptr;) {
    PacketSlot* const after = s->after;
    const bool overtaken = this->overtaken(*s, round_trip);
    // A host that stood still samples its own pause, and (a) has no upper bound: (b) holds, too.
    const Duration timeout = round_trip.timeout(s->times);
    const Time at = s->sent + (overtaken ? std::min(round_trip.reordering(), timeout) : timeout);
    if (at <= now) {
      if (!overtaken && s->order > order_at_progress_) {
        ++timed_out;
        halve = halve || s->order > halved_at_;
      }
      flight_.remove(*s);
      overdue_.append(*s);
      s->overdue = true;
    } else {
      no_time_out_before_ = std::min(no_time_out_before_, at);
    }
    s = after;
  }
  if (halve) {
    congestion_.timed_out();
    halved_at_ = order_;
  }
  return timed_out;
}

Time SendFlow::deadline(const RoundTrip& round_trip) const {
  const PacketSlot* first = flight_.first();
  if (first == nullptr) return kNever;
  // The first was sent the longest ago, and no time-out is shorter than that of what was sent once.
  Time at = first->sent + round_trip.timeout(1);
  if (round_trip.timeout(1) >= at_time_out_) at = std::max(at, no_time_out_before_);
  if (overtaken(*first, round_trip)) at = std::min(at, first->sent + round_trip.reordering());
  return at;
}

Time SendFlow::oldest_sent() const {
  for (Psn psn = passed_; psn != next_; psn += 1) {
    if (!slot(psn)->acknowledged) return slot(psn)->first_sent;
  }
  return kNever;
}

}  // namespace mtl::transport
