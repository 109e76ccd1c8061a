// Operations on memory: T26 to T30, T37, T38.
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "operations_harness.h"

namespace mtl::transport::test {
namespace {

using What = ConnectionEvent::What;
using Harness = OperationsHarness;

// ---- the peer's operations ----

TEST(Responder, T26_WritesStoreInOrder) {
  Harness h;
  h.accept();
  h.request(join({write(kFirst + 3, row(5)), write(kFirst + 5, row(2, 100)), write(0, {}, Key{})}));
  EXPECT_EQ(h.at(kFirst + 3, 5), pairs({1, 2, 100, 101, 5}));
  h.run_for(60us);
  EXPECT_EQ(h.types(), "ACK");  // silence is success
}

TEST(Responder, T29_AShortReadReadsWhenItExecutes) {
  Harness h;
  h.accept();
  h.set(kFirst + 8, row(64));
  h.room = 0;
  h.request(join({read(kFirst + 8, 64, 5), write(kFirst + 8, Bytes(64)), read(kFirst, 0, 6)}));
  h.room = -1;
  h.pull();
  EXPECT_EQ(h.responses(), join({result(5, row(64)), result(6, {})}));
}

TEST(Responder, T29_ALongReadIsAnsweredInSegmentsThatCoverItOnce) {
  Harness h;
  h.peer_mtu = 512;
  h.accept();
  const Bytes content = row(2000);
  h.set(kFirst, content);
  h.request(read(kFirst, 2000, 9), 0);
  Bytes got(2000);
  std::size_t sum = 0;
  for (const Sent& s : h.data_sent()) {
    ASSERT_LE(s.bytes.size(), 512u);
    ASSERT_EQ(s.at8(28), 16);
    ASSERT_EQ(s.at32(32), 9u);
    const bool has_at = s.at8(29) == 1;
    const std::size_t at = has_at ? s.at32(36) : 0;
    const std::size_t length = s.at16(30);
    std::copy_n(s.bytes.begin() + (has_at ? 40 : 36), length,
                got.begin() + static_cast<std::ptrdiff_t>(at));
    sum += length;
  }
  EXPECT_EQ(sum, 2000u);
  EXPECT_EQ(got, content);
}

TEST(Responder, T29_AShortReadDoesNotWaitForALongOne) {
  Harness h;
  h.accept();
  h.room = 0;
  h.request(join({read(kFirst, 60000, 1), read(kFirst, 8, 2)}));
  h.room = -1;
  h.pull();
  const auto bodies = h.bodies();
  ASSERT_GE(bodies.size(), 2u);
  EXPECT_EQ(bodies[1], result(2, Bytes(8)));
}

TEST(Responder, T37_EachFaultByItsStatusInThePagesOrder) {
  Harness h;
  h.accept();
  h.give(Key{2}, {.memory = std::span(h.memory).first(64), .rights = kRightRead});
  h.give(Key{3}, {.memory = std::span(h.memory).first(64), .rights = kRightWrite});
  h.give(Key{4}, {.memory = h.memory, .rights = 7, .only = ConnectionId{77}});
  const Bytes body = join({
      write(kFirst, row(8), Key{1}),             // 0: bad_key
      write(1000, row(8), Key{2}),               // 1: no_permission before out_of_bounds
      write(60, row(8), Key{3}),                 // 2: out_of_bounds
      write(~std::uint64_t{0}, row(8), Key{3}),  // 3: out_of_bounds, though it wraps
      read(0, 8, 1, Key{3}),                     // 4: no_permission
      atomic(0, 1, kFirst + 4, be64(1)),         // 5: misaligned
      atomic(0, 1, kFirst + 65532, be64(1)),     // 6: out_of_bounds before misaligned
      atomic(8, 1, kFirst, be64(1)),             // 7: unsupported
      atomic(3, 4, kFirst, be32(1)),             // 8: unsupported, bits of a float
      write(0, row(8), Key{4}),                  // 9: bad_key: another connection's
      write(kFirst, row(8)),                     // 10: ok
  });
  h.request(body, 4);
  EXPECT_EQ(h.responses(),
            report(kPeerPsn, pairs({0, 1, 1, 3, 2, 2, 3, 2, 4, 3, 5, 4, 6, 2, 7, 5, 8, 5, 9, 1})));
  EXPECT_EQ(h.at(kFirst, 16), join({row(8), Bytes(8)}));  // the others still execute
}

TEST(Responder, T37_NothingIsCheckedForNoBytes) {
  Harness h;
  h.accept();
  h.request(join({write(5, {}, Key{1}), read(5, 0, 3, Key{1})}));
  EXPECT_EQ(h.responses(), result(3, {}));
}

TEST(Responder, T28_WhatFollowsAFailureWaitsForTheReportsAck) {
  Harness h;
  h.accept();
  h.request(write(kFirst, row(8), Key{1}));
  h.request(write(kFirst, row(4)));
  EXPECT_EQ(h.at(kFirst, 4), Bytes(4));
  h.ack(1, {}, 0, 0, 1);
  EXPECT_EQ(h.at(kFirst, 4), row(4));
}

TEST(Responder, T28_EachReportIsOfItsOwnData) {
  Harness h;
  h.accept();
  h.request(join({write(kFirst, row(8), Key{1}), write(kFirst, row(8), Key{1})}));
  h.request(join({write(kFirst, row(8)), write(kFirst + 70000, row(8))}));
  h.ack(1, {}, 0, 0, 1);
  h.ack(2, {}, 1, 0, 1);
  const auto bodies = h.bodies();
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0], report(kPeerPsn, pairs({0, 1, 1, 1})));
  EXPECT_EQ(bodies[1], report(kPeerPsn + 1, pairs({1, 2})));
}

