#include "runtime/clock.h"

#include <ctime>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace mtl::runtime {
namespace {

constexpr std::uint64_t kNanosPerSecond = 1'000'000'000;
/// Long enough that the two clock reads' jitter (some 100 ns) is 10 parts per million.
constexpr std::uint64_t kCalibrationNanos = 10'000'000;

/// CPUID 8000_0007h, EDX bit 8: the counter keeps its rate in all P-, C- and T-states.
bool invariant_tsc() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

}  // namespace

Clock::Clock(Source source) : tsc_(source == Source::kBest && invariant_tsc()) {
  first_nanos_ = kernel_nanos();
  if (tsc_) calibrate();
}

std::uint64_t Clock::read_tsc() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return kernel_nanos();
#endif
}

std::uint64_t Clock::kernel_nanos() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * kNanosPerSecond +
         static_cast<std::uint64_t>(t.tv_nsec);
}

void Clock::calibrate() {
  first_nanos_ = kernel_nanos();
  first_ticks_ = read_tsc();
  std::uint64_t nanos = first_nanos_;
  std::uint64_t ticks = first_ticks_;
  while (nanos - first_nanos_ < kCalibrationNanos) {
    nanos = kernel_nanos();
    ticks = read_tsc();
  }
  const auto elapsed_ticks = static_cast<unsigned __int128>(ticks - first_ticks_);
  const auto elapsed_nanos = static_cast<unsigned __int128>(nanos - first_nanos_);
  if (elapsed_ticks == 0) {  // a counter that stands still: believe the kernel instead
    tsc_ = false;
    return;
  }
  scale_ = static_cast<std::uint64_t>((elapsed_nanos << kShift) / elapsed_ticks);
  hz_ = static_cast<std::uint64_t>(elapsed_ticks * kNanosPerSecond / elapsed_nanos);
}

Time Clock::at(std::uint64_t ticks) const {
  if (!tsc_) return Time(Duration(static_cast<std::int64_t>(ticks)));
  // Counters of two CPUs may be apart by a few ticks: before the first reading is the first
  // reading.
  const std::uint64_t since = ticks < first_ticks_ ? 0 : ticks - first_ticks_;
  const auto nanos =
      static_cast<std::uint64_t>((static_cast<unsigned __int128>(since) * scale_) >> kShift);
  return Time(Duration(static_cast<std::int64_t>(first_nanos_ + nanos)));
}

}  // namespace mtl::runtime
