// What a capture tells of the frames of a loop's ports.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/collector.h"
#include "capture/tap.h"
#include "phy/shared_device.h"
#include "runtime/shard_loop.h"
#include "test/unit/capture/make_segment.h"
#include "test/unit/runtime/wire.h"

namespace mtl::runtime {
namespace {

using capture::Captured;
using capture::Direction;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::node_config;
using test::routes;
using test::TestNode;
using test::Wire;
using test::WireFrame;
using test::WirePort;

constexpr PortId kPort0{0};

struct Seen {
  Direction direction;
  std::string verdict;
  unsigned kind;
  std::vector<std::byte> bytes;
};

/// Nodes 1 and 2; frames to node 2 are captured, and can be changed on their way.
class CapturedLoop : public testing::Test {
 protected:
  CapturedLoop() {
    left.loop.attach(kPort0, left_port, now);
    right.loop.attach(kPort0, right_port, now);
    left.shard.enable(kPort0, now);
    right.shard.enable(kPort0, now);
  }

  void begin(const capture::Filter& filter = {}) {
    Fd fd;
    segment = std::move(*capture::test::make_segment(1, capture::Segment::kMinRing, fd));
    const auto interface = segment->add_interface({"p0", "", kPort0, {}, {}});
    tap = std::make_unique<capture::Tap>(*segment, 0, filter, 1);
    tap->set_interface(kPort0, *interface);
    right.loop.set_tap(tap.get());
    collector = std::make_unique<capture::Collector>(std::move(*capture::Segment::attach(fd)));
  }
  void run(Duration time) {
    for (const Time end = now + time; now < end; now += microseconds(1)) {
      left.loop.pass(now);
      if (change) change_frames();
      right.loop.pass(now);
      take_in();
    }
  }
  void change_frames() {
    std::vector<WireFrame> frames;
    WireFrame frame;
    while (wire.a_to_b.pop(frame)) frames.push_back(frame);
    for (WireFrame& one : frames) {
      change(one);
      wire.a_to_b.push(one);
    }
  }
  void take_in() {
    if (collector == nullptr) return;
    const auto found = collector->sweep([this](const Captured& f) {
      seen.push_back(
          {f.direction,
           capture::describe(f.verdict),
           static_cast<unsigned>(f.bytes.size() > 14 ? f.bytes[14] : std::byte{0xFF}) & 0x0FU,
           {f.bytes.begin(), f.bytes.end()}});
      times.push_back(nanos(f.at));
    });
    ASSERT_TRUE(found);
  }
  void come_up() {
    run(milliseconds(1));
    ASSERT_TRUE(left.shard.link(kPort0)->usable());
    ASSERT_TRUE(right.shard.link(kPort0)->usable());
  }
  std::map<std::string, int> verdicts(Direction direction, unsigned kind) const {
    std::map<std::string, int> out;
    for (const Seen& one : seen) {
      if (one.direction == direction && one.kind == kind) ++out[one.verdict];
    }
    return out;
  }
  using Verdicts = std::map<std::string, int>;

  Time now{microseconds(1)};
  Wire wire;
  TestNode left{node_config(1, 1), routes({{2, 0}, {77, 0}}, 1)};
  TestNode right{node_config(2, 1), routes({{1, 0}}, 1)};
  WirePort left_port{wire.a_to_b, wire.b_to_a, left.pool};
  WirePort right_port{wire.b_to_a, wire.a_to_b, right.pool};
  std::function<void(WireFrame&)> change;
  std::unique_ptr<capture::Segment> segment;
  std::unique_ptr<capture::Tap> tap;
  std::unique_ptr<capture::Collector> collector;
  std::vector<Seen> seen;
  std::vector<std::int64_t> times;
};

constexpr unsigned kData = 0;
constexpr unsigned kInit = 3;
constexpr unsigned kClose = 4;

TEST_F(CapturedLoop, EveryFrameIsSeenOnceEitherWay) {
  begin();
  come_up();
  for (std::uint32_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(left.send(2, i, 100, now));
    ASSERT_TRUE(right.send(1, i, 100, now));
    run(microseconds(5));
  }
  run(milliseconds(1));
  EXPECT_EQ(verdicts(Direction::kIn, kData), (Verdicts{{"accepted", 100}}));
  EXPECT_EQ(verdicts(Direction::kOut, kData), (Verdicts{{"sent", 100}}));
  const auto& counters = right_port.counters();
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(),
                          [](const Seen& s) { return s.direction == Direction::kIn; }),
            static_cast<std::ptrdiff_t>(counters.frames_in.get()));
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(),
                          [](const Seen& s) { return s.direction == Direction::kOut; }),
            static_cast<std::ptrdiff_t>(counters.frames_out.get()));
  EXPECT_FALSE(verdicts(Direction::kIn, kInit).empty());
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_EQ(right.last_number, 100U);
  EXPECT_EQ(collector->missed(0), 0U);
}

