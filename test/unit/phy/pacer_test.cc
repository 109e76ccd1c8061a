#include "phy/pacer.h"

#include <gtest/gtest.h>

namespace mtl::phy {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::uint64_t kMega = 1'000'000;
constexpr std::uint64_t kTera = 1'000'000 * kMega;
constexpr Time kStart{seconds(7)};

/// 9030 + 24 bytes are 72,432 bits: at 160 Mbit/s 452.7 us.
constexpr std::uint32_t kLong = 9030;
constexpr PacerConfig kScaled{160 * kMega, kEthernetOverhead};
constexpr Duration kSlot = nanoseconds(452'700);

/// Sends frames of `length` while the pacer lets it; how many.
unsigned send_all(Pacer& pacer, std::uint32_t length, Time now) {
  unsigned n = 0;
  for (; pacer.ready(now); ++n) pacer.charge(length, now);
  pacer.looked(true, now);
  return n;
}

TEST(Pacer, AFrameTakesTheWireForItsBytesAndTheOverhead) {
  Pacer pacer(kScaled, kStart);
  EXPECT_TRUE(pacer.ready(kStart));
  pacer.charge(kLong, kStart);
  EXPECT_EQ(pacer.next(), kStart + kSlot);
  EXPECT_FALSE(pacer.ready(kStart + kSlot - nanoseconds(1)));
  EXPECT_TRUE(pacer.ready(kStart + kSlot));

  Pacer bare({160 * kMega, 0}, kStart);
  bare.charge(kLong, kStart);
  EXPECT_EQ(bare.next(), kStart + nanoseconds(451'500));  // 72,240 bits
}

// 100,000 / 452.7 is 220.9: frames begin at 0, 452.7, ... 99,594 us.
TEST(Pacer, ABacklogGetsTheRateOver100Milliseconds) {
  Pacer pacer(kScaled, kStart);
  unsigned frames = 0;
  for (Time now = kStart; now < kStart + milliseconds(100); now = pacer.next()) {
    frames += send_all(pacer, kLong, now);
  }
  EXPECT_EQ(frames, 221u);
  EXPECT_EQ(pacer.next(), kStart + 221 * kSlot);
  EXPECT_EQ(pacer.total(pacer.next()).bytes, 221u * 9054u);
}

// 480 bits at 7 Mbit/s are 68,571 3/7 ns: what is left of each nanosecond is carried on.
TEST(Pacer, PartsOfANanosecondAreNotLost) {
  Pacer pacer({7 * kMega, 0}, kStart);
  const std::int64_t expected[] = {68'572, 137'143, 205'715, 274'286, 342'858, 411'429, 480'000};
  for (const std::int64_t ns : expected) {
    pacer.charge(60, pacer.next());
    EXPECT_EQ(pacer.next(), kStart + nanoseconds(ns));
  }
  for (int i = 0; i < 6'999'993; ++i) pacer.charge(60, pacer.next());
  EXPECT_EQ(pacer.next(), kStart + seconds(480));  // 7 million frames
}

// 84 bytes are 672 bits: 0.672 ns at 1 Tbit/s, 672 ms at 1 kbit/s.
TEST(Pacer, KeepsTheSlowestAndTheFastestRate) {
  Pacer fast({kMaxRate, kEthernetOverhead}, kStart);
  ASSERT_EQ(kMaxRate, kTera);
  fast.charge(60, kStart);
  EXPECT_EQ(fast.next(), kStart + nanoseconds(1));
  for (int i = 1; i < 1000; ++i) fast.charge(60, fast.next());
  EXPECT_EQ(fast.next(), kStart + nanoseconds(672));

  Pacer slow({kMinRate, kEthernetOverhead}, kStart);
  slow.charge(60, kStart);
  EXPECT_EQ(slow.next(), kStart + milliseconds(672));
  slow.charge(65'535, slow.next());  // 65,559 bytes
  EXPECT_EQ(slow.next(), kStart + milliseconds(672) + milliseconds(524'472));
}

TEST(Pacer, AnIdlePortSavesUpNothing) {
  Pacer pacer(kScaled, kStart);
  pacer.charge(kLong, kStart);
  pacer.looked(false, kStart);
  const Time later = kStart + seconds(5);
  EXPECT_EQ(send_all(pacer, kLong, later), 1u);
  EXPECT_EQ(pacer.next(), later + kSlot);
}

// Late by 5 ms: frames were due at 1, 2, ... 12 times 452.7 us (5,432.4), and go at once.
TEST(Pacer, WhoComesLateToABacklogCatchesUp) {
  Pacer pacer(kScaled, kStart);
  EXPECT_EQ(send_all(pacer, kLong, kStart), 1u);
  EXPECT_EQ(send_all(pacer, kLong, kStart + kSlot + milliseconds(5)), 12u);
  EXPECT_EQ(pacer.next(), kStart + 13 * kSlot);
  const PacerUse use = pacer.total(pacer.next());
  EXPECT_EQ(use.busy, 13 * kSlot);
  EXPECT_EQ(use.backlogged, 13 * kSlot);
}

// Late by 25 ms: 10 ms are made up for, 15 are lost. 10,000 / 452.7 is 22.09.
TEST(Pacer, CatchesUpWithNoMoreThanItsLimit) {
  Pacer pacer(kScaled, kStart);
  EXPECT_EQ(send_all(pacer, kLong, kStart), 1u);
  EXPECT_EQ(send_all(pacer, kLong, kStart + kSlot + milliseconds(25)), 23u);
  EXPECT_EQ(pacer.next(), kStart + 24 * kSlot + milliseconds(15));
  const PacerUse use = pacer.total(pacer.next());
  EXPECT_EQ(use.busy, 24 * kSlot);
  EXPECT_EQ(use.backlogged, 24 * kSlot + milliseconds(15));
  EXPECT_EQ(use.time, use.backlogged);
}

// The frame that waited went 400 us late, and none is left with which to make up for it.
TEST(Pacer, WhatIsLateAtTheEndOfABacklogCountsAsLost) {
  Pacer pacer(kScaled, kStart);
  EXPECT_EQ(send_all(pacer, kLong, kStart), 1u);
  const Time late = kStart + 2 * kSlot + microseconds(400);
  ASSERT_TRUE(pacer.ready(late));
  pacer.charge(kLong, late);
  pacer.looked(false, late);
  EXPECT_EQ(pacer.next(), late);
  const PacerUse use = pacer.total(late + seconds(1));
  EXPECT_EQ(use.busy, 2 * kSlot);
  EXPECT_EQ(use.backlogged, 2 * kSlot + microseconds(400));
}

TEST(Pacer, CountsUpToNowAlone) {
  Pacer pacer(kScaled, kStart);
  EXPECT_EQ(send_all(pacer, kLong, kStart), 1u);
  PacerUse use = pacer.total(kStart + microseconds(100));
  EXPECT_EQ(use.time, microseconds(100));
  EXPECT_EQ(use.busy, microseconds(100));
  EXPECT_EQ(use.backlogged, microseconds(100));
  // A frame waits, and nobody has come to send it: 10 ms can be made up for.
  use = pacer.total(kStart + kSlot + milliseconds(10));
  EXPECT_EQ(use.busy, kSlot);
  EXPECT_EQ(use.backlogged, kSlot);
  use = pacer.total(kStart + kSlot + milliseconds(11));
  EXPECT_EQ(use.busy, kSlot);
  EXPECT_EQ(use.backlogged, kSlot + milliseconds(1));
}

// A frame of 452.7 us every millisecond: in use 45.27 %, and the rate is kept.
TEST(Pacer, UtilisationIsOfTimeAndTheRateOfTheBacklog) {
  Pacer pacer(kScaled, kStart);
  EXPECT_EQ(pacer.last(kStart).time, Duration::zero());
  for (int ms = 0; ms <= 1000; ++ms) {
    const Time now = kStart + milliseconds(ms);
    ASSERT_TRUE(pacer.ready(now));
    pacer.charge(kLong, now);
    pacer.looked(false, now);
  }
  // The interval ended with the look at 1000 ms, when the frame of then was under way for no time.
  const PacerUse last = pacer.last(kStart + milliseconds(1500));
  EXPECT_EQ(last.time, seconds(1));
  EXPECT_EQ(last.busy, microseconds(452'700));
  EXPECT_EQ(last.backlogged, last.busy);
  EXPECT_EQ(last.bytes, 1001u * 9054u);

  pacer.looked(false, kStart + milliseconds(2500));
  EXPECT_EQ(pacer.last(kStart + seconds(9)).time, milliseconds(1500));
  EXPECT_EQ(pacer.last(kStart + seconds(9)).busy, kSlot);
}

TEST(Pacer, TellsHowLongAFrameTakes) {
  EXPECT_EQ(wire_time(kScaled, kLong), kSlot);
  EXPECT_EQ(wire_time({kMega, 0}, 9000), milliseconds(72));
}

TEST(Pacer, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(fault({}), nullptr);
  EXPECT_EQ(fault({1'000, 0}), nullptr);
  EXPECT_EQ(fault({kTera, 255}), nullptr);
  EXPECT_NE(fault({0, 24}), nullptr);
  EXPECT_NE(fault({999, 24}), nullptr);
  EXPECT_NE(fault({kTera + 1, 24}), nullptr);
  EXPECT_NE(fault({kMega, 256}), nullptr);
}

}  // namespace
}  // namespace mtl::phy
