#include "topology/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "topology/walk.h"

namespace mtl::topology {

namespace {

/// Whether two routers still hang together without the link.
bool joined_without(const Routes& routes, std::uint32_t a, std::uint32_t b, std::uint32_t link) {
  const Core& core = routes.core();
  std::vector<bool> seen(core.size());
  std::vector<std::uint32_t> open{a};
  seen[a] = true;
  while (!open.empty() && !seen[b]) {
    const std::uint32_t v = open.back();
    open.pop_back();
    for (std::size_t i = 0; i < core.links[v].size(); ++i) {
      const std::uint32_t w = core.links[v][i].node;
      if (seen[w] || routes.graph().outs(core.node[v])[core.outs[v][i]].link == link) continue;
      seen[w] = true;
      open.push_back(w);
    }
  }
  return seen[b];
}

/// Judges links one by one.
class Surveyor {
 public:
  Surveyor(const Routes& routes, Survey& survey)
      : routes_(routes), survey_(survey), walk_(routes), layers_(routes.tables()) {
    used_.resize(routes.tables().columns());
    for (const std::uint32_t e : routes.graph().endpoints()) used_[routes.column(e)] = true;
  }
  void router_link(std::uint32_t link, std::uint32_t a, std::uint32_t b);
  void endpoint_link(std::uint32_t endpoint, std::uint32_t router);

 private:
  void judge(Survey::Count& count, bool good, bool cut, const std::string& what) {
    ++count.tried;
    ++(good ? count.survived : cut ? count.cut_off : count.new_tables);
    if (!good && !cut && survey_.examples.size() < 5) survey_.examples.push_back(what);
  }
  bool uses(std::uint32_t router, std::size_t column, std::uint32_t link) const {
    const Core& core = routes_.core();
    const auto& hops = routes_.tables().hops(router, column);
    return std::any_of(hops.begin(), hops.end(), [&](const Forwarding::Hop& hop) {
      return routes_.graph().outs(core.node[router])[core.outs[router][hop.out]].link == link;
    });
  }

