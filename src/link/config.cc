#include "link/config.h"

#include <numeric>

namespace mtl::link {

const char* fault(const Config& config) {
  const Timers& t = config.timers;
  const auto sum = std::accumulate(config.capacity.begin(), config.capacity.end(), 0U);
  if (config.node.value() < kMinNode || config.node.value() > kMaxNode)
    return "node must be 1..65534 (N3)";
  if (config.mtu < kMinMtu) return "mtu must be at least 64 (L6)";
  if (config.cell == 0) return "cell must not be 0 (L6)";
  if (config.window == 0 || config.window > kMaxWindow) return "window must be 1..16384 (L6)";
  if (config.send_window == 0 || config.send_window > kMaxWindow)
    return "send_window must be 1..16384";
  if (CellSize(config.cell).cells(config.mtu) > kMaxCapacitySum)
    return "a packet of mtu bytes takes more than 32767 cells: enlarge cell";
  if (sum > kMaxCapacitySum) return "the sum of the capacities must not exceed 32767 (L6)";
  if (t.ack_every == 0) return "ack_every must not be 0";
  for (const Duration d : {t.init_interval, t.keepalive_interval, t.dead_interval, t.ack_delay,
                           t.replay_timeout, t.nack_interval, t.hold_down, t.adaptive_min}) {
    if (d <= Duration::zero()) return "timers must be longer than 0";
  }
  if (t.adaptive_max < t.adaptive_min) return "adaptive_max must not be below adaptive_min";
  return nullptr;
}

}  // namespace mtl::link
