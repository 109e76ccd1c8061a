#include "sim/shrink.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "sim/draw.h"
#include "sim/scenario.h"

namespace mtl::sim {
namespace {

/// The first check that fails; empty: none.
std::string_view failed(const Schedule& schedule, ScenarioOptions::Defect defect,
                        std::vector<Send>* record = nullptr) {
  ScenarioOptions options;
  options.defect = defect;
  options.record = record;
  EventLog off;
  const RunResult result = run_schedule(schedule, off, options);
  return result.violations.any() ? result.violations.list()[0].check : std::string_view();
}

/// A drawn run with a defect, its packets recorded.
Schedule recorded(Kind kind, std::uint64_t seed, ScenarioOptions::Defect defect) {
  Schedule schedule = draw_run(kind, seed, true);
  std::vector<Send> sends;
  failed(schedule, defect, &sends);
  schedule.traffic = {};
  schedule.sends = std::move(sends);
  return schedule;
}

// What the defect is decides what must be left: one packet over wire 0, which joins two nodes.
TEST(Shrink, AForgedPacketIsOnePacketBetweenTwoNodes) {
  constexpr auto kForge = ScenarioOptions::Defect::kForge;
  const Schedule schedule = recorded(Kind::kRing, 3, kForge);
  ASSERT_EQ(failed(schedule, kForge), "altered");
  const Shrunk shrunk = shrink(
      schedule, [](const Schedule& s) { return failed(s, kForge) == "altered"; }, 2000);
  EXPECT_TRUE(shrunk.done);
  EXPECT_EQ(shrunk.schedule.plan.nodes.size(), 2u);
  EXPECT_EQ(shrunk.schedule.plan.wires.size(), 1u);
  EXPECT_EQ(shrunk.schedule.sends.size(), 1u);
  EXPECT_TRUE(shrunk.schedule.faults.empty());
  EXPECT_TRUE(shrunk.schedule.moves.empty());
  EXPECT_TRUE(shrunk.schedule.replacements.empty());
  EXPECT_EQ(failed(shrunk.schedule, kForge), "altered");
}

// A wire that is not mended once it has been cut: one fault, no packet.
TEST(Shrink, AWireThatStaysCutIsOneCut) {
  constexpr auto kStaysCut = ScenarioOptions::Defect::kStaysCut;
  Schedule schedule = recorded(Kind::kStar, 2, kStaysCut);
  Fault cut;
  cut.what = Fault::What::kCut;
  cut.at = Time(std::chrono::microseconds(100));
  cut.lasts = std::chrono::microseconds(50);
  cut.carrier = true;  // noticed at once, without a packet
  schedule.faults.push_back(cut);
  ASSERT_EQ(failed(schedule, kStaysCut), "stall");
  const auto fails = [](const Schedule& s) { return failed(s, kStaysCut) == "stall"; };
  const Shrunk shrunk = shrink(schedule, fails, 2000);
  EXPECT_TRUE(shrunk.done);
  EXPECT_EQ(shrunk.schedule.plan.nodes.size(), 2u);
  EXPECT_TRUE(shrunk.schedule.sends.empty());
  ASSERT_EQ(shrunk.schedule.faults.size(), 1u);
  EXPECT_EQ(shrunk.schedule.faults[0].what, Fault::What::kCut);
  // The same again.
  const Shrunk again = shrink(schedule, fails, 2000);
  EXPECT_EQ(again.runs, shrunk.runs);
  EXPECT_EQ(again.schedule.faults[0].at, shrunk.schedule.faults[0].at);
}

TEST(Shrink, AsksNoMoreOftenThanItMay) {
  Schedule schedule = draw_run(Kind::kMesh, 1, true);
  schedule.sends.resize(1000);
  std::size_t asked = 0;
  const Shrunk shrunk = shrink(
      schedule,
      [&](const Schedule&) {
        ++asked;
        return false;
      },
      50);
  EXPECT_FALSE(shrunk.done);
  EXPECT_EQ(asked, 50u);
  EXPECT_EQ(shrunk.runs, 50u);
}

TEST(Without, WhatIsLeftKeepsItsMeaning) {
  const Schedule line = [] {
    Schedule s;
    s.plan.nodes.resize(3);
    const auto join = [&](std::uint32_t a, std::uint32_t b) {
      WirePlan wire;
      for (std::size_t d = 0; d < 2; ++d) {
        const std::uint32_t n = d == 0 ? a : b;
        auto& ports = s.plan.nodes[n].config.ports;
        wire.ends[d] = {n, PortId(static_cast<std::uint16_t>(ports.size()))};
        ports.emplace_back();
      }
      s.plan.wires.push_back(wire);
    };
    join(0, 1);
    join(1, 2);
    join(0, 2);
    assign_addresses(s.plan);
    s.plan.nodes[2].routes = {{node_id(0), {{{PortId(1), 0}}}}, {node_id(1), {{{PortId(0), 0}}}}};
    Send kept;
    kept.packet.at = 2;
    kept.packet.header.src = node_id(2);
    kept.packet.header.dst = node_id(1);
    Send gone = kept;
    gone.packet.header.dst = node_id(0);
    s.sends = {kept, gone};
    Fault of_kept;
    of_kept.wire = 1;
    of_kept.port = {2, PortId(0)};
    Fault of_gone;
    of_gone.wire = 0;
    s.faults = {of_kept, of_gone};
    return s;
  }();
  const Schedule left = without(line, {0}, {});
  ASSERT_EQ(left.plan.nodes.size(), 2u);
  ASSERT_EQ(left.plan.wires.size(), 1u);
  EXPECT_EQ(left.plan.wires[0].ends[0], (PortRef{0, PortId(0)}));
  EXPECT_EQ(left.plan.wires[0].ends[1], (PortRef{1, PortId(0)}));
  EXPECT_EQ(left.plan.nodes[1].config.node, node_id(1));
  EXPECT_EQ(left.plan.nodes[1].routes,
            (std::vector<network::Route>{{node_id(0), {{{PortId(0), 0}}}}}));
  ASSERT_EQ(left.sends.size(), 1u);
  EXPECT_EQ(left.sends[0].packet.at, 1u);
  EXPECT_EQ(left.sends[0].packet.header.dst, node_id(0));
  ASSERT_EQ(left.faults.size(), 1u);
  EXPECT_EQ(left.faults[0].wire, 0u);
  EXPECT_EQ(left.faults[0].port, (PortRef{1, PortId(0)}));
}

TEST(Without, ANodeGoesWithItsLastWireAndAFlowWithItsRoute) {
  Schedule star = draw_run(Kind::kStar, 1, false);
  const std::size_t nodes = star.plan.nodes.size();
  ASSERT_GT(nodes, 2u);
  Flow gone, kept;
  gone.from = 1;
  gone.to = 2;
  kept.from = 0;
  kept.to = 2;
  star.flows = {gone, kept};
  std::vector<std::uint32_t> wires_of_1;
  for (std::uint32_t w = 0; w < star.plan.wires.size(); ++w) {
    const auto& ends = star.plan.wires[w].ends;
    if (ends[0].node == 1 || ends[1].node == 1) wires_of_1.push_back(w);
  }
  const Schedule left = without(star, {}, wires_of_1);
  EXPECT_EQ(left.plan.nodes.size(), nodes - 1);
  for (const NodePlan& node : left.plan.nodes) EXPECT_FALSE(node.config.ports.empty());
  ASSERT_EQ(left.flows.size(), 1u);
  EXPECT_EQ(left.flows[0].from, 0u);
  EXPECT_EQ(left.flows[0].to, 1u);

  Schedule cut = star;  // node 1 stays, and cannot reach node 2 any more
  cut.plan.nodes[1].routes.clear();
  EXPECT_EQ(without(cut, {}, {}).flows.size(), 1u);
}

}  // namespace
}  // namespace mtl::sim
