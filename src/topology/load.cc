#include "topology/load.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>

namespace mtl::topology {

namespace {

struct Demand {
  std::uint32_t src = 0;  ///< nodes
  std::uint32_t dst = 0;
  double bps = 0;
};

/// splitmix64: the same draws everywhere.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t n) {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % n;
  }

 private:
  std::uint64_t state_;
};

class Network {
 public:
  explicit Network(const Routes& routes)
      : routes_(routes), graph_(routes.graph()), core_(routes.core()) {
    members_.resize(routes.tables().columns());
    for (const std::uint32_t e : graph_.endpoints()) members_[routes.column(e)].push_back(e);
    sends_.resize(graph_.nodes());
    for (const std::uint32_t e : graph_.endpoints()) {
      for (const Graph::Out& out : graph_.outs(e)) sends_[e] += static_cast<double>(out.bps);
    }
    inject_.resize(core_.size());
    state_.resize(core_.size());
  }

  void clear() { load_.assign(graph_.directions(), 0); }
  double sends(std::uint32_t endpoint) const { return sends_[endpoint]; }
  /// Demands of one phase, in any order.
  void carry(std::vector<Demand> demands);
  void carry_uniform();
  void judge(Load& load) const;

 private:
  void enter(std::uint32_t src, std::uint32_t dst, double bps);
  void spread(std::size_t column, const std::map<std::uint32_t, double>& wanted);
  void deliver(std::size_t column, const std::map<std::uint32_t, double>& wanted);
  std::vector<std::uint32_t> falling(std::size_t column);

  const Routes& routes_;
  const Graph& graph_;
  const Core& core_;
  std::vector<std::vector<std::uint32_t>> members_;  ///< endpoints by column
  std::vector<double> sends_;                        ///< by node
  std::vector<double> load_;                         ///< by out
  std::vector<double> inject_;                       ///< by router
  std::vector<std::uint8_t> state_;
};

/// From the endpoint into the fabric.
void Network::enter(std::uint32_t src, std::uint32_t dst, double bps) {
  if (graph_.node(src).transit) {
    inject_[core_.router[src]] += bps;
    return;
  }
  const auto outs = graph_.outs(src);
  const auto take = [&](std::size_t o, double share) {
    load_[graph_.first_out(src) + o] += share;
    if (core_.router[outs[o].to] != Core::kNone) inject_[core_.router[outs[o].to]] += share;
  };
  if (outs.size() == 1) return take(0, bps);
  const network::Route route = routes_.route(src, dst);
  const network::Tier& tier = route.tiers.front();
  for (const network::NextHop& hop : tier) {
    for (std::size_t o = 0; o < outs.size(); ++o) {
      if (outs[o].port == hop.port) take(o, bps / static_cast<double>(tier.size()));
    }
  }
}

/// Routers with something to send on, each before those that it sends to.
std::vector<std::uint32_t> Network::falling(std::size_t column) {
  const auto& tables = routes_.tables();
  std::fill(state_.begin(), state_.end(), std::uint8_t{0});
  std::vector<std::uint32_t> order, stack;
  for (std::uint32_t start = 0; start < core_.size(); ++start) {
    if (inject_[start] == 0 || state_[start] != 0) continue;
    stack.push_back(start);
    while (!stack.empty()) {
      const std::uint32_t v = stack.back();
      if (state_[v] != 0) {
        stack.pop_back();
        if (state_[v] == 1) order.push_back(v);
        state_[v] = 2;
        continue;
      }
      state_[v] = 1;
      for (const auto& hop : tables.hops(v, column)) {
        if (hop.tier != 0) break;
        const std::uint32_t w = tables.links(v)[hop.out].node;
        if (state_[w] == 0) stack.push_back(w);
      }
    }
  }
  std::reverse(order.begin(), order.end());
  return order;
}