// L3: a header CRC that is wrong; L12: a packet CRC; L13: what comes early.
TEST_F(CapturedLoop, DropsAreToldByTheirNames) {
  begin();
  come_up();
  int number = 0;
  change = [&](WireFrame& frame) {
    if ((std::to_integer<unsigned>(frame.bytes[14]) & 0xF) != kData) return;
    ++number;
    if (number == 1) frame.bytes[18] ^= std::byte{1};  // seq, which the header CRC covers
    if (number == 3) frame.bytes[60] ^= std::byte{1};  // payload, which the packet CRC covers
  };
  for (std::uint32_t i = 1; i <= 4; ++i) ASSERT_TRUE(left.send(2, i, 100, now));
  run(milliseconds(5));
  EXPECT_EQ(right.last_number, 4U);
  EXPECT_EQ(right.delivered_count, 4U);
  // 2 and 4 wait for 1, which opens the way for 2; then 3 does for 4.
  EXPECT_EQ(verdicts(Direction::kIn, kData), (Verdicts{{"drop: bad_header_crc", 1},
                                                       {"drop: bad_packet_crc", 1},
                                                       {"accepted, out of order: held", 2},
                                                       {"accepted", 2}}));
}

TEST_F(CapturedLoop, WhatWasSentAgainSaysSo) {
  begin();
  come_up();
  left.loop.set_impairment(
      kPort0, std::make_unique<phy::Impairment>(phy::ImpairmentConfig{.drop_ppm = 1'000'000}, 1),
      now);
  ASSERT_TRUE(right.send(1, 1, 100, now));
  run(microseconds(10));
  left.loop.set_impairment(kPort0, nullptr, now);
  run(milliseconds(2));
  EXPECT_EQ(left.delivered_count, 1U);
  EXPECT_EQ(verdicts(Direction::kOut, kData), (Verdicts{{"sent", 1}, {"sent again", 1}}));
}

TEST_F(CapturedLoop, WhatAnImpairmentDropsIsSeenAsItArrived) {
  come_up();
  begin();
  const std::uint64_t before = right_port.counters().frames_in.get();
  auto impairment = std::make_unique<phy::Impairment>(
      phy::ImpairmentConfig{.drop_ppm = 300'000, .duplicate_ppm = 100'000, .seed = 5}, 16);
  const phy::Impairment& impaired = *impairment;
  right.loop.set_impairment(kPort0, std::move(impairment), now);
  for (std::uint32_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(left.send(2, i, 200, now));
    run(microseconds(50));
  }
  run(milliseconds(10));
  EXPECT_EQ(right.last_number, 100U);
  std::uint64_t dropped = 0;
  std::uint64_t in = 0;
  for (const Seen& one : seen) {
    if (one.direction != Direction::kIn) continue;
    ++in;
    if (one.verdict != "drop: impaired") continue;
    ++dropped;
    EXPECT_EQ(one.bytes.size(), one.kind == kData ? 30U + 16U + 200U : 60U);
  }
  EXPECT_GT(dropped, 0U);
  EXPECT_EQ(dropped, impaired.counters().dropped.get());
  EXPECT_GT(impaired.counters().duplicated.get(), 0U);
  EXPECT_EQ(in,
            right_port.counters().frames_in.get() - before + impaired.counters().duplicated.get());
}

