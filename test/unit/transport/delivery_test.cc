// Delivery on a connection that is UP: T11 to T21.
#include <numeric>

#include "transport_harness.h"

namespace mtl::transport::test {
namespace {

using Psns = std::vector<std::uint32_t>;

/// PSNs of the peer, counted from its first.
Psns theirs(std::initializer_list<std::uint32_t> n) {
  Psns psns;
  for (const std::uint32_t i : n) psns.push_back(kPeerPsn + i);
  return psns;
}
Psns ours(std::initializer_list<std::uint32_t> n) {
  Psns psns;
  for (const std::uint32_t i : n) psns.push_back(kOurPsn + i);
  return psns;
}
Psns psns_of(const std::vector<Sent>& sent) {
  Psns psns;
  for (const Sent& s : sent) psns.push_back(s.psn());
  return psns;
}

/// A round trip of `rtt` is known, var being half of it: from a DATA whose ACK held it for nothing.
void learn_round_trip(Harness& h, Duration rtt) {
  h.post(1);
  h.run_for(rtt);
  h.ack(1, {}, 0, 0);
  h.sent.clear();
}

// ---- reception ----

TEST(Reception, T3_BadAckIsAheadOfWhatWasSent) {
  Harness h;
  h.accept();
  h.post(2);
  h.ack(3);
  h.ack(1, {1});
  EXPECT_EQ(h.drops(Drop::kTransportBadAck), 2u);
  EXPECT_TRUE(h.operations.acknowledged_psns.empty());
  h.ack(1, {0});
  h.ack(2);
  EXPECT_EQ(h.drops(Drop::kTransportBadAck), 2u);
  EXPECT_EQ(h.operations.passed_psns, ours({0, 1}));
}

TEST(Reception, T3_AnAckHalfOfAllNumbersAwayIsNotAtMostWhatWasSent) {
  Harness h;
  h.accept();
  h.post(2);
  h.ack(2 + (std::uint32_t{1} << 31));
  EXPECT_EQ(h.drops(Drop::kTransportBadAck), 1u);
  h.ack(2);
  EXPECT_EQ(h.operations.passed_psns, ours({0, 1}));
}

TEST(Reception, T3_ChecksInTheOrderOfThePage) {
  Harness h;
  h.accept();
  h.origin.node = NodeId{8};
  h.ack(5);  // wrong_peer before bad_ack
  EXPECT_EQ(h.drops(Drop::kTransportWrongPeer), 1u);
  Harness opening;
  opening.open(0, true);
  opening.ack(5);  // not_up before bad_ack
  EXPECT_EQ(opening.drops(Drop::kNotUp), 1u);
  // A malformed one of an unknown connection is malformed, and not rejected.
  opening.sent.clear();
  opening.deliver(opening.packet(1, 4, 0, 0x99, 0, 0, Bytes(6)));
  EXPECT_EQ(opening.drops(Drop::kTransportMalformed), 1u);
  EXPECT_EQ(opening.types(), "");
}

TEST(Reception, T14_InOrderOfPsnWhateverTheOrderOfArrival) {
  Harness h;
  h.accept();
  for (const std::uint32_t n : {3u, 1u, 2u}) h.request(n);
  EXPECT_TRUE(h.operations.came.empty());
  h.request(0);
  EXPECT_EQ(h.operations.executed(), theirs({0, 1, 2, 3}));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(h.operations.came[i].body, write_of(static_cast<std::uint8_t>(i)));
  }
}

TEST(Reception, T14_ResponsesExecuteOnArrival) {
  Harness h;
  h.accept();
  for (const std::uint32_t n : {3u, 1u, 0u}) h.data(Flow::kResponse, n, result_of(0));
  EXPECT_EQ(h.operations.executed(), theirs({3, 1, 0}));
  h.run_for(50us);
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_TRUE(h.sent[0].of_response());
  EXPECT_EQ(h.sent[0].ack(), kPeerPsn + 2);
  EXPECT_EQ(h.sent[0].arrived(), theirs({3}));
}

TEST(Reception, T12_CopiesAreDroppedAndAckedAtOnce) {
  Harness h;
  h.accept();
  h.request(0);
  h.request(2);
  EXPECT_EQ(h.types(), "");
  h.request(0);  // behind E
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_EQ(h.sent[0].ack(), kPeerPsn + 1);
  EXPECT_EQ(h.sent[0].arrived(), theirs({2}));
  h.sent.clear();
  h.request(2);  // has arrived
  EXPECT_EQ(h.types(), "ACK");
  EXPECT_EQ(h.drops(Drop::kTransportDuplicate), 2u);
  EXPECT_EQ(h.operations.executed(), theirs({0}));
}

TEST(Reception, T12_TheLimitIsTheFurthestThatWasTold) {
  Settings s = base_settings();
  s.window = 2;
  Harness h(s);
  h.accept();
  h.request(4);
  EXPECT_EQ(h.drops(Drop::kTransportOutOfWindow), 1u);
  h.request(0);
  h.request(4);  // E has moved, but nobody was told
  EXPECT_EQ(h.drops(Drop::kTransportOutOfWindow), 2u);
  h.run_for(50us);
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_EQ(h.sent[0].window(), 2);
  h.request(4);
  EXPECT_EQ(h.drops(Drop::kTransportOutOfWindow), 2u);
  h.request(5);
  EXPECT_EQ(h.drops(Drop::kTransportOutOfWindow), 3u);
}

TEST(Reception, T12_AWindowOf0IsOnePacket) {
  Settings s = base_settings();
  s.window = 0;
  Harness h(s);
  h.accept();
  for (std::uint32_t n = 0; n < 100; ++n) {
    h.request(n + 1);
    h.request(n, 4);
    EXPECT_EQ(h.sent.back().ack(), kPeerPsn + n + 1);
  }
  EXPECT_EQ(h.operations.came.size(), 100u);
  EXPECT_EQ(h.drops(Drop::kTransportOutOfWindow), 100u);
}

TEST(Reception, T12_NoRoomForWhatIsEarlyButAlwaysForE) {
  Settings s = base_settings();
  s.held_packets = 2;
  Harness h(s);
  h.accept();
  for (const std::uint32_t n : {1u, 2u, 3u}) h.request(n);
  EXPECT_EQ(h.drops(Drop::kNoRoom), 1u);
  h.request(3);  // it has not arrived: no copy
  EXPECT_EQ(h.drops(Drop::kNoRoom), 2u);
  h.request(0);
  EXPECT_EQ(h.operations.executed(), theirs({0, 1, 2}));
  h.request(3);
  EXPECT_EQ(h.operations.executed(), theirs({0, 1, 2, 3}));
}

TEST(Reception, T15_UnorderedExecutesEarlyAndWhatIsAfterItWaits) {
  Harness h;
  h.accept();
  h.request(2, 2);  // UNORDERED
  h.request(3);
  EXPECT_EQ(h.operations.executed(), theirs({2}));
  EXPECT_TRUE(h.operations.came[0].early);
  h.request(0);
  EXPECT_EQ(h.operations.executed(), theirs({2, 0}));
  h.request(1);
  EXPECT_EQ(h.operations.executed(), theirs({2, 0, 1, 3}));  // and 2 not again
  h.request(2, 2);
  EXPECT_EQ(h.drops(Drop::kTransportDuplicate), 1u);
}

TEST(Reception, T15_WhatWouldFailWaitsForItsTurn) {
  Harness h;
  h.operations.early = false;
  h.accept();
  h.request(1, 2);
  EXPECT_TRUE(h.operations.came.empty());
  h.request(0);
  EXPECT_EQ(h.operations.executed(), theirs({0, 1}));
  EXPECT_FALSE(h.operations.came[1].early);
}

// The mtu is the smaller of both: whatever the link carries.
TEST(Reception, T4_ALongerPacketThanTheMtuEndsTheConnection) {
  for (const std::uint32_t n : {0u, 3u}) {  // in turn, and one that would be held
    Harness h;
    h.peer_mtu = 1024;
    h.accept();
    Bytes body(1024 - 32 + 4);
    body[0] = std::byte{1};
    store16(body.data() + 2, static_cast<std::uint16_t>(body.size() - 20));
    h.data(Flow::kRequest, n, body);
    EXPECT_TRUE(h.operations.came.empty());
    EXPECT_EQ(h.drops(Drop::kTransportMalformed), 1u);
    ASSERT_EQ(h.types(), "CLOSE");
    EXPECT_EQ(h.sent[0].reason(), 2);
  }
}

TEST(Reception, T4_AnAckIsNoLongerThanTheMtu) {
  Settings settings = base_settings();
  settings.window = 10;
  Harness h(settings);
  h.peer_mtu = 128;
  h.accept();
  h.operations.early = false;
  h.request(1000, 4);
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_LE(h.sent[0].bytes.size(), 128u);
}

TEST(Reception, T16_WhatGoesBeyondEndsTheConnection) {
  Harness h;
  h.accept();
  h.operations.verdicts = {Executed::kAll, Executed::kBroken};
  h.request(2);
  h.request(1);
  h.request(0);
  EXPECT_EQ(h.operations.executed(), theirs({0, 1}));  // and nothing after it
  ASSERT_EQ(h.types(), "CLOSE");
  EXPECT_EQ(h.sent[0].reason(), 2);
  EXPECT_EQ(h.operations.ends, 1);
}

TEST(Reception, T28_EStaysUntilTheReportIsAcknowledged) {
  Harness h;
  h.accept();
  h.operations.verdicts = {Executed::kReported};
  h.operations.report_at = kOurPsn;
  h.request(0, 4);
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_EQ(h.sent[0].ack(), kPeerPsn);
  EXPECT_EQ(h.sent[0].arrived(), theirs({0}));
  h.post(1, Flow::kResponse);
  h.request(1);
  h.request(2, 2);  // may execute early, though
  EXPECT_EQ(h.operations.executed(), theirs({0, 2}));
  h.request(0);
  EXPECT_EQ(h.drops(Drop::kTransportDuplicate), 1u);
  h.ack(1, {}, 0, 0, 1);  // of the response flow
  EXPECT_EQ(h.operations.executed(), theirs({0, 2, 1}));
  EXPECT_EQ(h.connection().receiving(Flow::kRequest).expected().value(), kPeerPsn + 3);
}

TEST(Reception, T28_AnAckOfTheReportAloneIsEnough) {
  Harness h;
  h.accept();
  h.operations.verdicts = {Executed::kReported};
  h.operations.report_at = kOurPsn + 1;
  h.request(0);
  h.post(2, Flow::kResponse);
  h.ack(0, {1}, 1, 0, 1);  // it overtook another
  EXPECT_EQ(h.connection().receiving(Flow::kRequest).expected().value(), kPeerPsn + 1);
}

// Its arrival was told when it came: that it is executed now is told at once, not when the peer
// asks.
TEST(Reception, T17_AnAckIsDueWhenEMovesPastAReport) {
  Harness h;
  h.accept();
  h.operations.verdicts = {Executed::kReported};
  h.operations.report_at = kOurPsn;
  h.request(0, 4);
  h.post(1, Flow::kResponse);
  h.sent.clear();
  h.ack(1, {}, 0, 0, 1);
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_EQ(h.sent[0].ack(), kPeerPsn + 1);
  EXPECT_EQ(h.sent[0].arrived(), theirs({}));
}

// What was held behind a REPORT may end the connection in the midst of an ACK.
TEST(Reception, T28_WhatFollowsAReportMayEndIt) {
  Harness h;
  h.accept();
  h.operations.verdicts = {Executed::kReported, Executed::kBroken};
  h.operations.report_at = kOurPsn;
  h.request(0);
  h.request(1);
  h.post(3, Flow::kResponse);
  h.sent.clear();
  h.ack(1, {}, 0, 0, 5);
  EXPECT_EQ(h.types(), "CLOSE");
  EXPECT_EQ(h.operations.dropped_psns, ours({1, 2}));
}

// A copy tells that the ack was lost, or late: the next one takes another path.
TEST(Acks, T11_AnAckOfACopyTakesAnotherPath) {
  Harness h;
  h.accept();
  h.request(0, 4);
  h.request(0, 4);
  ASSERT_EQ(h.types(), "ACK ACK");
  EXPECT_NE(h.sent[0].entropy(), h.sent[1].entropy());
}

// The peer polls because it has heard nothing, perhaps not the answer to the last poll either.
TEST(Acks, T11_AnAckOfAPollTakesAnotherPath) {
  Harness h;
  h.accept();
  for (int i = 0; i < 4; ++i) h.ack(0, {}, 0, kHeldNone, 4);
  ASSERT_EQ(h.types(), "ACK ACK ACK ACK");
  for (std::size_t i = 1; i < h.sent.size(); ++i) {
    EXPECT_NE(h.sent[i].entropy(), h.sent[i - 1].entropy()) << i;
  }
}

TEST(Acks, T11_PollsTakeOtherPaths) {
  Harness h;
  h.accept();
  h.run_for(4500ms);
  ASSERT_EQ(h.types(), "ACK ACK ACK ACK");
  for (std::size_t i = 1; i < h.sent.size(); ++i) {
    EXPECT_TRUE(h.sent[i].asks());
    EXPECT_NE(h.sent[i].entropy(), h.sent[i - 1].entropy()) << i;
  }
}

TEST(Reception, T3_AClassThatTheTableDoesNotHave) {
  Harness h;
  h.accept();
  for (const int packet_class : {2, 15}) {
    h.deliver(h.packet(packet_class, 3, 0, kOurId, kPeerPsn, kOurPsn, write_of(1)));
    h.deliver(h.packet(packet_class, 3, 0, kOurId, kPeerPsn, kOurPsn, result_of(1)));
    h.deliver(h.packet(packet_class, 1, 4, kOurId, 0, 0, Bytes(36)));
  }
  EXPECT_EQ(h.drops(Drop::kTransportMalformed), 6u);
  EXPECT_TRUE(h.operations.came.empty());
  EXPECT_EQ(h.connection().state(), State::kUp);
}

TEST(Reception, T21_MarksCountNewArrivalsThatWereMarked) {
  Harness h;
  h.accept();
  h.request(0, 0, 0, true);
  h.request(1, 0, 0, false);
  h.request(1, 0, 0, true);  // a copy
  h.request(2, 4, 0, true);
  EXPECT_EQ(h.sent.back().marks(), 2);
  h.data(Flow::kResponse, 0, result_of(0), 4, 0, true);
  EXPECT_EQ(h.sent.back().marks(), 1);  // each flow its own
}

TEST(Reception, T21_WhatWasDroppedDoesNotCount) {
  Settings s = base_settings();
  s.held_packets = 0;
  Harness h(s);
  h.accept();
  h.request(300, 0, 0, true);
  h.request(1, 0, 0, true);  // no room
  h.request(0, 4, 0, false);
  EXPECT_EQ(h.sent.back().marks(), 0);
}

// ---- acks ----

TEST(Acks, T17_AfterAckEveryArrivalsOrAckDelay) {
  Harness h;
  h.accept();
  for (std::uint32_t n = 0; n < 7; ++n) h.request(n);
  EXPECT_EQ(h.types(), "");
  h.request(7);
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_EQ(h.sent[0].ack(), kPeerPsn + 8);
  EXPECT_EQ(h.sent[0].flags(), 0);
  EXPECT_EQ(h.sent[0].body(), 4u);
  h.sent.clear();
  const Time t0 = h.now;
  h.request(8);
  h.run_to(t0 + 30us);
  h.request(9);
  h.run_to(t0 + 49us);
  EXPECT_EQ(h.types(), "");
  h.run_to(t0 + 60us);
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_EQ(h.sent[0].at - t0, 50us);
  h.sent.clear();
  h.run_to(t0 + 500ms);
  EXPECT_EQ(h.types(), "");
}

TEST(Acks, T17_AtOnceAfterAsk) {
  Harness h;
  h.accept();
  h.request(0, 4);
  EXPECT_EQ(h.types(), "ACK");
  h.sent.clear();
  h.ack(0, {}, 0, 0xFFFFFFFF, 4);  // an ACK with ASK: of the request flow
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_FALSE(h.sent[0].of_response());
  EXPECT_FALSE(h.sent[0].asks());
  h.sent.clear();
  h.data(Flow::kResponse, 0, result_of(0), 4);
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_TRUE(h.sent[0].of_response());
}

TEST(Acks, T17_ADataThatLeavesAnywayTellsIfNothingHasArrivedBeyond) {
  Harness h;
  h.accept();
  h.request(0);
  h.post(1);
  ASSERT_EQ(h.types(), "DATA");
  EXPECT_EQ(h.sent[0].ack(), kPeerPsn + 1);
  h.sent.clear();
  h.run_for(60us);
  EXPECT_EQ(h.types(), "");  // told
  h.data(Flow::kResponse, 0, result_of(0));
  h.post(1);
  EXPECT_TRUE(h.sent.back().of_response());  // a DATA speaks of either flow
  EXPECT_EQ(h.sent.back().ack(), kPeerPsn + 1);
  h.sent.clear();
  h.run_for(60us);
  EXPECT_EQ(h.types(), "");
  h.request(2);
  h.post(1);
  EXPECT_EQ(h.types(), "DATA");
  h.sent.clear();
  h.run_for(60us);
  ASSERT_EQ(h.types(), "ACK");  // since a DATA has no bitmap
  EXPECT_EQ(h.sent[0].arrived(), theirs({2}));
}

TEST(Acks, T17_BothFlowsAreDueAndADataTellsOne) {
  Harness h;
  h.accept();
  h.room = 0;
  h.request(0, 4);
  h.data(Flow::kResponse, 0, result_of(0), 4);
  h.post(1);
  h.room = -1;
  h.pull();
  ASSERT_EQ(h.types(), "ACK DATA");
  EXPECT_NE(h.sent[0].of_response(), h.sent[1].of_response());
}

TEST(Acks, T18_HeldIsTheTimeSinceTheDataNamedArrived) {
  Harness h;
  h.accept();
  h.request(0);
  h.run_for(13us);
  h.request(2);
  h.run_for(7us);
  h.request(0);  // a copy names none
  ASSERT_EQ(h.types(), "ACK");
  EXPECT_EQ(h.sent[0].psn(), kPeerPsn + 2);
  EXPECT_EQ(h.sent[0].held(), 7000u);
}

TEST(Acks, T18_HeldEndsAtTwoBelowTheGreatest) {
  Harness h;
  h.accept();
  h.request(0, 4);
  for (int i = 0; i < 6; ++i) {
    h.run_for(900ms);
    h.ack(0);
  }
  h.sent.clear();
  h.ack(0, {}, 0, 0xFFFFFFFF, 4);
  EXPECT_EQ(h.sent.back().held(), 0xFFFFFFFEu);
}

TEST(Acks, T13_TheBitmapOfALongGap) {
  Settings s = base_settings();
  s.window = 10;
  s.held_packets = 1024;
  Harness h(s);
  h.accept();
  h.request(0);
  h.request(1023);
  h.request(31);
  h.request(32);
  h.request(33, 4);
  EXPECT_EQ(h.sent.back().ack(), kPeerPsn + 1);
  EXPECT_EQ(h.sent.back().arrived(), theirs({31, 32, 33, 1023}));
  EXPECT_EQ(h.sent.back().body(), 4u + 4 * 32);
  EXPECT_EQ(h.sent.back().window(), 10);
}

// ---- sending ----

TEST(Sending, T1_PsnsCountUpFromTheOneTold) {
  Harness h;
  h.accept();
  h.post(3);
  h.post(2, Flow::kResponse);
  Psns requests, responses;
  for (const Sent& s : h.data_sent()) {
    (s.packet_class() == 0 ? requests : responses).push_back(s.psn());
    EXPECT_EQ(s.connection(), kPeerId);
    EXPECT_EQ(s.dst(), kPeerNode.value());
  }
  EXPECT_EQ(requests, ours({0, 1, 2}));
  EXPECT_EQ(responses, ours({0, 1}));
}

TEST(Sending, T13_NewDataIsBeforeTheLimit) {
  Harness h;
  h.peer_window = 2;
  h.accept();
  h.post(10);
  EXPECT_EQ(h.data_sent().size(), 4u);
  h.sent.clear();
  h.ack(1, {0, 1}, 2);
  EXPECT_EQ(psns_of(h.data_sent()), ours({4}));
  h.sent.clear();
  h.ack(0);  // an old one takes nothing back
  h.ack(1);
  EXPECT_EQ(h.types(), "");
  h.ack(4);
  EXPECT_EQ(psns_of(h.data_sent()), ours({5, 6, 7}));
}

TEST(Sending, T13_EachIsAcknowledgedOnceAndPassedInOrder) {
  Harness h;
  h.accept();
  h.post(5);
  h.ack(0, {3}, 3);
  h.ack(0, {3, 1}, 1);
  h.ack(2, {1}, 0);
  EXPECT_EQ(h.operations.acknowledged_psns, ours({3, 1, 0}));
  EXPECT_EQ(h.operations.passed_psns, ours({0, 1}));
  h.ack(5);
  EXPECT_EQ(h.operations.acknowledged_psns, ours({3, 1, 0, 2, 4}));
  EXPECT_EQ(h.operations.passed_psns, ours({0, 1, 2, 3, 4}));
}

TEST(Sending, T20_AtMostCwndInFlight) {
  Harness h;
  h.accept();
  h.post(40);
  EXPECT_EQ(h.data_sent().size(), 16u);  // cwnd_first
  EXPECT_EQ(h.connection().sending(Flow::kRequest).in_flight(), 16u);
  h.ack(0, {5, 6, 7}, 7);
  EXPECT_EQ(h.connection().sending(Flow::kRequest).in_flight(),
            19u);  // three left it, slow start adds three
}

TEST(Sending, T18_AskOnTheLastThatMayBeSentUnlessOneHasIt) {
  Harness h;
  h.accept();
  h.post(3);
  std::vector<bool> asks;
  for (const Sent& s : h.data_sent()) asks.push_back(s.asks());
  EXPECT_EQ(asks, (std::vector<bool>{false, false, true}));
  h.sent.clear();
  h.post(1);
  EXPECT_FALSE(h.data_sent().at(0).asks());  // 2 is not acknowledged, and has it
  h.ack(0, {2}, 2);
  h.sent.clear();
  h.post(1);
  EXPECT_TRUE(h.data_sent().at(0).asks());
}

TEST(Sending, T18_AskWhenTheWindowIsFull) {
  Harness h;
  h.accept();
  h.post(100);
  ASSERT_EQ(h.data_sent().size(), 16u);
  EXPECT_TRUE(h.data_sent().back().asks());
  EXPECT_FALSE(h.data_sent()[14].asks());
}

TEST(Sending, T19_OverdueOnceALaterOneIsAcknowledged) {
  Harness h;
  h.accept();
  learn_round_trip(h, 100us);  // the OPEN gave no sample: srtt 100, var 50 us
  ASSERT_EQ(h.connection().round_trip().srtt(), 100us);
  ASSERT_EQ(h.connection().round_trip().var(), 50us);
  const Time t0 = h.now;
  h.post(2);
  h.run_to(t0 + 100us);
  h.ack(1, {1}, 2, 0);  // ours 2 arrived, ours 1 is missing
  ASSERT_EQ(h.connection().round_trip().srtt(), 100us);
  ASSERT_EQ(h.connection().round_trip().var(), 37500ns);
  h.sent.clear();
  h.run_to(t0 + 249us);  // srtt + 4 var = 250 us after it was sent
  EXPECT_EQ(h.types(), "");
  h.run_to(t0 + 250us);
  ASSERT_EQ(psns_of(h.data_sent()), ours({1}));
  EXPECT_TRUE(h.sent[0].asks());
  EXPECT_EQ(h.transport.counters().data_again.get(), 1u);
  EXPECT_EQ(h.transport.counters().time_outs.get(), 0u);
}

// A process that was stopped for 3 s samples that: srtt + 4 var is 9 s, longer than peer_timeout.
TEST(Sending, T19_OverdueByTheMostOfATimeOutAtLast) {
  Harness h;
  h.accept();
  h.post(1);
  h.now += 3s;  // stopped
  h.ack(1, {}, 0, 0);
  ASSERT_EQ(h.connection().round_trip().var(), 1500ms);
  h.sent.clear();
  const Time t0 = h.now;
  h.post(2);
  h.run_to(t0 + 1ms);
  h.ack(1, {1}, 2, 0);  // ours 2 arrived, ours 1 is missing
  h.sent.clear();
  h.run_to(t0 + 99ms);
  EXPECT_EQ(h.types(), "");
  h.run_to(t0 + 100ms);  // rto_max
  EXPECT_EQ(psns_of(h.data_sent()), ours({1}));
  EXPECT_EQ(h.transport.counters().time_outs.get(), 0u);  // T23: ours 2 was acknowledged since
}

TEST(Sending, T11_SentAgainWithItsOperationsByAnotherEntropy) {
  Harness h;
  h.accept();
  h.post(1);
  const Sent first = h.data_sent().at(0);
  h.sent.clear();
  h.run_for(500ms);
  ASSERT_GE(h.data_sent().size(), 3u);
  std::uint16_t last = first.entropy();
  for (const Sent& s : h.data_sent()) {
    EXPECT_EQ(s.psn(), first.psn());
    EXPECT_EQ(Bytes(s.bytes.begin() + 28, s.bytes.end() - 4),
              Bytes(first.bytes.begin() + 28, first.bytes.end() - 4));
    EXPECT_NE(s.entropy(), last);
    last = s.entropy();
  }
}

TEST(Sending, T19_TimeOutDoublesUpToItsMost) {
  Harness h;
  h.accept();  // no sample: rto_first, 10 ms
  const Time t0 = h.now;
  h.post(1);
  h.run_to(t0 + 600ms);
  std::vector<Duration> at;
  for (const Sent& s : h.data_sent()) at.push_back(s.at - t0);
  EXPECT_EQ(at, (std::vector<Duration>{0ms, 10ms, 30ms, 70ms, 150ms, 250ms, 350ms, 450ms, 550ms}));
}

TEST(Sending, T19_RtoIsSrttAnd4VarAndAckDelayButNotBelowItsLeast) {
  Harness h;
  h.accept();
  learn_round_trip(h, 100us);
  const Time t0 = h.now;
  h.post(1);
  h.run_to(t0 + 3ms);
  ASSERT_EQ(h.data_sent().size(), 3u);
  EXPECT_EQ(h.data_sent()[1].at - t0, 1ms);  // 100 + 200 + 50 us is below rto_min
  EXPECT_EQ(h.data_sent()[2].at - t0, 3ms);
  Harness slow;
  slow.accept();
  learn_round_trip(slow, 2ms);
  const Time t1 = slow.now;
  slow.post(1);
  slow.run_to(t1 + 7ms);
  ASSERT_EQ(slow.data_sent().size(), 2u);
  EXPECT_EQ(slow.data_sent()[1].at - t1, 2ms + 4ms + 50us);
}

// Before it the time-out was rto_first, which it does not wait for any more.
TEST(Sending, T19_WhatWasSentBeforeTheFirstSampleTimesOutByIt) {
  Harness h;
  h.accept();
  const Time t0 = h.now;
  h.post(2);
  h.run_to(t0 + 100us);
  h.ack(1, {}, 0, 0);  // rto is rto_min from here on
  h.sent.clear();
  h.run_to(t0 + 999us);
  EXPECT_EQ(h.types(), "");
  h.run_to(t0 + 1ms);
  EXPECT_EQ(psns_of(h.data_sent()), ours({1}));
}

// A peer that says it has held a DATA for longer than it was under way gives no sample.
// Rules: T19 T24
TEST(Sending, T24_AHeldThatCannotBeIsNoSample) {
  const auto window = [](std::uint32_t held) {
    Settings s = base_settings();
    s.timers.rtt_target = 50us;
    Harness h(s);
    h.accept();
    for (std::uint32_t round = 0; round < 6; ++round) {
      h.post(2);
      h.run_for(100us);
      h.ack(2 * round + 1, {}, 2 * round, 0);
      h.ack(2 * round + 2, {}, 2 * round + 1, held);
    }
    EXPECT_FALSE(h.connection().sending(Flow::kRequest).congestion().slow_start());
    return h.connection().sending(Flow::kRequest).congestion().in_256ths();
  };
  EXPECT_EQ(window(1'000'000'000), window(kHeldNone));
}

TEST(Sending, T19_NoSampleOfWhatWasSentTwice) {
  Harness h;
  h.accept();
  h.post(1);
  h.run_for(10ms);
  ASSERT_EQ(h.data_sent().size(), 2u);
  h.run_for(100us);
  h.ack(1, {}, 0, 0);
  EXPECT_FALSE(h.connection().round_trip().known());
}

TEST(Sending, T19_ASampleOfAnAckLacksWhatItWasHeld) {
  Harness h;
  h.accept();
  h.post(1);
  h.run_for(300us);
  h.ack(1, {}, 0, 120'000);
  EXPECT_EQ(h.connection().round_trip().srtt(), 180us);
}

TEST(Sending, T19_ASampleOfADataIsOfTheLastThatItPasses) {
  Harness h;
  h.accept();
  h.post(1);
  h.run_for(100us);
  h.post(1);
  h.run_for(40us);
  h.request(0, 0, 2);
  EXPECT_EQ(h.connection().round_trip().srtt(), 40us);
}

TEST(Sending, T19_ASampleOfTheOnlyOpenWithAsk) {
  Harness h;
  h.open_here();
  h.run_for(80us);
  h.open(kOurId, true);
  EXPECT_EQ(h.connection().round_trip().srtt(), 80us);
  Harness twice;
  twice.open_here();
  twice.run_for(10ms);
  twice.open(kOurId, true);
  EXPECT_FALSE(twice.connection().round_trip().known());
}

TEST(Sending, T20_WhatIsOverdueGoesBeforeWhatIsNew) {
  Harness h;
  h.accept();
  learn_round_trip(h, 100us);
  h.post(16);
  h.sent.clear();
  h.room = 0;
  h.post(5);  // waits: cwnd is 17
  h.run_for(100us);
  h.ack(1, {1}, 2, 0);
  h.run_for(400us);
  h.room = 1;
  h.pull();
  EXPECT_EQ(psns_of(h.data_sent()), ours({1}));
}

// ---- congestion ----

TEST(Sending, T23_ATimeOutHalvesCwndOnceForWhatWasSentBefore) {
  Harness h;
  h.accept();
  h.post(40);
  EXPECT_EQ(h.connection().sending(Flow::kRequest).congestion().packets(), 16u);
  h.run_for(10ms);
  EXPECT_EQ(h.connection().sending(Flow::kRequest).congestion().packets(), 8u);
  EXPECT_FALSE(h.connection().sending(Flow::kRequest).congestion().slow_start());
  EXPECT_EQ(h.connection().sending(Flow::kRequest).in_flight(), 8u);
  EXPECT_EQ(h.transport.counters().time_outs.get(), 16u);
}

TEST(Sending, T23_LossDoesNotLowerIt) {
  Harness h;
  h.accept();
  learn_round_trip(h, 100us);
  h.post(16);
  h.run_for(100us);
  const auto before = h.connection().sending(Flow::kRequest).congestion().packets();
  h.ack(1, {1, 2, 3}, 4, 0);
  h.run_for(900us);
  EXPECT_GT(h.transport.counters().data_again.get(), 0u);
  EXPECT_GE(h.connection().sending(Flow::kRequest).congestion().packets(), before);
}

TEST(Sending, T11_ConnectionsSendInTurn) {
  Harness h;
  h.room = 0;
  h.accept();
  h.words.words.push_back(std::uint64_t{0x7000} << 32 | 0x1234);
  h.origin.endpoint = EndpointId{99};
  h.peer_id = 0x5EED0002;
  h.open(0, true);
  h.open(0x1234, false);
  h.room = -1;
  h.pull();
  h.sent.clear();
  h.room = 0;
  for (int i = 0; i < 6; ++i) h.operations.waiting[0].push_back(write_of(0));
  h.touch();
  h.transport.touch(*h.transport.find(ConnectionHandle{1, ConnectionId{0x1234}}), h.now);
  h.room = -1;
  h.pull();
  Psns to;
  for (const Sent& s : h.data_sent()) to.push_back(s.connection());
  EXPECT_EQ(to, (Psns{kPeerId, 0x5EED0002, kPeerId, 0x5EED0002, kPeerId, 0x5EED0002}));
}

TEST(Sending, T11_SpraysOverSoManyValuesInTurn) {
  Settings s = base_settings();
  s.spray = 4;
  Harness h(s);
  h.accept();
  h.post(8);
  const auto sent = h.data_sent();
  ASSERT_EQ(sent.size(), 8u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sent[i].entropy(), sent[i + 4].entropy());
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(sent[i].entropy(), sent[j].entropy());
  }
}

/// A second connection, UP, with the same peer.
Connection& second(Harness& h) {
  h.words.words.push_back(std::uint64_t{0x7000} << 32 | 0x1234);
  h.origin.endpoint = EndpointId{99};
  h.peer_id = 0x5EED0002;
  h.open(0, true);
  h.open(0x1234, false);
  return *h.transport.find(ConnectionHandle{1, ConnectionId{0x1234}});
}

TEST(Sending, GoesOnWhenSlotsComeFree) {
  Settings s = base_settings();
  s.request_packets = 4;
  Harness h(s);
  h.accept();
  h.post(10);
  for (std::uint32_t acked = 0; acked < 10;) {
    const auto sent = static_cast<std::uint32_t>(h.data_sent().size());
    ASSERT_GT(sent, acked);
    ASSERT_LE(sent - acked, 4u);
    acked = sent;
    h.ack(acked);
  }
  EXPECT_EQ(h.operations.passed_psns.size(), 10u);
}

TEST(Sending, ASilentPeerLeavesSlotsToOthers) {
  Settings s = base_settings();
  s.request_packets = 8;
  Harness alone(s);
  alone.accept();
  alone.post(16);
  EXPECT_EQ(alone.data_sent().size(), 4u);

  Harness h(s);
  h.accept();
  h.post(4);
  Connection& other = second(h);
  h.sent.clear();
  h.operations.waiting[0].assign(4, write_of(0));
  h.transport.touch(other, h.now);
  h.pull();
  EXPECT_EQ(h.data_sent().size(), 2u);
}

TEST(Sending, GoesOnWhenAnotherConnectionLetsGoOfItsSlots) {
  Settings s = base_settings();
  s.request_packets = 1;
  for (const bool dies : {false, true}) {
    Harness h(s);
    h.accept();
    h.post(1);
    h.run_for(3s);
    Connection& other = second(h);
    h.operations.waiting[0].push_back(write_of(0));
    h.transport.touch(other, h.now);
    h.sent.clear();
    h.pull();
    EXPECT_TRUE(h.data_sent().empty());
    if (!dies) h.transport.close({0, ConnectionId{kOurId}}, h.now);
    h.pull();
    if (dies) h.run_for(2s);  // the first is dead 5 s after it was last heard
    const auto sent = h.data_sent();
    ASSERT_FALSE(sent.empty());
    EXPECT_EQ(sent.back().connection(), 0x5EED0002u);
  }
}

TEST(Sending, T1_PsnsWrap) {
  Harness h;
  h.our_psn = 0xFFFFFFF0;
  h.words.words = {std::uint64_t{h.our_psn} << 32 | kOurId};
  h.accept();
  for (std::uint32_t n = 1; n <= 40; ++n) {
    h.post(1);
    h.ack(n, {}, n - 1, 0);
  }
  EXPECT_EQ(h.drops(Drop::kTransportBadAck), 0u);
  ASSERT_EQ(h.operations.passed_psns.size(), 40u);
  EXPECT_EQ(h.operations.passed_psns[15], 0xFFFFFFFFu);
  EXPECT_EQ(h.operations.passed_psns[16], 0u);
}

}  // namespace
}  // namespace mtl::transport::test
