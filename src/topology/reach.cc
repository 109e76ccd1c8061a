#include "topology/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "base/ids.h"
#include "topology/walk.h"

namespace mtl::topology {

namespace {

/// Ways of one column's packets by the first tiers, all links up, from each router to where the
/// column ends.
class FirstTiers {
 public:
  explicit FirstTiers(const Routes& routes)
      : routes_(routes),
        order_(routes.core().size()),
        mean_(order_.size()),
        most_(order_.size()),
        ways_(order_.size()) {}

  void begin(std::size_t column);
  /// Counts ways to an endpoint of the column.
  void count_to(std::uint32_t endpoint);

  double mean(std::uint32_t router) const { return mean_[router]; }         ///< links
  std::uint32_t most(std::uint32_t router) const { return most_[router]; }  ///< links
  double ways(std::uint32_t router) const { return ways_[router]; }         ///< to the endpoint

 private:
  void put_in_order();
  /// Where a first tier's hop leads, for each hop as often as it is listed; none at a root.
  template <class Visit>
  void each_hop(std::uint32_t router, Visit visit) const;

  const Routes& routes_;
  std::size_t column_ = 0;
  std::vector<std::uint32_t> order_;  ///< routers, those nearest to the roots first
  std::vector<double> mean_;          ///< by router
  std::vector<std::uint32_t> most_;
  std::vector<double> ways_;
  std::vector<bool> known_;
  std::vector<std::uint32_t> stack_;
};

template <class Visit>
void FirstTiers::each_hop(std::uint32_t router, Visit visit) const {
  if (routes_.distance(router, column_) == 0) return;
  for (const Forwarding::Hop& hop : routes_.tables().hops(router, column_)) {
    if (hop.tier != 0) return;
    visit(hop, routes_.tables().links(router)[hop.out].node);
  }
}

void FirstTiers::put_in_order() {
  order_.clear();
  known_.assign(mean_.size(), false);
  std::vector<bool> opened(mean_.size());
  for (std::uint32_t start = 0; start < mean_.size(); ++start) {
    if (!known_[start]) stack_.push_back(start);
    while (!stack_.empty()) {
      const std::uint32_t v = stack_.back();
      if (known_[v] || opened[v]) {
        stack_.pop_back();
        if (!known_[v]) order_.push_back(v);
        known_[v] = true;
        continue;
      }
      opened[v] = true;
      each_hop(v, [&](const auto&, std::uint32_t w) {
        if (!opened[w]) stack_.push_back(w);
      });
    }
  }
}

void FirstTiers::begin(std::size_t column) {
  column_ = column;
  put_in_order();
  for (const std::uint32_t v : order_) {
    double sum = 0;
    double hops = 0;
    most_[v] = 0;
    each_hop(v, [&](const auto&, std::uint32_t w) {
      sum += 1 + mean_[w];
      ++hops;
      most_[v] = std::max(most_[v], 1 + most_[w]);
    });
    mean_[v] = hops == 0 ? 0 : sum / hops;
  }
}

void FirstTiers::count_to(std::uint32_t endpoint) {
  const Graph& graph = routes_.graph();
  std::fill(ways_.begin(), ways_.end(), 0);
  if (graph.node(endpoint).transit) ways_[routes_.core().router[endpoint]] = 1;
  for (const Graph::Out& out : graph.outs(endpoint)) {
    const std::uint32_t root = routes_.core().router[out.to];
    if (!graph.node(endpoint).transit && root != Core::kNone) ++ways_[root];
  }
  for (const std::uint32_t v : order_) {
    const Forwarding::Hop* last = nullptr;
    each_hop(v, [&](const Forwarding::Hop& hop, std::uint32_t w) {
      if (last == nullptr || *last != hop) ways_[v] += ways_[w];
      last = &hop;
    });
  }
}

/// Endpoints that hang on the fabric alike: they reach and are reached by ways as many and as long.
struct Kind {
  std::uint32_t speaker = 0;
  std::uint32_t other = 0;  ///< one more of the kind, if it has more
  double count = 0;
};

/// Endpoints that forward are of a kind of their own, and so are those joined to nodes that do not.
/// Of the others the links count, with their rates, by which first tiers are weighed.
std::vector<Kind> kinds_of(const Routes& routes) {
  const Graph& graph = routes.graph();
  using Link = std::tuple<std::uint32_t, std::uint64_t>;
  std::map<std::vector<Link>, std::size_t> known;
  std::vector<Kind> kinds;
  for (const std::uint32_t e : graph.endpoints()) {
    std::vector<Link> key;
    for (const Graph::Out& out : graph.outs(e)) {
      const std::uint32_t router = routes.core().router[out.to];
      key.emplace_back(router, router == Core::kNone ? e : out.bps);
    }
    std::sort(key.begin(), key.end());
    if (graph.node(e).transit) key = {{Core::kNone, e}};
    const auto [place, fresh] = known.emplace(std::move(key), kinds.size());
    if (fresh) kinds.push_back({e, e, 0});
    kinds[place->second].other = e;
    ++kinds[place->second].count;
  }
  return kinds;
}

/// Measures column by column.
class ReachMeter {
 public:
  explicit ReachMeter(const Routes& routes)
      : routes_(routes),
        graph_(routes.graph()),
        core_(routes.core()),
        kinds_(kinds_of(routes)),
        ends_(routes.tables().columns()),
        hangs_(core_.size()),
        walk_(routes),
        first_(routes) {
    for (std::uint32_t n = 0; n < graph_.nodes(); ++n) {
      if (graph_.node(n).transit) continue;
      ends_[routes.column(n)].add(n);
      for (const std::uint32_t root : routes.roots(routes.column(n))) hangs_[root].add(n);
    }
  }

