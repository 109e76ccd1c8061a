// Loads and decisions in figures that can be checked by hand.
#include "switch/balance.h"

#include <gtest/gtest.h>

namespace mtl::switchd {
namespace {

using std::chrono::seconds;

constexpr ShardId k0{0}, k1{1}, k2{2};

PortGroup group(std::uint16_t port, ShardId worker) {
  return {{PortId(port)}, worker};
}
std::vector<PortGroup> groups(const std::vector<ShardId>& owner) {
  std::vector<PortGroup> out;
  for (const ShardId w : owner) out.push_back(group(static_cast<std::uint16_t>(out.size()), w));
  return out;
}

TEST(Load, IsTheShareOfTheIntervalAndDividedByFramesAndBytes) {
  WorkCounts before, after;
  before.at = Time(seconds(10));
  after.at = Time(seconds(12));
  before.workers = {{1000, 10, false}, {5000, 10, false}};
  after.workers = {{2000, 11, false}, {5000, 11, false}};  // of 2 s at 1000 ticks a second
  before.ports = {{100, 50'000}, {0, 0}, {7, 7}};
  // 10 frames of 1400 bytes are worth 28000 bytes, 5 of 1400 half of it.
  after.ports = {{110, 64'000}, {5, 7'000}, {7, 7}};
  const Load load = load_between(before, after, {k0, k0, k1}, 1000);
  EXPECT_EQ(load.interval, seconds(2));
  ASSERT_EQ(load.workers.size(), 2u);
  EXPECT_DOUBLE_EQ(load.workers[0], 0.5);
  EXPECT_DOUBLE_EQ(load.workers[1], 0);
  ASSERT_EQ(load.ports.size(), 3u);
  EXPECT_NEAR(load.ports[0], 0.5 * 2 / 3, 1e-12);
  EXPECT_NEAR(load.ports[1], 0.5 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(load.ports[2], 0);
}

TEST(Load, OfNoTimeIsNone) {
  WorkCounts counts;
  counts.workers = {{5, 1, false}};
  counts.ports = {{1, 1}};
  const Load load = load_between(counts, counts, {k0}, 1000);
  EXPECT_EQ(load.workers, std::vector<double>{0});
  EXPECT_EQ(load.ports, std::vector<double>{0});
  EXPECT_EQ(load.stuck, std::vector<bool>{false});
}

// The time of a pass is counted at its end: one that does not end would pass for no work at all.
TEST(Load, AWorkerThatNeitherEndsAPassNorSleepsIsStuck) {
  WorkCounts before, after;
  after.at = Time(seconds(1));
  before.workers = {{500, 7, false}, {500, 7, true}, {500, 7, false}};
  after.workers = {{500, 7, false}, {500, 7, true}, {500, 8, false}};
  const Load load = load_between(before, after, {}, 1000);
  EXPECT_EQ(load.stuck, (std::vector<bool>{true, false, false}));
  EXPECT_EQ(load.workers, (std::vector<double>{1, 0, 0}));
}

TEST(Load, ANumberOfNobodyHasNone) {
  WorkCounts before, after;
  after.at = Time(seconds(1));
  before.workers = {{0, 0, false}};
  after.workers = {{500, 1, false}};
  before.ports = {{0, 0}, {0, 0}};
  after.ports = {{3, 300}, {1, 100}};  // removed in the interval
  EXPECT_EQ(load_between(before, after, {kNoShard, k0}, 1000).ports, (std::vector<double>{0, 0.5}));
}

TEST(Load, APortThatCountsFromTheBeginningAgainHasNone) {
  WorkCounts before, after;
  after.at = Time(seconds(1));
  before.workers = {{0, 0, false}};
  after.workers = {{500, 1, false}};
  before.ports = {{100, 100}, {0, 0}};
  after.ports = {{3, 300}, {1, 100}};
  EXPECT_EQ(load_between(before, after, {k0, k0}, 1000).ports, (std::vector<double>{0, 0.5}));
}

constexpr BalanceRule kSteady = steady_rule(0.8);  // the default of docs/configuration.md

TEST(Balance, MovesThePortThatLeavesTheBusierOneLeastBusy) {
  // 0.9 against 0.1: moving 0.4 makes 0.5 and 0.5; 0.3 would make 0.6, 0.2 would make 0.7.
  const Load load{seconds(1), {0.9, 0.1}, {0.2, 0.4, 0.3, 0.1}, {}};
  auto all = groups({k0, k0, k0, k1});
  const auto move = best_move(load, all, kSteady);
  ASSERT_TRUE(move);
  EXPECT_EQ(move->group, 1u);
  EXPECT_EQ(move->from, k0);
  EXPECT_EQ(move->to, k1);
  EXPECT_DOUBLE_EQ(move->busiest_before, 0.9);
  EXPECT_DOUBLE_EQ(move->busiest_after, 0.5);
  Load next = load;
  apply(*move, all, next);
  EXPECT_EQ(all[1].worker, k1);
  EXPECT_DOUBLE_EQ(next.workers[0], 0.5);
  EXPECT_DOUBLE_EQ(next.workers[1], 0.5);
  EXPECT_FALSE(best_move(next, all, kSteady));
  EXPECT_FALSE(best_move(next, all, kAskedRule));
}

TEST(Balance, NothingMovesWhileAWorkerIsStuck) {
  Load load{seconds(1), {0.9, 0.1, 0.5}, {0.2, 0.4, 0.3, 0.1}, {false, false, false}};
  const auto all = groups({k0, k0, k0, k1});
  EXPECT_TRUE(best_move(load, all, kSteady));
  for (const std::size_t w : {0, 1, 2}) {
    load.stuck[w] = true;
    EXPECT_FALSE(best_move(load, all, kSteady)) << w;
    EXPECT_FALSE(best_move(load, all, kAskedRule)) << w;
    load.stuck[w] = false;
  }
}

// The busiest has one port, which would only be busy elsewhere; the next has three of 0.3.
TEST(Balance, WhereTheBusiestCannotBeHelpedTheNextOneIs) {
  Load load{seconds(1), {0.95, 0.90, 0.0}, {0.95, 0.30, 0.30, 0.30}, {}};
  auto all = groups({k0, k1, k1, k1});
  const auto move = best_move(load, all, kSteady);
  ASSERT_TRUE(move);
  EXPECT_EQ(move->group, 1u);
  EXPECT_EQ(move->from, k1);
  EXPECT_EQ(move->to, k2);
  EXPECT_DOUBLE_EQ(move->busiest_before, 0.90);
  EXPECT_DOUBLE_EQ(move->busiest_after, 0.60);
  apply(*move, all, load);
  EXPECT_FALSE(best_move(load, all, kSteady)) << "0.60 is not too busy";
  load.workers[1] = 0.79;
  EXPECT_FALSE(best_move(load, all, kSteady)) << "nor 0.79";
}

TEST(Balance, APortThatIsAllTheLoadStays) {
  const Load load{seconds(1), {0.95, 0.0}, {0.95, 0.0}, {}};
  EXPECT_FALSE(best_move(load, groups({k0, k0}), kSteady));
  EXPECT_FALSE(best_move(load, groups({k0, k0}), kAskedRule));
}

TEST(Balance, OfItsOwnAccordOnlyWhenAWorkerIsBusyAndAnotherMuchLess) {
  const auto two = groups({k0, k0, k1});
  const auto decide = [&](double most, double least, double port) {
    const Load load{seconds(1), {most, least}, {port, most - port, least}, {}};
    return best_move(load, two, kSteady).has_value();
  };
  EXPECT_TRUE(decide(0.81, 0.1, 0.3));
  EXPECT_FALSE(decide(0.79, 0.1, 0.3));  // not busy enough
  EXPECT_FALSE(decide(0.9, 0.61, 0.1));  // not far enough apart
  EXPECT_TRUE(decide(0.95, 0.55, 0.15));
  EXPECT_FALSE(decide(0.95, 0.55, 0.09));  // gains too little: 0.95 to 0.86
  EXPECT_FALSE(decide(0.95, 0.55, 0.33));  // 0.62 and 0.88, or, with the other, 0.33 and 1.17
}

// Whatever it decides, it does not decide the reverse next time, even if loads differ by some
// percent from one interval to the next.
TEST(Balance, DoesNotMoveToAndFro) {
  for (int i = 0; i <= 100; ++i) {
    for (int j = 0; j <= i; ++j) {
      Load load{seconds(1), {i / 100.0, 0.0}, {j / 100.0, (i - j) / 100.0}, {}};
      auto all = groups({k0, k0});
      const auto move = best_move(load, all, kSteady);
      if (!move) continue;
      apply(*move, all, load);
      for (const double noise : {-0.09, 0.0, 0.09}) {
        Load next = load;
        next.workers[move->to.value()] += noise;
        const auto back = best_move(next, all, kSteady);
        EXPECT_FALSE(back && back->group == move->group) << i << ' ' << j << ' ' << noise;
      }
    }
  }
}

TEST(Balance, PortsThatMoveTogetherCountTogether) {
  const Load load{seconds(1), {0.9, 0.1, 0.5}, {0.2, 0.2, 0.3, 0.2, 0.1, 0.5}, {}};
  const std::vector<PortGroup> all{
      {{PortId(0), PortId(1)}, k0}, group(2, k0), group(3, k0), group(4, k1), group(5, k2)};
  const auto move = best_move(load, all, kSteady);
  ASSERT_TRUE(move);
  EXPECT_EQ(move->group, 0u);
  EXPECT_EQ(move->to, k1);  // the least busy, not the one between
  EXPECT_DOUBLE_EQ(move->busiest_after, 0.5);
}

// `runtime.balance_load: 30`; the other bounds stay.
TEST(Balance, BeginsAtTheLoadThatIsConfigured) {
  const std::vector<PortGroup> all = groups({k0, k0});
  EXPECT_FALSE(best_move({seconds(1), {0.3, 0}, {0.15, 0.15}, {}}, all, steady_rule(0.3)));
  EXPECT_TRUE(best_move({seconds(1), {0.31, 0}, {0.16, 0.15}, {}}, all, steady_rule(0.3)));
  EXPECT_FALSE(best_move({seconds(1), {0.31, 0.02}, {0.16, 0.15}, {}}, all, steady_rule(0.3)));
  EXPECT_FALSE(best_move({seconds(1), {0.31, 0}, {0.25, 0.06}, {}}, all, steady_rule(0.3)));
}

}  // namespace
}  // namespace mtl::switchd
