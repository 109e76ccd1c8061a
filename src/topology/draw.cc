#include "topology/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

namespace mtl::topology {

namespace {

/// Parallel links as one: ends (lower index first), and what they carry together.
struct Bundle {
  std::size_t links = 0;
  std::uint64_t bps = 0;
};
using Bundles = std::map<std::pair<std::uint32_t, std::uint32_t>, Bundle>;

Bundles bundles(const Graph& graph) {
  Bundles out;
  for (std::uint32_t n = 0; n < graph.nodes(); ++n) {
    for (const Graph::Out& o : graph.outs(n)) {
      if (o.to < n) continue;
      Bundle& bundle = out[{n, o.to}];
      ++bundle.links;
      bundle.bps += o.bps;
    }
  }
  return out;
}

std::string rate_of(const Bundle& bundle) {
  if (bundle.links == 1) return rate_text(bundle.bps);
  return fmt::format("{} x {}", bundle.links, rate_text(bundle.bps / bundle.links));
}

struct Point {
  double x = 0;
  double y = 0;
};

/// Where nodes stand, and how large one may be drawn.
struct Layout {
  std::vector<Point> at;
  double width = 0;
  double height = 0;
  std::vector<double> size;  ///< width of each node's box
};

constexpr double kMargin = 30;
constexpr double kLeastFont = 6;  // px: what can be read
constexpr double kMostFont = 14;
constexpr double kCharacter = 0.6;      // width of most sans-serif characters, of the font's size
constexpr double kBoxHeight = 1 / 1.5;  // of the width
constexpr double kWidestLabel = 12;     // characters of a line that boxes are made wide enough for

std::size_t longest_line(const std::vector<std::string>& lines) {
  std::size_t longest = 1;
  for (const std::string& line : lines) longest = std::max(longest, line.size());
  return longest;
}

/// A name in one line, or in two if it is long and has a place to part: after the mark that leaves
/// the shortest lines.
std::vector<std::string> lines_of(const std::string& name) {
  std::vector<std::string> best{name};
  constexpr std::size_t kShort = 8;
  if (name.size() <= kShort) return best;
  for (std::size_t i = name.find_first_of("-._"); i != std::string::npos;
       i = name.find_first_of("-._", i + 1)) {
    std::vector<std::string> parted{name.substr(0, i + 1), name.substr(i + 1)};
    if (longest_line(parted) < longest_line(best)) best = std::move(parted);
  }
  return best;
}

/// The name as it fits a box, in letters that can be read: of a name that is too long its end, in
/// which names of a kind differ.
struct Label {
  std::vector<std::string> lines;
  double font = 0;
};
Label label_of(const std::string& name, double box) {
  Label label{lines_of(name), 0};
  const auto font = [&] {
    const double by_width = box / (kCharacter * static_cast<double>(longest_line(label.lines)));
    const double by_height = box * kBoxHeight / (1.1 * static_cast<double>(label.lines.size()));
    return std::min({kMostFont, by_width, by_height});
  };
  if (font() < kLeastFont) {
    const auto most =
        std::max<std::size_t>(2, static_cast<std::size_t>(box / kCharacter / kLeastFont));
    for (std::string& line : label.lines) {
      if (line.size() > most) line = "~" + line.substr(line.size() - most + 1);
    }
  }
  label.font = font();
  return label;
}

/// The width of a box that all labels fit in, in letters that can be read.
double least_box(const Graph& graph) {
  std::size_t longest = 1;
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    longest = std::max(longest, longest_line(lines_of(graph.node(n).name)));
  }
  // Two lines of the least font, or a line of it.
  const double high = 2.2 * kLeastFont / kBoxHeight;
  return std::max(
      high, std::min(static_cast<double>(longest), kWidestLabel) * kCharacter * kLeastFont * 1.02);
}

/// Rows by level, endpoints at the bottom.
Layout by_level(const Graph& graph) {
  constexpr double kOfPitch = 0.7;  // a box's width
  std::map<std::uint32_t, std::vector<std::uint32_t>> rows;
  for (std::uint32_t n = 0; n < graph.nodes(); ++n) rows[graph.node(n).level].push_back(n);
  std::size_t most = 1;
  for (const auto& [level, row] : rows) most = std::max(most, row.size());
  // Rows as wide as a screen, or of thousands as wide as high.
  const std::size_t kept = std::max<std::size_t>(
      48, static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(most)))));
  const std::size_t widest = std::min(most, kept);
  const double pitch = std::clamp(1400.0 / static_cast<double>(widest),
                                  std::max(36.0, least_box(graph) / kOfPitch), 110.0);
  Layout layout{std::vector<Point>(graph.nodes()),
                2 * kMargin + pitch * static_cast<double>(widest), 0,
                std::vector<double>(graph.nodes())};
  const double between = std::max(130.0, 2 * pitch);
  double y = kMargin;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    const auto& nodes = row->second;
    const std::size_t lines = (nodes.size() + kept - 1) / kept;
    const std::size_t across = (nodes.size() + lines - 1) / lines;
    const double step = (layout.width - 2 * kMargin) / static_cast<double>(across);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      // Column by column, so that those of a switch stay together below it.
      const std::size_t column = i / lines;
      const std::size_t line = i % lines;
      layout.at[nodes[i]] = {kMargin + step * (static_cast<double>(column) + 0.5),
                             y + static_cast<double>(line) * pitch};
      layout.size[nodes[i]] = kOfPitch * (lines > 1 ? pitch : std::min(step, 110.0));
    }
    y += static_cast<double>(lines - 1) * pitch + between;
  }
  layout.height = y - between + 2 * kMargin;
  return layout;
}

