// What the judge finds in a session: for each rule a script that keeps it, and one that breaks it.

#include <gtest/gtest.h>

#include <array>

#include "script.h"

namespace mtl::conformance::judge {
namespace {

using std::chrono::milliseconds;

constexpr std::uint8_t kReplay = link::kFlagReplay;

// A session with losses, replays, NACKs and credit, kept as the protocol says.
TEST(JudgeSession, FindsNothingWhereNothingIsWrong) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0});
  s.data(kA, {.seq = 1, .vc = 5});
  s.data(kA, {.seq = 2});
  s.nack(kB, 0, 1, {{1, 1}});  // 1 was lost behind the tap
  s.data(kA, {.seq = 1, .vc = 5, .flags = kReplay});
  s.status(kB, {.seq = 0, .ack = 3, .allocation = 16});
  s.data(kB, {.seq = 0, .ack = 3, .credit_vc = 0, .credit = 18});
  s.status(kA, {.seq = 3, .ack = 1, .flags = link::kFlagPoll});
  s.close(kA);
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.sum(kA).packets, 3U);
  EXPECT_EQ(s.sum(kA).replays, 1U);
  EXPECT_EQ(s.sum(kA).replays_by_timer, 0U);
  EXPECT_EQ(s.sum(kA).acked, 3U);
  EXPECT_EQ(s.sum(kA).polls, 1U);
  EXPECT_EQ(s.sum(kB).nacked, 1U);
  EXPECT_EQ(s.sum(kA).closes, 1U);
  EXPECT_EQ(s.judge().links()[0].judge->sessions(), 1U);
}

// Rules: L2
TEST(JudgeSession, L2_AnAckGoesBack) {
  Script s(false);
  s.up();
  s.data(kA, {.seq = 0});
  s.data(kA, {.seq = 1});
  s.data(kB, {.seq = 0, .ack = 2});
  s.data(kB, {.seq = 1, .ack = 1});  // made after, and knows less
  EXPECT_EQ(s.found(), (Rules{"B L2", "B L2?"}));
}

TEST(JudgeSession, L2_AnAckThatComesLateIsNoCertainFault) {
  Script s(false);
  s.up();
  s.data(kA, {.seq = 0});
  s.status(kB, {.ack = 1});
  s.status(kB, {.ack = 0});  // may have been made before
  EXPECT_EQ(s.found(), (Rules{"B L2?"}));
}

TEST(JudgeSession, L2_AcknowledgesWhatWasNeverSent) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0});
  s.status(kB, {.ack = 2});
  EXPECT_EQ(s.found(), (Rules{"B L2?"}));
}

// Rules: L10
TEST(JudgeSession, L10_DataBeforeTheOtherSideWasHeard) {
  Script s;
  s.init(kA, 0);
  s.init(kB, 0xA1);
  s.init(kA, 0xB1);
  s.status(kA, {});
  s.data(kA, {.seq = 0});
  EXPECT_EQ(s.found(), (Rules{"A L10?", "A L21?"}));
}

TEST(JudgeSession, L10_BeginsWithAnotherNumberThan0) {
  Script s;
  s.up();
  s.data(kA, {.seq = 1});
  EXPECT_EQ(s.found(), (Rules{"A L10?"}));
}

TEST(JudgeSession, L10_OneMoreThanTheWindow) {
  Script s;
  s.up();
  for (std::uint16_t seq = 0; seq < 4; ++seq) s.data(kA, {.seq = seq});
  EXPECT_EQ(s.found(), Rules{});
  Script more;
  more.up();
  for (std::uint16_t seq = 0; seq < 5; ++seq) more.data(kA, {.seq = seq});
  EXPECT_EQ(more.found(), (Rules{"A L10?"}));
}

