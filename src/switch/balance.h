#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

/// Which ports to move so that the workers of a node share its work. Pure: numbers in, a decision
/// out.
namespace mtl::switchd {

/// What ports and workers have counted until a moment. Nothing is counted for this alone.
struct WorkCounts {
  struct Worker {
    std::uint64_t busy_ticks = 0;  ///< of passes that have ended
    std::uint64_t loops = 0;       ///< passes that have ended
    bool asleep = false;
  };
  struct Port {
    std::uint64_t frames = 0;  ///< in and out
    std::uint64_t bytes = 0;
  };
  Time at{};
  std::vector<Worker> workers;  ///< by worker
  std::vector<Port> ports;      ///< by port
};

/// What they did between two such moments.
struct Load {
  Duration interval{0};
  std::vector<double> workers;  ///< share of the interval that a worker was busy, 0 to 1
  /// Of its worker's share, what the frames of a port took. An estimate: nobody times a frame, so
  /// the worker's time is divided among its ports by their frames and bytes.
  std::vector<double> ports;
  /// By worker: it ended no pass in the interval and did not sleep, so all of its time went into
  /// one pass (its share is 1), on what nobody can tell; perhaps that pass does not end.
  std::vector<bool> stuck;
};

/// A frame takes as long as so many bytes of one (docs/performance.md: a link at 64 B and 9,000 B).
inline constexpr double kBytesPerFrame = 1400;

/// `owner[p]` (kNoShard: nobody) had port p all the time between `before` and `after`; `hz` ticks
/// are a second.
Load load_between(const WorkCounts& before, const WorkCounts& after,
                  const std::vector<ShardId>& owner, std::uint64_t hz);

/// Ports that move together, and the worker that has them.
struct PortGroup {
  std::vector<PortId> ports;
  ShardId worker;
};

/// When a move is worth it.
struct BalanceRule {
  double busy;    ///< the busiest worker is busy for more than that share of the time,
  double apart;   ///< and for that much more than the least busy one,
  double better;  ///< and the busier of the two is that much less busy afterwards
};
/// Of its own accord, every few seconds: rarely, and never to and fro, as a move must gain more
/// than what loads differ by from one interval to the next. `busy`: RuntimePlan::balance_load.
constexpr BalanceRule steady_rule(double busy) {
  return {busy, 0.3, 0.1};
}
/// When the operator asks for it.
inline constexpr BalanceRule kAskedRule{0, 0.1, 0.05};

struct BalanceMove {
  std::size_t group = 0;  ///< index
  ShardId from;
  ShardId to;
  double busiest_before = 0;  ///< share of the busier one of the two
  double busiest_after = 0;   ///< likewise, estimated
};

/// The one move from the busiest worker to the least busy one that helps most; if none is worth it
/// by `rule`, from the next busiest, and so on. Of equal ones the first group, or worker. None
/// while a worker is stuck: a move needs all of them.
std::optional<BalanceMove> best_move(const Load& load, const std::vector<PortGroup>& groups,
                                     const BalanceRule& rule);
/// What the load will be, as far as can be told, and the groups' workers are, after the move.
void apply(const BalanceMove& move, std::vector<PortGroup>& groups, Load& load);

}  // namespace mtl::switchd
