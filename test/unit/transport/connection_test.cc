// How connections come and go: T1 to T10.
#include <set>

#include "transport_harness.h"

namespace mtl::transport::test {
namespace {

using What = ConnectionEvent::What;

// ---- opening ----

TEST(Opening, T4_AnOpenGoesAtOnceAndEveryIntervalTwiceAsFar) {
  Harness h;
  h.open_here(0xFEED);
  ASSERT_EQ(h.types(), "OPEN");
  const Sent& first = h.sent[0];
  EXPECT_EQ(first.packet_class(), 0);
  EXPECT_EQ(first.connection(), 0u);
  EXPECT_EQ(first.flags(), 4);  // ASK
  EXPECT_EQ(first.open_id(), kOurId);
  EXPECT_EQ(first.at32(40), kOurPsn);
  EXPECT_EQ(first.open_mtu(), 4096);
  EXPECT_EQ(first.open_key(), 0xFEEDu);
  EXPECT_EQ(first.body(), 36u);
  const Time t0 = h.now;
  h.run_to(t0 + 4s);
  std::vector<Duration> at;
  for (const Sent& s : h.sent) at.push_back(s.at - t0);
  const std::vector<Duration> expected{0ms,   10ms,   30ms,   70ms,   150ms,  310ms,
                                       630ms, 1270ms, 1910ms, 2550ms, 3190ms, 3830ms};
  EXPECT_EQ(at, expected);
}

TEST(Opening, T4_GivenUpAfterOpenTimeout) {
  Harness h;
  h.open_here();
  h.run_for(4999ms);
  EXPECT_TRUE(h.events().empty());
  h.run_for(1ms);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].what, What::kEnded);
  EXPECT_EQ(events[0].reason, EndReason::kOpenTimeout);
  EXPECT_EQ(h.transport.in_use(), 0u);
  h.sent.clear();
  h.run_for(10s);
  EXPECT_TRUE(h.sent.empty());
}

TEST(Opening, T6_TheAnswerBringsItUpAndIsAnswered) {
  Harness h;
  h.open_here();
  h.sent.clear();
  h.open(kOurId, true);
  EXPECT_EQ(h.connection().state(), State::kUp);
  ASSERT_EQ(h.types(), "OPEN ACK");
  EXPECT_EQ(h.sent[0].connection(), kPeerId);
  EXPECT_EQ(h.sent[0].packet_class(), 1);
  EXPECT_FALSE(h.sent[0].asks());
  EXPECT_EQ(h.sent[0].open_key(), 0u);
  // T17: an ack of the request flow is due on going UP.
  EXPECT_FALSE(h.sent[1].of_response());
  EXPECT_EQ(h.sent[1].ack(), kPeerPsn);
  EXPECT_EQ(h.sent[1].held(), 0xFFFFFFFFu);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].what, What::kUp);
  EXPECT_TRUE(events[0].opened_here);
}

TEST(Opening, T4_AnOpenSentWhenUpIsPaddedWithZerosToTheSmallerMtu) {
  for (const std::uint16_t mtu : std::initializer_list<std::uint16_t>{128, 1500, 9000}) {
    Harness h;
    h.peer_mtu = mtu;
    h.open_here();
    h.sent.clear();
    h.open(kOurId, true);
    const Sent& s = h.sent.at(0);
    EXPECT_EQ(s.bytes.size(), std::min<std::size_t>(mtu, 4096));
    for (std::size_t i = 64; i < s.bytes.size() - 4; ++i) ASSERT_EQ(s.at8(i), 0) << i;
    EXPECT_EQ(h.connection().terms().mtu, std::min<std::size_t>(mtu, 4096));
  }
}

TEST(Opening, T6_AsksAgainUntilSomethingElseComes) {
  Harness h;
  h.open_here();
  h.open(kOurId, true);
  h.sent.clear();
  h.run_for(35ms);
  ASSERT_EQ(h.types(), "OPEN OPEN");  // after 10 and 30 ms
  EXPECT_TRUE(h.sent[0].asks());
  EXPECT_EQ(h.sent[0].connection(), kPeerId);
  EXPECT_EQ(h.sent[0].bytes.size(), 4096u);
  h.ack(0);
  h.sent.clear();
  h.run_for(500ms);
  EXPECT_EQ(h.types(), "");
}

