#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "phy/pacer.h"

namespace mtl::phy {
namespace {

using std::chrono::milliseconds;

constexpr Duration kWindow = milliseconds(100);
constexpr std::uint32_t kShortest = 60;

struct Case {
  PacerConfig config;
  std::vector<std::uint32_t> lengths;  ///< of the frames, over and over
  Duration late{0};                    ///< up to so much, each time
  std::uint32_t seed = 1;
};

/// From the whole range, whatever RapidCheck's size: by itself it begins near `low`.
template <class T>
rc::Gen<T> between(T low, T high) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(low, high + 1));
}

/// Any rate, each power of ten as likely as the others. Beyond 10 Gbit/s mostly long frames, for
/// the sake of time.
Case draw(Duration most_late) {
  const auto rate = std::pow(10.0, *between(3'000, 12'000) / 1000.0);
  Case c;
  c.config.bits_per_second = std::min(static_cast<std::uint64_t>(rate), kMaxRate);
  c.config.overhead = *between<std::uint32_t>(0, kMaxOverhead);
  c.lengths = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::uint32_t>>(between<std::uint32_t>(kShortest, 65'535)));
  if (rate > 1e10) c.lengths.insert(c.lengths.end(), 4, 9'030);
  c.late = Duration(*between<std::int64_t>(0, most_late.count()));
  c.seed = *rc::gen::arbitrary<std::uint32_t>();
  return c;
}

struct Begun {
  Time at;
  std::uint64_t bytes;
};

/// What a port with an endless backlog begins in two windows and a bit, its owner late by up to
/// `c.late`.
std::vector<Begun> run(const Case& c, Pacer& pacer) {
  std::vector<Begun> out;
  std::size_t turn = 0;
  std::uint32_t random = c.seed;
  Time now{std::chrono::seconds(1)};
  const Time end = now + kWindow * 2 + c.late;
  while (now < end) {
    while (pacer.ready(now)) {
      const std::uint32_t length = c.lengths[turn++ % c.lengths.size()];
      pacer.charge(length, now);
      out.push_back({now, std::uint64_t{length} + c.config.overhead});
    }
    pacer.looked(true, now);
    random = random * 1664525 + 1013904223;
    now = std::max(pacer.next(), now + Duration(1));
    if (c.late > Duration::zero()) now += Duration(random % (c.late.count() + 1));
  }
  return out;
}

/// Bytes that the rate carries in a time.
double carries(const Case& c, Duration time) {
  return static_cast<double>(c.config.bits_per_second) * static_cast<double>(time.count()) / 8e9;
}

/// In each window that begins with a frame, and in each that ends just before one, the bytes begun
/// are at most what the rate carries in the window and `late`, and one frame; in each of the latter
/// at least what it carries without `late`, less one frame. A nanosecond more or less is that of
/// Time.
void check_windows(const Case& c, const std::vector<Begun>& begun) {
  std::uint64_t longest = 0;
  for (const std::uint32_t l : c.lengths) longest = std::max<std::uint64_t>(longest, l);
  const double frame = static_cast<double>(longest + c.config.overhead) + 1;
  const double most = carries(c, kWindow + c.late + Duration(1)) + frame;
  const double least = carries(c, kWindow - c.late - Duration(1)) - frame;
  std::size_t last = 0;
  std::uint64_t sum = 0;
  for (const Begun& first : begun) {
    for (; last < begun.size() && begun[last].at < first.at + kWindow; ++last) {
      sum += begun[last].bytes;
    }
    RC_ASSERT(static_cast<double>(sum) <= most);
    if (last == begun.size()) return;
    RC_ASSERT(static_cast<double>(sum) >= least);
    sum -= first.bytes;
  }
}

TEST(PacerProperty, AnyWindowOf100MillisecondsHasTheRateAndAtMostOneFrameMore) {
  EXPECT_TRUE(rc::check([] {
    const Case c = draw(Duration(0));
    Pacer pacer(c.config, Time(std::chrono::seconds(1)));
    const auto begun = run(c, pacer);
    check_windows(c, begun);
  }));
}

TEST(PacerProperty, AnOwnerThatIsLateLosesNothingAndBurstsByItsLatenessAlone) {
  EXPECT_TRUE(rc::check([] {
    const Case c = draw(Pacer::kCatchUp);
    Pacer pacer(c.config, Time(std::chrono::seconds(1)));
    const auto begun = run(c, pacer);
    check_windows(c, begun);
    const PacerUse use = pacer.total(pacer.next());
    RC_ASSERT(use.busy == use.backlogged);
  }));
}

// The end of the last frame is that of all bits since the first, to the nanosecond: nothing drifts.
TEST(PacerProperty, TheSumIsExact) {
  EXPECT_TRUE(rc::check([] {
    const Case c = draw(Pacer::kCatchUp);
    Pacer pacer(c.config, Time(std::chrono::seconds(1)));
    __extension__ using Wide = unsigned __int128;
    Wide bits = 0;
    for (const Begun& frame : run(c, pacer)) bits += Wide{frame.bytes} * 8;
    const Wide rate = c.config.bits_per_second;
    const auto ns = static_cast<std::int64_t>((bits * 1'000'000'000 + rate - 1) / rate);
    RC_ASSERT(pacer.next() == Time(std::chrono::seconds(1)) + Duration(ns));
  }));
}

}  // namespace
}  // namespace mtl::phy
