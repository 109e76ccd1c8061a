#include "capture/verdict.h"

#include <gtest/gtest.h>

namespace mtl::capture {
namespace {

TEST(Verdict, IsToldInWords) {
  EXPECT_EQ(describe({Outcome::kAccepted, 0}), "accepted");
  EXPECT_EQ(describe({Outcome::kHeld, 0}), "accepted, out of order: held");
  EXPECT_EQ(describe({Outcome::kNotOurs, 0}), "not ours: another EtherType");
  EXPECT_EQ(describe({Outcome::kSent, 0}), "sent");
  EXPECT_EQ(describe({Outcome::kSentAgain, 0}), "sent again");
  EXPECT_EQ(describe({Outcome::kDropped, reason(Drop::kBadHeaderCrc)}), "drop: bad_header_crc");
  EXPECT_EQ(describe({Outcome::kDropped, reason(Drop::kBadPacketCrc) | reason(Drop::kPoisoned)}),
            "drop: bad_packet_crc, poisoned");
  EXPECT_EQ(describe({Outcome::kAccepted, reason(Drop::kNoRoute)}),
            "accepted; the node dropped: no_route");
  EXPECT_EQ(describe({Outcome::kDropped, reason(Drop::kBadPacketCrc) | reason(Drop::kPoisoned) |
                                             reason(Drop::kSpoofed)}),
            "drop: bad_packet_crc, poisoned; the node dropped: spoofed");
}

TEST(Verdict, WhatMeansNothingHasNoName) {
  EXPECT_EQ(describe({static_cast<Outcome>(200), 0}), "?");
  EXPECT_EQ(describe({Outcome::kDropped, Reasons{1} << 63}), "drop: ?");
}

TEST(Verdict, DroppedIsWhatHasAReason) {
  EXPECT_FALSE(Verdict{}.dropped());
  EXPECT_FALSE((Verdict{Outcome::kSentAgain, 0}.dropped()));
  EXPECT_TRUE((Verdict{Outcome::kDropped, 0}.dropped()));
  EXPECT_TRUE((Verdict{Outcome::kAccepted, reason(Drop::kSpoofed)}.dropped()));
}

TEST(Verdict, ReasonsAreThoseThatCountMore) {
  DropCounters counters;
  counters.add(Drop::kStale, 5);
  const DropsBefore before(counters);
  EXPECT_EQ(before.grown(DropLayer::kLink), 0U);
  counters.add(Drop::kDuplicate);
  counters.add(Drop::kNoRoute);
  EXPECT_EQ(before.grown(DropLayer::kLink), reason(Drop::kDuplicate));
  EXPECT_EQ(before.grown(DropLayer::kNetwork), reason(Drop::kNoRoute));
  EXPECT_EQ(before.grown(DropLayer::kPhy), 0U);
}

}  // namespace
}  // namespace mtl::capture
