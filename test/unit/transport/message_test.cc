// Messages: T31 to T36, and what T10, T15, T16 and T28 say of them.
#include "conformance/json_field.h"
#include "operations_harness.h"

namespace mtl::transport::test {
namespace {

using Harness = OperationsHarness;
using ReceivedKind = Received::Kind;

// Flags as the table of section 5.4 has them.
constexpr unsigned kImmFlag = 2, kTagFlag = 8, kTotalFlag = 16, kOfferFlag = 32, kCompleteFlag = 64,
                   kWantedFlag = 128;

/// SEND; its fields as the flags say.
struct SendFields {
  std::uint64_t tag = 0;
  std::uint32_t total = 0;
  std::uint64_t imm = 0;
};
Bytes send(unsigned flags, const Bytes& data, const SendFields& f = {}) {
  Bits b;
  b.u8(4).u8(flags).u16(static_cast<unsigned>(data.size()));
  if ((flags & kTagFlag) != 0) b.u64(f.tag);
  if ((flags & kTotalFlag) != 0) b.u32(f.total);
  if ((flags & kImmFlag) != 0) b.u64(f.imm);
  return b.data(data).bytes;
}
Bytes offer(std::uint32_t total, unsigned more = 0) {
  return send(kOfferFlag | kTotalFlag | more, {}, {.total = total});
}
Bytes send_data(std::uint32_t id, std::uint32_t at, const Bytes& data, unsigned flags = 0) {
  return Bits()
      .u8(5)
      .u8(flags)
      .u16(static_cast<unsigned>(data.size()))
      .u32(id)
      .u32(at)
      .data(data)
      .bytes;
}
Bytes wanted(std::uint32_t id, std::uint32_t at, const Bytes& data) {
  return send_data(id, at, data, kWantedFlag);
}
Bytes cancel(std::uint32_t id) {
  return Bits().u32(0x06000000).u32(id).bytes;
}
Bytes credit(std::uint32_t limit) {
  return Bits().u32(0x12000000).u32(limit).bytes;
}
Bytes want(std::uint32_t id, std::uint32_t limit) {
  return Bits().u32(0x13000000).u32(id).u32(limit).bytes;
}
Bytes done(std::uint32_t id, std::uint32_t status) {
  return Bits().u32(0x14000000).u32(id).u32(status).bytes;
}
Bytes write_imm(std::uint64_t offset, const Bytes& data, std::uint64_t imm, Key key = kKey) {
  return Bits()
      .u8(1)
      .u8(kImmFlag)
      .u16(static_cast<unsigned>(data.size()))
      .u64(key.value())
      .u64(offset)
      .u64(imm)
      .data(data)
      .bytes;
}
Bytes part(const Bytes& all, std::size_t from, std::size_t size) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

Settings with_messages(std::uint32_t messages) {
  Settings s = base_settings();
  s.messages = messages;
  return s;
}

/// Posts a receive.
ReceivePosted post_receive(Harness& h, Bytes& to, std::uint64_t context = 0,
                           const Receive& like = {}) {
  Receive r = like;
  r.context = context;
  r.to = to;
  const ReceivePosted posted = h.operations.post_receive(0, r, h.now);
  h.pull();
  return posted;
}
Receive tagged(std::uint64_t tag, std::uint64_t ignore = 0) {
  return {.tagged = true, .tag = tag, .ignore = ignore};
}
std::vector<Received> received(Harness& h) {
  std::vector<Received> all;
  Received r;
  while (h.operations.next_received(r, h.now)) all.push_back(r);
  h.pull();
  return all;
}
std::vector<std::uint64_t> contexts(const std::vector<Received>& all) {
  std::vector<std::uint64_t> numbers;
  for (const Received& r : all) numbers.push_back(r.context);
  return numbers;
}
bool closed_for_protocol(const Harness& h) {
  return !h.sent.empty() && h.sent.back().type() == Type::kClose && h.sent.back().reason() == 2;
}

// ---- receiving: matching (T31) ----

TEST(Receiving, T31_MessagesMeetReceivesInOrder) {
  Harness h;
  h.accept();
  Bytes a(8), b(8);
  post_receive(h, a, 1);
  post_receive(h, b, 2);
  h.request(join({send(0, row(8)), send(kImmFlag, row(3, 50), {.imm = 0x1122334455667788})}));
  const auto got = received(h);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].context, 1u);
  EXPECT_TRUE(got[0].ok());
  EXPECT_EQ(got[0].length, 8u);
  EXPECT_FALSE(got[0].has_imm);
  EXPECT_EQ(got[0].peer.node, kPeerNode);
  EXPECT_EQ(got[0].endpoint, kOurEndpoint);
  EXPECT_EQ(a, row(8));
  EXPECT_EQ(got[1].context, 2u);
  EXPECT_EQ(got[1].length, 3u);
  EXPECT_TRUE(got[1].has_imm);
  EXPECT_EQ(got[1].imm, 0x1122334455667788u);
  EXPECT_EQ(part(b, 0, 3), row(3, 50));
}

TEST(Receiving, T31_ATagMeetsTaggedReceivesOnly) {
  Harness h;
  h.accept();
  Bytes plain(8), with_tag(8);
  post_receive(h, plain, 1);
  post_receive(h, with_tag, 2, tagged(5));
  h.request(send(kTagFlag, row(8), {.tag = 5}));
  auto got = received(h);
  ASSERT_EQ(contexts(got), std::vector<std::uint64_t>{2});
  EXPECT_TRUE(got[0].tagged);
  EXPECT_EQ(got[0].tag, 5u);
  h.request(send(kTagFlag, row(8), {.tag = 5}));  // waits
  h.request(send(0, row(8)));
  EXPECT_EQ(contexts(received(h)), std::vector<std::uint64_t>{1});
}

TEST(Receiving, T31_IgnoredBitsAreNotCompared) {
  Harness h;
  h.accept();
  Bytes a(8), b(8), c(8);
  post_receive(h, a, 1, tagged(0x10));
  post_receive(h, b, 2, tagged(0x2000, 0xFF));
  post_receive(h, c, 3, tagged(0, ~std::uint64_t{0}));
  h.request(send(kTagFlag, row(1), {.tag = 0x20AB}));
  h.request(send(kTagFlag, row(1), {.tag = 0x2000}));  // 2 is gone: 3 takes any
  h.request(send(kTagFlag, row(1), {.tag = 0x11}));    // none
  EXPECT_EQ(contexts(received(h)), (std::vector<std::uint64_t>{2, 3}));
  Bytes d(8);
  post_receive(h, d, 4, tagged(0x10, 1));
  EXPECT_EQ(contexts(received(h)), std::vector<std::uint64_t>{4});
}