TEST(Opening, T6_AnOpenWithoutAskSaysThatThePeerIsUp) {
  Harness h;
  h.open_here();
  h.open(kOurId, true);
  h.open(kOurId, false);
  h.sent.clear();
  h.run_for(500ms);
  EXPECT_EQ(h.types(), "");
}

TEST(Opening, T5_AFirstOpenIsAnsweredAndTheConnectionRepeatsNone) {
  Harness h;
  h.open(0, true);
  ASSERT_EQ(h.types(), "OPEN");
  EXPECT_EQ(h.sent[0].connection(), kPeerId);
  EXPECT_EQ(h.sent[0].packet_class(), 1);
  EXPECT_TRUE(h.sent[0].asks());
  EXPECT_EQ(h.sent[0].body(), 36u);
  EXPECT_EQ(h.connection().state(), State::kOpening);
  EXPECT_TRUE(h.events().empty());
  h.sent.clear();
  h.run_for(4s);
  EXPECT_EQ(h.types(), "");
  h.run_for(1s);
  EXPECT_EQ(h.transport.in_use(), 0u);  // given up, and the owner never knew
  EXPECT_TRUE(h.events().empty());
}

TEST(Opening, T5_AnotherFirstOpenFindsTheSameConnection) {
  Harness h;
  h.open(0, true);
  h.open(0, true);
  EXPECT_EQ(h.types(), "OPEN OPEN");
  EXPECT_EQ(h.sent[1].open_id(), kOurId);
  EXPECT_EQ(h.transport.in_use(), 1u);
  h.open(kOurId, false);
  h.sent.clear();
  h.open(0, true);  // it is UP: of the same peer id, without ASK and padded
  ASSERT_EQ(h.types(), "OPEN");
  EXPECT_EQ(h.sent[0].open_id(), kOurId);
  EXPECT_FALSE(h.sent[0].asks());
  EXPECT_EQ(h.sent[0].bytes.size(), 4096u);
  EXPECT_EQ(h.transport.in_use(), 1u);
}

TEST(Opening, T5_WithoutAskItIsNotAnswered) {
  Harness h;
  h.open(0, false);
  EXPECT_EQ(h.types(), "");
  EXPECT_EQ(h.connection().peer_id().value(), kPeerId);
}

TEST(Opening, T4_TheOwnerTakesTheOneThatThePeerIsOpening) {
  Harness h;
  h.open(0, true);
  h.sent.clear();
  const auto handle = h.open_here();
  EXPECT_EQ(handle.id.value(), kOurId);
  EXPECT_EQ(h.transport.in_use(), 1u);
  ASSERT_EQ(h.types(), "OPEN");
  EXPECT_EQ(h.sent[0].connection(), 0u);  // whatever id was noted
}

// Both open at once: each notes the other's id, each is answered, one connection comes UP.
TEST(Opening, T5_BothAtOnceMakeOneConnection) {
  Harness h;
  h.open_here();
  h.open(0, true);
  EXPECT_EQ(h.transport.in_use(), 1u);
  EXPECT_EQ(h.sent.back().connection(), kPeerId);
  h.open(kOurId, true);
  EXPECT_EQ(h.connection().state(), State::kUp);
  EXPECT_EQ(h.connection().peer_id().value(), kPeerId);
}

