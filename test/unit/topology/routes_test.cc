// Routes of whole fabrics. Expected numbers are worked out by hand or by the walks below, which
// know nothing but the routes that come out (N7), node by node.
#include "topology/routes.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "topology/cycle.h"
#include "topology/deadlock.h"
#include "topology/fabric_builder.h"
#include "topology/generate.h"
#include "topology/load.h"
#include "topology/reach.h"
#include "topology/shapes.h"
#include "topology/stamp.h"
#include "topology/survey.h"

namespace mtl::topology {
namespace {

using network::Route;
using network::Tier;

constexpr std::uint64_t kG = 1'000'000'000;

std::shared_ptr<const Graph> graph_of(const mtlink::topology::Topology& topology) {
  auto built = Graph::build(topology);
  if (auto* faults = std::get_if<std::vector<Fault>>(&built)) {
    ADD_FAILURE() << faults->front().path << " " << faults->front().what;
    return nullptr;
  }
  return std::make_shared<const Graph>(std::get<Graph>(std::move(built)));
}

Wanted wanted(const std::string& topology, std::uint32_t gpus) {
  Wanted w;
  w.topology = topology;
  if (gpus != 0) w.gpu_count = gpus;
  return w;
}

std::shared_ptr<const Graph> fabric(const Wanted& w) {
  const auto made = generate(w);
  if (!made) {
    ADD_FAILURE() << made.error().message;
    return nullptr;
  }
  return graph_of(*made);
}

std::shared_ptr<const Graph> sized(const std::string& topology, std::vector<std::uint32_t> size) {
  Wanted w = wanted(topology, 0);
  if (size.size() > 4) w.bandwidth = kG * 16 * 200;
  w.size = std::move(size);
  return fabric(w);
}

std::shared_ptr<const Graph> clos(std::uint32_t gpus, std::uint32_t radix, std::uint32_t levels) {
  Wanted w = wanted("clos", gpus);
  w.radix = radix;
  w.levels = levels;
  return fabric(w);
}

std::shared_ptr<const Graph> dragonfly(std::uint32_t hosts, std::uint32_t groups) {
  Wanted w = wanted("dragonfly", 0);
  w.hosts = hosts;
  w.groups = groups;
  return fabric(w);
}

/// Walks of packets for one destination over the routes as nodes have them, a link dead or none.
class Walker {
 public:
  Walker(const Routes& routes, std::size_t dst, std::size_t dead)
      : routes_(routes), graph_(routes.graph()), dst_(dst), dead_(dead) {}

  /// Whether a packet surely arrives from here, whichever usable hop of the first tier that has one
  /// is drawn (N7, N8).
  bool arrives(std::size_t at, unsigned layer) {
    if (at == dst_) return true;
    const auto [known, fresh] = known_.emplace(std::pair(at, layer), false);
    if (!fresh) return known->second;  // false while it is open: a circle
    bool good = false;
    for (const Tier& tier : routes_.route(at, dst_).tiers) {
      bool any = false;
      bool all = true;
      for (const auto& hop : tier) {
        const auto& out = out_of(at, hop.port);
        if (layer + hop.raise > 3 || out.link == dead_) continue;
        any = true;
        // What is no way for others ends here.
        all = all && (out.to == dst_ || graph_.node(out.to).transit) &&
              arrives(out.to, layer + hop.raise);
      }
      if (!any) continue;
      good = all;
      break;
    }
    known_[{at, layer}] = good;
    return good;
  }

