#include "capture/collector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "base/heap_pool.h"
#include "capture/tap.h"
#include "make_segment.h"

namespace mtl::capture {
namespace {

constexpr std::uint16_t kInterface = 0;
constexpr PortId kPort{3};
constexpr std::uint16_t kType = 0x88B5;

/// A frame of `length` bytes that are told from those of any other number.
std::vector<std::byte> numbered(std::uint32_t number, std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(number * 31 + i);
  if (length >= 4) store32(bytes.data(), number);
  return bytes;
}
/// As long as its number says: from 14 to 9,030 bytes.
std::size_t length_of(std::uint32_t number) {
  return 14 + number * 2654435761U % 9017;
}

struct Seen {
  std::size_t interface;
  Direction direction;
  std::string verdict;
  std::int64_t at;
  std::uint64_t missed;
  std::size_t length;
  std::vector<std::byte> bytes;
};

class Capture {
 public:
  explicit Capture(std::size_t rings, const Filter& filter = {}, Interface interface = {},
                   std::uint64_t ring_bytes = Segment::kMinRing) {
    Fd fd;
    segment = std::move(*test::make_segment(rings, ring_bytes, fd));
    segment->add_interface(interface);
    for (std::size_t ring = 0; ring < rings; ++ring) {
      taps.push_back(std::make_unique<Tap>(*segment, ring, filter, 8));
      taps.back()->set_interface(kPort, kInterface);
    }
    collector = std::make_unique<Collector>(std::move(*Segment::attach(fd)));
  }

  void in(std::size_t ring, std::int64_t at, const std::vector<std::byte>& bytes,
          Verdict verdict = {}) {
    taps[ring]->take(bytes, kType);
    taps[ring]->told(kInterface, Time{Duration{at}}, verdict);
  }
  /// What a sweep gives.
  std::vector<Seen> sweep() {
    std::vector<Seen> out;
    const auto found = collector->sweep([&](const Captured& f) {
      out.push_back({f.interface,
                     f.direction,
                     describe(f.verdict),
                     nanos(f.at),
                     f.missed,
                     f.length,
                     {f.bytes.begin(), f.bytes.end()}});
    });
    EXPECT_TRUE(found) << found.error().message;
    return out;
  }
  std::vector<Seen> all() {
    std::vector<Seen> out = sweep();
    for (Seen& seen : sweep()) out.push_back(std::move(seen));
    return out;
  }

  std::unique_ptr<Segment> segment;
  std::vector<std::unique_ptr<Tap>> taps;
  std::unique_ptr<Collector> collector;
};

TEST(Capture, AFrameComesOutAsItWentIn) {
  Capture capture(1);
  const auto bytes = numbered(7, 1234);
  capture.in(0, 55, bytes, {Outcome::kDropped, reason(Drop::kStale)});
  const auto seen = capture.all();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].interface, 0U);
  EXPECT_EQ(seen[0].direction, Direction::kIn);
  EXPECT_EQ(seen[0].verdict, "drop: stale");
  EXPECT_EQ(seen[0].at, 55);
  EXPECT_EQ(seen[0].missed, 0U);
  EXPECT_EQ(seen[0].length, 1234U);
  EXPECT_EQ(seen[0].bytes, bytes);
}

// The end of a capture: what comes later is neither given nor counted, also if it comes before it
// is looked for.
TEST(Capture, NothingAfterTheEndIsGivenOrCounted) {
  Capture capture(1);
  for (int i = 0; i < 30; ++i) capture.in(0, i, numbered(1, 9030));  // 28 fit
  EXPECT_EQ(capture.collector->missed(0), 2U);
  capture.collector->freeze();
  EXPECT_EQ(capture.sweep().size(), 0U);
  for (int i = 30; i < 70; ++i) capture.in(0, i, numbered(1, 9030));  // room for 28 once more
  EXPECT_EQ(capture.sweep().size(), 28U);
  EXPECT_EQ(capture.sweep().size(), 0U);
  EXPECT_EQ(capture.collector->missed(0), 2U);
}

// Nor is anything before it left out: what the first look finds is given by the second.
TEST(Capture, AllBeforeTheEndIsGiven) {
  Capture capture(2);
  capture.in(0, 1, numbered(1, 60));
  EXPECT_EQ(capture.sweep().size(), 0U);
  capture.in(1, 2, numbered(2, 60));
  capture.collector->freeze();
  EXPECT_EQ(capture.all().size(), 2U);
}

