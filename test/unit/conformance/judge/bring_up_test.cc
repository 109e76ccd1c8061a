// What the judge finds in bring-ups and in single frames, and how it tells links apart.

#include <gtest/gtest.h>

#include "script.h"

namespace mtl::conformance::judge {
namespace {

// ---- frames by themselves ----

// Rules: L1
TEST(JudgeForm, L1_AWrongHeaderCrcIsTheWays) {
  Script s;
  s.up();
  s.spoil = [](auto& frame) { frame[20] ^= std::byte{1}; };
  s.data(kA, {.seq = 0});
  EXPECT_EQ(s.sum(kA).damaged, 1U);
  EXPECT_EQ(s.found(), Rules{});
}

TEST(JudgeForm, L1_AllWrongIsTheSides) {
  Script s;
  s.up();
  for (std::uint16_t seq = 0; seq < 40; ++seq) {
    s.spoil = [](auto& frame) { frame[27] ^= std::byte{1}; };
    s.data(kA, {.seq = seq});
  }
  EXPECT_EQ(s.found(), (Rules{"A L1"}));
}

// Rules: N2
TEST(JudgeForm, N2_AllWrongIsTheSides) {
  Script s(false);
  s.up();
  for (std::uint16_t seq = 0; seq < 40; ++seq) s.data(kA, {.seq = seq, .good = false});
  EXPECT_EQ(s.found().count("A N2"), 1U);
}

// Rules: L2 L23 L24
TEST(JudgeForm, L2_WhatMustBeZero) {
  using Alter = std::function<void(link::Header&)>;
  const auto with_init = [](const Alter& alter) {
    Script s(false);
    s.alter = alter;
    s.init(kA, 0);
    return s.found();
  };
  EXPECT_EQ(with_init([](auto& h) { h.seq = Seq{1}; }), (Rules{"A L2"}));
  EXPECT_EQ(with_init([](auto& h) { h.ack = Seq{1}; }), (Rules{"A L2"}));
  EXPECT_EQ(with_init([](auto& h) { h.credit = CellCount{1}; }), (Rules{"A L2"}));
  EXPECT_EQ(with_init([](auto& h) { h.credit_vc = 0; }), (Rules{"A L2"}));
  EXPECT_EQ(with_init([](auto& h) { h.flags = 1; }), (Rules{"A L2"}));
  EXPECT_EQ(with_init([](auto& h) { h.epoch = 1; }), (Rules{"A L2"}));
  EXPECT_EQ(with_init([](auto& h) { h.vc = Vc{1}; }), (Rules{"A L2"}));
  EXPECT_EQ(with_init([](auto&) {}), Rules{});
  const auto with_status = [](const Alter& alter) {
    Script s(false);
    s.up();
    s.alter = alter;
    s.status(kA, {});
    return s.found();
  };
  EXPECT_EQ(with_status([](auto& h) { h.vc = Vc{2}; }), (Rules{"A L2"}));
  EXPECT_EQ(with_status([](auto& h) { h.flags = link::kFlagReplay; }), (Rules{"A L2"}));
  EXPECT_EQ(with_status([](auto& h) { h.flags = 0x80; }), (Rules{"A L2"}));
  EXPECT_EQ(with_status([](auto& h) { h.credit_vc = 0; }), (Rules{"A L23"}));
  EXPECT_EQ(with_status([](auto& h) { h.credit = CellCount{1}; }), (Rules{"A L23"}));
  Script data(false);
  data.up();
  data.data(kA, {.seq = 0, .credit = 1});
  EXPECT_EQ(data.found(), (Rules{"A L24"}));
}

// Rules: L3
TEST(JudgeForm, L3_WhatNoReceiverTakes) {
  const auto with = [](const std::function<void(link::Header&)>& alter) {
    Script s(false);
    s.up();
    s.alter = alter;
    s.data(kA, {.seq = 0});
    return s.found();
  };
  EXPECT_EQ(with([](auto& h) { h.vc = Vc{8}; }), (Rules{"A L3"}));
  EXPECT_EQ(with([](auto& h) { h.credit_vc = 8; }), (Rules{"A L3"}));
  EXPECT_EQ(with([](auto& h) { h.credit_vc = 14; }), (Rules{"A L3"}));
}

// Rules: L8
TEST(JudgeForm, L8_ReasonsOfAClose) {
  for (const std::uint8_t reason : {std::uint8_t{0}, std::uint8_t{3}}) {
    Script s(false);
    s.up();
    s.close(kA, reason);
    EXPECT_EQ(s.found(), (Rules{"A L8"}));
  }
  Script s(false);
  s.up();
  s.close(kA, 2);
  EXPECT_EQ(s.found(), Rules{});
}

// Rules: P4
TEST(JudgeForm, P4_Padding) {
  for (const bool complete : {false, true}) {
    Script s(complete);
    s.up();
    s.spoil = [](auto& frame) { frame.back() = std::byte{1}; };
    s.status(kA, {});
    EXPECT_EQ(s.found(), (Rules{"A P4?"})) << "no CRC of the protocol covers padding";
  }
}

// An FCS that a capture has and does not tell of is no padding. CRC-32 of "123456789" is cbf43926,
// so that of these bytes was made by other means: zlib's crc32 of the frame in front of it.
TEST(JudgeForm, P4_AnFcsIsNoPadding) {
  const auto crc = [](const std::vector<std::byte>& bytes) {
    std::uint32_t value = 0xFFFFFFFF;
    for (const std::byte b : bytes) {
      value ^= std::to_integer<std::uint32_t>(b);
      for (int i = 0; i < 8; ++i) value = (value & 1) != 0 ? value >> 1 ^ 0xEDB88320U : value >> 1;
    }
    return ~value;
  };
  std::vector<std::byte> check;
  for (const char c : std::string("123456789")) check.push_back(static_cast<std::byte>(c));
  ASSERT_EQ(crc(check), 0xCBF43926U);
  Script s(false);
  s.up();
  s.spoil = [&](auto& frame) {
    const std::uint32_t fcs = crc(frame);
    for (int i = 0; i < 4; ++i) frame.push_back(static_cast<std::byte>(fcs >> (8 * i)));
  };
  s.status(kA, {});
  EXPECT_EQ(s.found(), Rules{});
}

// Where a capture took a tag out, the FCS is that of the frame with it: of any value here.
TEST(JudgeForm, P4_AnFcsOfAnyValueBehindAllThatAFrameHas) {
  const auto with_fcs = [](std::optional<std::size_t> captured, auto&& send) {
    Script s;
    s.up();
    s.spoil = [](auto& frame) { frame.insert(frame.end(), 4, std::byte{0xA5}); };
    s.captured = captured;
    send(s);
    return s.found();
  };
  const auto status = [](Script& s) { s.status(kA, {}); };
  const auto data = [](Script& s) { s.data(kA, {.seq = 0}); };  // no padding: 94 bytes
  EXPECT_EQ(with_fcs({}, status), Rules{});
  EXPECT_EQ(with_fcs({}, data), Rules{});
  for (const std::size_t captured : {59U, 60U, 61U, 62U, 63U}) {
    EXPECT_EQ(with_fcs(captured, status), Rules{}) << captured;
  }
  Script init;
  init.init(kA, 0);
  init.spoil = [](auto& frame) { frame.insert(frame.end(), 4, std::byte{0xA5}); };
  init.init(kB, 0xA1);
  EXPECT_EQ(init.found(), Rules{});
  Script padding;  // one byte more than an FCS
  padding.up();
  padding.spoil = [](auto& frame) { frame.insert(frame.end(), 5, std::byte{0xA5}); };
  padding.status(kA, {});
  EXPECT_EQ(padding.found(), (Rules{"A P4?"}));
}

// Rules: N1 N3 N6 N11
TEST(JudgeForm, NetworkHeader) {
  const auto with = [](const Data& d) {
    Script s(false);
    s.up();
    s.data(kA, d);
    return s.found();
  };
  EXPECT_EQ(with({.vc = 4, .packet_class = 0}), (Rules{"A N1"}));
  EXPECT_EQ(with({.vc = 3, .packet_class = 1}), (Rules{"A N1"}));
  EXPECT_EQ(with({.vc = 0, .packet_class = 2}), (Rules{"A N1"}));
  EXPECT_EQ(with({.vc = 7}), Rules{});
  EXPECT_EQ(with({.dst = 0}), (Rules{"A N3"}));
  EXPECT_EQ(with({.dst = 65535}), (Rules{"A N3"}));
  EXPECT_EQ(with({.hop_limit = 0, .src = 50}), (Rules{"A N6"}));
  EXPECT_EQ(with({.hop_limit = 0}), Rules{}) << "its own packet may begin so";
  EXPECT_EQ(with({.hop_limit = 1, .src = 50}), Rules{});
  EXPECT_EQ(with({.vc = 0, .proto = 2, .payload = {2, 0, 0, 1, 0, 1, 0, 0}}), (Rules{"A N11"}));
  EXPECT_EQ(with({.vc = 4, .proto = 2, .payload = {2, 0, 0, 1, 0, 1, 0, 0}}), Rules{});
  EXPECT_EQ(with({.vc = 0, .proto = 2, .src = 50, .payload = {2, 0, 0, 1, 0, 1, 0, 0}}), Rules{})
      << "another node made it";
  // 12 + 8 + 28 + 4 bytes.
  EXPECT_EQ(with({.vc = 4, .length = 52, .proto = 2, .payload = {3}}), Rules{});
  EXPECT_EQ(with({.vc = 4, .length = 53, .proto = 2, .payload = {3}}), (Rules{"A N11"}));
  EXPECT_EQ(with({.vc = 4, .length = 52, .proto = 2, .payload = {4, 0, 0, 1}}), (Rules{"A N11"}));
}

TEST(JudgeForm, N11_ErrorsInASecond) {
  const auto run = [](Duration apart) {
    Script s;
    s.up();
    for (std::uint16_t i = 0; i < 2001; ++i) {
      s.data(kA, {.seq = i, .ack = i, .vc = 4, .length = 16 + 8, .proto = 2, .payload = {3}});
      s.data(kB, {.seq = i,
                  .ack = static_cast<std::uint16_t>(i + 1),
                  .credit_vc = 4,
                  .credit = static_cast<std::uint16_t>(17 + i)});
      s.status(kA, {.seq = static_cast<std::uint16_t>(i + 1),
                    .ack = static_cast<std::uint16_t>(i + 1),
                    .allocation = static_cast<std::uint16_t>(17 + i)});
      s.wait(apart);
    }
    return s.found();
  };
  EXPECT_EQ(run(std::chrono::microseconds(400)), (Rules{"A N11?"}));
  EXPECT_EQ(run(std::chrono::milliseconds(1)), Rules{});
}

// ---- bring-up ----

// Rules: L4
TEST(JudgeBringUp, L4_OneNonceIsOneOffer) {
  Script s(false);
  s.init(kA, 0);
  s.offer[kA].epoch = 18;
  s.init(kA, 0);
  EXPECT_EQ(s.found(), (Rules{"A L4"}));
}

TEST(JudgeBringUp, L4_GoesOnWithTheSessionThatItLeft) {
  Script s;
  s.up();
  s.offer[kA].nonce = 0xA2;
  s.offer[kA].epoch = 18;
  s.init(kA, 0);
  s.status(kB, {});  // of the new epoch, which B cannot know to be agreed
  EXPECT_EQ(s.found(), (Rules{"B L6?", "B L6?"}));
  Script old;
  old.up();
  old.offer[kA].nonce = 0xA2;
  old.init(kA, 0);
  old.status(kA, {});
  EXPECT_EQ(old.found(), (Rules{"A L6?", "A L6?"}));
}

TEST(JudgeBringUp, L4_HowFarInitsAreApart) {
  Script s;
  s.init(kA, 0);
  s.wait(std::chrono::microseconds(9));
  s.init(kA, 0);
  s.init(kB, 0xA1);
  s.init(kA, 0xB1);  // an answer, not a repetition
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.sum(kA).init_apart.samples, 1U);
  EXPECT_EQ(s.sum(kA).init_apart.least, Duration(10'000));
}

// Rules: L3
TEST(JudgeBringUp, L3_AnEpochThatNobodyAskedFor) {
  for (const std::uint8_t epoch : {std::uint8_t{17}, std::uint8_t{99}}) {  // its own; any
    for (const bool complete : {false, true}) {
      Script s(complete);
      s.up();
      s.alter = [&](auto& h) { h.epoch = epoch; };
      s.data(kA, {.seq = 0});
      EXPECT_EQ(s.found(), (Rules{"A L3?"})) << unsigned{epoch};
    }
  }
  Script at_once;
  at_once.init(kA, 0);
  at_once.init(kB, 0xA1);
  at_once.init(kA, 0xB1);
  at_once.alter = [](auto& h) { h.epoch = 99; };
  at_once.status(kA, {});
  EXPECT_EQ(at_once.found(), (Rules{"A L3?"}));
}

TEST(JudgeBringUp, L3_AnEarlierEpochIsOld) {
  Script s;
  s.up();
  s.offer[kB].nonce = 0xB2;
  s.offer[kB].epoch = 35;
  s.init(kB, 0);
  s.alter = [](auto& h) { h.epoch = 34; };
  s.status(kA, {});  // has not heard of it
  EXPECT_EQ(s.found(), Rules{});
  Script unknown(false);  // what B asked for was not captured
  unknown.init(kA, 0);
  unknown.status(kA, {});
  EXPECT_EQ(unknown.found(), Rules{});
}

// Rules: L5
TEST(JudgeBringUp, L5_TakesItsOwnInit) {
  Script s(false);
  s.init(kA, 0);
  s.init(kB, 0);
  s.init(kA, 0xA1);
  EXPECT_EQ(s.found(), (Rules{"A L5"}));
}

// Rules: L6
TEST(JudgeBringUp, L6_OffersThatMustBeRefused) {
  using Change = std::function<void(link::Init&)>;
  for (const Change& change :
       {Change([](auto& i) { i.vcs = 7; }), Change([](auto& i) { i.cell = 0; }),
        Change([](auto& i) { i.window = 0; }), Change([](auto& i) { i.window = 16385; }),
        Change([](auto& i) { i.epoch = 0; }), Change([](auto& i) { i.mtu = 63; }),
        Change([](auto& i) { i.capacity.fill(4096); })}) {
    Script s(false);
    change(s.offer[kA]);
    s.init(kA, 0);
    s.init(kB, 0);
    EXPECT_EQ(s.found(), (Rules{"A L6"}));
    Script taken(false);
    change(taken.offer[kA]);
    taken.init(kA, 0);
    taken.init(kB, 0xA1);
    EXPECT_EQ(taken.found(), (Rules{"A L6", "B L6"}));
  }
  Script most(false);
  most.offer[kA].capacity.fill(4095);
  most.offer[kA].capacity[0] = 4102;  // 32,767 in all
  most.offer[kA].window = 16384;
  most.offer[kA].mtu = 64;
  most.init(kA, 0);
  EXPECT_EQ(most.found(), Rules{});
}

TEST(JudgeBringUp, L6_AnswersANonceThatNobodySent) {
  Script s;
  s.init(kA, 0);
  s.init(kB, 0xA2);
  EXPECT_EQ(s.found(), (Rules{"B L6?"}));
}

TEST(JudgeBringUp, L6_AnswersAnInitThatWasLongOnItsWay) {
  Script s;
  s.init(kA, 0);
  for (std::uint32_t nonce = 0xB1; nonce < 0xB1 + 40; ++nonce) {
    s.offer[kB].nonce = nonce;
    s.init(kB, 0);
  }
  s.init(kA, 0xB1);
  EXPECT_EQ(s.found(), Rules{});
}

TEST(JudgeBringUp, L6_UpWithoutAnInitOfItsOwnOrOfThePeers) {
  Script own;
  own.init(kA, 0);
  own.init(kB, 0xA1);
  own.status(kA, {});  // without an INIT that says 0xB1
  EXPECT_EQ(own.found(), (Rules{"A L6?"}));
  Script peers;
  peers.init(kA, 0);
  peers.init(kB, 0);
  peers.init(kA, 0xB1);
  peers.status(kA, {});  // B has not said 0xA1
  EXPECT_EQ(peers.found(), (Rules{"A L6?"}));
}

// Rules: L7
TEST(JudgeBringUp, L7_AnInitAfterThePeerWasHeard) {
  Script s;
  s.up();
  s.init(kA, 0xB1);  // nothing shows that it heard B
  EXPECT_EQ(s.found(), Rules{});
  Script heard;
  heard.up();
  heard.data(kA, {.seq = 0});
  heard.init(kA, 0xB1);
  EXPECT_EQ(heard.found(), (Rules{"A L7?"}));
}

// Rules: P4
TEST(JudgeBringUp, P4_AnAnsweringInitIsAsLongAsTheLongestData) {
  for (const std::size_t length : {285U, 287U, 60U}) {
    Script s(false);
    s.init(kA, 0);
    s.init(kB, 0xA1, length);
    EXPECT_EQ(s.found(), (Rules{"B P4?"})) << length;
  }
  Script s(false);
  s.offer[kA].mtu = 100;
  s.init(kA, 0);
  s.init(kB, 0xA1, 130);
  EXPECT_EQ(s.found(), Rules{});
}

// Rules: P2
TEST(JudgeBringUp, P2_WhoKnowsItsPeerSpeaksToIt) {
  Script s(false);
  s.up();
  s.spoil = [](auto& frame) {
    std::copy(link::kUnknownPeer.begin(), link::kUnknownPeer.end(), frame.begin());
  };
  s.status(kA, {});
  EXPECT_EQ(s.found(), (Rules{"A P2?"}));
}

// ---- which link ----

TEST(JudgeLinks, OtherTrafficIsNone) {
  Script s;
  s.up();
  std::vector<std::byte> other(60);
  other[12] = std::byte{0x08};
  s.give(other);
  s.give({});
  s.give(std::vector<std::byte>(13));
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.judge().links().size(), 1U);
  EXPECT_EQ(s.judge().other(), 3U);
}

// Two links can be between 2,000 MACs of garbage: none of that is one.
TEST(JudgeLinks, GarbageMakesNone) {
  Script s(false);
  const auto garbage = [&](bool cut, bool to_group) {
    for (unsigned i = 0; i < 1000; ++i) {
      s.spoil = [&](auto& frame) {
        frame[9] = static_cast<std::byte>(1 + (i >> 8));
        frame[10] = static_cast<std::byte>(i);
        if (to_group) {
          std::copy(link::kUnknownPeer.begin(), link::kUnknownPeer.end(), frame.begin());
        }
        if (!cut) frame[26] ^= std::byte{1};  // the header CRC
      };
      s.captured = cut ? std::optional<std::size_t>(34) : std::nullopt;
      s.status(kB, {});
    }
    s.captured.reset();
  };
  garbage(false, false);
  garbage(false, true);
  garbage(true, false);
  garbage(true, true);
  s.up();
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.judge().links().size(), 1U);
  EXPECT_EQ(s.judge().unjudged().damaged, 2000U);
  EXPECT_EQ(s.judge().unjudged().cut, 2000U);
  EXPECT_EQ(s.judge().unjudged().all(), 4000U);
}

TEST(JudgeLinks, VlansAreLinks) {
  Script s;
  s.tag = {std::byte{0x81}, std::byte{0}, std::byte{0}, std::byte{5}};
  s.up();
  s.tag[3] = std::byte{6};
  s.up();
  s.tag.clear();
  s.up();
  EXPECT_EQ(s.found(), Rules{});
  ASSERT_EQ(s.judge().links().size(), 3U);
  for (const LinkView& link : s.judge().links()) EXPECT_EQ(link.judge->sessions(), 1U);
}

// One side's switch port tags with a priority, of VLAN 0, the other's does not.
TEST(JudgeLinks, APriorityTagIsOfNoVlan) {
  Script s;
  const std::vector<std::byte> priority{std::byte{0x81}, std::byte{0}, std::byte{0xE0},
                                        std::byte{0}};
  s.init(kA, 0);
  s.tag = priority;
  s.init(kB, 0xA1);
  s.tag.clear();
  s.init(kA, 0xB1);
  s.status(kA, {});
  s.tag = priority;
  s.status(kB, {});
  EXPECT_EQ(s.found(), Rules{});
  ASSERT_EQ(s.judge().links().size(), 1U);
  EXPECT_EQ(s.judge().links()[0].judge->sessions(), 1U);
  EXPECT_EQ(s.judge().links()[0].tags, 0U);
}

TEST(JudgeLinks, ALinkSeenOnTwoInterfacesIsJudgedOnOne) {
  Script s;
  s.up();
  s.interface = 1;
  s.data(kA, {.seq = 0});
  s.interface = 0;
  s.data(kA, {.seq = 0});
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.sum(kA).elsewhere, 1U);
}

