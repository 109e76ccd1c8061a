#include "base/drop.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <thread>

namespace mtl {
namespace {

using Names = std::set<std::string_view>;

Names names_of(DropLayer layer) {
  Names names;
  for (const DropInfo& each : kDropInfo) {
    if (each.layer == layer) names.insert(each.name);
  }
  return names;
}

// Link and transport have names in common: a layer stands beside each (mtctl, metrics).
TEST(Drop, NamesAreUniqueInTheirLayer) {
  std::set<std::pair<DropLayer, std::string_view>> names;
  for (const DropInfo& each : kDropInfo) {
    EXPECT_FALSE(each.name.empty());
    EXPECT_TRUE(names.emplace(each.layer, each.name).second) << each.name;
  }
}

// The names of the protocol page: traces and other implementations know them.
TEST(Drop, LinkNamesAreThePages) {
  EXPECT_EQ(names_of(DropLayer::kLink),
            (Names{"foreign", "malformed", "bad_header_crc", "stale", "looped", "incompatible",
                   "wrong_peer", "duplicate", "out_of_window", "over_credit", "bad_packet_crc",
                   "poisoned", "bad_ack"}));
}

TEST(Drop, NetworkNamesAreThePages) {
  EXPECT_EQ(names_of(DropLayer::kNetwork),
            (Names{"wrong_class", "spoofed", "wrong_partition", "hop_limit_exceeded", "no_route",
                   "own_queue_full"}));
}

// Rules: T3 T5 T6 T12
TEST(Drop, TransportNamesAreThePages) {
  EXPECT_EQ(names_of(DropLayer::kTransport),
            (Names{"malformed", "no_connection", "wrong_peer", "not_up", "bad_ack", "rejected",
                   "stale", "duplicate", "out_of_window", "no_room"}));
}

TEST(Drop, PhyNames) {
  EXPECT_EQ(names_of(DropLayer::kPhy), (Names{"impaired", "no_buffer", "too_long", "broken_ring",
                                              "not_sent", "not_received"}));
}

// The table stands beside the list: an entry put at one place only shifts the rest.
TEST(Drop, TableAndListAgreeAtTheirSeams) {
  EXPECT_EQ(name(Drop::kImpaired), "impaired");
  EXPECT_EQ(name(Drop::kBrokenRing), "broken_ring");
  EXPECT_EQ(name(Drop::kForeign), "foreign");
  EXPECT_EQ(name(Drop::kStale), "stale");
  EXPECT_EQ(name(Drop::kOverCredit), "over_credit");
  EXPECT_EQ(name(Drop::kBadAck), "bad_ack");
  EXPECT_EQ(name(Drop::kWrongClass), "wrong_class");
  EXPECT_EQ(name(Drop::kOwnQueueFull), "own_queue_full");
  EXPECT_EQ(name(Drop::kTransportMalformed), "malformed");
  EXPECT_EQ(name(Drop::kNotUp), "not_up");
  EXPECT_EQ(name(Drop::kTransportOutOfWindow), "out_of_window");
  EXPECT_EQ(name(Drop::kNoRoom), "no_room");
  EXPECT_EQ(info(Drop::kBadAck).layer, DropLayer::kLink);
}

TEST(DropCounters, CountEachReasonApart) {
  DropCounters counters;
  counters.add(Drop::kStale);
  counters.add(Drop::kStale);
  counters.add(Drop::kNoRoute);
  EXPECT_EQ(counters.get(Drop::kStale), 2u);
  EXPECT_EQ(counters.get(Drop::kNoRoute), 1u);
  EXPECT_EQ(counters.get(Drop::kLooped), 0u);
}

TEST(Counter, AReaderOnAnotherThreadSeesItGrowToTheEnd) {
  constexpr std::uint64_t kCount = 100'000;
  Counter counter;
  std::uint64_t seen = 0;
  bool monotonic = true;
  std::thread reader([&] {
    while (seen < 3 * kCount) {
      const std::uint64_t now = counter.get();
      monotonic = monotonic && now >= seen && now % 3 == 0;
      seen = now;
    }
  });
  for (std::uint64_t i = 0; i < kCount; ++i) counter.add(3);
  reader.join();
  EXPECT_TRUE(monotonic);
  EXPECT_EQ(counter.get(), 3 * kCount);
}

}  // namespace
}  // namespace mtl