TEST(Opening, T5_RefusesWithAReason) {
  const auto refused = [](auto change) {
    Settings s = base_settings();
    s.connections = 1;
    Harness h(s);
    EXPECT_TRUE(h.transport.add_endpoint(EndpointId{19}, {.accepts = false}));
    EXPECT_TRUE(h.transport.add_endpoint(EndpointId{20}, {.accepts = true, .key = 0xBEEF}));
    change(h);
    h.sent.clear();
    h.open(0, true);
    EXPECT_EQ(h.drops(Drop::kRejected), 1u);
    EXPECT_EQ(h.types(), "REJECT");
    if (h.types() != "REJECT") return -1;
    EXPECT_EQ(h.sent[0].connection(), kPeerId);
    EXPECT_EQ(h.sent[0].packet_class(), 1);
    EXPECT_EQ(h.sent[0].reject_id(), 0u);
    EXPECT_EQ(h.sent[0].dst(), h.origin.node.value());
    EXPECT_EQ(h.sent[0].partition(), kPartition.value());
    return h.sent[0].reason();
  };
  EXPECT_EQ(refused([](Harness& h) { h.origin.to = EndpointId{77}; }), 1);
  EXPECT_EQ(refused([](Harness& h) { h.origin.to = EndpointId{19}; }), 1);
  EXPECT_EQ(refused([](Harness& h) { h.origin.to = EndpointId{20}; }), 2);
  EXPECT_EQ(refused([](Harness& h) {
              h.open(0, true);
              h.origin.node = NodeId{8};
            }),
            3);
  EXPECT_EQ(refused([](Harness& h) { h.peer_mtu = 127; }), 4);
  // T1: an endpoint is not joined to itself.
  EXPECT_EQ(refused([](Harness& h) {
              h.origin.node = kUs;
              h.origin.endpoint = kOurEndpoint;
            }),
            1);
}

TEST(Opening, T5_TheKeyOpensAndOneOpenedHereAsksForNone) {
  Harness h;
  ASSERT_TRUE(h.transport.add_endpoint(EndpointId{20}, {.accepts = true, .key = 0xBEEF}));
  h.origin.to = EndpointId{20};
  h.open_key = 0xBEEF;
  h.open(0, true);
  EXPECT_EQ(h.types(), "OPEN");

  Harness own;
  ASSERT_TRUE(own.transport.add_endpoint(EndpointId{20}, {.accepts = false, .key = 0xBEEF}));
  ASSERT_TRUE(
      own.transport.open(EndpointId{20}, {kPeerNode, kPeerEndpoint, kPartition}, 0, own.now));
  own.origin.to = EndpointId{20};
  own.open(0, true);  // belongs to it: needs no new connection
  EXPECT_EQ(own.drops(Drop::kRejected), 0u);
}

TEST(Opening, T8_ARejectFailsIt) {
  Harness h;
  h.open_here();
  h.origin.node = NodeId{8};
  h.reject(kOurId, 2, 0);  // of another node
  EXPECT_EQ(h.connection().state(), State::kOpening);
  h.origin.node = kPeerNode;
  h.reject(kOurId, 2, 0);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].reason, EndReason::kRejected);
  EXPECT_EQ(events[0].rejected, RejectReason::kWrongKey);
  EXPECT_EQ(h.transport.in_use(), 0u);
}

TEST(Opening, T8_ARejectDoesNotFailOneThatIsUp) {
  Harness h;
  h.accept();
  h.reject(kOurId, 2, 0);
  EXPECT_EQ(h.connection().state(), State::kUp);
}

TEST(Opening, T7_DataBeforeItIsUpIsAnsweredByAnOpenWithAsk) {
  Harness h;
  h.open(0, true);
  h.sent.clear();
  h.request(0);
  EXPECT_EQ(h.drops(Drop::kNotUp), 1u);
  EXPECT_TRUE(h.operations.came.empty());
  ASSERT_EQ(h.types(), "OPEN");
  EXPECT_TRUE(h.sent[0].asks());
  EXPECT_EQ(h.sent[0].connection(), kPeerId);
  h.sent.clear();
  h.ack(0);
  EXPECT_EQ(h.types(), "OPEN");
}

TEST(Opening, T7_WithoutANotedIdNothingIsAnswered) {
  Harness h;
  h.open_here();
  h.sent.clear();
  h.request(0);
  EXPECT_EQ(h.drops(Drop::kNotUp), 1u);
  EXPECT_EQ(h.types(), "");
}