bool has_grid(const Graph& graph) {
  if (graph.family() != "torus" && graph.family() != "mesh-nd") return false;
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    if (graph.node(n).at.empty() || graph.node(n).at.size() != graph.node(0).at.size())
      return false;
  }
  return true;
}

/// The first two coordinates are a plane. A third of a few places goes into the depth; planes of
/// others stand side by side.
Layout by_place(const Graph& graph) {
  std::vector<std::uint32_t> size(graph.node(0).at.size(), 0);
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    for (std::size_t d = 0; d < size.size(); ++d) {
      size[d] = std::max(size[d], graph.node(n).at[d] + 1);
    }
  }
  const bool deep = size.size() == 3 && size[2] <= 6;
  std::size_t planes = 1;
  for (std::size_t d = 2; d < size.size() && !deep; ++d) planes *= size[d];
  const double box = std::max(34.0, least_box(graph));
  const double pitch = deep ? 1.3 * box * size[2] : 1.8 * box;
  const auto across = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(planes))));
  const std::size_t down = (planes + across - 1) / across;
  const double wide = pitch * (size[0] + 0.8);
  const double high = pitch * ((size.size() > 1 ? size[1] : 1) + 0.8);
  Layout layout{std::vector<Point>(graph.nodes()), 2 * kMargin + wide * static_cast<double>(across),
                2 * kMargin + high * static_cast<double>(down),
                std::vector<double>(graph.nodes(), box)};
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    const auto& at = graph.node(n).at;
    std::size_t plane = 0;
    for (std::size_t d = at.size(); d-- > 2 && !deep;) plane = plane * size[d] + at[d];
    const double depth = deep ? at[2] : 0;
    const std::size_t column = plane % across;
    const std::size_t line = plane / across;
    layout.at[n] = {
        kMargin + wide * static_cast<double>(column) + pitch * (at[0] + 0.3) + 1.12 * box * depth,
        kMargin + high * static_cast<double>(line) + pitch * ((at.size() > 1 ? at[1] : 0) + 1.0) -
            0.88 * box * depth};
  }
  return layout;
}