  Reach run() {
    reach_.fewest_ways = std::numeric_limits<double>::infinity();
    std::vector<std::vector<const Kind*>> of_column(ends_.size());
    for (const Kind& kind : kinds_) of_column[routes_.column(kind.speaker)].push_back(&kind);
    for (std::size_t column = 0; column < ends_.size(); ++column) {
      find_lost(column);
      find_longest(column);
      if (of_column[column].empty()) continue;
      first_.begin(column);
      for (const Kind* to : of_column[column]) {
        first_.count_to(to->speaker);
        for (const Kind& from : kinds_) between(from, *to);
      }
    }
    reach_.mean = pairs_ == 0 ? 0 : sum_ / pairs_;
    if (pairs_ == 0) reach_.fewest_ways = 0;
    return reach_;
  }

 private:
  /// Nodes that do not forward: how many, and one of them.
  struct Some {
    std::size_t count = 0;
    std::uint32_t one = 0;
    void add(std::uint32_t node) {
      ++count;
      one = node;
    }
  };
  void find_lost(std::size_t column);
  void find_longest(std::size_t column);
  void between(const Kind& from, const Kind& to);
  /// Of a packet that the endpoint sends by this link.
  void by(const Graph::Out& out, std::uint32_t dst, double share);
  void by_router(std::uint32_t router, std::uint32_t dst, std::uint32_t links, double share);

  const Routes& routes_;
  const Graph& graph_;
  const Core& core_;
  std::vector<Kind> kinds_;
  std::vector<Some> ends_;   ///< by column: of its destinations
  std::vector<Some> hangs_;  ///< by router: of its neighbours
  Walk walk_;
  FirstTiers first_;
  Reach reach_;
  double pairs_ = 0;
  double sum_ = 0;
  struct {
    double mean = 0;
    double ways = 0;
  } way_;  ///< of the pair at hand
};

void ReachMeter::find_lost(std::size_t column) {
  walk_.begin(column, Walk::kNoLink, false);
  for (std::uint32_t r = 0; r < core_.size(); ++r) {
    if (routes_.distance(r, column) == Routes::kFar || walk_.arrives(r * kLayers)) continue;
    if (reach_.lost++ != 0) continue;
    const std::uint32_t dst =
        ends_[column].count != 0 ? ends_[column].one : core_.node[routes_.roots(column).front()];
    reach_.example =
        fmt::format("{} to {}", graph_.node(core_.node[r]).name, graph_.node(dst).name);
  }
}

void ReachMeter::find_longest(std::size_t column) {
  const Some& ends = ends_[column];
  walk_.begin(column, Walk::kNoLink, true);
  for (std::uint32_t r = 0; r < core_.size(); ++r) {
    if (routes_.distance(r, column) == Routes::kFar) continue;
    walk_.arrives(r * kLayers);
    const Some& from = hangs_[r];
    // A link into the fabric and one out of it, but of a node that has packets for itself alone.
    std::uint32_t more = (from.count != 0 ? 1 : 0) + (ends.count != 0 ? 1 : 0);
    if (from.count == 1 && ends.count == 1 && from.one == ends.one) more = 1;
    reach_.longest = std::max(reach_.longest, walk_.longest(r * kLayers) + more);
  }
}

void ReachMeter::between(const Kind& from, const Kind& to) {
  const bool same = from.speaker == to.speaker;
  const double n = from.count * (to.count - (same ? 1 : 0));
  if (n == 0) return;
  const std::uint32_t dst = same ? to.other : to.speaker;
  way_ = {};
  const auto outs = graph_.outs(from.speaker);
  if (graph_.node(from.speaker).transit) {
    by_router(core_.router[from.speaker], dst, 0, 1);
  } else if (outs.size() == 1) {
    by(outs.front(), dst, 1);
  } else {
    const network::Tier tier = routes_.route(from.speaker, dst).tiers.front();
    for (const Graph::Out& out : outs) {
      const auto times = std::count_if(tier.begin(), tier.end(),
                                       [&](const auto& hop) { return hop.port == out.port; });
      if (times != 0) by(out, dst, static_cast<double>(times) / static_cast<double>(tier.size()));
    }
  }
  pairs_ += n;
  sum_ += n * way_.mean;
  reach_.fewest_ways = std::min(reach_.fewest_ways, way_.ways);
  reach_.most_ways = std::max(reach_.most_ways, way_.ways);
}

void ReachMeter::by(const Graph::Out& out, std::uint32_t dst, double share) {
  if (core_.router[out.to] != Core::kNone && out.to != dst) {
    return by_router(core_.router[out.to], dst, 1, share);
  }
  way_.mean += share;
  way_.ways += 1;
  reach_.diameter = std::max(reach_.diameter, std::uint32_t{1});
}

void ReachMeter::by_router(std::uint32_t router, std::uint32_t dst, std::uint32_t links,
                           double share) {
  if (!graph_.node(dst).transit) ++links;
  way_.mean += share * (links + first_.mean(router));
  way_.ways += first_.ways(router);
  reach_.diameter = std::max(reach_.diameter, links + first_.most(router));
}

}  // namespace

std::uint32_t Reach::hop_limit() const {
  return std::max<std::uint32_t>(16, 2 * longest);
}

Reach measure_reach(const Routes& routes) {
  return ReachMeter(routes).run();
}

}  // namespace mtl::topology
