#include "switch/config/node_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "link/config.h"
#include "network/route_table.h"

namespace mtl::switchd {
namespace {

using mtlink::config::NodeConfig;
using network::NextHop;
using network::Route;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// A machine with two CPUs, 8 GiB, and interfaces of known frame length.
Host host() {
  Host h;
  h.cpus = {0, 1};
  h.memory_mib = 8192;
  h.longest_frame = [](const std::string& interface) -> Result<std::uint32_t> {
    static const std::map<std::string, std::uint32_t> known{
        {"va", 1514}, {"vb", 1514}, {"jumbo", 9014}, {"huge", 65535}, {"tiny", 90}};
    const auto found = known.find(interface);
    if (found == known.end()) return Error{"there is no interface \"" + interface + "\" here"};
    return found->second;
  };
  return h;
}

Result<Plan> plan_text(const std::string& text) {
  const auto file = control::parse<NodeConfig>(text, control::FileFormat::kText, "lab.textproto");
  if (!file) return file.error();
  return plan_node(*file, host());
}

Plan good(const std::string& text) {
  auto plan = plan_text(text);
  EXPECT_TRUE(plan) << plan.error().message;
  return plan ? std::move(*plan) : Plan{};
}

std::string error(const std::string& text) {
  const auto plan = plan_text(text);
  return plan ? "(no error)" : plan.error().message;
}

NextHop hop(unsigned port, unsigned raise) {
  return {PortId(static_cast<std::uint16_t>(port)), static_cast<std::uint8_t>(raise)};
}
NodeId node(unsigned id) {
  return NodeId(static_cast<std::uint16_t>(id));
}

const std::string kPort = "ports { port: 0 af_packet { interface: \"va\" } peer_node: 2 }\n";

/// The configuration of one port with `fields` in it, the port beginning on line 2.
std::string with_port(const std::string& fields) {
  return "node: 1\nports { port: 0 af_packet { interface: \"va\" } peer_node: 2\n" + fields +
         "\n}\n";
}

/// The configuration of one memif port, `fields` of it on line 3.
std::string with_memif(const std::string& fields, const std::string& socket = "/s") {
  return "node: 1\nports { memif { socket: \"" + socket + "\"\n" + fields + "\n} }\n";
}

/// Two ports on one interface that VLANs tell apart, each with further fields.
std::string shared_ports(const std::string& first, const std::string& second) {
  return "node: 1\nports { port: 0 vlan: 5 af_packet { interface: \"va\" } " + first +
         " }\nports { port: 1 vlan: 6 af_packet { interface: \"va\" } " + second + " }\n";
}

// A port that is taken out of the file leaves a gap, and its number may be had again.
TEST(NodeConfig, NumbersMayHaveGaps) {
  const std::string ports =
      "node: 1\nports { port: 1 af_packet { interface: \"va\" } peer_node: 2 }\n"
      "slots { port: 4 node: 5 }\nslots { port: 5 node: 6 }\n";
  const Plan plan = good(ports);
  ASSERT_EQ(plan.ports.size(), 6U);
  ASSERT_EQ(plan.node.ports.size(), 6U);
  EXPECT_EQ(count(plan.ports), 3U);
  EXPECT_EQ(numbers(plan.ports), "1, 4..5");
  for (const std::size_t i : {0U, 2U, 3U}) {
    EXPECT_FALSE(plan.ports[i].present());
    EXPECT_FALSE(plan.node.ports[i].present());
    EXPECT_EQ(plan.ports[i].port.value(), i);
    EXPECT_EQ(plan.ports[i].buffers, 0U);
  }
  EXPECT_EQ(plan.node.ports[4].link.port, PortId(4));
  EXPECT_EQ(plan.ports[5].first_of_worker_group, PortId(5));
  EXPECT_EQ(plan.routes.size(), 3U);
  EXPECT_EQ(describe(plan).find("port 0"), std::string::npos);
  EXPECT_EQ(error(ports + "routes { dst: 9 tiers { hops { port: 2 } } }\n"),
            "lab.textproto:5:32: routes[0].tiers[0].hops[0].port is 2, but the node has ports 1, "
            "4..5 only");
  EXPECT_EQ(error(ports + "trunks { ports: [1, 0] }\n"),
            "lab.textproto:5:10: trunks[0].ports[1] is 0, but the node has ports 1, 4..5 only");
}

TEST(NodeConfig, AMemifServerNeedsItsSocketAlone) {
  const Plan plan = good(with_memif(""));
  const auto& device = std::get<MemifDevice>(plan.ports[0].device);
  EXPECT_EQ(device.socket, "/s");
  EXPECT_FALSE(device.client);
  EXPECT_EQ(device.id, 0U);
  EXPECT_EQ(device.secret, "");
  EXPECT_EQ(device.max_region_mib, 128U);
  const Plan more = good(with_memif("max_region_mib: 1024"));
  EXPECT_EQ(std::get<MemifDevice>(more.ports[0].device).max_region_mib, 1024U);
  EXPECT_EQ(plan.node.ports[0].link.mtu, 9000);
  EXPECT_EQ(plan.ports[0].mac, (Mac{std::byte{2}, std::byte{0x4D}, std::byte{0}, std::byte{1},
                                    std::byte{0}, std::byte{0}}))
      << "02:4D, node, port";
  EXPECT_EQ(plan.memory.local_rings, 0U) << "the client's";
}

TEST(NodeConfig, AMemifClientSaysHowMuchMemory) {
  const Plan plan = good(with_memif("role: CLIENT id: 7 secret: \"x\""));
  const auto& device = std::get<MemifDevice>(plan.ports[0].device);
  EXPECT_TRUE(device.client);
  EXPECT_EQ(device.id, 7U);
  EXPECT_EQ(device.secret, "x");
  EXPECT_EQ(device.ring_size, 1024U);
  EXPECT_EQ(device.buffer_size, 9088U) << "30 + 9000, up to a multiple of 64";
  EXPECT_EQ(plan.memory.local_rings, 2U * 1024 * (9088 + 16));
  const Plan small = good(with_memif("role: CLIENT ring_size: 64 buffer_size: 1000"));
  EXPECT_EQ(std::get<MemifDevice>(small.ports[0].device).ring_size, 64U);
  EXPECT_EQ(std::get<MemifDevice>(small.ports[0].device).buffer_size, 1024U);
}

TEST(NodeConfig, MemifEndsOfOneSocketDifferInRoleOrId) {
  const auto end = [](int port, const std::string& more) {
    return "ports { port: " + std::to_string(port) + " memif { socket: \"/s\" " + more + " } }\n";
  };
  good("node: 1\n" + end(0, "") + end(1, "id: 1") + end(2, "role: CLIENT") +
       end(3, "role: CLIENT id: 1"));
}

// ---- What is decided when nothing is said
// --------------------------------------------------------

TEST(NodeConfig, DefaultsAreThoseOfTheSchema) {
  const Plan plan = good("node: 7\n" + kPort);
  EXPECT_EQ(plan.name, "node-7");
  EXPECT_EQ(plan.socket, "/run/mtlink/node-7.sock");
  EXPECT_EQ(plan.log_format, LogFormat::kText);
  EXPECT_EQ(plan.node.node, node(7));
  EXPECT_EQ(plan.node.hop_limit, 16);
  EXPECT_EQ(plan.node.own_limit, 256U);
  EXPECT_EQ(plan.node.shards, 1U);
  EXPECT_EQ(plan.runtime.workers, 1U);
  EXPECT_TRUE(plan.runtime.cpus.empty());
  EXPECT_FALSE(plan.runtime.poll);
  ASSERT_EQ(plan.ports.size(), 1U);
  EXPECT_EQ(plan.ports[0].name, "p0");
  EXPECT_TRUE(plan.ports[0].enabled);
  EXPECT_FALSE(plan.ports[0].mac);
  EXPECT_FALSE(plan.ports[0].impairment.drop_ppm);
  const auto& device = std::get<AfPacketDevice>(plan.ports[0].device);
  EXPECT_EQ(device.interface, "va");
  EXPECT_EQ(device.frames, 1024U);
}

TEST(NodeConfig, LinkDefaultsAreThoseOfTheSchema) {
  const link::Config link = good("node: 7\n" + kPort).node.ports[0].link;
  EXPECT_EQ(link.node, node(7));
  EXPECT_EQ(link.port, PortId(0));
  EXPECT_EQ(link.ether_type, 0x88B5);
  EXPECT_EQ(link.mtu, 1484);  // 1514 less 30
  EXPECT_EQ(link.cell, 256);
  EXPECT_EQ(link.window, 256);
  EXPECT_EQ(link.send_window, 1024);
  EXPECT_THAT(link.capacity, testing::Each(64));  // 4 x 6 cells are less than 64
  EXPECT_EQ(link.mark_bytes, 65536U);
  EXPECT_EQ(link.expect_node, node(2));
  EXPECT_FALSE(link.expect_port);
  EXPECT_FALSE(link.peer_mac);
  EXPECT_EQ(link.timers.dead_interval, std::chrono::seconds(2));  // lab
  EXPECT_TRUE(link.timers.adaptive);
  EXPECT_EQ(link::fault(link), nullptr);
}

TEST(NodeConfig, MtuFollowsTheDeviceUpTo9000) {
  const auto mtu = [](const std::string& interface) {
    return good("node: 1 ports { af_packet { interface: \"" + interface + "\" } }")
        .node.ports[0]
        .link.mtu;
  };
  EXPECT_EQ(mtu("va"), 1484);
  EXPECT_EQ(mtu("jumbo"), 8984);
  EXPECT_EQ(mtu("huge"), 9000);
  EXPECT_EQ(good("node: 1 ports { ethdev { devargs: \"net_null0\" } }").node.ports[0].link.mtu,
            1484);
  EXPECT_EQ(good("node: 1 slots { node: 2 }").node.ports[0].link.mtu, 9000);
}

TEST(NodeConfig, AnEthdevTakesTheMtuThatIsSaid) {
  EXPECT_EQ(
      good("node: 1 ports { ethdev { devargs: \"x\" } link { mtu: 4096 } }").node.ports[0].link.mtu,
      4096);
  EXPECT_EQ(good("node: 1 defaults { mtu: 4000 } ports { ethdev { devargs: \"x\" } }")
                .node.ports[0]
                .link.mtu,
            4000);
}

TEST(NodeConfig, CapacityIsFourLongestPackets) {
  // 9000 bytes take 36 cells of 256.
  EXPECT_THAT(good("node: 1 slots { node: 2 }").node.ports[0].link.capacity, testing::Each(144));
  // As many as fit evenly into the sum of L6 where four do not.
  EXPECT_THAT(good("node: 1 slots { node: 2 link { cell: 8 } }").node.ports[0].link.capacity,
              testing::Each(4095));
}

TEST(NodeConfig, PortsFieldsCountBeforeDefaults) {
  const Plan plan = good(R"(node: 1
defaults { mtu: 1000 window: 100 cell: 128 send_window: 77 mark_bytes: 129 }
ports { port: 0 af_packet { interface: "va" } }
ports { port: 1 af_packet { interface: "vb" }
        link { window: 200 capacity: [1000, 8, 8, 8, 8, 8, 8, 0] mark_bytes: 0 } }
)");
  EXPECT_EQ(plan.node.ports[0].link.window, 100);
  EXPECT_EQ(plan.node.ports[1].link.window, 200);
  EXPECT_EQ(plan.node.ports[1].link.mtu, 1000);
  EXPECT_EQ(plan.node.ports[1].link.cell, 128);
  EXPECT_EQ(plan.node.ports[1].link.send_window, 77);
  EXPECT_THAT(plan.node.ports[1].link.capacity, ElementsAre(1000, 8, 8, 8, 8, 8, 8, 0));
  EXPECT_EQ(plan.node.ports[0].link.mark_bytes, 129U);
  EXPECT_EQ(plan.node.ports[1].link.mark_bytes, 0U);  // never
}

TEST(NodeConfig, TimersStartFromTheProfile) {
  const Plan plan = good(R"(node: 1
defaults { timers { profile: FAST ack_every: 3 } }
ports { port: 0 af_packet { interface: "va" } link { timers { dead_interval_us: 70000 } } }
ports { port: 1 af_packet { interface: "vb" } link { timers { profile: LAB replay_limit: 5 } } }
)");
  const link::Timers& fast = plan.node.ports[0].link.timers;
  EXPECT_EQ(fast.keepalive_interval, milliseconds(10));
  EXPECT_EQ(fast.replay_timeout, microseconds(500));
  EXPECT_EQ(fast.ack_every, 3);
  EXPECT_EQ(fast.dead_interval, milliseconds(70));
  EXPECT_FALSE(fast.adaptive);
  const link::Timers& lab = plan.node.ports[1].link.timers;
  EXPECT_EQ(lab.keepalive_interval, milliseconds(200));
  EXPECT_EQ(lab.ack_every, 8);  // a profile of its own: the node's departures do not count
  EXPECT_EQ(lab.replay_limit, 5U);
  EXPECT_TRUE(lab.adaptive);
}

TEST(NodeConfig, PortsAreKeptByNumberAndWorkersTakeTurns) {
  const Plan plan = good(R"(node: 1
runtime { cpus: [0, 1] }
ports { port: 2 af_packet { interface: "va" } }
ports { port: 0 af_packet { interface: "vb" } worker: 1 }
slots { port: 1 node: 5 }
slots { port: 3 node: 6 }
)");
  ASSERT_EQ(plan.ports.size(), 4U);
  EXPECT_EQ(std::get<AfPacketDevice>(plan.ports[2].device).interface, "va");
  EXPECT_EQ(std::get<SlotDevice>(plan.ports[3].device).node, node(6));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(plan.ports[i].port.value(), i);
    EXPECT_EQ(plan.node.ports[i].link.port.value(), i);
  }
  EXPECT_EQ(plan.node.shards, 2U);
  EXPECT_EQ(plan.node.ports[0].shard, ShardId(1));  // as said
  EXPECT_EQ(plan.node.ports[1].shard, ShardId(0));  // the others by turns
  EXPECT_EQ(plan.node.ports[2].shard, ShardId(1));
  EXPECT_EQ(plan.node.ports[3].shard, ShardId(0));
}

TEST(NodeConfig, N5_ASlotIsAnEdgePortForItsNodeAndPartitions) {
  const Plan plan = good("node: 1\nslots { node: 9 partitions: [4, 5] }\n");
  ASSERT_TRUE(plan.node.ports[0].edge);
  EXPECT_THAT(plan.node.ports[0].edge->nodes, ElementsAre(node(9)));
  EXPECT_THAT(plan.node.ports[0].edge->partitions, ElementsAre(Partition(4), Partition(5)));
  EXPECT_EQ(plan.node.ports[0].link.expect_node, node(9));
  EXPECT_EQ(plan.ports[0].name, "slot0");
  ASSERT_TRUE(plan.ports[0].mac);
  EXPECT_EQ(plan.node.ports[0].link.mac, *plan.ports[0].mac);
  EXPECT_EQ((*plan.ports[0].mac)[0], std::byte{0x02});  // locally administered
  const Plan plain = good("node: 1\nslots { node: 9 }\n");
  EXPECT_THAT(plain.node.ports[0].edge->partitions, ElementsAre(Partition(0)));
}

TEST(NodeConfig, PortsTakeAddressesEdgeTypeAndImpairment) {
  const Plan plan = good(with_port(
      "peer_port: 3 peer_mac: \"02:00:00:00:0a:Ff\" mac: \"02:00:00:00:00:02\" ether_type: 0x88B6\n"
      "edge { nodes: [2, 3] } enabled: false\n"
      "impairment { drop_ppm: 10000 reorder_ppm: 5 delay_us: 7 seed: 99 }"));
  const link::Config& link = plan.node.ports[0].link;
  const Mac peer{std::byte{2}, std::byte{0},  std::byte{0},
                 std::byte{0}, std::byte{10}, std::byte{255}};
  EXPECT_EQ(link.peer_mac, peer);
  EXPECT_EQ(link.mac[5], std::byte{2});
  EXPECT_EQ(link.expect_port, PortId(3));
  EXPECT_EQ(link.ether_type, 0x88B6);
  EXPECT_THAT(plan.node.ports[0].edge->nodes, ElementsAre(node(2), node(3)));
  EXPECT_THAT(plan.node.ports[0].edge->partitions, ElementsAre(Partition(0)));
  EXPECT_FALSE(plan.ports[0].enabled);
  EXPECT_EQ(plan.ports[0].impairment.drop_ppm, 10000U);
  EXPECT_EQ(plan.ports[0].impairment.reorder_delay, microseconds(100));
  EXPECT_EQ(plan.ports[0].impairment.delay, microseconds(7));
  EXPECT_EQ(plan.ports[0].impairment.seed, 99U);
}

// ---- Routes
// --------------------------------------------------------------------------------------

TEST(NodeConfigRoutes, ByHandBecomeTiersWithWeights) {
  const Plan plan =
      good("node: 1\n" + kPort +
           "slots { port: 1 node: 9 }\n"
           "routes { dst: 9 tiers { hops { port: 1 } } }\n"
           "routes { dst: 2 tiers { hops { port: 0 weight: 2 } hops { port: 1 raise: 1 } }\n"
           "         tiers { hops { port: 0 raise: 1 } } }\n");
  EXPECT_EQ(plan.routes,
            (std::vector<Route>{{node(9), {{hop(1, 0)}}},
                                {node(2), {{hop(0, 0), hop(0, 0), hop(1, 1)}, {hop(0, 1)}}}}));
  EXPECT_TRUE(network::RouteTable::build(plan.routes, 2));
  EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("(N10)")));
}

