// Fabrics by shape and published machines: numbers of nodes and links, and what is refused, with
// the arithmetic said.
#include "topology/shapes.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>

#include "topology/graph.h"

namespace mtl::topology {
namespace {

constexpr std::uint64_t kG = 1'000'000'000;

struct Count {
  std::size_t endpoints = 0;
  std::size_t switches = 0;
  std::size_t links = 0;
  friend bool operator==(const Count&, const Count&) = default;
};

Count count(const Wanted& wanted) {
  const auto made = generate(wanted);
  if (!made) {
    ADD_FAILURE() << wanted.topology << ": " << made.error().message;
    return {};
  }
  const auto built = Graph::build(*made);
  if (const auto* faults = std::get_if<std::vector<Fault>>(&built)) {
    ADD_FAILURE() << wanted.topology << ": " << faults->front().path << " " << faults->front().what;
    return {};
  }
  const auto& graph = std::get<Graph>(built);
  return {graph.endpoints().size(), graph.nodes() - graph.endpoints().size(), graph.links()};
}

Wanted wanted(const std::string& topology, std::uint32_t gpus = 0) {
  Wanted w;
  w.topology = topology;
  if (gpus != 0) w.gpu_count = gpus;
  return w;
}

std::string refusal(const Wanted& w) {
  const auto made = generate(w);
  return made ? "made" : made.error().message;
}

TEST(Generate, FamiliesHaveTheNodesAndLinksOfTheirShape) {
  EXPECT_EQ(count(wanted("FC8")), (Count{8, 0, 28}));
  EXPECT_EQ(count(wanted("mesh", 5)), (Count{5, 0, 10}));
  EXPECT_EQ(count(wanted("ring", 12)), (Count{12, 0, 12}));
  EXPECT_EQ(count(wanted("double-ring", 12)), (Count{12, 0, 24}));
  Wanted w = wanted("flat", 16);
  w.planes = 4;
  EXPECT_EQ(count(w), (Count{16, 4, 64}));
  // Radix 4: 9 / 3 down = 3 switches, and one for these.
  w = wanted("tree", 9);
  w.radix = 4;
  EXPECT_EQ(count(w), (Count{9, 4, 12}));
  // Radix 8: leaves of 4 + 4; 8 leaves, 4 spines: 32 links down, 32 up.
  w = wanted("clos", 32);
  w.radix = 8;
  EXPECT_EQ(count(w), (Count{32, 12, 64}));
  // 3:1 leaves of 6 + 2 ports; 4 leaves; 8 links up fit one spine of 8 ports.
  w = wanted("clos", 24);
  w.radix = 8;
  w.oversubscription = 3;
  EXPECT_EQ(count(w), (Count{24, 5, 32}));
  // A k-ary fat-tree of k = 4: k^3/4 = 16 hosts, k^2 + k^2/4 = 20 switches, 3 k^3/4 = 48 links.
  w = wanted("fat-tree", 16);
  w.radix = 4;
  EXPECT_EQ(count(w), (Count{16, 20, 48}));
  w = wanted("torus");
  w.size = {4, 5, 2};  // a row of two is closed by its one link
  EXPECT_EQ(count(w), (Count{40, 0, 40 + 40 + 20}));
  w = wanted("mesh-nd");
  w.size = {3, 4};
  EXPECT_EQ(count(w), (Count{12, 0, 2 * 4 + 3 * 3}));
  // Balanced, one host a router: 2 routers, 3 groups: 3 in groups, 3 between them.
  w = wanted("dragonfly");
  w.hosts = 1;
  EXPECT_EQ(count(w), (Count{6, 6, 6 + 3 + 3}));
  // 4 hosts of 4; 4 leaves, each with its rail's accelerators of all hosts; 4 + 4 ports.
  w = wanted("rail", 16);
  w.rails = 4;
  w.radix = 16;
  EXPECT_EQ(count(w), (Count{16, 4 + 1, 16 + 16}));
}

TEST(Generate, PresetsHaveTheirPublishedNumbers) {
  EXPECT_EQ(count(wanted("nvl72")), (Count{72, 18, 1296}));
  EXPECT_EQ(count(wanted("dgx-h100")), (Count{8, 4, 144}));
  EXPECT_EQ(count(wanted("cloudmatrix384")), (Count{384, 336 + 112, 384 * 7 + 336 * 16}));
  EXPECT_EQ(count(wanted("mi300x")), (Count{8, 0, 28}));
  EXPECT_EQ(count(wanted("tpu-v4-cube")), (Count{64, 0, 192}));
  EXPECT_EQ(count(wanted("tpu-v4-pod")), (Count{4096, 0, 12288}));
  EXPECT_EQ(count(wanted("ualink-1024")), (Count{1024, 2, 2048}));
  EXPECT_EQ(count(wanted("power6-595")), (Count{32, 0, 8 * 6 + 28}));
  for (const Choice& preset : presets()) {
    const auto made = generate(wanted(preset.name));
    ASSERT_TRUE(made) << preset.name;
    EXPECT_FALSE(made->origin().sources().empty()) << preset.name;
    EXPECT_FALSE(made->origin().arithmetic().empty()) << preset.name;
    EXPECT_EQ(made->origin().preset(), preset.name);
  }
}

TEST(Generate, AcceleratorsOfPresetsHaveTheirPublishedBandwidth) {
  const std::map<std::string, std::uint64_t> each_way{
      {"nvl72", kG * 900 * 8},     // 1.8 TB/s both ways
      {"dgx-h100", kG * 450 * 8},  // 900 GB/s both ways
      {"cloudmatrix384", kG * 392 * 8},
      {"mi300x", kG * 448 * 8},
      {"tpu-v4-cube", kG * 300 * 8}};
  for (const auto& [preset, bps] : each_way) {
    const auto built = Graph::build(*generate(wanted(preset)));
    const auto& graph = std::get<Graph>(built);
    for (const std::uint32_t e : graph.endpoints()) {
      std::uint64_t sum = 0;
      for (const auto& out : graph.outs(e)) sum += out.bps;
      EXPECT_EQ(sum, bps) << preset << " " << graph.node(e).name;
    }
  }
}

TEST(Generate, ShowsItsArithmetic) {
  const auto made = *generate(wanted("fc8"));
  ASSERT_EQ(made.origin().arithmetic_size(), 3);
  EXPECT_EQ(made.origin().arithmetic(0), "an accelerator: 1.6T each way / 200G a lane = 8 lanes");
  EXPECT_EQ(
      made.origin().arithmetic(1),
      "8 lanes / 7 links (one to each other accelerator) = 1 each, 1 x 200G = 200G a link; 7 x 1 "
      "= 7 used, 1 free");
}

TEST(Generate, RefusesWhatDoesNotAddUp) {
  EXPECT_NE(
      refusal(wanted("mesh", 16)).find("15 - 8 = 7 short; raise --bandwidth to 15 x 200G = 3T"),
      std::string::npos)
      << refusal(wanted("mesh", 16));
  Wanted w = wanted("fc8");
  w.bandwidth = 1500 * kG;
  EXPECT_NE(refusal(w).find("1.5T is no multiple of a lane of 200G (--lane): take 1.4T or 1.6T"),
            std::string::npos);
  EXPECT_NE(refusal(wanted("fc8", 9)).find("FC8 is eight accelerators"), std::string::npos);
  EXPECT_NE(refusal(wanted("ring", 2)).find("a ring has at least 3"), std::string::npos);
  w = wanted("clos", 100);
  EXPECT_NE(refusal(w).find("3 leaves hold 96, 4 hold 128"), std::string::npos) << refusal(w);
  w.radix = 63;
  EXPECT_NE(refusal(w).find("--radix 63 does not divide"), std::string::npos) << refusal(w);
  w = wanted("clos", 64);
  w.radix = 8;
  EXPECT_NE(refusal(w).find("16 - 8 = 8 too many; take more levels"), std::string::npos)
      << refusal(w);
  w = wanted("flat", 72);
  w.radix = 64;
  EXPECT_NE(refusal(w).find("72 - 64 = 8 too few"), std::string::npos) << refusal(w);
  w = wanted("torus", 65);
  EXPECT_NE(refusal(w).find("neither a cube nor a square"), std::string::npos);
  w.size = {4, 4, 4};
  EXPECT_NE(refusal(w).find("--gpu-count is 65, but 4 x 4 x 4 = 64"), std::string::npos)
      << refusal(w);
  w = wanted("dragonfly");
  w.hosts = 1;
  w.groups = 4;
  EXPECT_NE(refusal(w).find("2 x 1 = 2 global links reach 2 others at most, so take 2..3"),
            std::string::npos)
      << refusal(w);
  w = wanted("nvl72", 36);
  EXPECT_NE(refusal(w).find("nvl72 has 72 accelerators"), std::string::npos);
  w = wanted("nvl72");
  w.radix = 64;
  EXPECT_NE(refusal(w).find("is a preset"), std::string::npos);
  EXPECT_NE(
      refusal(wanted("clique")).find("there is no topology \"clique\"; it must be one of: fc8"),
      std::string::npos);
  EXPECT_NE(refusal(wanted("ring")).find("--gpu-count is missing"), std::string::npos);
  EXPECT_NE(refusal(wanted("ring", 70'000)).find("node ids end at 65534"), std::string::npos);
}

TEST(Generate, RefusesWhatAShapeHasNoUseFor) {
  Wanted w = wanted("ring", 8);
  w.radix = 3;
  w.size = {4, 4};
  EXPECT_EQ(refusal(w),
            "ring has no use for --radix, --size: it takes --gpu-count, --bandwidth, --lane, "
            "--delay-ns, --mtu and --name; leave out what it does not take");
  w = wanted("flat", 8);
  w.rails = 8;
  EXPECT_EQ(refusal(w),
            "flat has no use for --rails: it takes --radix, --planes, --gpu-count, --bandwidth, "
            "--lane, --delay-ns, --mtu and --name; leave out what it does not take");
  // Each option with every shape that has no use for it.
  const std::map<std::string, std::set<std::string>> uses{
      {"fc8", {}},
      {"mesh", {}},
      {"ring", {}},
      {"double-ring", {}},
      {"tree", {"--radix"}},
      {"flat", {"--radix", "--planes"}},
      {"clos", {"--radix", "--levels", "--oversubscription"}},
      {"fat-tree", {"--radix", "--levels", "--oversubscription"}},
      {"torus", {"--size"}},
      {"mesh-nd", {"--size"}},
      {"dragonfly", {"--radix", "--hosts", "--routers", "--global", "--groups"}},
      {"rail", {"--radix", "--rails"}}};
  ASSERT_EQ(uses.size(), families().size());
  const std::map<std::string, std::function<void(Wanted&)>> give{
      {"--radix", [](Wanted& x) { x.radix = 8; }},
      {"--levels", [](Wanted& x) { x.levels = 2; }},
      {"--oversubscription", [](Wanted& x) { x.oversubscription = 1; }},
      {"--planes", [](Wanted& x) { x.planes = 1; }},
      {"--rails", [](Wanted& x) { x.rails = 8; }},
      {"--size",
       [](Wanted& x) {
         x.size = {2, 4};
       }},
      {"--hosts", [](Wanted& x) { x.hosts = 1; }},
      {"--routers", [](Wanted& x) { x.routers = 2; }},
      {"--global", [](Wanted& x) { x.global = 1; }},
      {"--groups", [](Wanted& x) { x.groups = 2; }}};
  for (const auto& [family, own] : uses) {
    for (const auto& [option, set] : give) {
      Wanted one = wanted(family, 8);
      set(one);
      const bool refused = refusal(one).find(" has no use for " + option) != std::string::npos;
      EXPECT_NE(refused, own.contains(option)) << family << " " << option << ": " << refusal(one);
    }
  }
  w = wanted("nvl72");
  w.lane = kG;
  w.planes = 9;
  EXPECT_NE(refusal(w).find("nvl72 is a preset, whose bandwidth and shape are as published; leave "
                            "--lane, --planes out, or take the family flat"),
            std::string::npos)
      << refusal(w);
}

TEST(Generate, RefusesNumbersOfADragonflyThatGainsay) {
  Wanted w = wanted("dragonfly");
  w.hosts = 2;
  w.radix = 6;  // 2 + 3 + 2
  EXPECT_NE(refusal(w).find("--radix is 6, but a router has 2 accelerators + 3 in the group + 2 "
                            "global = 7 ports: 7 - 6 = 1 too many"),
            std::string::npos)
      << refusal(w);
  w.radix = 7;
  EXPECT_EQ(refusal(w), "made");
  w.groups = 0;
  EXPECT_NE(refusal(w).find("--groups is 0; it must be 1 or more"), std::string::npos);
}

TEST(Generate, RefusesCountsThatNothingHolds) {
  Wanted w = wanted("clos", 64);
  for (const std::uint32_t over : {0U, 4096U, 4294967295U}) {
    w.oversubscription = over;
    EXPECT_NE(refusal(w).find(" it must be 1..4095"), std::string::npos) << refusal(w);
  }
  w = wanted("clos", 64);
  for (const char* family : {"clos", "rail"}) {
    w.topology = family;
    for (const std::uint32_t radix : {0U, 1U, 8192U}) {
      w.radix = radix;
      EXPECT_NE(refusal(w).find("a switch has 2..4096 ports"), std::string::npos) << refusal(w);
    }
  }
  w = wanted("mesh", 4097);
  w.bandwidth = 4096 * kG;
  w.lane = kG;
  EXPECT_NE(refusal(w).find("4097 x 4096 / 2 = 8390656 links, 8390656 - 262144 = 8128512 more"),
            std::string::npos)
      << refusal(w);
  w = wanted("flat", 65'534);
  EXPECT_NE(refusal(w).find("65534 - 4096 = 61438 too many"), std::string::npos) << refusal(w);
  w = wanted("flat", 4096);
  w.planes = 1024;
  EXPECT_NE(refusal(w).find("4096 accelerators x 1024 planes = 4194304 links"), std::string::npos)
      << refusal(w);
  w = wanted("dragonfly");
  w.hosts = 1;
  w.routers = 2;
  w.groups = 2;
  w.global = 1'000'000'000;
  EXPECT_NE(refusal(w).find("1 accelerators + 1 in the group + 1000000000 global = 1000000002 "
                            "ports; no node has more than 4096"),
            std::string::npos)
      << refusal(w);
  w.routers = 3000;
  w.global = 1;  // 2 x 3000 accelerators, 2 x 3000 x 2999 / 2 and 3000 links
  EXPECT_NE(refusal(w).find("6000 of accelerators + 2 x 4498500 in groups + 3000 between them = "
                            "9006000 links"),
            std::string::npos)
      << refusal(w);
  w = wanted("dragonfly");
  w.radix = 2;
  EXPECT_NE(refusal(w).find("--radix is 2, but a dragonfly's router has at least 3 ports"),
            std::string::npos)
      << refusal(w);
}

TEST(ParseRate, TakesUnitsAndPoints) {
  const std::map<std::string, std::uint64_t> good{
      {"1.6T", 1600 * kG}, {"800G", 800 * kG}, {"2.5M", 2'500'000}, {"1k", 1000}, {"7", 7}};
  for (const auto& [text, bps] : good) {
    const auto rate = parse_rate(text);
    ASSERT_TRUE(rate) << text;
    EXPECT_EQ(*rate, bps) << text;
  }
  for (const char* text : {"", "T", "1.6", "1..6T", ".5T", "1.6TB", "-1G", "0", "0G", "1e9",
                           "99999999999999999999T", "1.0000000000000000000001T", "9999999T"}) {
    EXPECT_FALSE(parse_rate(text)) << text;
  }
}

TEST(ParseSize, TakesUpToEightSides) {
  EXPECT_EQ(*parse_size("4x4x12"), (std::vector<std::uint32_t>{4, 4, 12}));
  EXPECT_EQ(*parse_size("7"), (std::vector<std::uint32_t>{7}));
  for (const char* text :
       {"", "x", "4x", "x4", "4xx4", "4x0", "4X4", "4 x 4", "1x1x1x1x1x1x1x1x1", "10000000"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

}  // namespace
}  // namespace mtl::topology