// What came before a record that is not right can be read, and is not lost by it.
TEST(Capture, WhatCameBeforeAWrongRecordIsGiven) {
  Capture capture(1);
  capture.in(0, 1, numbered(1, 60));
  EXPECT_EQ(capture.sweep().size(), 0U);
  capture.in(0, 2, numbered(2, 60));
  capture.in(0, 3, numbered(3, 60));
  const std::uint32_t bytes = 1;  // of the third record, each being 128 long
  std::memcpy(capture.segment->ring(0) + 256, &bytes, sizeof bytes);
  std::vector<std::int64_t> times;
  const auto found =
      capture.collector->sweep([&](const Captured& f) { times.push_back(nanos(f.at)); });
  EXPECT_FALSE(found);
  EXPECT_EQ(times, (std::vector<std::int64_t>{1, 2}));
}

TEST(Capture, WhatIsSentIsKeptWithItsPadding) {
  Capture capture(1);
  HeapPool pool(1, 2048);
  link::FrameOut frame;
  const auto head = numbered(1, 30);
  std::copy(head.begin(), head.end(), frame.head.begin());
  frame.head_length = 30;
  frame.packet = pool.take();
  const auto packet = numbered(2, 20);
  std::copy(packet.begin(), packet.end(), frame.packet->data);
  frame.packet->length = 20;
  capture.taps[0]->sent(kInterface, Time{Duration{9}}, frame, {Outcome::kSentAgain, 0});
  pool.give(frame.packet);
  const auto seen = capture.all();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].direction, Direction::kOut);
  EXPECT_EQ(seen[0].verdict, "sent again");
  auto expected = head;
  expected.insert(expected.end(), packet.begin(), packet.end());
  expected.resize(60);  // P4
  EXPECT_EQ(seen[0].bytes, expected);
  EXPECT_EQ(seen[0].length, 60U);
}

TEST(Capture, SnapKeepsTheBeginningAndTellsTheLength) {
  Filter filter;
  filter.snap = 40;
  Capture capture(1, filter);
  capture.in(0, 1, numbered(1, 39));
  capture.in(0, 1, numbered(2, 41));
  const auto seen = capture.all();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].bytes, numbered(1, 39));
  EXPECT_EQ(seen[0].length, 39U);
  auto cut = numbered(2, 41);
  cut.resize(40);
  EXPECT_EQ(seen[1].bytes, cut);
  EXPECT_EQ(seen[1].length, 41U);
}

TEST(Capture, DropsOnlyForgetsTheOthers) {
  Filter filter;
  filter.drops_only = true;
  Capture capture(1, filter);
  capture.in(0, 1, numbered(1, 60));
  capture.in(0, 2, numbered(2, 60), {Outcome::kDropped, reason(Drop::kBadAck)});
  capture.in(0, 3, numbered(3, 60), {Outcome::kHeld, 0});
  capture.in(0, 4, numbered(4, 60), {Outcome::kAccepted, reason(Drop::kNoRoute)});
  link::FrameOut frame;
  frame.head_length = 54;
  capture.taps[0]->sent(kInterface, Time{Duration{5}}, frame, {Outcome::kSent, 0});
  capture.taps[0]->sent(kInterface, Time{Duration{6}}, frame,
                        {Outcome::kDropped, reason(Drop::kNotSent)});
  std::vector<std::string> verdicts;
  for (const Seen& seen : capture.all()) verdicts.push_back(seen.verdict);
  EXPECT_EQ(verdicts,
            (std::vector<std::string>{"drop: bad_ack", "accepted; the node dropped: no_route",
                                      "drop: not_sent"}));
}

// What nobody wants need not be compared with counters either.
TEST(Capture, TheTapTellsWhatIsNotWantedHoweverItEnds) {
  Filter filter;
  filter.out = false;
  filter.node = NodeId{9};
  Capture capture(1, filter);
  Tap& tap = *capture.taps[0];
  EXPECT_TRUE(tap.wants(Direction::kIn));
  EXPECT_FALSE(tap.wants(Direction::kOut));
  auto frame = numbered(1, 100);
  store16(frame.data() + 12, kType);
  frame[14] = std::byte{0x10};  // DATA
  store16(frame.data() + 34, 9);
  EXPECT_TRUE(tap.take(frame, kType));
  store16(frame.data() + 34, 8);
  store16(frame.data() + 36, 8);
  EXPECT_FALSE(tap.take(frame, kType));
  tap.told(kInterface, Time{Duration{1}}, {});
  EXPECT_TRUE(capture.all().empty());
  filter.in = false;
  Capture none(1, filter);
  EXPECT_FALSE(none.taps[0]->take(frame, kType));
}