TEST(Opening, T7_ACloseIsAnsweredAndEndsWhatTheOwnerDidNotOpen) {
  Harness h;
  h.open(0, true);
  h.sent.clear();
  h.close(1);
  ASSERT_EQ(h.types(), "CLOSE");
  EXPECT_EQ(h.sent[0].connection(), kPeerId);
  EXPECT_EQ(h.transport.in_use(), 0u);

  Harness own;
  own.open_here();
  own.open(0, true);
  own.sent.clear();
  own.close(1);
  EXPECT_EQ(own.types(), "CLOSE");
  EXPECT_EQ(own.connection().state(), State::kOpening);
  EXPECT_EQ(own.connection().peer_id(), kNoConnection);  // forgotten
}

// A path that loses one is not tried again and again.
TEST(Opening, T11_RepeatsTakeOtherPaths) {
  Harness h;
  h.open_here();
  h.run_for(100ms);
  ASSERT_GE(h.sent.size(), 4u);
  for (std::size_t i = 1; i < h.sent.size(); ++i) {
    ASSERT_EQ(h.sent[i].type(), Type::kOpen);
    EXPECT_NE(h.sent[i].entropy(), h.sent[i - 1].entropy()) << i;
  }
}

// Whoever asks again may not have heard the last answer.
TEST(Opening, T11_AnswersTakeOtherPaths) {
  Harness h;
  for (int i = 0; i < 4; ++i) h.open(0, true);
  ASSERT_EQ(h.types(), "OPEN OPEN OPEN OPEN");
  for (std::size_t i = 1; i < h.sent.size(); ++i) {
    EXPECT_NE(h.sent[i].entropy(), h.sent[i - 1].entropy()) << i;
  }
  h.sent.clear();
  for (int i = 0; i < 3; ++i) h.open(kOurId, true);  // UP: answered without ASK
  ASSERT_EQ(h.sent.size(), 4u);                      // and the ACK of T17
  std::uint16_t last = 0;
  for (const Sent& s : h.sent) {
    if (s.type() != Type::kOpen) continue;
    EXPECT_NE(s.entropy(), last);
    last = s.entropy();
  }
}

TEST(Closing, T11_RepeatsTakeOtherPaths) {
  Harness h;
  h.accept();
  h.transport.close({0, ConnectionId{kOurId}}, h.now);
  h.pull();
  h.run_for(100ms);
  ASSERT_GE(h.sent.size(), 4u);
  for (std::size_t i = 1; i < h.sent.size(); ++i) {
    ASSERT_EQ(h.sent[i].type(), Type::kClose);
    EXPECT_NE(h.sent[i].entropy(), h.sent[i - 1].entropy()) << i;
  }
}

// One node's OPENs, whatever endpoints they name, leave places to the others.
TEST(Opening, T5_OpensOfOneNodeDoNotTakeAllPlaces) {
  Settings s = base_settings();
  s.connections = 8;
  Harness h(s);
  for (std::uint16_t i = 1; i <= 20; ++i) {
    h.origin.endpoint = EndpointId{i};
    h.peer_id = i;
    h.open(0, true);
  }
  EXPECT_EQ(h.transport.in_use(), 4u);
  EXPECT_EQ(h.drops(Drop::kRejected), 16u);
  EXPECT_EQ(h.sent.back().reason(), 3);
  h.origin.node = NodeId{5};
  h.open(0, true);
  EXPECT_EQ(h.transport.in_use(), 5u);
}

TEST(Opening, T1_ErrorsOfTheOwner) {
  Settings s = base_settings();
  s.connections = 1;
  Harness h(s);
  const Peer peer{kPeerNode, kPeerEndpoint, kPartition};
  EXPECT_FALSE(h.transport.open(EndpointId{5}, peer, 0, h.now));
  EXPECT_FALSE(h.transport.open(kOurEndpoint, {kUs, kOurEndpoint, kPartition}, 0, h.now));
  EXPECT_TRUE(h.transport.open(kOurEndpoint, peer, 0, h.now));
  EXPECT_FALSE(h.transport.open(kOurEndpoint, peer, 0, h.now));
  const auto full =
      h.transport.open(kOurEndpoint, {NodeId{8}, kPeerEndpoint, kPartition}, 0, h.now);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().message.find("connections"), std::string::npos);
  EXPECT_FALSE(h.transport.add_endpoint(kOurEndpoint, {}));
}

