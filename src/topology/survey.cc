#include "topology/survey.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/ids.h"

namespace mtl::topology {

namespace {

/// A packet of one column at a router, with its layer: state = router x 4 + layer.
using State = std::uint32_t;

/// Follows packets of one column from state to state, with at most one link dead.
class Walk {
 public:
  static constexpr std::uint32_t kNoLink = ~std::uint32_t{0};

  explicit Walk(const Routes& routes) : routes_(routes) {
    const std::size_t states = routes.core().size() * kLayers;
    mark_.assign(states, Mark::kNew);
    longest_.assign(states, 0);
  }

  /// `all`: a packet takes any hop of any tier, as if others were dead; else those of the first
  /// tier with one that is usable.
  void begin(std::size_t column, std::uint32_t dead, bool all) {
    for (const State s : touched_) mark_[s] = Mark::kNew;
    touched_.clear();
    column_ = column;
    dead_ = dead;
    all_ = all;
  }
  /// Whether a packet surely comes from here to a root.
  bool arrives(State from) {
    visit(from);
    return mark_[from] == Mark::kGood;
  }
  /// Links of the longest way from here that is visited already.
  std::uint32_t longest(State from) const { return longest_[from]; }

 private:
  enum class Mark : std::uint8_t { kNew, kOpen, kGood, kBad };
  struct Frame {
    State state;
    std::size_t hop;
    std::uint8_t tier;  ///< the one used; 0xFF: none yet
  };

  bool dead(std::size_t router, const Forwarding::Hop& hop) const {
    if (dead_ == kNoLink) return false;
    const auto& core = routes_.core();
    return routes_.graph().outs(core.node[router])[core.outs[router][hop.out]].link == dead_;
  }
  void visit(State from);
  /// Where the next hop of the frame leads; kNoLink: there is none.
  State step(Frame& frame);

  const Routes& routes_;
  std::vector<Mark> mark_;
  std::vector<std::uint32_t> longest_;
  std::vector<State> touched_;
  std::vector<Frame> stack_;
  std::size_t column_ = 0;
  std::uint32_t dead_ = kNoLink;
  bool all_ = false;
};

State Walk::step(Frame& frame) {
  const std::size_t router = frame.state / kLayers;
  const auto& hops = routes_.tables().hops(router, column_);
  for (; frame.hop < hops.size(); ++frame.hop) {
    const Forwarding::Hop& hop = hops[frame.hop];
    if (!all_ && frame.tier != 0xFF && hop.tier != frame.tier) return kNoLink;
    const std::size_t layer = frame.state % kLayers + hop.raise;
    if (layer >= kLayers || dead(router, hop)) continue;
    frame.tier = hop.tier;
    ++frame.hop;
    return routes_.tables().links(router)[hop.out].node * kLayers + static_cast<State>(layer);
  }
  return kNoLink;
}

void Walk::visit(State from) {
  if (mark_[from] != Mark::kNew) return;
  const auto open = [&](State s) {
    mark_[s] = Mark::kOpen;
    longest_[s] = 0;
    touched_.push_back(s);
    stack_.push_back({s, 0, 0xFF});
  };
  open(from);
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    const State state = frame.state;
    const bool root = routes_.distance(state / kLayers, column_) == 0 &&
                      routes_.tables().at(state / kLayers, column_) == Forwarding::kNone;
    const State next = root ? kNoLink : step(frame);
    if (next == kNoLink) {
      // Without a hop it is dropped: no_route.
      if (mark_[state] == Mark::kOpen) {
        mark_[state] = root || frame.tier != 0xFF ? Mark::kGood : Mark::kBad;
      }
      stack_.pop_back();
      if (stack_.empty()) break;
      const State before = stack_.back().state;
      if (mark_[state] == Mark::kBad && !all_) mark_[before] = Mark::kBad;
      longest_[before] = std::max(longest_[before], longest_[state] + 1);
      continue;
    }
    if (mark_[next] == Mark::kNew) {
      open(next);
    } else if (mark_[next] == Mark::kGood || all_) {
      longest_[state] = std::max(longest_[state], longest_[next] + 1);
    } else {
      mark_[state] = Mark::kBad;  // it may end there, or go in a circle until its hop limit
    }
  }
}

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

/// Links from the router to the endpoint; 1 if the router is the endpoint.
std::size_t last_links(const Routes& routes, std::uint32_t router, std::uint32_t endpoint) {
  const Graph& graph = routes.graph();
  if (graph.node(endpoint).transit) return 1;
  const auto outs = graph.outs(routes.core().node[router]);
  return static_cast<std::size_t>(std::count_if(
      outs.begin(), outs.end(), [&](const Graph::Out& out) { return out.to == endpoint; }));
}

/// Different ways to the endpoint, which is of the column, by the first tiers; routers nearest to
/// the roots first.
void count_ways(const Routes& routes, std::size_t column, std::uint32_t endpoint,
                std::vector<double>& ways, std::vector<std::uint8_t>& done,
                std::vector<std::uint32_t>& stack) {
  const auto& tables = routes.tables();
  std::fill(done.begin(), done.end(), std::uint8_t{0});
  for (std::uint32_t start = 0; start < tables.nodes(); ++start) {
    if (done[start] != 0) continue;
    stack.push_back(start);
    while (!stack.empty()) {
      const std::uint32_t v = stack.back();
      if (done[v] == 2) {
        stack.pop_back();
        continue;
      }
      const bool second = done[v] == 1;
      done[v] = second ? 2 : 1;
      double sum = routes.distance(v, column) == 0
                       ? static_cast<double>(last_links(routes, v, endpoint))
                       : 0;
      const Forwarding::Hop* last = nullptr;
      for (const auto& hop : tables.hops(v, column)) {
        if (hop.tier != 0) break;
        if (last != nullptr && *last == hop) continue;
        last = &hop;
        const std::uint32_t w = tables.links(v)[hop.out].node;
        if (second) sum += ways[w];
        if (!second && done[w] == 0) stack.push_back(w);
      }
      if (second) ways[v] = sum;
    }
  }
}

}  // namespace

