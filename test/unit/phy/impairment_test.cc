#include "phy/impairment.h"

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <vector>

#include "frames.h"

namespace mtl::phy {
namespace {

using test::make_data;
using Bytes = std::vector<std::byte>;
using namespace std::chrono_literals;

constexpr std::uint32_t kAlways = 1'000'000;
constexpr std::size_t kPacket = 100;

Time at(Duration since_start) {
  return Time{since_start};
}

Bytes bytes_of(const Buffer& frame) {
  return {frame.data, frame.data + frame.length};
}

// What comes out, as bytes; gives the buffers back.
struct Collected {
  std::vector<Bytes> frames;
  void operator()(Buffer* frame) {
    frames.push_back(bytes_of(*frame));
    give_back(frame);
  }
};

// The one bit in which two frames differ; fails the test unless there is exactly one.
std::size_t flipped_bit(const Bytes& before, const Bytes& after) {
  EXPECT_EQ(before.size(), after.size());
  std::size_t flips = 0, found = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const auto difference = std::to_integer<std::uint8_t>(before[i] ^ after[i]);
    flips += static_cast<std::size_t>(std::popcount(difference));
    if (difference != 0) found = i * 8 + static_cast<std::size_t>(std::countr_zero(difference));
  }
  EXPECT_EQ(flips, 1u);
  return found;
}

TEST(Impairment, NothingConfiguredPassesEverythingAtOnceUnchanged) {
  HeapPool pool(4, 2000);
  Impairment impairment({}, 4);
  EXPECT_FALSE(impairment.config().active());
  Buffer* frame = make_data(pool, kPacket, 1);
  const Bytes sent = bytes_of(*frame);
  Collected out;
  impairment.push(frame, at(0ns), out);
  EXPECT_EQ(out.frames, std::vector<Bytes>{sent});
  EXPECT_EQ(impairment.next_deadline(), kNever);
}

TEST(Impairment, EachFaultAloneMakesItActive) {
  EXPECT_TRUE(ImpairmentConfig{.drop_ppm = 1}.active());
  EXPECT_TRUE(ImpairmentConfig{.corrupt_header_ppm = 1}.active());
  EXPECT_TRUE(ImpairmentConfig{.corrupt_packet_ppm = 1}.active());
  EXPECT_TRUE(ImpairmentConfig{.duplicate_ppm = 1}.active());
  EXPECT_TRUE(ImpairmentConfig{.reorder_ppm = 1}.active());
  EXPECT_TRUE(ImpairmentConfig{.delay = 1ns}.active());
  EXPECT_TRUE(ImpairmentConfig{.jitter = 1ns}.active());
}

TEST(Impairment, FaultNamesTheField) {
  EXPECT_EQ(fault({}), nullptr);
  EXPECT_EQ(fault({.drop_ppm = kAlways}), nullptr);
  const auto names = [](const ImpairmentConfig& config, std::string_view field) {
    const char* what = fault(config);
    return what != nullptr && std::string_view(what).starts_with(field);
  };
  EXPECT_TRUE(names({.drop_ppm = kAlways + 1}, "drop"));
  EXPECT_TRUE(names({.corrupt_header_ppm = kAlways + 1}, "corrupt_header"));
  EXPECT_TRUE(names({.corrupt_packet_ppm = kAlways + 1}, "corrupt_packet"));
  EXPECT_TRUE(names({.duplicate_ppm = kAlways + 1}, "duplicate"));
  EXPECT_TRUE(names({.reorder_ppm = kAlways + 1}, "reorder"));
  EXPECT_TRUE(names({.reorder_delay = -1ns}, "reorder_delay"));
  EXPECT_TRUE(names({.delay = -1ns}, "delay"));
  EXPECT_TRUE(names({.delay = kMaxImpairmentDelay + 1ns}, "delay"));
  EXPECT_TRUE(names({.jitter = kMaxImpairmentDelay + 1ns}, "jitter"));
}

TEST(Impairment, DropGivesTheBufferBack) {
  HeapPool pool(1, 2000);
  Impairment impairment({.drop_ppm = kAlways}, 4);
  Collected out;
  for (int i = 0; i < 10; ++i) {
    Buffer* frame = make_data(pool, kPacket, 1);
    ASSERT_NE(frame, nullptr);
    impairment.push(frame, at(0ns), out);
  }
  EXPECT_TRUE(out.frames.empty());
  EXPECT_EQ(impairment.counters().dropped.get(), 10u);
  EXPECT_EQ(pool.available(), 1u);
}

// 100,000 draws at 10 %: the standard deviation is 95; five of them either way.
TEST(Impairment, RatesAreKept) {
  HeapPool pool(2, 2000);
  Impairment impairment({.drop_ppm = 100'000, .duplicate_ppm = 100'000, .seed = 5}, 4);
  std::uint64_t passed = 0;
  for (int i = 0; i < 100'000; ++i) {
    impairment.push(make_data(pool, 16, 1), at(0ns), [&](Buffer* frame) {
      ++passed;
      give_back(frame);
    });
  }
  const auto& counters = impairment.counters();
  EXPECT_NEAR(static_cast<double>(counters.dropped.get()), 10'000, 475);
  EXPECT_NEAR(static_cast<double>(counters.duplicated.get()), 9'000, 450);
  EXPECT_EQ(passed, 100'000 - counters.dropped.get() + counters.duplicated.get());
}

// Section 2 and L12: bytes 12 to the last of the body, padding never; all of them are met.
TEST(Impairment, L12_PacketCorruptionFlipsABitThatOnlyThePacketCrcCovers) {
  HeapPool pool(1, 2000);
  Impairment impairment({.corrupt_packet_ppm = kAlways}, 4);
  constexpr std::size_t kShort = 18;  // a frame of 48 bytes, padded to 60
  std::map<std::size_t, int> hit;
  for (int i = 0; i < 2000; ++i) {
    Buffer* frame = make_data(pool, kShort, 1);
    frame->notes.crc = CrcState::kGood;
    const Bytes before = bytes_of(*frame);
    impairment.push(frame, at(0ns), [&](Buffer* out) {
      EXPECT_EQ(out->notes.crc, CrcState::kUnknown) << "what the port found no longer holds";
      ++hit[flipped_bit(before, bytes_of(*out)) / 8];
      give_back(out);
    });
  }
  EXPECT_EQ(hit.size(), kShort - 12);
  EXPECT_EQ(hit.begin()->first, link::kFrameHeader + 12);
  EXPECT_EQ(hit.rbegin()->first, link::kFrameHeader + kShort - 1);
  EXPECT_EQ(impairment.counters().packet_corrupted.get(), 2000u);
}

// L1: link header bytes 0-11 and, of a DATA, the first 12 bytes of the body.
TEST(Impairment, L1_HeaderCorruptionFlipsABitThatTheHeaderCrcCovers) {
  HeapPool pool(1, 2000);
  Impairment impairment({.corrupt_header_ppm = kAlways}, 4);
  std::map<std::size_t, int> hit;
  for (int i = 0; i < 5000; ++i) {
    Buffer* frame = make_data(pool, kPacket, 1);
    const Bytes before = bytes_of(*frame);
    impairment.push(frame, at(0ns), [&](Buffer* out) {
      ++hit[flipped_bit(before, bytes_of(*out)) / 8];
      give_back(out);
    });
  }
  EXPECT_EQ(hit.size(), 24u);
  for (std::size_t byte = 14; byte < 26; ++byte) EXPECT_EQ(hit.count(byte), 1u) << byte;
  for (std::size_t byte = 30; byte < 42; ++byte) EXPECT_EQ(hit.count(byte), 1u) << byte;
}

TEST(Impairment, L1_ControlFramesHaveNoPacketAndTheirWholeBodyIsHeader) {
  HeapPool pool(1, 2000);
  Impairment packets({.corrupt_packet_ppm = kAlways}, 4);
  Impairment headers({.corrupt_header_ppm = kAlways}, 4);
  const auto make_status = [&] {
    Buffer* frame = pool.take();
    frame->length = 60;
    const std::vector<std::byte> body(24);
    std::memset(frame->data, 0, 60);
    test::fill_headers(frame->data, link::Kind::kStatus, body);
    return frame;
  };
  std::map<std::size_t, int> hit;
  for (int i = 0; i < 5000; ++i) {
    Buffer* frame = make_status();
    const Bytes before = bytes_of(*frame);
    packets.push(frame, at(0ns), [&](Buffer* out) {
      EXPECT_EQ(bytes_of(*out), before);
      give_back(out);
    });
    headers.push(make_status(), at(0ns), [&](Buffer* out) {
      ++hit[flipped_bit(before, bytes_of(*out)) / 8];
      give_back(out);
    });
  }
  EXPECT_EQ(packets.counters().packet_corrupted.get(), 0u);
  EXPECT_EQ(hit.size(), 12u + 24u);
  EXPECT_EQ(hit.rbegin()->first, link::kFrameHeader + 23);
}

TEST(Impairment, StrangeFramesAreNeitherReadNorWrittenBeyondTheirEnd) {
  HeapPool pool(1, 2000);
  Impairment impairment({.corrupt_header_ppm = kAlways, .corrupt_packet_ppm = kAlways}, 4);
  for (std::uint32_t length = 0; length <= 80; ++length) {
    Buffer* frame = pool.take();
    std::memset(frame->data, 0xFF, 200);                 // length field 65535
    if (length > 14) frame->data[14] = std::byte{0x10};  // a DATA
    frame->length = length;
    std::byte* const end = frame->data + length;
    impairment.push(frame, at(0ns), [&](Buffer* out) {
      EXPECT_EQ(out->length, length);
      for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(end[i], std::byte{0xFF});
      give_back(out);
    });
  }
  EXPECT_EQ(impairment.counters().header_corrupted.get(), 80u - 29);
}

TEST(Impairment, ADuplicateIsACopyInABufferOfItsOwn) {
  HeapPool pool(2, 2000);
  Impairment impairment({.duplicate_ppm = kAlways}, 4);
  Buffer* frame = make_data(pool, kPacket, 1);
  frame->notes.crc = CrcState::kGood;
  const Bytes sent = bytes_of(*frame);
  std::vector<Buffer*> out;
  impairment.push(frame, at(0ns), [&](Buffer* each) { out.push_back(each); });
  ASSERT_EQ(out.size(), 2u);
  EXPECT_NE(out[0]->data, out[1]->data);
  EXPECT_EQ(out[1]->length + out[1]->tailroom, 2000u);
  for (Buffer* each : out) {
    EXPECT_EQ(bytes_of(*each), sent);
    EXPECT_EQ(each->notes.crc, CrcState::kGood);
    give_back(each);
  }
}

TEST(Impairment, WithoutABufferThereIsNoDuplicate) {
  HeapPool pool(1, 2000);
  Impairment impairment({.duplicate_ppm = kAlways}, 4);
  Collected out;
  impairment.push(make_data(pool, kPacket, 1), at(0ns), out);
  EXPECT_EQ(out.frames.size(), 1u);
  EXPECT_EQ(impairment.counters().uncopied.get(), 1u);
  EXPECT_EQ(impairment.counters().duplicated.get(), 0u);
}

TEST(Impairment, AConstantDelayKeepsTheOrderAndTheTime) {
  HeapPool pool(8, 2000);
  Impairment impairment({.delay = 50us}, 8);
  std::vector<Bytes> sent;
  Collected out;
  for (std::uint64_t i = 0; i < 8; ++i) {
    Buffer* frame = make_data(pool, kPacket, i);
    sent.push_back(bytes_of(*frame));
    impairment.push(frame, at(1us * (i / 4)), out);  // four at one time
  }
  EXPECT_TRUE(out.frames.empty());
  EXPECT_EQ(impairment.next_deadline(), at(50us));
  impairment.pop_due(at(50us - 1ns), out);
  EXPECT_TRUE(out.frames.empty());
  impairment.pop_due(at(50us), out);
  EXPECT_EQ(out.frames.size(), 4u);
  EXPECT_EQ(impairment.next_deadline(), at(51us));
  impairment.pop_due(at(1ms), out);
  EXPECT_EQ(out.frames, sent);
  EXPECT_EQ(impairment.next_deadline(), kNever);
}

TEST(Impairment, PushGivesWhatIsDueBeforeTheNewFrame) {
  HeapPool pool(2, 2000);
  Impairment impairment({.delay = 50us}, 8);
  Buffer* first = make_data(pool, kPacket, 1);
  const Bytes first_bytes = bytes_of(*first);
  Collected out;
  impairment.push(first, at(0us), out);
  impairment.configure({});
  Buffer* second = make_data(pool, kPacket, 2);
  const Bytes second_bytes = bytes_of(*second);
  impairment.push(second, at(60us), out);
  EXPECT_EQ(out.frames, (std::vector<Bytes>{first_bytes, second_bytes}));
}

TEST(Impairment, AReorderedFrameIsOvertaken) {
  HeapPool pool(2, 2000);
  Impairment impairment({.reorder_ppm = kAlways, .reorder_delay = 30us}, 8);
  Buffer* first = make_data(pool, kPacket, 1);
  const Bytes first_bytes = bytes_of(*first);
  Collected out;
  impairment.push(first, at(0us), out);
  impairment.configure({});
  Buffer* second = make_data(pool, kPacket, 2);
  const Bytes second_bytes = bytes_of(*second);
  impairment.push(second, at(1us), out);
  impairment.pop_due(at(30us), out);
  EXPECT_EQ(out.frames, (std::vector<Bytes>{second_bytes, first_bytes}));
  EXPECT_EQ(impairment.counters().reordered.get(), 1u);
}

TEST(Impairment, JitterStaysWithinItsBoundsAndSpreads) {
  HeapPool pool(1, 2000);
  Impairment impairment({.delay = 10us, .jitter = 1000ns}, 1);
  Time earliest = kNever, latest{};
  for (int i = 0; i < 2000; ++i) {
    impairment.push(make_data(pool, 16, 1), Time{}, [](Buffer*) { FAIL(); });
    const Time due = impairment.next_deadline();
    earliest = std::min(earliest, due);
    latest = std::max(latest, due);
    impairment.pop_due(due, [](Buffer* frame) { give_back(frame); });
  }
  EXPECT_GE(earliest, at(10us));
  EXPECT_LE(latest, at(11us));
  EXPECT_LT(earliest, at(10us + 100ns));
  EXPECT_GT(latest, at(11us - 100ns));
}

TEST(Impairment, AFullDelayQueueLetsFramesThrough) {
  HeapPool pool(3, 2000);
  Impairment impairment({.delay = 50us}, 2);
  Collected out;
  for (std::uint64_t i = 0; i < 3; ++i) impairment.push(make_data(pool, kPacket, i), Time{}, out);
  EXPECT_EQ(out.frames.size(), 1u);
  EXPECT_EQ(impairment.counters().overflow.get(), 1u);
  EXPECT_EQ(impairment.counters().delayed.get(), 2u);
}

TEST(Impairment, TheDestructorGivesBackWhatIsHeld) {
  HeapPool pool(3, 2000);
  {
    Impairment impairment({.delay = 50us}, 8);
    for (std::uint64_t i = 0; i < 3; ++i) {
      impairment.push(make_data(pool, kPacket, i), Time{}, [](Buffer*) { FAIL(); });
    }
    EXPECT_EQ(pool.available(), 0u);
  }
  EXPECT_EQ(pool.available(), 3u);
}

std::vector<Bytes> run_everything(ImpairmentConfig config, std::uint64_t seed) {
  HeapPool pool(64, 2000);
  config.seed = seed;
  Impairment impairment(config, 32);
  Collected out;
  for (std::uint64_t i = 0; i < 500; ++i) {
    impairment.push(make_data(pool, 16 + i, i), at(1us * i), out);
  }
  impairment.pop_due(kNever, out);
  return out.frames;
}

const ImpairmentConfig kEverything{.drop_ppm = 100'000,
                                   .corrupt_header_ppm = 100'000,
                                   .corrupt_packet_ppm = 100'000,
                                   .duplicate_ppm = 100'000,
                                   .reorder_ppm = 100'000,
                                   .delay = 5us,
                                   .jitter = 3us};

TEST(Impairment, TheSeedDecidesEverything) {
  EXPECT_EQ(run_everything(kEverything, 1), run_everything(kEverything, 1));
  EXPECT_NE(run_everything(kEverything, 1), run_everything(kEverything, 2));
}

// The stream is SplitMix64 from the seed; the first words of seed 0 are published with it.
TEST(Impairment, TheStreamIsTheSameOnEveryPlatform) {
  // 0xE220A8397B1DCDAF, the first, maps to 883,310 of a million: below 883,311, not below 883,310.
  HeapPool pool(1, 2000);
  Impairment drops({.drop_ppm = 883'311, .seed = 0}, 1);
  Impairment passes({.drop_ppm = 883'310, .seed = 0}, 1);
  Collected dropped, passed;
  drops.push(make_data(pool, 16, 1), Time{}, dropped);
  passes.push(make_data(pool, 16, 1), Time{}, passed);
  EXPECT_EQ(dropped.frames.size(), 0u);
  EXPECT_EQ(passed.frames.size(), 1u);
}

TEST(Impairment, OneRateDoesNotMoveTheFaultsOfAnother) {
  const auto dropped = [](const ImpairmentConfig& config) {
    HeapPool pool(4, 2000);
    Impairment impairment(config, 1);
    std::vector<std::uint64_t> which;
    for (std::uint64_t i = 0; i < 300; ++i) {
      const std::uint64_t before = impairment.counters().dropped.get();
      impairment.push(make_data(pool, 16, i), Time{}, [](Buffer* frame) { give_back(frame); });
      if (impairment.counters().dropped.get() != before) which.push_back(i);
    }
    return which;
  };
  const auto alone = dropped({.drop_ppm = 200'000});
  EXPECT_GT(alone.size(), 20u);
  EXPECT_EQ(alone, dropped({.drop_ppm = 200'000,
                            .corrupt_header_ppm = 500'000,
                            .corrupt_packet_ppm = 500'000,
                            .duplicate_ppm = 500'000}));
}

}  // namespace
}  // namespace mtl::phy