TEST(Receiving, T31_MessagesThatWaitAreMetInTheOrderOfTheirComing) {
  Harness h;
  h.accept();
  for (unsigned i = 0; i < 3; ++i) {
    h.request(send(kTagFlag, row(4, 10 * i), {.tag = i == 1 ? 7u : 6u}));
  }
  Bytes seven(4), any(4), six(4);
  post_receive(h, seven, 1, tagged(7));
  post_receive(h, any, 2, tagged(0, ~std::uint64_t{0}));
  post_receive(h, six, 3, tagged(6));
  EXPECT_EQ(contexts(received(h)), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(seven, row(4, 10));
  EXPECT_EQ(any, row(4, 0));
  EXPECT_EQ(six, row(4, 20));
}

TEST(Receiving, T31_AReceiveFromOneConnectionMeetsItsMessagesOnly) {
  Harness h;
  h.words.words.push_back(std::uint64_t{kOurPsn} << 32 | 0x222);
  h.accept();
  h.origin.endpoint = EndpointId{99};
  h.peer_id = 0x99;
  h.open(0, true);
  h.open(0x222, false);
  Bytes a(4), b(4);
  post_receive(h, a, 1, {.from = ConnectionHandle{1, ConnectionId{0x222}}});
  post_receive(h, b, 2);
  h.origin.endpoint = kPeerEndpoint;
  h.request(send(0, row(4)));
  EXPECT_EQ(contexts(received(h)), std::vector<std::uint64_t>{2});
  EXPECT_EQ(post_receive(h, b, 3, {.from = ConnectionHandle{1, ConnectionId{0x223}}}),
            ReceivePosted::kEnded);
}

TEST(Receiving, APoolOfAnEndpointIsItsOwn) {
  Limits l = base_limits();
  l.receive_pools = 2;
  Harness h(base_settings(), l);
  EXPECT_TRUE(h.operations.use_pool(kOurEndpoint, 1));
  EXPECT_FALSE(h.operations.use_pool(kOurEndpoint, 0));
  EXPECT_FALSE(h.operations.use_pool(EndpointId{3}, 2));
  h.accept();
  Bytes a(4), b(4);
  post_receive(h, a, 1);
  EXPECT_EQ(h.operations.post_receive(1, {.context = 2, .to = b}, h.now), ReceivePosted::kTaken);
  EXPECT_EQ(h.operations.post_receive(2, {.context = 3, .to = b}, h.now), ReceivePosted::kInvalid);
  h.request(send(0, row(4)));
  const auto got = received(h);
  ASSERT_EQ(contexts(got), std::vector<std::uint64_t>{2});
  EXPECT_EQ(got[0].pool, 1u);
}

TEST(Receiving, PeekTellsOfAMessageAndLeavesIt) {
  Harness h;
  h.accept();
  Received m;
  EXPECT_FALSE(h.operations.peek(0, tagged(5), m));
  h.request(send(kTagFlag | kOfferFlag | kTotalFlag, {}, {.tag = 5, .total = 9000}));
  ASSERT_TRUE(h.operations.peek(0, tagged(4, 1), m));
  EXPECT_EQ(m.tag, 5u);
  EXPECT_EQ(m.total, 9000u);
  EXPECT_FALSE(h.operations.peek(0, {}, m));
  EXPECT_TRUE(h.operations.peek(0, tagged(5), m));
}

TEST(Receiving, AReceiveThatMetNothingIsTakenBack) {
  Harness h;
  h.accept();
  Bytes a(8), b(8);
  post_receive(h, a, 1);
  post_receive(h, b, 2);
  EXPECT_TRUE(h.operations.cancel_receive(0, 1));
  EXPECT_FALSE(h.operations.cancel_receive(0, 1));
  h.request(send(kTotalFlag, row(4), {.total = 8}));
  EXPECT_FALSE(h.operations.cancel_receive(0, 2));  // its message is coming
  h.request(send_data(0, 4, row(4, 5)));
  const auto got = received(h);
  ASSERT_EQ(contexts(got), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(got[0].status, Status::kCancelled);
  EXPECT_TRUE(got[1].ok());
  EXPECT_EQ(a, Bytes(8));
  EXPECT_EQ(b, row(8));
}

TEST(Receiving, TheOldestOfThoseWithAContextIsTakenBackTaggedOrNot) {
  Harness h;
  h.accept();
  Bytes with_tag(4), plain(4), last(4);
  post_receive(h, with_tag, 1, tagged(5));
  post_receive(h, plain, 1);
  post_receive(h, last, 1, tagged(5));
  EXPECT_TRUE(h.operations.cancel_receive(0, 1));
  EXPECT_EQ(received(h).size(), 1u);
  h.request(send(kTagFlag, row(4), {.tag = 5}));
  ASSERT_EQ(received(h).size(), 1u);
  EXPECT_EQ(with_tag, Bytes(4));
  EXPECT_EQ(last, row(4));
  EXPECT_TRUE(h.operations.cancel_receive(0, 1));
  EXPECT_FALSE(h.operations.cancel_receive(0, 1));
}

TEST(Receiving, T10_ReceivesFromAConnectionThatEndsFailInTheOrderOfTheirPosting) {
  Limits l = base_limits();
  l.receive_pools = 2;
  Harness h(base_settings(), l);
  h.accept();
  Bytes a(4);
  const Receive from{.from = h.handle()};
  post_receive(h, a, 1, {.tagged = true, .from = h.handle()});
  post_receive(h, a, 2);
  EXPECT_EQ(h.operations.post_receive(1, {.context = 3, .to = a, .from = h.handle()}, h.now),
            ReceivePosted::kTaken);
  post_receive(h, a, 4, from);
  post_receive(h, a, 5, {.tagged = true, .from = h.handle()});
  EXPECT_TRUE(h.operations.cancel_receive(0, 4));
  h.close(1);
  EXPECT_EQ(contexts(received(h)), (std::vector<std::uint64_t>{4, 1, 3, 5}));
}

TEST(Receiving, ReceivesComeBack) {
  Limits l = base_limits();
  l.receives = 2;
  Harness h(base_settings(), l);
  h.accept();
  Bytes a(4);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(post_receive(h, a), ReceivePosted::kTaken);
    EXPECT_EQ(post_receive(h, a), ReceivePosted::kTaken);
    EXPECT_EQ(post_receive(h, a), ReceivePosted::kFull);
    h.request(join({send(0, row(4)), send(0, row(4))}));
    EXPECT_EQ(received(h).size(), 2u);
  }
}

// ---- receiving: imm ----

TEST(Receiving, T31_AWriteWithImmTellsItWhenAllBeforeIsStored) {
  Harness h;
  h.accept();
  h.data(Flow::kRequest, 1, write_imm(kFirst, row(8), 0xABCDEF));
  EXPECT_TRUE(received(h).empty());  // what is before it is not there
  h.data(Flow::kRequest, 0, join({write(kFirst + 8, row(8, 9)), send(0, row(1))}));
  const auto got = received(h);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].kind, ReceivedKind::kWriteImm);
  EXPECT_EQ(got[0].imm, 0xABCDEFu);
  EXPECT_EQ(got[0].length, 8u);
  EXPECT_EQ(h.at(kFirst, 16), row(16));
}

TEST(Receiving, T31_AWriteWithImmHasANumberButTakesNoReceive) {
  Harness h;
  h.accept();
  Bytes a(8);
  post_receive(h, a, 1);
  h.request(join({write_imm(kFirst, {}, 5), send(kTotalFlag, row(4), {.total = 8})}));
  h.request(send_data(1, 4, row(4, 5)));  // 0 was the WRITE
  const auto got = received(h);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1].context, 1u);
  EXPECT_EQ(a, row(8));
}

TEST(Receiving, T28_AWriteWithImmThatFailsTellsNothing) {
  Harness h;
  h.accept();
  h.request(join({write_imm(kFirst, row(4), 5, Key{1}), write_imm(kFirst, row(4), 6)}));
  EXPECT_EQ(h.responses(), report(kPeerPsn, pairs({0, 1})));
  const auto got = received(h);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].imm, 6u);
}

// ---- receiving: eager ----

TEST(Receiving, T32_EagerDataGoesStraightToItsReceive) {
  Harness h;
  h.accept();
  Bytes a(20);
  post_receive(h, a, 1);
  h.request(send(kTotalFlag, row(8), {.total = 20}));
  EXPECT_EQ(part(a, 0, 8), row(8));
  h.request(join({send_data(0, 8, row(8, 9)), send_data(0, 16, row(4, 17))}));
  const auto got = received(h);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].total, 20u);
  EXPECT_EQ(a, row(20));
}

TEST(Receiving, T34_EagerDataWithoutReceiveWaitsInTheRoomForIt) {
  Harness h;
  h.accept();
  const Bytes all = row(2000);
  const std::size_t free = h.operations.receiver().room().free_blocks();
  h.request(send(kTotalFlag, part(all, 0, 600), {.total = 2000}));
  EXPECT_EQ(h.operations.receiver().room().free_blocks(), free - 4);
  h.request(send_data(0, 600, part(all, 600, 424)));  // to the end of a block
  h.request(send_data(0, 1024, part(all, 1024, 76)));
  Bytes a(2000);
  post_receive(h, a, 1);  // in the middle
  EXPECT_EQ(h.operations.receiver().room().free_blocks(), free);
  EXPECT_EQ(part(a, 0, 1100), part(all, 0, 1100));
  h.request(send_data(0, 1100, part(all, 1100, 900)));
  const auto got = received(h);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[0].ok());
  EXPECT_EQ(a, all);
  EXPECT_EQ(h.responses(), Bytes{});
}