/// Whether the line between two places of a grid would run through others.
bool bows(const Graph& graph, std::uint32_t a, std::uint32_t b) {
  const auto& from = graph.node(a).at;
  const auto& to = graph.node(b).at;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (from[d] > to[d] + 1 || to[d] > from[d] + 1) return true;
  }
  return false;
}

/// Nodes that forward round a circle, what hangs on them outside of it.
Layout round_circle(const Graph& graph) {
  std::vector<std::uint32_t> inner;
  std::vector<std::vector<std::uint32_t>> leaves(graph.nodes());
  for (std::uint32_t n = 0; n < graph.nodes(); ++n) {
    if (graph.node(n).transit || graph.outs(n).empty()) {
      inner.push_back(n);
    } else {
      leaves[graph.outs(n).front().to].push_back(n);
    }
  }
  std::size_t most = 0;
  for (const auto& own : leaves) most = std::max(most, own.size());
  const double around = static_cast<double>(inner.size());
  constexpr double kOfPitch = 0.6;  // a box's width
  const double pitch = std::clamp(1800.0 / around, least_box(graph) / kOfPitch, 90.0);
  const double radius = std::max(140.0, pitch * around / (2 * std::numbers::pi));
  const double outer = radius + static_cast<double>(most) * pitch * 0.8;
  Layout layout{std::vector<Point>(graph.nodes()), 2 * (outer + kMargin + 30),
                2 * (outer + kMargin + 30), std::vector<double>(graph.nodes(), pitch * kOfPitch)};
  const double middle = layout.width / 2;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i) / around - std::numbers::pi / 2;
    const auto place = [&](double r) {
      return Point{middle + r * std::cos(angle), middle + r * std::sin(angle)};
    };
    layout.at[inner[i]] = place(radius);
    for (std::size_t k = 0; k < leaves[inner[i]].size(); ++k) {
      layout.at[leaves[inner[i]][k]] = place(radius + static_cast<double>(k + 1) * pitch * 0.8);
    }
  }
  return layout;
}

Layout lay_out(const Graph& graph) {
  if (has_grid(graph)) return by_place(graph);
  bool levels = graph.family() != "dragonfly";
  bool any = false;
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    levels = levels && (graph.node(n).level > 0) != graph.node(n).endpoint;
    any = any || graph.node(n).level > 0;
  }
  return levels && any ? by_level(graph) : round_circle(graph);
}

}  // namespace

std::string to_dot(const Graph& graph, const mtlink::topology::Topology& topology) {
  std::string out =
      fmt::format("graph \"{}\" {{\n  node [shape=box fontname=sans];\n", topology.name());
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    const auto& node = graph.node(n);
    out += fmt::format("  n{} [label=\"{}\"{}];\n", node.id.value(), node.name,
                       node.endpoint ? " style=rounded" : "");
  }
  for (int g = 0; g < topology.groups_size(); ++g) {
    std::string members;
    for (const std::uint32_t id : topology.groups(g).nodes()) members += fmt::format(" n{};", id);
    std::string name;
    for (const char c : topology.groups(g).name()) {
      if (c == '"' || c == '\\') name += '\\';
      name += c;
    }
    out += fmt::format("  subgraph cluster{} {{ label=\"{}\";{} }}\n", g, name, members);
  }
  std::map<std::uint32_t, std::string> ranks;
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    if (graph.node(n).level > 0) {
      ranks[graph.node(n).level] += fmt::format(" n{};", graph.node(n).id.value());
    }
  }
  if (topology.groups().empty()) {
    for (const auto& [level, nodes] : ranks) out += fmt::format("  {{ rank=same;{} }}\n", nodes);
  }
  for (const auto& [ends, bundle] : bundles(graph)) {
    // The higher level first, so that it is drawn above.
    const auto& a = graph.node(ends.first);
    const auto& b = graph.node(ends.second);
    const bool turn = a.level < b.level;
    out += fmt::format("  n{} -- n{} [label=\"{}\"];\n", (turn ? b : a).id.value(),
                       (turn ? a : b).id.value(), rate_of(bundle));
  }
  return out + "}\n";
}