 private:
  const Graph::Out& out_of(std::size_t node, PortId port) const {
    for (const auto& out : graph_.outs(node)) {
      if (out.port == port) return out;
    }
    throw std::logic_error("a route names a port without a link");
  }
  const Routes& routes_;
  const Graph& graph_;
  std::size_t dst_;
  std::size_t dead_;
  std::map<std::pair<std::size_t, unsigned>, bool> known_;
};

constexpr std::size_t kNoLink = ~std::size_t{0};

/// From every node that has packets of its own, switches with their echoes too, to every endpoint
/// that it has a way to.
bool all_arrive(const Routes& routes, std::size_t dead = kNoLink) {
  for (const std::uint32_t dst : routes.graph().endpoints()) {
    Walker walker(routes, dst, dead);
    for (std::size_t src = 0; src < routes.graph().nodes(); ++src) {
      if (src == dst || routes.distance_between(src, dst) == Routes::kFar) continue;
      if (!walker.arrives(src, 0)) return false;
    }
  }
  return true;
}

std::vector<std::pair<std::string, std::shared_ptr<const Graph>>> small_fabrics() {
  Wanted flat = wanted("flat", 6);
  flat.planes = 4;
  Wanted rail = wanted("rail", 16);
  rail.rails = 4;
  rail.radix = 16;
  Wanted tree = wanted("tree", 9);
  tree.radix = 4;
  return {{"fc8", fabric(wanted("fc8", 8))},
          {"mesh of 3", fabric(wanted("mesh", 3))},
          {"mesh of 2", fabric(wanted("mesh", 2))},
          {"ring of 5", fabric(wanted("ring", 5))},
          {"ring of 6", fabric(wanted("ring", 6))},
          {"double ring", fabric(wanted("double-ring", 6))},
          {"tree", fabric(tree)},
          {"flat", fabric(flat)},
          {"clos 2", clos(16, 8, 2)},
          {"clos 3", clos(16, 4, 3)},
          {"torus 4x4", sized("torus", {4, 4})},
          {"torus 5x4x2", sized("torus", {5, 4, 2})},
          {"torus 3x3", sized("torus", {3, 3})},
          {"torus 4x3x4", sized("torus", {4, 3, 4})},
          {"6-dimensional torus", sized("torus", {4, 2, 4, 2, 3, 2})},
          {"torus of 4 short dimensions", sized("torus", {3, 3, 3, 3})},
          {"mesh 3x3", sized("mesh-nd", {3, 3})},
          {"mesh 2x3x4", sized("mesh-nd", {2, 3, 4})},
          {"dragonfly", dragonfly(1, 3)},
          {"dragonfly of 9 groups", dragonfly(2, 9)},
          {"rail", fabric(rail)},
          {"dgx-h100", fabric(wanted("dgx-h100", 0))},
          {"tpu-v4-cube", fabric(wanted("tpu-v4-cube", 0))},
          {"power6-595", fabric(wanted("power6-595", 0))}};
}

TEST(Routes, N10_EveryFabricIsFreeOfDeadlockAndEverybodyArrives) {
  for (const auto& [what, graph] : small_fabrics()) {
    const auto routes = make_routes(graph);
    ASSERT_TRUE(routes) << what << ": " << routes.error().message;
    EXPECT_FALSE(find_cycle(routes->tables())) << what;
    EXPECT_TRUE(all_arrive(*routes)) << what;
    const Reach reach = measure_reach(*routes);
    EXPECT_EQ(reach.lost, 0U) << what << " " << reach.example;
  }
}

// The tables that mtswitchd makes of `fabric {}` and those of the tool are the same, hop for hop.
TEST(Routes, AreThoseThatNodesMakeOfTheirShape) {
  for (const bool ring : {false, true}) {
    for (std::uint32_t n = 4; n <= 9; ++n) {
      const auto graph = fabric(wanted(ring ? "ring" : "mesh", n));
      const auto routes = make_routes(graph);
      ASSERT_TRUE(routes);
      const Fabric shape = make_fabric(ring ? Shape::kRing : Shape::kFullMesh, n, 0);
      for (std::size_t node = 0; node < n; ++node) {
        std::vector<PortPeer> ports;
        for (const auto& out : graph->outs(node))
          ports.push_back({out.port, graph->node(out.to).id});
        auto theirs = *fabric_routes(shape, graph->node(node).id, ports);
        for (Route& route : theirs) {
          for (Tier& tier : route.tiers) {
            if (ring)
              std::sort(tier.begin(), tier.end(), [](auto a, auto b) { return a.port < b.port; });
          }
        }
        EXPECT_EQ(routes->of(node), theirs) << (ring ? "ring" : "mesh") << " of " << n;
      }
    }
  }
}

TEST(Routes, OfATwoLevelClosGoUpToAnySpineAndDown) {
  // Radix 4: leaves of 2 + 2 ports; 4 leaves, so 2 spines. gpu0 and gpu1 on leaf0.
  const auto graph = clos(8, 4, 2);
  const auto routes = make_routes(graph);
  ASSERT_TRUE(routes);
  EXPECT_EQ(routes->engine(), Engine::kLevels);
  const std::size_t leaf0 = 8, spine0 = 12;
  ASSERT_EQ(graph->node(leaf0).name, "leaf0");
  ASSERT_EQ(graph->node(spine0).name, "spine0");
  // gpu0: its only port. leaf0: ports 0, 1 down, 2, 3 up.
  EXPECT_EQ(routes->route(0, 7).tiers.size(), 1U);
  EXPECT_EQ(routes->route(leaf0, 1).tiers, (std::vector<Tier>{{{PortId(1), 0}}}));
  const auto up = routes->route(leaf0, 7).tiers;
  ASSERT_EQ(up.size(), 1U);
  ASSERT_EQ(up[0].size(), 2U);
  EXPECT_EQ(up[0][0].port, PortId(2));
  EXPECT_EQ(up[0][1].port, PortId(3));
  // spine0: down to leaf3; if that link is dead, down to another leaf, whose way up is a new layer.
  const auto down = routes->route(spine0, 7).tiers;
  ASSERT_EQ(down.size(), 2U);
  EXPECT_EQ(down[0], (Tier{{PortId(3), 0}}));
  EXPECT_EQ(down[1].size(), 3U);
  EXPECT_EQ(up[0][0].raise, 1);
}

TEST(Routes, WeighHopsByRate) {
  // Two ways of two links each; the upper is three times as fast.
  FabricBuilder out;
  out.topology().set_name("uneven");
  const auto a = out.endpoint("a");
  const auto b = out.endpoint("b");
  const auto s = out.switch_node("s", 1);
  const auto t = out.switch_node("t", 1);
  const auto fast = out.switch_node("fast", 2);
  const auto slow = out.switch_node("slow", 2);
  out.join(a, s, 4, kG);
  out.join(b, t, 4, kG);
  out.join(s, fast, 3, kG);
  out.join(s, slow, 1, kG);
  out.join(t, fast, 3, kG);
  out.join(t, slow, 1, kG);
  const auto routes = make_routes(graph_of(out.topology()));
  ASSERT_TRUE(routes);
  const Tier tier = routes->route(s, b).tiers.front();
  ASSERT_EQ(tier.size(), 4U);
  EXPECT_EQ(std::count_if(tier.begin(), tier.end(), [](auto h) { return h.port == PortId(1); }), 3);
}

TEST(Routes, SingleFailuresAreJudgedAsBruteForceDoes) {
  for (const auto& [what, graph] : small_fabrics()) {
    if (graph->links() > 100) continue;
    const auto routes = make_routes(graph);
    ASSERT_TRUE(routes);
    std::size_t survived = 0;
    for (std::size_t link = 0; link < graph->links(); ++link) {
      survived += all_arrive(*routes, link) ? 1 : 0;
    }
    const Survey survey = survey_failures(*routes, graph->links());
    EXPECT_EQ(survey.inner.tried + survey.outer.tried, graph->links()) << what;
    EXPECT_EQ(survey.inner.survived + survey.outer.survived, survived) << what;
  }
}

TEST(Survey, TellsWhatTiersSurvive) {
  const auto survey = [](const std::shared_ptr<const Graph>& graph) {
    return survey_failures(*make_routes(graph), 1000);
  };
  // Each joined to each: any other node stands in.
  EXPECT_EQ(survey(fabric(wanted("fc8", 8))).inner.survived, 28U);
  // A ring's nodes would send packets back to where they came from; two rings have a spare link.
  EXPECT_EQ(survey(fabric(wanted("ring", 5))).inner.new_tables, 5U);
  EXPECT_EQ(survey(fabric(wanted("double-ring", 5))).inner.survived, 10U);
  // A tree has one way.
  Wanted tree = wanted("tree", 9);
  tree.radix = 4;
  const Survey cut = survey(fabric(tree));
  EXPECT_EQ(cut.inner.cut_off, cut.inner.tried);
  EXPECT_EQ(cut.outer.cut_off, 9U);
}

struct Known {
  std::string what;
  std::shared_ptr<const Graph> graph;
  std::uint32_t diameter;
  std::uint64_t bisection;
};

TEST(Reach, DiametersAndBisectionsAreThoseOfTheTextbook) {
  const std::uint64_t link = 200 * kG;  // a lane each, but where said
  const std::vector<Known> all{
      {"fc8", fabric(wanted("fc8", 8)), 1, 16 * link},
      {"ring of 7, 4 lanes a link", fabric(wanted("ring", 7)), 3, link * 2 * 4},
      {"torus 4x4, 2 lanes a link", sized("torus", {4, 4}), 4, link * 8 * 2},
      {"mesh 4x4, 2 lanes a link", sized("mesh-nd", {4, 4}), 6, link * 4 * 2},
      {"tpu cube, 400G", fabric(wanted("tpu-v4-cube", 0)), 6, kG * 2 * 16 * 400},
      {"nvl72", fabric(wanted("nvl72", 0)), 2, kG * 36 * 18 * 400},
      {"clos, nothing oversubscribed", clos(16, 8, 2), 4, link * 8 * 8},
      {"fat-tree of 4 ports", clos(16, 4, 3), 6, link * 8 * 8},
      {"dragonfly", dragonfly(2, 9), 5, 0}};
  for (const Known& known : all) {
    const auto routes = make_routes(known.graph);
    ASSERT_TRUE(routes) << known.what;
    EXPECT_EQ(measure_reach(*routes).diameter, known.diameter) << known.what;
    if (known.bisection == 0) continue;
    EXPECT_EQ(bisection(*known.graph), known.bisection) << known.what;
  }
}

TEST(Reach, CountsWays) {
  // Corner to corner of a 3x3 mesh: both coordinates rise, 4 choose 2 ways; from the other corner
  // one falls and is gone through first: one way.
  const Reach mesh = measure_reach(*make_routes(sized("mesh-nd", {3, 3})));
  EXPECT_EQ(mesh.fewest_ways, 1);
  EXPECT_EQ(mesh.most_ways, 6);
  EXPECT_EQ(mesh.longest, 4U);
  // A fat-tree of 4-port switches: (4 / 2)^2 ways between pods, 1 on one leaf.
  const Reach tree = measure_reach(*make_routes(clos(16, 4, 3)));
  EXPECT_EQ(tree.fewest_ways, 1);
  EXPECT_EQ(tree.most_ways, 4);
  // An endpoint's second port is the longer way: e - far - near - f, three links instead of two.
  FabricBuilder two;
  two.topology().set_name("two");
  const auto e = two.endpoint("e");
  const auto f = two.endpoint("f");
  const auto near = two.switch_node("near", 1);
  const auto far = two.switch_node("far", 2);
  two.join(e, near, 1, kG);
  two.join(e, far, 1, kG);
  two.join(f, near, 1, kG);
  two.join(near, far, 1, kG);
  const Reach ports = measure_reach(*make_routes(graph_of(two.topology())));
  EXPECT_EQ(ports.diameter, 2U);
  EXPECT_EQ(ports.most_ways, 1);
  EXPECT_EQ(ports.longest, 3U);
  // Straight, or at most two detours (three raises).
  const Reach fc8 = measure_reach(*make_routes(fabric(wanted("fc8", 8))));
  EXPECT_EQ(fc8.longest, 3U);
  EXPECT_EQ(fc8.hop_limit(), 16U);
  // Links to and from each chip: 5 x 5 + 4 x 4 + 4 x 4 + 5 x 5.
  const Reach dgx = measure_reach(*make_routes(fabric(wanted("dgx-h100", 0))));
  EXPECT_EQ(dgx.fewest_ways, 82);
  EXPECT_EQ(dgx.most_ways, 82);
}

/// Ways of packets for one destination by the first tiers, over the routes as nodes have them.
struct Ways {
  double mean = 0;  ///< links
  std::uint32_t most = 0;
  double count = 0;
};
class FirstTierWays {
 public:
  FirstTierWays(const Routes& routes, std::size_t dst) : routes_(routes), dst_(dst) {}
  Ways from(std::size_t at) {
    if (at == dst_) return {0, 0, 1};
    const auto [known, fresh] = known_.emplace(at, Ways{});
    if (!fresh) return known->second;
    const Graph& graph = routes_.graph();
    Ways ways;
    std::set<PortId> ports;
    const Tier tier = routes_.route(at, dst_).tiers.front();
    for (const auto& hop : tier) {
      for (const auto& out : graph.outs(at)) {
        if (out.port != hop.port) continue;
        const Ways on = from(out.to);
        ways.mean += (1 + on.mean) / static_cast<double>(tier.size());
        ways.most = std::max(ways.most, 1 + on.most);
        if (ports.insert(hop.port).second) ways.count += on.count;
      }
    }
    return known_[at] = ways;
  }

