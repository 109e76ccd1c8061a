#include "tools/mtsim/scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/draw.h"
#include "sim/scenario.h"

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
        BadFile{"flows { from: 0 to: 1 count: 1 bytes: 9001 }",
                ":2:32: ", "9001 is not 20 to 4096"},
        BadFile{"flows { from: 0 to: 1 count: 1 packet_class: 2 }", ":2:32: ", "2 is not 0 to 1"},
        BadFile{"flows { from: 0 to: 1 start_ns: 5 end_ns: 5 }", ":2:35: ", "not after start_ns"},
        BadFile{"packets { from: 0 to_id: 0 }", ":2:19: ", "packets[0].to_id: 0 is not 1 to 65534"},
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
        BadFile{"moves { node: 0 }", ":2:1: ", "moves[0].ports: there are none"},
        BadFile{"replacements { node: 0 port: 3 }", ":2:24: ", "has no port 3"},
        BadFile{"link { capacity: 1 capacity: 2 }", ":2:8: ", "2 values; give one for all VCs"},
        BadFile{"link { mtu: 63 }", ":2:1: ", "mtu must be at least 64 (L6)"},
        BadFile{"nodes { ports {} }", ":2:1: ", "cannot stand beside topology"},
        BadFile{"!nodes { ports {} }", ": ", "wires: there are none"},
        BadFile{"!seed: 1", ": ", "nodes: there are none"},
        BadFile{"!topology { switches: 2 }", ":1:1: ", "topology.shape: is missing; it is LINE"},
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

// A drawn run, its packets recorded, written and read again, is the same run.
TEST(ScenarioFile, HoldsAllThatMakesARun) {
  for (const sim::Kind kind : {sim::Kind::kPair, sim::Kind::kMesh, sim::Kind::kRing}) {
    sim::Schedule schedule = sim::draw_run(kind, 4, true);
    std::vector<sim::Send> sends;
    EventLog off;
    sim::ScenarioOptions recording;
    recording.record = &sends;
    sim::run_schedule(schedule, off, recording);
    schedule.traffic = {};
    schedule.sends = sends;
    EventLog first(1), second(1);
    sim::run_schedule(schedule, first);
    const File file(scenario_text(schedule));
    sim::run_schedule(read(file.path()), second);
    EXPECT_GT(first.count(), 100u);
    EXPECT_EQ(first.count(), second.count());
    EXPECT_EQ(first.digest(), second.digest());
  }
}

}  // namespace
}  // namespace mtl::mtsim