TEST(NodeConfigRoutes, WithoutAnyTheNeighboursAreReached) {
  const Plan plan = good(R"(node: 1
ports { port: 0 af_packet { interface: "va" } peer_node: 2 }
ports { port: 1 af_packet { interface: "vb" } peer_node: 2 }
slots { port: 2 node: 9 }
)");
  EXPECT_EQ(plan.routes,
            (std::vector<Route>{{node(2), {{hop(0, 0), hop(1, 0)}}}, {node(9), {{hop(2, 0)}}}}));
}

TEST(NodeConfigRoutes, APeerThatNoRouteLeadsToIsAWarning) {
  const Plan plan = good("node: 1\n" + kPort +
                         "slots { port: 1 node: 9 }\n"
                         "routes { dst: 2 tiers { hops { port: 0 } } }\n");
  EXPECT_THAT(
      plan.warnings,
      ElementsAre("lab.textproto:3:17: slots[0].node is 9, to which no route leads: packets for "
                  "it are dropped (no_route)"));
}

const std::string kRing = R"(node: 1
ports { port: 0 af_packet { interface: "va" } peer_node: 2 }
ports { port: 1 af_packet { interface: "vb" } peer_node: 4 }
slots { port: 2 node: 11 }
fabric {
  shape: RING
  nodes { node: 1 endpoints: 11 }
  nodes { node: 2 }
  nodes { node: 3 }
  nodes { node: 4 endpoints: 14 }
}
)";

