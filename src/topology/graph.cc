#include "topology/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "link/codec.h"

namespace mtl::topology {

namespace pb = mtlink::topology;

namespace {

constexpr std::uint32_t kMaxMtu = 61410;
constexpr std::uint32_t kMaxLanes = 65536;
constexpr std::uint32_t kMaxLinkLanes = 64;
constexpr std::uint32_t kUnknown = ~std::uint32_t{0};

bool good_name(const std::string& name) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), good);
}

}  // namespace

class GraphBuilder {
 public:
  explicit GraphBuilder(const pb::Topology& from) : from_(from) {}

  std::variant<Graph, std::vector<Fault>> build() {
    if (!good_name(from_.name())) {
      fault("name",
            fmt::format("is \"{}\"; it must have 1 to 64 letters, digits or . _ -", from_.name()));
    }
    nodes();
    links();
    if (faults_.empty()) add_up();
    groups();
    if (!faults_.empty()) return told();
    finish();
    connected();
    if (!faults_.empty()) return std::move(faults_);
    return std::move(graph_);
  }

 private:
  struct Use {
    std::uint32_t ports = 0;
    std::uint32_t lanes = 0;
  };

  static constexpr std::size_t kShown = 100;
  std::vector<Fault> told() {
    if (found_ > kShown) {
      faults_.push_back({"", fmt::format("and {} faults more", found_ - kShown)});
    }
    return std::move(faults_);
  }
  void fault(std::string path, std::string what) {
    // Who has a thousand faults mends the first ones.
    if (faults_.size() < kShown) faults_.push_back({std::move(path), std::move(what)});
    ++found_;
  }
  bool within(const std::string& path, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
    if (value >= low && value <= high) return true;
    fault(path, fmt::format("is {}; it must be {}..{}", value, low, high));
    return false;
  }

  void nodes();
  void node(int i);
  void links();
  std::uint32_t end(const pb::End& end, const std::string& path, int link);
  void add_up();
  void groups();
  void finish();
  void connected();

  const pb::Topology& from_;
  Graph graph_;
  std::vector<Fault> faults_;
  std::size_t found_ = 0;  ///< faults, those not kept too
  std::unordered_map<std::string, int> names_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> taken_;  ///< (node, port) -> link
  std::vector<Use> use_;                                          ///< by node
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends_;     ///< by link: node indices
};

void GraphBuilder::nodes() {
  graph_.index_.assign(65536, kUnknown);
  graph_.family_ = from_.origin().family();
  if (from_.nodes().empty()) fault("nodes", "is empty; a fabric has at least one node");
  if (from_.nodes_size() > kMaxNode) {
    fault("nodes", fmt::format("has {} entries; node ids end at {} (N3), so take {} nodes away",
                               from_.nodes_size(), kMaxNode, from_.nodes_size() - kMaxNode));
    return;
  }
  for (int i = 0; i < from_.nodes_size(); ++i) node(i);
  use_.resize(graph_.nodes_.size());
}

void GraphBuilder::node(int i) {
  const pb::Node& from = from_.nodes(i);
  const std::string path = fmt::format("nodes[{}]", i);
  Graph::Node& node = graph_.nodes_.emplace_back();
  node.name = from.name().empty() ? fmt::format("node{}", from.node()) : from.name();
  if (!good_name(node.name)) {
    fault(path + ".name",
          fmt::format("is \"{}\"; it must have at most 64 letters, digits or . _ -", node.name));
  }
  if (const auto [first, fresh] = names_.emplace(node.name, i); !fresh) {
    fault(path + ".name", fmt::format("is \"{}\", which nodes[{}] is called; names must differ",
                                      node.name, first->second));
  }
  if (from.role() != pb::Node::ENDPOINT && from.role() != pb::Node::SWITCH) {
    fault(path + ".role", "is missing; it must be ENDPOINT or SWITCH");
  }
  node.endpoint = from.role() == pb::Node::ENDPOINT;
  node.transit = from.has_transit() ? from.transit() : !node.endpoint;
  node.level = from.level();
  node.at.assign(from.at().begin(), from.at().end());
  if (from.has_ports()) within(path + ".ports", from.ports(), 1, kMaxPorts);
  if (from.has_lanes()) within(path + ".lanes", from.lanes(), 1, kMaxLanes);
  if (!within(path + ".node", from.node(), kMinNode, kMaxNode)) return;
  node.id = NodeId(static_cast<std::uint16_t>(from.node()));
  std::uint32_t& known = graph_.index_[from.node()];
  if (known != kUnknown) {
    fault(path + ".node", fmt::format("is {}, which {} (nodes[{}]) has; ids must differ",
                                      from.node(), graph_.nodes_[known].name, known));
    return;
  }
  known = static_cast<std::uint32_t>(i);
}