void Network::spread(std::size_t column, const std::map<std::uint32_t, double>& wanted) {
  const auto& tables = routes_.tables();
  for (const std::uint32_t v : falling(column)) {
    const auto& hops = tables.hops(v, column);
    const auto first = static_cast<std::size_t>(
        std::find_if(hops.begin(), hops.end(), [](const auto& hop) { return hop.tier != 0; }) -
        hops.begin());
    if (first == 0 || routes_.distance(v, column) == 0) continue;  // it is where it is to get out
    const double share = inject_[v] / static_cast<double>(first);
    for (std::size_t i = 0; i < first; ++i) {
      load_[graph_.first_out(core_.node[v]) + core_.outs[v][hops[i].out]] += share;
      inject_[tables.links(v)[hops[i].out].node] += share;
    }
    inject_[v] = 0;
  }
  deliver(column, wanted);
  std::fill(inject_.begin(), inject_.end(), 0);
}

/// From the roots to the endpoints: each gets what it is sent, from each root in proportion to what
/// comes there.
void Network::deliver(std::size_t column, const std::map<std::uint32_t, double>& wanted) {
  double all = 0;
  for (const std::uint32_t root : routes_.roots(column)) all += inject_[root];
  if (all == 0) return;
  for (const std::uint32_t root : routes_.roots(column)) {
    const std::uint32_t node = core_.node[root];
    const auto outs = graph_.outs(node);
    std::map<std::uint32_t, double> width;
    for (const Graph::Out& out : outs) {
      if (wanted.contains(out.to)) width[out.to] += static_cast<double>(out.bps);
    }
    for (std::size_t o = 0; o < outs.size(); ++o) {
      const auto want = wanted.find(outs[o].to);
      if (want == wanted.end() || graph_.node(outs[o].to).transit) continue;
      load_[graph_.first_out(node) + o] +=
          want->second * inject_[root] / all * static_cast<double>(outs[o].bps) / width[outs[o].to];
    }
  }
}

void Network::carry(std::vector<Demand> demands) {
  std::sort(demands.begin(), demands.end(), [&](const Demand& a, const Demand& b) {
    return routes_.column(a.dst) < routes_.column(b.dst);
  });
  std::map<std::uint32_t, double> wanted;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const std::size_t column = routes_.column(demands[i].dst);
    enter(demands[i].src, demands[i].dst, demands[i].bps);
    wanted[demands[i].dst] += demands[i].bps;
    if (i + 1 < demands.size() && routes_.column(demands[i + 1].dst) == column) continue;
    spread(column, wanted);
    wanted.clear();
  }
}

/// Every column from every endpoint: as carry() of all pairs, but for their number.
void Network::carry_uniform() {
  const auto others = static_cast<double>(graph_.endpoints().size() - 1);
  const double all = std::accumulate(sends_.begin(), sends_.end(), 0.0);
  for (std::size_t column = 0; column < members_.size(); ++column) {
    const auto& own = members_[column];
    if (own.empty()) continue;
    for (const std::uint32_t src : graph_.endpoints()) {
      const bool same = routes_.column(src) == column;
      const double count = static_cast<double>(own.size()) - (same ? 1 : 0);
      const std::uint32_t dst = own.front() == src ? own.back() : own.front();
      if (count > 0) enter(src, dst, sends_[src] * count / others);
    }
    std::map<std::uint32_t, double> wanted;
    for (const std::uint32_t dst : own) wanted[dst] = (all - sends_[dst]) / others;
    spread(column, wanted);
  }
}

void Network::judge(Load& load) const {
  double phase = 0;
  double sum = 0;
  std::size_t between = 0;
  for (std::size_t n = 0; n < graph_.nodes(); ++n) {
    const auto outs = graph_.outs(n);
    for (std::size_t o = 0; o < outs.size(); ++o) {
      const double used = load_[graph_.first_out(n) + o] / static_cast<double>(outs[o].bps);
      if (core_.router[n] != Core::kNone && core_.router[outs[o].to] != Core::kNone) {
        sum += used;
        ++between;
      }
      phase = std::max(phase, used);
      // The first of those that are loaded alike but for rounding.
      if (used <= load.worst * (1 + 1e-9)) continue;
      load.worst = used;
      load.worst_link = graph_.describe(n, outs[o]);
    }
  }
  load.mean += between == 0 ? 0 : sum / static_cast<double>(between);
  load.throughput += std::max(1.0, phase);  // time that the phase takes; see measure_load()
}

