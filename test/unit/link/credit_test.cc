// Credits, STATUS and its reasons, round trip: L18a to L27.
#include "link_harness.h"

namespace mtl::link::test {
namespace {

TEST(Status, L18a_PollIsAnsweredAtOnceWithoutPoll) {
  Harness h;
  h.come_up();
  h.status(0, 8, 0, kFlagPoll);
  ASSERT_EQ(h.kinds(), "STATUS");
  EXPECT_EQ(h.sent[0].flags() & kFlagPoll, 0);
  h.status(0, 8);
  EXPECT_EQ(h.sent.size(), 1u);
}

TEST(Status, L18a_AnAnswerDoesNotWaitBehindDataOfLaterEvents) {
  Harness h;
  h.come_up(100);
  const auto frame_in = [&](std::vector<std::byte> bytes) {  // arrives while the port has no room
    Buffer* b = h.pool.take();
    std::memcpy(b->data, bytes.data(), bytes.size());
    b->length = static_cast<std::uint32_t>(bytes.size());
    h.link.receive(b, h.now);
  };
  std::vector<std::byte> body(kStatusBody);
  Status status;
  for (auto& allocation : status.allocation) allocation = CellCount{100};
  encode(status, body.data());
  frame_in(h.frame({.kind = Kind::kStatus, .epoch = h.epoch, .flags = kFlagPoll}, body));
  for (int i = 0; i < 5; ++i) {
    h.now += 1us;
    h.link.submit(h.make(), h.now);
  }
  FrameOut out;
  ASSERT_TRUE(h.link.next_frame(h.now, out));
  EXPECT_EQ(out.kind, Kind::kStatus);
  ASSERT_TRUE(h.link.next_frame(h.now, out));
  EXPECT_EQ(out.kind, Kind::kData);
}

TEST(RoundTrip, L19_SampleIsOurClockLessTheEcho) {
  Harness h;
  h.come_up();
  h.now = Time{5000us};
  h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagEcho, 77, 4'990'000);
  EXPECT_EQ(h.link.last_round_trip(), Duration(10us));
  EXPECT_EQ(h.link.round_trip(), Duration(10us));
}

TEST(RoundTrip, L19_SampleAcrossTheWrapOfTheClock) {
  Harness h;
  h.come_up();
  h.now = Time{(std::int64_t{1} << 32) * 1ns + 100ns};
  h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagEcho, 0, 0xFFFFFFFF);
  EXPECT_EQ(h.link.last_round_trip(), Duration(101ns));
}

// Clocks are read once a pass at both ends: a way of no length may come out a little below 0, which
// is not 2^32 ns.
TEST(RoundTrip, L19_ASampleBelowZeroIsAShortWay) {
  Harness h;
  h.come_up();
  h.now = Time{5000us};
  h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagEcho, 77, 5'000'700);
  EXPECT_EQ(h.link.last_round_trip(), Duration(1ns));
  EXPECT_EQ(h.link.round_trip(), Duration(1ns));
}

TEST(RoundTrip, IsMeasuredAnewInEachSession) {
  Harness h;
  h.come_up();
  h.now = Time{5000us};
  h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagEcho, 77, 4'990'000);
  h.link.set_carrier(false, h.now);
  h.link.set_carrier(true, h.now);
  EXPECT_EQ(h.link.round_trip(), Duration::zero());
}

TEST(RoundTrip, L19_EchoTellsThePeersClockPlusTheTimeSince) {
  Harness h;
  h.come_up();
  h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, 0, 1000);
  h.run_for(300ns);
  h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagPoll, 2000);
  h.sent.clear();
  h.run_for(10ms);  // keepalive
  ASSERT_EQ(h.kinds(), "STATUS");
  EXPECT_EQ(h.sent[0].flags(), kFlagEcho);
  EXPECT_EQ(h.sent[0].at32(46), static_cast<std::uint32_t>(nanos(h.now)));
  EXPECT_EQ(h.sent[0].at32(50), 2000u + 10'000'000u);
}

