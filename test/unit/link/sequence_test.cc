// Sequence, packet CRC, NACK and replay: L11 to L18, L26.
#include "link_harness.h"

namespace mtl::link::test {
namespace {

using Ranges = std::vector<std::pair<int, int>>;

TEST(Sequence, L11_BehindIsADuplicateAndAcknowledgedAtOnce) {
  Harness h;
  h.come_up();
  h.data(0);
  h.run_for(60us);  // the ack of seq 0 is told
  h.sent.clear();
  h.data(0);
  EXPECT_EQ(h.drops(Drop::kDuplicate), 1u);
  ASSERT_EQ(h.kinds(), "STATUS");
  EXPECT_EQ(h.sent[0].ack(), 1);
  EXPECT_EQ(h.delivered.size(), 1u);
}

TEST(Sequence, L11_OutsideTheWindow) {
  Harness h;
  h.come_up();
  h.data(64);
  EXPECT_EQ(h.drops(Drop::kOutOfWindow), 1u);
  h.data(63);
  EXPECT_EQ(h.drops(Drop::kOutOfWindow), 1u);
  EXPECT_EQ(h.link.held(), 1u);
}

TEST(Sequence, L11_HeldAlreadyIsADuplicateThatAcksNothing) {
  Harness h;
  h.come_up();
  h.data(2);
  h.sent.clear();
  h.data(2);
  EXPECT_EQ(h.drops(Drop::kDuplicate), 1u);
  EXPECT_TRUE(h.sent.empty());
}

TEST(Sequence, L11_OrderAcrossTheWrapOf65536) {
  Harness h;
  h.come_up(60000);
  for (std::uint32_t s = 0; s < 65540; ++s) {
    h.data(static_cast<std::uint16_t>(s));
    ASSERT_EQ(h.delivered.size(), 1u) << s;
    h.consume();
    if (h.sent.size() > 1000) h.sent.clear(), h.sent_at.clear();
  }
  EXPECT_EQ(h.link.counters().packets_in.get(), 65540u);
}

TEST(Sequence, L12_BadPacketIsMissingAndListedAtOnce) {
  Harness h;
  h.come_up();
  h.data(0, 0, 0, 48, false);
  EXPECT_EQ(h.drops(Drop::kBadPacketCrc), 1u);
  ASSERT_EQ(h.kinds(), "NACK");
  EXPECT_EQ(h.sent[0].ranges(), (Ranges{{0, 1}}));
  EXPECT_TRUE(h.delivered.empty());
}

TEST(Sequence, L12_ThirdFailureOfASeqIsPoisonAndTakesItsPlace) {
  Harness h;
  h.come_up();
  h.data(1);
  for (int i = 0; i < 3; ++i) h.data(0, 0, 0, 48, false);
  EXPECT_EQ(h.drops(Drop::kBadPacketCrc), 3u);
  EXPECT_EQ(h.drops(Drop::kPoisoned), 1u);
  ASSERT_EQ(h.delivered.size(), 1u);  // seq 1
  EXPECT_EQ(std::to_integer<int>(h.delivered[0]->data[20]), 1);
  EXPECT_EQ(h.link.occupied(Vc{0}), 1u);  // the poisoned frame's cell is free again
}

TEST(Sequence, L13_HeldFramesFollowInOrder) {
  Harness h;
  h.come_up();
  for (const std::uint16_t s : std::initializer_list<std::uint16_t>{3, 1, 2}) h.data(s);
  EXPECT_TRUE(h.delivered.empty());
  h.data(0);
  ASSERT_EQ(h.delivered.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(std::to_integer<int>(h.delivered[static_cast<std::size_t>(i)]->data[20]), i);
  }
}

TEST(Sequence, L14_StatusAndNackShowWhatIsMissing) {
  Harness h;
  h.come_up();
  h.status(0, 8, 3);
  ASSERT_EQ(h.kinds(), "NACK");
  EXPECT_EQ(h.sent[0].ranges(), (Ranges{{0, 3}}));
  h.nack(0, {{Seq{0}, 1}}, 5);
  EXPECT_EQ(h.sent.back().ranges(), (Ranges{{3, 2}}));
}

TEST(Sequence, L14_NothingIsLearntBeyondTheWindow) {
  Harness h;
  h.come_up();
  h.status(0, 8, 65);  // E + window is 64
  EXPECT_TRUE(h.sent.empty());
  h.status(0, 8, 64);
  EXPECT_EQ(h.sent.at(0).ranges(), (Ranges{{0, 64}}));
}

TEST(Nack, L15_OnlyWhatIsNotListedYet) {
  Harness h;
  h.come_up();
  h.data(1);
  h.data(3);
  ASSERT_EQ(h.kinds(), "NACK NACK");
  EXPECT_EQ(h.sent[0].ranges(), (Ranges{{0, 1}}));
  EXPECT_EQ(h.sent[1].ranges(), (Ranges{{2, 1}}));
}

TEST(Nack, L15_RepeatedAfterTheIntervalWithWhatIsHalfAsOld) {
  Harness h;
  h.come_up();
  const Time t0 = h.now;
  h.data(1);
  h.run_to(t0 + 100us);
  h.data(3);  // lists 2 at 100 us
  h.run_to(t0 + 130us);
  h.data(5);  // lists 4 at 130 us
  h.sent.clear();
  h.sent_at.clear();
  h.run_to(t0 + 250us);  // half of 250 us, rounded down, is 125 us: 2 is 150 us old, 4 is 120 us
  Ranges listed;
  for (const Sent& s : h.sent) {
    if (s.kind() == Kind::kNack) listed = s.ranges();
  }
  EXPECT_EQ(listed, (Ranges{{0, 1}, {2, 1}}));
}

TEST(Nack, L15_FewestRangesAtMost32AndTheRestAtOnce) {
  Harness h;
  Config c = Harness::base_config();
  c.window = 256;
  c.capacity.fill(100);
  Harness wide(c);
  wide.come_up();
  // Every second frame of 80 is held back until the end, so that all gaps become due together.
  wide.status(0, 8, 80);
  ASSERT_EQ(wide.kinds(), "NACK");
  EXPECT_EQ(wide.sent[0].ranges(), (Ranges{{0, 80}}));
  for (std::uint16_t s = 1; s < 80; s = static_cast<std::uint16_t>(s + 2)) wide.data(s);
  wide.sent.clear();
  wide.run_for(250us);
  std::vector<Sent> nacks;
  for (const Sent& s : wide.sent) {
    if (s.kind() == Kind::kNack) nacks.push_back(s);
  }
  ASSERT_EQ(nacks.size(), 2u);
  EXPECT_EQ(nacks[0].ranges().size(), 32u);
  EXPECT_EQ(nacks[1].ranges().size(), 8u);
  EXPECT_EQ(nacks[1].ranges().front(), (std::pair{64, 1}));
}

TEST(Ack, L16_ReleasesWhatIsBefore) {
  Harness h;
  h.come_up();
  for (int i = 0; i < 3; ++i) h.submit(0, 48, static_cast<std::uint8_t>(i));
  h.status(2, 8);
  EXPECT_EQ(h.acked, (std::vector<int>{0, 1}));
  h.status(1, 8);  // behind una: ignored
  EXPECT_EQ(h.acked.size(), 2u);
  EXPECT_EQ(h.drops(Drop::kBadAck), 0u);
}

TEST(Ack, L16_BeyondWhatWasSentDropsTheFrameButItIsLife) {
  Harness h;
  h.come_up();
  const Time up = h.now;
  h.run_to(up + 40ms);
  h.data(0, 1);  // nothing was sent
  EXPECT_EQ(h.drops(Drop::kBadAck), 1u);
  EXPECT_TRUE(h.delivered.empty());
  h.run_to(up + 89ms);
  EXPECT_EQ(h.link.state(), State::kUp);
  h.run_to(up + 90ms);
  EXPECT_EQ(h.link.counters().downs[static_cast<std::size_t>(DownReason::kDead)].get(), 1u);
}

TEST(Replay, L17_NackedFramesAreSentAgainOnceInTheOrderListed) {
  Harness h;
  h.come_up();
  for (int i = 0; i < 4; ++i) h.submit();
  h.sent.clear();
  h.nack(0, {{Seq{2}, 2}, {Seq{0}, 1}, {Seq{2}, 1}, {Seq{1}, 0}});
  ASSERT_EQ(h.sent.size(), 3u);
  EXPECT_EQ(h.sent[0].seq(), 2);
  EXPECT_EQ(h.sent[1].seq(), 3);
  EXPECT_EQ(h.sent[2].seq(), 0);
  for (const Sent& s : h.sent) EXPECT_EQ(s.flags() & kFlagReplay, kFlagReplay);
}

TEST(Replay, L17_RangesOutsideAreIgnoredAlsoWhenTheyWrap) {
  Harness h;
  h.come_up();
  for (int i = 0; i < 3; ++i) h.submit();
  h.status(1, 8);
  h.sent.clear();
  h.nack(1, {{Seq{100}, 5}});
  EXPECT_TRUE(h.sent.empty());
  h.nack(1, {{Seq{65530}, 65535}});  // 65530 .. 65528: all of them, in the order listed
  ASSERT_EQ(h.sent.size(), 2u);
  EXPECT_EQ(h.sent[0].seq(), 1);
  EXPECT_EQ(h.sent[1].seq(), 2);
}

TEST(Replay, L17_TimerSendsTheOldestAloneAndRestartsOnProgress) {
  Harness h;
  h.come_up();
  for (int i = 0; i < 2; ++i) h.submit();
  const Time start = h.now;
  h.run_to(start + 400us);
  h.status(1, 8);  // progress
  h.sent.clear();
  h.run_to(start + 899us);
  EXPECT_TRUE(h.sent.empty());
  h.run_to(start + 900us);
  ASSERT_EQ(h.kinds(), "DATA");
  EXPECT_EQ(h.sent[0].seq(), 1);
  EXPECT_EQ(h.sent[0].flags(), kFlagReplay);
}

TEST(Replay, L17_SentAgainUsesNoCreditAndKeepsItsVc) {
  Harness h;
  h.come_up(1);
  h.submit(5);
  EXPECT_EQ(h.link.credit(Vc{5}), 0);
  h.sent.clear();
  h.nack(0, {{Seq{0}, 1}});
  ASSERT_EQ(h.sent.size(), 1u);
  EXPECT_EQ(h.sent[0].vc(), 5);
  EXPECT_EQ(h.link.credit(Vc{5}), 0);
}

TEST(Replay, L17_ProgressClearsTheCountOfTimeouts) {
  Harness h;
  h.come_up(100);
  for (int i = 0; i < 3; ++i) h.submit();
  for (std::uint16_t round = 1; round <= 3; ++round) {
    for (int i = 0; i < 8; ++i) {
      h.run_for(500us);
      ASSERT_EQ(h.link.state(), State::kUp);
    }
    h.status(round, 100);
  }
  EXPECT_EQ(h.link.counters().replay_timeouts.get(), 24u);
}

TEST(Status, L18_SeqIsThatOfTheNextNewData) {
  Harness h;
  h.come_up();
  h.submit();
  h.submit();
  h.sent.clear();
  h.data(1);  // 0 is missing
  ASSERT_EQ(h.kinds(), "NACK");
  EXPECT_EQ(h.sent[0].seq(), 2);
  h.status(0, 8, 2, kFlagPoll);
  EXPECT_EQ(h.sent.back().kind(), Kind::kStatus);
  EXPECT_EQ(h.sent.back().seq(), 2);
}

TEST(Order, L26_AgainThenNackThenNewDataThenStatus) {
  Harness h;
  h.come_up();
  h.submit();
  h.sent.clear();
  h.link.submit(h.make(), h.now);  // new, not pulled yet
  h.data(1);                       // makes seq 0 missing: NACK
  EXPECT_EQ(h.kinds(), "NACK DATA");
  h.sent.clear();
  h.link.submit(h.make(), h.now);
  h.nack(0, {{Seq{0}, 1}}, 5);  // seq 0 again, and 2..4 missing
  EXPECT_EQ(h.kinds(), "DATA NACK DATA");
  EXPECT_EQ(h.sent[0].flags(), kFlagReplay);
  EXPECT_EQ(h.sent[2].flags(), 0);
}

TEST(Order, L26_NewDataGoesBeforeAStatusWhichIsThenNotDue) {
  Harness h;
  h.come_up();
  for (std::uint16_t seq = 0; seq < 7; ++seq) h.data(seq);
  h.sent.clear();
  h.link.submit(h.make(), h.now);
  h.data(7);  // ack_every is 8: an ack is due, and the DATA tells it (L23)
  EXPECT_EQ(h.kinds(), "DATA");
  EXPECT_EQ(h.sent[0].ack(), 8);
}

TEST(Order, L26_LeavingUpSendsOnlyCloseOrInit) {
  Harness h;
  h.come_up(1);
  h.submit();
  h.submit();
  h.link.receive(
      [&] {  // a gap that asks for a NACK, not pulled before the end
        Buffer* b = h.pool.take();
        const auto f =
            h.frame({.kind = Kind::kData, .epoch = h.epoch, .seq = Seq{3}}, h.packet(48));
        std::memcpy(b->data, f.data(), f.size());
        b->length = static_cast<std::uint32_t>(f.size());
        return b;
      }(),
      h.now);
  h.sent.clear();
  h.link.disable(h.now);
  h.pull();
  EXPECT_EQ(h.kinds(), "CLOSE");
}

}  // namespace
}  // namespace mtl::link::test
