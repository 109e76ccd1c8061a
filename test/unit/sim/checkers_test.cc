#include "sim/checkers.h"

#include <gtest/gtest.h>

#include <chrono>

#include "plain_fabric.h"

namespace mtl::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(Checkers, AQuietFabricHasNothingToSay) {
  PlainFabric plain(make_line(3, 1));
  plain.run(milliseconds(1));
  ASSERT_TRUE(plain.fabric().all_usable());
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(plain.send(0, 2));
  plain.run(milliseconds(1));
  plain.checkers().check_end();
  plain.end();
  EXPECT_FALSE(plain.checkers().violations().any());
  EXPECT_EQ(plain.checkers().summary().delivered, 20u);
}

TEST(Checkers, BooksThatDoNotBalance) {
  network::ShardCounters counters;
  EXPECT_TRUE(books_balance(counters, 0));
  counters.accepted.add(3);
  counters.made.add();
  counters.passed_in.add();
  counters.acked.add();
  counters.delivered.add();
  counters.drops.add(Drop::kNoRoute);
  counters.passed_out.add();
  EXPECT_TRUE(books_balance(counters, 1));
  EXPECT_FALSE(books_balance(counters, 0));
  counters.drops.add(Drop::kNoBuffer);  // was never made
  EXPECT_TRUE(books_balance(counters, 1));
}

// The way back is silent: the credit of what was consumed is lost, and found to be; the next
// keepalive brings it (L23).
TEST(Checkers, L23_ALostCreditIsFoundAndHeals) {
  PlainFabric plain(make_pair(1, true));
  plain.run(milliseconds(1));
  plain.fabric().wire(0).impair(1, {.drop_ppm = 1'000'000});
  ASSERT_TRUE(plain.send(0, 1));
  plain.run(microseconds(200));
  plain.checkers().check_credits();
  EXPECT_TRUE(plain.violated("credit"));

  PlainFabric healed(make_pair(1, true));
  healed.run(milliseconds(1));
  healed.fabric().wire(0).impair(1, {.drop_ppm = 1'000'000});
  ASSERT_TRUE(healed.send(0, 1));
  healed.run(microseconds(200));
  healed.fabric().wire(0).impair(1, {});
  healed.run(milliseconds(20));
  healed.checkers().check_credits();
  EXPECT_FALSE(healed.checkers().violations().any());
}

TEST(Checkers, AFrameThatNobodyCounted) {
  PlainFabric plain(make_pair(1, true));
  plain.run(milliseconds(1));
  ++plain.fabric().node(0).slot(PortId(0)).given;
  plain.end();
  EXPECT_TRUE(plain.violated("counters"));
}

TEST(Checkers, ADropThatNothingExplains) {
  PlainFabric plain(make_line(3, 1));
  plain.run(milliseconds(1));
  plain.fabric().node(1).set_routes({});  // behind the checkers' back
  ASSERT_TRUE(plain.send(0, 2));
  plain.run(milliseconds(1));
  EXPECT_TRUE(plain.violated("drop"));
}

TEST(Checkers, ABufferThatNeverComesBack) {
  FabricPlan plan = PlainFabric::plan_of(make_pair(1, true));
  plan.nodes[1].leak_ppm = 1'000'000;
  PlainFabric plain(plan);
  plain.run(milliseconds(1));
  ASSERT_TRUE(plain.send(0, 1));
  plain.run(milliseconds(1));
  plain.checkers().check_end();
  EXPECT_TRUE(plain.violated("leak"));
}

TEST(Checkers, ARestartLosesWhatWasInsideAndNothingElse) {
  FabricPlan plan = PlainFabric::plan_of(make_line(3, 1));
  PlainFabric plain(plan);
  plain.run(milliseconds(1));
  plain.fabric().set_enabled({1, PortId(1)}, false);
  plain.run(microseconds(10));
  plain.fabric().set_enabled({1, PortId(1)}, true);
  plain.fabric().wire(1).cut(false, false);  // what node 1 has for node 2 stays in node 1
  plain.run(microseconds(1));
  ASSERT_TRUE(plain.send(0, 2));
  plain.run(milliseconds(5));
  plain.fabric().halt_node(1, true);
  plain.fabric().boot_node(1);
  plain.fabric().wire(1).restore();
  plain.run(milliseconds(100));
  ASSERT_TRUE(plain.fabric().all_usable());
  plain.checkers().check_end();
  plain.end();
  EXPECT_FALSE(plain.checkers().violations().any());
}

TEST(Checkers, L12_APoisonedPacketEndsAsSuch) {
  PlainFabric plain(make_line(3, 1));
  plain.run(milliseconds(1));
  ASSERT_TRUE(plain.send(0, 2, 100, true));
  plain.run(milliseconds(10));
  plain.checkers().check_end();
  plain.end();
  EXPECT_FALSE(plain.checkers().violations().any());
  EXPECT_EQ(plain.checkers().summary().poisoned, 1u);
  EXPECT_EQ(plain.checkers().summary().delivered, 0u);
}

TEST(Summary, SaysWhatNeverHappened) {
  Summary summary;
  EXPECT_FALSE(summary.missing_kinds(false).empty());
  EXPECT_GT(summary.missing_kinds(true).size(), summary.missing_kinds(false).size());
  const std::size_t before = summary.missing_kinds(false).size();
  summary.seq_wraps = 1;
  summary.drop(Drop::kStale) = 1;
  EXPECT_EQ(summary.missing_kinds(false).size(), before - 2);
}

}  // namespace
}  // namespace mtl::sim
