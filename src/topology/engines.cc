// The engines that know a shape (topology/engines.h).
#include "topology/engines.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "base/ids.h"

namespace mtl::topology {

namespace {

constexpr std::size_t kMaxHops = network::RouteTable::kMaxHops;

std::set<std::uint32_t> neighbours(const Core& core, std::size_t router) {
  std::set<std::uint32_t> out;
  for (const auto& far : core.links[router]) out.insert(far.node);
  return out;
}

const std::string& name_of(const Graph& graph, const Core& core, std::size_t router) {
  return graph.node(core.node[router]).name;
}

std::vector<std::uint32_t> order_by(const Core& core, const std::vector<std::uint64_t>& key) {
  std::vector<std::uint32_t> ranked(core.size());
  std::iota(ranked.begin(), ranked.end(), 0U);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key[a] < key[b]; });
  std::vector<std::uint32_t> order(core.size());
  for (std::uint32_t i = 0; i < ranked.size(); ++i) order[ranked[i]] = i;
  return order;
}

// ---- Full mesh ----------------------------------------------------------------------------------

class FullMesh final : public Chooser {
 public:
  explicit FullMesh(const Core& core) : core_(core) {}

  void choose(const Target& target, HopSets& hops) const override {
    const std::uint8_t raise = core_.size() > 2 ? 1 : 0;  // two nodes are a line
    for (std::size_t v = 0; v < core_.size(); ++v) {
      if (target.distance[v] != 1) continue;
      const auto& links = core_.links[v];
      for (const bool straight : {true, false}) {
        std::size_t room = kMaxHops;
        // From the next router on, so that where not all fit a tier, routers differ in those they
        // leave out.
        for (std::size_t i = 0; i < links.size() && room > 0; ++i) {
          const std::size_t out = straight ? i : (i + first_above(v)) % links.size();
          if ((target.distance[links[out].node] == 0) != straight) continue;
          hops[v].push_back({static_cast<std::uint16_t>(out), raise,
                             static_cast<std::uint8_t>(straight ? 0 : 1)});
          --room;
        }
      }
    }
  }

 private:
  std::size_t first_above(std::size_t v) const {
    const auto& links = core_.links[v];
    const auto found = std::find_if(links.begin(), links.end(),
                                    [&](const Forwarding::Far& far) { return far.node > v; });
    return static_cast<std::size_t>(found - links.begin()) % links.size();
  }
  const Core& core_;
};

// ---- Ring ---------------------------------------------------------------------------------------

class Ring final : public Chooser {
 public:
  Ring(const Core& core, std::vector<std::uint32_t> place)
      : core_(core), place_(std::move(place)) {}

  void choose(const Target& target, HopSets& hops) const override {
    nearer(core_, target, hops);
    const auto last = static_cast<std::uint32_t>(core_.size() - 1);
    for (std::size_t v = 0; v < core_.size(); ++v) {
      for (Forwarding::Hop& hop : hops[v]) {
        // The dateline lies between the last place and the first, for both directions.
        const std::uint32_t from = place_[v];
        const std::uint32_t to = place_[core_.links[v][hop.out].node];
        hop.raise = std::min(from, to) == 0 && std::max(from, to) == last ? 1 : 0;
      }
    }
  }

 private:
  const Core& core_;
  std::vector<std::uint32_t> place_;  ///< by router
};

// ---- Levels -------------------------------------------------------------------------------------

class Levels final : public Chooser {
 public:
  Levels(const Graph& graph, const Core& core) : core_(core) {
    std::vector<std::uint64_t> key;
    for (const std::uint32_t node : core.node) {
      key.push_back(std::numeric_limits<std::uint32_t>::max() - graph.node(node).level);
    }
    order_ = order_by(core, key);
  }
  void choose(const Target& target, HopSets& hops) const override { nearer(core_, target, hops); }

 private:
  const Core& core_;
};

class Shortest final : public Chooser {
 public:
  explicit Shortest(const Core& core) : core_(core) {
    std::size_t root = 0;
    for (std::size_t v = 1; v < core.size(); ++v) {
      if (core.links[v].size() > core.links[root].size()) root = v;
    }
    std::vector<std::uint64_t> key(core.size(), core.size());
    std::vector<std::size_t> queue;
    std::uint64_t next = 0;
    for (std::size_t i = 0; i <= core.size(); ++i) {  // planes have no way between them
      const std::size_t start = i == 0 ? root : i - 1;
      if (start >= core.size() || key[start] != core.size()) continue;
      key[start] = next++;
      queue.assign(1, start);
      for (std::size_t q = 0; q < queue.size(); ++q) {
        for (const auto& far : core.links[queue[q]]) {
          if (key[far.node] != core.size()) continue;
          key[far.node] = next++;
          queue.push_back(far.node);
        }
      }
    }
    order_ = order_by(core, key);
  }
  void choose(const Target& target, HopSets& hops) const override { nearer(core_, target, hops); }

