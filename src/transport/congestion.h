#pragma once

#include <cstdint>

#include "base/time.h"
#include "transport/ids.h"

namespace mtl::transport {

/// The congestion window of one flow (T22 to T24), in packets and 256ths.
class CongestionWindow {
 public:
  /// `first` packets, in slow start; `rtt_target` 0: off (T24).
  void start(std::uint32_t first, std::uint32_t most, Duration rtt_target);

  std::uint32_t packets() const { return window_ >> 8; }
  std::uint32_t in_256ths() const { return window_; }
  bool slow_start() const { return slow_start_; }

  /// What the peer told: 2^window.
  void set_most(std::uint32_t packets);
  /// T22: an ack newly acknowledged `n` packets and told `marks` new marks, while `in_flight` were
  /// (before it).
  void acknowledged(std::uint32_t n, std::uint32_t marks, std::uint32_t in_flight);
  /// T23.
  void timed_out();
  /// T24: a sample by an ACK.
  void round_sample(Duration rtt);
  /// T24: all before `ack` is acknowledged, and `next` would be sent next.
  void round_trip(Psn ack, Psn next);

 private:
  void set(std::uint32_t window);

  std::uint32_t window_ = 256;
  std::uint32_t most_ = 256;
  bool slow_start_ = true;
  Duration target_{0};
  Duration lowest_ = Duration::max();  ///< of the round
  bool round_begun_ = false;
  Psn round_end_{};
};

}  // namespace mtl::transport
