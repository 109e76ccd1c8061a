#include "switch/balance.h"

#include <algorithm>

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

}  // namespace

Load load_between(const WorkCounts& before, const WorkCounts& after,
                  const std::vector<ShardId>& owner, std::uint64_t hz) {
  Load load;
  load.interval = after.at - before.at;
  const double ticks =
      std::chrono::duration<double>(load.interval).count() * static_cast<double>(hz);
  for (std::size_t w = 0; w < after.busy_ticks.size(); ++w) {
    const auto busy = static_cast<double>(after.busy_ticks[w] - before.busy_ticks[w]);
    load.workers.push_back(ticks > 0 ? std::min(1.0, busy / ticks) : 0);
  }
  std::vector<double> of_worker(load.workers.size(), 0);
  for (std::size_t p = 0; p < after.ports.size(); ++p) {
    load.ports.push_back(work(before.ports[p], after.ports[p]));
    of_worker[owner[p].value()] += load.ports[p];
  }
  for (std::size_t p = 0; p < load.ports.size(); ++p) {
    const std::size_t w = owner[p].value();
    load.ports[p] = of_worker[w] > 0 ? load.workers[w] * load.ports[p] / of_worker[w] : 0;
  }
  return load;
}

std::optional<BalanceMove> best_move(const Load& load, const std::vector<PortGroup>& groups,
                                     const BalanceRule& rule) {
  const auto [least, most] = std::minmax_element(load.workers.begin(), load.workers.end());
  if (*most <= rule.busy || *most - *least <= rule.apart) return std::nullopt;
  const auto index = [&](auto at) {
    return ShardId(static_cast<std::uint8_t>(at - load.workers.begin()));
  };
  BalanceMove best;
  best.from = index(most);
  best.to = index(least);
  best.busiest_before = best.busiest_after = *most;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].worker != best.from) continue;
    const double moved = load_of(groups[g], load);
    const double busiest = std::max(*most - moved, *least + moved);
    if (busiest >= best.busiest_after) continue;
    best.group = g;
    best.busiest_after = busiest;
  }
  if (best.busiest_before - best.busiest_after < rule.better) return std::nullopt;
  return best;
}

void apply(const BalanceMove& move, std::vector<PortGroup>& groups, Load& load) {
  PortGroup& group = groups[move.group];
  const double moved = load_of(group, load);
  load.workers[move.from.value()] -= moved;
  load.workers[move.to.value()] += moved;
  group.worker = move.to;
}

}  // namespace mtl::switchd
