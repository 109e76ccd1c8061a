#include "switch/config/link_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/settings/link_timers.h"
#include "switch/config/node_config.h"

namespace mtl::switchd {

using mtlink::config::LinkDefaults;
using std::chrono::microseconds;
using ConfigTimers = mtlink::config::Timers;

namespace {

constexpr std::uint32_t kDefaultCell = 256;
constexpr std::uint32_t kDefaultWindow = 256;
constexpr std::uint32_t kDefaultSendWindow = 1024;
constexpr std::uint32_t kDefaultMarkBytes = 65536;
constexpr std::uint32_t kMinDefaultCapacity = 64;
/// VCs share the sum of L6 evenly when one value stands for all.
constexpr std::uint32_t kMaxEvenCapacity = link::kMaxCapacitySum / kVcs;

/// A value and the field that says it.
struct Said {
  std::uint32_t value;
  std::string path;
};

class LinkPlanner {
 public:
  LinkPlanner(const LinkSource& source, Problems& problems, link::Config& out)
      : source_(source), problems_(problems), out_(out) {}

  void plan() {
    plan_mtu();
    plan_cell();
    plan_windows();
    plan_capacity();
    plan_timers();
  }

 private:
  using Has = bool (LinkDefaults::*)() const;
  using Get = std::uint32_t (LinkDefaults::*)() const;
  Said said(Has has, Get get, const std::string& name, std::uint32_t fallback) const {
    if ((source_.own.*has)()) return {(source_.own.*get)(), source_.own_path + "." + name};
    if ((source_.node.*has)()) return {(source_.node.*get)(), "defaults." + name};
    return {fallback, source_.own_path + "." + name};
  }

  void plan_mtu();
  void plan_cell();
  void plan_windows();
  void plan_capacity();
  std::vector<std::uint32_t> capacity_said(std::string& path) const;
  void plan_timers();
  void apply(const ConfigTimers& from, const std::string& path);
  void check_timers(const std::string& path);

