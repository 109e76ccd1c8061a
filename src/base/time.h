#pragma once

#include <chrono>
#include <cstdint>

namespace mtl {

/// The clock of a node: nanoseconds since an instant of the owner's choice. It has no now(): the
/// core never reads a clock, the owner (worker, simulator, replayer) passes the time in.
struct FabricClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<FabricClock>;
  static constexpr bool is_steady = true;
};

using Time = FabricClock::time_point;
using Duration = std::chrono::nanoseconds;

/// A deadline that never comes.
inline constexpr Time kNever = Time::max();

/// Nanoseconds of `t`, for the wire's 32-bit clock (L19) and for printing.
constexpr std::int64_t nanos(Time t) {
  return t.time_since_epoch().count();
}

/// The low 32 bits of the clock, as STATUS carries them (section 3.3).
constexpr std::uint32_t wire_clock(Time t) {
  return static_cast<std::uint32_t>(nanos(t));
}

}  // namespace mtl
