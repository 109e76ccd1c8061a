#include "topology/routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "topology/engines.h"

namespace mtl::topology {

using network::NextHop;
using network::Route;
using network::RouteTable;
using network::Tier;

namespace {

constexpr std::array<std::string_view, 7> kNames{"auto", "full-mesh", "ring",   "levels",
                                                 "grid", "dragonfly", "general"};
constexpr std::size_t kMaxTable = std::size_t{1} << 30;  ///< entries

/// Hops of one tier that are to share the load by what their links carry.
struct Weighted {
  NextHop hop;
  std::uint64_t bps = 0;
};

/// Each hop as often as its rate asks for (N7), if 64 places suffice for the ratios; else once.
Tier weigh(const std::vector<Weighted>& hops) {
  std::uint64_t unit = 0;
  std::uint64_t sum = 0;
  for (const Weighted& w : hops) {
    unit = std::gcd(unit, w.bps);
    sum += w.bps;
  }
  const bool exact = unit != 0 && sum / unit <= RouteTable::kMaxHops;
  Tier tier;
  for (const Weighted& w : hops) {
    const std::size_t weight = exact ? w.bps / unit : 1;
    tier.insert(tier.end(), std::min(weight, RouteTable::kMaxHops - tier.size()), w.hop);
  }
  return tier;
}

}  // namespace

std::string_view name(Engine engine) {
  return kNames[static_cast<std::size_t>(engine)];
}

Result<Engine> engine_of(std::string_view wanted) {
  std::string list;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == wanted) return static_cast<Engine>(i);
    list += (i == 0 ? "" : ", ") + std::string(kNames[i]);
  }
  return Error{fmt::format("there is no engine \"{}\"; it must be one of: {}", wanted, list)};
}

Core::Core(const Graph& graph) : router(graph.nodes(), kNone) {
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    if (!graph.node(n).transit) continue;
    router[n] = static_cast<std::uint32_t>(node.size());
    node.push_back(static_cast<std::uint32_t>(n));
  }
  links.resize(node.size());
  outs.resize(node.size());
  std::vector<std::uint32_t> place(graph.directions(), kNone);  // by out: index among links
  for (std::size_t r = 0; r < node.size(); ++r) {
    const auto all = graph.outs(node[r]);
    for (std::size_t o = 0; o < all.size(); ++o) {
      if (router[all[o].to] == kNone) continue;
      place[graph.first_out(node[r]) + o] = static_cast<std::uint32_t>(links[r].size());
      links[r].push_back({router[all[o].to], Forwarding::kNoBack});
      outs[r].push_back(static_cast<std::uint32_t>(o));
    }
  }
  for (std::size_t r = 0; r < node.size(); ++r) {
    for (std::size_t i = 0; i < links[r].size(); ++i) {
      const Graph::Out& out = graph.outs(node[r])[outs[r][i]];
      links[r][i].back = place[graph.first_out(out.to) + out.back];
    }
  }
}

/// Makes the tables, column by column.
class Router {
 public:
  Router(Routes& routes, Engine engine)
      : routes_(routes), graph_(*routes.graph_), core_(routes.core_), wanted_(engine) {}

  Result<void> run() {
    make_columns();
    const std::size_t entries = core_.size() * routes_.roots_.size();
    if (entries > kMaxTable) {
      return Error{
          fmt::format("the tables would have {} nodes x {} columns = {} entries, more than "
                      "{}; divide the fabric",
                      core_.size(), routes_.roots_.size(), entries, kMaxTable)};
    }
    if (auto ok = measure(); !ok) return ok;
    if (auto ok = pick(); !ok) return ok;
    routes_.tables_ = Forwarding(core_.links, routes_.roots_.size());
    for (std::size_t column = 0; column < routes_.roots_.size(); ++column) {
      if (auto ok = fill(column); !ok) return ok;
    }
    say();
    return {};
  }

 private:
  void make_columns();
  Result<void> measure();
  Result<void> reach(std::size_t dst) const;
  Result<void> pick();
  std::vector<Engine> in_turn() const;
  Result<std::unique_ptr<Chooser>> chooser(Engine engine) const;
  Result<void> fill(std::size_t column);
  bool suffices(std::size_t column, const HopSets& hops);
  void store(std::size_t column, const HopSets& hops);
  void say();

