#include "runtime/clock.h"

#include <gtest/gtest.h>

#include <ctime>

namespace mtl::runtime {
namespace {

std::int64_t kernel_nanos() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
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
