// Which lane of a trunk a packet takes: order within a flow, spread, and what a lost lane does.
#include "network/trunk.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace mtl::network::test {
namespace {

constexpr Trunk::Longest kLong{1500, 1500, 1500, 1500, 1500, 1500, 1500, 1500};

/// Queues as the test says.
struct Queues final : LaneQueues {
  std::uint64_t queued_bytes(PortId lane) const override {
    const auto found = bytes.find(lane);
    return found == bytes.end() ? 0 : found->second;
  }
  std::map<PortId, std::uint64_t> bytes;
};

/// A trunk over ports 4, 5, ..., all of them usable.
class TrunkLanes : public testing::Test {
 protected:
  static Trunk make(std::size_t lanes, Spread spread) {
    TrunkConfig config{{}, spread};
    for (std::size_t i = 0; i < lanes; ++i)
      config.lanes.emplace_back(static_cast<std::uint16_t>(4 + i));
    Trunk trunk(config);
    for (std::size_t i = 0; i < lanes; ++i) trunk.set_lane(i, true, kLong);
    return trunk;
  }
  std::uint16_t take(Trunk& trunk, unsigned bucket) {
    return trunk.take(static_cast<std::uint8_t>(bucket), queues).value();
  }
  Queues queues;
};

TEST_F(TrunkLanes, EachLaneHasItsShareOfTheFlows) {
  Trunk trunk = make(4, Spread::kFlow);
  for (unsigned b = 0; b < Trunk::kBuckets; ++b) take(trunk, b);
  for (const Trunk::Lane& lane : trunk.lanes()) {
    EXPECT_EQ(lane.flows, 64u);  // 256 / 4
    EXPECT_EQ(lane.packets.get(), 64u);
  }
  EXPECT_EQ(trunk.moves(), 0u);
}

// Rules: N8
TEST_F(TrunkLanes, ABucketIsMadeOfBitsThatN8UsesLast) {
  // Of two hops N8 takes the top bit; the buckets below each are the same ones.
  EXPECT_EQ(Trunk::bucket_of(0x000000AB), 0xAB);
  EXPECT_EQ(Trunk::bucket_of(0x800000AB), 0xAB);
}

TEST_F(TrunkLanes, AFlowStaysWhileSomethingOfItIsUnderWay) {
  Trunk trunk = make(2, Spread::kShortestQueue);
  queues.bytes = {{PortId{4}, 100}, {PortId{5}, 0}};
  EXPECT_EQ(take(trunk, 7), 5);
  queues.bytes = {{PortId{4}, 0}, {PortId{5}, 9000}};
  EXPECT_EQ(take(trunk, 7), 5);
  trunk.gone(7);
  EXPECT_EQ(take(trunk, 7), 5) << "one of two is still under way";
  trunk.gone(7);
  trunk.gone(7);
  EXPECT_EQ(take(trunk, 7), 4) << "nothing is: the shortest queue";
  EXPECT_EQ(trunk.moves(), 1u);
  EXPECT_EQ(trunk.forced_moves(), 0u);
}

TEST_F(TrunkLanes, EqualQueuesAreTakenInTurn) {
  Trunk trunk = make(3, Spread::kShortestQueue);
  std::vector<int> lanes;
  for (unsigned b = 0; b < 6; ++b) lanes.push_back(take(trunk, b));
  EXPECT_EQ(lanes, (std::vector<int>{4, 5, 6, 4, 5, 6}));
  // The shortest one wins whoever's turn it is.
  queues.bytes = {{PortId{4}, 2}, {PortId{5}, 2}, {PortId{6}, 1}};
  EXPECT_EQ(take(trunk, 6), 6);
  EXPECT_EQ(take(trunk, 7), 6);
}

// Rules: N9
TEST_F(TrunkLanes, WhatALostLaneHandsBackGoesOnInOrderByOneOther) {
  Trunk trunk = make(3, Spread::kFlow);
  const std::uint16_t home = take(trunk, 9);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(take(trunk, 9), home);
  trunk.set_lane(home - 4u, false, {});
  std::set<std::uint16_t> lanes;
  for (int i = 0; i < 5; ++i) {  // L9 hands back, N9 routes at once: one after the other
    trunk.gone(9);
    lanes.insert(take(trunk, 9));
  }
  EXPECT_EQ(lanes.size(), 1u);
  EXPECT_FALSE(lanes.contains(home));
  EXPECT_EQ(trunk.moves(), 1u);
  EXPECT_EQ(trunk.forced_moves(), 1u);
}

TEST_F(TrunkLanes, AReturnedLaneGetsItsFlowsBackAsTheyFallIdle) {
  Trunk trunk = make(2, Spread::kFlow);
  const std::uint16_t home = take(trunk, 3);
  trunk.set_lane(home - 4u, false, {});
  trunk.gone(3);
  const std::uint16_t other = take(trunk, 3);
  ASSERT_NE(other, home);
  trunk.set_lane(home - 4u, true, kLong);
  EXPECT_EQ(take(trunk, 3), other) << "its packets are under way by the other lane";
  trunk.gone(3);
  trunk.gone(3);
  EXPECT_EQ(take(trunk, 3), home);
}

TEST_F(TrunkLanes, ALostLaneMovesNoFlowOfAnother) {
  Trunk trunk = make(4, Spread::kFlow);
  std::map<unsigned, std::uint16_t> before;
  for (unsigned b = 0; b < Trunk::kBuckets; ++b) {
    before[b] = take(trunk, b);
    trunk.gone(static_cast<std::uint8_t>(b));
  }
  trunk.set_lane(1, false, {});
  for (unsigned b = 0; b < Trunk::kBuckets; ++b) {
    const std::uint16_t now = take(trunk, b);
    EXPECT_TRUE(before[b] == 5 ? now != 5 : now == before[b]) << b;
  }
  for (const Trunk::Lane& lane : trunk.lanes()) {  // 64 flows spread over three lanes
    EXPECT_GE(lane.flows, lane.port == PortId{5} ? 0u : 64u + 21);
  }
  EXPECT_EQ(trunk.moves(), 64u);
  EXPECT_EQ(trunk.forced_moves(), 64u);
}

// Rules: N7
TEST_F(TrunkLanes, TheTrunkTakesWhatEveryUsableLaneTakes) {
  Trunk trunk = make(3, Spread::kFlow);
  Trunk::Longest less = kLong;
  less[2] = 64;
  trunk.set_lane(1, true, less);
  EXPECT_EQ(trunk.longest()[2], 64u);
  EXPECT_EQ(trunk.longest()[0], 1500u);
  trunk.set_lane(1, false, {});
  EXPECT_EQ(trunk.longest()[2], 1500u) << "only usable lanes count";
  trunk.set_lane(0, false, {});
  EXPECT_EQ(trunk.usable_lanes(), 1u);
  trunk.set_lane(2, false, {});
  EXPECT_EQ(trunk.longest(), Trunk::Longest{});
  EXPECT_EQ(trunk.usable_lanes(), 0u);
}

// Rules: N7
TEST(NameLeaders, AnyLaneMeansTheTrunkAndWeightsAreKept) {
  const std::vector<TrunkConfig> trunks{{{PortId{2}, PortId{3}, PortId{4}}, Spread::kFlow}};
  std::vector<Route> routes{
      {NodeId{9}, {{{PortId{2}, 0}, {PortId{3}, 0}, {PortId{1}, 0}}, {{PortId{4}, 1}}}}};
  name_leaders(trunks, routes);
  const std::vector<Route> expected{
      {NodeId{9}, {{{PortId{2}, 0}, {PortId{2}, 0}, {PortId{1}, 0}}, {{PortId{2}, 1}}}}};
  EXPECT_EQ(routes, expected);
}

}  // namespace
}  // namespace mtl::network::test