// Partitions part the pairs, too.
TEST(Opening, T1_OneForEachPairAndPartition) {
  Harness h;
  for (const std::uint16_t partition : std::initializer_list<std::uint16_t>{1, 2}) {
    for (const std::uint16_t endpoint : std::initializer_list<std::uint16_t>{1, 2}) {
      const Peer peer{kPeerNode, EndpointId{endpoint}, Partition{partition}};
      EXPECT_TRUE(h.transport.open(kOurEndpoint, peer, 0, h.now));
    }
  }
  EXPECT_EQ(h.transport.in_use(), 4u);
}

TEST(Opening, T2_IdsAreDrawnAndNeverNoneOrTwice) {
  Harness h;
  h.words.words = {0, 0x42, 0x42};
  std::set<std::uint32_t> ids;
  for (const std::uint16_t endpoint : std::initializer_list<std::uint16_t>{1, 2, 3}) {
    const auto handle =
        h.transport.open(kOurEndpoint, {kPeerNode, EndpointId{endpoint}, kPartition}, 0, h.now);
    ASSERT_TRUE(handle);
    ids.insert(handle->id.value());
  }
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids.count(0), 0u);
  EXPECT_EQ(ids.count(0x42), 1u);
}

// ---- restarts ----

TEST(Restart, T5_ANewLifeOfThePeerOpensBesideTheOldAndT6EndsThat) {
  Harness h;
  h.accept();
  EXPECT_EQ(h.events().size(), 1u);
  h.words.words.push_back(std::uint64_t{0x7777} << 32 | 0x1234);
  h.peer_id = 0x5EED0002;
  h.open(0, true);
  EXPECT_EQ(h.transport.in_use(), 2u);
  EXPECT_EQ(h.connection().state(), State::kUp);  // it lives on beside it
  EXPECT_TRUE(h.events().empty());
  h.open(0x1234, false);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].what, What::kEnded);
  EXPECT_EQ(events[0].reason, EndReason::kPeerRestart);
  EXPECT_EQ(events[0].connection.id.value(), kOurId);
  EXPECT_EQ(events[1].what, What::kUp);
  EXPECT_EQ(h.transport.in_use(), 1u);
}

TEST(Restart, T6_AnotherPeerIdIsStale) {
  Harness h;
  h.accept();
  h.peer_id = 0x5EED0002;
  h.open(kOurId, true);
  EXPECT_EQ(h.drops(Drop::kTransportStale), 1u);
  EXPECT_EQ(h.types(), "");
  EXPECT_EQ(h.connection().peer_id().value(), kPeerId);
}

TEST(Restart, T6_OfAnotherPairIsWrongPeer) {
  for (int which = 0; which < 4; ++which) {
    Harness h;
    h.open_here();
    if (which == 0) h.origin.node = NodeId{8};
    if (which == 1) h.origin.partition = Partition{4};
    if (which == 2) h.origin.endpoint = EndpointId{5};
    if (which == 3) h.origin.to = EndpointId{5};
    h.open(kOurId, true);
    EXPECT_EQ(h.drops(Drop::kTransportWrongPeer), 1u) << which;
    EXPECT_EQ(h.connection().state(), State::kOpening);
  }
}

TEST(Restart, T8_ThePeerDoesNotKnowUs) {
  Harness h;
  h.accept();
  h.events();
  h.reject(0, 0, kPeerId + 1);  // another's
  EXPECT_EQ(h.connection().state(), State::kUp);
  h.origin.node = NodeId{8};
  h.reject(0, 0, kPeerId);  // another node's
  EXPECT_EQ(h.connection().state(), State::kUp);
  h.origin.node = kPeerNode;
  h.reject(0, 0, kPeerId);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].reason, EndReason::kPeerRestart);
  EXPECT_EQ(h.types(), "");  // nobody there to be told
}

TEST(Restart, T8_AnOpeningOneForgetsTheNotedId) {
  Harness h;
  h.open_here();
  h.open(0, true);
  h.reject(0, 0, kPeerId);
  EXPECT_EQ(h.connection().state(), State::kOpening);
  EXPECT_EQ(h.connection().peer_id(), kNoConnection);
}

