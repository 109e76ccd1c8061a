#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/time.h"

namespace mtl::runtime {

/// How a counter's ticks turn into nanoseconds, from one moment on.
struct TickRate {
  std::uint64_t first_ticks = 0;
  std::uint64_t first_nanos = 0;
  std::uint64_t scale = 0;  ///< nanoseconds per tick, times 2^kShift
  std::uint64_t hz = 0;     ///< ticks in a second
  static constexpr unsigned kShift = 32;
};

/// Measures `ticks` against `nanos` for some 10 ms. Each end of that is the tightest of several
/// readings of `nanos` between two of `ticks`, so a thread that loses its CPU between any two does
/// not make the rate wrong. None if `ticks` stands still.
std::optional<TickRate> measure_rate(const std::function<std::uint64_t()>& ticks,
                                     const std::function<std::uint64_t()>& nanos);

/// The clock of a live node: monotonic nanoseconds, read once a pass.
///
/// Where the CPU says that its time stamp counter runs at one rate through all power states, now()
/// is one RDTSC and a multiplication, with the rate measured against CLOCK_MONOTONIC by the
/// constructor; elsewhere it is clock_gettime. It starts at CLOCK_MONOTONIC and may drift from it
/// by some parts per million: all deadlines of a process use one Clock. Immutable after
/// construction: any thread.
class Clock {
 public:
  enum class Source : std::uint8_t { kBest, kKernel };

  /// Measures the rate for some 10 ms if the counter is used.
  explicit Clock(Source source = Source::kBest);

  /// Raw ticks; only differences mean something. With the kernel's clock: nanoseconds.
  std::uint64_t ticks() const { return tsc_ ? read_tsc() : kernel_nanos(); }
  /// Ticks in a second.
  std::uint64_t ticks_hz() const { return rate_.hz; }
  /// The time at which ticks() gave `ticks`; never goes back as ticks grow.
  Time at(std::uint64_t ticks) const;
  Time now() const { return at(ticks()); }
  bool uses_tsc() const { return tsc_; }

 private:
  static std::uint64_t read_tsc();
  static std::uint64_t kernel_nanos();

  bool tsc_ = false;
  TickRate rate_;
};

}  // namespace mtl::runtime