TEST(Receiving, T35_ALongerMessageIsCut) {
  Harness h;
  h.accept();
  Bytes a(10), b(4);
  post_receive(h, a, 1);
  h.request(send(kTotalFlag | kCompleteFlag, row(8), {.total = 16}));
  h.request(send_data(0, 8, row(8, 9)));
  h.request(send(0, row(8)));  // no COMPLETE: silence
  post_receive(h, b, 2);
  const auto got = received(h);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].status, Status::kTooLong);
  EXPECT_EQ(got[0].length, 10u);
  EXPECT_EQ(got[0].total, 16u);
  EXPECT_EQ(a, row(10));
  EXPECT_EQ(got[1].status, Status::kTooLong);
  EXPECT_EQ(b, row(4));
  EXPECT_EQ(h.responses(), done(0, 6));
}

TEST(Receiving, T35_DoneForAMessageWithCompleteWhenItsReceiveIs) {
  Harness h;
  h.accept();
  h.request(send(kCompleteFlag, row(8)));
  EXPECT_EQ(h.responses(), Bytes{});
  Bytes a(8);
  post_receive(h, a, 1);
  EXPECT_EQ(h.responses(), done(0, 0));
}

// ---- receiving: held and offered ----

Limits no_room() {
  Limits l = base_limits();
  l.eager_room = 0;
  return l;
}

TEST(Receiving, T34_WithoutRoomASendIsHeldAndItsDataDropped) {
  Harness h(base_settings(), no_room());
  h.accept();
  h.request(join({write(kFirst, row(4)), send(kTotalFlag, row(8), {.total = 16}), send(0, {}),
                  send(0, row(4))}));
  EXPECT_EQ(h.responses(), report(kPeerPsn, pairs({1, 8, 3, 8})));  // one of no bytes has room
  h.request(send_data(0, 8, row(8)));  // dropped, though not yet known to be held
  Bytes a(16), b(8), c(8);
  h.sent.clear();
  post_receive(h, a, 1);
  EXPECT_EQ(h.responses(), want(0, 16));
  EXPECT_EQ(a, Bytes(16));
  post_receive(h, b, 2);
  EXPECT_EQ(contexts(received(h)), std::vector<std::uint64_t>{2});
  h.sent.clear();
  post_receive(h, c, 3);
  EXPECT_EQ(h.responses(), want(2, 4));
  h.ack(1, {}, 0, 0, 1);  // the REPORT: E moves on
  h.request(join({wanted(2, 0, row(4)), wanted(0, 0, row(16))}));
  const auto got = received(h);
  ASSERT_EQ(contexts(got), (std::vector<std::uint64_t>{3, 1}));
  EXPECT_TRUE(got[0].ok());
  EXPECT_EQ(a, row(16));
}

// What was told bounds what waits here: a longer one is asked for.
TEST(Receiving, T32_AnEagerMessageLongerThanWasToldIsHeld) {
  Settings s = base_settings();
  s.eager = 100;
  Harness h(s);
  h.accept();
  const std::size_t free = h.operations.receiver().room().free_blocks();
  h.request(join({send(0, row(100)), send(0, row(101)), send(kTotalFlag, row(8), {.total = 101})}));
  EXPECT_EQ(h.responses(), report(kPeerPsn, pairs({1, 8, 2, 8})));
  EXPECT_EQ(h.operations.receiver().room().free_blocks(), free - 1);
  Bytes a(101), b(101);
  post_receive(h, a, 1);
  h.sent.clear();
  post_receive(h, b, 2);
  EXPECT_EQ(h.responses(), want(1, 101));
}

TEST(Receiving, T28_NothingBehindAHeldSendExecutesBeforeItsReportIsAcknowledged) {
  Harness h(base_settings(), no_room());
  h.accept();
  Bytes a(8), b(8);
  h.request(send(0, row(8)));
  h.request(send(kTagFlag, row(8), {.tag = 1}));
  post_receive(h, b, 2, tagged(1));
  EXPECT_TRUE(received(h).empty());
  h.ack(1, {}, 0, 0, 1);
  EXPECT_EQ(contexts(received(h)), std::vector<std::uint64_t>{2});
}

TEST(Receiving, T34_AnOfferIsAskedForWhenItMeetsItsReceive) {
  Harness h;
  h.accept();
  h.request(offer(3000));
  EXPECT_EQ(h.responses(), Bytes{});
  Bytes a(3000);
  post_receive(h, a, 1);
  EXPECT_EQ(h.responses(), want(0, 3000));
  const Bytes all = row(3000);
  h.request(join({wanted(0, 2000, part(all, 2000, 1000)), wanted(0, 0, part(all, 0, 1000))}), 2);
  EXPECT_TRUE(received(h).empty());
  h.request(wanted(0, 1000, part(all, 1000, 1000)), 2);
  ASSERT_EQ(received(h).size(), 1u);
  EXPECT_EQ(a, all);
  EXPECT_EQ(h.responses(), want(0, 3000));  // no DONE: the peer knows
}

TEST(Receiving, T35_AReceiveThatTakesLessOfAnOfferSaysSo) {
  Harness h;
  h.accept();
  Bytes a(100), none;
  post_receive(h, a, 1);
  h.request(join({offer(3000), offer(5), offer(7)}));
  EXPECT_EQ(h.responses(), want(0, 100));
  post_receive(h, none, 2);
  EXPECT_EQ(h.responses(), join({want(0, 100), done(1, 6)}));
  h.sent.clear();
  h.request(wanted(0, 0, row(100)), 2);
  EXPECT_EQ(h.responses(), done(0, 6));
  const auto got = received(h);
  ASSERT_EQ(contexts(got), (std::vector<std::uint64_t>{2, 1}));
  for (const Received& r : got) EXPECT_EQ(r.status, Status::kTooLong);
  EXPECT_EQ(a, row(100));
}

TEST(Receiving, T15_WantedDataIsStoredOnArrivalOnlyIfAllOfItIsAsItShouldBe) {
  Harness h;
  h.accept();
  Bytes a(8), b(8);
  post_receive(h, a, 1);
  h.request(join({offer(8), offer(8)}));
  const auto early = [&](std::uint32_t n, const Bytes& body) {
    h.data(Flow::kRequest, n, body, 2);
  };
  early(2, wanted(0, 0, row(4)));
  EXPECT_EQ(part(a, 0, 4), row(4));
  early(3, join({wanted(0, 4, row(4, 5)), wanted(1, 0, row(4))}));  // 1 is not wanted
  EXPECT_EQ(a, join({row(4), Bytes(4)}));
  early(4, join({wanted(0, 4, row(4, 5)), wanted(0, 4, row(4, 5))}));  // twice
  EXPECT_EQ(a, join({row(4), Bytes(4)}));
  EXPECT_EQ(h.connection().state(), State::kUp);
  early(5, wanted(0, 4, row(4, 5)));
  EXPECT_EQ(a, row(8));
  h.data(Flow::kRequest, 1, write(0, {}));  // the others in their turn
  EXPECT_TRUE(closed_for_protocol(h));
}

// In one DATA with the SEND there can be no answer to a WANT, whatever its receive would take.
TEST(Receiving, T16_DataThatComesBeforeItWasWantedEndsTheConnection) {
  for (const unsigned more : {0U, kCompleteFlag}) {
    Harness h;
    h.accept();
    Bytes a(4), b(4);
    post_receive(h, a, 1);
    post_receive(h, b, 2);
    h.request(join({offer(4, more), wanted(0, 0, row(4)), offer(4)}));
    EXPECT_TRUE(closed_for_protocol(h)) << more;
    EXPECT_EQ(a, Bytes(4)) << "nothing of it is stored";
  }
}

