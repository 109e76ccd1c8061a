#include "runtime/clock.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <ctime>
#include <functional>

namespace mtl::runtime {
namespace {

std::int64_t kernel_nanos() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// Two counters of one scripted time. Reading either takes a while, and at chosen readings the
// reader loses its CPU, before or after the value is taken.
struct Scripted {
  static constexpr double kTicksPerNano = 2.5;
  static constexpr double kReadNanos = 20;
  double now = 1e9;
  int reads = 0;
  std::function<double(int)> lost_before;  // at the nth reading, nanoseconds

  double at() {
    now += kReadNanos / 2 + lost_before(reads++);
    const double read = now;
    now += kReadNanos / 2;
    return read;
  }
  std::uint64_t ticks() { return static_cast<std::uint64_t>(at() * kTicksPerNano); }
  std::uint64_t nanos() { return static_cast<std::uint64_t>(at()); }
};

double measured_hz(const std::function<double(int)>& lost_before) {
  Scripted scripted;
  scripted.lost_before = lost_before;
  const auto rate =
      measure_rate([&] { return scripted.ticks(); }, [&] { return scripted.nanos(); });
  if (!rate) return 0;
  EXPECT_NEAR(static_cast<double>(rate->first_ticks),
              static_cast<double>(rate->first_nanos) * Scripted::kTicksPerNano, 100);
  EXPECT_NEAR(static_cast<double>(rate->scale) / 4294967296.0 * static_cast<double>(rate->hz), 1e9,
              10);
  return static_cast<double>(rate->hz);
}

constexpr double kTrueHz = Scripted::kTicksPerNano * 1e9;
constexpr double kTenPpm = kTrueHz / 1e5;

TEST(TickRate, IsThatOfTheCounter) {
  EXPECT_NEAR(measured_hz([](int) { return 0.0; }), kTrueHz, kTenPpm);
}

// 4 ms without the CPU, a time slice of another, at each single reading of the calibration in turn:
// in the first readings, while it waits, and, since they end it, in the last.
TEST(TickRate, OneLostTimeSliceAnywhereChangesNothing) {
  int all = 0;
  measured_hz([&](int) { return ++all, 0.0; });
  ASSERT_GT(all, 100);
  for (int at = 0; at < all; at = at < 60 || at > all - 60 ? at + 1 : at + 9973) {
    EXPECT_NEAR(measured_hz([&](int n) { return n == at ? 4e6 : 0.0; }), kTrueHz, kTenPpm) << at;
  }
}

TEST(TickRate, ManyLostTimeSlicesChangeNothing) {
  EXPECT_NEAR(measured_hz([](int n) { return n % 5 == 0 ? 4e6 : 0.0; }), kTrueHz, kTenPpm);
}

TEST(TickRate, ACounterThatStandsStillHasNone) {
  std::uint64_t now = 0;
  EXPECT_FALSE(measure_rate([] { return 7; }, [&] { return now += 1000; }));
}

class ClockOf : public testing::TestWithParam<Clock::Source> {};

TEST_P(ClockOf, NeverGoesBack) {
  const Clock clock(GetParam());
  Time last = clock.now();
  for (int i = 0; i < 100'000; ++i) {
    const Time now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

// However long the machine keeps this thread from running, a reading of the clock lies between two
// of the kernel's, but for the error of the calibration: far below 1 % of the time since.
TEST_P(ClockOf, RunsAtTheKernelsRate) {
  const Clock clock(GetParam());
  const std::int64_t start = kernel_nanos();
  std::int64_t before = 0, now = 0, after = 0;
  do {
    before = kernel_nanos();
    now = nanos(clock.now());
    after = kernel_nanos();
  } while (after - start < 50'000'000);
  const std::int64_t error = (after - start) / 100 + 100'000;
  EXPECT_GE(now, before - error);
  EXPECT_LE(now, after + error);
}

TEST_P(ClockOf, TurnsTicksOfASecondIntoASecond) {
  const Clock clock(GetParam());
  const std::uint64_t ticks = clock.ticks();
  const Duration second = clock.at(ticks + clock.ticks_hz()) - clock.at(ticks);
  EXPECT_NEAR(static_cast<double>(second.count()), 1e9, 1e3);
}

INSTANTIATE_TEST_SUITE_P(Sources, ClockOf,
                         testing::Values(Clock::Source::kBest, Clock::Source::kKernel));

}  // namespace
}  // namespace mtl::runtime