// A fault that shows by itself, and what it is called.
constexpr Data kWrongClass{.vc = 4, .packet_class = 0};

TEST(JudgeLinks, ASecondSectionNumbersItsInterfacesAnew) {
  Script s(false);
  s.up();
  s.section = 1;
  s.interface = 7;
  s.wait(std::chrono::seconds(1));
  s.data(kA, kWrongClass);
  s.data(kB, kWrongClass);
  EXPECT_EQ(s.found(), (Rules{"A N1", "B N1"}));
  EXPECT_EQ(s.sum(kA).elsewhere, 0U);
  EXPECT_EQ(s.judge().links()[0].judge->sessions(), 1U) << "the INITs hold";
  EXPECT_TRUE(s.judge().links()[0].judge->incomplete()) << "what passed in between is missing";
}

// The same numbers come again in other frames: as in another capture, not as a fault.
TEST(JudgeLinks, ASectionOfAnEarlierTimeBeginsAnew) {
  Script s(false);
  s.up();
  for (std::uint16_t seq = 0; seq < 4; ++seq) s.data(kA, {.seq = seq});
  s.section = 1;
  s.wait(-std::chrono::seconds(1));
  s.up();
  for (std::uint16_t seq = 0; seq < 4; ++seq) s.data(kA, {.seq = seq, .content = 1});
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.judge().links()[0].judge->sessions(), 2U);
}

