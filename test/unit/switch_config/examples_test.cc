// The examples of the documentation are what they say: each is read, planned, and, where several
// belong together, they form one fabric.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "network/route_table.h"
#include "switch/config/node_config.h"
#include "topology/deadlock.h"

namespace mtl::switchd {
namespace {

const std::filesystem::path kExamples = std::filesystem::path(MTLINK_DOCS) / "examples";

Plan plan_of(const std::string& name) {
  const auto file = control::load<mtlink::config::NodeConfig>(kExamples / name);
  EXPECT_TRUE(file) << file.error().message;
  if (!file) return {};
  auto plan = plan_node(*file, Host{});
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return {};
  // Only where nothing proves the routes free of deadlock (N10).
  EXPECT_EQ(plan->warnings.size(), name == "routes-by-hand.textproto" ? 1u : 0u)
      << name << ": " << testing::PrintToString(plan->warnings);
  return std::move(*plan);
}

/// A fabric from the plans of its switches, each trunk's lanes joined in the order of ports.
topology::Network joined(const std::vector<Plan>& plans) {
  topology::Network network;
  for (const Plan& plan : plans) network.nodes.push_back({plan.node.node, plan.routes});
  for (const Plan& a : plans) {
    for (const Plan& b : plans) {
      if (!(a.node.node < b.node.node)) continue;
      std::vector<PortId> to_b, to_a;
      for (const auto& p : a.peers) {
        if (p.peer == b.node.node) to_b.push_back(p.port);
      }
      for (const auto& p : b.peers) {
        if (p.peer == a.node.node) to_a.push_back(p.port);
      }
      EXPECT_EQ(to_a.size(), to_b.size());
      for (std::size_t i = 0; i < std::min(to_a.size(), to_b.size()); ++i) {
        network.wires.push_back({{a.node.node, to_b[i]}, {b.node.node, to_a[i]}});
      }
    }
  }
  return network;
}

TEST(Examples, EachIsReadAndItsRoutesBuild) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kExamples)) {
    if (entry.is_directory()) continue;  // of other programs
    const Plan plan = plan_of(entry.path().filename().string());
    EXPECT_TRUE(network::RouteTable::build(plan.routes, plan.ports.size())) << entry.path();
    for (const auto& port : plan.node.ports)
      EXPECT_EQ(link::fault(port.link), nullptr) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 7U);
}

TEST(Examples, TheLineIsOneFabricWithTwoTrunks) {
  const topology::Network network =
      joined({plan_of("line-a.textproto"), plan_of("line-b.textproto")});
  EXPECT_EQ(network.wires.size(), 2U);
  EXPECT_FALSE(topology::find_deadlock(network));
}

TEST(Examples, TheRingIsOneFabricFreeOfDeadlock) {
  const topology::Network network = joined(
      {plan_of("ring-1.textproto"), plan_of("ring-2.textproto"), plan_of("ring-3.textproto")});
  EXPECT_EQ(network.wires.size(), 3U);
  EXPECT_FALSE(topology::find_deadlock(network));
}

TEST(Examples, TheSwitchWithSlotsReachesItsSlots) {
  const Plan plan = plan_of("switch-with-slots.textproto");
  std::set<NodeId> reached;
  for (const auto& route : plan.routes) reached.insert(route.dst);
  EXPECT_EQ(reached, (std::set{NodeId(1), NodeId(2), NodeId(3), NodeId(4)}));
}

}  // namespace
}  // namespace mtl::switchd
