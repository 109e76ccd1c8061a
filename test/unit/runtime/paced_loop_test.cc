// A port of a loop with a rate, in virtual time: woken at next_deadline() and never else.

#include <gtest/gtest.h>

#include <memory>

#include "phy/pacer.h"
#include "runtime/shard_loop.h"
#include "test/unit/runtime/wire.h"

namespace mtl::runtime {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using test::node_config;
using test::routes;
using test::TestNode;
using test::Wire;
using test::WirePort;

constexpr PortId kPort{0};
constexpr std::uint64_t kRate = 100'000'000;
/// A datagram of 1,400 bytes is a packet of 1,416, a frame of 1,446, and with what Ethernet puts
/// beside it 1,470 bytes or 11,760 bits: 117.6 us at 100 Mbit/s.
constexpr std::size_t kDatagram = 1400;
constexpr std::uint64_t kOnWire = 1470;
constexpr Duration kSlot = nanoseconds(117'600);

network::NodeConfig roomy(network::NodeConfig config) {
  for (network::PortConfig& port : config.ports) port.link.capacity.fill(256);
  return config;
}

class Paced : public testing::Test {
 protected:
  Paced() {
    port.pretend_bell();
    peer_port.pretend_bell();
    node.loop.attach(kPort, port, now);
    peer.loop.attach(kPort, peer_port, now);
    for (TestNode* n : {&node, &peer}) n->shard.enable(kPort, now);
    run_for(milliseconds(1));
    EXPECT_TRUE(node.shard.link(kPort)->usable());
  }

  void pace() {
    node.loop.set_pacer(kPort, std::make_unique<phy::Pacer>(phy::PacerConfig{kRate}, now));
  }
  const phy::Pacer& pacer() { return *node.loop.pacer(kPort); }

  /// Keeps packets in the link's queue.
  void submit(unsigned most) {
    while (node.shard.link(kPort)->queued() < most && node.send(2, 1, kDatagram, now)) {
    }
  }

  /// Passes of both until neither has anything to do.
  void settle() {
    for (bool busy = true; busy;) {
      busy = node.loop.pass(now);
      busy |= peer.loop.pass(now);
      ++rounds;
    }
  }

  /// Up to `end`, awake at deadlines alone. With `backlog` there is always something to send.
  void run_until(Time end, unsigned backlog = 0) {
    while (now < end) {
      if (backlog > 0) submit(backlog);
      settle();
      const Time next = std::min(node.loop.next_deadline(), peer.loop.next_deadline());
      ASSERT_GT(next, now) << "a deadline that has passed is polling";
      now = std::min(next, end);
    }
  }
  void run_for(Duration time, unsigned backlog = 0) { run_until(now + time, backlog); }

  /// Bytes on the wire so far.
  std::uint64_t sent() const {
    return port.counters().bytes_out.get() + 24 * port.counters().frames_out.get();
  }

  Time now{milliseconds(1)};
  unsigned rounds = 0;
  Wire wire;
  TestNode node{roomy(node_config(1, 1)), routes({{2, 0}}, 1)};
  TestNode peer{roomy(node_config(2, 1)), routes({{1, 0}}, 1)};
  WirePort port{wire.a_to_b, wire.b_to_a, node.pool};
  WirePort peer_port{wire.b_to_a, wire.a_to_b, peer.pool};
};

// 100 Mbit/s are 1,250,000 bytes in 100 ms.
TEST_F(Paced, SendsAtTheRateOver100Milliseconds) {
  pace();
  const std::uint64_t before = sent();
  rounds = 0;
  run_for(milliseconds(100), 8);
  const std::uint64_t bytes = sent() - before;
  EXPECT_GE(bytes, 1'250'000 - kOnWire);
  EXPECT_LE(bytes, 1'250'000 + kOnWire);
  EXPECT_EQ(pacer().total(now).bytes, bytes);
  EXPECT_EQ(pacer().total(now).busy, milliseconds(100));
  EXPECT_EQ(pacer().total(now).backlogged, milliseconds(100));
  // 850 frames, each with its ack and its credit: some wake-ups for each, and no more.
  EXPECT_LT(rounds, 850u * 8);
  EXPECT_EQ(node.shard.link(kPort)->counters().replays.get(), 0u);
}

// L26: what waits for the rate waits as a packet, and for a deadline rather than for polling.
TEST_F(Paced, L26_AFrameThatWaitsIsNotMadeAndItsTimeIsADeadline) {
  run_for(milliseconds(1));
  pace();
  submit(3);
  const std::uint64_t made = node.shard.link(kPort)->counters().frames_out[0].get();
  EXPECT_TRUE(node.loop.pass(now));
  EXPECT_EQ(node.shard.link(kPort)->counters().frames_out[0].get(), made + 1);
  EXPECT_EQ(node.shard.link(kPort)->queued(), 2u);

  const unsigned asked = port.rooms_asked;
  EXPECT_FALSE(node.loop.pass(now + nanoseconds(1)));
  EXPECT_EQ(port.rooms_asked, asked) << "the medium is not asked for what must wait anyhow";
  EXPECT_TRUE(node.loop.wants_to_send());
  EXPECT_FALSE(node.loop.wants_a_pass());
  EXPECT_TRUE(node.loop.has_bells()) << "nothing has to be polled for";
  EXPECT_EQ(node.loop.next_deadline(), now + kSlot);

  EXPECT_FALSE(node.loop.pass(now + kSlot - nanoseconds(1)));
  EXPECT_TRUE(node.loop.pass(now + kSlot));
  EXPECT_EQ(node.shard.link(kPort)->queued(), 1u);
}

TEST_F(Paced, AMediumWithoutRoomIsStillPolled) {
  run_for(milliseconds(1));
  pace();
  port.limit = 0;
  submit(1);
  EXPECT_FALSE(node.loop.pass(now));
  EXPECT_FALSE(node.loop.has_bells());
  EXPECT_GT(node.loop.next_deadline(), now) << "the pacer would let it: no deadline of its own";
  EXPECT_EQ(pacer().total(now).bytes, 0u);
}

TEST_F(Paced, DoesNotBurstAfterIdling) {
  pace();
  run_for(milliseconds(40));
  submit(16);
  const std::uint64_t before = sent();
  EXPECT_TRUE(node.loop.pass(now));
  EXPECT_EQ(sent() - before, kOnWire);
  EXPECT_FALSE(node.loop.pass(now + nanoseconds(1)));
}

// What waited for room has not waited for the rate: the idle time before it is not saved up.
TEST_F(Paced, DoesNotBurstAfterIdlingBehindAFullMedium) {
  pace();
  run_for(milliseconds(40));
  port.limit = 0;
  submit(16);
  node.loop.pass(now);
  port.limit = 1024;
  const std::uint64_t before = sent();
  EXPECT_TRUE(node.loop.pass(now));
  EXPECT_EQ(sent() - before, kOnWire);
  EXPECT_FALSE(node.loop.pass(now + nanoseconds(1)));
  EXPECT_EQ(pacer().total(now + kSlot).backlogged, pacer().total(now + kSlot).busy)
      << "idle time counts as lost";
}

TEST_F(Paced, TimeWithoutAMediumIsNotLostToTheRate) {
  run_for(milliseconds(1));
  pace();
  submit(16);
  node.loop.pass(now);
  const phy::PacerUse before = pacer().total(now + kSlot);
  node.loop.detach(kPort, now + kSlot);
  const phy::PacerUse after = pacer().total(now + std::chrono::seconds(60));
  EXPECT_EQ(after.backlogged - before.backlogged, after.busy - before.busy);
}

// 2 ms late: frames were due at 117.6 us and 17 more times until 2,117.6 us.
TEST_F(Paced, MakesUpForALateWakeUp) {
  run_for(milliseconds(1));
  pace();
  submit(64);
  const std::uint64_t before = node.shard.link(kPort)->counters().frames_out[0].get();
  node.loop.pass(now);
  node.loop.pass(now + kSlot + milliseconds(2));
  EXPECT_EQ(node.shard.link(kPort)->counters().frames_out[0].get() - before, 1u + 18u);
  EXPECT_EQ(pacer().next(), now + 19 * kSlot);
}

// Setting a rate does not let what is under way go: at the same rate nothing changes, at half of it
// the rest of the frame takes twice as long.
TEST_F(Paced, ANewRateWaitsForTheFrameUnderWay) {
  run_for(milliseconds(1));
  pace();
  submit(16);
  node.loop.pass(now);
  const std::uint64_t before = sent();
  for (int i = 0; i < 15; ++i) {
    now += kSlot / 4;
    pace();
    node.loop.pass(now);
  }
  EXPECT_EQ(sent() - before, 3 * kOnWire);
  now += kSlot / 4;
  node.loop.pass(now);
  EXPECT_EQ(sent() - before, 4 * kOnWire);

  node.loop.set_pacer(kPort, std::make_unique<phy::Pacer>(phy::PacerConfig{kRate / 2}, now));
  EXPECT_EQ(pacer().next(), now + 2 * kSlot);
}

TEST_F(Paced, WithoutThePacerEverythingGoesAtOnce) {
  run_for(milliseconds(1));
  pace();
  submit(20);
  node.loop.pass(now);
  EXPECT_EQ(node.shard.link(kPort)->queued(), 19u);
  const auto former = node.loop.set_pacer(kPort, nullptr);
  ASSERT_NE(former, nullptr);
  EXPECT_EQ(former->total(now).bytes, kOnWire);
  EXPECT_EQ(node.loop.pacer(kPort), nullptr);
  EXPECT_TRUE(node.loop.wants_a_pass());
  node.loop.pass(now);
  EXPECT_EQ(node.shard.link(kPort)->queued(), 0u);
}

}  // namespace
}  // namespace mtl::runtime
