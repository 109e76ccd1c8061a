// What a running node takes over of a file that has changed (mtctl reload), and what it refuses.
#include "switch/config/change_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mtl::switchd {
namespace {

using mtlink::config::NodeConfig;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

Plan plan(const std::string& text) {
  Host host;
  host.longest_frame = [](const std::string&) -> Result<std::uint32_t> { return 1514U; };
  const auto file = control::parse<NodeConfig>(text, control::FileFormat::kText, "new.textproto");
  EXPECT_TRUE(file) << file.error().message;
  auto plan = plan_node(*file, host);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? std::move(*plan) : Plan{};
}

std::string slot(int port, int node, const std::string& more = "") {
  return "slots { port: " + std::to_string(port) + " node: " + std::to_string(node) + " " + more +
         " }\n";
}

std::string on(int port, const std::string& interface, const std::string& more = "") {
  return "ports { port: " + std::to_string(port) + " af_packet { interface: \"" + interface +
         "\" } " + more + " }\n";
}

std::string node(const std::string& parts) {
  return "node: 1\n" + parts;
}

Result<PlanChange> change(const std::string& from, const std::string& to) {
  const Plan running = plan(node(from));
  return plan_change(running, plan(node(to)), running.routes);
}

std::string error(const std::string& from, const std::string& to) {
  const auto changed = change(from, to);
  return changed ? "(no error)" : changed.error().message;
}

// A cable pulled out of one port is no reason to refuse another one.
TEST(PlanChange, AnInterfaceThatIsLostStaysWhatItWasForThePortThatHasIt) {
  const Plan running = plan(node(slot(0, 5) + on(1, "va")));
  Host now;
  now.longest_frame = [](const std::string& interface) -> Result<std::uint32_t> {
    return Error{"there is no interface " + interface};
  };
  const Host host = host_of(running, now);
  ASSERT_TRUE(host.longest_frame("va"));
  EXPECT_EQ(*host.longest_frame("va"), 1514U);
  EXPECT_FALSE(host.longest_frame("vb"));
}

TEST(PlanChange, PortsAndSlotsComeAndGo) {
  const auto changed = change(slot(0, 5) + on(1, "va") + slot(2, 6),
                              slot(7, 8) + slot(0, 5) + on(4, "vb") + on(3, "vc"));
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_THAT(changed->added, ElementsAre(PortId(3), PortId(4), PortId(7)));
  EXPECT_THAT(changed->removed, ElementsAre(PortId(1), PortId(2)));
}

// Neither the order of entries, nor routes, nor the fabric are the ports'.
TEST(PlanChange, TheSameInAnotherOrderIsNoChange) {
  const std::string fabric = "fabric { shape: LINE nodes { node: 1 endpoints: [5, 6] } }\n";
  const auto changed = change(slot(0, 5) + slot(1, 6), slot(1, 6) + slot(0, 5) + fabric);
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_THAT(changed->added, IsEmpty());
  EXPECT_THAT(changed->removed, IsEmpty());
}

// What a node that runs has for all its life.
TEST(PlanChange, WhatIsNoPortIsRefusedAndAllOfItNamed) {
  const std::string said = error(slot(0, 5), slot(0, 5) + "hop_limit: 9\nruntime { poll: true }\n");
  EXPECT_THAT(said, HasSubstr("new.textproto:3:1: hop_limit differs from what the node runs with, "
                              "and cannot be changed while it runs; put it back, or restart "
                              "mtswitchd"));
  EXPECT_THAT(said, HasSubstr("new.textproto:4:1: runtime differs"));
}

TEST(PlanChange, APortThatRunsIsNotChanged) {
  EXPECT_THAT(
      error(slot(0, 5), "slots {\n port: 0\n node: 6\n}\n"),
      StartsWith("new.textproto:4:2: slots[0].node differs from that of port 0 that runs; a "
                 "port that runs is not changed: take it out and reload"));
  EXPECT_THAT(error(on(0, "va"), slot(0, 5)),
              StartsWith("new.textproto:2:1: slots[0] is not of the kind of port 0 that runs"));
  EXPECT_THAT(error(on(0, "va"), on(0, "vb")), HasSubstr("ports[0].af_packet differs"));
}

TEST(PlanChange, ASharedDeviceComesAndGoesWhole) {
  const std::string both = on(1, "va", "vlan: 5") + on(2, "va", "vlan: 6");
  EXPECT_TRUE(change(slot(0, 5), slot(0, 5) + both));
  EXPECT_TRUE(change(slot(0, 5) + both, slot(0, 5)));
  EXPECT_THAT(error(slot(0, 5) + on(1, "va", "vlan: 5"), slot(0, 5) + both),
              StartsWith("new.textproto:4:1: ports[1] is on interface va, as port p1 is that runs; "
                         "a device that runs gets no further port"));
  EXPECT_THAT(
      error(slot(0, 5) + both, slot(0, 5) + on(2, "va", "vlan: 6")),
      StartsWith("new.textproto:3:1: ports[0] is on interface va with port p1, which is not "
                 "there any more; a device that runs loses no single port"));
}

// The device of a port that goes is closed after those that come are opened, or nothing would be
// left if they cannot be.
TEST(PlanChange, WhatAPortHasThatGoesIsNotHadAtOnce) {
  EXPECT_THAT(error(slot(0, 5) + on(1, "va"), slot(0, 5) + on(2, "va")),
              HasSubstr("ports[0] is on interface va, which port p1 has that this reload removes; "
                        "remove it first, by a reload of its own"));
  EXPECT_THAT(error(slot(0, 5) + slot(1, 6, "name: \"x\""), slot(0, 5) + slot(2, 7, "name: \"x\"")),
              HasSubstr("slots[1].name is \"x\", which port 1 has that this reload removes"));
  const auto memif = [](int port) {
    return "ports { port: " + std::to_string(port) + " memif { socket: \"/s\" } }\n";
  };
  EXPECT_THAT(error(slot(0, 5) + memif(1), slot(0, 5) + memif(2)),
              HasSubstr("is on memif server at /s id 0, which port p1 has"));
}

// The tables of NodeConfigRoutes.N10_RoutesSetIsCheckedTogetherWithWhatIsInForce: each is right,
// and both together let packets wait in a circle.
TEST(PlanChange, N10_RoutesInForceAndNewOnesTogether) {
  const std::string ring = node(on(0, "va", "peer_node: 2") + on(1, "vb", "peer_node: 4") +
                                "fabric { shape: RING nodes { node: 1 } nodes { node: 2 } "
                                "nodes { node: 3 } nodes { node: 4 } }\n");
  const auto route = [](int dst, int port, int raise) {
    return "routes { dst: " + std::to_string(dst) +
           " tiers { hops { port: " + std::to_string(port) + " raise: " + std::to_string(raise) +
           " } } }\n";
  };
  const Plan one = plan(ring + route(2, 0, 0) + route(3, 0, 0) + route(4, 1, 0));
  const Plan two = plan(ring + route(2, 1, 0) + route(3, 0, 0) + route(4, 0, 1));
  EXPECT_TRUE(plan_change(one, one, one.routes));
  const auto refused = plan_change(one, two, one.routes);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("new.textproto:4:1: fabric leads to routes that do "
                        "not go with those in force"));
  EXPECT_THAT(refused.error().message, HasSubstr("N10"));
}

}  // namespace
}  // namespace mtl::switchd
