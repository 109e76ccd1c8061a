#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "transport/codec.h"
#include "transport/congestion.h"
#include "transport/packet_slot.h"
#include "transport/round_trip.h"
#include "transport/settings.h"

namespace mtl::transport {

/// The sending side of one flow: DATA from its making until the ack has passed it, which of it is
/// overdue, and how much may be in flight (T11, T13, T18 to T24).
class SendFlow {
 public:
  /// `pool` gives the slots. Memory for 2^send_window slots is allocated here.
  SendFlow(const Settings& settings, PacketPool& pool);

  /// Begins with `first` (T1) and the window that the peer's OPEN told. Nothing may be kept.
  void start(Psn first, std::uint8_t window);
  /// Gives every slot back, the oldest first, to `each`, which looks at it.
  template <class Each>
  void clear(Each each);

  Psn next() const { return next_; }      ///< PSN of the next new DATA
  Psn oldest() const { return oldest_; }  ///< not passed by the ack heard
  const CongestionWindow& congestion() const { return congestion_; }
  std::uint32_t in_flight() const { return flight_.size(); }
  bool idle() const { return next_ == oldest_; }

  /// Whether the next new DATA may be sent now: window, congestion, nothing overdue before it, and
  /// memory.
  bool open() const;
  /// The DATA to be sent again now, nullptr if none is or may be.
  PacketSlot* again() const;

  /// `slot` (from the pool, filled) is the next new DATA; it leaves now.
  void sent_new(PacketSlot& slot, const RoundTrip& round_trip, Time now);
  /// What again() gave leaves now.
  void sent_again(PacketSlot& slot, const RoundTrip& round_trip, Time now);
  /// T18: whether a DATA that is not acknowledged carries ASK.
  bool asks() const { return asked_ != 0; }
  /// The slot was sent with ASK.
  void asked(PacketSlot& slot);

  /// T3: whether `ack` and, of a bitmap, one past its last bit are at most next().
  bool plausible(Psn ack, std::uint32_t extent) const;

  /// What a packet tells of this flow; `bitmap` of an ACK, else nullptr.
  struct Told {
    Psn ack{};
    Marks marks{};
    std::uint8_t window = 0;
    const AckBody* bitmap = nullptr;
    Psn psn{};  ///< of an ACK: arrived last
  };
  /// T13, T19, T22: takes it, and a sample if it gives one. Newly acknowledged slots, before the
  /// ack or not, are given to `each`. Slots that the ack has passed are kept until take_passed().
  template <class Each>
  void told(const Told& told, RoundTrip& round_trip, Time now, Each each);
  /// The next slot that the ack has passed, for the caller to give to the pool; nullptr: none more.
  PacketSlot* take_passed();
  /// A DATA that was sent and is not passed by ack, nullptr if `psn` is none.
  PacketSlot* find(Psn psn);

  /// T19, T23: what is overdue at `now` leaves the flight. Returns the number of DATA that timed
  /// out with nothing acknowledged since.
  std::uint32_t expire(const RoundTrip& round_trip, Time now);
  /// When expire() has something to do, or earlier; kNever.
  Time deadline(const RoundTrip& round_trip) const;
  /// When the oldest DATA that is not acknowledged was first sent, kNever: there is none. Walks
  /// what is acknowledged out of order.
  Time oldest_sent() const;

 private:
  PacketSlot*& slot(Psn psn) { return ring_[psn.value() & mask_]; }
  PacketSlot* slot(Psn psn) const { return ring_[psn.value() & mask_]; }
  void launch(PacketSlot& slot, const RoundTrip& round_trip, Time now);
  void acknowledge(PacketSlot& slot);
  bool overtaken(const PacketSlot& slot, const RoundTrip& round_trip) const {
    return slot.order < overtaker_ && round_trip.known();
  }

  const Settings& settings_;
  PacketPool& pool_;
  std::vector<PacketSlot*> ring_;
  std::uint32_t mask_;
  Psn oldest_;
  Psn next_;
  Psn passed_;  ///< the furthest ack heard; slots before it wait for take_passed()
  Psn limit_;   ///< new DATA is before it (T13)
  Marks marks_;
  CongestionWindow congestion_;
  SlotList flight_;   ///< in the order of sending
  SlotList overdue_;  ///< in the order in which they became so
  std::uint32_t asked_ = 0;
  std::uint64_t order_ = 0;  ///< of the last sending
  /// Of the latest sending that was the only one of its DATA and is acknowledged.
  std::uint64_t overtaker_ = 0;
  std::uint64_t order_at_progress_ = 0;  ///< order_ when something was last newly acknowledged
  std::uint64_t halved_at_ = 0;          ///< T23: what was sent up to here halves no more
  Time no_time_out_before_ = kNever;     ///< as long as a time-out is not shorter than
  Duration at_time_out_{0};              ///< this one, of what was sent once
};

template <class Each>
void SendFlow::clear(Each each) {
  for (; oldest_ != next_; oldest_ += 1) {
    PacketSlot* s = slot(oldest_);
    if (!s->acknowledged) acknowledge(*s);
    each(*s);
    pool_.give(s);
  }
  passed_ = oldest_;
}

template <class Each>
void SendFlow::told(const Told& told, RoundTrip& round_trip, Time now, Each each) {
  const std::uint32_t in_flight = flight_.size();
  std::uint32_t newly = 0;
  std::optional<Time> sent;  // of the DATA that gives a sample
  const auto take = [&](PacketSlot& s) {
    if (s.times == 1 && (told.bitmap == nullptr || s.psn == told.psn)) sent = s.sent;
    acknowledge(s);
    ++newly;
    each(s);
  };
  for (; passed_.before(told.ack); passed_ += 1) {
    if (!slot(passed_)->acknowledged) take(*slot(passed_));
  }
  for (std::size_t w = 0; told.bitmap != nullptr && w < told.bitmap->words(); ++w) {
    for (std::uint32_t bits = told.bitmap->word(w); bits != 0; bits &= bits - 1) {
      const Psn psn = told.ack + static_cast<std::uint32_t>(w * kWordBits) +
                      static_cast<std::uint32_t>(__builtin_ctz(bits));
      if (!psn.before(passed_) && psn.before(next_) && !slot(psn)->acknowledged) take(*slot(psn));
    }
  }
  const Psn limit = told.ack + (std::uint32_t{1} << told.window);
  if (limit.after(limit_)) {
    limit_ = limit;
    congestion_.set_most(std::uint32_t{1} << told.window);
  }
  const std::uint32_t marks = told.marks.after(marks_) ? told.marks.since(marks_) : 0U;
  if (marks != 0) marks_ = told.marks;
  if (newly != 0) order_at_progress_ = order_;
  if (sent) {
    const Duration held{told.bitmap == nullptr ? 0 : std::int64_t{told.bitmap->held()}};
    const Duration sample = now - *sent - held;
    // A `held` that cannot be gives none.
    const bool usable =
        sample >= Duration{0} && (told.bitmap == nullptr || told.bitmap->held() != kHeldNone);
    if (usable) round_trip.sample(sample);
    if (usable && told.bitmap != nullptr) congestion_.round_sample(sample);
  }
  if (newly != 0 || marks != 0) congestion_.acknowledged(newly, marks, in_flight);
  congestion_.round_trip(passed_, next_);
}

}  // namespace mtl::transport
