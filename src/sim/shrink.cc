#include "sim/shrink.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace mtl::sim {
namespace {

using std::chrono::microseconds;

/// Down to a microsecond, or, of what is shorter, as it is.
Duration rounder(Duration t) {
  return t >= microseconds(1) ? std::chrono::floor<microseconds>(t) : t;
}
Time rounder(Time t) {
  return Time(rounder(t.time_since_epoch()));
}

class Shrinker {
 public:
  Shrinker(Schedule schedule, const std::function<bool(const Schedule&)>& fails,
           std::size_t most_runs)
      : best_(std::move(schedule)), fails_(fails), most_runs_(most_runs) {}

  Shrunk run() {
    bool changed = true;
    while (std::exchange(changed, false) && runs_ < most_runs_) {
      changed |= leave_out(&Schedule::flows);
      changed |= leave_out(&Schedule::sends);
      changed |= leave_out(&Schedule::faults);
      changed |= leave_out(&Schedule::moves);
      changed |= leave_out(&Schedule::replacements);
      changed |= leave_out_wires_and_nodes();
      changed |= make_plainer();
    }
    return {std::move(best_), runs_, runs_ < most_runs_};
  }

 private:
  /// Takes `candidate` if it fails as well.
  bool take(Schedule candidate) {
    if (runs_ >= most_runs_) return false;
    ++runs_;
    if (!fails_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  template <class T>
  bool leave_out(std::vector<T> Schedule::*list) {
    bool changed = false;
    for (std::size_t part = (best_.*list).size(); part > 0; part /= 2) {
      // From the end, where what followed from the failure stands.
      for (std::size_t end = (best_.*list).size(); end > 0;) {
        const std::size_t begin = end - std::min(part, end);
        Schedule candidate = best_;
        auto& all = candidate.*list;
        all.erase(all.begin() + static_cast<std::ptrdiff_t>(begin),
                  all.begin() + static_cast<std::ptrdiff_t>(end));
        changed |= take(std::move(candidate));
        end = begin;
      }
    }
    return changed;
  }

  bool leave_out_wires_and_nodes() {
    bool changed = false;
    for (auto w = static_cast<std::uint32_t>(best_.plan.wires.size()); w-- > 0;) {
      if (best_.plan.wires.size() > 1) changed |= take(without(best_, {}, {w}));
    }
    for (auto n = static_cast<std::uint32_t>(best_.plan.nodes.size()); n-- > 0;) {
      if (n >= best_.plan.nodes.size()) continue;  // more than one node went with another's wires
      Schedule candidate = without(best_, {n}, {});
      if (!candidate.plan.wires.empty()) changed |= take(std::move(candidate));
    }
    return changed;
  }

  /// Tries best_ with `change` made to it, unless that changes nothing.
  template <class Change>
  bool try_change(const Change& change) {
    Schedule candidate = best_;
    return change(candidate) && take(std::move(candidate));
  }
  /// Sets a member to a plainer value; whether it was another.
  template <class T>
  static bool set(T& member, const T& value) {
    return std::exchange(member, value) != value;
  }

  bool make_plainer() {
    bool changed = try_change([](Schedule& s) { return set(s.pause, Duration(0)); });
    while (try_change([](Schedule& s) {
      return s.pause >= microseconds(2) && set(s.pause, rounder(s.pause / 2));
    })) {
      changed = true;
    }
    for (const auto rate : kRates) {
      changed |= try_change([&](Schedule& s) { return set(s.background.*rate, 0u); });
    }
    changed |= try_change([](Schedule& s) { return set(s.background.jitter, Duration(0)); });
    for (std::size_t i = 0; i < best_.faults.size(); ++i) changed |= make_fault_plainer(i);
    for (std::size_t i = 0; i < best_.sends.size() && best_.sends.size() <= kFew; ++i) {
      changed |= make_packet_plainer(i);
    }
    for (std::size_t i = 0; i < best_.plan.nodes.size(); ++i) changed |= make_node_plainer(i);
    for (std::size_t i = 0; i < best_.plan.wires.size(); ++i) {
      changed |= try_change([i](Schedule& s) {
        return s.plan.wires[i].rate.has_value() && (s.plan.wires[i].rate.reset(), true);
      });
    }
    return changed | make_shorter();
  }

  bool make_fault_plainer(std::size_t i) {
    bool changed = false;
    for (const auto rate : kRates) {
      changed |= try_change([&](Schedule& s) { return set(s.faults[i].impairment.*rate, 0u); });
    }
    changed |=
        try_change([i](Schedule& s) { return set(s.faults[i].impairment.jitter, Duration(0)); });
    changed |= try_change([i](Schedule& s) { return set(s.faults[i].late, false); });
    changed |= try_change([i](Schedule& s) {
      Fault& f = s.faults[i];
      return set(f.at, rounder(f.at)) | set(f.lasts, rounder(f.lasts));
    });
    while (try_change([i](Schedule& s) {
      Fault& f = s.faults[i];
      return f.lasts >= microseconds(2) && set(f.lasts, rounder(f.lasts / 2));
    })) {
      changed = true;
    }
    return changed;
  }

  bool make_packet_plainer(std::size_t i) {
    bool changed = try_change([i](Schedule& s) { return set(s.sends[i].packet.length, kShort); });
    changed |= try_change([i](Schedule& s) { return set(s.sends[i].packet.bad_crc, false); });
    changed |= try_change(
        [i](Schedule& s) { return set(s.sends[i].packet.header.entropy, std::uint16_t{0}); });
    changed |= try_change([i](Schedule& s) { return set(s.sends[i].at, rounder(s.sends[i].at)); });
    return changed;
  }

  bool make_node_plainer(std::size_t i) {
    bool changed =
        try_change([i](Schedule& s) { return set(s.plan.nodes[i].consume_later_ppm, 0u); });
    changed |=
        try_change([i](Schedule& s) { return set(s.plan.nodes[i].ring_delay, Duration(0)); });
    changed |=
        try_change([i](Schedule& s) { return set(s.plan.nodes[i].move_delay, Duration(0)); });
    changed |= try_change([i](Schedule& s) {
      auto& trunks = s.plan.nodes[i].config.trunks;
      return !trunks.empty() && (trunks.clear(), true);
    });
    changed |= try_change([i](Schedule& s) { return one_shard(s, static_cast<std::uint32_t>(i)); });
    return changed;
  }

  static bool one_shard(Schedule& s, std::uint32_t node) {
    network::NodeConfig& config = s.plan.nodes[node].config;
    if (config.shards == 1) return false;
    config.shards = 1;
    for (network::PortConfig& port : config.ports) port.shard = ShardId(0);
    std::erase_if(s.moves, [node](const Move& m) { return m.node == node; });
    for (Replacement& r : s.replacements) {
      if (r.node == node) r.shard = ShardId(0);
    }
    return true;
  }

  /// The faults end when the last one does, and before.
  bool make_shorter() {
    bool changed = try_change([](Schedule& s) {
      const Time last = last_planned(s);
      return last < s.faults_end && set(s.faults_end, last);
    });
    return changed;
  }

  static constexpr std::size_t kFew = 64;      ///< packets that are looked at one by one
  static constexpr std::uint32_t kShort = 64;  ///< bytes of a plain packet
  static constexpr std::uint32_t phy::ImpairmentConfig::*kRates[] = {
      &phy::ImpairmentConfig::drop_ppm, &phy::ImpairmentConfig::corrupt_header_ppm,
      &phy::ImpairmentConfig::corrupt_packet_ppm, &phy::ImpairmentConfig::duplicate_ppm,
      &phy::ImpairmentConfig::reorder_ppm};

  Schedule best_;
  const std::function<bool(const Schedule&)>& fails_;
  std::size_t most_runs_;
  std::size_t runs_ = 0;
};

}  // namespace

Shrunk shrink(Schedule schedule, const std::function<bool(const Schedule&)>& fails,
              std::size_t most_runs) {
  return Shrinker(std::move(schedule), fails, most_runs).run();
}

}  // namespace mtl::sim