 private:
  const Core& core_;
};

// ---- Torus and mesh -----------------------------------------------------------------------------

// Up to three closed dimensions: packets go by falling coordinates first, in any dimension, then by
// rising ones, and each hop that closes a row raises. Within a layer falling hops make the sum of
// the coordinates smaller and rising ones larger, no falling one follows a rising one, and into a
// hop that closes a row packets come from lower layers only: no circle. With more closed
// dimensions, of which at most three are longer than three, packets go dimension by dimension; in a
// row of three nobody goes on along the row, so its closing needs no raise. Rules: N10
class Grid final : public Chooser {
 public:
  struct Way {
    std::uint32_t dimension = 0;
    bool rises = false;   ///< to the next coordinate, round included
    bool closes = false;  ///< round the end of a row
  };
  struct Dimension {
    std::uint32_t size = 0;
    bool closed = false;
  };

  Grid(const Graph& graph, const Core& core, std::vector<Dimension> dimensions,
       std::vector<std::vector<Way>> ways, bool in_order)
      : graph_(graph),
        core_(core),
        dimensions_(std::move(dimensions)),
        ways_(std::move(ways)),
        in_order_(in_order) {}

  void choose(const Target& target, HopSets& hops) const override {
    const auto& to = at(target.roots.front());
    for (std::size_t v = 0; v < core_.size(); ++v) {
      if (target.distance[v] == 0) continue;
      if (in_order_) {
        std::uint32_t d = 0;
        while (at(v)[d] == to[d]) ++d;
        take(v, to, hops[v], [&](const Way& way) { return way.dimension == d; });
        continue;
      }
      take(v, to, hops[v], [](const Way& way) { return !way.rises; });
      if (hops[v].empty()) take(v, to, hops[v], [](const Way& way) { return way.rises; });
    }
  }

 private:
  const std::vector<std::uint32_t>& at(std::size_t router) const {
    return graph_.node(core_.node[router]).at;
  }
  /// Whether the dimension is gone through by rising coordinates. Half-way round both ways are as
  /// short: then every second place takes each, which loads them alike.
  bool rises(std::uint32_t dimension, std::uint32_t from, std::uint32_t to) const {
    const auto& [size, closed] = dimensions_[dimension];
    if (!closed) return to > from;
    const std::uint32_t forward = (to + size - from) % size;
    if (2 * forward == size) return from % 2 == 0;
    return 2 * forward < size;
  }
  template <class Which>
  void take(std::size_t v, const std::vector<std::uint32_t>& to, Forwarding::Hops& hops,
            const Which& which) const {
    const auto& from = at(v);
    for (std::size_t out = 0; out < ways_[v].size(); ++out) {
      const Way& way = ways_[v][out];
      const std::uint32_t d = way.dimension;
      if (!which(way) || from[d] == to[d] || rises(d, from[d], to[d]) != way.rises) continue;
      const bool raise = way.closes && (!in_order_ || dimensions_[d].size > 3);
      hops.push_back(
          {static_cast<std::uint16_t>(out), static_cast<std::uint8_t>(raise ? 1 : 0), 0});
    }
  }

  const Graph& graph_;
  const Core& core_;
  std::vector<Dimension> dimensions_;
  std::vector<std::vector<Way>> ways_;  ///< by router and link
  bool in_order_;
};

/// Along which dimension a link goes, or an error.
Result<Grid::Way> way_of(const Graph& graph, const Core& core,
                         const std::vector<Grid::Dimension>& dimensions, std::size_t v,
                         std::size_t w) {
  const auto& a = graph.node(core.node[v]).at;
  const auto& b = graph.node(core.node[w]).at;
  Grid::Way way;
  std::size_t differ = 0;
  for (std::uint32_t d = 0; d < dimensions.size(); ++d) {
    if (a[d] == b[d]) continue;
    ++differ;
    const std::uint32_t size = dimensions[d].size;
    const std::uint32_t apart = a[d] < b[d] ? b[d] - a[d] : a[d] - b[d];
    const bool closes = size > 2 && apart + 1 == size;
    if (apart != 1 && !closes) differ = 2;
    way = {d, closes ? b[d] == 0 : b[d] > a[d], closes};
  }
  if (differ == 1) return way;
  return Error{fmt::format("{} and {} are joined, but are no neighbours in the grid",
                           name_of(graph, core, v), name_of(graph, core, w))};
}