TEST(Restart, T9_WhatIsNotOursIsRejectedAndARejectIsNot) {
  Harness h;
  h.accept();
  h.deliver(h.packet(1, 5, 0, 0x99, 0, 0, Bytes{std::byte{1}, {}, {}, {}}));
  ASSERT_EQ(h.types(), "REJECT");
  EXPECT_EQ(h.sent[0].connection(), 0u);
  EXPECT_EQ(h.sent[0].reason(), 0);
  EXPECT_EQ(h.sent[0].reject_id(), 0x99u);
  h.sent.clear();
  h.open(0x99, true);
  EXPECT_EQ(h.types(), "REJECT");
  h.sent.clear();
  h.reject(0x99, 1, 0);
  h.reject(0, 0, 0x99);
  h.deliver(h.packet(0, 3, 0, 0, 0, 0, write_of(0)));  // connection 0 names none to tell of
  EXPECT_EQ(h.types(), "");
  EXPECT_EQ(h.drops(Drop::kNoConnection), 5u);
}

TEST(Restart, T9_AThousandRejectsInASecondOfTheClock) {
  Harness h;
  h.now = Time{5s} - 1us;  // near the end of a second
  const Bytes stray = h.packet(0, 3, 0, 0x99, 0, 0, write_of(0));
  for (int i = 0; i < 700; ++i) h.deliver(stray);
  h.origin.to = EndpointId{77};
  for (int i = 0; i < 700; ++i) h.open(0, true);  // those of T5 included
  EXPECT_EQ(h.sent.size(), 1000u);
  EXPECT_EQ(h.transport.counters().rejects_withheld.get(), 400u);
  h.now = Time{5s};
  for (int i = 0; i < 1001; ++i) h.deliver(stray);
  EXPECT_EQ(h.sent.size(), 2000u);
}

TEST(Restart, T9_AnswersAreBoundedWhenTheyCannotLeave) {
  Harness h;
  h.room = 0;
  const Bytes stray = h.packet(0, 3, 0, 0x99, 0, 0, write_of(0));
  for (std::size_t i = 0; i < Transport::kMaxAnswers + 5; ++i) h.deliver(stray);
  EXPECT_EQ(h.transport.counters().answers_withheld.get(), 5u);
  h.room = -1;
  h.pull();
  EXPECT_EQ(h.sent.size(), Transport::kMaxAnswers);
}

// ---- closing ----

TEST(Closing, T10_ACloseIsRepeatedUntilOneComes) {
  Harness h;
  h.accept();
  h.events();
  h.transport.close({0, ConnectionId{kOurId}}, h.now);
  h.pull();
  ASSERT_EQ(h.types(), "CLOSE");
  EXPECT_EQ(h.sent[0].reason(), 1);
  EXPECT_EQ(h.sent[0].connection(), kPeerId);
  EXPECT_EQ(h.sent[0].window(), 0);
  EXPECT_EQ(h.sent[0].ack(), 0u);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].reason, EndReason::kClosed);
  h.run_for(35ms);
  EXPECT_EQ(h.types(), "CLOSE CLOSE CLOSE");  // 0, 10, 30 ms
  h.request(0);                               // it takes nothing else
  h.open(kOurId, true);
  EXPECT_EQ(h.drops(Drop::kNotUp), 2u);
  EXPECT_TRUE(h.operations.came.empty());
  h.close(1);
  EXPECT_EQ(h.transport.in_use(), 0u);
  h.sent.clear();
  h.run_for(10s);
  EXPECT_EQ(h.types(), "");
}

TEST(Closing, T10_ARejectEndsTheCloseAndSoDoesOpenTimeout) {
  Harness h;
  h.accept();
  h.events();
  h.transport.close({0, ConnectionId{kOurId}}, h.now);
  h.events();
  h.pull();
  h.reject(0, 0, kPeerId);
  EXPECT_EQ(h.transport.in_use(), 0u);

  Harness silent;
  silent.accept();
  silent.transport.close({0, ConnectionId{kOurId}}, silent.now);
  EXPECT_EQ(silent.events().size(), 2u);
  silent.run_for(4999ms);
  EXPECT_EQ(silent.transport.in_use(), 1u);
  silent.run_for(1ms);
  EXPECT_EQ(silent.transport.in_use(), 0u);
}