TEST(JudgeSession, L10_NumbersWrap) {
  Script s;
  s.up();
  for (std::uint32_t i = 0; i < 70'000; ++i) {  // one cell each
    s.data(kA, {.seq = static_cast<std::uint16_t>(i), .length = 16});
    s.status(kB, {.ack = static_cast<std::uint16_t>(i + 1),
                  .allocation = static_cast<std::uint16_t>(17 + i)});
  }
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.sum(kA).packets, 70'000U);
  EXPECT_EQ(s.sum(kA).acked, 70'000U);
}

// Rules: L15
TEST(JudgeSession, L15_ANackWithoutOrderListsNothing) {
  Script s;
  s.up();
  for (std::uint16_t seq = 0; seq < 4; ++seq) s.data(kA, {.seq = seq});
  s.nack(kB, 0, 0, {{0, 65535}, {0, 65535}});
  EXPECT_EQ(s.sum(kB).nacked, 0U);
  s.nack(kB, 0, 1, {{1, 1}, {3, 1}});
  EXPECT_EQ(s.sum(kB).nacked, 2U);
  EXPECT_EQ(s.found(), (Rules{"B L15"}));
}

// A range that begins long before what is known, and one that goes on behind what was sent.
TEST(JudgeSession, L15_OfARangeCountsWhatIsKnown) {
  Script s(false);
  s.up();
  for (std::uint32_t i = 0; i < 66'000; ++i) {
    s.data(kA, {.seq = static_cast<std::uint16_t>(i), .length = 16});
    s.status(kB, {.ack = static_cast<std::uint16_t>(i + 1),
                  .allocation = static_cast<std::uint16_t>(17 + i)});
  }
  s.data(kA, {.seq = 464, .length = 16});  // 66,000 - 65,536
  s.data(kA, {.seq = 465, .length = 16});
  s.nack(kB, 0, 464, {{465, 4}});
  EXPECT_EQ(s.sum(kB).nacked, 1U);
  s.nack(kB, 0, 400, {{400, 66}});
  EXPECT_EQ(s.sum(kB).nacked, 64U) << "twice the window, but at least 64: 402 to 465";
}

// Rules: L12 N2
TEST(JudgeSession, L12_AcceptsAPacketThatCameDamaged) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0, .good = false});
  s.status(kB, {.ack = 1});
  EXPECT_EQ(s.found(), (Rules{"B L12?"}));
}

TEST(JudgeSession, L12_PoisonedAtTheThirdFailureIsRight) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0, .good = false});
  s.nack(kB, 0, 0, {{0, 1}});
  s.data(kA, {.seq = 0, .flags = kReplay, .good = false});
  s.nack(kB, 0, 0, {{0, 1}});
  s.data(kA, {.seq = 0, .flags = kReplay, .good = false});
  s.status(kB, {.ack = 1});
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.sum(kA).damaged_packets, 3U);
}

// Rules: L15
TEST(JudgeSession, L15_ListsWhatWasNeverSent) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0});
  s.nack(kB, 0, 1, {{1, 1}});
  EXPECT_EQ(s.found(), (Rules{"B L15?"}));
}

TEST(JudgeSession, L15_ListsBeyondItsWindow) {
  Script s(false);
  s.up();
  s.nack(kB, 0, 0, {{4, 1}});
  EXPECT_EQ(s.found(), (Rules{"B L15"}));
}

TEST(JudgeSession, L15_ListsWhatItAcknowledges) {
  Script s(false);
  s.up();
  s.data(kA, {.seq = 0});
  s.nack(kB, 0, 1, {{0, 1}});
  EXPECT_EQ(s.found(), (Rules{"B L15"}));
}

TEST(JudgeSession, L15_RangesOfOtherForm) {
  using Ranges = std::vector<std::pair<std::uint16_t, std::uint16_t>>;
  for (const Ranges& ranges : {Ranges{{0, 0}}, Ranges{{2, 1}, {0, 1}}, Ranges{{0, 2}, {1, 1}},
                               Ranges{{0, 1}, {1, 1}}, Ranges{{0, 65535}}}) {
    Script s(false);
    s.up();
    for (std::uint16_t seq = 0; seq < 4; ++seq) s.data(kA, {.seq = seq});
    s.nack(kB, 0, 0, ranges);
    EXPECT_EQ(s.found(), (Rules{"B L15"})) << ranges[0].first << " x " << ranges[0].second;
  }
}

// Rules: L17
TEST(JudgeSession, L17_SentAgainWithoutSayingSo) {
  Script s(false);
  s.up();
  s.data(kA, {.seq = 0});
  s.data(kB, {.seq = 0, .ack = 1});
  s.data(kA, {.seq = 0, .ack = 1});
  EXPECT_EQ(s.found(), (Rules{"A L17", "A L17?"}));
}