 private:
  const Routes& routes_;
  std::size_t dst_;
  std::map<std::size_t, Ways> known_;
};

/// Reach by walking from every endpoint to every other.
Reach walked(const Routes& routes) {
  Reach reach;
  double pairs = 0;
  reach.fewest_ways = 1e300;
  for (const std::uint32_t dst : routes.graph().endpoints()) {
    FirstTierWays to(routes, dst);
    for (const std::uint32_t src : routes.graph().endpoints()) {
      if (src == dst) continue;
      const Ways ways = to.from(src);
      reach.diameter = std::max(reach.diameter, ways.most);
      reach.mean += ways.mean;
      reach.fewest_ways = std::min(reach.fewest_ways, ways.count);
      reach.most_ways = std::max(reach.most_ways, ways.count);
      ++pairs;
    }
  }
  reach.mean /= pairs;
  return reach;
}

void expect_walked(const std::string& what, const Routes& routes) {
  const Reach reach = measure_reach(routes);
  const Reach by_hand = walked(routes);
  EXPECT_EQ(reach.diameter, by_hand.diameter) << what;
  EXPECT_NEAR(reach.mean, by_hand.mean, 1e-9) << what;
  EXPECT_EQ(reach.fewest_ways, by_hand.fewest_ways) << what;
  EXPECT_EQ(reach.most_ways, by_hand.most_ways) << what;
}

/// Groups A, B and C of two routers with an endpoint each; a1 - b1, a0 - c0 and c0 - b0 join them.
mtlink::topology::Topology dragonfly_with_a_shortcut() {
  FabricBuilder out;
  out.topology().set_name("shortcut");
  std::vector<FabricBuilder::Node> routers;
  for (std::uint32_t i = 0; i < 6; ++i) {
    routers.push_back(out.switch_node("r" + std::to_string(i), 1));
    out.place(routers.back(), {i / 2, i % 2});
    out.join(out.endpoint("e" + std::to_string(i)), routers.back(), 1, kG);
  }
  for (const auto& [a, b] : {std::pair(0, 1), {2, 3}, {4, 5}, {1, 3}, {0, 4}, {4, 2}}) {
    out.join(routers[static_cast<std::size_t>(a)], routers[static_cast<std::size_t>(b)], 1, kG);
  }
  return out.topology();
}

// Rules: N6
TEST(Reach, LengthsAreThoseOfTheRoutes) {
  // In a group 1 link between routers; from group to group over the link that joins them, so 1, 2,
  // 2 and 3: (3 x 1 + 3 x 8) / 15 pairs, and a link of each endpoint. a0 - c0 - b0 would be shorter
  // than a0 - a1 - b1 - b0.
  const auto routes = make_routes(graph_of(dragonfly_with_a_shortcut()));
  ASSERT_TRUE(routes);
  ASSERT_EQ(routes->engine(), Engine::kDragonfly);
  EXPECT_NEAR(measure_reach(*routes).mean, 27.0 / 15 + 2, 1e-9);
  for (const auto& [what, graph] : small_fabrics()) expect_walked(what, *make_routes(graph));
  expect_walked("shortcut", *routes);
}

// A wheel of twelve spokes of five links; the rim joins spokes 0 6 1 7 2 8 and so on, by turns
// lower and higher in the order of the general engine. Along nine links of the rim a packet would
// turn from down to up four times, which takes five layers: it goes by the hub, ten links.
TEST(Reach, LengthsAreThoseOfRoutesUpAndDownToo) {
  FabricBuilder out;
  out.topology().set_name("wheel");
  const auto hub = out.switch_node("hub", 0);
  std::vector<FabricBuilder::Node> below(12, hub);
  for (int ring = 1; ring <= 5; ++ring) {
    for (std::size_t spoke = 0; spoke < 12; ++spoke) {
      const std::string name = "s" + std::to_string(spoke) + "-" + std::to_string(ring);
      const bool end = ring == 5 && (spoke == 0 || spoke == 10);
      const auto node = end ? out.endpoint(name, true) : out.switch_node(name, 0);
      out.join(below[spoke], node, 1, kG);
      below[spoke] = node;
    }
  }
  for (std::size_t i = 0; i < 11; ++i) {
    const auto rim = [&](std::size_t k) { return below[k / 2 + (k % 2) * 6]; };
    out.join(rim(i), rim(i + 1), 1, kG);  // spoke 0 is the first, spoke 10 the tenth
  }
  const auto routes = make_routes(graph_of(out.topology()));
  ASSERT_TRUE(routes);
  ASSERT_EQ(routes->engine(), Engine::kGeneral);
  const Reach reach = measure_reach(*routes);
  EXPECT_EQ(reach.diameter, 10U);
  EXPECT_EQ(reach.mean, 10);
  expect_walked("wheel", *routes);
}

TEST(Reach, EndpointsOfAColumnMayHaveDifferentLinks) {
  // a and b hang on both switches, a with two links to s; so do c and d on another pair, d with
  // three to v. From a to b, parallel links told apart: 2 x 1 by s, 1 x 1 by t.
  FabricBuilder out;
  out.topology().set_name("uneven");
  std::vector<FabricBuilder::Node> switches;
  for (const char* name : {"s", "t", "u", "v"}) switches.push_back(out.switch_node(name, 1));
  const auto top = out.switch_node("top", 2);
  for (const auto low : switches) out.join(low, top, 1, kG);
  const auto hang = [&](const char* name, std::size_t first, std::uint32_t by_first,
                        std::uint32_t by_second) {
    const auto e = out.endpoint(name);
    for (std::uint32_t i = 0; i < by_first; ++i) out.join(e, switches[first], 1, kG);
    for (std::uint32_t i = 0; i < by_second; ++i) out.join(e, switches[first + 1], 1, kG);
  };
  hang("a", 0, 2, 1);
  hang("b", 0, 1, 1);
  hang("c", 2, 1, 1);
  hang("d", 2, 1, 3);
  const auto routes = make_routes(graph_of(out.topology()));
  ASSERT_TRUE(routes);
  const Reach reach = measure_reach(*routes);
  // b to c: by two switches up, down to two, 2 x 2; a to b 3; c to d 1 + 3.
  EXPECT_EQ(reach.fewest_ways, 3);
  // a to d: 3 links up, 4 down.
  EXPECT_EQ(reach.most_ways, 12);
  expect_walked("uneven", *routes);
}

// Rules: N6, N11
TEST(Reach, TheHopLimitIsEnoughForSwitchesToo) {
  // Two endpoints on the first of twelve switches in a row: 2 links from one to the other, but 12
  // from an endpoint to the last switch, which may be pinged.
  FabricBuilder out;
  out.topology().set_name("row");
  const auto a = out.endpoint("a");
  const auto b = out.endpoint("b");
  std::vector<FabricBuilder::Node> row;
  for (int i = 0; i < 12; ++i) {
    row.push_back(out.switch_node("s" + std::to_string(i), 0));
    if (i != 0) out.join(row[row.size() - 2], row.back(), 1, kG);
  }
  out.join(a, row.front(), 1, kG);
  out.join(b, row.front(), 1, kG);
  const Reach reach = measure_reach(*make_routes(graph_of(out.topology())));
  EXPECT_EQ(reach.diameter, 2U);
  EXPECT_EQ(reach.longest, 12U);
  EXPECT_EQ(reach.hop_limit(), 24U);
}

TEST(Survey, TriesAsManyLinksAsAskedFor) {
  const auto routes = *make_routes(fabric(wanted("mesh", 9)));  // 36 links
  for (const std::size_t most : {1U, 5U, 7U, 35U, 36U, 37U}) {
    EXPECT_EQ(survey_failures(routes, most).inner.tried, std::min<std::size_t>(most, 36));
  }
}

TEST(Load, IsWhatTheDistancesSay) {
  // A ring of 5 with links of r: each sends 2r, a quarter of it to each other; one and two links
  // away each way, so a link carries (1 + 2) x 2r / 4 = 1.5 r.
  const auto ring = make_routes(fabric(wanted("ring", 5)));
  const Load uniform = measure_load(*ring, Traffic::kUniform);
  EXPECT_NEAR(uniform.worst, 1.5, 1e-9);
  EXPECT_NEAR(uniform.mean, 1.5, 1e-9);
  EXPECT_NEAR(uniform.throughput, 1 / 1.5, 1e-9);
  // To the next: 2r over one link of r.
  EXPECT_NEAR(measure_load(*ring, Traffic::kRing).worst, 2, 1e-9);
  // Phases 1..4: one link at 2r, two links in a row at 4r, then the same the other way round: time
  // 2 + 4 + 4 + 2 for 4 phases.
  EXPECT_NEAR(measure_load(*ring, Traffic::kAllToAll).throughput, 4.0 / 12, 1e-9);
  // FC8: B = 7 links, a seventh to each.
  EXPECT_NEAR(measure_load(*make_routes(fabric(wanted("fc8", 8))), Traffic::kUniform).worst, 1,
              1e-9);
  // A Clos of which nothing is oversubscribed carries any permutation, spread evenly.
  const auto tree = make_routes(clos(16, 4, 3));
  EXPECT_NEAR(measure_load(*tree, Traffic::kAllToAll).throughput, 1, 1e-9);
  EXPECT_NEAR(measure_load(*tree, Traffic::kUniform).worst, 1, 1e-9);
  // 4x4: distances along a row are 0, 1, 2, 1, so 2 links on average over all 16 nodes, 2 x 16 / 15
  // over the 15 others; each sends what its 4 links carry, and there are as many links as are sent
  // over.
  const Load torus = measure_load(*make_routes(sized("torus", {4, 4})), Traffic::kUniform);
  EXPECT_NEAR(torus.mean, 2.0 * 16 / 15, 1e-9);
}

TEST(Engines, SayWhyTheyDoNotFit) {
  const auto graph = fabric(wanted("fc8", 8));
  const auto ring = make_routes(graph, Engine::kRing);
  ASSERT_FALSE(ring);
  EXPECT_EQ(
      ring.error().message,
      "engine ring does not fit this fabric: gpu0 is joined to 7 nodes that forward, not to 2");
  EXPECT_TRUE(make_routes(graph, Engine::kGeneral));
  const auto four = make_routes(sized("torus", {4, 4, 4, 4}), Engine::kGrid);
  ASSERT_FALSE(four);
  EXPECT_NE(four.error().message.find("4 closed dimensions longer than 3 need 5 layers"),
            std::string::npos);
  EXPECT_FALSE(engine_of("grids"));
}

TEST(Engines, ATorusWithoutALinkIsRoutedByTheGeneralOne) {
  Wanted w = wanted("torus", 0);
  w.size = {4, 4};
  auto topology = *generate(w);
  topology.mutable_links()->DeleteSubrange(5, 1);
  const auto routes = make_routes(graph_of(topology));
  ASSERT_TRUE(routes);
  EXPECT_EQ(routes->engine(), Engine::kGeneral);
  EXPECT_FALSE(find_cycle(routes->tables()));
  EXPECT_TRUE(all_arrive(*routes));
}

TEST(Engines, RefuseEndpointsThatOnlyAnEndpointJoins) {
  FabricBuilder out;
  out.topology().set_name("two");
  const auto a = out.endpoint("a");
  const auto middle = out.endpoint("middle");
  const auto c = out.endpoint("c");
  const auto s = out.switch_node("s", 1);
  const auto t = out.switch_node("t", 1);
  out.join(a, s, 1, kG);
  out.join(middle, s, 1, kG);
  out.join(middle, t, 1, kG);
  out.join(c, t, 1, kG);
  const auto routes = make_routes(graph_of(out.topology()));
  ASSERT_FALSE(routes);
  EXPECT_NE(routes.error().message.find("cannot reach"), std::string::npos)
      << routes.error().message;
}

/// A connected graph: a random tree, and some more links.
mtlink::topology::Topology random_fabric(std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  FabricBuilder out;
  out.topology().set_name("random");
  const std::uint32_t nodes = 3 + below(12);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    // Some are switches; the others forward as well.
    if (below(4) == 0 && i > 1) {
      out.switch_node("s" + std::to_string(i), 0);
    } else {
      out.endpoint("e" + std::to_string(i), true);
    }
  }
  for (std::uint32_t i = 1; i < nodes; ++i) out.join(i, below(i), 1, kG);
  for (std::uint32_t more = below(std::size_t{2} * nodes); more > 0; --more) {
    const std::uint32_t a = below(nodes);
    out.join(a, (a + 1 + below(nodes - 1)) % nodes, 1, kG);
  }
  return out.topology();
}

TEST(Engines, N10_TheGeneralOneRoutesAnyGraph) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 150; ++i) {
    const auto graph = graph_of(random_fabric(random));
    const auto routes = make_routes(graph, Engine::kGeneral);
    ASSERT_TRUE(routes) << i << ": " << routes.error().message;
    EXPECT_FALSE(find_cycle(routes->tables())) << i;
    EXPECT_TRUE(all_arrive(*routes)) << i;
    std::size_t survived = 0;
    for (std::size_t link = 0; link < graph->links(); ++link) {
      survived += all_arrive(*routes, link) ? 1 : 0;
    }
    EXPECT_EQ(survey_failures(*routes, 1000).inner.survived, survived) << i;
    if (graph->endpoints().size() > 1) expect_walked(std::to_string(i), *routes);
  }
}