TEST(Closing, T10_ThePeersCloseEndsItAndIsAnswered) {
  Harness h;
  h.accept();
  h.events();
  h.post(3);
  h.sent.clear();
  h.close(1);
  ASSERT_EQ(h.types(), "CLOSE");
  EXPECT_EQ(h.sent[0].connection(), kPeerId);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].reason, EndReason::kPeerClose);
  EXPECT_EQ(h.operations.ends, 1);
  EXPECT_EQ(h.operations.dropped_psns,
            (std::vector<std::uint32_t>{kOurPsn, kOurPsn + 1, kOurPsn + 2}));
  h.sent.clear();
  h.close(1);  // repeated, its answer being lost: now nobody knows it, which a REJECT says
  EXPECT_EQ(h.types(), "REJECT");
}

TEST(Closing, T10_OneThatIsOpenedTellsThePeerIfItsIdIsNoted) {
  Harness h;
  h.open_here();
  h.sent.clear();
  h.transport.close({0, ConnectionId{kOurId}}, h.now);
  h.pull();
  EXPECT_EQ(h.types(), "");
  EXPECT_EQ(h.events().size(), 1u);
  EXPECT_EQ(h.transport.in_use(), 0u);

  Harness noted;
  noted.open_here();
  noted.open(0, true);
  noted.sent.clear();
  noted.transport.close({0, ConnectionId{kOurId}}, noted.now);
  noted.pull();
  EXPECT_EQ(noted.types(), "CLOSE");
}

TEST(Closing, T10_NothingHeardForPeerTimeoutIsDead) {
  Harness h;
  h.accept();
  h.events();
  const Time t0 = h.now;
  h.run_to(t0 + 4999ms);
  // idle_interval: an ACK with ASK each second
  ASSERT_EQ(h.types(), "ACK ACK ACK ACK");
  EXPECT_EQ(h.sent[0].at - t0, 1s);
  EXPECT_TRUE(h.sent[0].asks());
  EXPECT_TRUE(h.events().empty());
  h.sent.clear();
  h.run_to(t0 + 5s);
  ASSERT_EQ(h.types(), "CLOSE");
  EXPECT_EQ(h.sent[0].reason(), 3);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].reason, EndReason::kDead);
}

// It is heard, but what it was sent is not acknowledged.
TEST(Closing, T10_ADataNotAcknowledgedForPeerTimeoutIsDead) {
  Harness h;
  h.accept();
  h.events();
  h.post(1);
  const Time t0 = h.now;
  for (int i = 1; i <= 9; ++i) {
    h.run_to(t0 + i * 500ms);
    h.ack(0);
  }
  EXPECT_TRUE(h.events().empty());
  h.run_to(t0 + 5s);
  const auto events = h.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].reason, EndReason::kDead);
}

TEST(Closing, T10_WhatIsAcknowledgedOutOfTurnIsNotWaitedFor) {
  Harness h;
  h.accept();
  h.events();
  h.post(1);
  const Time t0 = h.now;
  for (int i = 1; i <= 20; ++i) {
    h.run_to(t0 + i * 500ms);
    h.ack(0, {0});  // it waits for a REPORT
  }
  EXPECT_TRUE(h.events().empty());
}

// An owner that does not take events keeps the connection's place, not more.
TEST(Closing, HandlesNameNothingOnceTheEndIsTaken) {
  Harness h;
  h.accept();
  const ConnectionHandle handle{0, ConnectionId{kOurId}};
  h.close(1);
  EXPECT_NE(h.transport.find(handle), nullptr);
  h.events();
  EXPECT_EQ(h.transport.find(handle), nullptr);
  h.transport.close(handle, h.now);
  h.words.words.push_back(0x1234);
  h.open_here();
  EXPECT_EQ(h.transport.find(handle), nullptr);
}

}  // namespace
}  // namespace mtl::transport::test