TEST(Responder, T15_EarlyUnlessAnythingOfItWouldFail) {
  Harness h;
  h.accept();
  h.data(Flow::kRequest, 1, join({write(kFirst, row(8)), write(kFirst + 8, row(8), Key{1})}), 2);
  EXPECT_EQ(h.at(kFirst, 8), Bytes(8));
  h.data(Flow::kRequest, 2, write(kFirst + 16, row(8)), 2);
  EXPECT_EQ(h.at(kFirst + 16, 8), row(8));
  h.data(Flow::kRequest, 0, write(0, {}));
  EXPECT_EQ(h.at(kFirst, 8), row(8));
  EXPECT_EQ(h.responses(), report(kPeerPsn + 1, pairs({1, 1})));
}

TEST(Responder, T16_MoreReadsThanWereTold) {
  Settings s = base_settings();
  s.reads = 2;
  for (const bool fetch : {false, true}) {
    Harness h(s);
    h.accept();
    h.room = 0;
    const Bytes last = fetch ? atomic(0, 1, kFirst, be64(1), 3) : read(kFirst, 8, 3);
    h.request(join({read(kFirst, 8, 1), read(kFirst, 8, 2), last}));
    h.room = -1;
    h.pull();
    ASSERT_EQ(h.types(), "CLOSE");
    EXPECT_EQ(h.sent[0].reason(), 2);
    EXPECT_EQ(h.number<std::uint64_t>(kFirst), 0u);
  }
}

// What has left is no longer outstanding as far as it can be known here.
TEST(Responder, T29_ReadsThatWereAnsweredMakeRoom) {
  Settings s = base_settings();
  s.reads = 2;
  Harness h(s);
  h.accept();
  for (std::uint32_t i = 0; i < 10; ++i) h.request(read(kFirst, 8, i));
  EXPECT_EQ(h.bodies().size(), 10u);
  EXPECT_EQ(h.connection().state(), State::kUp);
}

TEST(Responder, T31_AMessageIsBeyondTheLimitWhereNoneIsTold) {
  for (const Bytes& body :
       {Bits().u32(0x04000000).bytes, Bits().u32(0x01020000).u64(0).u64(0).u64(1).bytes}) {
    Settings s = base_settings();
    s.messages = 0;
    Harness h(s);
    h.open(0, true);
    EXPECT_EQ(h.sent.at(0).at32(44), 0u);  // messages
    h.open(kOurId, false);
    h.sent.clear();
    h.request(body);
    ASSERT_EQ(h.types(), "CLOSE");
    EXPECT_EQ(h.sent[0].reason(), 2);
  }
}

TEST(Responder, T34_DataAndCancelOfNoMessageAreIgnored) {
  Harness h;
  h.accept();
  h.request(join({Bits().u32(0x05000004).u32(0).u32(0).u32(7).bytes,
                  Bits().u32(0x05800004).u32(5).u32(0).u32(7).bytes,
                  Bits().u32(0x06000000).u32(0).bytes, write(kFirst, row(4))}));
  EXPECT_EQ(h.at(kFirst, 4), row(4));
  EXPECT_EQ(h.connection().state(), State::kUp);
}

// ---- atomics ----

/// One ATOMIC with FETCH on a place that holds `old`; what it holds then, and what was told.
template <class T>
std::pair<T, T> run_atomic(unsigned op, unsigned type, T old, std::vector<T> operands) {
  using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  Harness h;
  h.accept();
  h.set_number(kFirst + 8, old);
  Bytes wire;
  for (const T v : operands) {
    const Bytes b = sizeof(T) == 4 ? be32(static_cast<std::uint32_t>(std::bit_cast<Word>(v)))
                                   : be64(std::bit_cast<Word>(v));
    wire.insert(wire.end(), b.begin(), b.end());
  }
  h.request(atomic(op, type, kFirst + 8, wire, 7));
  const Bytes r = h.responses();
  EXPECT_EQ(r.size(), 8 + sizeof(T));
  Word told;
  if constexpr (sizeof(T) == 4) {
    told = load32(r.data() + 8);
  } else {
    told = load64(r.data() + 8);
  }
  return {h.number<T>(kFirst + 8), std::bit_cast<T>(told)};
}

template <class T>
void expect_atomic(unsigned op, unsigned type, T old, std::vector<T> operands, T then) {
  const auto [now, told] = run_atomic<T>(op, type, old, operands);
  EXPECT_EQ(now, then) << op << " " << type;
  EXPECT_EQ(told, old) << op << " " << type;
}

