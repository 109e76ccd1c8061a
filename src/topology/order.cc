// Routing by an order of the nodes (topology/engines.h).
#include <algorithm>
#include <limits>

#include "topology/engines.h"

namespace mtl::topology {

namespace {

constexpr std::size_t kMaxHops = network::RouteTable::kMaxHops;

bool up(const std::vector<std::uint32_t>& order, std::size_t from, std::size_t to) {
  return order[to] < order[from];
}

/// Routers that some hop goes down to.
std::vector<bool> entered_from_above(const Core& core, const std::vector<std::uint32_t>& order,
                                     const HopSets& hops) {
  std::vector<bool> entered(core.size());
  for (std::size_t v = 0; v < core.size(); ++v) {
    for (const Forwarding::Hop& hop : hops[v]) {
      const std::uint32_t w = core.links[v][hop.out].node;
      if (!up(order, v, w)) entered[w] = true;
    }
  }
  return entered;
}

/// Whether some first-tier hop of `v` goes to another node than `but` (any, if `but` is v).
bool knows_other_way(const Core& core, const HopSets& hops, std::size_t v, std::size_t but) {
  return std::any_of(hops[v].begin(), hops[v].end(), [&](const Forwarding::Hop& hop) {
    return hop.tier == 0 && core.links[v][hop.out].node != but;
  });
}

}  // namespace

void nearer(const Core& core, const Target& target, HopSets& hops) {
  for (std::size_t v = 0; v < core.size(); ++v) {
    const std::uint8_t mine = target.distance[v];
    if (mine == 0 || mine == Routes::kFar) continue;
    for (std::size_t out = 0; out < core.links[v].size(); ++out) {
      if (target.distance[core.links[v][out].node] + 1 != mine) continue;
      hops[v].push_back({static_cast<std::uint16_t>(out), 0, 0});
    }
  }
}

void order_raises(const Core& core, const std::vector<std::uint32_t>& order, HopSets& hops) {
  const auto entered = entered_from_above(core, order, hops);
  for (std::size_t v = 0; v < core.size(); ++v) {
    for (Forwarding::Hop& hop : hops[v]) {
      hop.raise = entered[v] && up(order, v, core.links[v][hop.out].node) ? 1 : 0;
    }
  }
}

void add_detours(const Core& core, const Target& target, const std::vector<std::uint32_t>& order,
                 bool harmless, HopSets& hops) {
  const auto entered = entered_from_above(core, order, hops);
  const auto goes_up = [&](std::size_t w) {
    return std::any_of(hops[w].begin(), hops[w].end(), [&](const Forwarding::Hop& hop) {
      return hop.tier == 0 && up(order, w, core.links[w][hop.out].node);
    });
  };
  HopSets more(core.size());
  for (std::size_t v = 0; v < core.size(); ++v) {
    const std::uint8_t mine = target.distance[v];
    if (hops[v].empty() || mine == Routes::kFar) continue;
    std::vector<std::uint32_t> first;  // where the first tier goes
    for (const auto& hop : hops[v]) first.push_back(core.links[v][hop.out].node);
    std::uint8_t tier = 1;
    for (const unsigned farther : {0U, 1U}) {
      const std::size_t before = more[v].size();
      for (std::size_t out = 0; out < core.links[v].size(); ++out) {
        const std::uint32_t w = core.links[v][out].node;
        if (target.distance[w] != mine + farther || more[v].size() - before == kMaxHops) continue;
        if (std::find(first.begin(), first.end(), w) != first.end()) continue;
        if (!knows_other_way(core, hops, w, v)) continue;
        if (harmless && !up(order, v, w) && !entered[w] && goes_up(w)) continue;
        more[v].push_back({static_cast<std::uint16_t>(out), 0, tier});
      }
      if (more[v].size() != before) ++tier;
    }
  }
  for (std::size_t v = 0; v < core.size(); ++v) {
    hops[v].insert(hops[v].end(), more[v].begin(), more[v].end());
  }
}

void up_and_down(const Core& core, const Target& target, const std::vector<std::uint32_t>& order,
                 HopSets& hops) {
  constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> ranked(core.size());
  for (std::uint32_t v = 0; v < core.size(); ++v) ranked[order[v]] = v;
  std::vector<std::uint32_t> down(core.size(), kNever);  // links of the shortest way only down
  for (const std::uint32_t root : target.roots) down[root] = 0;
  for (std::size_t i = core.size(); i-- > 0;) {  // lowest first: what is below is known
    const std::uint32_t v = ranked[i];
    for (const auto& far : core.links[v]) {
      if (!up(order, v, far.node) && down[far.node] != kNever) {
        down[v] = std::min(down[v], down[far.node] + 1);
      }
    }
  }
  std::vector<std::uint32_t> all = down;
  for (const std::uint32_t v : ranked) {  // highest first: what is above is known
    if (all[v] != kNever) continue;
    for (const auto& far : core.links[v]) {
      if (up(order, v, far.node) && all[far.node] != kNever) {
        all[v] = std::min(all[v], all[far.node] + 1);
      }
    }
  }
  for (std::size_t v = 0; v < core.size(); ++v) {
    if (all[v] == 0 || all[v] == kNever) continue;
    const bool goes_down = down[v] != kNever;
    for (std::size_t out = 0; out < core.links[v].size(); ++out) {
      const std::uint32_t w = core.links[v][out].node;
      if (up(order, v, w) == goes_down) continue;
      if ((goes_down ? down[w] : all[w]) + 1 != all[v]) continue;
      hops[v].push_back({static_cast<std::uint16_t>(out), 0, 0});
    }
  }
}

}  // namespace mtl::topology
