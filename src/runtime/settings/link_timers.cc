#include "runtime/settings/link_timers.h"

#include <algorithm>
#include <limits>

namespace mtl::runtime {
namespace {

/// Microseconds to a Duration; what does not fit becomes the longest there is.
Duration micros(std::uint64_t us) {
  constexpr std::uint64_t kMost = 1'000'000ULL * 3600 * 24 * 365;
  return std::chrono::microseconds(static_cast<std::int64_t>(std::min(us, kMost)));
}

std::uint16_t clamp16(std::uint32_t value) {
  return static_cast<std::uint16_t>(
      std::min<std::uint32_t>(value, std::numeric_limits<std::uint16_t>::max()));
}

}  // namespace

link::Timers link_timers(const mtlink::config::Timers& m) {
  link::Timers t =
      m.profile() == mtlink::config::Timers::FAST ? link::Timers{} : link::lab_timers();
  if (m.has_init_interval_us()) t.init_interval = micros(m.init_interval_us());
  if (m.has_keepalive_interval_us()) t.keepalive_interval = micros(m.keepalive_interval_us());
  if (m.has_dead_interval_us()) t.dead_interval = micros(m.dead_interval_us());
  if (m.has_ack_every()) t.ack_every = clamp16(m.ack_every());
  if (m.has_ack_delay_us()) t.ack_delay = micros(m.ack_delay_us());
  if (m.has_replay_timeout_us()) t.replay_timeout = micros(m.replay_timeout_us());
  if (m.has_replay_limit()) t.replay_limit = m.replay_limit();
  if (m.has_nack_interval_us()) t.nack_interval = micros(m.nack_interval_us());
  if (m.has_hold_down_us()) t.hold_down = micros(m.hold_down_us());
  if (m.has_adaptive()) t.adaptive = m.adaptive();
  return t;
}

}  // namespace mtl::runtime
