// Pictures as who looks at them needs them: every node named in letters that can be read, within
// its box, boxes apart from each other and within the picture.
#include "topology/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "topology/fabric_builder.h"
#include "topology/shapes.h"

namespace mtl::topology {
namespace {

struct Box {
  double left, top, right, bottom;
};
struct Text {
  double x, y, font;
  std::string text;
};
struct Drawn {
  std::string name;
  Box box;
  std::vector<Text> label;
};
struct Picture {
  double width = 0;
  double height = 0;
  std::vector<Drawn> nodes;
};

Picture read(const std::string& svg) {
  Picture picture;
  std::smatch found;
  if (std::regex_search(svg, found, std::regex("width=\"([0-9.]+)\" height=\"([0-9.]+)\""))) {
    picture.width = std::stod(found[1]);
    picture.height = std::stod(found[2]);
  }
  const std::regex node("<g><title>([^ ]+) \\(node [^\n]*</g>");
  const std::regex rect(
      "<rect x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" width=\"([0-9.]+)\" height=\"([0-9.]+)\"");
  const std::regex text(
      "<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" font-size=\"([0-9.]+)\">([^<]*)</text>");
  for (std::sregex_iterator it(svg.begin(), svg.end(), node); it != std::sregex_iterator(); ++it) {
    const std::string one = it->str();
    Drawn drawn{(*it)[1], {}, {}};
    if (std::regex_search(one, found, rect)) {
      const double x = std::stod(found[1]);
      const double y = std::stod(found[2]);
      drawn.box = {x, y, x + std::stod(found[3]), y + std::stod(found[4])};
    }
    for (std::sregex_iterator t(one.begin(), one.end(), text); t != std::sregex_iterator(); ++t) {
      drawn.label.push_back({std::stod((*t)[1]), std::stod((*t)[2]), std::stod((*t)[3]), (*t)[4]});
    }
    picture.nodes.push_back(std::move(drawn));
  }
  return picture;
}

/// Letters of most sans-serif fonts are about 0.55 of the font's size wide and 0.75 high.
void expect_readable(const std::string& what, const Drawn& node) {
  constexpr double kRounding = 0.2;
  const Box& box = node.box;
  std::string all;
  ASSERT_FALSE(node.label.empty()) << what << " " << node.name;
  for (const Text& line : node.label) {
    EXPECT_GE(line.font, 6) << what << " " << node.name;
    const double half = 0.55 * line.font * static_cast<double>(line.text.size()) / 2;
    EXPECT_GE(line.x - half, box.left - kRounding) << what << " " << node.name;
    EXPECT_LE(line.x + half, box.right + kRounding) << what << " " << node.name;
    EXPECT_GE(line.y - 0.75 * line.font, box.top - kRounding) << what << " " << node.name;
    EXPECT_LE(line.y, box.bottom + kRounding) << what << " " << node.name;
    all += line.text;
  }
  for (std::size_t i = 1; i < node.label.size(); ++i) {
    EXPECT_GE(node.label[i].y - 0.75 * node.label[i].font, node.label[i - 1].y - kRounding)
        << what << " " << node.name;
  }
  EXPECT_EQ(all, node.name) << what;
}

void expect_apart(const std::string& what, Picture picture) {
  auto& nodes = picture.nodes;
  std::sort(nodes.begin(), nodes.end(),
            [](const Drawn& a, const Drawn& b) { return a.box.left < b.box.left; });
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Box& a = nodes[i].box;
    EXPECT_TRUE(a.left >= 0 && a.top >= 0 && a.right <= picture.width && a.bottom <= picture.height)
        << what << " " << nodes[i].name << " is not within the picture";
    for (std::size_t k = i + 1; k < nodes.size() && nodes[k].box.left < a.right; ++k) {
      const Box& b = nodes[k].box;
      EXPECT_FALSE(a.top < b.bottom && b.top < a.bottom)
          << what << " " << nodes[i].name << " and " << nodes[k].name << " overlap";
    }
  }
}

Graph graph_of(const mtlink::topology::Topology& topology) {
  auto built = Graph::build(topology);
  if (const auto* faults = std::get_if<std::vector<Fault>>(&built)) {
    throw std::runtime_error(faults->front().path + " " + faults->front().what);
  }
  return std::get<Graph>(std::move(built));
}

Wanted wanted(const std::string& topology, std::uint32_t gpus = 0) {
  Wanted w;
  w.topology = topology;
  if (gpus != 0) w.gpu_count = gpus;
  return w;
}

Wanted sized(const std::string& topology, std::vector<std::uint32_t> size) {
  Wanted w = wanted(topology);
  w.size = std::move(size);
  return w;
}

TEST(Svg, NodesOfSmallAndLargeFabricsAreNamedReadably) {
  Wanted dragonfly = wanted("dragonfly");
  dragonfly.hosts = 4;
  Wanted flat = wanted("flat", 400);
  flat.planes = 8;
  for (const Wanted& w :
       {wanted("fc8"), wanted("ring", 3), wanted("ring", 400), wanted("clos", 384),
        wanted("tree", 400), wanted("rail", 256), flat, dragonfly, wanted("cloudmatrix384"),
        wanted("nvl72"), wanted("dgx-h100"), wanted("power6-595"), wanted("tpu-v4-cube"),
        wanted("tpu-v4-pod"), sized("mesh-nd", {20, 20}), sized("torus", {6, 5, 4}),
        sized("mesh-nd", {9, 8, 7}), sized("mesh-nd", {400})}) {
    const auto made = generate(w);
    ASSERT_TRUE(made) << w.topology << ": " << made.error().message;
    const Graph graph = graph_of(*made);
    const Picture picture = read(to_svg(graph));
    EXPECT_EQ(picture.nodes.size(), graph.nodes()) << made->name();
    for (const Drawn& node : picture.nodes) expect_readable(made->name(), node);
    expect_apart(made->name(), picture);
  }
}

// The longest name that a file may give: its end, and all of it where the picture is pointed at.
TEST(Svg, LongNamesAreCutReadably) {
  FabricBuilder out;
  out.topology().set_name("long");
  const std::string name(60, 'a');
  const auto s = out.switch_node("s", 1);
  for (int i = 100; i < 300; ++i) out.join(out.endpoint(name + std::to_string(i)), s, 1, 1000);
  const std::string svg = to_svg(graph_of(out.topology()));
  Picture picture = read(svg);
  ASSERT_EQ(picture.nodes.size(), 201U);
  for (Drawn& node : picture.nodes) {
    if (node.name == "s") continue;
    ASSERT_EQ(node.label.size(), 1U);
    EXPECT_EQ(node.label[0].text.front(), '~');
    EXPECT_EQ(node.label[0].text.substr(node.label[0].text.size() - 3), node.name.substr(60));
    node.name = node.label[0].text;
    expect_readable("long", node);
  }
  expect_apart("long", picture);
  EXPECT_NE(svg.find("<title>" + name + "123 (node"), std::string::npos);
}

}  // namespace
}  // namespace mtl::topology