// ---- Dragonfly ----------------------------------------------------------------------------------

class Dragonfly final : public Chooser {
 public:
  Dragonfly(const Graph& graph, const Core& core) : core_(core) {
    for (const std::uint32_t node : core.node) group_.push_back(graph.node(node).at.front());
    std::uint32_t groups = 0;
    for (const std::uint32_t group : group_) groups = std::max(groups, group + 1);
    reaches_.assign(core.size(), std::vector<bool>(groups));
    for (std::size_t v = 0; v < core.size(); ++v) {
      for (const auto& far : core.links[v]) reaches_[v][group_[far.node]] = true;
    }
  }

  // Each hop raises, but the one to a router that leaves the group: only what starts there takes
  // it, on layer 0. So no layer has two hops in a row, and no circle. Rules: N10
  void choose(const Target& target, HopSets& hops) const override {
    const std::uint32_t root = target.roots.front();
    const std::uint32_t group = group_[root];
    for (std::size_t v = 0; v < core_.size(); ++v) {
      if (v == root) continue;
      const bool leaves = group_[v] != group && reaches_[v][group];
      for (std::size_t out = 0; out < core_.links[v].size(); ++out) {
        const std::uint32_t w = core_.links[v][out].node;
        const bool local = group_[w] == group_[v];
        const auto hop = [&](std::uint8_t raise, std::uint8_t tier) {
          hops[v].push_back({static_cast<std::uint16_t>(out), raise, tier});
        };
        if (group_[v] == group) {
          if (local) hop(1, w == root ? 0 : 1);
        } else if (leaves) {
          if (group_[w] == group) hop(1, 0);
          if (local && reaches_[w][group]) hop(1, 1);
        } else if (local && reaches_[w][group]) {
          hop(0, 0);
        }
      }
      std::stable_sort(hops[v].begin(), hops[v].end(),
                       [](const auto& a, const auto& b) { return a.tier < b.tier; });
    }
  }

 private:
  const Core& core_;
  std::vector<std::uint32_t> group_;        ///< by router
  std::vector<std::vector<bool>> reaches_;  ///< by router and group: has a link to it
};

}  // namespace

Result<std::unique_ptr<Chooser>> full_mesh(const Graph& graph, const Core& core) {
  for (std::size_t v = 0; v < core.size(); ++v) {
    const std::size_t joined = neighbours(core, v).size();
    if (joined + 1 == core.size()) continue;
    return Error{fmt::format("{} is joined to {} of {} other nodes that forward",
                             name_of(graph, core, v), joined, core.size() - 1)};
  }
  if (core.size() < 2) return Error{"fewer than two nodes forward"};
  return std::unique_ptr<Chooser>(std::make_unique<FullMesh>(core));
}

Result<std::unique_ptr<Chooser>> ring(const Graph& graph, const Core& core) {
  if (core.size() < 3) return Error{"fewer than three nodes forward"};
  for (std::size_t v = 0; v < core.size(); ++v) {
    const std::size_t joined = neighbours(core, v).size();
    if (joined == 2) continue;
    return Error{fmt::format("{} is joined to {} nodes that forward, not to 2",
                             name_of(graph, core, v), joined)};
  }
  std::vector<std::uint32_t> place(core.size(), Core::kNone);
  std::uint32_t at = 0;
  for (std::uint32_t next = 0; next < core.size(); ++next) {
    place[at] = next;
    for (const std::uint32_t w : neighbours(core, at)) {
      if (place[w] != Core::kNone) continue;
      at = w;
      break;
    }
    if (place[at] != Core::kNone && next + 1 < core.size()) return Error{"it is several rings"};
  }
  return std::unique_ptr<Chooser>(std::make_unique<Ring>(core, std::move(place)));
}

Result<std::unique_ptr<Chooser>> levels(const Graph& graph, const Core& core) {
  for (std::size_t v = 0; v < core.size(); ++v) {
    const std::uint32_t mine = graph.node(core.node[v]).level;
    if (mine == 0) return Error{fmt::format("{} has no level", name_of(graph, core, v))};
    for (const auto& far : core.links[v]) {
      const std::uint32_t other = graph.node(core.node[far.node]).level;
      if (other == mine + 1 || mine == other + 1) continue;
      return Error{fmt::format("{} (level {}) is joined to {} (level {})", name_of(graph, core, v),
                               mine, name_of(graph, core, far.node), other)};
    }
  }
  return std::unique_ptr<Chooser>(std::make_unique<Levels>(graph, core));
}