// The whole network as nodes have it, by the proof that mtswitchd uses, without compressed columns.
TEST(Routes, N10_AreFreeOfDeadlockNodeByNode) {
  for (const auto& [what, graph] : small_fabrics()) {
    if (graph->nodes() > 70) continue;
    const auto routes = make_routes(graph);
    ASSERT_TRUE(routes);
    Network network;
    for (std::size_t n = 0; n < graph->nodes(); ++n) {
      network.nodes.push_back({graph->node(n).id, routes->of(n)});
      for (const auto& out : graph->outs(n)) {
        if (out.to < n) continue;
        network.wires.push_back({{graph->node(n).id, out.port},
                                 {graph->node(out.to).id, graph->outs(out.to)[out.back].port}});
      }
    }
    EXPECT_FALSE(find_deadlock(network)) << what;
  }
}

TEST(Stamp, IsTheSameForNodesAndForTheTool) {
  for (const auto& [what, graph] : small_fabrics()) {
    const auto routes = make_routes(graph);
    ASSERT_TRUE(routes);
    const auto digests = *node_digests(*routes);
    ASSERT_EQ(digests.size(), graph->nodes());
    for (const auto& [id, digest] : digests) {
      auto own = routes->of(graph->find(id));
      std::reverse(own.begin(), own.end());  // the order they are listed in is nothing
      EXPECT_EQ(hex(*node_digest(id, own)), hex(digest)) << what << " node " << id.value();
    }
  }
}

TEST(Stamp, IsSha256OverTheCanonicalForm) {
  // "mtlink routes 1" 0001 | 0002 0003 0004 | 01 01 0000 00 | for node 1 with 3 and 4 by port 0, by
  // sha256sum.
  const std::vector<Route> routes{{NodeId(4), {{{PortId(0), 0}}}}, {NodeId(3), {{{PortId(0), 0}}}}};
  EXPECT_EQ(hex(*node_digest(NodeId(1), routes)),
            "548c1aa2311571f5e2238d94898294b8b9ed5746028f736ff01ab2096f730300");
  auto other = routes;
  other[0].tiers[0][0].raise = 1;
  EXPECT_NE(*node_digest(NodeId(1), other), *node_digest(NodeId(1), routes));
}

}  // namespace
}  // namespace mtl::topology