  Routes& routes_;
  const Graph& graph_;
  const Core& core_;
  Engine wanted_;
  std::unique_ptr<Chooser> chooser_;
  struct {
    std::size_t detours = 0, harmless = 0, plain = 0, other = 0;
  } made_;  ///< columns, by how they were made
};

void Router::make_columns() {
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;
  for (std::uint32_t r = 0; r < core_.size(); ++r) {
    known.emplace(std::vector{r}, r);
    routes_.roots_.push_back({r});
  }
  routes_.column_.resize(graph_.nodes());
  for (std::size_t n = 0; n < graph_.nodes(); ++n) {
    std::vector<std::uint32_t> roots;
    if (graph_.node(n).transit) {
      roots.push_back(core_.router[n]);
    } else {
      for (const Graph::Out& out : graph_.outs(n)) {
        if (core_.router[out.to] != Core::kNone) roots.push_back(core_.router[out.to]);
      }
      std::sort(roots.begin(), roots.end());
      roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
    }
    const auto [place, fresh] =
        known.emplace(roots, static_cast<std::uint32_t>(routes_.roots_.size()));
    if (fresh) routes_.roots_.push_back(roots);
    routes_.column_[n] = place->second;
  }
}

/// Distances to the roots of every column, and whether endpoints reach each other.
Result<void> Router::measure() {
  const std::size_t n = core_.size();
  routes_.distance_.assign(n * routes_.roots_.size(), Routes::kFar);
  std::vector<std::uint32_t> queue;
  for (std::size_t column = 0; column < routes_.roots_.size(); ++column) {
    std::uint8_t* distance = routes_.distance_.data() + column * n;
    queue = routes_.roots_[column];
    for (const std::uint32_t root : queue) distance[root] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const std::uint8_t next = static_cast<std::uint8_t>(distance[queue[i]] + 1);
      for (const auto& far : core_.links[queue[i]]) {
        if (distance[far.node] != Routes::kFar) continue;
        if (next == Routes::kFar) {
          return Error{fmt::format(
              "{} and {} are more than 254 links apart, and no hop limit is "
              "above 255 (N6)",
              graph_.node(core_.node[queue[0]]).name, graph_.node(core_.node[far.node]).name)};
        }
        distance[far.node] = next;
        queue.push_back(far.node);
      }
    }
  }
  // All of a column reach and are reached alike, so one endpoint speaks for it.
  std::vector<bool> done(routes_.roots_.size());
  for (const std::uint32_t dst : graph_.endpoints()) {
    if (done[routes_.column_[dst]]) continue;
    done[routes_.column_[dst]] = true;
    if (auto ok = reach(dst); !ok) return ok;
  }
  return {};
}

Result<void> Router::reach(std::size_t dst) const {
  std::vector<bool> done(routes_.roots_.size());
  for (const std::uint32_t src : graph_.endpoints()) {
    if (src == dst || done[routes_.column_[src]]) continue;
    done[routes_.column_[src]] = true;
    if (routes_.distance_between(src, dst) != Routes::kFar) continue;
    return Error{
        fmt::format("{} cannot reach {}: every way leads through a node that does not "
                    "forward; join their switches, or set transit",
                    graph_.node(src).name, graph_.node(dst).name)};
  }
  return {};
}

Result<std::unique_ptr<Chooser>> Router::chooser(Engine engine) const {
  switch (engine) {
    case Engine::kFullMesh:
      return full_mesh(graph_, core_);
    case Engine::kRing:
      return ring(graph_, core_);
    case Engine::kLevels:
      return levels(graph_, core_);
    case Engine::kGrid:
      return grid(graph_, core_);
    case Engine::kDragonfly:
      return dragonfly(graph_, core_);
    default:
      return shortest(graph_, core_);
  }
}