TEST(Atomic, T30_EveryOperationOnIntegers) {
  constexpr std::uint32_t kAll = 0xFFFFFFFF;
  expect_atomic<std::uint32_t>(0, 0, kAll, {2}, 1);  // wraps
  expect_atomic<std::uint64_t>(0, 1, ~std::uint64_t{0}, {1}, 0);
  expect_atomic<std::int32_t>(0, 2, std::numeric_limits<std::int32_t>::max(), {1},
                              std::numeric_limits<std::int32_t>::min());
  expect_atomic<std::int64_t>(0, 3, -5, {3}, -2);
  expect_atomic<std::uint32_t>(1, 0, 7, {9}, 9);
  expect_atomic<std::uint64_t>(2, 1, 7, {7, 9}, 9);
  expect_atomic<std::uint64_t>(2, 1, 7, {8, 9}, 7);
  expect_atomic<std::uint32_t>(3, 0, 12, {10}, 8);
  expect_atomic<std::uint32_t>(4, 0, 12, {10}, 14);
  expect_atomic<std::uint32_t>(5, 0, 12, {10}, 6);
  expect_atomic<std::uint32_t>(6, 0, 1, {kAll}, 1);
  expect_atomic<std::int32_t>(6, 2, 1, {-1}, -1);  // signed
  expect_atomic<std::uint64_t>(7, 1, 1, {~std::uint64_t{0}}, ~std::uint64_t{0});
  expect_atomic<std::int64_t>(7, 3, 1, {-1}, 1);
}

TEST(Atomic, T30_OnFloats) {
  expect_atomic<float>(0, 4, 1.5F, {0.25F}, 1.75F);
  expect_atomic<double>(0, 5, 1e300, {1.0}, 1e300);
  expect_atomic<double>(1, 5, 1.0, {2.0}, 2.0);
  expect_atomic<double>(6, 5, 1.0, {-1.5}, -1.5);
  expect_atomic<double>(7, 5, 1.0, {-1.5}, 1.0);
  // Compare-swap compares bits: 0 and -0 are equal numbers, and differ.
  const auto [now, told] = run_atomic<double>(2, 5, 0.0, {-0.0, 4.0});
  EXPECT_EQ(now, 0.0);
  EXPECT_FALSE(std::signbit(told));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto swapped = run_atomic<double>(2, 5, nan, {nan, 4.0});
  EXPECT_EQ(swapped.first, 4.0);
}

TEST(Atomic, T30_ARowOfPlacesCompareValuesFirst) {
  Harness h;
  h.accept();
  for (std::uint32_t i = 0; i < 4; ++i) h.set_number<std::uint32_t>(kFirst + 4 * i, i);
  // Compare with 0, 9, 2, 9; new ones are 10 to 13.
  h.request(atomic(
      2, 0, kFirst,
      join({be32(0), be32(9), be32(2), be32(9), be32(10), be32(11), be32(12), be32(13)}), 1));
  EXPECT_EQ(h.responses(), result(1, join({be32(0), be32(1), be32(2), be32(3)})));
  EXPECT_EQ(h.number<std::uint32_t>(kFirst), 10u);
  EXPECT_EQ(h.number<std::uint32_t>(kFirst + 4), 1u);
  EXPECT_EQ(h.number<std::uint32_t>(kFirst + 8), 12u);
  EXPECT_EQ(h.number<std::uint32_t>(kFirst + 12), 3u);
}

TEST(Atomic, T14_ACopyOfAFetchAddAddsNothing) {
  Harness h;
  h.accept();
  const Bytes add = atomic(0, 1, kFirst, be64(5), 1);
  h.data(Flow::kRequest, 0, add);
  for (int i = 0; i < 3; ++i) h.data(Flow::kRequest, 0, add);
  EXPECT_EQ(h.number<std::uint64_t>(kFirst), 5u);
  EXPECT_EQ(h.responses(), result(1, be64(0)));
}

// ---- keys ----

TEST(Keys, T37_DrawnOnesHave40RandomBitsAndAreNotGivenAgain) {
  KeyTable table(8);
  std::vector<std::byte> memory(64);
  const Key first = table.draw(0xABCDEF0123);
  EXPECT_EQ(first.value() >> 24, 0xABCDEF0123u);
  ASSERT_TRUE(table.give(first, {.memory = memory, .rights = 7}));
  EXPECT_NE(table.withdraw(first), 0u);
  EXPECT_NE(table.draw(0xABCDEF0123), first);
}

TEST(Keys, T37_OffsetsBeginWhereTheOwnerSays) {
  KeyTable table(8);
  std::vector<std::byte> memory(64);
  const std::uint64_t first = ~std::uint64_t{0} - 31;  // 32 bytes, then it wraps
  ASSERT_TRUE(table.give(Key{1}, {.memory = memory, .rights = kRightRead, .first_offset = first}));
  const auto ok = table.access(Key{1}, ConnectionId{1}, first + 40, 24, kRightRead);
  EXPECT_EQ(ok.status, Status::kOk);
  EXPECT_EQ(ok.memory, memory.data() + 40);
  EXPECT_EQ(table.access(Key{1}, ConnectionId{1}, first + 40, 25, kRightRead).status,
            Status::kOutOfBounds);
  EXPECT_EQ(table.access(Key{1}, ConnectionId{1}, first - 1, 1, kRightRead).status,
            Status::kOutOfBounds);
  EXPECT_EQ(table.access(Key{1}, ConnectionId{1}, first, ~std::uint64_t{0}, kRightRead).status,
            Status::kOutOfBounds);
}

TEST(Keys, ErrorsOfTheOwner) {
  KeyTable table(2);
  alignas(8) std::array<std::byte, 64> memory{};
  ASSERT_TRUE(table.give(Key{1}, {.memory = memory, .rights = 7}));
  EXPECT_FALSE(table.give(Key{1}, {.memory = memory, .rights = 7}));
  EXPECT_FALSE(table.give(Key{2}, {.memory = memory, .rights = 7, .first_offset = 4}));
  ASSERT_TRUE(table.give(Key{2}, {.memory = memory, .rights = 3, .first_offset = 4}));
  EXPECT_FALSE(table.give(Key{3}, {.memory = memory, .rights = 7}));
  EXPECT_EQ(table.withdraw(Key{3}), 0u);
  EXPECT_NE(table.withdraw(Key{1}), 0u);
  EXPECT_EQ(table.size(), 1u);
}