std::uint32_t Reach::hop_limit() const {
  return std::max<std::uint32_t>(16, 2 * longest);
}

namespace {

/// Measures column by column. Endpoints of a column are alike, but for those that forward, which
/// are alone in theirs: one speaks for all.
class ReachMeter {
 public:
  explicit ReachMeter(const Routes& routes)
      : routes_(routes),
        graph_(routes.graph()),
        core_(routes.core()),
        members_(routes.tables().columns()),
        walk_(routes),
        ways_(core_.size()),
        done_(core_.size()) {
    for (const std::uint32_t e : graph_.endpoints()) members_[routes.column(e)].push_back(e);
  }

  Reach run() {
    reach_.fewest_ways = std::numeric_limits<double>::infinity();
    for (std::size_t column = 0; column < members_.size(); ++column) {
      if (members_[column].empty()) continue;
      find_lost(column);
      walk_.begin(column, Walk::kNoLink, true);
      count_ways(routes_, column, members_[column].back(), ways_, done_, stack_);
      for (std::size_t source = 0; source < members_.size(); ++source) between(source, column);
    }
    reach_.mean = pairs_ == 0 ? 0 : sum_ / pairs_;
    if (pairs_ == 0) reach_.fewest_ways = 0;
    return reach_;
  }

 private:
  void find_lost(std::size_t column);
  void between(std::size_t source, std::size_t column);
  void ways_of(std::uint32_t from, std::size_t column, std::uint32_t links);

  const Routes& routes_;
  const Graph& graph_;
  const Core& core_;
  std::vector<std::vector<std::uint32_t>> members_;  ///< endpoints by column
  Walk walk_;
  std::vector<double> ways_;  ///< by router
  std::vector<std::uint8_t> done_;
  std::vector<std::uint32_t> stack_;
  Reach reach_;
  double pairs_ = 0;
  double sum_ = 0;
};

void ReachMeter::find_lost(std::size_t column) {
  walk_.begin(column, Walk::kNoLink, false);
  for (std::uint32_t r = 0; r < core_.size(); ++r) {
    if (routes_.distance(r, column) == Routes::kFar || walk_.arrives(r * kLayers)) continue;
    if (reach_.lost++ != 0) continue;
    reach_.example = fmt::format("{} to {}", graph_.node(core_.node[r]).name,
                                 graph_.node(members_[column].front()).name);
  }
}

void ReachMeter::between(std::size_t source, std::size_t column) {
  if (members_[source].empty()) return;
  const std::size_t same = source == column ? 1 : 0;
  const double n = static_cast<double>(members_[source].size()) *
                   static_cast<double>(members_[column].size() - same);
  if (n == 0) return;
  const std::uint32_t from = members_[source].front();
  const std::uint32_t links = routes_.distance_between(from, members_[column].back());
  reach_.diameter = std::max(reach_.diameter, links);
  sum_ += n * links;
  pairs_ += n;
  ways_of(from, column, links);
}

void ReachMeter::ways_of(std::uint32_t from, std::size_t column, std::uint32_t links) {
  const std::uint32_t last = graph_.node(members_[column].front()).transit ? 0 : 1;
  double count = 0;
  const auto goes = [&](std::uint32_t router, std::uint32_t first) {
    const std::uint32_t least = routes_.distance(router, column) + first + last;
    if (least == links) count += ways_[router];
    walk_.arrives(router * kLayers);
    reach_.longest = std::max(reach_.longest, walk_.longest(router * kLayers) + first + last);
  };
  if (graph_.node(from).transit) {
    goes(core_.router[from], 0);
  } else {
    for (const Graph::Out& out : graph_.outs(from)) {
      const std::uint32_t router = core_.router[out.to];
      if (router != Core::kNone && routes_.distance(router, column) != Routes::kFar)
        goes(router, 1);
    }
  }
  reach_.fewest_ways = std::min(reach_.fewest_ways, count);
  reach_.most_ways = std::max(reach_.most_ways, count);
}

}  // namespace

Reach measure_reach(const Routes& routes) {
  return ReachMeter(routes).run();
}

namespace {

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

}  // namespace

namespace {

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