TEST(NodeConfigRoutes, N10_AFabricGivesRoutesWithRaises) {
  const Plan plan = good(kRing);
  EXPECT_EQ(plan.routes, (std::vector<Route>{{node(11), {{hop(2, 0)}}},
                                             {node(2), {{hop(0, 0)}}},
                                             {node(3), {{hop(0, 0), hop(1, 1)}}},
                                             {node(4), {{hop(1, 1)}}},
                                             {node(14), {{hop(1, 1)}}}}));
  EXPECT_EQ(plan.peers.size(), 3U);
  ASSERT_TRUE(plan.fabric);
}

TEST(NodeConfigRoutes, N6_AHopLimitBelowTwiceTheDiameterIsAWarning) {
  // A ring of four with endpoints: two links between switches, two to endpoints.
  EXPECT_TRUE(good(kRing + "hop_limit: 8\n").warnings.empty());
  EXPECT_THAT(
      good(kRing + "hop_limit: 7\n").warnings,
      ElementsAre("lab.textproto:12:1: hop_limit is 7, but the fabric's ways have up to 4 links; "
                  "set it to twice that (N6)"));
}

TEST(NodeConfigRoutes, ByHandBesideAFabricReplaceItsOwn) {
  const Plan plan = good(kRing + "routes { dst: 3 tiers { hops { port: 0 } } }\n");
  EXPECT_EQ(plan.routes[2], (Route{node(3), {{hop(0, 0)}}}));
  EXPECT_EQ(plan.routes.size(), 5U);
}

TEST(NodeConfigRoutes, N10_ByHandBesideAFabricMustNotDeadlock) {
  // Node 2 may send packets for 4 either way: here they come back.
  EXPECT_EQ(
      error(kRing + "routes { dst: 4 tiers { hops { port: 0 } } }\n"),
      "lab.textproto:12:1: routes do not go with the fabric: these routes can stand still for ever "
      "(N10), because packets wait in a circle:\n"
      "node 1 port 0 -> node 2 port 0, layer 0: packets for 4 wait for\n"
      "node 2 port 0 -> node 1 port 0, layer 0: packets for 4 wait for the first\n"
      "raise the layer on one hop of the circle, or leave it out");
}

TEST(NodeConfigRoutes, RoutesSetIsCheckedTheSameWay) {
  const Plan plan = good(kRing);
  mtlink::config::Routes routes;
  auto* route = routes.add_routes();
  route->set_dst(3);
  route->add_tiers()->add_hops()->set_port(0);
  const auto taken = plan_routes(routes, plan, plan.routes);
  ASSERT_TRUE(taken) << taken.error().message;
  EXPECT_EQ(*taken, (std::vector<Route>{{node(3), {{hop(0, 0)}}}}));

  route->set_dst(4);
  const auto circle = plan_routes(routes, plan, plan.routes);
  ASSERT_FALSE(circle);
  EXPECT_THAT(circle.error().message, HasSubstr("N10"));

  route->mutable_tiers(0)->mutable_hops(0)->set_port(3);
  const auto missing = plan_routes(routes, plan, plan.routes);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message,
            "routes[0].tiers[0].hops[0].port is 3, but the node has ports 0..2 only");
}

/// "dst port raise" each.
mtlink::config::Routes routes_by(const std::vector<std::array<std::uint32_t, 3>>& list) {
  mtlink::config::Routes out;
  for (const auto& [dst, port, raise] : list) {
    auto* route = out.add_routes();
    route->set_dst(dst);
    auto* hop = route->add_tiers()->add_hops();
    hop->set_port(port);
    hop->set_raise(raise);
  }
  return out;
}

// By hand, on the ring 1-2-3-4: the first table sends packets for 4 straight from 2 to 4, and those
// for 2 to where they end; the second one sends those for 2 by way of 4 and 3, and none from 2 to 4
// that way. So 2>1>4 waits only by the first, 1>4>3 only by the second, and with what the others do
// (4>3>2 for 2, 3>2>1 for 1) the circle is closed only by both.
TEST(NodeConfigRoutes, N10_RoutesSetIsCheckedTogetherWithWhatIsInForce) {
  const Plan plan = good(kRing);
  const auto first = plan_routes(routes_by({{2, 0, 0}, {3, 0, 0}, {4, 1, 0}}), plan, {});
  ASSERT_TRUE(first) << first.error().message;
  const auto second = routes_by({{2, 1, 0}, {3, 0, 0}, {4, 0, 1}});
  EXPECT_TRUE(plan_routes(second, plan, {})) << "right by itself";
  const auto refused = plan_routes(second, plan, *first);
  ASSERT_FALSE(refused);
  for (const char* part :
       {"routes in force", "N10", "node 2 port 0 -> node 1 port 0, layer 0: packets for 4 wait for",
        "node 1 port 1 -> node 4 port 0, layer 0: packets for 2 wait for",
        "first set routes without the destinations of the circle"}) {
    EXPECT_THAT(refused.error().message, HasSubstr(part));
  }
  // The remedy that it names.
  const auto between = plan_routes(routes_by({{3, 0, 0}}), plan, *first);
  ASSERT_TRUE(between);
  EXPECT_TRUE(plan_routes(second, plan, *between));
  // Of destinations that only the old table has, packets are under way as well.
  EXPECT_FALSE(plan_routes(routes_by({{2, 1, 0}}), plan, *first));
}

TEST(NodeConfigRoutes, N10_ByHandWithoutAFabricIsUnprovedAndAWarning) {
  const std::string ports =
      "node: 1\n"
      "ports { port: 0 af_packet { interface: \"va\" } peer_node: 2 }\n"
      "slots { port: 1 node: 9 }\n";
  const std::string neighbours =
      "routes { dst: 2 tiers { hops { port: 0 } } } routes { dst: 9 tiers { hops { port: 1 } } }\n";
  const std::string beyond = "routes { dst: 3 tiers { hops { port: 0 } } }\n";
  const std::string detour =
      "routes { dst: 9 tiers { hops { port: 1 } } tiers { hops { port: 0 } } }"
      " routes { dst: 2 tiers { hops { port: 0 } } }\n";
  for (const std::string& text : {ports, ports + neighbours}) {
    const Plan plan = good(text);
    EXPECT_TRUE(plan.warnings.empty()) << text;
    EXPECT_EQ(deadlock_check(plan, plan.routes), DeadlockCheck::kNotNeeded) << text;
  }
  for (const std::string& text : {ports + neighbours + beyond, ports + detour}) {
    const Plan plan = good(text);
    EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("`fabric`"))) << text;
    EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("N10"))) << text;
    EXPECT_THAT(plan.warnings, ElementsAre(HasSubstr("lab.textproto:4:"))) << text;
    EXPECT_EQ(deadlock_check(plan, plan.routes), DeadlockCheck::kUnproved) << text;
  }
  const Plan ring = good(kRing + "routes { dst: 3 tiers { hops { port: 0 } } }\n");
  EXPECT_TRUE(ring.warnings.empty());
  EXPECT_EQ(deadlock_check(ring, ring.routes), DeadlockCheck::kProved);
}

TEST(NodeConfig, ImpairmentOfARunningPortIsChecked) {
  mtlink::config::Impairment impairment;
  impairment.set_drop_ppm(1'000'000);
  ASSERT_TRUE(plan_impairment(impairment));
  EXPECT_EQ(plan_impairment(impairment)->drop_ppm, 1'000'000U);
  impairment.set_drop_ppm(1'000'001);
  const auto refused = plan_impairment(impairment);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "impairment.drop_ppm is 1000001; it must be 0..1000000");
}

// ---- Buffers
// -------------------------------------------------------------------------------------