std::string to_mermaid(const Graph& graph) {
  std::string out = "flowchart TD\n";
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    const auto& node = graph.node(n);
    out += fmt::format("  n{}{}\"{}\"{}\n", node.id.value(), node.endpoint ? '(' : '[', node.name,
                       node.endpoint ? ')' : ']');
  }
  for (const auto& [ends, bundle] : bundles(graph)) {
    const auto& a = graph.node(ends.first);
    const auto& b = graph.node(ends.second);
    const bool turn = a.level < b.level;
    out += fmt::format("  n{} ---|\"{}\"| n{}\n", (turn ? b : a).id.value(), rate_of(bundle),
                       (turn ? a : b).id.value());
  }
  return out;
}

std::string to_svg(const Graph& graph) {
  const Layout layout = lay_out(graph);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 "
      "0 "
      "{0:.0f} {1:.0f}\">\n<style>\n"
      "line, path {{ stroke: #7a8699; fill: none; }}\n"
      ".endpoint {{ fill: #dbeafe; stroke: #1d4ed8; }}\n"
      ".switch {{ fill: #fef3c7; stroke: #b45309; }}\n"
      "text {{ font-family: sans-serif; text-anchor: middle; fill: #111827; }}\n</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      layout.width, layout.height);
  const Bundles all = bundles(graph);
  const bool places = has_grid(graph);
  const auto many = static_cast<double>(all.size());
  // Thousands of lines are to leave what is behind them to be seen.
  out += fmt::format("<g opacity=\"{:.2f}\">\n", std::clamp(900 / many, 0.35, 1.0));
  for (const auto& [ends, bundle] : all) {
    const Point& a = layout.at[ends.first];
    const Point& b = layout.at[ends.second];
    const std::string title = fmt::format("<title>{} - {}: {}</title>", graph.node(ends.first).name,
                                          graph.node(ends.second).name, rate_of(bundle));
    const double width =
        (many > 500 ? 0.35 : 1.2) * std::min(3.0, std::sqrt(static_cast<double>(bundle.links)));
    if (places && bows(graph, ends.first, ends.second)) {
      const double length = std::hypot(a.x - b.x, a.y - b.y);
      const double bow = 0.18 * length;
      out += fmt::format(
          "<path d=\"M{:.1f} {:.1f} Q{:.1f} {:.1f} {:.1f} {:.1f}\" "
          "stroke-width=\"{:.2f}\">{}</path>\n",
          a.x, a.y, (a.x + b.x) / 2 - bow * (b.y - a.y) / length,
          (a.y + b.y) / 2 - bow * std::abs(b.x - a.x) / length, b.x, b.y, width, title);
    } else {
      out += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
          "stroke-width=\"{:.2f}\">{}</line>\n",
          a.x, a.y, b.x, b.y, width, title);
    }
  }
  out += "</g>\n";
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    const auto& node = graph.node(n);
    const Point& at = layout.at[n];
    const double s = layout.size[n];
    out += fmt::format(
        "<g><title>{} (node {}), {} links</title><rect x=\"{:.1f}\" y=\"{:.1f}\" "
        "width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:.1f}\" class=\"{}\"/>",
        node.name, node.id.value(), graph.outs(n).size(), at.x - s / 2, at.y - s * kBoxHeight / 2,
        s, s * kBoxHeight, node.endpoint ? s / 4 : 0, node.endpoint ? "endpoint" : "switch");
    const Label label = label_of(node.name, s);
    const auto lines = static_cast<double>(label.lines.size());
    for (std::size_t i = 0; i < label.lines.size(); ++i) {
      const double y =
          at.y + label.font * (1.1 * (static_cast<double>(i) - (lines - 1) / 2) + 0.33);
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.1f}\">{}</text>", at.x, y,
                         label.font, label.lines[i]);
    }
    out += "</g>\n";
  }
  return out + "</svg>\n";
}

}  // namespace mtl::topology
