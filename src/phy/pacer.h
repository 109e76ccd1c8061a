#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace mtl::phy {

/// Bits per second.
inline constexpr std::uint64_t kMinRate = 1'000;
inline constexpr std::uint64_t kMaxRate = 1'000'000'000'000;
/// What Ethernet takes beside a frame: preamble and start 8, frame check sequence 4, gap 12 bytes.
inline constexpr std::uint32_t kEthernetOverhead = 24;
inline constexpr std::uint32_t kMaxOverhead = 255;

/// A rate, and what counts: a frame takes the wire for as long as its Ethernet header, link header,
/// packet, padding and `overhead` take at the rate.
struct PacerConfig {
  std::uint64_t bits_per_second = kMaxRate;
  std::uint32_t overhead = kEthernetOverhead;  ///< bytes of each frame beside FrameOut::length()

  friend bool operator==(const PacerConfig&, const PacerConfig&) = default;
};

/// What is wrong with `config` (out of range), or nullptr.
const char* fault(const PacerConfig& config);

/// How long a frame of `length` bytes takes the wire, rounded down to a nanosecond.
Duration wire_time(const PacerConfig& config, std::uint32_t length);

/// What a pacer saw in a span of time. achieved / configured rate = busy / backlogged; utilisation
/// = busy / time (what was made up for from an earlier span may bring it above 1).
struct PacerUse {
  Duration time{0};  ///< of the span
  Duration busy{0};  ///< of that, taken by frames at the configured rate
  /// Of that, busy, or lost: a frame waited, and it is too late to make up for it.
  Duration backlogged{0};
  std::uint64_t bytes = 0;  ///< of frames that were begun, overhead included
};

/// Says when a port may send, so that it sends no faster than a given rate, the same in a running
/// port and in the simulator. Sans I/O, one thread, nothing is allocated.
///
/// A frame is sent when the wire is free, and takes it for its wire time. What an integer of
/// nanoseconds cannot hold is carried on, so the rate is exact over any time: in any span W in
/// which the owner looks at every next(), at most rate * W and one frame are begun, and while there
/// is something to send at least rate * W less one frame.
///
/// An idle port saves up nothing: what comes then is sent from then on. An owner that comes late to
/// a frame that waits loses nothing as long as it is late by no more than kCatchUp: the next frames
/// follow at once until the port is back on its schedule, so that a span has up to kCatchUp's worth
/// more. What is beyond is lost, and shows in PacerUse as backlogged time without traffic.
class Pacer {
 public:
  static constexpr Duration kCatchUp = std::chrono::milliseconds(10);
  static constexpr Duration kInterval = std::chrono::seconds(1);  ///< of last()

  /// `config` is without fault(). The wire is free from `now` on.
  Pacer(const PacerConfig& config, Time now);

  /// The frame that is under way at another rate takes the wire for what is left of it at this one.
  /// Before anything else.
  void take_over(const Pacer& former);

  /// From when on a frame may be sent.
  Time next() const { return rest_ == 0 ? free_ : free_ + Duration(1); }
  bool ready(Time now) const { return next() <= now; }
  /// A frame of `length` bytes (FrameOut::length()) is sent at `now`; only if ready(). `now` never
  /// runs back. The wire is free again at next().
  void charge(std::uint32_t length, Time now);
  /// The owner has looked, and sent what it could: whether a frame waits. To be called after each
  /// look, whatever it found.
  void looked(bool waits, Time now);

  /// From the beginning up to `now`.
  PacerUse total(Time now) const;
  /// The last full interval: of at least kInterval, and as long as it takes to the next look. Until
  /// there is one, total().
  PacerUse last(Time now) const { return last_.time > Duration::zero() ? last_ : total(now); }

  const PacerConfig& config() const { return config_; }

 private:
  PacerConfig config_;
  Time begun_;
  Time free_;               ///< when the wire is free, but for rest_
  std::uint64_t rest_ = 0;  ///< part of a nanosecond, in 1 / bits_per_second
  bool waits_ = false;      ///< a frame waits since the last look
  Duration wire_{0};        ///< wire time of all frames
  Duration lost_{0};        ///< time in which a frame waited and the schedule was given up
  std::uint64_t bytes_ = 0;
  PacerUse mark_;  ///< total() when the running interval began
  PacerUse last_;
};

}  // namespace mtl::phy