TEST(Capture, AKeptFrameMayBeOvertaken) {
  Capture capture(1);
  capture.taps[0]->keep(numbered(1, 100));
  capture.in(0, 5, numbered(2, 60));
  capture.taps[0]->kept_told(kInterface, kType, Time{Duration{5}},
                             {Outcome::kDropped, reason(Drop::kImpaired)});
  const auto seen = capture.all();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].bytes, numbered(2, 60));
  EXPECT_EQ(seen[1].bytes, numbered(1, 100));
  EXPECT_EQ(seen[1].verdict, "drop: impaired");
}

// Rings wrap many times, by records of every length.
TEST(Capture, NothingIsMissedWhereThereIsRoom) {
  Capture capture(1);
  std::uint32_t next = 0;
  for (std::uint32_t number = 0; number < 5000; ++number) {
    capture.in(0, number, numbered(number, length_of(number)));
    if (number % 20 != 19) continue;
    for (const Seen& seen : capture.sweep()) {
      ASSERT_EQ(seen.bytes, numbered(next, length_of(next))) << next;
      EXPECT_EQ(seen.missed, 0U);
      ++next;
    }
  }
  next += static_cast<std::uint32_t>(capture.all().size());
  EXPECT_EQ(next, 5000U);
  EXPECT_EQ(capture.collector->missed(0), 0U);
}

TEST(Capture, WhatFindsNoRoomIsCountedAndTheNextOneTellsOfIt) {
  Capture capture(1);
  // A frame of 9,030 bytes takes 9,088 with its header, so 28 fit into 262,144 bytes.
  for (std::uint32_t number = 0; number < 33; ++number) capture.in(0, 1, numbered(number, 9030));
  EXPECT_EQ(capture.collector->missed(0), 5U);
  auto seen = capture.all();
  ASSERT_EQ(seen.size(), 28U);
  for (const Seen& one : seen) EXPECT_EQ(one.missed, 0U);
  EXPECT_EQ(seen.back().bytes, numbered(27, 9030));
  capture.in(0, 2, numbered(100, 9030));
  capture.in(0, 2, numbered(101, 9030));
  seen = capture.all();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].missed, 5U);
  EXPECT_EQ(seen[0].bytes, numbered(100, 9030));
  EXPECT_EQ(seen[1].missed, 0U);
  EXPECT_EQ(capture.collector->missed(0), 5U);
}

// A port that moved: its older frames are in a ring that was looked at before they were there.
TEST(Capture, FramesOfTwoRingsComeInTheOrderOfTime) {
  Capture capture(2);
  capture.in(0, 10, numbered(1, 60));
  capture.in(1, 40, numbered(4, 60));
  EXPECT_TRUE(capture.sweep().empty());
  capture.in(0, 20, numbered(2, 60));
  capture.in(1, 50, numbered(5, 60));
  capture.in(0, 30, numbered(3, 60));
  std::vector<std::int64_t> times;
  for (const Seen& seen : capture.sweep()) times.push_back(seen.at);
  EXPECT_EQ(times, (std::vector<std::int64_t>{10, 20, 30, 40}));
  const auto last = capture.sweep();
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].bytes, numbered(5, 60));
}

// The daemon believes nothing that the reader writes: it goes on within its ring, and what it
// takes for a full one is missed.
TEST(Capture, AReaderThatWritesNonsenseHarmsItselfAlone) {
  for (const std::uint64_t nonsense : {std::uint64_t{64}, ~std::uint64_t{0}, std::uint64_t{1} << 63,
                                       std::uint64_t{Segment::kMinRing}, std::uint64_t{12345}}) {
    Capture capture(2);
    // A sentinel in the neighbouring ring would show a byte too far.
    std::memset(capture.segment->ring(1), 0x5A, Segment::kMinRing);
    for (std::uint32_t number = 0; number < 2000; ++number) {
      capture.segment->tail(0) = number % 3 == 0 ? nonsense : nonsense * number;
      capture.in(0, number, numbered(number, length_of(number)));
    }
    const std::byte* neighbour = capture.segment->ring(1);
    EXPECT_TRUE(std::all_of(neighbour, neighbour + Segment::kMinRing,
                            [](std::byte b) { return b == std::byte{0x5A}; }));
  }
}

