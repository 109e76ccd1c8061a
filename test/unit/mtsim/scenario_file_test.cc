#include "tools/mtsim/scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/draw.h"
#include "sim/scenario.h"
#include "sim/shrink.h"
#include "tools/mtsim/shrink_file.h"

namespace mtl::mtsim {
namespace {

using sim::EventLog;
using sim::RunResult;
using testing::HasSubstr;

const std::filesystem::path kExamples =
    std::filesystem::path(MTLINK_DOCS) / "examples" / "scenarios";

/// A file of the test's own that goes with it.
class File {
 public:
  explicit File(const std::string& text)
      : path_(
            std::filesystem::path(testing::TempDir()) /
            ("mtsim-" + std::to_string(getpid()) + "-" + std::to_string(++count_) + ".textproto")) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::filesystem::path path_;
};

sim::Schedule read(const std::filesystem::path& path) {
  auto schedule = read_scenario(path);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return schedule ? std::move(*schedule) : sim::Schedule{};
}

RunResult run(const std::string& example) {
  EventLog off;
  return sim::run_schedule(read(kExamples / (example + ".textproto")), off);
}

TEST(Examples, EachHasATestOfItsOwn) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples)) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre(
                         "bad-cable.textproto", "bad-day.textproto", "incast-400g.textproto",
                         "line-of-four.textproto", "ring-deadlock.textproto",
                         "ring-layers.textproto", "written-out.textproto"));
}

TEST(Examples, ABadCableLosesNothing) {
  const RunResult result = run("bad-cable");
  EXPECT_FALSE(result.violations.any());
  // 2 Gb/s of 512 bytes, and 100 Mb/s of 64, for 19 ms: a packet each 2048 and 5120 ns.
  EXPECT_EQ(result.summary.packets, 9278u + 3711u);
  EXPECT_EQ(result.summary.delivered, 9278u + 3711u);
  EXPECT_GT(result.summary.replays, 0u);
  EXPECT_GT(result.summary.drop(Drop::kBadHeaderCrc), 0u);
  EXPECT_GT(result.summary.drop(Drop::kBadPacketCrc), 0u);
  EXPECT_GT(result.summary.drop(Drop::kDuplicate), 0u);
}

TEST(Examples, ABadDayHasEachOfItsFaults) {
  const RunResult result = run("bad-day");
  EXPECT_FALSE(result.violations.any());
  EXPECT_EQ(result.summary.cuts, 1u);
  EXPECT_EQ(result.summary.node_restarts, 1u);
  EXPECT_GT(result.summary.down(link::DownReason::kDead), 0u);
  EXPECT_GT(result.summary.down(link::DownReason::kDisabled), 0u);
  EXPECT_GT(result.summary.rerouted, 0u);
  EXPECT_GT(result.summary.replies, 0u);
}

// From 1 ms on 700 packets of 9000 bytes go over one link of 400 Gb/s: 9054 x 8 / 400 ns each,
// 126.8 us in all.
TEST(Examples, IncastTakesTheTimeOfTheOneLink) {
  const RunResult result = run("incast-400g");
  EXPECT_FALSE(result.violations.any());
  EXPECT_EQ(result.summary.delivered, 700u);
  EXPECT_GT(result.summary.virtual_ns, 1'126'000);
  EXPECT_GT(result.summary.credit_stalls, 0u);
}

TEST(Examples, N10_TheRingWithoutLayersStandsStillAndTheCycleIsNamed) {
  const RunResult result = run("ring-deadlock");
  ASSERT_TRUE(result.violations.any());
  const sim::Violation& violation = result.violations.list()[0];
  EXPECT_EQ(violation.check, "deadlock");
  EXPECT_THAT(violation.text, HasSubstr("4 VCs wait for credit of each other"));
  // Once round: from each switch to the next, and back to the first.
  for (int from = 0; from < 4; ++from) {
    EXPECT_THAT(violation.text, testing::ContainsRegex("node " + std::to_string(from) +
                                                       " port [01] vc 0: .* cells wait for credit "
                                                       "of node [0-3] port [01] "));
  }
  EXPECT_THAT(violation.text, HasSubstr("they wait for the first\n"));
}

TEST(Examples, N10_NeitherLayersNorALineStandStill) {
  for (const char* name : {"ring-layers", "line-of-four"}) {
    const RunResult result = run(name);
    EXPECT_FALSE(result.violations.any()) << name << ": " << result.violations.list()[0].text;
    EXPECT_EQ(result.summary.delivered, 3200u) << name;
  }
}