TEST(JudgeSession, L17_ACopyMadeByTheWayIsNoFault) {
  Script s(false);
  s.up();
  s.data(kA, {.seq = 0});
  s.copy();
  EXPECT_EQ(s.found(), Rules{}) << "with copies the capture is not complete";
  EXPECT_EQ(s.sum(kA).copies, 1U);
}

TEST(JudgeSession, L17_AnotherPacketOrVc) {
  Script other(false);
  other.up();
  other.data(kA, {.seq = 0, .content = 1});
  other.data(kA, {.seq = 0, .flags = kReplay, .content = 2});
  EXPECT_EQ(other.found(), (Rules{"A L17"}));
  Script vc(false);
  vc.up();
  vc.data(kA, {.seq = 0, .vc = 0});
  vc.data(kA, {.seq = 0, .vc = 1, .flags = kReplay});
  EXPECT_EQ(vc.found(), (Rules{"A L17"}));
  Script damaged(false);
  damaged.up();
  damaged.data(kA, {.seq = 0, .good = false});
  damaged.data(kA, {.seq = 0, .flags = kReplay});
  EXPECT_EQ(damaged.found(), Rules{}) << "the first copy was damaged on its way";
}

TEST(JudgeSession, L17_AgainWithoutACause) {
  Script timer;
  timer.up();
  timer.data(kA, {.seq = 0});
  timer.data(kA, {.seq = 1});
  timer.data(kA, {.seq = 0, .flags = kReplay});  // the oldest: the timer
  timer.status(kB, {.ack = 1});
  timer.data(kA, {.seq = 1, .flags = kReplay});
  EXPECT_EQ(timer.found(), Rules{});
  EXPECT_EQ(timer.sum(kA).replays_by_timer, 2U);
  EXPECT_EQ(timer.sum(kA).timer_replay.least, Duration(2'000)) << "seq 0, two frames later";
  EXPECT_EQ(timer.sum(kA).timer_replay.most, Duration(3'000));
  Script s;
  s.up();
  s.data(kA, {.seq = 0});
  s.data(kA, {.seq = 1});
  s.data(kA, {.seq = 1, .flags = kReplay});
  EXPECT_EQ(s.found(), (Rules{"A L17?"}));
}

TEST(JudgeSession, L17_AgainWhatWasNeverSent) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0, .flags = kReplay});
  EXPECT_EQ(s.found(), (Rules{"A L17?"}));
}

// Rules: L18
TEST(JudgeSession, L18_AStatusTellsAnotherNumber) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0});
  s.status(kA, {.seq = 0});
  EXPECT_EQ(s.found(), (Rules{"A L18?"}));
  Script ahead;
  ahead.up();
  ahead.status(kA, {.seq = 1});
  EXPECT_EQ(ahead.found(), (Rules{"A L18?"}));
}

TEST(JudgeSession, L18_CertainWhereTheAckTellsTheOrder) {
  Script s(false);
  s.up();
  s.data(kA, {.seq = 0});
  s.data(kB, {.seq = 0});
  s.status(kA, {.seq = 0, .ack = 1});  // knows of B's DATA, and not of its own
  EXPECT_EQ(s.found(), (Rules{"A L18"}));
}

// Rules: L19
TEST(JudgeSession, L19_AnEchoWithoutItsFlag) {
  Script s(false);
  s.up();
  s.status(kA, {.t_echo = 1});
  EXPECT_EQ(s.found(), (Rules{"A L19"}));
}

TEST(JudgeSession, L19_EchoNoMore) {
  Script s;
  s.up();
  s.status(kA, {.flags = link::kFlagEcho});
  s.status(kA, {});
  EXPECT_EQ(s.found(), (Rules{"A L19?"}));
}

void echo_future(Script& s, int times) {
  for (int i = 0; i < times; ++i) {
    s.status(kB, {.t_tx = 1000});
    s.status(kA, {.flags = link::kFlagEcho, .t_echo = 500'000'000});
  }
}

TEST(JudgeSession, L19_EchoOfTheFuture) {
  Script s;
  s.up();
  echo_future(s, 4);
  EXPECT_EQ(s.found(), (Rules{"A L19?"}));
}