/// The engines to try: what the file says the fabric is, first.
std::vector<Engine> Router::in_turn() const {
  if (wanted_ != Engine::kAuto) return {wanted_};
  static const std::map<std::string, Engine, std::less<>> kFamilies{
      {"mesh", Engine::kFullMesh}, {"ring", Engine::kRing},    {"double-ring", Engine::kRing},
      {"torus", Engine::kGrid},    {"mesh-nd", Engine::kGrid}, {"dragonfly", Engine::kDragonfly}};
  std::vector<Engine> engines;
  if (const auto hint = kFamilies.find(graph_.family()); hint != kFamilies.end()) {
    engines.push_back(hint->second);
  }
  for (const Engine engine : {Engine::kFullMesh, Engine::kRing, Engine::kLevels, Engine::kGrid,
                              Engine::kDragonfly, Engine::kGeneral}) {
    if (std::find(engines.begin(), engines.end(), engine) == engines.end()) {
      engines.push_back(engine);
    }
  }
  return engines;
}

Result<void> Router::pick() {
  for (const Engine engine : in_turn()) {
    auto made = chooser(engine);
    if (made) {
      routes_.engine_ = engine;
      chooser_ = std::move(*made);
      routes_.reasons_.push_back(
          fmt::format("engine {}: {}", name(engine),
                      wanted_ != Engine::kAuto ? "as asked for" : "the fabric has this shape"));
      if (engine == Engine::kGeneral && wanted_ == Engine::kAuto) {
        routes_.reasons_.back() = "engine general: no shape fits";
      }
      return {};
    }
    if (wanted_ != Engine::kAuto) {
      return Error{fmt::format("engine {} does not fit this fabric: {}", name(engine),
                               made.error().message)};
    }
    routes_.reasons_.push_back(fmt::format("not {}: {}", name(engine), made.error().message));
  }
  return Error{"no engine fits"};  // the general one always does
}

Result<void> Router::fill(std::size_t column) {
  const Target target{routes_.roots_[column], routes_.distance_.data() + column * core_.size()};
  const auto& order = chooser_->order();
  HopSets first(core_.size());
  chooser_->choose(target, first);
  if (order.empty()) {
    if (!suffices(column, first)) {
      return Error{fmt::format("engine {} runs out of layers towards {}", name(routes_.engine_),
                               graph_.node(core_.node[target.roots.front()]).name)};
    }
    store(column, first);
    ++made_.detours;
    return {};
  }
  order_raises(core_, order, first);
  const bool enough = suffices(column, first);
  if (!enough) {
    first.assign(core_.size(), {});
    up_and_down(core_, target, order, first);
    order_raises(core_, order, first);
    ++made_.other;
  }
  for (const bool harmless : {false, true}) {
    HopSets all = first;
    add_detours(core_, target, order, harmless, all);
    order_raises(core_, order, all);
    if (!suffices(column, all)) continue;
    if (enough) ++(harmless ? made_.harmless : made_.detours);
    store(column, all);
    return {};
  }
  if (enough) ++made_.plain;
  store(column, first);
  return {};
}

/// Whether the first tiers alone always have a hop that keeps its layer below 4, wherever a packet
/// may be.
bool Router::suffices(std::size_t column, const HopSets& hops) {
  // Highest layer with which packets come to a router; it grows, so few rounds settle it.
  const std::uint8_t* distance = routes_.distance_.data() + column * core_.size();
  std::vector<std::uint8_t> at(core_.size());
  std::vector<std::uint32_t> open(core_.size());
  std::iota(open.begin(), open.end(), 0U);
  while (!open.empty()) {
    const std::uint32_t v = open.back();
    open.pop_back();
    for (const Forwarding::Hop& hop : hops[v]) {
      if (hop.tier != 0) break;
      const std::uint32_t w = core_.links[v][hop.out].node;
      const auto layer = static_cast<std::uint8_t>(at[v] + hop.raise);
      if (layer >= kLayers) return false;
      if (layer <= at[w]) continue;
      at[w] = layer;
      if (distance[w] != 0) open.push_back(w);
    }
  }
  return true;
}

void Router::store(std::size_t column, const HopSets& hops) {
  std::vector<Weighted> tier;
  Forwarding::Hops out;
  for (std::size_t v = 0; v < core_.size(); ++v) {
    out.clear();
    const auto outs = graph_.outs(core_.node[v]);
    for (std::size_t i = 0; i < hops[v].size();) {
      const std::uint8_t number = hops[v][i].tier;
      tier.clear();
      for (; i < hops[v].size() && hops[v][i].tier == number; ++i) {
        const auto& hop = hops[v][i];
        tier.push_back({{PortId(hop.out), hop.raise}, outs[core_.outs[v][hop.out]].bps});
      }
      for (const NextHop& hop : weigh(tier)) {
        out.push_back({hop.port.value(), hop.raise, number});
      }
    }
    routes_.tables_.set(v, column, routes_.tables_.intern(out));
  }
}