TEST(Receiving, T36_CancelRemovesWhatHasMetNoReceive) {
  Harness h;
  h.accept();
  const std::size_t free = h.operations.receiver().room().free_blocks();
  h.request(join({send(kTotalFlag, row(8), {.total = 600}), offer(100), send(0, row(4))}));
  h.request(join({cancel(0), cancel(1), cancel(9), send_data(0, 8, row(8))}));
  EXPECT_EQ(h.responses(), join({done(0, 7), done(1, 7)}));
  EXPECT_EQ(h.operations.receiver().room().free_blocks(), free - 1);
  Bytes a(4);
  post_receive(h, a, 1);
  const auto got = received(h);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(a, row(4));
}

TEST(Receiving, T36_CancelOfWhatHasMetItsReceiveIsIgnored) {
  Harness h;
  h.accept();
  Bytes a(8);
  post_receive(h, a, 1);
  h.request(join({offer(8), write_imm(0, {}, 1)}));
  h.sent.clear();
  h.request(join({cancel(0), cancel(1)}));
  h.request(wanted(0, 0, row(8)), 2);
  EXPECT_EQ(received(h).size(), 2u);
  EXPECT_EQ(h.responses(), Bytes{});
}

// ---- receiving: records and credit (T33) ----

TEST(Receiving, T33_CreditIsDueWhenItHasMovedByAQuarterOrIsUsedUp) {
  Harness h(with_messages(16));
  h.open(0, true);
  EXPECT_EQ(h.sent.at(0).at32(28 + 16), 16u);  // OPEN tells `messages`
  h.open(0, true);
  h.open(kOurId, false);
  h.ack(0);
  h.sent.clear();
  Bytes a(4);
  for (int i = 0; i < 3; ++i) {
    post_receive(h, a);
    h.request(send(0, row(4)));
  }
  EXPECT_EQ(h.responses(), Bytes{});
  post_receive(h, a);
  h.request(send(0, row(4)));
  EXPECT_EQ(h.responses(), credit(20));
  h.sent.clear();
  for (int i = 4; i < 20; ++i) h.request(send(0, row(4)));  // none is received: all is used up
  EXPECT_EQ(h.responses(), Bytes{});
  post_receive(h, a);
  EXPECT_EQ(h.responses(), credit(21));
}

TEST(Receiving, T33_ARecordIsInUseUntilItsMessageIsReceived) {
  Harness h(with_messages(1));
  h.accept();
  h.request(write_imm(0, {}, 7));
  EXPECT_EQ(h.responses(), Bytes{});
  EXPECT_EQ(received(h).size(), 1u);
  EXPECT_EQ(h.responses(), credit(1 + 1));
  h.sent.clear();
  h.request(offer(4));
  Bytes a(4);
  post_receive(h, a);
  EXPECT_EQ(h.responses(), want(1, 4));
  h.sent.clear();
  h.request(wanted(1, 0, row(4)), 2);
  EXPECT_EQ(h.responses(), credit(3));
}

// As many bytes as are wanted, of which some came twice: what is lacking was never written.
TEST(Receiving, T34_WantedDataThatComesTwiceIsNotAllOfIt) {
  struct Piece {
    std::uint32_t at;
    std::size_t size;
  };
  const std::vector<std::vector<Piece>> ways = {
      {{0, 8}, {4, 8 - 4}},                     // 12 bytes, those from 8 on lacking
      {{0, 6}, {0, 6}},                         //
      {{4, 8}, {4, 4}},                         // the first ones lacking
      {{0, 1}, {0, 1}, {3, 1}, {3, 1}, {4, 8}}  // as many, and in sum at the same places
  };
  for (const auto& way : ways) {
    for (const bool early : {false, true}) {
      Harness h;
      h.accept();
      Bytes a(12);
      post_receive(h, a, 1);
      h.request(offer(12));
      std::uint32_t n = early ? 2 : 1;
      for (const Piece& p : way) {
        h.data(Flow::kRequest, n++, wanted(0, p.at, row(p.size)), 2);
      }
      if (early) h.data(Flow::kRequest, 1, write(0, {}));
      EXPECT_TRUE(closed_for_protocol(h));
      const auto got = received(h);
      ASSERT_EQ(got.size(), 1u);
      EXPECT_EQ(got[0].ended, EndReason::kProtocol);
    }
  }
}

TEST(Receiving, T15_WantedDataThatComesTwiceInOnePacketWaitsForItsTurn) {
  Harness h;
  h.accept();
  Bytes a(8);
  post_receive(h, a, 1);
  h.request(offer(8));
  h.data(Flow::kRequest, 2, join({wanted(0, 0, row(4)), wanted(0, 2, row(4))}), 2);
  EXPECT_EQ(a, Bytes(8));
  h.data(Flow::kRequest, 1, write(0, {}));
  EXPECT_TRUE(closed_for_protocol(h));
}

TEST(Receiving, T16_AMessageBeyondTheLimit) {
  for (const Bytes& one : {send(0, row(4)), offer(8), write_imm(kFirst, row(4), 1)}) {
    Harness h(with_messages(2));
    h.accept();
    h.request(join({send(0, {}), send(0, {})}));
    h.request(one);
    EXPECT_TRUE(closed_for_protocol(h));
    EXPECT_EQ(h.at(kFirst, 4), Bytes(4));
  }
}

TEST(Receiving, T16_DataThatIsBeyondTotalOrNotInOrderOrNotWanted) {
  const auto closes = [](const Bytes& body, const Limits& limits = base_limits()) {
    Harness h(base_settings(), limits);
    h.accept();
    Bytes a(8);
    post_receive(h, a, 1);
    h.request(join({offer(16), send(kTotalFlag, row(4), {.total = 16})}));
    if (h.sent.back().type() == Type::kData) h.ack(1, {}, 0, 0, 1);
    h.request(body);
    return closed_for_protocol(h);
  };
  EXPECT_FALSE(closes(send_data(1, 4, row(12))));
  EXPECT_TRUE(closes(send_data(1, 4, row(13))));  // beyond total
  EXPECT_TRUE(closes(send_data(1, 0, row(4))));   // again
  EXPECT_TRUE(closes(send_data(1, 8, row(4))));   // a gap
  EXPECT_TRUE(closes(send_data(1, 0xFFFFFFFF, row(4))));
  EXPECT_TRUE(closes(wanted(1, 4, row(4))));  // not wanted
  EXPECT_FALSE(closes(wanted(0, 0, row(8))));
  EXPECT_TRUE(closes(wanted(0, 4, row(8))));  // more than was wanted
  EXPECT_TRUE(closes(wanted(0, 0, row(12))));
  EXPECT_TRUE(closes(join({wanted(0, 0, row(4)), wanted(0, 0, row(5))})));  // in sum
  EXPECT_TRUE(closes(wanted(0, 0xFFFFFFFC, row(8))));
  EXPECT_FALSE(closes(send_data(1, 9, row(4)), no_room()));  // dropped, in any order
  EXPECT_TRUE(closes(send_data(1, 9, row(8)), no_room()));   // but not beyond total
  EXPECT_TRUE(closes(wanted(1, 0, row(4)), no_room()));      // it has met no receive
  EXPECT_FALSE(closes(wanted(7, 0, row(8))));                // no such message: ignored
  EXPECT_FALSE(closes(send_data(7, 9, row(8))));
}

TEST(Receiving, T33_WhoIsShortOfRecordsLendsThemInTurn) {
  MessageRecords r(8, 2, 64);  // each has 2, 4 are lent
  EXPECT_EQ(r.share(), 2u);
  EXPECT_EQ(r.begin(0), 2u);
  EXPECT_EQ(r.begin(1), 2u);
  const auto take = [&](std::uint32_t connection) {
    const std::uint32_t index = r.take(connection);
    EXPECT_NE(index, MessageRecords::kNone);
    return index;
  };
  const auto a0 = take(0), a1 = take(0);
  EXPECT_EQ(r.take(0), MessageRecords::kNone);
  EXPECT_EQ(r.lend(), 0u);
  EXPECT_TRUE(r.credit_due(0));
  EXPECT_EQ(r.tell(0), MessageId{4});
  take(0), take(0);
  EXPECT_EQ(r.lend(), 0u);  // nobody else waits
  EXPECT_EQ(r.tell(0), MessageId{6});
  take(0), take(0);
  EXPECT_EQ(r.lend(), std::nullopt);  // nothing is left
  const auto b0 = take(1);
  take(1);
  EXPECT_EQ(r.lend(), std::nullopt);
  r.give(a0);
  EXPECT_FALSE(r.credit_due(0));  // it was lent, and goes to whom waited first: 0 itself
  EXPECT_EQ(r.lend(), 0u);
  r.give(a1);
  EXPECT_EQ(r.lend(), 1u);  // then the other
  EXPECT_EQ(r.tell(1), MessageId{3});
  r.give(b0);  // what was lent comes back first: 1 has its share, and waits no more
  EXPECT_EQ(r.lend(), std::nullopt);
  EXPECT_FALSE(r.credit_due(1));
}