TEST(NodeConfigBuffers, L22_EveryCellOfEveryPortHasItsBuffer) {
  // By hand: port 0, 8 x 64 cells + 64 + 256 = 832; port 1, the slot, 8 x 144 + 64 + 256 = 1472;
  // one worker's cache 384. Buffers hold 9000 + 34 bytes, rounded up to 9088.
  const Plan plan = good("node: 1\n" + kPort + "slots { port: 1 node: 9 ring_bytes: 131072 }\n");
  EXPECT_EQ(plan.ports[0].buffers, 832U);
  EXPECT_EQ(plan.ports[1].buffers, 1472U);
  EXPECT_EQ(plan.buffers.receive, 832U + 1472U + 384U);
  EXPECT_EQ(plan.buffers.own, 512U);
  EXPECT_EQ(plan.buffers.room, 9088U);
  EXPECT_EQ(plan.ports[0].max_frame, 1514U);
  EXPECT_EQ(plan.memory.buffers, (2688ULL + 512) * (9088 + 448));
  EXPECT_EQ(plan.memory.local_rings, 262144U);
  EXPECT_GT(plan.memory.links, 0U);
  // 29.1 MiB of buffers, rounded up, and 64 for EAL.
  EXPECT_EQ(plan.runtime.memory_mib, 30U + 64U);
}

TEST(NodeConfigBuffers, ADevicesDescriptorsHoldBuffersToo) {
  const Plan plan = good("node: 1\nports { ethdev { devargs: \"x\" } link { capacity: 8 } }\n");
  EXPECT_EQ(plan.ports[0].buffers, 64U + 64 + 256 + 2048);
  EXPECT_EQ(plan.buffers.room, 2048U);
}

TEST(NodeConfigBuffers, WorkersHaveCachesBesideWhatPortsNeed) {
  const std::string two = R"(node: 1
runtime { cpus: [0, 1] BUFFERS }
ports { port: 0 af_packet { interface: "va" } link { capacity: 10 } }
ports { port: 1 af_packet { interface: "vb" } link { capacity: 20 } }
)";
  const auto with = [&](const std::string& buffers) {
    return good(std::string(two).replace(two.find("BUFFERS"), 7, buffers));
  };
  const Plan plan = with("");
  EXPECT_EQ(plan.buffers.receive, (80U + 320) + (160 + 320) + 2 * 384);
  EXPECT_EQ(plan.buffers.own, 1024U);
  EXPECT_EQ(with("buffers: 1651").buffers.receive, 1651U);
}

TEST(NodeConfigBuffers, LessThanPromisedIsRefused) {
  EXPECT_EQ(
      error("node: 1\n" + kPort + "runtime { buffers: 1215 }\n"),
      "lab.textproto:3:11: runtime.buffers is 1215, but the ports promise their peers room that "
      "takes 1216; give that many, leave it out, or lower capacity");
  EXPECT_TRUE(plan_text("node: 1\n" + kPort + "runtime { buffers: 1216 }\n"));
  for (const char* bad : {"0", "100"}) {
    EXPECT_EQ(
        error("node: 1\n" + kPort + "runtime { balance_load: " + bad + " }\n"),
        std::string("lab.textproto:3:11: runtime.balance_load is ") + bad + "; it must be 1..99");
  }
  EXPECT_EQ(plan_text("node: 1\n" + kPort + "runtime { balance_load: 99 }\n")->runtime.balance_load,
            0.99);
  EXPECT_EQ(plan_text("node: 1\n" + kPort)->runtime.balance_load, 0.8);
  EXPECT_THAT(error("node: 1\n" + kPort + "runtime { memory_mib: 10 }\n"),
              StartsWith("lab.textproto:3:11: runtime.memory_mib is 10, but the buffers need "));
}

// ---- Several ports on one device (P3)
// ------------------------------------------------------------

TEST(NodeConfig, P3_PortsShareADeviceByVlanOrPeer) {
  const Plan plan = good(
      "node: 1\n"
      "ports { port: 0 vlan: 5 af_packet { interface: \"va\" } }\n"
      "ports { port: 1 af_packet { interface: \"vb\" } }\n"
      "ports { port: 2 peer_mac: \"02:00:00:00:00:01\" af_packet { interface: \"va\" } }\n"
      "ports { port: 3 peer_mac: \"02:00:00:00:00:02\" af_packet { interface: \"va\" } }\n");
  ASSERT_EQ(plan.ports.size(), 4U);
  EXPECT_EQ(plan.ports[0].vlan, VlanId(5));
  EXPECT_FALSE(plan.ports[2].vlan);
  std::vector<unsigned> first;
  for (const PortPlan& port : plan.ports) first.push_back(port.first_on_device.value());
  EXPECT_THAT(first, ElementsAre(0U, 1U, 0U, 0U));
  EXPECT_THAT(describe(plan), HasSubstr("port 0 p0: af_packet va vlan 5, mtu 1484"));
  EXPECT_THAT(describe(plan),
              HasSubstr("port 3 p3: af_packet va peer 02:00:00:00:00:02, mtu 1484"));
}

TEST(NodeConfig, ADeviceHasOneWorkerByTurnsOfDevices) {
  const auto shards = [](const Plan& plan) {
    std::vector<unsigned> out;
    for (const auto& port : plan.node.ports) out.push_back(port.shard.value());
    return out;
  };
  const std::string runtime = "runtime { cpus: [0, 1] }\n";
  const std::string other = "ports { port: 2 af_packet { interface: \"vb\" } }\n";
  EXPECT_THAT(shards(good(shared_ports("", "") + other + runtime)), ElementsAre(0U, 0U, 1U));
  EXPECT_THAT(shards(good(shared_ports("worker: 1", "") + other + runtime)),
              ElementsAre(1U, 1U, 0U));
  EXPECT_THAT(shards(good(shared_ports("", "worker: 1") + other + runtime)),
              ElementsAre(1U, 1U, 0U));
  EXPECT_THAT(shards(good(shared_ports("worker: 1", "worker: 1") + runtime)), ElementsAre(1U, 1U));
}

TEST(NodeConfig, TheRingsOfASharedDeviceAreCountedOnce) {
  const Plan plan = good(
      "node: 1\nports { port: 0 vlan: 5 ethdev { devargs: \"net_null0\" } }\n"
      "ports { port: 1 vlan: 6 ethdev { devargs: \"net_null0\" } }\n");
  EXPECT_EQ(plan.ports[0].buffers, plan.ports[1].buffers + 2 * 1024);
}

TEST(NodeConfig, DescriptionShowsWhatWasDecided) {
  const std::string text = describe(good("node: 1\n" + kPort + "slots { port: 1 node: 9 }\n"));
  EXPECT_THAT(text, HasSubstr("node 1 \"node-1\", 1 worker(s), 2 routes"));
  EXPECT_THAT(
      text,
      HasSubstr("port 0 p0: af_packet va, mtu 1484, cell 256, window 256, worker 0, 832 buffers"));
  EXPECT_THAT(text, HasSubstr("port 1 slot1: slot for node 9, mtu 9000"));
  EXPECT_THAT(text, HasSubstr("buffers: 2688 to receive, 512 for own packets, 9088 bytes each"));
}

// ---- What is refused
// -----------------------------------------------------------------------------

struct Refused {
  const char* name;
  std::string text;
  std::string message;
};

void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.name;
}

class NodeConfigRefuses : public testing::TestWithParam<Refused> {};

TEST_P(NodeConfigRefuses, WithPlaceFieldAndRemedy) {
  EXPECT_EQ(error(GetParam().text), GetParam().message);
}

std::string named(const testing::TestParamInfo<Refused>& info) {
  return info.param.name;
}

const std::string kSlots = "node: 1\nslots { port: 0 node: 5 }\n";

INSTANTIATE_TEST_SUITE_P(
    Node, NodeConfigRefuses,
    testing::Values(
        Refused{"NoNode", kPort, "lab.textproto: node is missing; give the node's id, 1..65534"},
        Refused{"N3_NodeTooBig", "node: 65535\n" + kPort,
                "lab.textproto:1:1: node is 65535; it must be 1..65534"},
        Refused{"Name", "node: 1 name: \"a/b\"\n" + kPort,
                "lab.textproto:1:9: name is \"a/b\"; a name has 1 to 64 letters, digits, '.', '_' "
                "or '-'"},
        Refused{"HopLimit", "node: 1\nhop_limit: 256\n" + kPort,
                "lab.textproto:2:1: hop_limit is 256; it must be 1..255"},
        Refused{"OwnLimit", "node: 1\nown_limit: 0\n" + kPort,
                "lab.textproto:2:1: own_limit is 0; it must be 1..65536"},
        Refused{"NoPorts", "node: 1\n",
                "lab.textproto: the node has no ports and no slots; give at least one"},
        Refused{"CpuElsewhere", "node: 1\n" + kPort + "runtime { cpus: [0, 7] }\n",
                "lab.textproto:3:11: runtime.cpus[1] is 7, a CPU that this process may not use; "
                "`taskset -cp $$` tells which"},
        Refused{"CpuTwice", "node: 1\n" + kPort + "runtime { cpus: [1, 1] }\n",
                "lab.textproto:3:11: runtime.cpus[1] is 1, which has a worker already"},
        Refused{"SocketPath",
                "node: 1\n" + kPort + "control { socket: \"" + std::string(108, 'x') + "\" }\n",
                "lab.textproto:3:11: control.socket has 108 bytes; a Unix socket's path has at "
                "most 107"}),
    named);