TEST(RoundTrip, L19_NoEchoBeforeAStatusOfTheSession) {
  Harness h;
  h.enable();
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  const Sent& s = h.sent.back();
  ASSERT_EQ(s.kind(), Kind::kStatus);
  EXPECT_EQ(s.flags(), 0);
  EXPECT_EQ(s.at32(50), 0u);
}

TEST(Credit, L20_FirstStatusTellsTheCapacities) {
  Config c = Harness::base_config();
  c.capacity = {1, 2, 3, 4, 5, 6, 7, 8};
  Harness h(c);
  h.enable();
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  for (std::size_t v = 0; v < 8; ++v) EXPECT_EQ(h.sent.back().allocation(v), v + 1);
}

TEST(Credit, L20_CellsAreRoundedUpAndAtLeastOne) {
  constexpr CellSize odd{100};
  EXPECT_EQ(odd.cells(1), 1);
  EXPECT_EQ(odd.cells(100), 1);
  EXPECT_EQ(odd.cells(101), 2);
  constexpr CellSize even{64};
  EXPECT_EQ(even.cells(0), 1);
  EXPECT_EQ(even.cells(64), 1);
  EXPECT_EQ(even.cells(65), 2);
  EXPECT_EQ(CellSize{65535}.cells(65535), 1);
}

TEST(Credit, L20_AllocationGrowsWhenTheOwnerReleases) {
  Harness h;
  h.come_up();
  h.data(0, 0, 0, 128);  // two cells of 64: a quarter of eight
  h.run_for(60us);
  EXPECT_EQ(h.sent.back().allocation(0), 8);
  h.consume();
  EXPECT_EQ(h.sent.back().allocation(0), 10);
}

TEST(Credit, L20_PacketsOfEarlierSessionsStillOccupy) {
  Harness h;
  h.come_up();
  h.data(0, 0, 0, 192);  // three cells, kept by the owner
  h.close(CloseReason::kDisabled);
  Init again = h.peer;
  again.peer_nonce = h.nonce();
  h.init(again);
  ASSERT_EQ(h.sent.back().kind(), Kind::kStatus);
  EXPECT_EQ(h.sent.back().allocation(0), 5);
  h.consume();
  EXPECT_EQ(h.sent.back().allocation(0), 8);
}

TEST(Credit, L21_SendsOnlyWhatTheLimitAllows) {
  Harness h;
  h.come_up(3);
  h.submit(0, 128);  // two cells
  h.submit(0, 128);  // lacks one
  EXPECT_EQ(h.sent.size(), 1u);
  h.status(0, 4);
  EXPECT_EQ(h.sent.size(), 2u);
}

TEST(Credit, L21_ALimitThatIsNotAheadIsIgnored) {
  Harness h;
  h.come_up(3);
  h.status(0, 2);
  EXPECT_EQ(h.link.credit(Vc{0}), 3);
  h.status(0, static_cast<std::uint16_t>(3 + 32768));  // exactly half the space off
  EXPECT_EQ(h.link.credit(Vc{0}), 3);
}

TEST(Credit, L21_AnyDataCarriesCredit) {
  Harness h;
  h.come_up(1);
  h.submit(3);
  h.submit(3);
  EXPECT_EQ(h.sent.size(), 1u);
  h.data(0, 0, 0, 48, true, 3, 2);
  ASSERT_EQ(h.sent.size(), 2u);
  EXPECT_EQ(h.sent[1].vc(), 3);
}

TEST(Credit, L21_PollsWhileAHeadLacksCredit) {
  Harness h;
  h.come_up(1);
  h.submit();
  h.status(1, 1);  // acknowledged, so that no replay disturbs
  h.submit();
  const Time lacks = h.now;
  h.sent.clear();
  h.sent_at.clear();
  h.run_to(lacks + 1000us);
  ASSERT_EQ(h.kinds(), "STATUS STATUS");
  EXPECT_EQ(h.sent[0].flags() & kFlagPoll, kFlagPoll);
  EXPECT_EQ(h.sent_at[0], lacks + 500us);
  EXPECT_EQ(h.sent_at[1], lacks + 1000us);
}

