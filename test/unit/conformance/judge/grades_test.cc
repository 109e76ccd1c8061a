// What is told without --complete, and what is not because it shows as well that the capture lacks
// frames: the grades in the table of docs/conformance.md.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "script.h"

namespace mtl::conformance::judge {
namespace {

constexpr std::uint8_t kReplay = link::kFlagReplay;

struct Case {
  std::string what;
  std::string finding;  ///< with --complete
  bool told;            ///< without it, too
  std::function<void(Script&)> play;
};

void new_bring_up_of_a(Script& s) {
  s.offer[kA].nonce = 0xA2;
  s.offer[kA].epoch = 18;
  s.init(kA, 0);
}

const std::vector<Case> kCases{
    {"L2 an ack lower than one before", "B L2?", true,
     [](Script& s) {
       s.up();
       s.data(kA, {});
       s.status(kB, {.ack = 1});
       s.status(kB, {.ack = 0});
     }},
    {"L2 an ack of what had not passed", "B L2?", false,
     [](Script& s) {
       s.up();
       s.status(kB, {.ack = 1});
     }},
    {"L3 an epoch that nobody asked for", "A L3?", true,
     [](Script& s) {
       s.up();
       s.alter = [](auto& h) { h.epoch = 99; };
       s.status(kA, {});
     }},
    {"L4 goes on with the old session", "A L4?", true,
     [](Script& s) {
       s.up();
       new_bring_up_of_a(s);
       s.offer[kB].nonce = 0xB2;
       s.offer[kB].epoch = 35;
       s.init(kB, 0);
       s.alter = [](auto& h) { h.epoch = 34; };
       s.status(kA, {});
     }},
    {"L4 an old nonce comes again", "A L4?", false,
     [](Script& s) {
       s.up();
       new_bring_up_of_a(s);
       s.offer[kA].nonce = 0xA1;
       s.init(kA, 0);
     }},
    {"L6 answers a nonce that was not sent", "B L6?", true,
     [](Script& s) {
       s.init(kA, 0);
       s.init(kB, 0xA2);
     }},
    {"L6 is UP without the INITs of both", "A L6?", true,
     [](Script& s) {
       s.init(kA, 0);
       s.init(kB, 0xA1);
       s.status(kA, {});
     }},
    {"L7 an INIT after the peer was heard", "A L7?", true,
     [](Script& s) {
       s.up();
       s.data(kA, {});
       s.init(kA, 0xB1);
     }},
    {"L8 goes on after its CLOSE", "A L8?", true,
     [](Script& s) {
       s.up();
       s.close(kA);
       s.status(kA, {});
     }},
    {"L10 a number left out", "A L10?", false,
     [](Script& s) {
       s.up();
       s.data(kA, {.seq = 0});
       s.data(kA, {.seq = 2});
     }},
    {"L10 begins with another number than 0", "A L10?", false,
     [](Script& s) {
       s.up();
       s.data(kA, {.seq = 1});
     }},
    {"L10 more than the window", "A L10?", true,
     [](Script& s) {
       s.up();
       for (std::uint16_t seq = 0; seq < 5; ++seq) s.data(kA, {.seq = seq});
     }},
    {"L10 DATA before the other side was heard", "A L10?", true,
     [](Script& s) {
       s.init(kA, 0);
       s.init(kB, 0xA1);
       s.init(kA, 0xB1);
       s.data(kA, {});
       s.status(kB, {.ack = 1});
     }},
    {"L12 an ack of a damaged packet", "B L12?", true,
     [](Script& s) {
       s.up();
       s.data(kA, {.good = false});
       s.status(kB, {.ack = 1});
     }},
    {"L15 lists what had not passed", "B L15?", true,
     [](Script& s) {
       s.up();
       s.nack(kB, 0, 0, {{0, 1}});
     }},
    {"L17 without NACK, and not the oldest", "A L17?", true,
     [](Script& s) {
       s.up();
       s.data(kA, {.seq = 0});
       s.data(kA, {.seq = 1});
       s.data(kA, {.seq = 1, .flags = kReplay});
     }},
    {"L17 sends again what was never sent", "A L17?", false,
     [](Script& s) {
       s.up();
       s.data(kA, {.seq = 0, .flags = kReplay});
     }},
    {"L17 a number that was passed, without REPLAY", "A L17?", false,
     [](Script& s) {
       s.up();
       s.data(kA, {.seq = 0});
       s.copy();
     }},
    {"L18 any seq but the next one", "A L18?", false,
     [](Script& s) {
       s.up();
       s.status(kA, {.seq = 1});
     }},
    {"L18 a seq that was passed", "A L18?", false,
     [](Script& s) {
       s.up();
       s.data(kA, {.seq = 0});
       s.status(kA, {.seq = 0});
     }},
    {"L19 ECHO does not stay", "A L19?", true,
     [](Script& s) {
       s.up();
       s.status(kA, {.flags = link::kFlagEcho});
       s.status(kA, {});
     }},
    {"L19 an echo of the future", "A L19?", true,
     [](Script& s) {
       s.up();
       for (int i = 0; i < 4; ++i) {
         s.status(kB, {});
         s.status(kA, {.flags = link::kFlagEcho, .t_echo = 5'000'000});
       }
     }},
    {"L20 less told than before", "A L20?", true,
     [](Script& s) {
       s.up();
       s.status(kA, {.allocation = 15});
     }},
    {"L21 beyond the limit", "A L21?", true,
     [](Script& s) {
       s.up();
       for (std::uint16_t seq = 0; seq < 5; ++seq) {
         s.data(kA, {.seq = seq, .length = 256});
         s.status(kB, {.ack = static_cast<std::uint16_t>(seq + 1)});
       }
     }},
    {"L24 tells what was told", "A L24?", true,
     [](Script& s) {
       s.up();
       s.data(kA, {.credit_vc = 0, .credit = 16});
     }},
};

TEST(JudgeGrades, WhatIsToldWithoutComplete) {
  for (const Case& c : kCases) {
    Script complete(true);
    c.play(complete);
    EXPECT_NE(complete.found().count(c.finding), 0U) << c.what;
    Script other(false);
    c.play(other);
    EXPECT_EQ(other.found().count(c.finding) != 0, c.told) << c.what;
  }
}

}  // namespace
}  // namespace mtl::conformance::judge