std::uint32_t GraphBuilder::end(const pb::End& end, const std::string& path, int link) {
  const std::uint32_t index = end.node() > kMaxNode ? kUnknown : graph_.index_[end.node()];
  if (index == kUnknown) {
    fault(path + ".node",
          fmt::format("is {}, which no entry of nodes has; add the node or mend the link",
                      end.node()));
    return kUnknown;
  }
  const pb::Node& node = from_.nodes(static_cast<int>(index));
  const std::uint32_t ports = node.has_ports() ? node.ports() : kMaxPorts;
  if (end.port() >= ports) {
    fault(path + ".port", fmt::format("is {}, but {} has {} ports, numbered from 0; the last is {}",
                                      end.port(), graph_.nodes_[index].name, ports, ports - 1));
  }
  const auto [first, fresh] = taken_.emplace(std::pair(index, end.port()), link);
  if (!fresh) {
    fault(path, fmt::format("is {} port {}, where links[{}] ends already: two cables do not fit a "
                            "port; give this one a free port",
                            graph_.nodes_[index].name, end.port(), first->second));
  }
  return index;
}

void GraphBuilder::links() {
  const auto count = static_cast<std::uint64_t>(from_.links_size());
  if (count > kMaxLinks) {
    fault("links", fmt::format("has {} entries, {} - {} = {} more than a fabric may have", count,
                               count, kMaxLinks, count - kMaxLinks));
    return;
  }
  for (int i = 0; i < from_.links_size(); ++i) {
    const pb::Link& link = from_.links(i);
    const std::string path = fmt::format("links[{}]", i);
    const std::uint32_t a = end(link.a(), path + ".a", i);
    const std::uint32_t b = end(link.b(), path + ".b", i);
    ends_.emplace_back(a, b);
    const std::uint32_t lanes = link.has_lanes() ? link.lanes() : 1;
    within(path + ".lanes", lanes, 1, kMaxLinkLanes);
    if (link.bps() == 0) {
      fault(path + ".bps", "is missing; say how many bits per second it carries");
    } else {
      within(path + ".bps", link.bps(), 1, kMaxRate);
    }
    within(path + ".delay_ns", link.delay_ns(), 0, 60'000'000'000);
    if (link.has_mtu()) within(path + ".mtu", link.mtu(), link::kMinMtu, kMaxMtu);
    if (a == kUnknown || b == kUnknown) continue;
    if (a == b) {
      fault(path, fmt::format("joins {} to itself; a link has two nodes", graph_.nodes_[a].name));
    }
    for (const std::uint32_t node : {a, b}) {
      ++use_[node].ports;
      use_[node].lanes += lanes;
    }
  }
}

/// Ports and lanes that links use against those that nodes have.
void GraphBuilder::add_up() {
  for (int i = 0; i < from_.nodes_size(); ++i) {
    const pb::Node& node = from_.nodes(i);
    const Use& use = use_[static_cast<std::size_t>(i)];
    const std::string path = fmt::format("nodes[{}]", i);
    const std::string& name = graph_.nodes_[static_cast<std::size_t>(i)].name;
    if (node.has_ports() && use.ports > node.ports()) {
      fault(path + ".ports",
            fmt::format("is {}, but {} links end at {}: {} - {} = {} too many", node.ports(),
                        use.ports, name, use.ports, node.ports(), use.ports - node.ports()));
    }
    if (node.has_lanes() && use.lanes > node.lanes()) {
      fault(path + ".lanes",
            fmt::format("is {}, but the links of {} bundle {} lanes: {} - {} = {} too many; take "
                        "lanes or links away",
                        node.lanes(), name, use.lanes, use.lanes, node.lanes(),
                        use.lanes - node.lanes()));
    }
    if (use.ports == 0 && from_.nodes_size() > 1) {
      fault(path, fmt::format("{} has no link; join it to the fabric or take it out", name));
    }
  }
}

void GraphBuilder::groups() {
  for (int g = 0; g < from_.groups_size(); ++g) {
    if (!good_name(from_.groups(g).name())) {
      fault(fmt::format("groups[{}].name", g),
            fmt::format("is \"{}\"; it must have 1 to 64 letters, digits or . _ -",
                        from_.groups(g).name()));
    }
    for (int i = 0; i < from_.groups(g).nodes_size(); ++i) {
      const std::uint32_t id = from_.groups(g).nodes(i);
      if (id <= kMaxNode && graph_.index_[id] != kUnknown) continue;
      fault(fmt::format("groups[{}].nodes[{}]", g, i),
            fmt::format("is {}, which no entry of nodes has", id));
    }
  }
}

void GraphBuilder::finish() {
  const std::size_t n = graph_.nodes_.size();
  graph_.links_ = ends_.size();
  graph_.first_.assign(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) graph_.first_[i + 1] = graph_.first_[i] + use_[i].ports;
  graph_.outs_.resize(graph_.first_[n]);
  // taken_ is in order of node and port, which is the order of outs.
  std::vector<std::array<std::uint32_t, 2>> place(ends_.size());
  std::size_t next = 0;
  std::vector<Graph::Out>& outs = graph_.outs_;
  for (const auto& [at, l] : taken_) {
    const auto link = static_cast<std::uint32_t>(l);
    const auto& [a, b] = ends_[link];
    const pb::Link& from = from_.links(l);
    Graph::Out& out = outs[next];
    out.to = at.first == a ? b : a;
    out.link = link;
    out.port = PortId(static_cast<std::uint16_t>(at.second));
    out.bps = from.bps();
    place[link][at.first == a ? 0 : 1] = static_cast<std::uint32_t>(next - graph_.first_[at.first]);
    ++next;
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t o = graph_.first_[i]; o < graph_.first_[i + 1]; ++o) {
      outs[o].back = place[outs[o].link][ends_[outs[o].link].first == i ? 1 : 0];
    }
    if (graph_.nodes_[i].endpoint) graph_.endpoints_.push_back(static_cast<std::uint32_t>(i));
  }
}

