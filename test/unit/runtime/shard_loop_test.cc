#include "runtime/shard_loop.h"

#include <gtest/gtest.h>

#include <memory>

#include "test/unit/runtime/wire.h"

namespace mtl::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::node_config;
using test::routes;
using test::TestNode;
using test::Wire;
using test::WirePort;

constexpr PortId kPort0{0};
constexpr PortId kPort1{1};

/// Nodes 1 - 2 - 3 in a row; the middle one has ports 0 (to 1) and 1 (to 3).
class Row : public testing::Test {
 protected:
  Row() {
    left.loop.attach(kPort0, left_port, now);
    middle.loop.attach(kPort0, middle_left, now);
    middle.loop.attach(kPort1, middle_right, now);
    right.loop.attach(kPort0, right_port, now);
    for (TestNode* node : {&left, &middle, &right}) {
      for (const PortId port : node->shard.ports()) node->shard.enable(port, now);
    }
  }

  /// Passes of all nodes, a microsecond of virtual time between two rounds.
  void run(Duration time) {
    for (const Time end = now + time; now < end; now += microseconds(1)) {
      left.loop.pass(now);
      middle.loop.pass(now);
      right.loop.pass(now);
    }
  }
  void come_up() {
    run(milliseconds(1));
    ASSERT_TRUE(left.shard.link(kPort0)->usable());
    ASSERT_TRUE(middle.shard.link(kPort0)->usable());
    ASSERT_TRUE(middle.shard.link(kPort1)->usable());
    ASSERT_TRUE(right.shard.link(kPort0)->usable());
  }
  static std::uint64_t data_out(const TestNode& node, PortId port) {
    return node.shard.link(port)->counters().frames_out[0].get();
  }

  Time now{microseconds(1)};
  Wire left_wire, right_wire;
  TestNode left{node_config(1, 1), routes({{2, 0}, {3, 0}}, 1)};
  TestNode middle{node_config(2, 2), routes({{1, 0}, {3, 1}}, 2)};
  TestNode right{node_config(3, 1), routes({{1, 0}, {2, 0}}, 1)};
  WirePort left_port{left_wire.a_to_b, left_wire.b_to_a, left.pool};
  WirePort middle_left{left_wire.b_to_a, left_wire.a_to_b, middle.pool};
  WirePort middle_right{right_wire.a_to_b, right_wire.b_to_a, middle.pool};
  WirePort right_port{right_wire.b_to_a, right_wire.a_to_b, right.pool};
};

TEST_F(Row, BringsLinksUpAndForwards) {
  come_up();
  for (std::uint32_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(left.send(3, i, 100, now));
    run(microseconds(5));
  }
  run(milliseconds(1));
  EXPECT_EQ(right.delivered_count, 100u);
  EXPECT_EQ(right.last_number, 100u);
  EXPECT_EQ(middle.shard.counters().forwarded.get(), 100u);
  EXPECT_EQ(middle.shard.held(), 0u);
}

// A frame that comes in on one port leaves on the other in the same pass, whichever port is first.
TEST_F(Row, ForwardsWithinOnePassInEitherDirection) {
  come_up();
  ASSERT_TRUE(left.send(3, 1, 100, now));
  ASSERT_TRUE(right.send(1, 1, 100, now));
  left.loop.pass(now);
  right.loop.pass(now);
  const std::uint64_t left_before = data_out(middle, kPort0);
  const std::uint64_t right_before = data_out(middle, kPort1);
  EXPECT_TRUE(middle.loop.pass(now));
  EXPECT_EQ(data_out(middle, kPort0), left_before + 1);
  EXPECT_EQ(data_out(middle, kPort1), right_before + 1);
}

TEST_F(Row, TellsWhetherAnythingWasDoneAndFlushesEachPass) {
  come_up();
  run(milliseconds(1));  // acks and credit have been told
  const unsigned flushes = middle_left.flushes;
  EXPECT_FALSE(middle.loop.pass(now));
  EXPECT_EQ(middle_left.flushes, flushes + 1);
  ASSERT_TRUE(left.send(2, 1, 10, now));
  EXPECT_TRUE(left.loop.pass(now));
}

