// Bring-up, states and the checks of a frame: P1, P2, P4, L1 to L10. The expected bytes and times
// are the protocol page's.
#include "link_harness.h"

namespace mtl::link::test {
namespace {

using Bytes = std::vector<std::byte>;

TEST(Frame, P1_EtherTypeIs88B5AndOthersAreNotCounted) {
  Harness h;
  h.enable();
  EXPECT_EQ(h.sent.at(0).at16(12), 0x88B5);
  auto f = h.frame({.kind = Kind::kStatus}, Bytes(24));
  f[13] = std::byte{0xB6};
  h.deliver_bytes(f);
  EXPECT_EQ(h.link.counters().frames_seen.get(), 0u);
}

TEST(Frame, P1_EtherTypeMayBeConfigured) {
  Config c = Harness::base_config();
  c.ether_type = 0x1234;
  Harness h(c);
  h.enable();
  EXPECT_EQ(h.sent.at(0).at16(12), 0x1234);
}

TEST(Frame, P2_UnknownPeerIsTheGroupAddressThenTheSourceOfItsInit) {
  Harness h;
  h.enable();
  EXPECT_EQ(h.sent.at(0).at32(0), 0x034D544Cu);
  EXPECT_EQ(h.sent.at(0).at16(4), 0x0001);
  h.init(h.peer);
  EXPECT_EQ(h.sent.at(1).at32(0), 0x02000000u);
  EXPECT_EQ(h.sent.at(1).at16(4), 0x00EE);
}

TEST(Frame, P2_LearnedMacHoldsInUpAndIsForgottenOnInit) {
  Harness h;
  h.come_up();
  h.peer_mac = mac(0x66);
  h.status(0, 8);
  EXPECT_EQ(h.drops(Drop::kForeign), 1u);
  h.peer_mac = mac(0xEE);
  h.close(CloseReason::kDisabled);
  EXPECT_EQ(h.link.state(), State::kInit);
  EXPECT_EQ(h.sent.back().at32(0), 0x034D544Cu);
  h.peer_mac = mac(0x66);
  h.init(h.peer);  // in INIT any source may speak
  EXPECT_EQ(h.drops(Drop::kForeign), 1u);
  EXPECT_EQ(h.sent.back().at16(4), 0x0066);
}

TEST(Frame, P2_ConfiguredMacHoldsInEveryState) {
  Config c = Harness::base_config();
  c.peer_mac = mac(0x77);
  Harness h(c);
  h.enable();
  EXPECT_EQ(h.sent.at(0).at16(4), 0x0077);
  h.init(h.peer);  // from 0xEE
  EXPECT_EQ(h.drops(Drop::kForeign), 1u);
  EXPECT_EQ(h.sent.size(), 1u);
}

TEST(Frame, P3_FramesLeaveInTheOrderInWhichTheyWereMade) {
  Harness h;
  h.come_up();
  for (std::uint8_t i = 0; i < 4; ++i) {
    h.link.submit(h.make(0, 48, static_cast<std::uint8_t>(10 + i)), h.now);
  }
  h.pull();
  ASSERT_EQ(h.sent.size(), 4u);
  for (std::uint16_t i = 0; i < 4; ++i) {
    EXPECT_EQ(h.sent[i].seq(), i);
    EXPECT_EQ(h.sent[i].at8(50), 10 + i);  // the packets in the order of their submission
  }
}

TEST(Frame, P4_ShortFramesArePaddedWithZerosTo60) {
  Harness h;
  h.come_up();
  h.submit(0, 16, 9);
  const Sent& s = h.sent.at(0);
  ASSERT_EQ(s.bytes.size(), 60u);
  for (std::size_t i = 46; i < 60; ++i) EXPECT_EQ(s.at8(i), 0);
}

TEST(Frame, P4_InitThatKnowsThePeerIsAsLongAsTheLongestData) {
  Harness h;
  h.enable();
  EXPECT_EQ(h.sent.at(0).bytes.size(), 70u);  // knows nobody
  h.peer.mtu = 100;
  h.init(h.peer);
  EXPECT_EQ(h.sent.at(1).bytes.size(), 130u);  // 30 + the smaller mtu
}

TEST(Frame, P4_PaddingIsIgnoredOnReception) {
  Harness h;
  h.come_up();
  auto f = h.frame({.kind = Kind::kData, .epoch = h.epoch}, h.packet(20));
  f.resize(200, std::byte{0x5A});
  h.deliver_bytes(f);
  ASSERT_EQ(h.delivered.size(), 1u);
  EXPECT_EQ(h.delivered[0]->length, 20u);
  // One that comes before its turn takes another way through the link.
  auto ahead = h.frame({.kind = Kind::kData, .epoch = h.epoch, .seq = Seq{2}}, h.packet(24));
  ahead.resize(200, std::byte{0x5A});
  h.deliver_bytes(ahead);
  h.deliver_bytes(h.frame({.kind = Kind::kData, .epoch = h.epoch, .seq = Seq{1}}, h.packet(20)));
  ASSERT_EQ(h.delivered.size(), 3u);
  EXPECT_EQ(h.delivered[2]->length, 24u);
}

TEST(Frame, L1_HeaderCrcCoversTheNetworkHeaderOfDataAndNoMore) {
  Harness h;
  h.come_up();
  auto f = h.frame({.kind = Kind::kData, .epoch = h.epoch}, h.packet(48));
  f[30 + 11] ^= std::byte{1};
  h.deliver_bytes(f);
  EXPECT_EQ(h.drops(Drop::kBadHeaderCrc), 1u);
  f[30 + 11] ^= std::byte{1};
  f[30 + 12] ^= std::byte{1};  // the packet CRC's business
  h.deliver_bytes(f);
  EXPECT_EQ(h.drops(Drop::kBadHeaderCrc), 1u);
  EXPECT_EQ(h.drops(Drop::kBadPacketCrc), 1u);
}

TEST(Frame, L1_HeaderCrcCoversTheWholeBodyOfOtherKinds) {
  Harness h;
  h.come_up();
  auto f = h.frame({.kind = Kind::kStatus, .epoch = h.epoch}, Bytes(24));
  f[30 + 23] ^= std::byte{1};
  h.deliver_bytes(f);
  EXPECT_EQ(h.drops(Drop::kBadHeaderCrc), 1u);
}

TEST(Frame, L2_InitAndCloseCarryZerosAndNoCredit) {
  Harness h;
  h.enable();
  const Sent init = h.sent.at(0);
  EXPECT_EQ(init.seq(), 0);
  EXPECT_EQ(init.ack(), 0);
  EXPECT_EQ(init.credit(), 0);
  EXPECT_EQ(init.flags(), 0);
  EXPECT_EQ(init.credit_vc(), 15);
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  h.status(0, 8);
  h.data(0);
  h.sent.clear();
  h.link.disable(h.now);
  h.pull();
  const Sent& s = h.sent.at(0);
  EXPECT_EQ(s.kind(), Kind::kClose);
  EXPECT_EQ(s.epoch(), kPeerEpoch);
  EXPECT_EQ(s.seq(), 0);
  EXPECT_EQ(s.ack(), 0);
  EXPECT_EQ(s.credit(), 0);
  EXPECT_EQ(s.flags(), 0);
  EXPECT_EQ(s.credit_vc(), 15);
  EXPECT_EQ(s.at32(30), 0x01000000u);
}

TEST(Frame, L2_AckIsTheNextExpected) {
  Harness h;
  h.come_up(100);
  h.data(0);
  h.data(1);
  h.data(3);  // 2 is missing
  h.submit();
  EXPECT_EQ(h.sent.back().ack(), 2);
}

/// One change to a good frame, and the name under which it must be dropped.
struct Bad {
  const char* what;
  void (*change)(Bytes& f);
};

class Malformed : public testing::TestWithParam<Bad> {};

TEST_P(Malformed, L3_IsDroppedUnderItsNameWithoutEffect) {
  Harness h;
  h.come_up();
  auto f = h.frame({.kind = Kind::kStatus, .epoch = h.epoch, .ack = Seq{0}}, Bytes(24));
  GetParam().change(f);
  h.deliver_bytes(f);
  EXPECT_EQ(h.drops(Drop::kMalformed), 1u);
  EXPECT_EQ(h.sent.size(), 0u);
  EXPECT_EQ(h.link.state(), State::kUp);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Malformed,
    testing::Values(Bad{"Short", [](Bytes& f) { f.resize(29); }},
                    Bad{"Version", [](Bytes& f) { f[14] = std::byte{0x21}; }},
                    Bad{"Kind", [](Bytes& f) { f[14] = std::byte{0x15}; }},
                    Bad{"StatusLength", [](Bytes& f) { f[17] = std::byte{23}; }},
                    Bad{"LengthBeyondFrame",
                        [](Bytes& f) {
                          f[14] = std::byte{0x10};
                          f[17] = std::byte{31};
                        }},
                    Bad{"DataBelow16",
                        [](Bytes& f) {
                          f[14] = std::byte{0x10};
                          f[17] = std::byte{15};
                        }},
                    Bad{"DataAboveOurMtu",
                        [](Bytes& f) {
                          f.resize(400);
                          f[14] = std::byte{0x10};
                          f[16] = std::byte{1};
                          f[17] = std::byte{1};
                        }},
                    Bad{"NackNoRange",
                        [](Bytes& f) {
                          f[14] = std::byte{0x12};
                          f[17] = std::byte{0};
                        }},
                    Bad{"NackOdd",
                        [](Bytes& f) {
                          f[14] = std::byte{0x12};
                          f[17] = std::byte{6};
                        }},
                    Bad{"NackTooLong",
                        [](Bytes& f) {
                          f.resize(400);
                          f[14] = std::byte{0x12};
                          f[17] = std::byte{132};
                        }},
                    Bad{"InitLength",
                        [](Bytes& f) {
                          f.resize(90);
                          f[14] = std::byte{0x13};
                          f[17] = std::byte{41};
                        }},
                    Bad{"CloseLength",
                        [](Bytes& f) {
                          f[14] = std::byte{0x14};
                          f[17] = std::byte{8};
                        }},
                    Bad{"Vc", [](Bytes& f) { f[22] = std::byte{0x8F}; }},
                    Bad{"CreditVc", [](Bytes& f) { f[22] = std::byte{0x08}; }}),
    [](const auto& tested) { return tested.param.what; });

TEST(Frame, L3_StaleWithoutUpAndInAnotherEpoch) {
  Harness h;
  h.enable();
  h.status(0, 8);  // INIT: not UP
  EXPECT_EQ(h.drops(Drop::kStale), 1u);
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  h.epoch = kOurEpoch + 1;
  h.status(0, 8);
  EXPECT_EQ(h.drops(Drop::kStale), 2u);
  EXPECT_FALSE(h.link.usable());
  h.epoch = kOurEpoch;
  h.status(0, 8);
  EXPECT_TRUE(h.link.usable());
}

TEST(Frame, L3_InitIsStaleWhenDown) {
  Harness h;
  h.link.set_carrier(true, h.now);
  h.init(h.peer);
  EXPECT_EQ(h.drops(Drop::kStale), 1u);
  EXPECT_TRUE(h.sent.empty());
}

TEST(Frame, L3_HeaderCrcIsLookedAtBeforeTheEpoch) {
  Harness h;
  h.enable();
  auto f = h.frame({.kind = Kind::kStatus, .epoch = 99}, Bytes(24));
  f[26] ^= std::byte{1};
  h.deliver_bytes(f);
  EXPECT_EQ(h.drops(Drop::kBadHeaderCrc), 1u);
  EXPECT_EQ(h.drops(Drop::kStale), 0u);
}

TEST(BringUp, L4_InitAtOnceAndEveryInterval) {
  Harness h;
  h.enable();
  h.run_for(25ms);
  EXPECT_EQ(h.kinds(), "INIT INIT INIT");
  EXPECT_EQ(h.sent_at[1] - h.sent_at[0], Duration(10ms));
  EXPECT_EQ(h.sent_at[2] - h.sent_at[0], Duration(20ms));
}

TEST(BringUp, L4_WaitsForCarrierAndForEnabling) {
  Harness h;
  h.link.enable(h.now);
  h.pull();
  EXPECT_TRUE(h.sent.empty());
  EXPECT_EQ(h.link.down_reason(), DownReason::kNoCarrier);
  h.link.set_carrier(true, h.now);
  h.pull();
  EXPECT_EQ(h.kinds(), "INIT");
}

TEST(BringUp, L4_TellsItsParameters) {
  Harness h;
  h.enable();
  const Sent& s = h.sent.at(0);
  EXPECT_EQ(s.length(), 40);
  EXPECT_EQ(s.epoch(), 0);
  EXPECT_EQ(s.at32(30), kOurNonce);
  EXPECT_EQ(s.at32(34), 0u);
  EXPECT_EQ(s.at16(38), 7);    // node
  EXPECT_EQ(s.at16(40), 0);    // port
  EXPECT_EQ(s.at16(42), 256);  // mtu
  EXPECT_EQ(s.at8(44), kOurEpoch);
  EXPECT_EQ(s.at8(45), 8);    // vcs
  EXPECT_EQ(s.at16(46), 64);  // cell
  EXPECT_EQ(s.at16(48), 64);  // window
  EXPECT_EQ(s.at16(50), 8);   // capacity of VC 0
  EXPECT_EQ(s.at32(66), 0u);  // capabilities
}

TEST(BringUp, L5_OwnNonceIsLoopedInInitAndL7InUp) {
  Harness h;
  h.enable();
  Init looped = h.peer;
  looped.nonce = h.nonce();
  h.init(looped);
  EXPECT_EQ(h.drops(Drop::kLooped), 1u);
  EXPECT_EQ(h.sent.size(), 1u);
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  h.init(looped);
  EXPECT_EQ(h.drops(Drop::kLooped), 2u);
  EXPECT_EQ(h.link.state(), State::kUp);
}

struct Refused {
  const char* what;
  void (*change)(Init& i);
};
class Incompatible : public testing::TestWithParam<Refused> {};

TEST_P(Incompatible, L6_NothingIsTakenAndNothingAnswered) {
  Harness h;
  h.enable();
  GetParam().change(h.peer);
  h.init(h.peer);
  EXPECT_EQ(h.drops(Drop::kIncompatible), 1u);
  EXPECT_EQ(h.sent.size(), 1u);
  EXPECT_FALSE(h.link.peer().has_value());
}

INSTANTIATE_TEST_SUITE_P(Fields, Incompatible,
                         testing::Values(Refused{"Vcs", [](Init& i) { i.vcs = 4; }},
                                         Refused{"Cell0", [](Init& i) { i.cell = 0; }},
                                         Refused{"Window0", [](Init& i) { i.window = 0; }},
                                         Refused{"Window16385", [](Init& i) { i.window = 16385; }},
                                         Refused{"Epoch0", [](Init& i) { i.epoch = 0; }},
                                         Refused{"Nonce0", [](Init& i) { i.nonce = 0; }},
                                         Refused{"Mtu63", [](Init& i) { i.mtu = 63; }},
                                         Refused{"Capacities32768",
                                                 [](Init& i) { i.capacity.fill(4096); }}),
                         [](const auto& tested) { return tested.param.what; });

TEST(BringUp, L6_TheBoundsThemselvesAreAccepted) {
  Harness h;
  h.enable();
  h.peer.window = 16384;
  h.peer.mtu = 64;
  h.peer.capacity.fill(4096);
  h.peer.capacity[7] = 4095;  // 32767 in all
  h.init(h.peer);
  EXPECT_EQ(h.drops(Drop::kIncompatible), 0u);
  EXPECT_EQ(h.sent.size(), 2u);
}

TEST(BringUp, L6_WrongPeerNodeOrPort) {
  Config c = Harness::base_config();
  c.expect_node = NodeId{20};
  c.expect_port = PortId{3};
  Harness h(c);
  h.enable();
  h.init(h.peer);  // port 0
  EXPECT_EQ(h.drops(Drop::kWrongPeer), 1u);
  h.peer.port = PortId{3};
  h.peer.node = NodeId{21};
  h.init(h.peer);
  EXPECT_EQ(h.drops(Drop::kWrongPeer), 2u);
  h.peer.node = NodeId{20};
  h.init(h.peer);
  EXPECT_EQ(h.drops(Drop::kWrongPeer), 2u);
  EXPECT_EQ(h.sent.size(), 2u);
}

TEST(BringUp, L6_UpSendsInitUnlessOneWithThisNonceWentOut) {
  Harness first;
  first.enable();
  first.peer.peer_nonce = first.nonce();  // the peer knew us before we knew it
  first.init(first.peer);
  EXPECT_EQ(first.kinds(), "INIT INIT STATUS");
  EXPECT_EQ(first.sent[1].at32(34), kPeerNonce);

  Harness second;
  second.enable();
  second.init(second.peer);
  second.peer.peer_nonce = second.nonce();
  second.init(second.peer);
  EXPECT_EQ(second.kinds(), "INIT INIT STATUS");
  EXPECT_EQ(second.link.state(), State::kUp);
}

// "Unless one with this peer_nonce went out before": not only the last one.
TEST(BringUp, L6_WhatAnotherPeerWasToldInBetweenChangesNothing) {
  Harness h;
  h.enable();
  h.init(h.peer);  // told kPeerNonce
  Init other = h.peer;
  other.nonce = 0x33333333;
  h.init(other);  // told that
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  EXPECT_EQ(h.link.state(), State::kUp);
  EXPECT_EQ(h.kinds(), "INIT INIT INIT STATUS");
}

TEST(BringUp, L6_WhatThePeerWasToldInAnEarlierBringUpDoesNotCount) {
  Harness h;
  h.enable();
  h.init(h.peer);
  h.link.disable(h.now);
  h.enable();
  h.sent.clear();
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  EXPECT_EQ(h.kinds(), "INIT STATUS");
  EXPECT_EQ(h.sent[0].at32(34), kPeerNonce);
}

// More peers than a link remembers: the rule is kept towards all that were told lately, and towards
// an earlier one by an INIT too many, never one too few.
TEST(BringUp, L6_ManyPeersOnOneWire) {
  Harness h;
  h.enable();
  Init other = h.peer;
  for (std::uint32_t n = 1; n <= 1000; ++n) {
    other.nonce = n;
    h.init(other);
    h.run_for(30ms);  // and it is repeated
  }
  h.sent.clear();
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  EXPECT_EQ(h.kinds(), "INIT STATUS");
  EXPECT_EQ(h.sent[0].at32(34), kPeerNonce);
}

TEST(BringUp, L6_LinkMtuIsTheSmaller) {
  Harness h;
  h.peer.mtu = 128;
  h.come_up();
  EXPECT_EQ(h.link.link_mtu(), 128);
  EXPECT_FALSE(h.link.can_take(129, Vc{0}));
  EXPECT_TRUE(h.link.can_take(128, Vc{0}));
}

TEST(BringUp, L7_KnownNonceIsAnsweredUntilAValidFrameCame) {
  Harness h;
  h.enable();
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  h.sent.clear();
  h.init(h.peer);
  EXPECT_EQ(h.kinds(), "INIT STATUS");
  h.status(0, 8);
  h.sent.clear();
  h.init(h.peer);
  EXPECT_TRUE(h.sent.empty());
}

TEST(BringUp, L7_AnotherNonceIsAPeerRestart) {
  Harness h;
  h.come_up();
  h.submit(0, 48, 1);
  h.sent.clear();
  h.peer.nonce = 0x33333333;
  h.peer.peer_nonce = 0;
  h.init(h.peer);
  EXPECT_EQ(h.back, std::vector<int>{1});
  ASSERT_EQ(h.kinds(), "INIT INIT");  // L4's, then L6's answer
  EXPECT_EQ(h.sent[0].at32(34), 0u);
  EXPECT_EQ(h.sent[1].at32(34), 0x33333333u);
  EXPECT_EQ(h.link.state(), State::kInit);
  EXPECT_EQ(h.link.counters().downs[static_cast<std::size_t>(DownReason::kPeerRestart)].get(), 1u);
}

TEST(BringUp, L7_ARefusedInitInUpChangesNothing) {
  Harness h;
  h.come_up();
  h.peer.nonce = 0x33333333;
  h.peer.cell = 0;
  h.init(h.peer);
  EXPECT_EQ(h.drops(Drop::kIncompatible), 1u);
  EXPECT_EQ(h.link.state(), State::kUp);
  EXPECT_TRUE(h.sent.empty());
}

TEST(Down, L8_DeadAfterSilenceCountedFromUpThenInit) {
  Harness h;
  h.come_up();
  const Time up = h.now;
  h.run_to(up + 50ms - 1ns);
  EXPECT_EQ(h.link.state(), State::kUp);
  h.sent.clear();
  h.run_to(up + 50ms);
  EXPECT_EQ(h.link.state(), State::kInit);
  EXPECT_EQ(h.kinds(), "INIT");  // no CLOSE
}

TEST(Down, L8_DisableSaysCloseWithReason1OnlyWhenUp) {
  Harness h;
  h.enable();
  h.sent.clear();
  h.link.disable(h.now);
  h.pull();
  EXPECT_TRUE(h.sent.empty());
  h.enable();
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  h.sent.clear();
  h.link.disable(h.now);
  h.pull();
  EXPECT_EQ(h.kinds(), "CLOSE");
  EXPECT_EQ(h.sent[0].at8(30), 1);
  h.run_for(1s);
  EXPECT_EQ(h.sent.size(), 1u);
}

TEST(Down, L8_PeerCloseGoesToInitAtOnce) {
  Harness h;
  h.come_up();
  h.close(CloseReason::kReplayExhausted);
  EXPECT_EQ(h.link.state(), State::kInit);
  EXPECT_EQ(h.kinds(), "INIT");
}

TEST(Down, L8_ReplayExhaustedClosesWithReason2AndHoldsDown) {
  Harness h;
  h.come_up();
  h.link.submit(h.make(), h.now);
  h.pull();
  for (int i = 0; i < 8; ++i) {  // replay_limit timeouts are survived; the peer goes on living
    h.run_for(500us);
    h.status(0, 8);
  }
  EXPECT_EQ(h.link.state(), State::kUp);
  h.sent.clear();
  h.run_for(500us);
  const Time down = h.now;
  EXPECT_EQ(h.link.state(), State::kDown);
  EXPECT_EQ(h.kinds(), "CLOSE");
  EXPECT_EQ(h.sent[0].at8(30), 2);
  h.init(h.peer);
  EXPECT_EQ(h.drops(Drop::kStale), 1u);
  h.run_to(down + 100ms - 1ns);
  EXPECT_EQ(h.sent.size(), 1u);
  h.run_to(down + 100ms);
  EXPECT_EQ(h.kinds(), "CLOSE INIT");
}

TEST(Down, L8_CarrierLossEndsTheHoldAndL4Applies) {
  Config c = Harness::base_config();
  c.timers.replay_limit = 0;
  Harness h(c);
  h.come_up();
  h.submit();
  h.run_for(500us);
  ASSERT_EQ(h.link.state(), State::kDown);
  h.sent.clear();
  h.link.set_carrier(false, h.now);
  h.link.set_carrier(true, h.now);
  h.pull();
  EXPECT_EQ(h.kinds(), "INIT");
  h.run_for(5ms);
  EXPECT_EQ(h.sent.size(), 1u);
}

TEST(Down, L9_HandsBackUnacknowledgedBySeqThenQueuedByVcOldestFirst) {
  Harness h;
  h.come_up(2);         // two cells for each VC
  h.submit(1, 48, 10);  // sent, seq 0
  h.submit(0, 48, 11);  // sent, seq 1
  h.submit(1, 48, 12);  // sent, seq 2
  h.submit(1, 48, 13);  // lacks credit: queued
  h.submit(0, 48, 14);  // sent, seq 3
  h.submit(0, 48, 15);  // queued
  h.submit(0, 48, 16);  // queued
  h.link.disable(h.now);
  EXPECT_EQ(h.back, (std::vector<int>{10, 11, 12, 14, 15, 16, 13}));
  EXPECT_EQ(h.link.queued(), 0u);
  EXPECT_EQ(h.link.unacknowledged(), 0u);
}

TEST(Down, L9_HeldFramesAreDiscardedAndTheirCellsFree) {
  Harness h;
  h.come_up();
  h.data(1);  // 0 is missing
  EXPECT_EQ(h.link.held(), 1u);
  EXPECT_EQ(h.link.occupied(Vc{0}), 1u);
  h.link.disable(h.now);
  EXPECT_EQ(h.link.held(), 0u);
  EXPECT_EQ(h.link.occupied(Vc{0}), 0u);
  EXPECT_TRUE(h.delivered.empty());
  EXPECT_EQ(h.pool.available(), h.pool.size());
}

TEST(Session, L10_NoDataBeforeAValidFrameOfTheSession) {
  Harness h;
  h.enable();
  h.peer.peer_nonce = h.nonce();
  h.init(h.peer);
  h.sent.clear();
  h.link.submit(h.make(), h.now);
  h.pull();
  EXPECT_TRUE(h.sent.empty());
  h.status(0, 8);
  ASSERT_FALSE(h.sent.empty());
  EXPECT_EQ(h.sent[0].kind(), Kind::kData);
  EXPECT_EQ(h.sent[0].seq(), 0);
}

TEST(Session, L10_EachSessionNumbersFromZero) {
  Harness h;
  h.come_up();
  h.submit();
  h.submit();
  h.close(CloseReason::kDisabled);
  Init again = h.peer;
  again.peer_nonce = h.nonce();
  h.init(again);
  h.epoch = static_cast<std::uint8_t>(kOurEpoch + 1);
  h.status(0, 8);
  h.sent.clear();
  h.submit();
  ASSERT_EQ(h.kinds(), "DATA");
  EXPECT_EQ(h.sent[0].seq(), 0);
}

TEST(Session, L10_NoMoreThanThePeersWindow) {
  Harness h;
  h.peer.window = 3;
  h.come_up(100);
  for (int i = 0; i < 5; ++i) h.submit();
  EXPECT_EQ(h.sent.size(), 3u);
  h.status(1, 100);
  EXPECT_EQ(h.sent.size(), 4u);
  EXPECT_EQ(h.link.unacknowledged(), 3u);
}

}  // namespace
}  // namespace mtl::link::test