INSTANTIATE_TEST_SUITE_P(
    Ports, NodeConfigRefuses,
    testing::Values(
        Refused{"SameNumber", "node: 1\n" + kPort + "slots {\n  port: 0\n  node: 5\n}\n",
                "lab.textproto:4:3: slots[0].port is 0, which ports[0] has; number ports and slots "
                "differently, from 0"},
        Refused{"NumberTooBig", "node: 1\n" + kPort + "slots { port: 256 node: 5 }\n",
                "lab.textproto:3:9: slots[0].port is 256; it must be 0..255"},
        Refused{"NoDevice", "node: 1\nports { port: 0 }\n",
                "lab.textproto:2:1: ports[0] has no device; give it af_packet, af_xdp, tap, pcap, "
                "ring, "
                "memif or ethdev (or make it a slot)"},
        Refused{"NoMemifSocket", "node: 1\nports { memif { } }\n",
                "lab.textproto:2:9: ports[0].memif.socket is missing; give a path, as "
                "\"/run/mtlink/memif.sock\", or \"@name\""},
        Refused{"LongMemifSocket", with_memif("", std::string(108, 'x')),
                "lab.textproto:2:17: ports[0].memif.socket cannot be a socket's name; it has at "
                "most 107 bytes, none of them 0"},
        Refused{"LongMemifSecret", with_memif("secret: \"" + std::string(25, 's') + "\""),
                "lab.textproto:3:1: ports[0].memif.secret has 25 bytes; memif carries at most 24"},
        Refused{"RingOfAMemifServer", with_memif("ring_size: 512"),
                "lab.textproto:3:1: ports[0].memif.ring_size has no meaning for a SERVER, whose "
                "client makes the memory; leave it out"},
        Refused{"BuffersOfAMemifServer", with_memif("buffer_size: 512"),
                "lab.textproto:3:1: ports[0].memif.buffer_size has no meaning for a SERVER, whose "
                "client makes the memory; leave it out"},
        Refused{"BoundOfAMemifClient", with_memif("max_region_mib: 64 role: CLIENT"),
                "lab.textproto:3:1: ports[0].memif.max_region_mib has no meaning for a CLIENT, "
                "whose memory is its own; leave it out"},
        Refused{"NoMemifMemory", with_memif("max_region_mib: 0"),
                "lab.textproto:3:1: ports[0].memif.max_region_mib is 0; it must be 1..16384"},
        Refused{"OddMemifRing", with_memif("ring_size: 1000 role: CLIENT"),
                "lab.textproto:3:1: ports[0].memif.ring_size is 1000, not a power of two; take "
                "1024"},
        Refused{"LongMemifRing", with_memif("ring_size: 32768 role: CLIENT"),
                "lab.textproto:3:1: ports[0].memif.ring_size is 32768; it must be 64..16384"},
        Refused{"SmallMemifBuffer", with_memif("buffer_size: 32 role: CLIENT"),
                "lab.textproto:3:1: ports[0].memif.buffer_size is 32; it must be 64..65536"},
        Refused{"MemifRingForNoFrame", with_memif("buffer_size: 64 ring_size: 64 role: CLIENT"),
                "lab.textproto:3:1: ports[0].memif.buffer_size is 64: a ring of 64 holds no "
                "longest frame of 9030 bytes; make it larger, or lower mtu"},
        Refused{"MemifOfTooMuchMemory",
                with_memif("buffer_size: 65536 ring_size: 16384 role: CLIENT"),
                "lab.textproto:2:9: ports[0].memif takes 2148007936 bytes of shared memory; lower "
                "ring_size or buffer_size to less than 2000000000"},
        Refused{"MemifTwice", with_memif("") + "ports { port: 1 memif { socket: \"/s\" } }\n",
                "lab.textproto:5:17: ports[1].memif.id is 0, as that of ports[0], which has the "
                "same socket and role; give each an id of its own"},
        Refused{"MemifVlan", "node: 1\nports { memif { socket: \"/s\" }\nvlan: 5 }\n",
                "lab.textproto:3:1: ports[0].vlan has no place on memif, which has one peer; leave "
                "it out"},
        Refused{"DpdksMemif", "node: 1\nports { ethdev { devargs: \"net_memif0,id=0\" } }\n",
                "lab.textproto:2:18: ports[0].ethdev.devargs is a device of net_memif, which has a "
                "form of its own; write memif { socket: ... } instead"},
        Refused{"NoInterface", "node: 1\nports { af_packet { } }\n",
                "lab.textproto:2:9: ports[0].af_packet.interface is missing; name a Linux "
                "interface (`ip "
                "link` lists them)"},
        Refused{"InterfaceElsewhere", "node: 1\nports { af_packet { interface: \"eth9\" } }\n",
                "lab.textproto:2:21: ports[0].af_packet.interface cannot be used: there is no "
                "interface "
                "\"eth9\" here"},
        Refused{"InterfaceTooSmall", "node: 1\nports { af_packet { interface: \"tiny\" } }\n",
                "lab.textproto:2:21: ports[0].af_packet.interface is \"tiny\", whose frames of 90 "
                "bytes "
                "are too short for a link; raise its MTU to 80 or more"},
        Refused{"InterfaceTwice",
                "node: 1\n" + kPort + "ports { port: 1 af_packet { interface: \"va\" } }\n",
                "lab.textproto:3:1: ports[1] is on interface va, as ports[0] is, and nothing tells "
                "their frames apart; give each a vlan of its own, or both the peer_mac of their "
                "peers (P3)"},
        Refused{"OneOfTwoPeersUnknown",
                "node: 1\n" + kPort +
                    "ports { port: 1 peer_mac: \"02:00:00:00:00:01\" af_packet { interface: "
                    "\"va\" } }\n",
                "lab.textproto:3:1: ports[1] is on interface va, as ports[0] is, and nothing tells "
                "their frames apart; give each a vlan of its own, or both the peer_mac of their "
                "peers (P3)"},
        Refused{"DeviceTwice",
                "node: 1\nports { ethdev { devargs: \"net_null0\" } vlan: 5 }\n"
                "ports { port: 1 ethdev { devargs: \"net_null0\" } vlan: 5 }\n",
                "lab.textproto:3:1: ports[1] is on device net_null0, as ports[0] is, and nothing "
                "tells their frames apart; give each a vlan of its own, or both the peer_mac of "
                "their peers (P3)"},
        Refused{"Vlan", with_port("vlan: 4095"),
                "lab.textproto:3:1: ports[0].vlan is 4095; it must be 1..4094"},
        Refused{
            "SharedEtherType", shared_ports("", "ether_type: 0x88B6"),
            "lab.textproto:3:55: ports[1].ether_type differs from that of ports[0], which is on "
            "the same device; they must agree"},
        Refused{
            "SharedWorker", shared_ports("worker: 0", "worker: 1") + "runtime { cpus: [0, 1] }\n",
            "lab.textproto:3:55: ports[1].worker differs from that of ports[0], which is on the "
            "same device; a device has one worker: give both the same"},
        Refused{
            "SharedFrames",
            "node: 1\nports { port: 0 vlan: 5 af_packet { interface: \"va\" frames: 64 } }\n"
            "ports { port: 1 vlan: 6 af_packet { interface: \"va\" frames: 32 } }\n",
            "lab.textproto:3:53: ports[1].af_packet.frames differs from that of ports[0], which "
            "is on the same device; the interface has one pair of rings: give both the same"},
        Refused{"NoDevargs", "node: 1\nports { ethdev { } }\n",
                "lab.textproto:2:9: ports[0].ethdev.devargs is missing; name a device, as "
                "\"0000:03:00.0\""},
        Refused{"RingFrames", "node: 1\nports { af_packet { interface: \"va\" frames: 8 } }\n",
                "lab.textproto:2:37: ports[0].af_packet.frames is 8; it must be 16..65536"},
        Refused{
            "SameName", "node: 1\n" + kPort + "slots { port: 1 node: 5 name: \"p0\" }\n",
            "lab.textproto:3:25: slots[0].name is \"p0\", which ports[0] has; names must differ"},
        Refused{
            "PeerIsSelf", "node: 2\n" + kPort,
            "lab.textproto:2:47: ports[0].peer_node is 2, this node itself; name the other end"},
        Refused{"Worker", with_port("worker: 1"),
                "lab.textproto:3:1: ports[0].worker is 1, but there are 1 worker(s), counted from "
                "0; each "
                "entry of runtime.cpus makes one"},
        Refused{
            "MacSyntax", with_port("peer_mac: \"02:00:00:00:00\""),
            "lab.textproto:3:1: ports[0].peer_mac is \"02:00:00:00:00\"; an Ethernet address looks "
            "like 02:00:00:00:00:01"},
        Refused{"MacSigns", with_port("mac: \"02:00:00:00:00:-1\""),
                "lab.textproto:3:1: ports[0].mac is \"02:00:00:00:00:-1\"; an Ethernet address "
                "looks like "
                "02:00:00:00:00:01"},
        Refused{"MacGroup", with_port("mac: \"03:00:00:00:00:01\""),
                "lab.textproto:3:1: ports[0].mac is 03:00:00:00:00:01, which no single port can "
                "have (a "
                "group address, or zero)"},
        Refused{"SameMac", with_port("mac: \"02:00:00:00:00:01\" peer_mac: \"02:00:00:00:00:01\""),
                "lab.textproto:3:26: ports[0].peer_mac is our own mac; name the other end's"},
        Refused{
            "EtherTypeIsIp", with_port("ether_type: 0x0800"),
            "lab.textproto:3:1: ports[0].ether_type is 2048, which belongs to IPv4, ARP, IPv6 or a "
            "VLAN tag; leave it out for 0x88B5"},
        Refused{"EtherTypeIsLength", with_port("ether_type: 1500"),
                "lab.textproto:3:1: ports[0].ether_type is 1500; it must be 1536..65535"},
        Refused{
            "EdgeOfNobody", with_port("edge { partitions: 1 }"),
            "lab.textproto:3:1: ports[0].edge.nodes is empty: nobody could send; list the nodes "
            "behind the port"},
        Refused{"EdgePartition", with_port("edge { nodes: 2 partitions: 65536 }"),
                "lab.textproto:3:17: ports[0].edge.partitions[0] is 65536; it must be 0..65535"},
        Refused{
            "ImpairmentRate", with_port("impairment { drop_ppm: 1000001 }"),
            "lab.textproto:3:14: ports[0].impairment.drop_ppm is 1000001; it must be 0..1000000"},
        Refused{"ImpairmentDelay", with_port("impairment { delay_us: 60000001 }"),
                "lab.textproto:3:14: ports[0].impairment.delay_us is 60000001; it must be "
                "0..60000000"}),
    named);