// L26: a frame is made only when the port has room; until then it waits as a packet.
TEST_F(Row, L26_PullsNothingWhileThePortHasNoRoom) {
  come_up();
  run(milliseconds(1));
  left_port.limit = 0;
  const std::uint64_t before = data_out(left, kPort0);
  ASSERT_TRUE(left.send(2, 7, 10, now));
  left.loop.pass(now);
  EXPECT_EQ(data_out(left, kPort0), before);
  EXPECT_EQ(left.shard.link(kPort0)->queued(), 1u);
  EXPECT_TRUE(left.loop.wants_to_send());
  EXPECT_FALSE(left.loop.has_bells()) << "no bell rings when room comes back";

  left_port.limit = 1;
  left.loop.pass(now);
  EXPECT_EQ(data_out(left, kPort0), before + 1);
  EXPECT_EQ(left.shard.link(kPort0)->queued(), 0u);
}

TEST_F(Row, SendsNoMoreThanThereIsRoomFor) {
  come_up();
  run(milliseconds(1));
  left_port.limit = 3;
  for (std::uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(left.send(2, i, 10, now));
  const std::uint64_t before = data_out(left, kPort0);
  left.loop.pass(now);
  EXPECT_EQ(data_out(left, kPort0), before + 3);
}

// Ports on one device that has little room: each gets its part of it.
TEST_F(Row, PortsTakeTurnsAtTheRoomThatTheyShare) {
  come_up();
  run(milliseconds(1));
  for (std::uint32_t i = 0; i < 12; ++i) {
    ASSERT_TRUE(middle.send(1, i, 10, now));
    ASSERT_TRUE(middle.send(3, i, 10, now));
  }
  unsigned room = 0;
  middle_left.common = middle_right.common = &room;
  const std::uint64_t left_before = data_out(middle, kPort0);
  const std::uint64_t right_before = data_out(middle, kPort1);
  for (int pass = 0; pass < 12; ++pass) {
    room = 1;
    middle.loop.pass(now);
  }
  EXPECT_EQ(data_out(middle, kPort0) - left_before, 6u);
  EXPECT_EQ(data_out(middle, kPort1) - right_before, 6u);
}

TEST_F(Row, CarrierLossTakesTheLinkDownAndItsReturnBringsItUp) {
  come_up();
  left_port.up = false;
  left.loop.pass(now);
  EXPECT_EQ(left.shard.link(kPort0)->state(), link::State::kDown);
  EXPECT_EQ(left.shard.link(kPort0)->down_reason(), link::DownReason::kNoCarrier);
  left_port.up = true;
  run(milliseconds(20));  // the peer learns of it by the new INIT (L7)
  EXPECT_TRUE(left.shard.link(kPort0)->usable());
  EXPECT_TRUE(middle.shard.link(kPort0)->usable());
}

TEST_F(Row, DetachIsLossOfCarrierAndAnotherMediumMayFollow) {
  come_up();
  EXPECT_EQ(left.loop.detach(kPort0, now), &left_port);
  EXPECT_EQ(left.loop.detach(kPort0, now), nullptr);
  EXPECT_EQ(left.shard.link(kPort0)->down_reason(), link::DownReason::kNoCarrier);
  EXPECT_TRUE(left.loop.media().empty());
  const std::uint64_t sent = left_port.counters().frames_out.get();
  run(milliseconds(20));
  EXPECT_EQ(left_port.counters().frames_out.get(), sent);

  WirePort other(left_wire.a_to_b, left_wire.b_to_a, left.pool);
  left.loop.attach(kPort0, other, now);
  run(milliseconds(20));
  EXPECT_TRUE(left.shard.link(kPort0)->usable());
  EXPECT_GT(other.counters().frames_out.get(), 0u);
}

TEST_F(Row, KnowsTheNextDeadlineOfLinksAndOfDelayedFrames) {
  come_up();
  run(milliseconds(1));
  const Time links = left.loop.next_deadline();
  EXPECT_GT(links, now);
  EXPECT_LT(links, kNever);

  phy::ImpairmentConfig slow;
  slow.delay = microseconds(300);
  left.loop.set_impairment(kPort0, std::make_unique<phy::Impairment>(slow, 64), now);
  ASSERT_TRUE(middle.send(1, 5, 10, now));
  middle.loop.pass(now);
  left.loop.pass(now);
  EXPECT_EQ(left.delivered_count, 0u);
  EXPECT_LE(left.loop.next_deadline(), now + microseconds(300));
  now += microseconds(300);
  EXPECT_TRUE(left.loop.pass(now));
  EXPECT_EQ(left.delivered_count, 1u);
}

TEST_F(Row, AnImpairmentActsOnWhatArrivesAndEndsWhenItIsTakenAway) {
  come_up();
  phy::ImpairmentConfig all;
  all.drop_ppm = 1'000'000;
  EXPECT_EQ(left.loop.set_impairment(kPort0, std::make_unique<phy::Impairment>(all, 64), now),
            nullptr);
  ASSERT_TRUE(middle.send(1, 5, 10, now));
  run(microseconds(100));
  EXPECT_EQ(left.delivered_count, 0u);
  const auto former = left.loop.set_impairment(kPort0, nullptr, now);
  ASSERT_NE(former, nullptr);
  EXPECT_GT(former->counters().dropped.get(), 0u);
  run(milliseconds(10));  // L17 sends it again
  EXPECT_EQ(left.delivered_count, 1u);
}

TEST_F(Row, FramesThatAFormerImpairmentHeldGoOnToTheLink) {
  come_up();
  phy::ImpairmentConfig slow;
  slow.delay = milliseconds(900);
  left.loop.set_impairment(kPort0, std::make_unique<phy::Impairment>(slow, 64), now);
  ASSERT_TRUE(middle.send(1, 5, 10, now));
  run(microseconds(10));
  ASSERT_EQ(left.delivered_count, 0u);
  left.loop.set_impairment(kPort0, nullptr, now);
  EXPECT_EQ(left.delivered_count, 1u);
}

// C2: what the shard says in one number is not after what any of its links says, whatever has
// happened, and after a pass it has not passed.
TEST_F(Row, C2_NoLinksDeadlineComesBeforeTheShards) {
  for (int round = 0; round < 4000; ++round) {
    if (round % 7 == 0) left.send(3, static_cast<std::uint32_t>(round), 100, now);
    if (round % 11 == 0) right.send(1, static_cast<std::uint32_t>(round), 10, now);
    left_port.up = round / 1000 % 2 == 0;
    run(microseconds(3));
    for (TestNode* node : {&left, &middle, &right}) {
      ASSERT_GT(node->shard.next_deadline(), now - microseconds(1)) << round;
      for (const PortId port : node->shard.ports()) {
        ASSERT_LE(node->shard.next_deadline(), node->shard.link(port)->next_deadline()) << round;
      }
    }
  }
  EXPECT_GT(right.delivered_count, 0u);
}

// Each expired timer is an event of its own whose frames leave before the next one is looked at.
TEST_F(Row, FiresEveryDueTimerInOnePass) {
  come_up();
  run(milliseconds(1));
  const std::uint64_t before = middle.shard.link(kPort0)->counters().frames_out[1].get() +
                               middle.shard.link(kPort1)->counters().frames_out[1].get();
  now += milliseconds(10);  // keepalive_interval of both links
  middle.loop.pass(now);
  EXPECT_EQ(middle.shard.link(kPort0)->counters().frames_out[1].get() +
                middle.shard.link(kPort1)->counters().frames_out[1].get(),
            before + 2);
}

// Ports at rest are to cost those at work little; and whoever speaks again is heard soon.
TEST_F(Row, APortAtRestIsLookedAtLessOftenWhileOthersWork) {
  middle_right.pretend_to_keep();
  middle.loop.attach(kPort1, middle_right, now);
  come_up();
  // Nothing comes from the right, and the left does not cease to speak.
  const auto work = [&](unsigned passes) {
    for (unsigned i = 0; i < passes; ++i) {
      ASSERT_TRUE(left.send(2, i, 10, now));
      left.loop.pass(now);
      EXPECT_TRUE(middle.loop.pass(now));
      left.loop.pass(now);
      now += microseconds(1);
    }
  };
  work(ShardLoop::kRestAfter);
  unsigned left_looks = middle_left.looks;
  unsigned right_looks = middle_right.looks;
  work(40);
  EXPECT_EQ(middle_left.looks - left_looks, 40u) << "it may lose frames, and has some";
  EXPECT_EQ(middle_right.looks - right_looks, 40u / ShardLoop::kRestFor);

  ASSERT_TRUE(right.send(1, 77, 10, now));
  right.loop.pass(now);
  work(ShardLoop::kRestFor);
  EXPECT_EQ(left.last_number, 77u);
  left_looks = middle_left.looks;
  right_looks = middle_right.looks;
  work(8);
  EXPECT_EQ(middle_right.looks - right_looks, 8u) << "not at rest any more";

  run(milliseconds(2));  // all acks are told: nobody has anything to do
  right_looks = middle_right.looks;
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(middle.loop.pass(now));
  EXPECT_EQ(middle_right.looks - right_looks, 8u) << "while nobody works there is time";
}

/// A tick source that counts its readings: each lap takes a tick, so a stage's ticks are its laps.
class Measured : public Row {
 protected:
  bool pass(std::uint64_t gap) {
    const std::uint64_t began = tick;
    tick += gap;  // as if so long had passed before the pass
    return middle.loop.measured_pass(now, ticks, began);
  }
  std::uint64_t ticks_of(Stage stage) const {
    return middle.loop.stages().ticks[static_cast<std::size_t>(stage)].get();
  }
  std::uint64_t frames_of(Stage stage) const {
    return middle.loop.stages().frames[static_cast<std::size_t>(stage)].get();
  }
  std::uint64_t all_ticks() const {
    std::uint64_t sum = 0;
    for (const Counter& counter : middle.loop.stages().ticks) sum += counter.get();
    return sum;
  }

  std::uint64_t tick = 1000;
  TickSource ticks = [this] { return ++tick; };
};

TEST_F(Measured, EachTickOfAPassBelongsToOneStage) {
  come_up();
  run(milliseconds(1));
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(left.send(3, i, 100, now));
  left.loop.pass(now);
  const std::uint64_t before = tick;
  EXPECT_TRUE(pass(500));
  EXPECT_EQ(all_ticks(), tick - before) << "from the end of the one before to the last reading";
  EXPECT_EQ(middle.loop.stages().passes.get(), 1u);
  // One lap each pass, and what passed before it.
  EXPECT_EQ(ticks_of(Stage::kWorker), 501u);
  EXPECT_EQ(ticks_of(Stage::kRings), 1u);
  EXPECT_EQ(ticks_of(Stage::kTimers), 1u);
  EXPECT_EQ(ticks_of(Stage::kOwner), 1u);
  // One a port.
  EXPECT_EQ(ticks_of(Stage::kDeviceReceive), 2u);
  EXPECT_EQ(ticks_of(Stage::kLinkReceive), 2u);
  EXPECT_EQ(ticks_of(Stage::kFlush), 2u);
  // One a frame, and for link_send the look at each port that finds no more: three DATA to the
  // right.
  EXPECT_EQ(ticks_of(Stage::kLinkSend), 5u);
  EXPECT_EQ(ticks_of(Stage::kDeviceSend), 3u);
}

TEST_F(Measured, CountsTheFramesOfEachStage) {
  come_up();
  run(milliseconds(1));
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(left.send(3, i, 100, now));
  left.loop.pass(now);
  pass(0);
  for (const Stage stage : {Stage::kDeviceReceive, Stage::kLinkReceive, Stage::kLinkSend,
                            Stage::kDeviceSend, Stage::kFlush}) {
    EXPECT_EQ(frames_of(stage), 3u) << name(stage);
  }
  for (const Stage stage : {Stage::kWorker, Stage::kRings, Stage::kTimers, Stage::kOwner}) {
    EXPECT_EQ(frames_of(stage), 0u) << name(stage);
  }
}

TEST_F(Measured, PassesThatDoNothingAreNotCounted) {
  come_up();
  run(milliseconds(1));
  EXPECT_FALSE(pass(100));
  EXPECT_EQ(middle.loop.stages().passes.get(), 0u);
  EXPECT_EQ(all_ticks(), 0u);
}

TEST_F(Measured, FramesOfATimerAreSendsAndNotTheTimers) {
  come_up();
  run(milliseconds(1));
  now += milliseconds(10);  // keepalive_interval of both links: two events, two STATUS
  EXPECT_TRUE(pass(0));
  EXPECT_EQ(ticks_of(Stage::kTimers), 3u) << "each of the two, and the look that finds no more";
  EXPECT_EQ(frames_of(Stage::kLinkSend), 2u);
  EXPECT_EQ(frames_of(Stage::kDeviceSend), 2u);
}

TEST_F(Measured, BeginsFromNothingAndDoesWhatAnyPassDoes) {
  come_up();
  run(milliseconds(1));
  ASSERT_TRUE(left.send(3, 7, 100, now));
  left.loop.pass(now);
  pass(0);
  right.loop.pass(now);
  EXPECT_EQ(right.last_number, 7u);
  middle.loop.clear_stages();
  EXPECT_EQ(middle.loop.stages().passes.get(), 0u);
  EXPECT_EQ(all_ticks(), 0u);
  EXPECT_EQ(frames_of(Stage::kLinkSend), 0u);
}

// A node of two shards, a port each: what comes in on one shard's port leaves on the other's, and
// the credit comes back (L20).
TEST(Shards, CarryPacketsAndReturnsToEachOther) {
  Time now{microseconds(1)};
  Wire left_wire, right_wire;
  TestNode left(node_config(1, 1), routes({{3, 0}}, 1));
  TestNode right(node_config(3, 1), routes({{1, 0}}, 1));
  network::Node node(node_config(2, 2, 2));
  TestNode a(node.config(), routes({{1, 0}, {3, 1}}, 2), 0, &node);
  TestNode b(node.config(), routes({{1, 0}, {3, 1}}, 2), 1, &node);
  BufferRing a_to_b(2048), b_to_a(2048);
  a.ring_to[1] = &a_to_b;
  b.ring_to[0] = &b_to_a;
  b.loop.add_ring(a_to_b);
  a.loop.add_ring(b_to_a);
  WirePort left_port(left_wire.a_to_b, left_wire.b_to_a, left.pool);
  WirePort a_port(left_wire.b_to_a, left_wire.a_to_b, a.pool);
  WirePort b_port(right_wire.a_to_b, right_wire.b_to_a, b.pool);
  WirePort right_port(right_wire.b_to_a, right_wire.a_to_b, right.pool);
  left.loop.attach(kPort0, left_port, now);
  a.loop.attach(kPort0, a_port, now);
  b.loop.attach(kPort1, b_port, now);
  right.loop.attach(kPort0, right_port, now);
  left.shard.enable(kPort0, now);
  a.shard.enable(kPort0, now);
  b.shard.enable(kPort1, now);
  right.shard.enable(kPort0, now);
  const auto round = [&] {
    for (TestNode* n : {&left, &a, &b, &right}) n->loop.pass(now);
    now += microseconds(1);
  };
  for (int i = 0; i < 1000; ++i) round();
  ASSERT_TRUE(left.shard.link(kPort0)->usable());
  ASSERT_TRUE(right.shard.link(kPort0)->usable());

  // More packets than the ingress port has cells, so that returns must have come.
  for (std::uint32_t sent = 0; sent < 200;) {
    if (left.send(3, sent + 1, 100, now)) ++sent;
    round();
  }
  for (int i = 0; i < 2000; ++i) round();
  EXPECT_EQ(right.delivered_count, 200u);
  EXPECT_EQ(right.last_number, 200u);
  EXPECT_EQ(a.shard.link(kPort0)->occupied(Vc(0)), 0u);
  EXPECT_FALSE(a.loop.waiting());
  EXPECT_FALSE(b.loop.waiting());

  // Port 0 moves over to b with all that belongs to it, and nobody notices.
  a.loop.set_impairment(kPort0, std::make_unique<phy::Impairment>(phy::ImpairmentConfig{}, 16),
                        now);
  a.loop.set_pacer(kPort0, std::make_unique<phy::Pacer>(phy::PacerConfig{1'000'000'000, 24}, now));
  for (std::uint32_t sent = 200; sent < 250; ++sent) {
    ASSERT_TRUE(left.send(3, sent + 1, 100, now));
    left.loop.pass(now);
  }
  a.loop.pass(now);
  node.set_owner(kPort0, ShardId(1));
  a.loop.take_in(now);
  ShardLoop::MovingPort moving = a.loop.take(kPort0);
  EXPECT_TRUE(a.loop.media().empty());
  EXPECT_EQ(a.shard.link(kPort0), nullptr);
  EXPECT_TRUE(b.loop.waiting());
  b.loop.take_in(now);
  EXPECT_FALSE(b.loop.waiting());
  b.loop.put(std::move(moving), now);
  EXPECT_EQ(b.loop.media().size(), 2u);
  EXPECT_EQ(b.loop.medium(kPort0), &a_port);
  EXPECT_NE(b.loop.impairment(kPort0), nullptr);
  EXPECT_NE(b.loop.pacer(kPort0), nullptr);
  for (int i = 0; i < 2000; ++i) round();
  EXPECT_EQ(right.delivered_count, 250u);
  EXPECT_EQ(right.last_number, 250u);
  EXPECT_EQ(b.shard.link(kPort0)->counters().ups.get(), 1u);
  EXPECT_EQ(b.shard.link(kPort0)->occupied(Vc(0)), 0u);
  EXPECT_EQ(left.shard.link(kPort0)->counters().ups.get(), 1u);
}

}  // namespace
}  // namespace mtl::runtime