TEST(Keys, FindsAllThroughManyWithdrawals) {
  KeyTable table(64);
  std::array<std::byte, 8> memory{};
  std::vector<bool> given(200);
  std::uint32_t x = 1;
  for (int step = 0; step < 20000; ++step) {
    x = x * 1664525 + 1013904223;
    const std::uint32_t n = (x >> 8) % 200;
    const Key key{n * 0x100000000u};
    if (given[n]) {
      EXPECT_NE(table.withdraw(key), 0u);
      given[n] = false;
    } else if (table.size() < 64) {
      ASSERT_TRUE(table.give(key, {.memory = memory, .rights = kRightRead}));
      given[n] = true;
    }
    const std::uint32_t other = (x >> 16) % 200;
    const auto a = table.access(Key{other * 0x100000000u}, ConnectionId{1}, 0, 1, kRightRead);
    ASSERT_EQ(a.status == Status::kOk, given[other]);
  }
}

TEST(Keys, T38_AfterAWithdrawalNothingIsWritten) {
  Harness h;
  h.accept();
  h.data(Flow::kRequest, 1, write(kFirst, row(8)));  // held: it came early
  h.operations.withdraw(kKey);
  h.data(Flow::kRequest, 0, write(0, {}));
  EXPECT_EQ(h.at(kFirst, 8), Bytes(8));
  EXPECT_EQ(h.responses(), report(kPeerPsn + 1, pairs({0, 1})));
}

TEST(Keys, T38_WhatIsLeftOfAReadFails) {
  Harness h;
  h.accept();
  h.room = 3;
  h.request(read(kFirst, 60000, 5));
  ASSERT_EQ(h.bodies().size(), 3u);
  h.operations.withdraw(kKey);
  h.memory.fill(std::byte{0xEE});
  h.sent.clear();
  h.room = -1;
  h.pull();
  const Bytes failed = Bits().u32(0x10020001).u32(5).u32(0x01000000).bytes;
  ASSERT_EQ(h.bodies().size(), 1u);
  EXPECT_EQ(h.bodies()[0], failed);
  // Nor is memory read for a DATA that is sent again.
  h.sent.clear();
  h.run_for(15ms);
  ASSERT_GE(h.bodies().size(), 4u);
  for (const Bytes& body : h.bodies()) EXPECT_EQ(body, failed);
}

TEST(Keys, T38_AShortReadThatHasExecutedIsAnswered) {
  Harness h;
  h.accept();
  h.set(kFirst, row(8));
  h.room = 0;
  h.request(read(kFirst, 8, 5));
  h.operations.withdraw(kKey);
  h.room = -1;
  h.pull();
  EXPECT_EQ(h.responses(), result(5, row(8)));
}

// ---- our operations ----

Work put(const Bytes& data, std::uint64_t offset, std::uint8_t flags = 0) {
  return {.kind = Kind::kPut, .flags = flags, .key = Key{0x77}, .offset = offset, .from = data};
}

TEST(Requester, T27_APutIsCompleteWhenTheAckHasPassedIt) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  Work w = put(data, 0x1000);
  w.context = 42;
  ASSERT_EQ(h.post(w), Posted::kTaken);
  EXPECT_EQ(h.bodies(Flow::kRequest).at(0), write(0x1000, data, Key{0x77}));
  h.run_for(100us);
  h.ack(0, {0}, 0, 0);  // arrived, not executed
  EXPECT_TRUE(h.completions().empty());
  h.ack(1, {}, 0, 0);
  const auto done = h.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[0].context, 42u);
  EXPECT_EQ(done[0].peer.node, kPeerNode);
  EXPECT_EQ(done[0].age, 100us);
  EXPECT_EQ(done[0].length, 8u);
}

TEST(Requester, T26_SmallOnesShareAPacketNear) {
  Harness h;
  h.accept();
  h.room = 0;
  const Bytes data = row(8);
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(h.post(put(data, 0x1000 + 64 * i, kInject)), Posted::kTaken);
  }
  h.room = -1;
  h.pull();
  ASSERT_EQ(h.bodies(Flow::kRequest).size(), 1u);
  Bytes expected = write(0x1000, data, Key{0x77});
  for (unsigned i = 1; i < 4; ++i) {
    expected = join({expected, Bits().u32(0x01010008).u32(64 * i).data(data).bytes});
  }
  EXPECT_EQ(h.bodies(Flow::kRequest)[0], expected);
}

TEST(Requester, T26_AtMost255InAPacket) {
  Harness h;
  h.peer_mtu = 9000;
  Settings s = base_settings();
  s.mtu = 9000;
  Harness big(s);
  big.peer_mtu = 9000;
  big.accept();
  big.room = 0;
  for (int i = 0; i < 300; ++i) ASSERT_EQ(big.post(put({}, 0)), Posted::kTaken);
  big.room = -1;
  big.pull();
  const auto sent = big.data_sent();
  ASSERT_EQ(sent.size(), 2u);
  for (const Sent& packet : sent) {
    const auto decoded = decode(packet.bytes);
    ASSERT_TRUE(decoded);
    EXPECT_TRUE(count_operations(Flow::kRequest, false, decoded->body));
  }
}

