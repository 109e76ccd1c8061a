#include "transport/round_trip.h"

#include <algorithm>

namespace mtl::transport {
namespace {

constexpr Duration kLeastReordering = std::chrono::microseconds(20);

}  // namespace

void RoundTrip::sample(Duration rtt) {
  if (rtt < Duration{0}) return;
  if (!known_) {
    srtt_ = rtt;
    var_ = rtt / 2;
    known_ = true;
    return;
  }
  const Duration off = srtt_ > rtt ? srtt_ - rtt : rtt - srtt_;
  var_ += (off - var_) / 4;
  srtt_ += (rtt - srtt_) / 8;
}

Duration RoundTrip::reordering() const {
  return srtt_ + std::max(4 * var_, kLeastReordering);
}

Duration RoundTrip::timeout(std::uint32_t n) const {
  Duration rto = timers_.rto_first;
  if (known_) rto = std::max(timers_.rto_min, srtt_ + 4 * var_ + timers_.ack_delay);
  for (std::uint32_t i = 1; i < n && rto < timers_.rto_max; ++i) rto *= 2;
  return std::min(rto, timers_.rto_max);
}

}  // namespace mtl::transport