  const LinkSource& source_;
  Problems& problems_;
  link::Config& out_;
};

void LinkPlanner::plan_mtu() {
  const std::uint32_t most =
      std::min(kMaxMtu, source_.longest_frame - static_cast<std::uint32_t>(link::kFrameHeader));
  const Said mtu =
      said(&LinkDefaults::has_mtu, &LinkDefaults::mtu, "mtu", std::min(most, kDefaultMaxMtu));
  if (!problems_.range(mtu.path, mtu.value, link::kMinMtu, kMaxMtu)) return;
  if (mtu.value > most) {
    problems_.add(mtu.path,
                  "is " + std::to_string(mtu.value) + ", but " + source_.device + " of " +
                      source_.port_path + " carries frames of " +
                      std::to_string(source_.longest_frame) + " bytes, so at most " +
                      std::to_string(most) + " (30 less); lower it, or raise the device's MTU to " +
                      std::to_string(mtu.value + link::kFrameHeader - link::kEthernetHeader));
    return;
  }
  out_.mtu = static_cast<std::uint16_t>(mtu.value);
}

void LinkPlanner::plan_cell() {
  const Said cell = said(&LinkDefaults::has_cell, &LinkDefaults::cell, "cell", kDefaultCell);
  if (problems_.range(cell.path, cell.value, 1, 65535)) {
    out_.cell = static_cast<std::uint16_t>(cell.value);
  }
  const Said mark = said(&LinkDefaults::has_mark_bytes, &LinkDefaults::mark_bytes, "mark_bytes",
                         kDefaultMarkBytes);
  // Rounded up, so that few bytes do not come to mean "never".
  out_.mark_bytes = static_cast<std::uint32_t>(mark.value);
}

void LinkPlanner::plan_windows() {
  const Said window =
      said(&LinkDefaults::has_window, &LinkDefaults::window, "window", kDefaultWindow);
  if (problems_.range(window.path, window.value, 1, link::kMaxWindow)) {
    out_.window = static_cast<std::uint16_t>(window.value);
  }
  const Said send = said(&LinkDefaults::has_send_window, &LinkDefaults::send_window, "send_window",
                         kDefaultSendWindow);
  if (problems_.range(send.path, send.value, 1, link::kMaxWindow)) {
    out_.send_window = static_cast<std::uint16_t>(send.value);
  }
}

std::vector<std::uint32_t> LinkPlanner::capacity_said(std::string& path) const {
  path = source_.own_path + ".capacity";
  const auto* values = &source_.own.capacity();
  if (values->empty()) {
    values = &source_.node.capacity();
    if (!values->empty()) path = "defaults.capacity";
  }
  if (!values->empty()) return {values->begin(), values->end()};
  const std::uint32_t packets = 4U * link::CellSize(out_.cell).cells(out_.mtu);
  return {std::min(std::max(packets, kMinDefaultCapacity), kMaxEvenCapacity)};
}

void LinkPlanner::plan_capacity() {
  std::string path;
  auto values = capacity_said(path);
  if (values.size() != 1 && values.size() != kVcs) {
    problems_.add(
        path, "has " + std::to_string(values.size()) + " values; give one for all VCs, or eight");
    return;
  }
  if (values.size() == 1) values.assign(kVcs, values.front());
  const std::uint64_t sum = std::accumulate(values.begin(), values.end(), std::uint64_t{0});
  if (sum > link::kMaxCapacitySum || sum == 0) {
    problems_.add(path, "comes to " + std::to_string(sum) +
                            " cells over the eight VCs; it must be 1.." +
                            std::to_string(link::kMaxCapacitySum) + " (L6)");
    return;
  }
  const std::uint32_t longest = link::CellSize(out_.cell).cells(out_.mtu);
  for (std::size_t v = 0; v < kVcs; ++v) {
    if (values[v] != 0 && values[v] < longest) {
      problems_.add(path, "gives VC " + std::to_string(v) + " " + std::to_string(values[v]) +
                              " cells, but a packet of " + std::to_string(out_.mtu) +
                              " bytes takes " + std::to_string(longest) + " of " +
                              std::to_string(out_.cell) +
                              " bytes; give at least that (or 0 to close the VC), enlarge cell, or "
                              "lower mtu");
      return;
    }
    out_.capacity[v] = static_cast<std::uint16_t>(values[v]);
  }
}

void LinkPlanner::apply(const ConfigTimers& from, const std::string& path) {
  for (const runtime::TimerFault& fault : runtime::put_timers(from, out_.timers)) {
    problems_.range(path + "." + fault.field, fault.value, fault.least, fault.most);
  }
}

void LinkPlanner::check_timers(const std::string& path) {
  const link::Timers& t = out_.timers;
  const auto us = [](Duration d) {
    return std::to_string(std::chrono::duration_cast<microseconds>(d).count());
  };
  // Silence must be noticed only after a keepalive was due; one lost frame must not end a link.
  if (t.keepalive_interval >= t.dead_interval) {
    problems_.add(path + ".keepalive_interval_us",
                  "is " + us(t.keepalive_interval) + ", not below dead_interval_us, which is " +
                      us(t.dead_interval) + "; make it half of that or less");
  } else if (t.keepalive_interval * 2 > t.dead_interval) {
    problems_.warn(path + ".keepalive_interval_us",
                   "is more than half of dead_interval_us: one lost frame ends the link");
  }
  if (t.ack_delay >= t.replay_timeout && !t.adaptive) {
    problems_.warn(
        path + ".ack_delay_us",
        "is not below replay_timeout_us: a peer with the same timers sends again what has "
        "arrived");
  }
}

void LinkPlanner::plan_timers() {
  const ConfigTimers& own = source_.own.timers();
  const ConfigTimers& node = source_.node.timers();
  // A port that names a profile wants that profile, not the node's departures from another.
  const bool own_profile = own.profile() != ConfigTimers::PROFILE_UNSPECIFIED;
  const auto profile = own_profile ? own.profile() : node.profile();
  out_.timers = runtime::profile_timers(profile);
  const std::string own_path = source_.own_path + ".timers";
  if (!own_profile) apply(node, "defaults.timers");
  apply(own, own_path);
  check_timers(source_.own.has_timers() || !source_.node.has_timers() ? own_path
                                                                      : "defaults.timers");
}

}  // namespace

void plan_link(const LinkSource& source, Problems& problems, link::Config& config) {
  LinkPlanner(source, problems, config).plan();
}

}  // namespace mtl::switchd
