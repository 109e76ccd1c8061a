#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/serial.h"
#include "base/time.h"
#include "link/codec.h"

namespace mtl::link {

/// The receiving side's sequence (L11 to L15): what is expected next, what is held out of order,
/// what is missing, and which of that has been listed by a NACK. Knows nothing of credit and CRC.
class Receiver {
 public:
  /// `window` is that of our INIT; the memory for it is allocated here.
  explicit Receiver(std::uint16_t window);

  /// Starts a session: E = H = 0. Nothing may be held (drain()).
  void reset();

  Seq expected() const { return expected_; }  ///< E
  Seq horizon() const { return horizon_; }    ///< H
  /// Frames held out of order, poisoned ones included.
  std::uint32_t held() const { return held_; }
  /// Missing frames that no NACK has listed yet, or not since their packet CRC failed (L15).
  std::uint32_t unlisted() const { return unlisted_; }

  enum class Place : std::uint8_t { kNext, kAhead, kBehind, kOutside, kHeldAlready };
  /// Where a DATA with `seq` stands (L11).
  Place place(Seq seq) const;

  /// A frame's packet CRC was wrong (L12): it is missing and not listed. True when this was the
  /// third failure of `seq`: it then counts as accepted, and the caller accepts it as poisoned.
  bool crc_failed(Seq seq);

  /// What stands in an accepted frame's place: its packet, or none if poisoned.
  struct Frame {
    Buffer* packet = nullptr;
    Vc vc{};
    std::uint16_t cells = 0;
  };
  /// Accepts the frame at kNext: E moves past it. The caller delivers it, then calls next_held().
  void accept_next();
  /// Accepts a frame at kAhead: it is held.
  void hold(Seq seq, const Frame& frame);
  /// The held frame at E, and moves E past it; false if none is held there.
  bool next_held(Frame& frame);
  /// Takes any held frame out, for the end of a session; false when nothing is held.
  bool drain(Frame& frame);

  /// L14: the peer will send `next` as its next new frame; H follows if that is within the window.
  void peer_next(Seq next);

  /// Lists what is missing and either unlisted or listed at least `age` ago, as the fewest ranges
  /// from E on (L15), and marks it listed at `now`. Returns the number of ranges; `more` says
  /// whether some did not fit.
  std::size_t list_missing(Time now, Duration age, std::span<NackRange> out, bool& more);
  /// When the oldest listing is `interval` old; kNever if nothing missing is listed. May be early
  /// (never late): oldest_listing() is exact.
  Time listing_bound() const { return oldest_bound_; }
  /// The time of the oldest listing of a frame still missing, else kNever. Walks the window.
  Time oldest_listing();

  std::size_t memory() const { return slots_.size() * sizeof(Slot); }

 private:
  enum class Content : std::uint8_t { kNothing, kPacket, kPoison };
  struct Slot {
    Buffer* packet = nullptr;
    Time listed_at{};
    std::uint16_t cells = 0;
    Vc vc{};
    Content content = Content::kNothing;
    std::uint8_t crc_failures = 0;
    bool listed = false;
  };

  Slot& slot(Seq seq) { return slots_[seq.value() & mask_]; }
  const Slot& slot(Seq seq) const { return slots_[seq.value() & mask_]; }
  void extend(Seq horizon);

  std::vector<Slot> slots_;
  std::uint16_t mask_;
  std::uint16_t window_;
  Seq expected_;
  Seq horizon_;
  std::uint32_t held_ = 0;
  std::uint32_t unlisted_ = 0;
  Time oldest_bound_ = kNever;
};

}  // namespace mtl::link
