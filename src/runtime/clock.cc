#include "runtime/clock.h"

#include <ctime>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace mtl::runtime {
namespace {

constexpr std::uint64_t kNanosPerSecond = 1'000'000'000;
/// Long enough that the readings' uncertainty (some 100 ns) is 10 parts per million.
constexpr std::uint64_t kCalibrationNanos = 10'000'000;
constexpr int kReadings = 16;

/// Both counters at one moment, as nearly as can be told.
struct Reading {
  std::uint64_t ticks;
  std::uint64_t nanos;
};

Reading tightest(const std::function<std::uint64_t()>& ticks,
                 const std::function<std::uint64_t()>& nanos) {
  Reading best{};
  std::uint64_t least = ~std::uint64_t{0};
  std::uint64_t before = ticks();
  for (int i = 0; i < kReadings; ++i) {
    const std::uint64_t between = nanos();
    const std::uint64_t after = ticks();
    if (after - before < least) {
      least = after - before;
      best = {before + least / 2, between};
    }
    before = after;
  }
  return best;
}

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

std::optional<TickRate> measure_rate(const std::function<std::uint64_t()>& ticks,
                                     const std::function<std::uint64_t()>& nanos) {
  const Reading first = tightest(ticks, nanos);
  while (nanos() - first.nanos < kCalibrationNanos) {
  }
  const Reading last = tightest(ticks, nanos);
  const auto elapsed_ticks = static_cast<unsigned __int128>(last.ticks - first.ticks);
  const auto elapsed_nanos = static_cast<unsigned __int128>(last.nanos - first.nanos);
  if (elapsed_ticks == 0) return std::nullopt;
  TickRate rate;
  rate.first_ticks = first.ticks;
  rate.first_nanos = first.nanos;
  rate.scale = static_cast<std::uint64_t>((elapsed_nanos << TickRate::kShift) / elapsed_ticks);
  rate.hz = static_cast<std::uint64_t>(elapsed_ticks * kNanosPerSecond / elapsed_nanos);
  return rate;
}

Clock::Clock(Source source) {
  rate_.hz = kNanosPerSecond;
  if (source != Source::kBest || !invariant_tsc()) return;
  const auto rate = measure_rate(read_tsc, kernel_nanos);
  if (!rate) return;  // a counter that stands still: the kernel is believed instead
  tsc_ = true;
  rate_ = *rate;
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

Time Clock::at(std::uint64_t ticks) const {
  if (!tsc_) return Time(Duration(static_cast<std::int64_t>(ticks)));
  // Counters of two CPUs may be apart by a few ticks: before the first reading is the first
  // reading.
  const std::uint64_t since = ticks < rate_.first_ticks ? 0 : ticks - rate_.first_ticks;
  const auto nanos = static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(since) * rate_.scale) >> TickRate::kShift);
  return Time(Duration(static_cast<std::int64_t>(rate_.first_nanos + nanos)));
}

}  // namespace mtl::runtime