TEST(Receiving, T33_NoPeerTakesTheRecordsOfAnother) {
  MessageRecords r(3, 3, 64);
  for (std::uint32_t c = 0; c < 3; ++c) EXPECT_EQ(r.begin(c), 1u);
  EXPECT_NE(r.take(0), MessageRecords::kNone);
  EXPECT_EQ(r.take(0), MessageRecords::kNone);
  EXPECT_EQ(r.lend(), std::nullopt);
  EXPECT_NE(r.take(1), MessageRecords::kNone);
  EXPECT_NE(r.take(2), MessageRecords::kNone);
}

TEST(Receiving, T31_NumbersAreModulo2To32) {
  MessageRecords r(8, 1, 8);
  EXPECT_EQ(r.begin(0, MessageId{0xFFFFFFFE}), 8u);
  std::uint32_t index = 0;
  for (const std::uint32_t id : {0xFFFFFFFEu, 0xFFFFFFFFu, 0u, 1u}) {
    index = r.take(0);
    EXPECT_EQ(r[index].id, MessageId{id});
    EXPECT_EQ(r.find(0, id), index);
    if (id != 1) r.give(index);
  }
  EXPECT_TRUE(r.credit_due(0));
  EXPECT_EQ(r.tell(0), MessageId{9});
  EXPECT_EQ(r.find(0, 0), MessageRecords::kNone);
}

TEST(Receiving, T34_NoConnectionTakesMoreRoomThanItLeaves) {
  Limits l = base_limits();
  l.eager_room = 8 * EagerRoom::kBlock;
  Harness h(base_settings(), l);
  h.accept();
  for (int i = 0; i < 4; ++i) h.request(send(0, row(512)));
  EXPECT_EQ(h.responses(), Bytes{});
  h.request(send(0, row(512)));
  EXPECT_EQ(h.responses(), report(kPeerPsn + 4, pairs({0, 8})));
}

// ---- the end of a connection (T10) ----

TEST(Receiving, T10_ReceivesOfWhatEndsFailAndWhatIsWholeIsNotLost) {
  Harness h;
  h.accept();
  Bytes a(16), b(8), c(4);
  post_receive(h, a, 1, tagged(1));
  post_receive(h, b, 2, {.tagged = true, .tag = 9, .from = h.handle()});
  h.request(join({send(kTagFlag | kTotalFlag, row(8), {.tag = 1, .total = 16}), send(0, row(4)),
                  send(kTotalFlag, row(4), {.total = 8}), offer(5)}));
  h.close(1);
  const auto ended = received(h);
  ASSERT_EQ(contexts(ended), (std::vector<std::uint64_t>{1, 2}));
  for (const Received& r : ended) {
    EXPECT_EQ(r.ended, EndReason::kPeerClose);
    EXPECT_EQ(r.peer.node, kPeerNode);
  }
  post_receive(h, c, 3);
  post_receive(h, c, 4);
  const auto got = received(h);
  ASSERT_EQ(contexts(got), std::vector<std::uint64_t>{3});  // the parts and offers are gone
  EXPECT_TRUE(got[0].ok());
  EXPECT_EQ(c, row(4));
}

TEST(Receiving, T33_WhatOutlivesAConnectionKeepsItsRecord) {
  Harness h(with_messages(4));
  for (const std::uint32_t id : {0x301u, 0x302u, 0x303u}) {
    h.words.words.push_back(std::uint64_t{kOurPsn} << 32 | id);
  }
  h.accept();
  h.request(join({send(0, row(4)), send(0, row(4)), send(0, row(4))}));
  h.close(1);
  h.events();
  h.sent.clear();
  h.open(0, true);  // the same place: one record is left of its share
  EXPECT_EQ(h.sent.at(0).at32(28 + 16), 1u);
  h.open(0x301, false);
  Bytes a(4);
  h.sent.clear();
  post_receive(h, a, 1);  // an old one is met first, and its record comes free
  EXPECT_EQ(h.responses(), credit(2));
  EXPECT_EQ(received(h).size(), 1u);
}

/// OPEN of an endpoint of `node`, to a place with `id`; returns how many messages it is told.
std::uint32_t told_to(Harness& h, NodeId node, EndpointId endpoint, std::uint32_t peer_id,
                      std::uint32_t id) {
  h.words.words = {std::uint64_t{kOurPsn} << 32 | id};
  h.origin.node = node;
  h.origin.endpoint = endpoint;
  h.peer_id = peer_id;
  h.sent.clear();
  h.open(0, true);
  h.open(id, false);
  return h.sent.at(0).at32(28 + 16);
}

// What a peer left unreceived is its own to bear: others are told as many messages as ever.
TEST(Receiving, T33_WhatAPeerLeftTakesNoRecordOfAnother) {
  Harness h(with_messages(4));
  h.accept();
  h.request(join({send(0, row(4)), send(0, row(4)), send(0, row(4))}));
  h.close(1);
  h.events();
  EXPECT_EQ(told_to(h, NodeId{5}, EndpointId{1}, 0x51, 0x301), 4u);
  EXPECT_EQ(told_to(h, kPeerNode, EndpointId{30}, 0x71, 0x302), 1u);
  EXPECT_EQ(told_to(h, kPeerNode, EndpointId{31}, 0x72, 0x303), 4u);
}

// With no other place left a new connection comes where the least was left.
TEST(Receiving, T33_APlaceWithLittleLeftOverIsBetterThanNone) {
  Settings s = with_messages(4);
  s.connections = 2;
  Harness h(s);
  h.words.words.push_back(std::uint64_t{kOurPsn} << 32 | 0x301);
  h.accept();
  h.request(join({send(0, row(4)), send(0, row(4)), send(0, row(4))}));
  const EndpointId first = h.origin.endpoint;
  told_to(h, kPeerNode, EndpointId{30}, 0x71, 0x301);
  h.deliver(h.packet(0, 3, 0, 0x301, kPeerPsn, kOurPsn, send(0, row(4))));
  h.close(1, 0x301);
  h.origin.endpoint = first;
  h.close(1);
  h.events();
  EXPECT_EQ(told_to(h, NodeId{5}, EndpointId{1}, 0x51, 0x302), 3u);
  EXPECT_EQ(told_to(h, NodeId{6}, EndpointId{1}, 0x61, 0x303), 1u);
}

/// Blocks of eager room that connection `id` of the harness's origin gets, SEND by SEND.
std::uint32_t blocks_got(Harness& h, std::uint32_t id) {
  const std::size_t before = h.operations.receiver().room().free_blocks();
  for (std::uint32_t n = 0; n < 20; ++n) {
    h.deliver(h.packet(0, 3, 0, id, kPeerPsn + n, kOurPsn, send(0, row(512))));
  }
  return static_cast<std::uint32_t>(before - h.operations.receiver().room().free_blocks());
}

TEST(Receiving, T34_NoNodeTakesAllTheRoomHoweverManyItsConnections) {
  Limits l = base_limits();
  l.eager_room = 16 * EagerRoom::kBlock;
  Harness h(base_settings(), l);
  std::uint32_t id = 0x301;
  std::vector<std::uint32_t> got;
  for (std::uint16_t e = 1; e <= 5; ++e, ++id) {
    told_to(h, kPeerNode, EndpointId{e}, 0x70 + e, id);
    got.push_back(blocks_got(h, id));
  }
  EXPECT_EQ(got, (std::vector<std::uint32_t>{8, 4, 0, 0, 0}));  // half, half of the rest: 3/4
  told_to(h, NodeId{5}, EndpointId{1}, 0x51, id);
  EXPECT_EQ(blocks_got(h, id), 2u);
}