TEST(Examples, PortsMoveAndOneIsReplaced) {
  const RunResult result = run("written-out");
  EXPECT_FALSE(result.violations.any());
  EXPECT_EQ(result.summary.moves, 3u);
  EXPECT_EQ(result.summary.replaced, 1u);
}

// A move or a replacement that is the last thing to happen happens; one that cannot is told.
TEST(ScenarioFile, MovesAndReplacementsAreDoneOrTold) {
  const std::string plan =
      "nodes { shards: 3 move_delay_ns: 20000000 ports {} ports { shard: 1 } }\n"
      "nodes { ports {} ports {} }\n"
      "wires { a { node: 0 } b { node: 1 } }\n"
      "wires { a { node: 0 port: 1 } b { node: 1 port: 1 } }\n";
  const auto run = [&](const std::string& rest) {
    const File file(plan + rest);
    EventLog off;
    RunResult result = sim::run_schedule(read(file.path()), off);
    EXPECT_FALSE(result.violations.any()) << rest;
    return result;
  };
  RunResult result = run("moves { node: 0 ports: 0 shard: 2 at_ns: 900000000 }");
  EXPECT_EQ(result.summary.moves, 1u);
  EXPECT_THAT(result.undone, testing::IsEmpty());
  result = run("replacements { node: 0 port: 1 shard: 2 at_ns: 900000000 }\nfaults_end_ns: 5");
  EXPECT_EQ(result.summary.replaced, 1u);
  EXPECT_GT(result.summary.virtual_ns, 900'000'000);

  result = run("moves { node: 0 ports: 0 ports: 1 shard: 2 at_ns: 100000000 }");
  EXPECT_EQ(result.summary.moves, 1u);
  EXPECT_THAT(result.undone, testing::ElementsAre("moves[0] at 100000000 ns, node 0: port 1 is "
                                                  "not where the first is"));
  result =
      run("moves { node: 0 ports: 1 shard: 1 at_ns: 100000000 }\n"
          "faults { what: HALT node: 0 at_ns: 200000000 lasts_ns: 5000000 }\n"
          "moves { node: 0 ports: 0 shard: 1 at_ns: 201000000 }\n"
          "replacements { node: 0 port: 0 at_ns: 202000000 }\n"
          "replacements { node: 0 port: 0 shard: 2 at_ns: 300000000 rest_ns: 50000000 }\n"
          "replacements { node: 0 port: 1 at_ns: 301000000 }\n"
          "moves { node: 0 ports: 0 shard: 1 at_ns: 302000000 }\n");
  EXPECT_EQ(result.summary.moves, 0u);
  EXPECT_EQ(result.summary.replaced, 1u);
  EXPECT_THAT(result.undone,
              testing::UnorderedElementsAre(
                  "moves[0] at 100000000 ns, node 0: port 1 is there already",
                  "moves[1] at 201000000 ns, node 0: the node is halted",
                  "replacements[0] at 202000000 ns, node 0: the node is halted",
                  "replacements[2] at 301000000 ns, node 0: port 0 is being replaced",
                  "moves[2] at 302000000 ns, node 0: port 0 is being replaced"));
}

