#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "sim/clock_queue.h"
#include "sim/event_log.h"
#include "sim/random.h"

namespace mtl::sim {
namespace {

Time at(std::int64_t ns) {
  return Time(Duration(ns));
}

// The values are those of the published algorithms (xoshiro256**, state from SplitMix64), computed
// apart from this code.
TEST(Random, IsXoshiroSeededBySplitMix) {
  Random zero(0);
  EXPECT_EQ(zero.next(), 0x99EC5F36CB75F2B4u);
  EXPECT_EQ(zero.next(), 0xBF6E1F784956452Au);
  EXPECT_EQ(zero.next(), 0x1A5F849D4933E6E0u);
}

TEST(Random, StreamsDependOnSeedPurposeAndIndexOnly) {
  Random used(7);
  for (int i = 0; i < 10; ++i) used.next();
  EXPECT_EQ(used.stream("wire", 3).next(), Random(7).stream("wire", 3).next());
  std::set<std::uint64_t> firsts;
  for (const std::uint64_t seed : {7, 8}) {
    for (const char* purpose : {"wire", "node", ""}) {
      for (const std::uint64_t index : {0, 1, 2}) {
        firsts.insert(Random(seed).stream(purpose, index).next());
      }
    }
  }
  EXPECT_EQ(firsts.size(), 18u);
}

TEST(Random, RangesAreKeptAndReached) {
  Random random(3);
  std::set<std::uint64_t> seen;
  std::set<std::uint64_t> logs;
  for (int i = 0; i < 1000; ++i) {
    seen.insert(random.between(5, 8));
    const std::uint64_t value = random.log_between(3, 1000);
    EXPECT_GE(value, 3u);
    EXPECT_LE(value, 1000u);
    logs.insert(value < 10 ? 0 : value < 100 ? 1 : 2);
  }
  EXPECT_EQ(seen, (std::set<std::uint64_t>{5, 6, 7, 8}));
  EXPECT_EQ(logs.size(), 3u);
  EXPECT_FALSE(random.chance(0));
  EXPECT_TRUE(random.chance(1'000'000));
}

class Recorder final : public EventTarget {
 public:
  void on_event(Time now, std::uint64_t what) override { seen.push_back({now, what}); }
  std::vector<std::pair<Time, std::uint64_t>> seen;
};

TEST(ClockQueue, RunsInOrderOfTimeThenOfScheduling) {
  ClockQueue queue;
  Recorder recorder;
  for (std::uint64_t i = 0; i < 50; ++i) queue.at(at(i % 2 == 0 ? 10 : 5), recorder, i);
  while (queue.step()) {
  }
  ASSERT_EQ(recorder.seen.size(), 50u);
  for (std::size_t i = 0; i < 25; ++i) {
    EXPECT_EQ(recorder.seen[i], (std::pair{at(5), std::uint64_t{2 * i + 1}}));
    EXPECT_EQ(recorder.seen[25 + i], (std::pair{at(10), std::uint64_t{2 * i}}));
  }
}

TEST(ClockQueue, StopsAtTheLimitAndAdvancesToIt) {
  ClockQueue queue;
  Recorder recorder;
  queue.at(at(10), recorder, 0);
  queue.at(at(11), recorder, 1);
  EXPECT_TRUE(queue.step(at(10)));
  EXPECT_FALSE(queue.step(at(10)));
  EXPECT_EQ(queue.now(), at(10));
  EXPECT_EQ(queue.pending(), 1u);
  EXPECT_FALSE(queue.step(at(10)));
  EXPECT_TRUE(queue.step());
  EXPECT_EQ(queue.now(), at(11));
}

TEST(Alarm, ComesOnceForEachEarlierInstantAndNeverLate) {
  ClockQueue queue;
  Recorder recorder;
  Alarm alarm(queue, recorder, 9);
  alarm.set(at(100));
  alarm.set(at(200));  // later: the one at 100 will do
  alarm.set(at(50));
  alarm.set(kNever);
  EXPECT_EQ(queue.pending(), 2u);
  queue.step();
  alarm.fired();
  EXPECT_EQ(queue.now(), at(50));
  alarm.set(at(120));  // 100 comes before and may set it anew
  EXPECT_EQ(queue.pending(), 1u);
  queue.step();
  alarm.fired();
  alarm.set(at(120));
  EXPECT_EQ(queue.pending(), 1u);
}

TEST(EventLog, KeepsTheLastLinesAndHashesAll) {
  EventLog off;
  EXPECT_FALSE(off.on());
  EventLog two(2);
  EventLog many(100);
  for (const char* text : {"a", "b", "c"}) {
    two.line(at(1), text);
    many.line(at(1), text);
  }
  EXPECT_EQ(two.lines().size(), 2u);
  EXPECT_EQ(two.lines().back(), "1 c");
  EXPECT_EQ(two.digest(), many.digest());
  many.line(at(1), "d");
  EXPECT_NE(two.digest(), many.digest());
}

}  // namespace
}  // namespace mtl::sim