TEST(JudgeLinks, AnInitThatABridgeFloodedDecidesNoInterface) {
  Script s;
  s.interface = 1;
  s.init(kA, 0);
  s.interface = 0;
  s.copy();
  s.init(kB, 0xA1);
  s.init(kA, 0xB1);
  s.status(kA, {});
  s.status(kB, {});
  s.data(kA, kWrongClass);
  EXPECT_EQ(s.found(), (Rules{"A N1"}));
  EXPECT_EQ(s.sum(kA).bring_ups, 1U);
  EXPECT_EQ(s.sum(kA).elsewhere, 1U) << "the copy of the INIT";
}

// What holds unless frames were missed is not told where the capture says that it missed some.
TEST(JudgeLinks, WhatTheCaptureSaysThatItMissed) {
  for (const std::uint32_t interface : {0U, 1U}) {
    Script s(false);
    s.up();
    s.data(kA, {.seq = 0, .good = false});
    s.status(kB, {.ack = 1});  // L12, unless another copy was missed
    s.judge().missed_on(interface);
    EXPECT_EQ(s.found(), interface == 0 ? Rules{} : Rules{"B L12?"});
    EXPECT_EQ(s.judge().links()[0].judge->incomplete(), interface == 0);
  }
}

TEST(JudgeLinks, ASideThatMovesIsFollowed) {
  Script s(false);
  s.up();
  s.interface = 1;
  for (int i = 0; i < 100; ++i) {
    s.wait(std::chrono::milliseconds(1));
    s.status(kA, {});
  }
  s.data(kA, kWrongClass);
  EXPECT_EQ(s.found(), (Rules{"A N1"}));
  EXPECT_EQ(s.sum(kA).elsewhere, 63U);
  EXPECT_TRUE(s.judge().links()[0].judge->incomplete());
}

