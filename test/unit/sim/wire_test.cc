#include "sim/wire.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

namespace mtl::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

class Ends final : public WireEnd {
 public:
  struct Seen {
    std::uint32_t node;
    Time at;
    std::uint32_t length;
    std::byte mark;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  void frames_in(PortRef end, std::span<Buffer* const> burst, Time now) override {
    bursts.push_back(burst.size());
    for (const Buffer* const frame : burst) {
      frames.push_back({end.node, now, frame->length, frame->data[0]});
    }
  }
  void room_again(PortRef end, Time now) override { rooms.push_back({end.node, now}); }
  void carrier_changed(PortRef end, bool carrier, Time) override {
    carriers.push_back({end.node, carrier});
  }
  std::vector<Seen> frames;
  std::vector<std::size_t> bursts;
  std::vector<std::pair<std::uint32_t, Time>> rooms;
  std::vector<std::pair<std::uint32_t, bool>> carriers;
};

// A control frame of 60 bytes (padded), or as long as `min_length`, its first byte `mark`.
link::FrameOut frame(int mark, std::uint32_t min_length = 60) {
  link::FrameOut out;
  out.kind = link::Kind::kStatus;
  out.head.fill(std::byte{0});
  out.head[0] = std::byte(mark);
  out.head_length = 54;
  out.min_length = min_length;
  return out;
}

class WireTest : public testing::Test {
 protected:
  Wire make(Duration delay, std::optional<phy::PacerConfig> rate = {}) {
    const WirePlan plan{{PortRef{10, PortId(0)}, PortRef{20, PortId(0)}}, delay, rate};
    return Wire(plan, queue, pool, ends, Random(5));
  }
  void run() {
    while (queue.step()) {
    }
  }
  static Time at(std::int64_t ns) { return Time(Duration(ns)); }