INSTANTIATE_TEST_SUITE_P(
    Slots, NodeConfigRefuses,
    testing::Values(
        Refused{
            "NoNode", "node: 1\nslots { port: 0 }\n",
            "lab.textproto:2:1: slots[0].node is missing; give the endpoint's node id, 1..65534"},
        Refused{
            "OwnNode", "node: 1\nslots { node: 1 }\n",
            "lab.textproto:2:9: slots[0].node is 1, this node itself; an endpoint has an id of its "
            "own"},
        Refused{"SameNode", kSlots + "slots { port: 1 node: 5 }\n",
                "lab.textproto:3:17: slots[1].node is 5, which slots[0] has; each slot's endpoint "
                "has an "
                "id of its own"},
        Refused{"PartitionTwice", "node: 1\nslots { node: 5 partitions: [3, 3] }\n",
                "lab.textproto:2:17: slots[0].partitions[1] is 3, which is listed already"},
        Refused{
            "RingNotAPowerOfTwo", "node: 1\nslots { node: 5 ring_bytes: 70000 }\n",
            "lab.textproto:2:17: slots[0].ring_bytes is 70000, not a power of two; take 131072"},
        Refused{"RingTooSmall",
                "node: 1\nslots { node: 5 ring_bytes: 65536 link { mtu: 40000 } }\n",
                "lab.textproto:2:17: slots[0].ring_bytes is 65536, too little for two longest "
                "frames of "
                "40030 bytes; take 131072, or lower mtu"}),
    named);

INSTANTIATE_TEST_SUITE_P(
    Links, NodeConfigRefuses,
    testing::Values(
        Refused{"L6_Window", with_port("link { window: 20000 }"),
                "lab.textproto:3:8: ports[0].link.window is 20000; it must be 1..16384"},
        Refused{"L6_WindowZero", with_port("link { window: 0 }"),
                "lab.textproto:3:8: ports[0].link.window is 0; it must be 1..16384"},
        Refused{"SendWindow", with_port("link { send_window: 16385 }"),
                "lab.textproto:3:8: ports[0].link.send_window is 16385; it must be 1..16384"},
        Refused{"L6_Mtu", with_port("link { mtu: 63 }"),
                "lab.textproto:3:8: ports[0].link.mtu is 63; it must be 64..61410"},
        Refused{
            "MtuOfTheDevice", with_port("link { mtu: 1485 }"),
            "lab.textproto:3:8: ports[0].link.mtu is 1485, but interface va of ports[0] carries "
            "frames of 1514 bytes, so at most 1484 (30 less); lower it, or raise the device's MTU "
            "to "
            "1501"},
        Refused{"L6_Cell", with_port("link { cell: 0 }"),
                "lab.textproto:3:8: ports[0].link.cell is 0; it must be 1..65535"},
        Refused{"CapacityCount", with_port("link { capacity: [1, 2] }"),
                "lab.textproto:3:8: ports[0].link.capacity has 2 values; give one for all VCs, or "
                "eight"},
        Refused{
            "L6_CapacitySum", with_port("link { capacity: 4096 }"),
            "lab.textproto:3:8: ports[0].link.capacity comes to 32768 cells over the eight VCs; it "
            "must be 1..32767 (L6)"},
        Refused{"CapacityForAPacket", with_port("link { capacity: [5, 6, 6, 6, 6, 6, 6, 6] }"),
                "lab.textproto:3:8: ports[0].link.capacity gives VC 0 5 cells, but a packet of "
                "1484 bytes "
                "takes 6 of 256 bytes; give at least that (or 0 to close the VC), enlarge cell, or "
                "lower "
                "mtu"},
        Refused{
            "KeepaliveBelowDead", with_port("link { timers { keepalive_interval_us: 2000000 } }"),
            "lab.textproto:3:17: ports[0].link.timers.keepalive_interval_us is 2000000, not below "
            "dead_interval_us, which is 2000000; make it half of that or less"},
        Refused{"AckEvery", with_port("link { timers { ack_every: 0 } }"),
                "lab.textproto:3:17: ports[0].link.timers.ack_every is 0; it must be 1..16384"},
        Refused{"TimerZero", with_port("link { timers { nack_interval_us: 0 } }"),
                "lab.textproto:3:17: ports[0].link.timers.nack_interval_us is 0; it must be "
                "1..3600000000"}),
    named);

TEST(NodeConfig, AllProblemsAreToldAtOnceAndABadDefaultOnce) {
  EXPECT_EQ(
      error("node: 1\ndefaults { window: 0 }\n" + kPort +
            "slots { port: 1 node: 1 }\nslots { port: 2 node: 7 link { cell: 0 } }\n"),
      "lab.textproto:2:12: defaults.window is 0; it must be 1..16384\n"
      "lab.textproto:4:17: slots[0].node is 1, this node itself; an endpoint has an id of its own\n"
      "lab.textproto:5:32: slots[1].link.cell is 0; it must be 1..65535");
}

TEST(NodeConfig, ManyProblemsAreCutShort) {
  std::string text = "node: 1\n";
  for (int i = 0; i < 30; ++i) text += "slots { port: " + std::to_string(i) + " }\n";
  EXPECT_THAT(error(text), HasSubstr("\nlab.textproto: and 10 more"));
}

TEST(NodeConfig, ShortOfDeathKeepalivesAreAWarning) {
  const Plan plan = good(with_port("link { timers { keepalive_interval_us: 1500000 } }"));
  EXPECT_THAT(plan.warnings,
              ElementsAre(HasSubstr("ports[0].link.timers.keepalive_interval_us is more "
                                    "than half of dead_interval_us")));
}

