#pragma once

#include "base/time.h"
#include "transport/settings.h"

namespace mtl::transport {

/// The estimate of a connection's round trip and what follows from it (T19, RFC 6298).
class RoundTrip {
 public:
  explicit RoundTrip(const Timers& timers) : timers_(timers) {}
  void reset() { known_ = false; }

  /// A sample; below 0 (a peer whose `held` cannot be) it is ignored.
  void sample(Duration rtt);
  bool known() const { return known_; }
  Duration srtt() const { return srtt_; }
  Duration var() const { return var_; }

  /// (a): how long a packet may be overtaken by later ones. Only when known().
  Duration reordering() const;
  /// (b): how long to wait for an ack of what was sent for the nth time, n from 1.
  Duration timeout(std::uint32_t n) const;

 private:
  const Timers& timers_;
  bool known_ = false;
  Duration srtt_{0};
  Duration var_{0};
};

}  // namespace mtl::transport