  ClockQueue queue;
  WirePool pool{9000};
  Ends ends;
};

TEST_F(WireTest, DelaysAndKeepsOrderBothWays) {
  Wire wire = make(microseconds(3));
  wire.send(0, frame(1), queue.now());
  wire.send(0, frame(2), queue.now());
  wire.send(1, frame(3), queue.now());
  run();
  ASSERT_EQ(ends.frames.size(), 3u);
  EXPECT_EQ(ends.frames[0], (Ends::Seen{20, at(3000), 60, std::byte{1}}));
  EXPECT_EQ(ends.frames[1], (Ends::Seen{20, at(3000), 60, std::byte{2}}));
  EXPECT_EQ(ends.frames[2], (Ends::Seen{10, at(3000), 60, std::byte{3}}));
  EXPECT_EQ(ends.bursts, (std::vector<std::size_t>{2, 1}));  // what comes at one instant
  EXPECT_EQ(pool.in_use(), 0u);
}

class Ear final : public WireTap {
 public:
  struct Heard {
    std::size_t wire;
    std::size_t direction;
    std::size_t length;
    std::byte mark;
    Time at;
    friend bool operator==(const Heard&, const Heard&) = default;
  };
  void sent(std::size_t wire, std::size_t direction, std::span<const std::byte> bytes,
            Time now) override {
    entered.push_back({wire, direction, bytes.size(), bytes[0], now});
  }
  void arrived(std::size_t wire, std::size_t direction, std::span<const std::byte> bytes,
               Time now) override {
    left.push_back({wire, direction, bytes.size(), bytes[0], now});
  }
  std::vector<Heard> entered;
  std::vector<Heard> left;
};

TEST_F(WireTest, ATapHearsWhatEntersAndWhatArrives) {
  Ear ear;
  Wire wire = make(microseconds(3));
  wire.tap(&ear, 7);
  wire.send(0, frame(1), queue.now());
  wire.send(1, frame(2, 100), queue.now());
  run();
  wire.cut(false, false);
  wire.send(0, frame(3), queue.now());  // is lost
  run();
  wire.tap(nullptr, 0);
  wire.restore();
  wire.send(0, frame(4), queue.now());
  run();
  using Heard = Ear::Heard;
  EXPECT_EQ(ear.entered, (std::vector<Heard>{{7, 0, 60, std::byte{1}, at(0)},
                                             {7, 1, 100, std::byte{2}, at(0)},
                                             {7, 0, 60, std::byte{3}, at(3000)}}));
  EXPECT_EQ(ear.left, (std::vector<Heard>{{7, 0, 60, std::byte{1}, at(3000)},
                                          {7, 1, 100, std::byte{2}, at(3000)}}));
  EXPECT_EQ(ends.frames.size(), 3u);
  EXPECT_EQ(pool.in_use(), 0u);
}

// 60 bytes at 1 Gb/s are 480 ns.
TEST_F(WireTest, BandwidthTakesTimeAndTellsWhenThereIsRoom) {
  Wire wire = make(nanoseconds(100), phy::PacerConfig{1'000'000'000, 0});
  EXPECT_TRUE(wire.room(0, queue.now()));
  wire.send(0, frame(1), queue.now());
  EXPECT_FALSE(wire.room(0, queue.now()));
  EXPECT_FALSE(wire.room(0, queue.now()));
  EXPECT_TRUE(wire.room(1, queue.now()));
  run();
  ASSERT_EQ(ends.rooms.size(), 1u);
  EXPECT_EQ(ends.rooms[0], (std::pair{std::uint32_t{10}, at(480)}));
  ASSERT_EQ(ends.frames.size(), 1u);
  EXPECT_EQ(ends.frames[0].at, at(580));
}

TEST_F(WireTest, CutLosesWhatIsInFlightAndTellsBothEndsIfAsked) {
  Wire wire = make(microseconds(3));
  wire.send(0, frame(1), queue.now());
  wire.cut(true, false);
  wire.send(0, frame(2), queue.now());
  run();
  wire.restore();
  wire.send(0, frame(3), queue.now());
  run();
  ASSERT_EQ(ends.frames.size(), 1u);
  EXPECT_EQ(ends.frames[0].mark, std::byte{3});
  EXPECT_EQ(ends.carriers, (std::vector<std::pair<std::uint32_t, bool>>{
                               {10, false}, {20, false}, {10, true}, {20, true}}));
  EXPECT_EQ(wire.counters().cut, 2u);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(WireTest, SilentCutTellsNobody) {
  Wire wire = make(microseconds(3));
  wire.cut(false, false);
  wire.restore();
  EXPECT_TRUE(ends.carriers.empty());
}

TEST_F(WireTest, LateFramesArriveAfterTheRestorationOnly) {
  Wire wire = make(microseconds(3));
  for (int i = 0; i < 100; ++i) wire.send(0, frame(i), queue.now());
  wire.cut(false, true);
  run();
  EXPECT_TRUE(ends.frames.empty());
  wire.restore();
  run();
  // Each is kept with probability 1/2.
  EXPECT_GT(ends.frames.size(), 20u);
  EXPECT_LT(ends.frames.size(), 80u);
  EXPECT_EQ(wire.counters().late, ends.frames.size());
  EXPECT_EQ(wire.counters().late + wire.counters().cut, 100u);
  EXPECT_EQ(pool.in_use(), 0u);
}

// A STATUS of epoch 9 that tells `credit` for VC 3 (section 3.3).
link::FrameOut status(std::uint16_t credit, int epoch = 9) {
  link::FrameOut out = frame(1);
  out.head[14] = std::byte{0x11};
  out.head[15] = std::byte(epoch);
  out.head[22] = std::byte{0x0F};
  out.head[36] = std::byte(credit >> 8);
  out.head[37] = std::byte(credit);
  return out;
}

// L21: 2^15 ahead is behind, 2^15 behind is ahead. Frames are delayed by 100 us on the way; the
// others pass by at once, two of them, as each moves a limit by less than 2^15.
TEST_F(WireTest, LosesWhatWouldBeTakenForNewerThanItIs) {
  for (const int last : {0x7FFF, 0x8000}) {
    Wire wire = make(microseconds(3));
    wire.impair(0, {.reorder_ppm = 1'000'000, .reorder_delay = microseconds(100)});
    wire.send(0, status(0), queue.now());
    queue.step();
    wire.impair(0, {});
    wire.send(0, status(0x7000), queue.now());
    wire.send(0, status(static_cast<std::uint16_t>(last)), queue.now());
    ends.frames.clear();
    run();
    EXPECT_EQ(ends.frames.size(), last == 0x8000 ? 2u : 3u) << last;
    EXPECT_EQ(wire.counters().too_late, last == 0x8000 ? 1u : 0u) << last;
    EXPECT_EQ(pool.in_use(), 0u);
  }
}

// What is of an earlier session is stale by its epoch (L3), however old.
TEST_F(WireTest, DeliversWhatAnEarlierSessionSentHoweverLate) {
  Wire wire = make(microseconds(3));
  wire.impair(0, {.reorder_ppm = 1'000'000, .reorder_delay = microseconds(100)});
  wire.send(0, status(0, 8), queue.now());
  queue.step();
  wire.impair(0, {});
  wire.send(0, status(0x7000), queue.now());
  wire.send(0, status(0x8000), queue.now());
  run();
  EXPECT_EQ(ends.frames.size(), 3u);
  EXPECT_EQ(wire.counters().too_late, 0u);
}

TEST_F(WireTest, LimitLosesLongFramesOneWay) {
  Wire wire = make(microseconds(3));
  wire.limit_length(0, 100);
  wire.send(0, frame(1, 101), queue.now());
  wire.send(0, frame(2, 100), queue.now());
  wire.send(1, frame(3, 101), queue.now());
  run();
  ASSERT_EQ(ends.frames.size(), 2u);
  EXPECT_EQ(ends.frames[0].mark, std::byte{2});
  EXPECT_EQ(ends.frames[1].mark, std::byte{3});
  EXPECT_EQ(wire.counters().too_long, 1u);
}

TEST_F(WireTest, ImpairmentsWorkOneWay) {
  Wire wire = make(microseconds(3));
  wire.impair(0, {.drop_ppm = 1'000'000});
  wire.impair(1, {.duplicate_ppm = 1'000'000});
  wire.send(0, frame(1), queue.now());
  wire.send(1, frame(2), queue.now());
  run();
  ASSERT_EQ(ends.frames.size(), 2u);
  EXPECT_EQ(ends.frames[0].mark, std::byte{2});
  EXPECT_EQ(ends.frames[1].mark, std::byte{2});
  EXPECT_EQ(pool.in_use(), 0u);
}

}  // namespace
}  // namespace mtl::sim