// And the reader believes nothing of the rings, should their layout be another one than it says.
TEST(Capture, ARingThatIsWrittenWrongIsToldOf) {
  const auto wrong = [](const std::function<void(Segment&, Record&)>& spoil) {
    Capture capture(1);
    capture.in(0, 1, numbered(1, 60));
    Record record;
    std::memcpy(&record, capture.segment->ring(0), sizeof record);
    spoil(*capture.segment, record);
    std::memcpy(capture.segment->ring(0), &record, sizeof record);
    return !capture.collector->sweep([](const Captured&) {});
  };
  EXPECT_FALSE(wrong([](Segment&, Record&) {}));
  EXPECT_TRUE(wrong([](Segment&, Record& r) { r.bytes = 0; }));
  EXPECT_TRUE(wrong([](Segment&, Record& r) { r.bytes += 64; }));
  EXPECT_TRUE(wrong([](Segment&, Record& r) { r.bytes = 100; }));
  EXPECT_TRUE(wrong([](Segment&, Record& r) { r.captured = 89; }));
  EXPECT_TRUE(wrong([](Segment&, Record& r) { r.interface = 1; }));
  EXPECT_TRUE(wrong([](Segment& s, Record&) { s.head(0) = 2 * Segment::kMinRing; }));
  EXPECT_TRUE(wrong([](Segment& s, Record&) { s.head(0) = 100; }));
}

// Two workers, and a reader that now and then sleeps: each frame comes once, whole and in order, or
// is counted as missed.
TEST(Capture, EveryFrameIsReadOrCounted) {
  constexpr std::uint32_t kFrames = 30'000;
  Capture capture(2);
  std::atomic<int> done{0};
  std::vector<std::thread> workers;
  for (std::size_t ring = 0; ring < 2; ++ring) {
    workers.emplace_back([&, ring] {
      for (std::uint32_t i = 0; i < kFrames; ++i) {
        const std::uint32_t number = i * 2 + static_cast<std::uint32_t>(ring);
        capture.in(ring, i, numbered(number, length_of(number)));
      }
      ++done;
    });
  }
  std::vector<std::uint32_t> last(2, 0);
  std::uint64_t read = 0;
  std::uint64_t told_missed = 0;
  const auto check = [&] {
    for (const Seen& seen : capture.sweep()) {
      const std::uint32_t number = load32(seen.bytes.data());
      ASSERT_EQ(seen.bytes, numbered(number, length_of(number)));
      ASSERT_GE(number + 2, last[number % 2]);
      last[number % 2] = number + 2;
      told_missed += seen.missed;
      ++read;
    }
  };
  for (int turn = 0; done < 2; ++turn) {
    check();
    if (turn % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& worker : workers) worker.join();
  check();
  check();
  EXPECT_EQ(read + capture.collector->missed(0), 2 * kFrames);
  EXPECT_LE(told_missed, capture.collector->missed(0));
  EXPECT_GT(read, 0U);
}

// P3, P4: as it stood on the wire.
TEST(AddTag, ATagStandsBehindTheAddresses) {
  Interface interface;
  interface.vlan = VlanId{0x123};
  Capture capture(1, {}, interface);
  const auto bytes = numbered(1, 100);
  capture.in(0, 1, bytes);
  const auto seen = capture.all();
  ASSERT_EQ(seen.size(), 1U);
  std::vector<std::byte> expected(bytes.begin(), bytes.begin() + 12);
  for (const int b : {0x81, 0x00, 0x01, 0x23}) expected.push_back(static_cast<std::byte>(b));
  expected.insert(expected.end(), bytes.begin() + 12, bytes.end());
  EXPECT_EQ(seen[0].bytes, expected);
  EXPECT_EQ(seen[0].length, 104U);
}

// A frame is padded to 60 bytes with its tag: a STATUS (30 + 24) has 2 bytes of padding then, a
// DATA of 26 none, and one of 27 is 61 long.
TEST(AddTag, PaddingIsWhatATaggedFrameHas) {
  const auto wire_length = [](std::uint16_t body, Direction direction) {
    std::vector<std::byte> bytes(60);
    store16(bytes.data() + 16, body);
    std::vector<std::byte> out;
    std::size_t length = bytes.size();
    add_tag(bytes, VlanId{5}, direction, out, length);
    EXPECT_EQ(out.size(), length);
    return length;
  };
  EXPECT_EQ(wire_length(24, Direction::kOut), 60U);
  EXPECT_EQ(wire_length(26, Direction::kOut), 60U);
  EXPECT_EQ(wire_length(27, Direction::kOut), 61U);
  EXPECT_EQ(wire_length(30, Direction::kOut), 64U);
  EXPECT_EQ(wire_length(24, Direction::kIn), 64U);
}

TEST(AddTag, AFrameCutBeforeItsTagStaysAsItIs) {
  const auto bytes = numbered(1, 8);
  std::vector<std::byte> out;
  std::size_t length = 60;
  add_tag(bytes, VlanId{5}, Direction::kOut, out, length);
  EXPECT_EQ(out, bytes);
  EXPECT_EQ(length, 64U);
}

}  // namespace
}  // namespace mtl::capture