namespace {

/// The sides of the grid whose places the routers fill, each place once.
Result<std::vector<Grid::Dimension>> sides(const Graph& graph, const Core& core) {
  std::vector<Grid::Dimension> out;
  std::set<std::vector<std::uint32_t>> seen;
  for (std::size_t v = 0; v < core.size(); ++v) {
    const auto& at = graph.node(core.node[v]).at;
    if (v == 0) out.resize(at.size());
    if (at.empty() || at.size() != out.size()) {
      return Error{fmt::format("{} has {} coordinates", name_of(graph, core, v), at.size())};
    }
    if (!seen.insert(at).second) {
      return Error{fmt::format("{} has another's coordinates", name_of(graph, core, v))};
    }
    for (std::size_t d = 0; d < at.size(); ++d) {
      if (at[d] > kMaxNode) {
        return Error{fmt::format("{} has the coordinate {}", name_of(graph, core, v), at[d])};
      }
      out[d].size = std::max(out[d].size, at[d] + 1);
    }
  }
  std::uint64_t places = 1;
  for (const auto& side : out) places = std::min<std::uint64_t>(places * side.size, 1U << 20);
  if (places == core.size()) return out;
  return Error{fmt::format("the grid has {} places, {} of them taken", places, core.size())};
}

}  // namespace

Result<std::unique_ptr<Chooser>> grid(const Graph& graph, const Core& core) {
  auto dimensions = sides(graph, core);
  if (!dimensions) return dimensions.error();
  std::vector<std::vector<Grid::Way>> ways(core.size());
  // Places with a next one along each dimension, and such with one round the end.
  std::vector<std::size_t> next(dimensions->size());
  std::vector<std::size_t> round(dimensions->size());
  for (std::size_t v = 0; v < core.size(); ++v) {
    std::set<std::pair<std::uint32_t, bool>> kinds;
    for (const auto& far : core.links[v]) {
      auto way = way_of(graph, core, *dimensions, v, far.node);
      if (!way) return way.error();
      ways[v].push_back(*way);
      if (way->rises) kinds.insert({way->dimension, way->closes});
    }
    for (const auto& [dimension, closes] : kinds) ++(closes ? round : next)[dimension];
  }
  std::size_t closed = 0;
  std::size_t long_ones = 0;
  for (std::size_t d = 0; d < dimensions->size(); ++d) {
    auto& side = (*dimensions)[d];
    const std::size_t rows = core.size() / side.size;
    if (next[d] != core.size() - rows || (round[d] != rows && round[d] != 0)) {
      return Error{
          fmt::format("a link is missing along dimension {}: {} of {} rows are closed, {} of "
                      "{} places have a next one",
                      d, round[d], rows, next[d], core.size() - rows)};
    }
    side.closed = round[d] != 0;
    closed += side.closed ? 1 : 0;
    long_ones += side.closed && side.size > 3 ? 1 : 0;
  }
  if (long_ones >= kLayers) {
    return Error{fmt::format("{} closed dimensions longer than 3 need {} layers, and there are {}",
                             long_ones, long_ones + 1, kLayers)};
  }
  return std::unique_ptr<Chooser>(std::make_unique<Grid>(graph, core, std::move(*dimensions),
                                                         std::move(ways), closed >= kLayers));
}

Result<std::unique_ptr<Chooser>> dragonfly(const Graph& graph, const Core& core) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> groups;
  for (std::uint32_t v = 0; v < core.size(); ++v) {
    const auto& at = graph.node(core.node[v]).at;
    if (at.size() != 2 || at[0] >= core.size()) {
      return Error{fmt::format("{} has no place of group and router", name_of(graph, core, v))};
    }
    groups[at[0]].push_back(v);
  }
  if (groups.size() < 2) return Error{"it has fewer than two groups"};
  for (const auto& [group, members] : groups) {
    std::set<std::uint32_t> reached{group};
    for (const std::uint32_t v : members) {
      std::size_t local = 0;
      for (const std::uint32_t w : neighbours(core, v)) {
        const std::uint32_t other = graph.node(core.node[w]).at[0];
        if (other == group) ++local;
        reached.insert(other);
      }
      if (local + 1 == members.size()) continue;
      return Error{fmt::format("{} is joined to {} of the {} others of its group",
                               name_of(graph, core, v), local, members.size() - 1)};
    }
    if (reached.size() != groups.size()) {
      return Error{fmt::format("group {} has links to {} of {} other groups", group,
                               reached.size() - 1, groups.size() - 1)};
    }
  }
  return std::unique_ptr<Chooser>(std::make_unique<Dragonfly>(graph, core));
}

std::unique_ptr<Chooser> shortest(const Graph&, const Core& core) {
  return std::make_unique<Shortest>(core);
}

}  // namespace mtl::topology