TEST(JudgeLinks, TwoTapsFarApartAreNoMove) {
  Script s;
  s.up();
  for (std::uint16_t i = 0; i < 200; ++i) {
    for (const std::uint32_t tap : {1U, 0U}) {
      s.interface = tap;
      s.status(kA, {});
    }
  }
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.sum(kA).elsewhere, 200U);
}

TEST(JudgeLinks, EachDirectionMayHaveAnInterfaceOfItsOwn) {
  Script s;
  s.init(kA, 0);
  s.interface = 1;
  s.init(kB, 0xA1);
  s.interface = 0;
  s.init(kA, 0xB1);
  s.status(kA, {});
  s.interface = 1;
  s.status(kB, {});
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.judge().links()[0].judge->sessions(), 1U);
  EXPECT_EQ(s.sum(kB).elsewhere, 0U);
}

TEST(JudgeLinks, AnyBytes) {
  // Each frame of a session with each byte changed, and each length cut: no more than findings.
  Script s(false);
  s.up();
  for (std::size_t at = 12; at < 60; ++at) {
    for (const unsigned value : {0U, 1U, 0x1FU, 0xFFU}) {
      s.spoil = [&](auto& frame) { frame[at] = static_cast<std::byte>(value); };
      s.nack(kA, 0, 0, {{0, 1}, {2, 1}});
      s.spoil = [&](auto& frame) { frame[at] = static_cast<std::byte>(value); };
      s.data(kB, {.seq = static_cast<std::uint16_t>(at), .length = 16});
    }
  }
  for (std::size_t length = 0; length < 60; ++length) {
    s.spoil = [&](auto& frame) { frame.resize(length); };
    s.data(kB, {.seq = 0, .length = 16});
  }
  s.found();
  EXPECT_EQ(s.judge().links().size(), 1U);
}

}  // namespace
}  // namespace mtl::conformance::judge