TEST(Receiving, T34_TheRoomOfWhatAPeerLeftCountsForThePeer) {
  Limits l = base_limits();
  l.eager_room = 16 * EagerRoom::kBlock;
  Settings s = base_settings();
  s.connections = 1;  // the place is the same
  for (const bool same : {false, true}) {
    Harness h(s, l);
    told_to(h, kPeerNode, EndpointId{1}, 0x71, 0x301);
    EXPECT_EQ(blocks_got(h, 0x301), 8u);
    h.close(1, 0x301);
    h.events();
    told_to(h, same ? kPeerNode : NodeId{5}, EndpointId{2}, 0x72, 0x302);
    EXPECT_EQ(blocks_got(h, 0x302), 4u);  // half of what is left
    h.close(1, 0x302);
    h.events();
    told_to(h, kPeerNode, EndpointId{3}, 0x73, 0x303);
    EXPECT_EQ(blocks_got(h, 0x303), same ? 0u : 1u);  // its node has 12, or 8, of 16
    Bytes to(512);
    for (int i = 0; i < 14; ++i) post_receive(h, to);
    EXPECT_EQ(h.operations.receiver().room().free_blocks(), 16u);  // the books balance
  }
}

/// A share of one record for each connection; as many are lent.
Limits scarce(const Settings& settings) {
  Limits limits = base_limits();
  limits.message_records = 2 * settings.connections;
  return limits;
}

TEST(Receiving, T33_SpareRecordsAreLentToOneThatIsAlone) {
  const Settings settings = with_messages(64);
  Harness h(settings, scarce(settings));
  h.accept();
  for (std::uint32_t n = 1; n <= 3; ++n) {
    h.sent.clear();
    h.request(send(0, row(4)));  // there is no receive for it
    EXPECT_EQ(h.responses(), credit(n + 1));
  }
}

TEST(Receiving, T27_NothingThatIsWholeIsLostWithItsConnection) {
  const Settings settings = with_messages(64);
  Harness h(settings, scarce(settings));
  h.accept();
  for (unsigned n = 0; n < 3; ++n) h.request(send(0, row(4, n)));
  h.close(1);
  for (unsigned n = 0; n < 3; ++n) {
    Bytes a(4);
    post_receive(h, a, n);
    ASSERT_EQ(received(h).size(), 1u) << n;
    EXPECT_EQ(a, row(4, n));
  }
}

// ---- sending ----

Work message(const Bytes& from, unsigned flags = 0, std::uint64_t context = 0) {
  return {.kind = Kind::kSend,
          .flags = static_cast<std::uint16_t>(flags),
          .context = context,
          .from = from};
}
std::vector<Bytes> requests(const Harness& h) {
  return h.bodies(Flow::kRequest);
}
std::vector<std::uint64_t> completed(Harness& h) {
  std::vector<std::uint64_t> all;
  for (const Completion& c : h.completions()) {
    EXPECT_TRUE(c.ok()) << c.context << ": " << name(c.status) << ' ' << name(c.ended);
    all.push_back(c.context);
  }
  return all;
}

TEST(Sending, T31_OneInAPacketAsItsFlagsSay) {
  Harness h;
  h.accept();
  const Bytes data = row(5);
  Work w = message(data, kTagged | kWithImm | kConfirm);
  w.tag = 0x1234;
  w.imm = 0x5678;
  h.post(w);
  h.post(message({}));
  ASSERT_EQ(requests(h).size(), 2u);
  EXPECT_EQ(requests(h)[0],
            send(kTagFlag | kImmFlag | kCompleteFlag, data, {.tag = 0x1234, .imm = 0x5678}));
  EXPECT_EQ(requests(h)[1], send(0, {}));
}

TEST(Sending, T32_EagerDataFollowsInOrderUpToTotal) {
  Harness h;
  h.peer_mtu = 256;
  h.accept();
  const Bytes data = row(500);
  h.post(message(data, 0, 9));
  const auto sent = requests(h);
  ASSERT_EQ(sent.size(), 3u);  // bodies have at most 224 bytes
  EXPECT_EQ(sent[0], send(kTotalFlag, part(data, 0, 216), {.total = 500}));
  EXPECT_EQ(sent[1], send_data(0, 216, part(data, 216, 208)));
  EXPECT_EQ(sent[2], send_data(0, 424, part(data, 424, 76)));
  h.ack(2, {}, 1, 0);
  EXPECT_TRUE(completed(h).empty());
  h.ack(3, {}, 2, 0);
  EXPECT_EQ(completed(h), std::vector<std::uint64_t>{9});  // T27
}

TEST(Sending, T32_LongerThanEagerOrAtWillIsOffered) {
  Harness h;
  h.peer_eager = 100;
  h.accept();
  const Bytes data = row(101);
  h.post(message(data));
  const Bytes short_one = row(100);
  h.post(message(short_one));
  h.post(message(short_one, kOffered));
  h.post(message({}, kOffered));  // nothing to offer
  const auto sent = requests(h);
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0], offer(101));
  EXPECT_EQ(sent[1], send(0, short_one));
  EXPECT_EQ(sent[2], offer(100));
  EXPECT_EQ(sent[3], send(0, {}));
}

TEST(Sending, T34_AnOffersDataGoesAsFarAsItIsWanted) {
  Harness h;
  h.peer_mtu = 256;
  h.accept();
  const Bytes data = row(500);
  h.post(message(data, kOffered, 1));
  h.ack(1, {}, 0, 0);
  EXPECT_TRUE(completed(h).empty());
  h.sent.clear();
  h.respond(want(0, 300), 1);
  h.respond(want(0, 200), 1);  // it only moves forward
  auto sent = requests(h);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0], wanted(0, 0, part(data, 0, 208)));
  EXPECT_EQ(sent[1], wanted(0, 208, part(data, 208, 92)));
  for (const Sent& s : h.data_sent()) EXPECT_EQ(s.flags() & 2, 2);  // UNORDERED
  h.ack(3, {}, 2, 0);
  EXPECT_TRUE(completed(h).empty());
  h.sent.clear();
  h.respond(want(0, 500), 3);
  sent = requests(h);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0], wanted(0, 300, part(data, 300, 200)));
  h.ack(4, {}, 3, 0);
  EXPECT_EQ(completed(h), std::vector<std::uint64_t>{1});  // T35: all of it is executed
}

TEST(Sending, T34_AHeldMessageGoesAgainAsItIsWanted) {
  Harness h;
  h.peer_mtu = 256;
  h.peer_window = 1;
  h.accept();
  const Bytes data = row(700);
  h.post(message(data, 0, 1));
  ASSERT_EQ(requests(h).size(), 2u);  // the window
  h.respond(report(kOurPsn, pairs({0, 8})));
  h.sent.clear();
  h.ack(2, {}, 1, 0);
  EXPECT_TRUE(requests(h).empty());  // the rest is not sent to be dropped
  EXPECT_TRUE(completed(h).empty());
  h.respond(want(0, 700), 2);
  EXPECT_EQ(requests(h).at(0), wanted(0, 0, part(data, 0, 208)));
  for (std::uint32_t acked = 3; acked <= 6; ++acked) h.ack(acked, {}, acked - 1, 0);
  EXPECT_EQ(requests(h).size(), 4u);
  EXPECT_EQ(completed(h), std::vector<std::uint64_t>{1});
}

TEST(Sending, T34_AWantMayComeBeforeTheReport) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, 0, 1));
  h.sent.clear();
  h.respond(want(0, 8));
  EXPECT_EQ(requests(h).at(0), wanted(0, 0, data));
  h.respond(report(kOurPsn, pairs({0, 8})));
  EXPECT_EQ(requests(h).size(), 1u);
  h.ack(1, {}, 0, 0);
  EXPECT_TRUE(completed(h).empty());
  h.ack(2, {}, 1, 0);
  EXPECT_EQ(completed(h), std::vector<std::uint64_t>{1});
}

