#include "sim/ledger.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "base/byte_order.h"
#include "sim/pool.h"
#include "sim/shape.h"

namespace mtl::sim {
namespace {

class LedgerTest : public testing::Test {
 protected:
  struct Made {
    PacketNumber number;
    Buffer* buffer;
  };

  Made make(std::uint32_t length = 100, bool bad_crc = false, std::uint32_t epoch = 0) {
    PacketPlan plan;
    plan.header = {.proto = 4,
                   .dst = node_id(1),
                   .src = node_id(0),
                   .entropy = 5,
                   .partition = kGoodPartition};
    plan.length = length;
    plan.bad_crc = bad_crc;
    Buffer* buffer = pool.take();
    return {ledger.make(plan, *buffer, epoch), buffer};
  }
  void deliver(const Made& made, std::uint32_t node = 1, std::uint32_t epoch = 0) {
    ledger.delivered(made.number, node, made.buffer->bytes(), epoch);
  }
  bool violated(std::string_view check) const {
    return !violations.list().empty() && violations.list()[0].check == check;
  }

  WirePool pool{2000};
  Violations violations;
  std::set<std::uint32_t> dead_sessions;
  Ledger ledger{3, violations,
                [this](PortRef, std::uint32_t session) { return dead_sessions.contains(session); }};
};

TEST_F(LedgerTest, KnowsItsPacketsOfEveryLengthAgain) {
  std::vector<Made> all;
  for (std::uint32_t length = 16; length < 80; ++length) all.push_back(make(length));
  for (const Made& made : all) {
    EXPECT_EQ(made.buffer->length, 16 + made.number);
    EXPECT_TRUE(link::packet_crc_ok(made.buffer->bytes()));
    EXPECT_EQ(ledger.identify(made.buffer->bytes()), made.number);
    deliver(made);
  }
  ledger.close();
  EXPECT_FALSE(violations.any());
  EXPECT_EQ(ledger.open(), 0u);
}

TEST_F(LedgerTest, WhatChangesOnTheWayMayChange) {
  const Made made = make();
  store8(made.buffer->data, 3);      // hop limit
  store8(made.buffer->data + 1, 1);  // CE
  deliver(made);
  EXPECT_FALSE(violations.any());
}

TEST_F(LedgerTest, FindsAnAlteredByte) {
  const Made made = make();
  made.buffer->data[60] ^= std::byte{1};
  deliver(made);
  EXPECT_TRUE(violated("altered"));
}

TEST_F(LedgerTest, FindsAGrownHopLimit) {
  const Made made = make();
  store8(made.buffer->data, 200);
  deliver(made);
  EXPECT_TRUE(violated("altered"));
}

TEST_F(LedgerTest, FindsTheWrongNode) {
  deliver(make(), 2);
  EXPECT_TRUE(violated("wrong_node"));
}

TEST_F(LedgerTest, FindsADeliveredBadCrc) {
  deliver(make(100, true));
  EXPECT_TRUE(violated("bad_crc"));
}

TEST_F(LedgerTest, FindsADoubleDelivery) {
  const Made made = make();
  ledger.sent(made.number, {}, 1);
  deliver(made);
  deliver(made);
  EXPECT_TRUE(violated("copy"));
}

TEST_F(LedgerTest, FindsADeliveryOfWhatWasDropped) {
  const Made made = make();
  ledger.sent(made.number, {}, 1);
  ledger.dropped(made.number);
  deliver(made);
  EXPECT_TRUE(violated("copy"));
}

TEST_F(LedgerTest, L9_ACopyIsExplainedByEachDeathOnce) {
  const Made made = make();
  ledger.sent(made.number, {}, 1);
  ledger.sent(made.number, {}, 2);
  dead_sessions = {1};
  deliver(made);
  deliver(made);
  EXPECT_FALSE(violations.any());
  EXPECT_EQ(ledger.copies(), 1u);
  deliver(made);
  EXPECT_TRUE(violated("copy"));
}

TEST_F(LedgerTest, FindsWhatOvertook) {
  const Made first = make();
  const Made second = make();
  deliver(second);
  deliver(first);
  EXPECT_TRUE(violated("order"));
}

TEST_F(LedgerTest, OrderMayChangeWithThePath) {
  const Made first = make(100, false, 0);
  const Made second = make(100, false, 1);
  deliver(second, 1, 1);
  deliver(first, 1, 1);
  EXPECT_FALSE(violations.any());
}

TEST_F(LedgerTest, OrderHoldsAcrossChangesWhereThereIsOneWay) {
  ledger.expect(Order::kAlways);
  const Made first = make(100, false, 0);
  const Made second = make(200, false, 1);
  const Made third = make(100, false, 1);
  deliver(first, 1, 1);
  deliver(second, 1, 1);
  EXPECT_EQ(ledger.ordered_across_changes(), 1u);
  EXPECT_FALSE(violations.any());
  const Made fourth = make(200, false, 2);
  deliver(fourth, 1, 2);
  deliver(third, 1, 2);  // of another length than the fourth, and made before a link changed
  EXPECT_TRUE(violated("order"));
}

TEST_F(LedgerTest, OrderIsNotAskedOfWhatMayComeLateForAReason) {
  ledger.expect(Order::kAlways);
  const Made first = make();
  const Made second = make();
  ledger.poisoned(first.number);  // and sent again when the link died
  ledger.sent(first.number, {0, PortId(0)}, 1);
  dead_sessions.insert(1);
  deliver(second);
  deliver(first);
  EXPECT_FALSE(violations.any());
}

TEST_F(LedgerTest, OrderIsNotAskedWhereQueuesDecide) {
  ledger.expect(Order::kNever);
  const Made first = make();
  const Made second = make();
  deliver(second);
  deliver(first);
  EXPECT_FALSE(violations.any());
}

TEST_F(LedgerTest, FindsWhatVanished) {
  make();
  EXPECT_EQ(ledger.open(), 1u);
  ledger.close();
  EXPECT_TRUE(violated("vanished"));
}

TEST_F(LedgerTest, EveryEndIsAnEnd) {
  ledger.dropped(make().number);
  ledger.poisoned(make().number);
  ledger.lost(make().number);
  deliver(make());
  make();
  ledger.withdraw();
  ledger.close();
  EXPECT_FALSE(violations.any());
  EXPECT_EQ(ledger.ended_in_restart(), 1u);
  EXPECT_EQ(ledger.open(), 0u);
}

}  // namespace
}  // namespace mtl::sim