TEST(Requester, T26_ALongPutIsSegmentsThatNoPacketExceeds) {
  Harness h;
  h.peer_mtu = 1000;
  h.accept();
  const Bytes data = row(5000);
  ASSERT_EQ(h.post(put(data, 0x1000)), Posted::kTaken);
  Bytes got(5000);
  std::size_t sum = 0;
  for (const Sent& s : h.data_sent()) {
    ASSERT_LE(s.bytes.size(), 1000u);
    ASSERT_EQ(s.at8(28), 1);
    const std::uint64_t at = s.at64(40) - 0x1000;
    std::copy_n(s.bytes.begin() + 48, s.at16(30), got.begin() + static_cast<std::ptrdiff_t>(at));
    sum += s.at16(30);
  }
  EXPECT_EQ(sum, 5000u);
  EXPECT_EQ(got, data);
  h.ack(3, {}, 2, 0);
  EXPECT_TRUE(h.completions().empty());
  h.ack(static_cast<std::uint32_t>(h.data_sent().size()), {}, 2, 0);
  EXPECT_EQ(h.completions().size(), 1u);
}

TEST(Requester, T11_WhatIsSentAgainIsReadFromTheCallersMemory) {
  Harness h;
  h.accept();
  const Bytes data = row(3000);
  h.post(put(data, 0x1000));
  h.run_for(10ms);
  const auto bodies = h.bodies(Flow::kRequest);
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0], bodies[1]);
}

TEST(Requester, InjectedDataIsTheCallersAgainAtOnce) {
  Harness h;
  h.accept();
  h.room = 0;
  Bytes data = row(100);
  h.post(put(data, 0x1000, kInject));
  const Bytes before = data;
  data.assign(100, std::byte{0});
  h.room = -1;
  h.pull();
  EXPECT_EQ(h.bodies(Flow::kRequest).at(0), write(0x1000, before, Key{0x77}));
}

TEST(Requester, T15_WhatMayOvertakeIsUnorderedAndSharesNoPacketWithOthers) {
  Harness h;
  h.accept();
  h.room = 0;
  const Bytes data = row(8);
  h.post(put(data, 0));
  h.post(put(data, 8, kMayOvertake));
  h.post(put(data, 16, kMayOvertake));
  h.post(put(data, 24));
  h.room = -1;
  h.pull();
  const auto sent = h.data_sent();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].flags() & 2, 0);
  EXPECT_EQ(sent[1].flags() & 2, 2);
  EXPECT_EQ(sent[2].flags() & 2, 0);
}

TEST(Requester, T29_AGetIsCompleteWithItsLastResultInAnyOrder) {
  Harness h;
  h.accept();
  Bytes to(100);
  Work w{.kind = Kind::kGet, .key = Key{0x77}, .offset = 0x1000, .to = to};
  ASSERT_EQ(h.post(w), Posted::kTaken);
  EXPECT_EQ(h.bodies(Flow::kRequest).at(0), read(0x1000, 100, 0, Key{0x77}));
  const Bytes all = row(100);
  h.respond(result(0, {all.begin() + 60, all.end()}, 60));
  h.ack(1, {}, 0, 0);
  EXPECT_TRUE(h.completions().empty());
  h.respond(result(0, {all.begin(), all.begin() + 60}), 1);
  EXPECT_EQ(h.completions().size(), 1u);
  EXPECT_EQ(to, all);
  h.respond(result(0, all), 1);  // of nothing outstanding: ignored
  EXPECT_EQ(h.connection().state(), State::kUp);
}

// What is lacking could come only beyond the total, which ends the connection (T16).
TEST(Requester, T29_BytesOfAnAnswerThatComeTwiceAreNotAllOfIt) {
  Harness h;
  h.accept();
  Bytes to(12);
  h.post({.kind = Kind::kGet, .key = kKey, .to = to});
  h.respond(result(0, row(8), 0), 1);
  h.respond(result(0, row(4), 4), 1);
  EXPECT_EQ(h.connection().state(), State::kClosing);
  const auto all = h.completions();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].ended, EndReason::kProtocol);
}

TEST(Requester, T29_AnAnswerBeforeTheAckCompletesOnce) {
  Harness h;
  h.accept();
  Bytes to(8);
  h.post({.kind = Kind::kGet, .key = Key{0x77}, .to = to});
  h.respond(result(0, row(8)));
  EXPECT_EQ(h.completions().size(), 1u);
  h.ack(1, {}, 0, 0);
  EXPECT_TRUE(h.completions().empty());
}

TEST(Requester, T29_AtMostSoManyReadsAsThePeerTold) {
  Harness h;
  h.peer_reads = 2;
  h.accept();
  Bytes to(8);
  const Bytes data = row(4);
  for (int i = 0; i < 3; ++i) h.post({.kind = Kind::kGet, .key = Key{0x77}, .to = to});
  h.post(put(data, 0));  // does not overtake
  EXPECT_EQ(h.bodies(Flow::kRequest).size(), 2u);
  h.respond(result(1, row(8)));
  const auto bodies = h.bodies(Flow::kRequest);
  ASSERT_EQ(bodies.size(), 3u);
  EXPECT_EQ(bodies[2], join({read(0, 8, 2, Key{0x77}),
                             Bits().u32(0x01010004).u32(0).data(data).bytes}));  // NEAR
}