TEST(NodeConfigRate, IsTakenWithEthernetsOverheadUnlessItSaysAnother) {
  const Plan plan = good(
      "node: 1\n"
      "ports { port: 0 af_packet { interface: \"va\" } peer_node: 2 rate { bps: 160000000 } }\n"
      "ports { port: 1 af_packet { interface: \"vb\" } peer_node: 2 }\n"
      "slots { port: 2 node: 9 rate { bps: 40000000 overhead: 0 } }\n");
  EXPECT_EQ(plan.ports[0].rate, (phy::PacerConfig{160'000'000, 24}));
  EXPECT_EQ(plan.ports[1].rate, std::nullopt);
  EXPECT_EQ(plan.ports[2].rate, (phy::PacerConfig{40'000'000, 0}));
  EXPECT_TRUE(plan.warnings.empty());
  EXPECT_EQ(good(with_port("rate { bps: 1000 }")).ports[0].rate->bits_per_second, 1'000u);
  EXPECT_EQ(good(with_port("rate { bps: 1000000000000 overhead: 255 }")).ports[0].rate,
            (phy::PacerConfig{1'000'000'000'000, 255}));
}

INSTANTIATE_TEST_SUITE_P(
    Rates, NodeConfigRefuses,
    testing::Values(
        Refused{"RateMissing", with_port("rate { }"),
                "lab.textproto:3:1: ports[0].rate.bps is 0; it must be 1000..1000000000000"},
        Refused{"RateTooLow", with_port("rate { bps: 999 }"),
                "lab.textproto:3:8: ports[0].rate.bps is 999; it must be 1000..1000000000000"},
        Refused{"RateTooHigh", with_port("rate { bps: 1000000000001 }"),
                "lab.textproto:3:8: ports[0].rate.bps is 1000000000001; it must be "
                "1000..1000000000000"},
        Refused{"OverheadTooLong", with_port("rate { bps: 1000 overhead: 256 }"),
                "lab.textproto:3:18: ports[0].rate.overhead is 256; it must be 0..255"}),
    named);

// The interface's longest frame has 1,514 bytes, with 24 beside it 12,304 bits: 20 ms at 615,200
// bit/s, 2 s at 6,152, 500 us at 24,608,000.
TEST(NodeConfigRate, AFrameLongerThanTheTimersIsAWarning) {
  const auto warnings = [](const std::string& fields) { return good(with_port(fields)).warnings; };
  EXPECT_THAT(warnings("rate { bps: 615201 }"), ElementsAre());
  EXPECT_THAT(warnings("rate { bps: 615200 }"),
              ElementsAre("lab.textproto:3:8: ports[0].rate.bps is 615200, at which a longest "
                          "frame (1514 bytes) takes the wire for 20000 us, not less than the "
                          "replay timeout, which is at most 20000 us: frames are sent again before "
                          "their acks can come; set adaptive: false and raise replay_timeout_us at "
                          "both ends to three times as much, lower mtu, or raise the rate"));
  EXPECT_THAT(warnings("rate { bps: 6152 }"),
              ElementsAre(HasSubstr("takes the wire for 2000000 us, not less than "
                                    "dead_interval_us, which is 2000000 us"),
                          HasSubstr("replay timeout")));
  const std::string fast = " link { timers { profile: FAST } }";
  EXPECT_THAT(warnings("rate { bps: 24608001 }" + fast), ElementsAre());
  EXPECT_THAT(warnings("rate { bps: 24608000 }" + fast),
              ElementsAre(HasSubstr("the replay timeout, which is 500 us")));
  EXPECT_THAT(warnings("rate { bps: 1000000 } link { timers { adaptive: false "
                       "replay_timeout_us: 40000 } }"),
              ElementsAre());
}

const std::string kNode = "node: 1\n" + kPort;

INSTANTIATE_TEST_SUITE_P(
    Routes, NodeConfigRefuses,
    testing::Values(
        Refused{"N3_Dst", kNode + "routes { dst: 0 tiers { hops { } } }\n",
                "lab.textproto:3:10: routes[0].dst is 0; it must be 1..65534"},
        Refused{"DstIsSelf", kNode + "routes { dst: 1 tiers { hops { } } }\n",
                "lab.textproto:3:10: routes[0].dst is 1, this node itself; leave the route out"},
        Refused{
            "DstTwice",
            kNode + "routes { dst: 2 tiers { hops { } } }\nroutes { dst: 2 tiers { hops { } } }\n",
            "lab.textproto:4:10: routes[1].dst is 2, which has a route already; merge both into "
            "one"},
        Refused{"NoTiers", kNode + "routes { dst: 2 }\n",
                "lab.textproto:3:1: routes[0].tiers has 0 entries; it must have 1..8"},
        Refused{
            "EmptyTier", kNode + "routes { dst: 2 tiers { } }\n",
            "lab.textproto:3:17: routes[0].tiers[0] has no hops; give one, or leave the tier out"},
        Refused{
            "N7_Port", kNode + "routes { dst: 2 tiers { hops { port: 1 } } }\n",
            "lab.textproto:3:32: routes[0].tiers[0].hops[0].port is 1, but the node has ports 0 "
            "only"},
        Refused{"N7_Raise", kNode + "routes { dst: 2 tiers { hops { raise: 2 } } }\n",
                "lab.textproto:3:32: routes[0].tiers[0].hops[0].raise is 2; it must be 0..1"},
        Refused{"Weight", kNode + "routes { dst: 2 tiers { hops { weight: 0 } } }\n",
                "lab.textproto:3:32: routes[0].tiers[0].hops[0].weight is 0; it must be 1..64"},
        Refused{"WeightSum", kNode + "routes { dst: 2 tiers { hops { weight: 64 } hops { } } }\n",
                "lab.textproto:3:17: routes[0].tiers[0] has more than 64 hops, weights counted; "
                "lower the "
                "weights"}),
    named);

INSTANTIATE_TEST_SUITE_P(
    Fabrics, NodeConfigRefuses,
    testing::Values(
        Refused{
            "NoShape", kNode + "fabric { nodes { node: 1 } nodes { node: 2 } }\n",
            "lab.textproto:3:1: fabric.shape is missing; it must be LINE, STAR, RING or FULL_MESH"},
        Refused{"Empty", kNode + "fabric { shape: LINE }\n",
                "lab.textproto:3:1: fabric.nodes is empty; list the switches in order"},
        Refused{"IdTwice", kNode + "fabric { shape: LINE nodes { node: 1 endpoints: [7, 1] } }\n",
                "lab.textproto:3:38: fabric.nodes[0].endpoints[1] is 1, which stands in the fabric "
                "already"},
        Refused{"N3_Id", kNode + "fabric { shape: LINE nodes { node: 65535 } }\n",
                "lab.textproto:3:30: fabric.nodes[0].node is 65535; it must be 1..65534"},
        Refused{"NotInIt", kNode + "fabric { shape: LINE nodes { node: 2 } nodes { node: 3 } }\n",
                "lab.textproto:3:1: fabric does not name this node, 1; add it to its nodes or to a "
                "node's "
                "endpoints"},
        Refused{
            "WrongNeighbour",
            kNode +
                "fabric { shape: LINE nodes { node: 1 } nodes { node: 3 } nodes { node: 2 } }\n",
            "lab.textproto:2:47: ports[0].peer_node is 2, which the fabric does not join to node "
            "1; "
            "its neighbours are: 3\n"
            "lab.textproto:3:1: fabric joins node 1 to node 3, but no port has it as peer_node and "
            "no "
            "slot as node; add one"},
        Refused{"PortWithoutPlace",
                kNode + "ports { port: 1 af_packet { interface: \"vb\" } }\n"
                        "fabric { shape: LINE nodes { node: 1 } nodes { node: 2 } }\n",
                "lab.textproto:4:1: fabric needs to know where port 1 leads; give it a peer_node"}),
    named);

TEST(NodeConfig, AnEndpointsOwnFileWorksToo) {
  // A node that hangs on switch 2 by a device of its own.
  const Plan plan =
      good("node: 9\n" + kPort +
           "fabric { shape: STAR nodes { node: 1 } nodes { node: 2 endpoints: 9 } }\n");
  EXPECT_EQ(plan.routes, (std::vector<Route>{{node(1), {{hop(0, 0)}}}, {node(2), {{hop(0, 0)}}}}));
}

TEST(NodeConfig, MoreMemoryThanTheMachineHasIsRefused) {
  EXPECT_THAT(error("node: 1\n" + kPort + "runtime { memory_mib: 8193 }\n"),
              StartsWith("lab.textproto:3:11: runtime.memory_mib is 8193 MiB, and this machine has "
                         "8192; leave it out for the "));
  // A million buffers of 2 KiB and their heads: 2.4 GiB. Ten millions: 24.
  good("node: 1\n" + kPort + "runtime { buffers: 1000000 }\n");
  EXPECT_THAT(error("node: 1\n" + kPort + "runtime { buffers: 10000000 }\n"),
              AllOf(StartsWith("lab.textproto:3:11: runtime.buffers is 10000000, which needs "),
                    HasSubstr(" MiB, and this machine has 8192; ")));
}

TEST(NodeConfig, LanesMayLetInTheSameInAnyOrder) {
  const auto lane = [](int port, const std::string& interface, const std::string& edge) {
    return "ports { port: " + std::to_string(port) + " af_packet { interface: \"" + interface +
           "\" } peer_node: 2 edge { " + edge + " } }\n";
  };
  good("node: 1\n" + lane(0, "va", "nodes: [2, 3] partitions: [1, 7]") +
       lane(1, "vb", "nodes: [3, 2] partitions: [7, 1]") + "trunks { ports: [0, 1] }\n");
}

TEST(NodeConfig, ALongListOfSlotsIsRefusedAtOnce) {
  std::string text = "node: 1\n";
  for (int i = 0; i < 257; ++i) text += "slots { port: 0 }\n";
  EXPECT_EQ(error(text), "lab.textproto: the node has 257 ports and slots; at most 256");
}

TEST(Host, KnowsItsCpusMemoryAndInterfaces) {
  const Host here = this_host();
  EXPECT_FALSE(here.cpus.empty());
  EXPECT_GT(here.memory_mib, 16U);
  const auto missing = here.longest_frame("no-such-if");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("there is no interface \"no-such-if\""));
}