TEST_F(CapturedLoop, WhatTheNodeDropsBehindTheLinkIsToldWithTheFrame) {
  begin();
  come_up();
  ASSERT_TRUE(left.send(77, 1, 100, now));  // to nobody: node 2 has no route there
  run(milliseconds(1));
  const auto told = verdicts(Direction::kIn, kData);
  EXPECT_EQ(told, (Verdicts{{"accepted; the node dropped: no_route", 1}}));
}

// A packet that finds no way when the link goes came by another frame, or from here.
TEST_F(CapturedLoop, ACloseIsNotToBlameForPacketsThatFindNoWay) {
  begin();
  come_up();
  left.loop.set_impairment(
      kPort0, std::make_unique<phy::Impairment>(phy::ImpairmentConfig{.drop_ppm = 1'000'000}, 1),
      now);
  ASSERT_TRUE(right.send(1, 1, 100, now));
  run(microseconds(10));
  left.shard.disable(kPort0, now);
  run(milliseconds(1));
  EXPECT_EQ(right.shard.counters().drops.get(Drop::kNoRoute), 1U);
  EXPECT_EQ(verdicts(Direction::kIn, kClose), (Verdicts{{"accepted", 1}}));
}

// L12: a frame whose packet is damaged each time is poisoned in the end, and those that waited for
// it go on, here to a node to which there is no way.
TEST_F(CapturedLoop, APoisonedFrameLetsOthersGoOn) {
  begin();
  come_up();
  std::optional<std::array<std::byte, 2>> first;
  change = [&](WireFrame& frame) {
    if ((std::to_integer<unsigned>(frame.bytes[14]) & 0xF) != kData) return;
    const std::array seq{frame.bytes[18], frame.bytes[19]};
    if (!first) first = seq;
    if (*first == seq) frame.bytes[60] ^= std::byte{1};
  };
  ASSERT_TRUE(left.send(2, 1, 100, now));
  ASSERT_TRUE(left.send(77, 2, 100, now));
  run(milliseconds(50));
  EXPECT_EQ(right.shard.counters().drops.get(Drop::kNoRoute), 1U);
  const auto told = verdicts(Direction::kIn, kData);
  EXPECT_EQ(told.count("drop: bad_packet_crc, poisoned; the node dropped: no_route"), 1U)
      << testing::PrintToString(told);
}

/// A device before the wire of node 2 that refuses frames, or counts one of those before.
class FickleDevice final : public phy::Port {
 public:
  explicit FickleDevice(WirePort& wire) : wire_(wire) { traits_ = wire.traits(); }
  unsigned receive(std::span<Buffer*> out) override { return wire_.receive(out); }
  unsigned room() override { return wire_.room(); }
  bool send(const link::FrameOut& frame) override {
    if (loses_another) counters_.drops.add(Drop::kNotSent);
    if (!refuses) return wire_.send(frame);
    counters_.drops.add(Drop::kTooLong);
    return false;
  }
  void flush() override { wire_.flush(); }
  bool carrier() override { return wire_.carrier(); }

  bool refuses = false;
  bool loses_another = false;

 private:
  WirePort& wire_;
};

TEST_F(CapturedLoop, AFrameThatWasSentIsNotToBlameForTheLossOfAnother) {
  FickleDevice device(right_port);
  right.loop.attach(kPort0, device, now);
  begin();
  come_up();
  device.loses_another = true;
  ASSERT_TRUE(right.send(1, 1, 100, now));
  run(microseconds(100));
  EXPECT_GT(device.counters().drops.get(Drop::kNotSent), 0U);
  EXPECT_EQ(verdicts(Direction::kOut, kData), (Verdicts{{"sent", 1}}));
}

// Ports that share a device: what it refuses is counted there, not at the port.
TEST_F(CapturedLoop, WhatASharedDeviceRefusesHasAReason) {
  FickleDevice device(right_port);
  phy::SharedDevice shared(device, link::kDefaultEtherType, {phy::Share{}});
  right.loop.attach(kPort0, shared.port(0), now);
  begin();
  come_up();
  device.refuses = true;
  ASSERT_TRUE(right.send(1, 1, 100, now));
  run(microseconds(10));
  device.refuses = false;
  EXPECT_EQ(verdicts(Direction::kOut, kData), (Verdicts{{"drop: too_long", 1}}));
  run(milliseconds(2));
  EXPECT_EQ(left.delivered_count, 1U);
  right.loop.detach(kPort0, now);
}