TEST(Requester, T29_APeerThatAllowsNoReadsFailsThem) {
  Harness h;
  h.peer_reads = 0;
  h.accept();
  Bytes to(8);
  const Bytes data = row(4);
  h.post(put(data, 0));
  h.post({.kind = Kind::kGet, .context = 1, .key = Key{0x77}, .to = to});
  h.post({.kind = Kind::kPut, .context = 2, .key = Key{0x77}, .from = data});
  const auto done = h.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].context, 1u);
  EXPECT_EQ(done[0].status, Status::kUnsupported);
  h.ack(2, {}, 0, 0);
  EXPECT_EQ(h.completions().size(), 2u);
}

TEST(Requester, T16_ResultsBeyondTheRead) {
  const auto closes = [](const Work& work, std::initializer_list<Bytes> answers) {
    Harness h;
    h.accept();
    h.post(work);
    for (const Bytes& answer : answers) h.respond(answer);
    return h.sent.back().type() == Type::kClose && h.sent.back().reason() == 2;
  };
  Bytes to(8);
  const Bytes one = row(8);
  const Work get{.kind = Kind::kGet, .key = Key{0x77}, .to = to};
  EXPECT_TRUE(closes(get, {result(0, row(9))}));
  EXPECT_TRUE(closes(get, {result(0, row(4), 5)}));
  EXPECT_TRUE(closes(get, {result(0, row(4)), result(0, row(5))}));
  EXPECT_TRUE(closes(get, {result(0, row(1), 0xFFFFFFFF)}));
  EXPECT_FALSE(closes(get, {result(0, row(4)), result(0, row(4), 4)}));
  const Work fetch{.kind = Kind::kFetchAtomic,
                   .key = Key{0x77},
                   .from = one,
                   .to = to,
                   .op = AtomicOp::kAdd,
                   .type = AtomicType::kU64};
  EXPECT_TRUE(closes(fetch, {result(0, row(4))}));
  EXPECT_FALSE(closes(fetch, {result(0, row(8))}));
}

TEST(Requester, T30_OperandsGoAndOldValuesComeInTheWiresOrder) {
  Harness h;
  h.accept();
  std::uint32_t old[2] = {};
  const std::uint32_t operands[4] = {1, 2, 3, 4};
  ASSERT_EQ(h.post({.kind = Kind::kFetchAtomic,
                    .key = kKey,
                    .offset = kFirst,
                    .from = std::as_bytes(std::span(operands)),
                    .to = std::as_writable_bytes(std::span(old)),
                    .op = AtomicOp::kCompareSwap,
                    .type = AtomicType::kU32}),
            Posted::kTaken);
  EXPECT_EQ(h.bodies(Flow::kRequest).at(0),
            atomic(2, 0, kFirst, join({be32(1), be32(2), be32(3), be32(4)}), 0));
  h.respond(result(0, join({be32(0x01020304), be32(5)})));
  EXPECT_EQ(old[0], 0x01020304u);
  EXPECT_EQ(old[1], 5u);
}

TEST(Requester, T28_AReportFailsWhatItNames) {
  Harness h;
  h.accept();
  h.room = 0;
  const Bytes data = row(8);
  Bytes to(8);
  for (std::uint64_t i = 0; i < 3; ++i) {
    Work w = put(data, 8 * i, static_cast<std::uint8_t>(i == 1 ? kSilent : 0));
    w.context = i;
    h.post(w);
  }
  h.post({.kind = Kind::kGet, .context = 3, .key = Key{0x77}, .to = to});
  h.room = -1;
  h.pull();
  h.respond(report(kOurPsn, pairs({1, 2, 3, 1})));
  auto done = h.completions();
  ASSERT_EQ(done.size(), 1u);  // the get; puts once they are passed
  EXPECT_EQ(done[0].context, 3u);
  EXPECT_EQ(done[0].status, Status::kBadKey);
  h.ack(1, {}, 0, 0);
  done = h.completions();
  ASSERT_EQ(done.size(), 3u);
  EXPECT_TRUE(done[0].ok());
  EXPECT_EQ(done[1].context, 1u);  // silent only where it succeeds
  EXPECT_EQ(done[1].status, Status::kOutOfBounds);
  EXPECT_EQ(done[1].offset, 8u);
  EXPECT_TRUE(done[2].ok());
}

TEST(Requester, T28_OneSegmentThatFailsFailsTheWhole) {
  Harness h;
  h.accept();
  const Bytes data = row(20000);
  h.post(put(data, 0));
  const auto count = static_cast<std::uint32_t>(h.data_sent().size());
  h.ack(2, {}, 1, 0);
  h.respond(report(kOurPsn + 2, pairs({0, 2})), 2);
  h.ack(count, {}, 3, 0);
  const auto done = h.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, Status::kOutOfBounds);
}

TEST(Requester, T16_AReportOfNothingThatWasSent) {
  const auto closes = [](std::uint32_t psn, const Bytes& p, std::uint32_t acked) {
    Harness h;
    h.accept();
    const Bytes data = row(8);
    h.post(put(data, 0));
    h.respond(report(kOurPsn + psn, p), acked);
    return h.sent.back().type() == Type::kClose && h.sent.back().reason() == 2;
  };
  EXPECT_FALSE(closes(0, pairs({0, 1}), 0));
  EXPECT_TRUE(closes(1, pairs({0, 1}), 0));  // never sent
  EXPECT_TRUE(closes(0, pairs({0, 1}), 1));  // passed by ack
  EXPECT_TRUE(closes(0, pairs({1, 1}), 0));  // more than it has
  EXPECT_TRUE(closes(0xFFFFFFFF, pairs({0, 1}), 0));
}