// Nobody is stopped for longer than a second: once is enough.
TEST(JudgeSession, L19_AnEchoOfTheFarFuture) {
  const auto echo = [](std::uint32_t t_echo) {
    Script s;
    s.up();
    s.status(kB, {.t_tx = 1000});
    s.status(kA, {.flags = link::kFlagEcho, .t_echo = t_echo});
    return s.found();
  };
  EXPECT_EQ(echo(1'000'900'000), Rules{});
  EXPECT_EQ(echo(1'001'100'000), (Rules{"A L19?"}));
}

// A core that counts the time that a STATUS waited twice, where that is 2 ms.
TEST(JudgeSession, L19_AnEchoWithItsWaitCountedTwice) {
  Script s;
  s.up();
  std::uint32_t t_tx = 1000;
  constexpr std::uint32_t kWait = 2'000'000;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(s.found(), Rules{});
    s.status(kB, {.t_tx = t_tx});
    s.wait(Duration(kWait));
    s.status(kA, {.flags = link::kFlagEcho, .t_echo = t_tx + 2 * kWait});
    t_tx += kWait + 2'000;
  }
  EXPECT_EQ(s.found(), (Rules{"A L19?"}));
}

// A side that its host stopped between its clock's reading and the frame's: now and then, and told
// again and again until the next STATUS comes.
TEST(JudgeSession, L19_EchoesOfTheFutureNowAndThenAreTheHosts) {
  Script s;
  s.up();
  for (int i = 0; i < 5; ++i) {
    echo_future(s, 3);
    s.status(kA, {.flags = link::kFlagEcho, .t_echo = 500'000'000});
    s.status(kA, {.flags = link::kFlagEcho, .t_echo = 500'000'000});
    s.status(kB, {.t_tx = 1000});
    s.status(kA, {.flags = link::kFlagEcho, .t_echo = 1000});
  }
  EXPECT_EQ(s.found(), Rules{});
}

// t_tx 1,000 passes at t; its echo, held for 400 ns, passes 5 us later: 4.6 us on the way.
TEST(JudgeSession, L19_RoundTrip) {
  Script s;
  s.up();
  s.status(kB, {.t_tx = 1000});
  s.wait(std::chrono::microseconds(4));
  s.status(kA, {.flags = link::kFlagEcho, .t_echo = 1400});
  EXPECT_EQ(s.found(), Rules{});
  ASSERT_EQ(s.sum(kA).turn.samples, 1U);
  EXPECT_EQ(s.sum(kA).turn.least, Duration(4600));
}

// Clocks of 100 ppm either way: after 10 s they may be 2 ms apart, in a minute 12 ms. Where a
// STATUS each 10 s is echoed after 10 s, that may be the one before: after 20 s.
TEST(JudgeSession, L19_ClocksRunApart) {
  const auto echo = [](Duration apart, std::uint32_t ahead, bool then) {
    Script s;
    s.up();
    std::uint32_t t_tx = 1'000;
    for (int i = 0; i < 4; ++i) {
      s.status(kB, {.t_tx = t_tx});
      s.wait(apart);
      if (then) s.status(kB, {.t_tx = t_tx + static_cast<std::uint32_t>(apart.count())});
      // Of the first STATUS: the second is on its way.
      const Duration elapsed = apart + std::chrono::microseconds(1);
      t_tx += static_cast<std::uint32_t>(elapsed.count());
      s.status(kA, {.flags = link::kFlagEcho, .t_echo = t_tx + ahead});
      t_tx += 1'000 * (then ? 2U : 1U);
    }
    return s.found();
  };
  for (const bool then : {false, true}) {
    const std::uint32_t most = then ? 3'000'000 : 5'000'000;
    EXPECT_EQ(echo(std::chrono::seconds(10), most - 100'000, then), Rules{});
    EXPECT_EQ(echo(std::chrono::seconds(10), most + 100'000, then), (Rules{"A L19?"}));
    EXPECT_EQ(echo(std::chrono::seconds(60), 12'900'000, then), Rules{});
    EXPECT_EQ(echo(std::chrono::milliseconds(1), 1'100'000, then), (Rules{"A L19?"}));
  }
}

TEST(JudgeSession, TimesCenturiesApart) {
  Script s(false);
  s.wait(-std::chrono::seconds(1LL << 32));
  s.up();
  for (std::uint16_t seq = 0; seq < 2; ++seq) s.data(kA, {.seq = seq});
  s.wait(std::chrono::seconds(8'000'000'000));
  for (std::uint16_t seq = 0; seq < 2; ++seq) s.data(kA, {.seq = seq, .flags = kReplay});
  EXPECT_EQ(s.sum(kA).timer_replay.samples, 2U);
  EXPECT_GT(s.sum(kA).timer_replay.mean(), Duration{0});
}

// Rules: L20
TEST(JudgeSession, L20_MoreThanTheCapacity) {
  Script s(false);
  s.up();
  s.status(kB, {.allocation = 17});
  EXPECT_EQ(s.found(), (Rules{"B L20"}));
}

TEST(JudgeSession, L20_JustWhatHasLeft) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0, .vc = 0, .length = 65});  // 2 cells
  s.data(kB, {.seq = 0, .ack = 1, .credit_vc = 0, .credit = 18});
  EXPECT_EQ(s.found(), Rules{});
  Script more;
  more.up();
  more.data(kA, {.seq = 0, .vc = 0, .length = 65});
  more.data(kB, {.seq = 0, .ack = 1, .credit_vc = 0, .credit = 19});
  EXPECT_EQ(more.found(), (Rules{"B L20"}));
}

TEST(JudgeSession, L20_AFrameThatTheCaptureMissedCountsAsTheLongest) {
  Script s(false);
  s.up();
  s.status(kB, {.ack = 1, .allocation = 16});
  s.data(kB, {.seq = 0, .ack = 1, .credit_vc = 0, .credit = 20});  // 256 bytes: 4 cells
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.sum(kA).missed, 1U);
  Script more(false);
  more.up();
  more.data(kB, {.seq = 0, .ack = 1, .credit_vc = 0, .credit = 21});
  EXPECT_EQ(more.found(), (Rules{"B L20"}));
}

TEST(JudgeSession, L20_GoesBack) {
  Script s(false);
  s.up();
  s.data(kA, {.seq = 0});
  s.data(kB, {.seq = 0, .ack = 1, .credit_vc = 0, .credit = 17});
  s.data(kB, {.seq = 1, .ack = 1, .credit_vc = 0, .credit = 16});
  EXPECT_EQ(s.found(), (Rules{"B L20", "B L20?"}));
}

// Rules: L21
TEST(JudgeSession, L21_OneCellBeyondTheLimit) {
  Script s;
  s.up();
  for (std::uint16_t seq = 0; seq < 4; ++seq) {
    s.data(kA, {.seq = seq, .length = 256});  // 4 cells each: all 16
  }
  s.status(kB, {.ack = 4});
  EXPECT_EQ(s.sum(kA).exhausted, 1U);
  s.data(kA, {.seq = 4, .length = 16});
  EXPECT_EQ(s.found(), (Rules{"A L21?"}));
}

// Rules: L23 L24
TEST(JudgeSession, L24_TellsWhatWasTold) {
  Script s;
  s.up();
  s.data(kA, {.seq = 0});
  s.data(kB, {.seq = 0, .ack = 1, .credit_vc = 0, .credit = 16});
  EXPECT_EQ(s.found(), (Rules{"B L24?"}));
}

// Rules: L6 N7
TEST(JudgeSession, LongerThanTheLinkCarries) {
  Script s(false);
  s.offer[kB].mtu = 128;
  s.up();
  s.data(kA, {.seq = 0, .length = 129});
  EXPECT_EQ(s.found(), (Rules{"A L6"}));
  Script cells(false);
  cells.offer[kB].capacity[3] = 1;
  cells.up();
  cells.data(kA, {.seq = 0, .vc = 3, .length = 65});
  EXPECT_EQ(cells.found().count("A N7"), 1U);
}

// Rules: L8
TEST(JudgeSession, L8_GoesOnAfterItsClose) {
  Script s;
  s.up();
  s.close(kA);
  s.status(kA, {});
  EXPECT_EQ(s.found(), (Rules{"A L8?"}));
}

// ---- what a capture lacks ----

TEST(JudgeSession, StartsInTheMiddle) {
  Script s;
  for (std::uint16_t i = 0; i < 300; ++i) {
    const auto seq = static_cast<std::uint16_t>(65'400 + i);
    s.data(kA, {.seq = seq, .ack = 77});
    s.status(kB, {.seq = 77, .ack = static_cast<std::uint16_t>(seq + 1), .allocation = 500});
  }
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.sum(kA).packets, 300U);
  EXPECT_EQ(s.sum(kA).acked, 299U) << "of the first one nobody knows whether it was new";
}

TEST(JudgeSession, AHoleInWhichNumbersWentRound) {
  Script s(false);
  s.up();
  s.data(kA, {.seq = 0});
  s.data(kB, {.seq = 0, .ack = 1, .credit_vc = 0, .credit = 17});
  s.wait(milliseconds(50));  // 65,536 frames and three more each way
  s.data(kA, {.seq = 4, .ack = 60'000});
  s.data(kB, {.seq = 5, .ack = 5, .credit_vc = 0, .credit = 3});
  s.data(kA, {.seq = 5, .ack = 6, .credit_vc = 1, .credit = 3});
  s.data(kB, {.seq = 6, .ack = 6, .credit_vc = 0, .credit = 4});
  EXPECT_EQ(s.found(), Rules{});
}

// By half the numbers and more, so that what is ahead looks behind.
TEST(JudgeSession, AHoleInWhichNumbersWentHalfRound) {
  for (const std::uint16_t seq : std::to_array<std::uint16_t>({32768, 32769, 40000, 65535, 1})) {
    Script s(false);
    s.up();
    s.data(kA, {.seq = 0});
    s.data(kB, {.seq = 0, .ack = 1});
    s.wait(milliseconds(50));
    s.data(kA, {.seq = seq, .ack = 6});
    s.data(kB, {.seq = 6, .ack = static_cast<std::uint16_t>(seq + 1)});
    EXPECT_EQ(s.found(), Rules{}) << seq;
  }
}

TEST(JudgeSession, AHoleOfOneSideAlone) {
  Script s(false);
  s.up();
  for (std::uint16_t seq = 0; seq < 10; ++seq) s.data(kA, {.seq = seq});
  s.data(kB, {.seq = 0, .ack = 10});
  s.wait(milliseconds(1));
  s.data(kA, {.seq = 10, .ack = 1});
  s.wait(milliseconds(50));  // of B's; 40,000 of A's pass meanwhile
  s.data(kA, {.seq = 40'000, .ack = 400});
  s.data(kA, {.seq = 40'001, .ack = 401});
  s.data(kB, {.seq = 401, .ack = 40'002});
  for (const std::string& rule : s.found()) EXPECT_TRUE(rule.ends_with('?')) << rule;
}

TEST(JudgeSession, ASessionOfWhichTheBringUpWasMissed) {
  Script s(false);
  s.up();
  s.offer[kA].epoch = 18;
  s.offer[kB].epoch = 35;
  for (std::uint16_t seq = 0; seq < 200; ++seq) {
    s.data(kA, {.seq = seq});
    s.status(kB, {.ack = static_cast<std::uint16_t>(seq + 1), .allocation = 900});
  }
  EXPECT_EQ(s.found(), Rules{});
  EXPECT_EQ(s.judge().links()[0].judge->sessions(), 2U);
  EXPECT_GT(s.sum(kA).packets, 100U);
}

TEST(JudgeSession, FramesThatAreCutAreNotJudgedBeyondWhatIsThere) {
  Script s(false);
  s.up();
  s.captured = 60;
  s.data(kA, {.seq = 0, .length = 200, .good = false});
  s.status(kB, {.ack = 1});
  EXPECT_EQ(s.found(), Rules{}) << "whether its packet CRC was right nobody knows";
  Script shorter(false);
  shorter.up();
  shorter.captured = 40;
  shorter.data(kA, {.seq = 0});
  EXPECT_EQ(shorter.found(), Rules{});
  EXPECT_EQ(shorter.sum(kA).cut, 1U);
}

}  // namespace
}  // namespace mtl::conformance::judge
