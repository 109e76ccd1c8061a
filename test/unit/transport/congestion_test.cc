// The arithmetic of T19 and T22 to T25, worked out by hand.
#include "transport/congestion.h"

#include <gtest/gtest.h>

#include "transport/round_trip.h"

namespace mtl::transport {
namespace {

using namespace std::chrono_literals;

CongestionWindow started(std::uint32_t first, std::uint32_t most = 256, Duration target = 0ns) {
  CongestionWindow w;
  w.start(first, most, target);
  return w;
}

TEST(Congestion, T22_SlowStartRaisesByWhatIsAcknowledged) {
  auto w = started(16);
  w.acknowledged(4, 0, 16);
  EXPECT_EQ(w.packets(), 20u);
  EXPECT_TRUE(w.slow_start());
}

TEST(Congestion, T22_AMarkEndsSlowStartAndLowersByHalfAPacket) {
  auto w = started(16);
  w.acknowledged(1, 1, 16);
  EXPECT_FALSE(w.slow_start());
  EXPECT_EQ(w.in_256ths(), 16u * 256 - 128);
  // From then on by (n - m) / cwnd: 8 / 15.5 packets is 132.1 of 256.
  w.acknowledged(8, 0, 15);
  EXPECT_EQ(w.in_256ths(), 16u * 256 - 128 + 132);
}

TEST(Congestion, T22_RaisesByTheDifferenceOfAcksAndMarks) {
  auto w = started(16);
  w.acknowledged(4, 2, 16);  // 16 - 1 = 15, then 2 / 15 packets: 34.1 of 256
  EXPECT_EQ(w.in_256ths(), 15u * 256 + 34);
}

TEST(Congestion, T22_NotRaisedWhereLessThanHalfWasInFlight) {
  auto w = started(16);
  w.acknowledged(4, 0, 7);
  EXPECT_EQ(w.packets(), 16u);
  w.acknowledged(4, 0, 8);
  EXPECT_EQ(w.packets(), 20u);
}

TEST(Congestion, T22_StaysWithin1AndWhatIsTold) {
  auto w = started(16, 20);
  w.acknowledged(16, 0, 16);
  EXPECT_EQ(w.packets(), 20u);
  w.acknowledged(1, 1000, 20);
  EXPECT_EQ(w.in_256ths(), 256u);
  w.set_most(4);
  w.acknowledged(0, 0, 1);
  EXPECT_EQ(started(16, 4).packets(), 4u);
}

// Settles at two marks in a round trip: so many lower it by one packet, as all the acks of a round
// trip raise it.
TEST(Congestion, T22_TwoMarksInARoundTripKeepItWhereItIs) {
  auto w = started(50);
  w.acknowledged(1, 1, 50);
  const std::uint32_t before = w.in_256ths();
  for (int round = 0; round < 20; ++round) {
    const std::uint32_t packets = w.packets();
    for (std::uint32_t i = 0; i < packets; ++i) w.acknowledged(1, i < 2 ? 1 : 0, packets);
  }
  EXPECT_NEAR(w.in_256ths(), before, 2 * 256);
}

TEST(Congestion, T23_HalvesAndEndsSlowStart) {
  auto w = started(16);
  w.timed_out();
  EXPECT_EQ(w.packets(), 8u);
  EXPECT_FALSE(w.slow_start());
  for (int i = 0; i < 10; ++i) w.timed_out();
  EXPECT_EQ(w.packets(), 1u);
}

TEST(Congestion, T24_LowersByTheExcessOfTheLowestSampleOfARound) {
  auto w = started(16, 256, 100us);
  w.round_trip(Psn{0}, Psn{16});  // a round begins, 16 being next
  w.round_sample(300us);
  w.round_sample(200us);
  w.round_trip(Psn{16}, Psn{20});  // 16 itself is not acknowledged yet
  EXPECT_EQ(w.packets(), 16u);
  w.round_trip(Psn{17}, Psn{33});
  EXPECT_EQ(w.packets(), 12u);  // 16 x (200 - 100) / 400 less
  EXPECT_FALSE(w.slow_start());
  w.round_sample(300us);
  w.round_sample(99us);
  w.round_trip(Psn{34}, Psn{50});
  EXPECT_EQ(w.packets(), 12u);  // one sample was not above
}

TEST(Congestion, T24_OffUnlessATargetIsSet) {
  auto w = started(16);
  w.round_trip(Psn{0}, Psn{16});
  w.round_sample(300us);
  w.round_trip(Psn{17}, Psn{33});
  EXPECT_EQ(w.packets(), 16u);
}

// T25 allows others; ours lowers on each mark by half a packet and raises by a packet in a round
// trip at most.
TEST(Congestion, T25_OursIsThePages) {
  auto w = started(64);
  w.acknowledged(1, 1, 64);
  const std::uint32_t before = w.in_256ths();
  for (int i = 0; i < 63; ++i) w.acknowledged(1, 0, 63);
  EXPECT_LE(w.in_256ths(), before + 256);
}

TEST(RoundTripEstimate, T19_AsInRfc6298) {
  const Timers timers;
  RoundTrip r(timers);
  EXPECT_EQ(r.timeout(1), 10ms);
  r.sample(800us);
  EXPECT_EQ(r.srtt(), 800us);
  EXPECT_EQ(r.var(), 400us);
  r.sample(1600us);  // var: 400 + (800 - 400) / 4, srtt: 800 + 800 / 8
  EXPECT_EQ(r.var(), 500us);
  EXPECT_EQ(r.srtt(), 900us);
  EXPECT_EQ(r.timeout(1), 900us + 2000us + 50us);
  EXPECT_EQ(r.timeout(2), 2 * 2950us);
  EXPECT_EQ(r.timeout(20), 100ms);
  EXPECT_EQ(r.reordering(), 2900us);
  r.sample(-1us);  // a peer's `held` that cannot be
  EXPECT_EQ(r.srtt(), 900us);
}

TEST(RoundTripEstimate, T19_ReorderingIsAllowedAtLeast20Microseconds) {
  const Timers timers;
  RoundTrip r(timers);
  for (int i = 0; i < 200; ++i) r.sample(8us);
  EXPECT_LT(4 * r.var(), 20us);
  EXPECT_EQ(r.reordering(), 28us);
}

}  // namespace
}  // namespace mtl::transport