TEST_F(CapturedLoop, AnotherEtherTypeIsNotOurs) {
  begin();
  come_up();
  WireFrame arp{.length = 60, .bytes = {}};
  arp.bytes[12] = std::byte{0x08};
  arp.bytes[13] = std::byte{0x06};
  wire.a_to_b.push(arp);
  run(microseconds(5));
  EXPECT_EQ(std::count_if(seen.begin(), seen.end(),
                          [](const Seen& s) { return s.verdict == "not ours: another EtherType"; }),
            1);
}

// Byte 14 of an ARP frame is 0, as that of a DATA might be.
TEST_F(CapturedLoop, AnotherEtherTypeIsNoDataToAFilter) {
  capture::Filter filter;
  filter.by_kind = true;
  filter.kinds = 1U << kData;
  begin(filter);
  come_up();
  WireFrame arp{.length = 60, .bytes = {}};
  arp.bytes[12] = std::byte{0x08};
  arp.bytes[13] = std::byte{0x06};
  wire.a_to_b.push(arp);
  ASSERT_TRUE(left.send(2, 1, 100, now));
  run(milliseconds(1));
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].verdict, "accepted");
}

TEST_F(CapturedLoop, FiltersHoldEitherWay) {
  capture::Filter filter;
  filter.by_kind = true;
  filter.kinds = 1U << kInit;
  filter.out = false;
  begin(filter);
  come_up();
  ASSERT_FALSE(seen.empty());
  for (const Seen& one : seen) {
    EXPECT_EQ(one.kind, kInit);
    EXPECT_EQ(one.direction, Direction::kIn);
  }
}

TEST_F(CapturedLoop, NothingIsSeenOfAPortThatIsNotCapturedOrNoMore) {
  begin();
  tap->set_interface(kPort0, capture::kNoInterface);
  right.loop.look_at_tap();
  come_up();
  EXPECT_TRUE(seen.empty());
  tap->set_interface(kPort0, 0);
  right.loop.look_at_tap();
  ASSERT_TRUE(left.send(2, 1, 100, now));
  run(milliseconds(1));
  EXPECT_EQ(verdicts(Direction::kIn, kData), (Verdicts{{"accepted", 1}}));
  right.loop.set_tap(nullptr);
  run(microseconds(5));
  const std::size_t before = seen.size();
  ASSERT_TRUE(left.send(2, 2, 100, now));
  run(milliseconds(1));
  EXPECT_EQ(seen.size(), before);
  EXPECT_EQ(right.last_number, 2U);
}

// A port that goes takes nothing along, and one that comes is captured as the tap says.
TEST_F(CapturedLoop, APortThatIsTakenAwayAndPutDownAgainIsCapturedOn) {
  begin();
  come_up();
  auto moving = right.loop.take(kPort0);
  right.loop.put(std::move(moving), now);
  ASSERT_TRUE(left.send(2, 1, 100, now));
  run(milliseconds(1));
  EXPECT_EQ(verdicts(Direction::kIn, kData), (Verdicts{{"accepted", 1}}));
}

// A capture and a rate do not know of each other.
TEST_F(CapturedLoop, APacedPortIsCaptured) {
  begin();
  come_up();
  right.loop.set_pacer(
      kPort0, std::make_unique<phy::Pacer>(phy::PacerConfig{.bits_per_second = 100'000'000}, now));
  for (std::uint32_t i = 1; i <= 20; ++i) ASSERT_TRUE(right.send(1, i, 1000, now));
  run(milliseconds(5));
  EXPECT_EQ(left.delivered_count, 20U);
  EXPECT_EQ(verdicts(Direction::kOut, kData), (Verdicts{{"sent", 20}}));
}

}  // namespace
}  // namespace mtl::runtime
