// What a topology file may say, and how it is told what is wrong.
#include "topology/graph.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "topology/fabric_builder.h"

namespace mtl::topology {
namespace {

constexpr std::uint64_t kG = 1'000'000'000;

/// Two endpoints on a switch of three ports.
FabricBuilder star() {
  FabricBuilder out;
  out.topology().set_name("star");
  const auto a = out.endpoint("a");
  const auto b = out.endpoint("b");
  const auto s = out.switch_node("s", 1, 3);
  out.join(a, s, 2, 100 * kG);
  out.join(b, s, 1, 100 * kG);
  return out;
}

/// The one fault of a topology: "path what".
std::string fault(const mtlink::topology::Topology& topology) {
  const auto built = Graph::build(topology);
  const auto* faults = std::get_if<std::vector<Fault>>(&built);
  if (faults == nullptr) return {};
  std::string all;
  for (const Fault& f : *faults) all += f.path + " " + f.what + "\n";
  return all;
}

TEST(Graph, IndexesNodesAndLinks) {
  auto star_fabric = star();
  const auto built = Graph::build(star_fabric.topology());
  const auto& graph = std::get<Graph>(built);
  EXPECT_EQ(graph.nodes(), 3U);
  EXPECT_EQ(graph.links(), 2U);
  EXPECT_EQ(graph.endpoints(), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_FALSE(graph.node(0).transit);
  EXPECT_TRUE(graph.node(2).transit);
  ASSERT_EQ(graph.outs(2).size(), 2U);
  EXPECT_EQ(graph.outs(2)[1].to, 1U);
  EXPECT_EQ(graph.outs(0)[0].bps, 200 * kG);
  EXPECT_EQ(graph.describe(1, graph.outs(1)[0]), "b port 0 -> s port 1");
  EXPECT_EQ(graph.find(NodeId(3)), 2U);
  EXPECT_EQ(graph.find(NodeId(4)), 3U);
}

TEST(Graph, PortsWithGapsKeepTheirNumbers) {
  auto fabric = star();
  fabric.topology().mutable_links(0)->mutable_b()->set_port(2);
  fabric.topology().mutable_links(1)->mutable_b()->set_port(0);
  const auto built = Graph::build(fabric.topology());
  const auto& graph = std::get<Graph>(built);
  EXPECT_EQ(graph.outs(2)[0].to, 1U);
  EXPECT_EQ(graph.outs(2)[1].to, 0U);
  EXPECT_EQ(graph.outs(2)[1].port, PortId(2));
  // The way back from each link's far end is that link.
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    for (const auto& out : graph.outs(n)) EXPECT_EQ(graph.outs(out.to)[out.back].to, n);
  }
}

TEST(Graph, RefusesTwoCablesOnAPort) {
  auto fabric = star();
  fabric.topology().mutable_links(1)->mutable_b()->set_port(0);
  EXPECT_EQ(
      fault(fabric.topology()),
      "links[1].b is s port 0, where links[0] ends already: two cables do not fit a port; give "
      "this one a free port\n");
}

TEST(Graph, RefusesAPortBeyondTheRadix) {
  auto fabric = star();
  fabric.topology().mutable_links(1)->mutable_b()->set_port(3);
  EXPECT_EQ(fault(fabric.topology()),
            "links[1].b.port is 3, but s has 3 ports, numbered from 0; the last is 2\n");
}

TEST(Graph, RefusesMoreLanesThanTheNodeHas) {
  auto fabric = star();
  fabric.lanes(0, 1);
  EXPECT_EQ(
      fault(fabric.topology()),
      "nodes[0].lanes is 1, but the links of a bundle 2 lanes: 2 - 1 = 1 too many; take lanes "
      "or links away\n");
}

TEST(Graph, RefusesNamesAndIdsGivenTwice) {
  auto fabric = star();
  fabric.topology().mutable_nodes(1)->set_name("a");
  EXPECT_EQ(fault(fabric.topology()),
            "nodes[1].name is \"a\", which nodes[0] is called; names must differ\n");
  fabric.topology().mutable_nodes(1)->set_name("b");
  fabric.topology().mutable_nodes(1)->set_node(1);
  EXPECT_NE(fault(fabric.topology()).find("nodes[1].node is 1, which a (nodes[0]) has"),
            std::string::npos);
}

TEST(Graph, RefusesUnknownNodesAndLoops) {
  auto fabric = star();
  fabric.topology().mutable_links(0)->mutable_a()->set_node(9);
  EXPECT_NE(fault(fabric.topology()).find("links[0].a.node is 9, which no entry of nodes has"),
            std::string::npos);
  fabric.topology().mutable_links(0)->mutable_a()->set_node(3);
  fabric.topology().mutable_links(0)->mutable_a()->set_port(2);
  EXPECT_NE(fault(fabric.topology()).find("links[0] joins s to itself"), std::string::npos);
}

TEST(Graph, RefusesWhatDoesNotHangTogether) {
  auto fabric = star();
  const auto c = fabric.endpoint("c");
  const auto d = fabric.endpoint("d");
  fabric.join(c, d, 1, kG);
  EXPECT_EQ(
      fault(fabric.topology()),
      "nodes[3] c has no way to a: of 5 nodes 3 hang together, 2 do not; join them by links\n");
}

TEST(Graph, RefusesMissingRolesRatesAndLinks) {
  auto fabric = star();
  fabric.topology().mutable_nodes(0)->set_role(mtlink::topology::Node::ROLE_UNSPECIFIED);
  EXPECT_EQ(fault(fabric.topology()), "nodes[0].role is missing; it must be ENDPOINT or SWITCH\n");
  fabric = star();
  fabric.topology().mutable_links(0)->set_bps(0);
  EXPECT_EQ(fault(fabric.topology()),
            "links[0].bps is missing; say how many bits per second it carries\n");
  fabric = star();
  fabric.endpoint("lonely");
  EXPECT_EQ(fault(fabric.topology()),
            "nodes[3] lonely has no link; join it to the fabric or take it out\n");
  EXPECT_NE(fault({}).find("nodes is empty"), std::string::npos);
}

TEST(Graph, HoldsFieldsToTheirRanges) {
  auto fabric = star();
  fabric.topology().mutable_links(0)->set_mtu(61411);
  fabric.topology().mutable_links(1)->set_lanes(65);
  fabric.topology().mutable_nodes(2)->set_ports(5000);
  const std::string all = fault(fabric.topology());
  EXPECT_NE(all.find("links[0].mtu is 61411; it must be 64..61410"), std::string::npos) << all;
  EXPECT_NE(all.find("links[1].lanes is 65; it must be 1..64"), std::string::npos) << all;
  EXPECT_NE(all.find("nodes[2].ports is 5000; it must be 1..4096"), std::string::npos) << all;
}

TEST(Graph, HoldsRatesAndNamesOfGroupsToTheirRanges) {
  auto fabric = star();
  fabric.topology().mutable_links(0)->set_bps(1'000'000'000'000'001);
  fabric.group("a\nb", {});
  const std::string all = fault(fabric.topology());
  EXPECT_NE(all.find("links[0].bps is 1000000000000001; it must be 1..1000000000000000"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("groups[0].name is \"a\nb\"; it must have 1 to 64"), std::string::npos) << all;
}

TEST(Graph, SaysHowManyFaultsItDoesNotTell) {
  auto fabric = star();
  for (int i = 0; i < 150; ++i) fabric.endpoint("lonely" + std::to_string(i));
  const std::string all = fault(fabric.topology());
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 101);
  EXPECT_NE(all.find("and 50 faults more\n"), std::string::npos) << all;
}

TEST(Graph, HasAtMost262144Links) {
  auto fabric = star();
  for (int i = fabric.topology().links_size(); i < 262'145; ++i) fabric.topology().add_links();
  EXPECT_EQ(fault(fabric.topology()),
            "links has 262145 entries, 262145 - 262144 = 1 more than a fabric may have\n");
}

TEST(Graph, RatesReadAsTheyAreGiven) {
  EXPECT_EQ(rate_text(1'600 * kG), "1.6T");
  EXPECT_EQ(rate_text(400 * kG), "400G");
  EXPECT_EQ(rate_text(999), "999");
}

}  // namespace
}  // namespace mtl::topology