  const Routes& routes_;
  Survey& survey_;
  Walk walk_;
  Layers layers_;
  std::vector<bool> used_;  ///< columns of endpoints
};

void Surveyor::router_link(std::uint32_t link, std::uint32_t a, std::uint32_t b) {
  bool good = true;
  for (std::size_t column = 0; column < used_.size() && good; ++column) {
    if (!used_[column]) continue;
    bool followed = false;
    for (const std::uint32_t v : {a, b}) {
      if (!good || !uses(v, column, link)) continue;
      // Only at its ends does the dead link change where packets go.
      if (!followed) layers_.follow(column, 1);
      followed = true;
      walk_.begin(column, link, false);
      for (std::uint32_t layer = 0; layer < kLayers && good; ++layer) {
        if ((layers_.at(v) >> layer & 1U) != 0) good = walk_.arrives(v * kLayers + layer);
      }
    }
  }
  const auto& graph = routes_.graph();
  const Core& core = routes_.core();
  judge(survey_.inner, good, !good && !joined_without(routes_, a, b, link),
        fmt::format("{} - {}", graph.node(core.node[a]).name, graph.node(core.node[b]).name));
}

/// An endpoint that does not forward, and its router: what arrives at the router has to get out.
void Surveyor::endpoint_link(std::uint32_t endpoint, std::uint32_t router) {
  const auto& graph = routes_.graph();
  std::size_t parallel = 0;
  for (const Graph::Out& out : graph.outs(endpoint)) {
    if (routes_.core().router[out.to] == router) ++parallel;
  }
  // Other links to the same router stand in the same tier, at both ends.
  judge(survey_.outer, parallel > 1, graph.outs(endpoint).size() == 1,
        fmt::format("{} - {}", graph.node(endpoint).name,
                    graph.node(routes_.core().node[router]).name));
}

/// The finaliser of MurmurHash3: links are numbered host by host, so every n-th would be of a kind.
std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6B;
  x ^= x >> 13;
  x *= 0xC2B2AE35;
  return x ^ (x >> 16);
}

/// Links are in the sample up to this value of mixed(): `most` of them, since no two have the same.
std::uint32_t last_of_sample(std::size_t links, std::size_t most) {
  if (most >= links) return std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> values(links);
  for (std::uint32_t link = 0; link < links; ++link) values[link] = mixed(link);
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(most - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

Survey survey_failures(const Routes& routes, std::size_t most) {
  const Graph& graph = routes.graph();
  const Core& core = routes.core();
  Survey survey;
  survey.links = graph.links();
  if (most == 0) return survey;
  Surveyor surveyor(routes, survey);
  const std::uint32_t last = last_of_sample(graph.links(), most);
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    for (const Graph::Out& out : graph.outs(n)) {
      if (out.to < n || mixed(out.link) > last) continue;  // each link once
      const std::uint32_t a = core.router[n];
      const std::uint32_t b = core.router[out.to];
      if (a != Core::kNone && b != Core::kNone) {
        surveyor.router_link(out.link, a, b);
      } else if (a != Core::kNone) {
        surveyor.endpoint_link(out.to, a);
      } else if (b != Core::kNone) {
        surveyor.endpoint_link(static_cast<std::uint32_t>(n), b);
      } else {
        ++survey.outer.tried;  // two endpoints that forward nothing
        ++survey.outer.cut_off;
      }
    }
  }
  return survey;
}

namespace {

/// Dinic's maximum flow.
class Flow {
 public:
  explicit Flow(std::size_t nodes) : edges_(nodes) {}
  void add(std::size_t a, std::size_t b, std::uint64_t ab, std::uint64_t ba) {
    edges_[a].push_back({b, edges_[b].size(), ab});
    edges_[b].push_back({a, edges_[a].size() - 1, ba});
  }
  std::uint64_t run(std::size_t from, std::size_t to) {
    std::uint64_t sum = 0;
    while (level(from, to)) {
      next_.assign(edges_.size(), 0);
      while (const std::uint64_t more = push(from, to)) {
        sum = std::numeric_limits<std::uint64_t>::max() - sum < more
                  ? std::numeric_limits<std::uint64_t>::max()
                  : sum + more;
      }
    }
    return sum;
  }

 private:
  struct Edge {
    std::size_t to, back;
    std::uint64_t left;
  };
  bool level(std::size_t from, std::size_t to) {
    level_.assign(edges_.size(), 0);
    level_[from] = 1;
    std::vector<std::size_t> queue{from};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const Edge& e : edges_[queue[i]]) {
        if (e.left == 0 || level_[e.to] != 0) continue;
        level_[e.to] = level_[queue[i]] + 1;
        queue.push_back(e.to);
      }
    }
    return level_[to] != 0;
  }
  /// One way along rising levels, without recursion.
  std::uint64_t push(std::size_t from, std::size_t to) {
    std::vector<std::size_t> way{from};
    while (way.back() != to) {
      const std::size_t v = way.back();
      auto& i = next_[v];
      while (i < edges_[v].size() &&
             (edges_[v][i].left == 0 || level_[edges_[v][i].to] != level_[v] + 1)) {
        ++i;
      }
      if (i < edges_[v].size()) {
        way.push_back(edges_[v][i].to);
      } else {
        way.pop_back();
        if (way.empty()) return 0;
        ++next_[way.back()];
      }
    }
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t k = 0; k + 1 < way.size(); ++k) {
      least = std::min(least, edges_[way[k]][next_[way[k]]].left);
    }
    for (std::size_t k = 0; k + 1 < way.size(); ++k) {
      Edge& e = edges_[way[k]][next_[way[k]]];
      e.left -= least;
      edges_[e.to][e.back].left += least;
    }
    return least;
  }

  std::vector<std::vector<Edge>> edges_;
  std::vector<std::size_t> level_, next_;
};

}  // namespace

std::uint64_t bisection(const Graph& graph) {
  const std::size_t n = graph.nodes();
  Flow flow(n + 2);
  constexpr std::uint64_t kMuch = std::uint64_t{1} << 62;
  std::vector<std::uint32_t> ends = graph.endpoints();
  std::sort(ends.begin(), ends.end(),
            [&](std::uint32_t a, std::uint32_t b) { return graph.node(a).id < graph.node(b).id; });
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (2 * i < ends.size()) {
      flow.add(n, ends[i], kMuch, 0);
    } else {
      flow.add(ends[i], n + 1, kMuch, 0);
    }
  }
  for (std::size_t v = 0; v < n; ++v) {
    for (const Graph::Out& out : graph.outs(v)) {
      if (v < out.to) flow.add(v, out.to, out.bps, out.bps);
    }
  }
  return ends.size() < 2 ? 0 : flow.run(n, n + 1);
}

}  // namespace mtl::topology