TEST(Requester, AResultWithFailEndsAGet) {
  Harness h;
  h.accept();
  Bytes to(2000);
  h.post({.kind = Kind::kGet, .key = Key{0x77}, .to = to});
  h.respond(result(0, row(100)));
  h.respond(Bits().u32(0x10020001).u32(0).u32(0x01000000).bytes);
  const auto done = h.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, Status::kBadKey);
}

TEST(Requester, AFenceWaitsForAllBefore) {
  Harness h;
  h.accept();
  Bytes to(8);
  const Bytes data = row(8);
  h.post({.kind = Kind::kGet, .key = Key{0x77}, .to = to});
  h.post(put(data, 0));
  h.post(put(data, 8, kFence));
  h.post(put(data, 16));
  EXPECT_EQ(h.bodies(Flow::kRequest).size(), 2u);
  h.ack(2, {}, 1, 0);
  EXPECT_EQ(h.bodies(Flow::kRequest).size(), 2u);
  h.respond(result(0, row(8)), 2);
  const auto bodies = h.bodies(Flow::kRequest);
  ASSERT_EQ(bodies.size(), 3u);
  EXPECT_EQ(bodies[2],
            join({write(8, data, Key{0x77}), Bits().u32(0x01010008).u32(8).data(data).bytes}));
}

// Nor does it wait for its own first segments.
TEST(Requester, AFencedPutGoesOnWhenItsFirstSegmentsArePassed) {
  Harness h;
  h.peer_mtu = 128;
  h.peer_window = 0;
  h.accept();
  const Bytes data = row(200);
  h.post(put(data, 0, kFence));
  std::uint32_t acked = 0;
  while (h.data_sent().size() > acked && acked < 10) {
    ++acked;
    h.ack(acked, {}, acked - 1, 0);
  }
  EXPECT_EQ(h.completions().size(), 1u);
}

TEST(Requester, T27_AFlushIsCompleteWithAllBeforeIt) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  Bytes to(8);
  h.post({.kind = Kind::kFlush, .context = 10});
  EXPECT_EQ(h.completions().size(), 1u);  // nothing before it
  h.post(put(data, 0, kSilent));
  h.post({.kind = Kind::kGet, .flags = kSilent, .key = Key{0x77}, .to = to});
  h.post({.kind = Kind::kFlush, .context = 11});
  h.post(put(data, 8, kSilent));
  h.post({.kind = Kind::kFlush, .context = 12});
  const auto bytes = h.sent.size();
  h.ack(3, {}, 2, 0);
  EXPECT_TRUE(h.completions().empty());
  h.respond(result(0, row(8)), 3);
  const auto done = h.completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].context, 11u);
  EXPECT_EQ(done[1].context, 12u);
  EXPECT_EQ(h.sent.size(), bytes);  // nothing on the wire for it
}

TEST(Requester, T27_AnyNumberOfFlushesWait) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  for (std::uint64_t i = 0; i < 40; ++i) {
    if (i % 2 == 0) h.post(put(data, 8 * i, kSilent));
    ASSERT_EQ(h.post({.kind = Kind::kFlush, .context = i}), Posted::kTaken) << i;
  }
  const auto contexts = [&] {
    std::vector<std::uint64_t> all;
    for (const Completion& c : h.completions()) all.push_back(c.context);
    return all;
  };
  EXPECT_TRUE(contexts().empty());
  h.ack(1, {}, 0, 0);
  EXPECT_EQ(contexts(), (std::vector<std::uint64_t>{0, 1}));
  h.ack(16, {}, 15, 0);
  h.ack(17, {}, 16, 0);  // what had waited shared a packet
  EXPECT_EQ(contexts().size(), 38u);
  EXPECT_EQ(h.post({.kind = Kind::kFlush}), Posted::kTaken);
  EXPECT_EQ(contexts().size(), 1u);  // nothing is before it
}

TEST(Requester, WhatMayWaitDoesForPackDelayAtMost) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  const Time t0 = h.now;
  h.post(put(data, 0, kMayWait));
  h.run_to(t0 + 1us);
  h.post(put(data, 8, kMayWait));
  EXPECT_TRUE(h.bodies(Flow::kRequest).empty());
  h.run_to(t0 + 3us);
  ASSERT_EQ(h.data_sent().size(), 1u);
  EXPECT_EQ(h.sent[0].at - t0, 2us);
  EXPECT_EQ(h.sent[0].body(), 28u + 16);
}

TEST(Requester, WhatMayWaitLeavesWithWhatMayNotAndWhenAPacketIsFull) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  h.post(put(data, 0, kMayWait));
  h.post(put(data, 8));
  EXPECT_EQ(h.data_sent().size(), 1u);
  h.sent.clear();
  for (int i = 0; i < 255; ++i) {
    EXPECT_TRUE(h.data_sent().empty()) << i;
    h.post(put(data, 8 * static_cast<std::uint64_t>(i), kMayWait | kInject));
    if (!h.data_sent().empty()) break;
  }
  ASSERT_EQ(h.data_sent().size(), 1u);
  h.sent.clear();
  h.post(put(data, 0, kMayWait));
  h.post({.kind = Kind::kFlush});
  EXPECT_EQ(h.data_sent().size(), 1u);
}