TEST(Credit, L21_AMoveOfTheLimitPutsThePollOff) {
  Harness h;
  h.come_up(1);
  h.submit(0, 16);
  h.status(1, 1);
  h.submit(0, 192);  // lacks three cells
  const Time lacks = h.now;
  h.sent.clear();
  h.sent_at.clear();
  h.run_to(lacks + 300us);
  h.status(1, 2);  // moves, not enough
  h.run_to(lacks + 800us);
  ASSERT_EQ(h.sent.size(), 1u);
  EXPECT_EQ(h.sent_at[0], lacks + 800us);
}

TEST(Credit, L21_PollsUntilAValidFrameComes) {
  Harness h;
  h.enable();
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  const Time up = h.now;
  h.sent.clear();
  h.sent_at.clear();
  h.run_to(up + 500us);
  ASSERT_EQ(h.kinds(), "STATUS");
  EXPECT_EQ(h.sent[0].flags(), kFlagPoll);
  h.status(0, 8);
  h.sent.clear();
  h.run_to(up + 5ms);
  EXPECT_TRUE(h.sent.empty());
}

TEST(Credit, L22_MoreThanAllocatedIsOverCredit) {
  Harness h;
  h.come_up();
  for (std::uint16_t s = 0; s < 8; ++s) h.data(s);
  h.data(8);
  EXPECT_EQ(h.drops(Drop::kOverCredit), 1u);
  EXPECT_EQ(h.delivered.size(), 8u);
  h.consume();
  h.data(8);
  EXPECT_EQ(h.drops(Drop::kOverCredit), 1u);
  EXPECT_EQ(h.delivered.size(), 8u);
}

TEST(Credit, L22_APacketOfMoreCellsThanHalfTheSpaceIsNoConfiguration) {
  Config c = Harness::base_config();
  c.cell = 1;
  c.mtu = 32768;
  EXPECT_NE(fault(c), nullptr);
  c.mtu = 32767;
  EXPECT_EQ(fault(c), nullptr);
}

TEST(Credit, L22_HeldFramesCountTowardsTheAllocation) {
  Harness h;
  h.come_up();
  for (std::uint16_t s = 1; s < 9; ++s) h.data(s);
  h.data(9);
  EXPECT_EQ(h.drops(Drop::kOverCredit), 1u);
  EXPECT_EQ(h.link.held(), 8u);
}

TEST(Due, L23_AckAfterAckEvery) {
  Harness h;
  h.come_up();
  for (std::uint16_t s = 0; s < 7; ++s) h.data(s, 0, static_cast<std::uint8_t>(s));
  EXPECT_TRUE(h.sent.empty());
  h.data(7, 0, 7);
  ASSERT_EQ(h.kinds(), "STATUS");
  EXPECT_EQ(h.sent[0].ack(), 8);
}

TEST(Due, L23_AckAfterAckDelay) {
  Harness h;
  h.come_up();
  const Time t = h.now;
  h.data(0);
  h.run_to(t + 30us);
  h.data(1);
  h.run_to(t + 50us - 1ns);
  EXPECT_TRUE(h.sent.empty());
  h.run_to(t + 50us);  // counted from the first that was not told
  ASSERT_EQ(h.kinds(), "STATUS");
  EXPECT_EQ(h.sent[0].ack(), 2);
}

TEST(Due, L23_DataTellsTheAckSoThatNoStatusIsDue) {
  Harness h;
  h.come_up();
  h.data(0);
  h.submit();
  EXPECT_EQ(h.sent.back().ack(), 1);
  h.sent.clear();
  h.status(1, 8);
  h.run_for(100us);
  EXPECT_TRUE(h.sent.empty());
}

TEST(Due, L23_CreditAfterAQuarterOrTheDelay) {
  Harness h;
  h.come_up();
  h.data(0);
  h.data(1);
  h.data(2);
  h.run_for(60us);
  h.sent.clear();
  h.consume();
  EXPECT_TRUE(h.sent.empty());  // one of eight
  h.consume();
  ASSERT_EQ(h.kinds(), "STATUS");  // two: a quarter
  EXPECT_EQ(h.sent[0].allocation(0), 10);
  const Time t = h.now;
  h.consume();
  h.run_to(t + 49us);
  EXPECT_EQ(h.sent.size(), 1u);
  h.run_to(t + 50us);
  ASSERT_EQ(h.sent.size(), 2u);
  EXPECT_EQ(h.sent[1].allocation(0), 11);
}