TEST(Sending, T26_WantedShortMessagesShareAPacket) {
  Harness h;
  h.accept();
  const Bytes a = row(8), b = row(4, 30), c = row(100);
  h.post(message(a, kOffered, 1));
  h.post(message(b, kOffered, 2));
  h.post(message(c, kOffered, 3));
  h.sent.clear();
  h.respond(join({want(1, 4), want(0, 8), want(2, 100)}), 3);
  ASSERT_EQ(requests(h).size(), 1u);
  EXPECT_EQ(requests(h)[0], join({wanted(1, 0, b), wanted(0, 0, a), wanted(2, 0, c)}));
  h.ack(4, {}, 3, 0);
  EXPECT_EQ(completed(h), (std::vector<std::uint64_t>{2, 1, 3}));
}

TEST(Sending, T34_WhatIsWantedAndWhatIsPostedTakeTurns) {
  Harness h;
  h.peer_mtu = 256;
  h.accept();
  const Bytes data = row(600);
  h.post(message(data, kOffered));
  h.room = 0;
  h.respond(want(0, 600), 1);
  for (int i = 0; i < 2; ++i) h.post(message(data));
  h.sent.clear();
  h.room = 4;
  h.pull();
  int wanted_ones = 0;
  for (const Bytes& b : requests(h)) {
    if (std::to_integer<unsigned>(b[1]) == kWantedFlag) ++wanted_ones;
  }
  EXPECT_EQ(wanted_ones, 2);
}

TEST(Sending, T35_WithCompleteADoneEndsIt) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, kConfirm, 1));
  h.post(message(data, kConfirm, 2));
  h.ack(1, {}, 0, 0);
  EXPECT_TRUE(completed(h).empty());
  h.respond(done(0, 0), 1);
  EXPECT_EQ(completed(h), std::vector<std::uint64_t>{1});
  h.respond(join({done(1, 6), done(1, 0), done(0, 7), done(5, 0)}), 1);  // later ones: ignored
  EXPECT_TRUE(h.completions().empty());  // a packet still refers to its memory
  h.ack(2, {}, 1, 0);
  const auto failed = h.completions();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].status, Status::kTooLong);
}

TEST(Sending, T35_DoneFinishesWhatIsPartlyWanted) {
  Harness h;
  h.accept();
  const Bytes data = row(500);
  h.post(message(data, kOffered, 1));
  h.respond(want(0, 100), 1);
  h.respond(done(0, 6), 2);
  const auto failed = h.completions();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].status, Status::kTooLong);
  EXPECT_EQ(failed[0].length, 500u);
}

TEST(Sending, T35_DoneOfAHeldMessageMayComeBeforeTheReport) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, 0, 1));
  h.respond(done(0, 6));
  h.respond(report(kOurPsn, pairs({0, 8})));
  h.ack(1, {}, 0, 0);
  const auto failed = h.completions();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].status, Status::kTooLong);
}

TEST(Sending, T33_AMessageWaitsForCreditAndHoldsUpWhatFollows) {
  Harness h;
  h.peer_messages = 1;
  h.accept();
  const Bytes data = row(4);
  h.post(message(data));
  h.post(message(data));
  h.post({.kind = Kind::kPut, .key = kKey, .from = data});
  EXPECT_EQ(requests(h), std::vector<Bytes>{send(0, data)});
  h.sent.clear();
  h.respond(credit(1), 1);  // nothing new
  EXPECT_TRUE(requests(h).empty());
  h.respond(credit(2), 1);
  ASSERT_EQ(requests(h).size(), 1u);
  EXPECT_EQ(requests(h)[0], join({send(0, data), write(0, data)}));
}

TEST(Sending, T33_OthersMayOvertakeIfTheOwnerSaysSo) {
  Harness h;
  h.peer_messages = 1;
  h.accept();
  h.operations.let_overtake(h.handle(), true);
  const Bytes data = row(4), other = row(4, 50);
  h.post(message(data));
  h.post(message(data));
  h.sent.clear();
  h.post({.kind = Kind::kPut, .key = kKey, .from = data});
  EXPECT_EQ(requests(h), std::vector<Bytes>{write(0, data)});
  h.post(message(other));  // not each other
  h.post({.kind = Kind::kPut, .flags = kWithImm, .key = kKey, .from = data, .imm = 3});
  h.post({.kind = Kind::kPut, .flags = kFence, .key = kKey, .from = other});  // nor a fence
  EXPECT_EQ(requests(h).size(), 1u);
  h.ack(2, {}, 1, 0);
  h.sent.clear();
  h.post({.kind = Kind::kPut, .key = kKey, .offset = 8, .from = data});  // nor what is behind one
  h.respond(credit(3), 2);
  EXPECT_EQ(requests(h).at(0), join({send(0, data), send(0, other)}));
  h.respond(credit(4), 2);
  EXPECT_EQ(requests(h).at(1), write_imm(0, data, 3));
  h.ack(3, {}, 2, 0);
  EXPECT_EQ(requests(h).size(), 2u);
  h.ack(4, {}, 3, 0);
  EXPECT_EQ(requests(h).at(2),
            join({write(0, other), Bits().u32(0x01010004).u32(8).data(data).bytes}));
}

TEST(Sending, T31_APutWithImmTellsItInItsLastSegment) {
  Harness h;
  h.peer_mtu = 128;
  h.accept();
  for (const std::size_t size : {68u, 72u, 76u, 80u, 150u}) {
    h.sent.clear();
    const Bytes data = row(size);
    h.post({.kind = Kind::kPut, .flags = kWithImm, .key = kKey, .from = data, .imm = 7});
    const auto sent = requests(h);
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < sent.size(); ++i) {
      const std::size_t length = std::to_integer<std::size_t>(sent[i][3]);
      EXPECT_EQ(sent[i], write(at, part(data, at, length)));
      at += length;
    }
    ASSERT_LT(at, size);
    EXPECT_EQ(sent.back(), write_imm(at, part(data, at, size - at), 7));
    h.ack(
        static_cast<std::uint32_t>(h.connection().sending(Flow::kRequest).next().value()) - kOurPsn,
        {}, 0, 0);
  }
  EXPECT_EQ(completed(h).size(), 5u);
}

TEST(Sending, T15_WhatHasImmMayNotOvertake) {
  Harness h;
  h.accept();
  EXPECT_EQ(h.post({.kind = Kind::kPut, .flags = kWithImm | kMayOvertake, .key = kKey}),
            Posted::kInvalid);
}

TEST(Sending, T16_AWantBeyondTotal) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, kOffered));
  h.respond(want(1, 9));  // of nothing: ignored
  EXPECT_EQ(h.connection().state(), State::kUp);
  h.respond(want(0, 9));
  EXPECT_TRUE(closed_for_protocol(h));
}

TEST(Sending, T36_WhatHasNotLeftIsTakenBackHere) {
  Harness h;
  h.peer_messages = 0;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, 0, 1));
  h.post({.kind = Kind::kPut, .context = 2, .key = kKey, .from = data});
  EXPECT_FALSE(h.operations.cancel(h.handle(), 2, h.now));  // a put
  EXPECT_TRUE(h.operations.cancel(h.handle(), 1, h.now));
  EXPECT_FALSE(h.operations.cancel(h.handle(), 1, h.now));
  h.pull();
  const auto all = h.completions();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].status, Status::kCancelled);
  EXPECT_EQ(requests(h), std::vector<Bytes>{write(0, data)});
}