std::vector<Demand> shifted(const Network& net, const std::vector<std::uint32_t>& ends,
                            std::size_t by) {
  std::vector<Demand> demands;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    demands.push_back({ends[i], ends[(i + by) % ends.size()], net.sends(ends[i])});
  }
  return demands;
}

/// The demands of endpoints that are experts for each other.
void to_experts(const Network& net, std::span<const std::uint32_t> ends, Draw& draw,
                std::vector<Demand>& demands) {
  std::vector<std::uint32_t> experts(ends.begin(), ends.end());  // most wanted first
  for (std::size_t i = experts.size(); i > 1; --i) {
    std::swap(experts[i - 1], experts[draw.below(i)]);
  }
  std::vector<double> until;  // sums of 1/k
  double sum = 0;
  for (std::size_t k = 0; k < experts.size(); ++k) until.push_back(sum += 1.0 / double(k + 1));
  constexpr std::uint64_t kFine = 1U << 30;
  const std::size_t top = std::min<std::size_t>(8, ends.size() - 1);
  for (const std::uint32_t src : ends) {
    std::vector<std::uint32_t> chosen;
    while (chosen.size() < top) {
      const double at = sum * double(draw.below(kFine)) / double(kFine);
      const auto k = static_cast<std::size_t>(std::upper_bound(until.begin(), until.end(), at) -
                                              until.begin());
      const std::uint32_t dst = experts[std::min(k, experts.size() - 1)];
      if (dst == src || std::find(chosen.begin(), chosen.end(), dst) != chosen.end()) continue;
      chosen.push_back(dst);
      demands.push_back({src, dst, net.sends(src) / double(top)});
    }
  }
}

std::vector<Demand> moe(const Network& net, std::span<const std::uint32_t> ends, Draw& draw) {
  constexpr std::size_t kGroup = 256;
  std::vector<Demand> demands;
  for (std::size_t i = 0; i < ends.size(); i += kGroup) {
    to_experts(net, ends.subspan(i, std::min(kGroup, ends.size() - i)), draw, demands);
  }
  return demands;
}

}  // namespace

std::string_view name(Traffic traffic) {
  constexpr std::array<std::string_view, 4> kNames{"uniform", "ring", "all-to-all", "moe"};
  return kNames[static_cast<std::size_t>(traffic)];
}

Load measure_load(const Routes& routes, Traffic traffic, std::uint64_t seed) {
  Load load;
  std::vector<std::uint32_t> ends = routes.graph().endpoints();
  if (ends.size() < 2) return load;
  std::sort(ends.begin(), ends.end(), [&](std::uint32_t a, std::uint32_t b) {
    return routes.graph().node(a).id < routes.graph().node(b).id;
  });
  Network net(routes);
  Draw draw(seed);
  std::size_t phases = 1;
  if (traffic == Traffic::kAllToAll) phases = std::min<std::size_t>(64, ends.size() - 1);
  if (traffic == Traffic::kMoe) phases = 16;
  for (std::size_t p = 0; p < phases; ++p) {
    net.clear();
    if (traffic == Traffic::kUniform) net.carry_uniform();
    if (traffic == Traffic::kRing) net.carry(shifted(net, ends, 1));
    if (traffic == Traffic::kAllToAll) {
      net.carry(shifted(net, ends, 1 + p * (ends.size() - 1) / phases));
    }
    if (traffic == Traffic::kMoe) net.carry(moe(net, ends, draw));
    net.judge(load);
  }
  load.mean /= static_cast<double>(phases);
  load.throughput = static_cast<double>(phases) / load.throughput;
  return load;
}

}  // namespace mtl::topology