TEST(Due, L23_KeepaliveAfterTheLastFrameOfAnyKind) {
  Harness h;
  h.come_up();
  h.run_for(5ms);
  h.submit();
  h.status(1, 8);
  const Time sent = h.now;
  h.sent.clear();
  h.run_to(sent + 10ms - 1ns);
  EXPECT_TRUE(h.sent.empty());
  h.run_to(sent + 10ms);
  EXPECT_EQ(h.kinds(), "STATUS");
}

TEST(Due, L23_NackCarriesNoCreditVc) {
  Harness h;
  h.come_up();
  h.data(0);
  h.consume();
  h.sent.clear();
  h.data(2);
  ASSERT_EQ(h.sent.at(0).kind(), Kind::kNack);
  EXPECT_EQ(h.sent[0].credit_vc(), 15);
  EXPECT_EQ(h.sent[0].credit(), 0);
  EXPECT_EQ(h.sent[0].ack(), 1);
}

TEST(Turns, L24_DataTellsAllocationsInTurn) {
  Config c = Harness::base_config();
  c.capacity.fill(16);  // a quarter is four: one freed cell asks for no STATUS
  Harness h(c);
  h.come_up(100);
  std::uint16_t seq = 0;
  for (const std::uint8_t vc : std::initializer_list<std::uint8_t>{6, 2}) h.data(seq++, 0, vc);
  h.consume();
  h.consume();
  h.sent.clear();
  h.submit();
  h.submit();
  h.submit();
  ASSERT_EQ(h.sent.size(), 3u);
  EXPECT_EQ(h.sent[0].credit_vc(), 2);
  EXPECT_EQ(h.sent[0].credit(), 17);
  EXPECT_EQ(h.sent[1].credit_vc(), 6);
  EXPECT_EQ(h.sent[2].credit_vc(), 15);
  EXPECT_EQ(h.sent[2].credit(), 0);
}

TEST(Turns, L24_TheTurnGoesOnBehindTheVcToldLast) {
  Harness h;
  h.come_up(100);
  h.data(0, 0, 6);
  h.data(1, 0, 2);
  h.consume();
  h.consume();
  h.sent.clear();
  h.submit();
  h.data(2, 0, 2);
  h.consume();  // VC 2 has something to tell again, but it is VC 6's turn
  h.submit();
  h.submit();
  ASSERT_EQ(h.kinds(), "DATA DATA DATA");
  EXPECT_EQ(h.sent[0].credit_vc(), 2);
  EXPECT_EQ(h.sent[1].credit_vc(), 6);
  EXPECT_EQ(h.sent[2].credit_vc(), 2);
}

TEST(Turns, L25_VcsTakeTurnsAndOneWithoutCreditIsPassedOver) {
  Harness h;
  h.come_up(2);
  for (int i = 0; i < 3; ++i) {
    for (const std::uint8_t vc : std::initializer_list<std::uint8_t>{0, 3, 5})
      h.link.submit(h.make(vc), h.now);
  }
  h.pull();
  std::vector<int> vcs;
  for (const Sent& s : h.sent) vcs.push_back(s.vc());
  EXPECT_EQ(vcs, (std::vector<int>{0, 3, 5, 0, 3, 5}));  // the third of each lacks credit
  h.sent.clear();
  h.status_of(6, {2, 2, 2, 3, 2, 2, 2, 2});
  ASSERT_EQ(h.sent.size(), 1u);
  EXPECT_EQ(h.sent[0].vc(), 3);
}