void Router::say() {
  auto& reasons = routes_.reasons_;
  const std::size_t columns = routes_.roots_.size();
  if (chooser_->order().empty()) return;
  if (made_.other != 0) {
    reasons.push_back(
        fmt::format("for {} of {} destinations the shortest ways need more than four layers: "
                    "routed up and down "
                    "a spanning order instead, which is longer",
                    made_.other, columns));
  }
  if (made_.harmless + made_.plain != 0) {
    reasons.push_back(
        fmt::format("for {} of {} destinations the four layers leave no room for all detours",
                    made_.harmless + made_.plain, columns));
  }
}

Result<Routes> make_routes(std::shared_ptr<const Graph> graph, Engine engine) {
  Routes routes(std::move(graph));
  if (auto ok = Router(routes, engine).run(); !ok) return ok.error();
  return routes;
}

std::uint32_t Routes::distance_between(std::size_t from, std::size_t dst) const {
  if (from == dst) return 0;
  const std::uint32_t last = graph_->node(dst).transit ? 0 : 1;
  if (graph_->node(from).transit) {
    const std::uint8_t between = distance(core_.router[from], column_[dst]);
    return between == kFar ? kFar : between + last;
  }
  std::uint32_t best = kFar;
  for (const Graph::Out& out : graph_->outs(from)) {
    if (out.to == dst) return 1;
    if (core_.router[out.to] == Core::kNone) continue;
    const std::uint8_t between = distance(core_.router[out.to], column_[dst]);
    if (between != kFar) best = std::min(best, 1 + between + last);
  }
  return best;
}

/// The ports whose way is shortest, then the others: an endpoint's packets start on layer 0 and
/// nobody's go through it.
Route Routes::from_endpoint(std::size_t node, std::size_t dst) const {
  std::map<std::uint32_t, std::vector<Weighted>> by_length;
  for (const Graph::Out& out : graph_->outs(node)) {
    std::uint32_t length = kFar;
    if (out.to == dst) {
      length = 0;
    } else if (core_.router[out.to] != Core::kNone) {
      length = distance(core_.router[out.to], column_[dst]);
      if (length != kFar) ++length;
    }
    if (length != kFar) by_length[length].push_back({{out.port, 0}, out.bps});
  }
  Route route{graph_->node(dst).id, {}};
  for (const auto& [length, hops] : by_length) {
    if (route.tiers.size() < RouteTable::kMaxTiers) route.tiers.push_back(weigh(hops));
  }
  return route;
}

Route Routes::from_router(std::size_t node, std::size_t dst) const {
  Route route{graph_->node(dst).id, {}};
  const std::uint32_t router = core_.router[node];
  if (!graph_->node(dst).transit && distance(router, column_[dst]) == 0) {
    std::vector<Weighted> straight;
    for (const Graph::Out& out : graph_->outs(node)) {
      if (out.to == dst) straight.push_back({{out.port, 0}, out.bps});
    }
    route.tiers.push_back(weigh(straight));
  }
  const auto outs = graph_->outs(node);
  std::uint8_t tier = 0xFF;
  for (const Forwarding::Hop& hop : tables_.hops(router, column_[dst])) {
    if (hop.tier != tier) route.tiers.emplace_back();
    tier = hop.tier;
    route.tiers.back().push_back({outs[core_.outs[router][hop.out]].port, hop.raise});
  }
  return route;
}

Route Routes::route(std::size_t node, std::size_t dst) const {
  return graph_->node(node).transit ? from_router(node, dst) : from_endpoint(node, dst);
}

std::vector<Route> Routes::of(std::size_t node) const {
  std::vector<Route> routes;
  for (std::size_t dst = 0; dst < graph_->nodes(); ++dst) {
    if (dst == node) continue;
    Route one = route(node, dst);
    if (!one.tiers.empty()) routes.push_back(std::move(one));
  }
  std::sort(routes.begin(), routes.end(),
            [](const Route& a, const Route& b) { return a.dst < b.dst; });
  return routes;
}

}  // namespace mtl::topology
