#include "switch/balance.h"

#include <algorithm>
#include <numeric>

#include "base/ids.h"

namespace mtl::switchd {
namespace {

/// Nothing if it counts from the beginning again: the port got another medium.
double work(const WorkCounts::Port& before, const WorkCounts::Port& after) {
  if (after.frames < before.frames || after.bytes < before.bytes) return 0;
  return static_cast<double>(after.frames - before.frames) * kBytesPerFrame +
         static_cast<double>(after.bytes - before.bytes);
}

double load_of(const PortGroup& group, const Load& load) {
  double sum = 0;
  for (const PortId port : group.ports) sum += load.ports[port.value()];
  return sum;
}

/// If none helps, busiest_after is busiest_before.
BalanceMove best_between(ShardId from, ShardId to, const Load& load,
                         const std::vector<PortGroup>& groups) {
  const double most = load.workers[from.value()], least = load.workers[to.value()];
  BalanceMove best{0, from, to, most, most};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].worker != from) continue;
    const double moved = load_of(groups[g], load);
    const double busiest = std::max(most - moved, least + moved);
    if (busiest >= best.busiest_after) continue;
    best.group = g;
    best.busiest_after = busiest;
  }
  return best;
}

/// Of `ticks` in all.
double share(const WorkCounts::Worker& before, const WorkCounts::Worker& after, double ticks) {
  if (ticks <= 0) return 0;
  return std::min(1.0, static_cast<double>(after.busy_ticks - before.busy_ticks) / ticks);
}

}  // namespace

Load load_between(const WorkCounts& before, const WorkCounts& after,
                  const std::vector<ShardId>& owner, std::uint64_t hz) {
  Load load;
  load.interval = after.at - before.at;
  const double ticks =
      std::chrono::duration<double>(load.interval).count() * static_cast<double>(hz);
  for (std::size_t w = 0; w < after.workers.size(); ++w) {
    const WorkCounts::Worker& was = before.workers[w];
    const WorkCounts::Worker& is = after.workers[w];
    load.stuck.push_back(ticks > 0 && is.loops == was.loops && !is.asleep);
    load.workers.push_back(load.stuck.back() ? 1 : share(was, is, ticks));
  }
  std::vector<double> of_worker(load.workers.size(), 0);
  for (std::size_t p = 0; p < after.ports.size(); ++p) {
    load.ports.push_back(owner[p] == kNoShard ? 0 : work(before.ports[p], after.ports[p]));
    if (owner[p] != kNoShard) of_worker[owner[p].value()] += load.ports[p];
  }
  for (std::size_t p = 0; p < load.ports.size(); ++p) {
    if (owner[p] == kNoShard) continue;
    const std::size_t w = owner[p].value();
    load.ports[p] = of_worker[w] > 0 ? load.workers[w] * load.ports[p] / of_worker[w] : 0;
  }
  return load;
}

std::optional<BalanceMove> best_move(const Load& load, const std::vector<PortGroup>& groups,
                                     const BalanceRule& rule) {
  if (std::find(load.stuck.begin(), load.stuck.end(), true) != load.stuck.end()) {
    return std::nullopt;
  }
  std::vector<std::size_t> busiest_first(load.workers.size());
  std::iota(busiest_first.begin(), busiest_first.end(), std::size_t{0});
  std::stable_sort(busiest_first.begin(), busiest_first.end(),
                   [&](std::size_t a, std::size_t b) { return load.workers[a] > load.workers[b]; });
  const auto least = std::min_element(load.workers.begin(), load.workers.end());
  const ShardId to(static_cast<std::uint8_t>(least - load.workers.begin()));
  for (const std::size_t from : busiest_first) {
    const double busy = load.workers[from];
    if (busy <= rule.busy || busy - *least <= rule.apart) break;
    const BalanceMove move =
        best_between(ShardId(static_cast<std::uint8_t>(from)), to, load, groups);
    if (move.busiest_before - move.busiest_after >= rule.better) return move;
  }
  return std::nullopt;
}

void apply(const BalanceMove& move, std::vector<PortGroup>& groups, Load& load) {
  PortGroup& group = groups[move.group];
  const double moved = load_of(group, load);
  load.workers[move.from.value()] -= moved;
  load.workers[move.to.value()] += moved;
  group.worker = move.to;
}

}  // namespace mtl::switchd