TEST(Credit, L21_TheLimitOfAnEarlierSessionIsForgotten) {
  Harness h;
  h.come_up(8);
  h.close(CloseReason::kDisabled);
  h.epoch = kOurEpoch + 1;
  h.peer.nonce = kPeerNonce + 1;
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  ASSERT_EQ(h.link.state(), State::kUp);
  h.nack(0, {{Seq{0}, 0}});  // a valid frame, which tells no credit
  h.sent.clear();
  h.submit();
  EXPECT_EQ(h.kinds(), "");
  h.status(0, 8);
  EXPECT_EQ(h.kinds(), "DATA");
}

TEST(Timers, L27_FollowTheRoundTripWithinTheirBounds) {
  Config c = Harness::base_config();
  c.timers.adaptive = true;
  c.timers.adaptive_min = 1ms;
  c.timers.adaptive_max = 20ms;
  Harness h(c);
  h.come_up();
  h.now = Time{100ms};
  h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagEcho, 0, 97'000'000);  // 3 ms
  EXPECT_GT(h.link.replay_timeout(), Duration(6ms));  // above twice the round trip
  EXPECT_GT(h.link.nack_interval(), Duration(6ms));
  EXPECT_LE(h.link.replay_timeout(), Duration(20ms));
  for (int i = 0; i < 100; ++i) {
    h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagEcho, 0, 99'999'000);  // 1 us
  }
  EXPECT_EQ(h.link.nack_interval(), Duration(1ms));
}

TEST(Timers, L27_AShorterIntervalBringsForwardWhatIsRunning) {
  Config c = Harness::base_config();
  c.timers.adaptive = true;
  c.timers.adaptive_min = 1ms;
  c.timers.adaptive_max = 20ms;
  c.timers.nack_interval = 20ms;
  c.timers.dead_interval = 10s;
  c.timers.keepalive_interval = 5s;
  Harness h(c);
  h.come_up();
  h.now = Time{100ms};
  h.data(1);  // 0 is missing, and listed now
  h.run_for(300us);
  for (int i = 0; i < 100; ++i) {
    h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagEcho, 0, wire_clock(h.now) - 1000);  // 1 us
  }
  EXPECT_EQ(h.link.nack_interval(), Duration(1ms));
  EXPECT_LE(h.link.next_deadline(), Time{101ms});
}

TEST(Timers, L23_AKeepaliveThatWaitedForThePortIsFollowedByTheNextInTime) {
  Harness h;
  h.come_up();
  const Time up = h.now;
  h.now = up + 10ms;
  while (h.link.expire(h.now)) {
  }
  h.now = up + 12ms;  // the port has room again
  h.pull();
  ASSERT_EQ(h.kinds(), "STATUS");
  h.run_to(up + 30ms);
  ASSERT_EQ(h.kinds(), "STATUS STATUS");
  EXPECT_EQ(h.sent_at.back(), up + 22ms);
}

TEST(Timers, L15_AListingThatGrewOldWhileANackWaitedForThePortIsListedInTime) {
  Harness h;
  h.come_up();
  const Time first = h.now;
  h.data(2);  // 0 and 1 are listed
  h.now = first + 200us;
  h.data(4);  // 3 is listed
  h.sent.clear();
  h.sent_at.clear();
  h.now = first + 250us;  // the timer of 0 and 1
  while (h.link.expire(h.now)) {
  }
  h.now = first + 260us;
  h.pull();
  h.run_to(first + 460us);
  std::vector<Time> nacks;
  for (std::size_t i = 0; i < h.sent.size(); ++i) {
    if (h.sent[i].kind() == Kind::kNack) nacks.push_back(h.sent_at[i]);
  }
  EXPECT_EQ(nacks, (std::vector<Time>{first + 260us, first + 450us}));
}

TEST(Timers, L27_AreAsGivenWhenNotAdaptive) {
  Harness h;
  h.come_up();
  h.now = Time{100ms};
  h.status_of(0, {8, 8, 8, 8, 8, 8, 8, 8}, 0, kFlagEcho, 0, 50'000'000);
  EXPECT_EQ(h.link.replay_timeout(), Duration(500us));
  EXPECT_EQ(h.link.nack_interval(), Duration(250us));
}

}  // namespace
}  // namespace mtl::link::test