TEST(Requester, WhatIsPostedWhileOpeningLeavesWhenItIsUp) {
  Harness h;
  h.open_here();
  const Bytes data = row(8);
  ASSERT_EQ(h.post(put(data, 0x10)), Posted::kTaken);
  EXPECT_TRUE(h.data_sent().empty());
  h.open(kOurId, true);
  EXPECT_EQ(h.bodies(Flow::kRequest).at(0), write(0x10, data, Key{0x77}));
}

TEST(Requester, T10_WhatIsNotCompleteFailsWithTheReasonOfTheEnd) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  Bytes to(8);
  h.post(put(data, 0));
  h.post({.kind = Kind::kGet, .context = 1, .key = Key{0x77}, .to = to});
  h.ack(2, {}, 1, 0);  // the get is passed, and not answered
  EXPECT_EQ(h.completions().size(), 1u);
  h.post({.kind = Kind::kPut, .flags = kSilent, .context = 2, .key = Key{0x77}, .from = data});
  h.post({.kind = Kind::kGet, .context = 3, .key = Key{0x77}, .to = to});
  h.post({.kind = Kind::kFlush, .context = 4});
  h.post({.kind = Kind::kPut, .flags = kFence, .context = 5, .key = Key{0x77}, .from = data});
  h.run_for(3ms);
  h.close(1);
  const auto done = h.completions();
  ASSERT_EQ(done.size(), 5u);
  std::set<std::uint64_t> contexts;
  for (const Completion& c : done) {
    contexts.insert(c.context);
    EXPECT_EQ(c.ended, EndReason::kPeerClose);
    EXPECT_EQ(c.peer.node, kPeerNode);
    EXPECT_EQ(c.age, 3ms);
  }
  EXPECT_EQ(contexts, (std::set<std::uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(h.post(put(data, 0)), Posted::kEnded);
}

// Records are neither lost nor used twice: as many as there are can be posted again and again.
TEST(Requester, RecordsComeBack) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  std::uint32_t acked = 0;
  for (int round = 0; round < 5; ++round) {
    std::uint32_t taken = 0;
    h.room = 0;
    while (h.post(put(data, 0, kInject)) == Posted::kTaken) ++taken;
    EXPECT_EQ(taken, 512u);
    h.room = -1;
    h.sent.clear();
    h.pull();
    for (int i = 0; i < 20; ++i) {
      acked += static_cast<std::uint32_t>(h.data_sent().size());
      h.sent.clear();
      h.ack(acked, {}, acked - 1, 0);
    }
    EXPECT_EQ(h.completions().size(), 512u);
    EXPECT_EQ(h.operations.incomplete(h.handle()), 0u);
  }
}

TEST(Requester, T30_RefusesWhatTheWireDoesNotAllow) {
  Harness h;
  h.accept();
  const Bytes data = row(256);
  Bytes to(256);
  const auto posted = [&](AtomicOp op, AtomicType type, std::size_t from, std::size_t results) {
    return h.post({.kind = results == 0 ? Kind::kAtomic : Kind::kFetchAtomic,
                   .key = Key{0x77},
                   .from = std::span(data).first(from),
                   .to = std::span(to).first(results),
                   .op = op,
                   .type = type});
  };
  EXPECT_EQ(posted(AtomicOp::kAdd, AtomicType::kU64, 0, 0), Posted::kInvalid);
  EXPECT_EQ(posted(AtomicOp::kAdd, AtomicType::kU64, 7, 0), Posted::kInvalid);
  EXPECT_EQ(posted(AtomicOp::kAdd, AtomicType::kU64, 72, 72), Posted::kInvalid);
  EXPECT_EQ(posted(AtomicOp::kAdd, AtomicType::kU64, 64, 56), Posted::kInvalid);
  EXPECT_EQ(posted(AtomicOp::kCompareSwap, AtomicType::kU64, 8, 8), Posted::kInvalid);
  EXPECT_EQ(posted(static_cast<AtomicOp>(8), AtomicType::kU64, 8, 0), Posted::kInvalid);
  EXPECT_EQ(posted(AtomicOp::kCompareSwap, AtomicType::kU64, 128, 64), Posted::kTaken);
  EXPECT_EQ(h.post({.kind = Kind::kPut, .flags = kInject, .from = data}), Posted::kInvalid);
}

TEST(Requester, AGetBringsNoData) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  Bytes to(8);
  EXPECT_EQ(h.post({.kind = Kind::kGet, .key = Key{0x77}, .from = data, .to = to}),
            Posted::kInvalid);
}

// An operation is never split: one too long for the path's packets fails, others do not.
TEST(Requester, T26_AnAtomicLongerThanAnyPacketFails) {
  Harness h;
  h.peer_mtu = 128;
  h.accept();
  const Bytes data = row(128);
  ASSERT_EQ(h.post({.kind = Kind::kAtomic,
                    .context = 1,
                    .key = Key{0x77},
                    .from = data,
                    .op = AtomicOp::kAdd,
                    .type = AtomicType::kU64}),
            Posted::kTaken);
  const auto done = h.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, Status::kTooLong);
  h.post(put(data, 0));
  EXPECT_GE(h.bodies(Flow::kRequest).size(), 2u);
}

}  // namespace
}  // namespace mtl::transport::test