// A put that waited behind a fence still comes before those that are posted later.
TEST(Sending, T33_WhatWaitsBehindAFenceIsNotOvertakenWhenTheFenceIsGone) {
  Harness h;
  h.peer_messages = 0;
  h.accept();
  h.operations.let_overtake(h.handle(), true);
  const Bytes data = row(4), other = row(4, 50), last = row(4, 90);
  h.post(message(data, kFence));
  h.post(message(data));
  h.post({.kind = Kind::kPut, .key = kKey, .from = other});
  h.respond(credit(1));
  EXPECT_EQ(requests(h), std::vector<Bytes>{send(0, data)});
  h.post({.kind = Kind::kPut, .key = kKey, .from = last});
  EXPECT_EQ(requests(h).size(), 1u);
  h.respond(credit(2));
  ASSERT_EQ(requests(h).size(), 2u);
  EXPECT_EQ(requests(h)[1],
            join({send(0, data), write(0, other), Bits().u32(0x01010004).u32(0).data(last).bytes}));
}

// What waited behind it leaves, before anything that is posted later.
TEST(Sending, T36_WhatWaitsForCreditIsTakenBack) {
  Harness h;
  h.peer_messages = 0;
  h.accept();
  h.operations.let_overtake(h.handle(), true);
  const Bytes data = row(4), other = row(4, 50);
  h.post(message(data, kFence, 1));
  h.post({.kind = Kind::kPut, .key = kKey, .from = data});
  EXPECT_TRUE(requests(h).empty());
  EXPECT_TRUE(h.operations.cancel(h.handle(), 1, h.now));
  h.pull();
  EXPECT_EQ(requests(h), std::vector<Bytes>{write(0, data)});
  h.post({.kind = Kind::kPut, .key = kKey, .from = other});
  EXPECT_EQ(requests(h).size(), 2u);
  EXPECT_EQ(h.completions().size(), 1u);
}

TEST(Sending, T36_CancelLeavesForWhatThePeerStillHas) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, kOffered, 1));
  h.post(message(data, kConfirm, 2));
  h.post(message(data, 0, 3));
  h.sent.clear();
  for (const std::uint64_t context : {1u, 2u, 3u}) {
    EXPECT_TRUE(h.operations.cancel(h.handle(), context, h.now));
  }
  h.pull();
  // The third is complete when it is executed: to cancel it then would belie that.
  ASSERT_EQ(requests(h).size(), 1u);
  EXPECT_EQ(requests(h)[0], join({cancel(0), cancel(1)}));
  h.respond(done(0, 7), 4);
  h.respond(done(1, 0), 4);
  const auto all = h.completions();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].context, 3u);
  EXPECT_TRUE(all[0].ok());
  EXPECT_EQ(all[1].status, Status::kCancelled);
  EXPECT_TRUE(all[2].ok());  // it had met its receive
}

TEST(Sending, T36_WhatTurnsOutToBeHeldIsThenTakenBack) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, 0, 1));
  EXPECT_TRUE(h.operations.cancel(h.handle(), 1, h.now));
  h.sent.clear();
  h.respond(report(kOurPsn, pairs({0, 8})));
  EXPECT_EQ(requests(h), std::vector<Bytes>{cancel(0)});
}

TEST(Sending, T28_AReportWithNoFailureIsIgnored) {
  Harness h;
  h.accept();
  Bytes to(8);
  const Bytes data = row(8);
  h.post({.kind = Kind::kGet, .key = kKey, .to = to});
  h.post(message(data, kConfirm));
  h.respond(join({report(kOurPsn, pairs({0, 0})), report(kOurPsn + 1, pairs({0, 0}))}));
  h.ack(2, {}, 1, 0);
  EXPECT_TRUE(h.completions().empty());
}

TEST(Sending, T10_WhatIsOpenFailsWithTheConnection) {
  Harness h;
  h.peer_messages = 3;
  h.accept();
  h.operations.let_overtake(h.handle(), true);
  const Bytes data = row(500);
  h.post(message(data, kOffered, 1));
  h.post(message(data, kConfirm, 2));
  h.post(message(data, 0, 3));
  h.post(message(data, 0, 4));  // without credit
  h.ack(2, {}, 1, 0);
  h.respond(want(0, 100), 2);
  h.close(1);
  std::vector<std::uint64_t> all;
  for (const Completion& c : h.completions()) {
    EXPECT_EQ(c.ended, EndReason::kPeerClose);
    all.push_back(c.context);
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST(Sending, T27_AFlushWaitsForMessagesToo) {
  Harness h;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, kOffered | kSilent, 1));
  h.post({.kind = Kind::kFlush, .context = 2});
  h.ack(1, {}, 0, 0);
  EXPECT_TRUE(completed(h).empty());
  h.respond(want(0, 8), 1);
  h.ack(2, {}, 1, 0);
  EXPECT_EQ(completed(h), std::vector<std::uint64_t>{2});
}

// Whatever is missing for however long: nothing is sent for it but the idle_interval's ACK.
TEST(Sending, T33_NoStormWithoutCreditOrWant) {
  Harness h;
  h.peer_messages = 1;
  h.accept();
  const Bytes data = row(8);
  h.post(message(data, kOffered));
  h.post(message(data));
  h.ack(1, {}, 0, 0);
  h.sent.clear();
  for (int i = 0; i < 10; ++i) {
    h.run_for(500ms);
    h.ack(1, {}, 0, 0);
  }
  EXPECT_TRUE(requests(h).empty());
  EXPECT_LE(h.sent.size(), 5u);
}

// ---- the vectors that mean too much ----

// Rules: T16 T34
TEST(Refusal, T16_OfWhatOperationsMean) {
  auto file =
      conformance::JsonFile::load(MTL_TRACES "/transport-vectors.json", std::size_t{1} << 20);
  ASSERT_TRUE(file) << file.error().message;
  int checked = 0;
  for (const auto& v : conformance::JsonField{*file}["refused"].elements()) {
    const std::string check = v["check"].text();
    if (check != "limit" && check != "ignored") continue;
    SCOPED_TRACE(v["name"].text() + ": " + v["about"].text());
    ++checked;
    Harness h;  // of 64 messages, as the file's receiver
    h.accept();
    h.deliver(v["packet"].bytes());
    EXPECT_EQ(h.connection().state() == State::kUp, check == "ignored");
    if (check == "limit") {
      ASSERT_EQ(h.types(), "CLOSE");
      EXPECT_EQ(h.sent[0].reason(), 2);
    } else {
      EXPECT_EQ(h.types(), "");
    }
  }
  EXPECT_EQ(checked, 5);
}

/// The packet of that name.
Bytes vector_of(const char* name) {
  auto file =
      conformance::JsonFile::load(MTL_TRACES "/transport-vectors.json", std::size_t{1} << 20);
  EXPECT_TRUE(file);
  for (const auto& v : conformance::JsonField{*file}["packets"].elements()) {
    if (v["name"].text() == name) return v["packet"].bytes();
  }
  ADD_FAILURE() << name;
  return {};
}

// Rules: T31 T32 T34
TEST(Vectors, T31_AMessageIsReceivedAsTheFileHasIt) {
  const auto deliver = [](const char* name, bool with_tag, std::size_t room) {
    Harness h;
    h.peer_mtu = 9000;
    h.accept();
    Bytes to(room);
    post_receive(h, to, 1, with_tag ? tagged(0x00C0FFEE00000005) : Receive{});
    h.deliver(vector_of(name));
    auto got = received(h);
    return std::tuple(got, to, h.responses());
  };
  {
    const auto [got, to, out] = deliver("send_shortest", false, 0);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].total, 0u);
    EXPECT_TRUE(got[0].ok());
  }
  {
    const auto [got, to, out] = deliver("send_tagged", true, 8);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(to, row(8, '1'));
  }
  {
    const auto [got, to, out] = deliver("send_everything", true, 9000);
    EXPECT_TRUE(got.empty());  // more is to come
    EXPECT_EQ(part(to, 0, 200), row(200, 0));
  }
  {
    const auto [got, to, out] = deliver("send_offer", true, 4096);
    EXPECT_TRUE(got.empty());
    EXPECT_EQ(out, want(0, 4096));
  }
  {
    const auto [got, to, out] = deliver("packed_255", false, 0);
    // 255 messages where 64 may come.
    EXPECT_EQ(got.size(), 1u);
  }
}

}  // namespace
}  // namespace mtl::transport::test