// What is planned late, or takes long, is no stall: patience begins behind it.
TEST(ScenarioFile, SlowIsNotStalled) {
  const std::string pair = "topology { shape: LINE switches: 2 }\n";
  const std::string slow_wire =
      "topology { shape: LINE switches: 2 bps: 1000 }\n"
      "link { mtu: 1000 timers { init_interval_ns: 5000000000 keepalive_interval_ns: 5000000000\n"
      "  dead_interval_ns: 60000000000 replay_timeout_ns: 60000000000\n"
      "  nack_interval_ns: 60000000000 } }\n";
  const std::string nodes =
      "nodes { ports {} routes { to: 1 tiers { hops { port: 0 } } } }\n"
      "nodes { consume_later_ppm: 1000000 consume_delay_ns: 100000000000 ports {} }\n"
      "wires { a { node: 0 } b { node: 1 } }\n";
  for (const auto& [text, delivered] : std::vector<std::pair<std::string, std::uint64_t>>{
           {pair + "flows { from: 0 to: 1 count: 3 start_ns: 45000000000 }\nfaults_end_ns: 9", 3},
           {pair + "flows { from: 0 to: 1 count: 3 start_ns: 45000000000 }", 3},
           {pair + "packets { from: 0 to_id: 2 at_ns: 45000000000 }\nfaults_end_ns: 9", 1},
           {pair + "replacements { port: 0 at_ns: 5000000 rest_ns: 45000000000 }", 0},
           {nodes + "flows { from: 0 to: 1 count: 10 start_ns: 1000000 }", 10},
           // 8 packets of 1054 bytes, 8.4 s each.
           {slow_wire + "flows { from: 0 to: 1 bytes: 1000 count: 8 start_ns: 20000000000 }", 8}}) {
    const File file(text);
    EventLog off;
    const RunResult result = sim::run_schedule(read(file.path()), off);
    EXPECT_FALSE(result.violations.any())
        << text << "\n"
        << result.violations.list()[0].check << ": " << result.violations.list()[0].text;
    EXPECT_EQ(result.summary.delivered, delivered) << text;
    EXPECT_GT(result.summary.virtual_ns, 30'000'000'000) << text;
  }
}

// N10 and all else that stands still is still found, and not after hours.
TEST(ScenarioFile, WhatStandsStillIsStalled) {
  const File file(std::string("topology { shape: LINE switches: 2 }\n") +
                  "flows { from: 1 to: 0 count: 300 start_ns: 1000000 }\n");
  sim::ScenarioOptions leak;
  leak.defect = sim::ScenarioOptions::Defect::kLeak;
  EventLog off;
  const RunResult result = sim::run_schedule(read(file.path()), off, leak);
  ASSERT_TRUE(result.violations.any());
  EXPECT_EQ(result.violations.list()[0].check, "stall");
  EXPECT_LT(result.summary.virtual_ns, 60'000'000'000);
  // A flow that is refused asks ever less often: some 20,000 times a second, not a million.
  EXPECT_LT(result.summary.events, 2'000'000u);
}

// 100 packets a microsecond, of which none goes for a tenth of the time.
TEST(ScenarioFile, AFlowWithARateMakesUpForWhatWasNotTaken) {
  const File file(
      "topology { shape: LINE switches: 2 }\nfaults_end_ns: 1200000\n"
      "flows { from: 0 to: 1 bytes: 64 bps: 51200000000 start_ns: 1000000 end_ns: 2000000 }\n"
      "faults { what: HALT at_ns: 1100000 lasts_ns: 100000 }\n");
  EventLog off;
  const RunResult result = sim::run_schedule(read(file.path()), off);
  EXPECT_FALSE(result.violations.any());
  EXPECT_EQ(result.summary.packets, 100'000u);
}

// A thousand packets at once over a wire that takes 9.44 us for each (64 and 54 bytes, 100 Mb/s):
// those that wait are not asked for one by one.
TEST(ScenarioFile, PacketsWaitForThoseBeforeThem) {
  std::string text = "topology { shape: LINE switches: 2 bps: 100000000 }\n";
  for (int i = 0; i < 1000; ++i) text += "packets { at_ns: 1000000 from: 0 to_id: 2 }\n";
  const File file(text);
  EventLog off;
  const RunResult result = sim::run_schedule(read(file.path()), off);
  EXPECT_FALSE(result.violations.any());
  EXPECT_EQ(result.summary.delivered, 1000u);
  EXPECT_GE(result.summary.virtual_ns, 1'000'000 + 9'440'000);
  EXPECT_LT(result.summary.events, 50'000u);
}

TEST(ScenarioFile, ARunEndsAtItsMostEvents) {
  sim::ScenarioOptions few;
  few.most_events = 100;
  EventLog off;
  const RunResult result = sim::run_schedule(read(kExamples / "bad-cable.textproto"), off, few);
  ASSERT_TRUE(result.violations.any());
  EXPECT_EQ(result.violations.list()[0].check, "events");
  EXPECT_EQ(result.summary.events, 101u);
}

constexpr const char* kPair = "topology { shape: LINE switches: 2 }\n";

struct BadFile {
  const char* text;  ///< behind kPair, if that does not begin it
  const char* place;
  const char* says;
};

class Refused : public testing::TestWithParam<BadFile> {};

TEST_P(Refused, WithPlaceValueAndRemedy) {
  const std::string text = GetParam().text;
  const File file(text.starts_with("!") ? text.substr(1) : kPair + text);
  const auto schedule = read_scenario(file.path());
  ASSERT_FALSE(schedule);
  EXPECT_THAT(schedule.error().message,
              testing::StartsWith(file.path().string() + GetParam().place));
  EXPECT_THAT(schedule.error().message, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Files, Refused,
    testing::Values(
        BadFile{"flowss {}", ":2:8: ", "did you mean \"flows\"?"},
        BadFile{"flows { from: 5 to: 1 count: 1 }",
                ":2:9: ", "flows[0].from: there is no node 5; nodes are 0 to 1"},
        BadFile{"flows { from: 1 to: 1 count: 1 }", ":2:17: ", "sends to itself"},
        BadFile{"flows { from: 0 to: 1 }", ":2:1: ", "give count, or end_ns"},
        BadFile{"flows { from: 0 to: 1 count: 1 bps: 999 }", ":2:32: ", "999 is not 1000 to"},
        BadFile{"flows { from: 0 to: 1 count: 100000000 bps: 1000 }", ":2:23: ",
                "flows[0].count: 100000000 packets of 64 bytes take longer than an hour"},
        BadFile{"flows { from: 0 to: 1 count: 100000001 }",
                ":2:23: ", "100000001 is not 0 to 100000000"},
        BadFile{"flows { from: 0 to: 1 count: 1 bytes: 9001 }",
                ":2:32: ", "9001 is not 20 to 4096"},
        BadFile{"flows { from: 0 to: 1 count: 1 packet_class: 2 }", ":2:32: ", "2 is not 0 to 1"},
        BadFile{"flows { from: 0 to: 1 start_ns: 5 end_ns: 5 }", ":2:35: ", "not after start_ns"},
        BadFile{"packets { from: 0 to_id: 0 }", ":2:19: ", "packets[0].to_id: 0 is not 1 to 65534"},
        BadFile{"packets { from: 0 to_id: 1 bad_crc: true }",
                ":2:28: ", "packets[0].bad_crc: a packet to its own node passes no link"},
        BadFile{"faults { at_ns: 1 }", ":2:1: ", "faults[0].what: is missing; it is IMPAIR"},
        BadFile{"faults { what: 9 }", ":2:10: ", "what has no value \"9\""},
        BadFile{"order: 9",
                ":2:1: ", "order has no value \"9\". It takes: UNCHANGED_PATHS, ALWAYS"},
        BadFile{"!topology { shape: 9 switches: 2 }", ":1:12: ", "shape has no value \"9\""},
        BadFile{"faults { what: CUT wire: 1 }", ":2:20: ", "there is no wire 1; wires are 0 to 0"},
        BadFile{"faults { what: IMPAIR impairment { drop_ppm: 1000001 } }", ":2:23: ", "1000000"},
        BadFile{"faults { what: CUT at_ns: 9 }\nfaults_end_ns: 8",
                ":2:20: ", "9 is after faults_end_ns 8"},
        BadFile{"faults { what: DISABLE port: 1 }",
                ":2:24: ", "node 0 has no port 1; it has 1, counted from 0"},
        BadFile{"moves { node: 0 ports: 0 shard: 1 }", ":2:26: ", "node 0 has no shard 1"},
        BadFile{"moves { node: 0 ports: 0 }",
                ":2:9: ", "node 0 has one shard, so that no port can move"},
        BadFile{"!nodes { ports {} ports {} trunks { ports: 0 ports: 1 } }\n"
                "nodes { ports {} ports {} }\nwires { a { node: 0 } b { node: 1 } }\n"
                "wires { a { node: 0 port: 1 } b { node: 1 port: 1 } }\n"
                "replacements { node: 0 port: 1 }",
                ":5:24: ", "replacements[0].port: port 1 is a lane of a trunk"},
        BadFile{"moves { node: 0 }", ":2:1: ", "moves[0].ports: there are none"},
        BadFile{"replacements { node: 0 port: 3 }", ":2:24: ", "has no port 3"},
        BadFile{"link { capacity: 1 capacity: 2 }", ":2:8: ", "2 values; give one for all VCs"},
        BadFile{"link { mtu: 63 }", ":2:1: ", "mtu must be at least 64 (L6)"},
        BadFile{"nodes { ports {} }", ":2:1: ", "cannot stand beside topology"},
        BadFile{"!nodes { ports {} }", ": ", "wires: there are none"},
        BadFile{"!seed: 1", ": ", "nodes: there are none"},
        BadFile{"!topology { switches: 2 }", ":1:1: ", "topology.shape: is missing; it is LINE"},
        BadFile{"!topology { shape: FULL_MESH switches: 200 }",
                ":1:1: ", "topology: it has 19900 wires, more than 16384; give fewer switches"},
        BadFile{"!topology { shape: RING switches: 1000 endpoints: 2 }",
                ":1:1: ", "topology: it has 3000 nodes, more than 2048"},
        BadFile{
            "!topology { shape: LINE switches: 1000 }\nlink { mtu: 9000 cell: 64 capacity: 4000 }",
            ":1:1: ", "topology: the buffers of all nodes take "},
        BadFile{"!topology { shape: RING switches: 1001 }", ":1:24: ", "1001 is not 1 to 1000"},
        BadFile{"!topology { shape: LINE switches: 2 bps: 5 }",
                ":1:36: ", "5 is not 1000 to 1000000000000"},
        BadFile{"!nodes { ports {} }\nnodes { ports {} ports {} }\n"
                "wires { a { node: 0 } b { node: 1 } }",
                ":2:1: ", "port 1 of node 1 is the end of no wire; add one to wires"},
        BadFile{"!nodes { ports {} }\nnodes { ports {} }\nwires { a { node: 0 } b { node: 1 } }\n"
                "wires { a { node: 0 } b { node: 1 } }",
                ":4:1: ", "node 0 port 0 is an end of wires[0] already"},
        BadFile{"!nodes { ports {} routes { to: 1 tiers { hops { port: 2 } } } }\n"
                "nodes { ports {} }\nwires { a { node: 0 } b { node: 1 } }",
                ":1:48: ", "node 0 has no port 2"}));

TEST(ScenarioFile, ThatIsNotThereIsNamed) {
  const auto schedule = read_scenario("/nowhere/x.textproto");
  ASSERT_FALSE(schedule);
  EXPECT_THAT(schedule.error().message, HasSubstr("/nowhere/x.textproto"));
}

/// A drawn run, its packets recorded and put in the place of what decided them.
sim::Schedule recorded(sim::Kind kind, std::uint64_t seed, bool faults,
                       sim::ScenarioOptions options = {}) {
  sim::Schedule schedule = sim::draw_run(kind, seed, faults);
  std::vector<sim::Send> sends;
  options.record = &sends;
  EventLog off;
  sim::run_schedule(schedule, off, options);
  schedule.traffic = {};
  schedule.sends = std::move(sends);
  return schedule;
}

sim::Schedule reread(const sim::Schedule& schedule, control::FileFormat format) {
  auto read = parse_scenario(scenario_text(schedule, format), format, "again");
  EXPECT_TRUE(read) << read.error().message;
  return read ? std::move(*read) : sim::Schedule{};
}

// Written and read again, it is the same run, event for event.
TEST(ScenarioFile, HoldsAllThatMakesARun) {
  std::size_t sends = 0, moves = 0, replacements = 0, paused = 0, background = 0, trunks = 0;
  std::array<std::size_t, static_cast<std::size_t>(sim::Fault::What::kCount)> faults{};
  std::array<std::size_t, 3> orders{};
  for (std::uint8_t k = 0; k < static_cast<std::uint8_t>(sim::Kind::kCount); ++k) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const sim::Schedule schedule = recorded(static_cast<sim::Kind>(k), seed, true);
      EventLog first(1), second(1);
      sim::run_schedule(schedule, first);
      const bool json = seed % 10 == 0;
      sim::run_schedule(
          reread(schedule, json ? control::FileFormat::kJson : control::FileFormat::kText), second);
      ASSERT_GT(first.count(), 10u);
      ASSERT_EQ(first.count(), second.count()) << schedule.about << ", seed " << seed;
      ASSERT_EQ(first.digest(), second.digest()) << schedule.about << ", seed " << seed;
      const auto read = as_read(schedule);
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(scenario_text(*read, control::FileFormat::kText),
                scenario_text(schedule, control::FileFormat::kText));
      sends += schedule.sends.size();
      moves += schedule.moves.size();
      replacements += schedule.replacements.size();
      paused += schedule.pause > Duration(0) ? 1 : 0;
      background += schedule.background.active() ? 1 : 0;
      ++orders[static_cast<std::size_t>(schedule.order)];
      for (const sim::Fault& fault : schedule.faults) {
        ++faults[static_cast<std::size_t>(fault.what)];
      }
      for (const auto& node : schedule.plan.nodes) trunks += node.config.trunks.size();
    }
  }
  EXPECT_THAT((std::vector<std::size_t>{sends, moves, replacements, paused, background, trunks}),
              testing::Each(testing::Gt(0u)));
  EXPECT_THAT(faults, testing::Each(testing::Gt(0u)));
  EXPECT_THAT(orders, testing::Each(testing::Gt(0u)));
}

// What is left of a schedule is a file, and fails as it does: also where its wires were all that
// joined a node, and where nothing else goes wrong.
TEST(ScenarioFile, HoldsWhatShrinkingLeaves) {
  sim::ScenarioOptions forge;
  forge.defect = sim::ScenarioOptions::Defect::kForge;
  const auto fails = [&](const sim::Schedule& schedule) {
    EventLog off;
    const RunResult result = sim::run_schedule(schedule, off, forge);
    return result.violations.any() && result.violations.list()[0].check == "altered";
  };
  for (const sim::Kind kind : {sim::Kind::kStar, sim::Kind::kRing, sim::Kind::kPair}) {
    for (const bool faults : {false, true}) {
      const sim::Schedule schedule = recorded(kind, 3, faults, forge);
      ASSERT_TRUE(fails(schedule));
      // However far it gets.
      for (const std::size_t runs : {5u, 40u, 2000u}) {
        const sim::Shrunk shrunk = sim::shrink(schedule, fails, runs);
        EXPECT_TRUE(fails(reread(shrunk.schedule, control::FileFormat::kText)))
            << schedule.about << ", " << runs << " runs";
      }
    }
  }
}

// A packet altered by a wire is all that must be left; without faults as with them, and of a star,
// where a wire that is left out leaves a node alone.
TEST(ShrunkFile, IsReadAndFailsAsTheRunDid) {
  sim::ScenarioOptions forge;
  forge.defect = sim::ScenarioOptions::Defect::kForge;
  for (const sim::Kind kind : {sim::Kind::kStar, sim::Kind::kRing}) {
    for (const bool faults : {false, true}) {
      const File file("");
      const auto shrunk = shrink_to_file(sim::draw_run(kind, 3, faults), file.path(), 2000, forge);
      ASSERT_TRUE(shrunk) << shrunk.error().message;
      EXPECT_TRUE(shrunk->done);
      const sim::Schedule left = read(file.path());
      // The switch of a star sends nothing itself.
      EXPECT_EQ(left.plan.nodes.size(), kind == sim::Kind::kStar ? 3u : 2u);
      EXPECT_EQ(left.sends.size(), 1u);
      EventLog off;
      const RunResult result = sim::run_schedule(left, off, forge);
      ASSERT_TRUE(result.violations.any());
      EXPECT_EQ(result.violations.list()[0].check, "altered");
    }
  }
}

TEST(ShrunkFile, IsNotMadeOfARunThatHolds) {
  const File file("as it was");
  const auto shrunk = shrink_to_file(sim::draw_run(sim::Kind::kPair, 1, true), file.path(), 10);
  ASSERT_FALSE(shrunk);
  EXPECT_THAT(shrunk.error().message, HasSubstr("does not fail"));
  std::string kept;
  std::getline(std::ifstream(file.path()), kept);
  EXPECT_EQ(kept, "as it was");
}

// Nobody consumes for so long: what is sent then fills the buffers, and is in them when credits are
// compared.
TEST(ScenarioFile, APauseIsPlayed) {
  const std::string text =
      "topology { shape: LINE switches: 2 }\nfaults_end_ns: 1000000\n"
      "flows { from: 0 to: 1 count: 100 start_ns: 1000000 }\n";
  for (const bool paused : {false, true}) {
    const File file(text + (paused ? "pause_ns: 2000000\n" : ""));
    EventLog off;
    const RunResult result = sim::run_schedule(read(file.path()), off);
    EXPECT_FALSE(result.violations.any());
    EXPECT_EQ(result.summary.delivered, 100u);
    EXPECT_EQ(result.summary.quiet_occupied, paused ? 1u : 0u);
  }
}

// What a port is disabled of goes with the port's own wire, not with another.
TEST(ScenarioFile, AFaultOfAPortKnowsItsWire) {
  const File file(
      "topology { shape: LINE switches: 3 }\n"
      "faults { what: DISABLE node: 2 port: 0 at_ns: 1000000 }\nfaults_end_ns: 2000000\n");
  const sim::Schedule schedule = read(file.path());
  ASSERT_EQ(schedule.faults.size(), 1u);
  const auto& ends = schedule.plan.wires[schedule.faults[0].wire].ends;
  EXPECT_EQ(ends[schedule.faults[0].direction], (sim::PortRef{2, PortId(0)}));
  EXPECT_EQ(sim::without(schedule, {0}, {}).faults.size(), 1u);
}

}  // namespace
}  // namespace mtl::mtsim