// ---- Trunks and the choice of hops
// ---------------------------------------------------------------

/// Two ports to node 2 and one to node 3, slot 3 for node 5; lines 2 to 5.
const std::string kLanes =
    "node: 1\n"
    "ports { port: 0 af_packet { interface: \"va\" } peer_node: 2 }\n"
    "ports { port: 1 af_packet { interface: \"vb\" } peer_node: 2 }\n"
    "ports { port: 2 af_packet { interface: \"jumbo\" } peer_node: 3 link { mtu: 1484 } }\n"
    "slots { port: 3 node: 5 }\n";

TEST(Trunks, AreOneHopWithTheWeightOfItsLanes) {
  const Plan plan = good(kLanes +
                         "trunks { ports: [1, 0] spread: SHORTEST_QUEUE }\n"
                         "fabric { shape: LINE nodes { node: 2 } nodes { node: 1 endpoints: 5 } "
                         "nodes { node: 3 } }\n");
  ASSERT_EQ(plan.trunks.size(), 1U);
  EXPECT_EQ(plan.trunks[0].name, "trunk1");
  EXPECT_THAT(plan.node.trunks[0].lanes, ElementsAre(PortId(1), PortId(0)));
  EXPECT_EQ(plan.node.trunks[0].spread, network::Spread::kShortestQueue);
  for (const Route& route : plan.routes) {
    if (route.dst != node(2)) continue;
    EXPECT_THAT(route.tiers, ElementsAre(ElementsAre(hop(1, 0), hop(1, 0))));
  }
  EXPECT_EQ(deadlock_check(plan, plan.routes), DeadlockCheck::kProved);
  EXPECT_THAT(describe(plan),
              HasSubstr("trunk trunk1: ports 1 0, spread shortest_queue, worker 0"));
  EXPECT_TRUE(plan.warnings.empty()) << testing::PrintToString(plan.warnings);
}

TEST(Trunks, AreMeantByRoutesByHandAndBySetOnesThatNameALane) {
  const Plan plan = good(kLanes +
                         "trunks { name: \"up\" ports: [0, 1] }\n"
                         "routes { dst: 2 tiers { hops { port: 1 } } }\n");
  EXPECT_EQ(plan.node.trunks[0].spread, network::Spread::kFlow);
  EXPECT_THAT(plan.routes[0].tiers, ElementsAre(ElementsAre(hop(0, 0))));
  mtlink::config::Routes routes;
  auto& route = *routes.add_routes();
  route.set_dst(2);
  route.add_tiers()->add_hops()->set_port(1);
  const auto set = plan_routes(routes, plan, plan.routes);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_THAT((*set)[0].tiers, ElementsAre(ElementsAre(hop(0, 0))));
  EXPECT_EQ(deadlock_check(plan, *set), DeadlockCheck::kNotNeeded);
}

TEST(Trunks, HaveOneWorkerWithAllThatSharesTheirDevices) {
  const auto shards = [](const Plan& plan) {
    std::vector<unsigned> out;
    for (const auto& port : plan.node.ports) out.push_back(port.shard.value());
    return out;
  };
  const std::string runtime = "runtime { cpus: [0, 1] }\ntrunks { ports: [0, 1] }\n";
  EXPECT_THAT(shards(good(kLanes + runtime)), ElementsAre(0U, 0U, 0U, 1U));
  std::string given = kLanes;
  given.insert(given.find(" }\nports { port: 2"), " worker: 1");
  // Those that nobody names are dealt by turns, port 0 among them before it joins port 1.
  EXPECT_THAT(shards(good(given + runtime)), ElementsAre(1U, 1U, 1U, 0U));
  // Ports 0 and 1 are on one interface, 1 and 2 in one trunk.
  const std::string shared =
      "ports { port: 2 af_packet { interface: \"vb\" } peer_node: 2 }\n"
      "runtime { cpus: [0, 1] }\ntrunks { ports: [1, 2] }\n";
  const Plan plan = good(shared_ports("worker: 1", "peer_node: 2") + shared);
  EXPECT_THAT(shards(plan), ElementsAre(1U, 1U, 1U));
  for (const PortPlan& port : plan.ports) EXPECT_EQ(port.first_of_worker_group, PortId(0));
  EXPECT_EQ(good(kLanes + runtime).ports[2].first_of_worker_group, PortId(2));
}

TEST(Trunks, WhoseLanesDifferInMtuAreWarnedOf) {
  std::string text = kLanes;
  text.replace(text.find("peer_node: 3 link"), 12, "peer_node: 2");
  text.replace(text.find("mtu: 1484"), 9, "mtu: 8000");
  const Plan plan = good(text + "trunks { ports: [0, 2] }\n");
  EXPECT_THAT(plan.warnings,
              ElementsAre("lab.textproto:6:10: trunks[0].ports[1] is port 2, which has an mtu of "
                          "8000, but port 0 one of 1484: the trunk carries what its shortest lane "
                          "does"));
}

TEST(HopChoice, IsByHashUnlessItIsSaid) {
  EXPECT_EQ(good(kLanes).node.hop_choice, network::HopChoice::kHash);
  EXPECT_EQ(good(kLanes + "hop_choice: HASH\n").node.hop_choice, network::HopChoice::kHash);
  EXPECT_EQ(good(kLanes + "hop_choice: SHORTEST_QUEUE\n").node.hop_choice,
            network::HopChoice::kShortestQueue);
}

INSTANTIATE_TEST_SUITE_P(
    Trunks, NodeConfigRefuses,
    testing::Values(
        Refused{"TrunkOfOne", kLanes + "trunks { ports: 0 }\n",
                "lab.textproto:6:10: trunks[0].ports has 1 entries; a trunk has 2..16 lanes (one "
                "port alone needs no trunk)"},
        Refused{"TrunkOfNothing", kLanes + "trunks { name: \"up\" }\n",
                "lab.textproto:6:1: trunks[0].ports has 0 entries; a trunk has 2..16 lanes (one "
                "port alone needs no trunk)"},
        Refused{"TrunkPort", kLanes + "trunks { ports: [0, 1, 4] }\n",
                "lab.textproto:6:10: trunks[0].ports[2] is 4, but the node has ports 0..3 only"},
        Refused{"TrunkSlot", kLanes + "trunks { ports: [0, 3] }\n",
                "lab.textproto:6:10: trunks[0].ports[1] is 3, a slot, which has one link; leave it "
                "out"},
        Refused{"TrunkTwice", kLanes + "trunks { ports: [0, 1] }\ntrunks { ports: [1, 0] }\n",
                "lab.textproto:7:10: trunks[1].ports[0] is 1, which is a lane already, by "
                "trunks[0].ports[1]; a port is in one trunk, once\n"
                "lab.textproto:7:10: trunks[1].ports[1] is 0, which is a lane already, by "
                "trunks[0].ports[0]; a port is in one trunk, once"},
        Refused{"TrunkPeers", kLanes + "trunks { ports: [0, 2] }\n",
                "lab.textproto:6:10: trunks[0].ports[1] is port 2, which leads to node 3, but port "
                "0 to node 2; all lanes of a trunk lead to one node"},
        Refused{"TrunkPeerUnknown",
                "node: 1\n" + kPort + "ports { port: 1 af_packet { interface: \"vb\" } }\n" +
                    "trunks { ports: [0, 1] }\n",
                "lab.textproto:4:10: trunks[0].ports[1] is port 1, which has no peer_node; all "
                "lanes of a trunk lead to one node: give the port that of the others"},
        Refused{"TrunkEdge",
                "node: 1\n" + kPort +
                    "ports { port: 1 af_packet { interface: \"vb\" } peer_node: 2 edge { nodes: 2 "
                    "} }\ntrunks { ports: [0, 1] }\n",
                "lab.textproto:4:10: trunks[0].ports[1] is port 1, which lets others in (edge) "
                "than port 0; give all lanes of a trunk the same edge, or none"},
        Refused{"TrunkName", kLanes + "trunks { name: \"a b\" ports: [0, 1] }\n",
                "lab.textproto:6:10: trunks[0].name is \"a b\"; a name has 1 to 64 letters, "
                "digits, '.', '_' or '-'"},
        Refused{
            "TrunkWorkers",
            "node: 1\n"
            "ports { port: 0 af_packet { interface: \"va\" } peer_node: 2 worker: 0 }\n"
            "ports { port: 1 af_packet { interface: \"vb\" } peer_node: 2 worker: 1 }\n"
            "runtime { cpus: [0, 1] }\ntrunks { ports: [0, 1] }\n",
            "lab.textproto:5:1: trunks[0] joins port 1 with port 0 (and those on their devices), "
            "but one has worker 1 and the other 0; the lanes of a trunk have one worker: give "
            "both the same"}),
    named);

}  // namespace
}  // namespace mtl::switchd