/// Whether the links hang all nodes together. Whether packets get everywhere is for the routes to
/// say: the planes of a fabric have no way between them, and need none.
void GraphBuilder::connected() {
  const std::size_t n = graph_.nodes_.size();
  std::vector<bool> reached(n);
  std::vector<std::size_t> open{0};
  reached[0] = true;
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (const Graph::Out& out : graph_.outs(at)) {
      if (reached[out.to]) continue;
      reached[out.to] = true;
      open.push_back(out.to);
    }
  }
  const auto count = static_cast<std::size_t>(std::count(reached.begin(), reached.end(), true));
  if (count == n) return;
  const auto lost =
      static_cast<std::size_t>(std::find(reached.begin(), reached.end(), false) - reached.begin());
  fault(fmt::format("nodes[{}]", lost),
        fmt::format(
            "{} has no way to {}: of {} nodes {} hang together, {} do not; join them by links",
            graph_.nodes_[lost].name, graph_.nodes_[0].name, n, count, n - count));
}

std::variant<Graph, std::vector<Fault>> Graph::build(const pb::Topology& topology) {
  return GraphBuilder(topology).build();
}

std::size_t Graph::find(NodeId id) const {
  const std::uint32_t index = index_[id.value()];
  return index == kUnknown ? nodes_.size() : index;
}

std::string Graph::describe(std::size_t node, const Out& out) const {
  return fmt::format("{} port {} -> {} port {}", nodes_[node].name, out.port.value(),
                     nodes_[out.to].name, outs(out.to)[out.back].port.value());
}

std::string rate_text(std::uint64_t bps) {
  constexpr std::array<std::pair<std::uint64_t, char>, 4> kUnits{
      {{1'000'000'000'000, 'T'}, {1'000'000'000, 'G'}, {1'000'000, 'M'}, {1'000, 'k'}}};
  for (const auto& [unit, letter] : kUnits) {
    if (bps < unit) continue;
    return fmt::format("{}{}", static_cast<double>(bps) / static_cast<double>(unit), letter);
  }
  return fmt::format("{}", bps);
}

}  // namespace mtl::topology
