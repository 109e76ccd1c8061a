#include "switch/config/trunk_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "switch/config/port_plan.h"

namespace mtl::switchd {

using mtlink::config::NodeConfig;
using network::Trunk;
using network::TrunkConfig;
using From = mtlink::config::Trunk;

namespace {

std::string text(std::size_t n) {
  return std::to_string(n);
}

class TrunkPlanner {
 public:
  TrunkPlanner(const NodeConfig& config, Plan& plan, Problems& problems)
      : config_(config), plan_(plan), problems_(problems), group_(plan.ports.size()) {
    std::iota(group_.begin(), group_.end(), std::size_t{0});
    for (const auto& port : config.ports()) entries_[port.port()] = &port;
  }

  void plan() {
    for (int i = 0; i < config_.trunks_size(); ++i) trunk(config_.trunks(i), item("trunks", i));
    if (!problems_.none()) return;
    for (const PortPlan& port : plan_.ports) join(port.port, port.first_on_device);
    for (const TrunkConfig& trunk : plan_.node.trunks) {
      for (const PortId lane : trunk.lanes) join(lane, trunk.lanes.front());
    }
    give_workers();
  }

 private:
  void trunk(const From& from, const std::string& path);
  std::string name(const From& from, const std::string& path);
  bool may_be_lane(std::uint32_t port, const std::string& path);
  void alike(PortId first, PortId port, const std::string& path);
  void give_workers();
  int trunk_of(std::size_t wanted) const;

  /// Groups of ports that must have one worker, each by its lowest port.
  std::size_t group(std::size_t port) const {
    while (group_[port] != port) port = group_[port];
    return port;
  }
  void join(PortId a, PortId b) {
    const std::size_t x = group(a.value());
    const std::size_t y = group(b.value());
    group_[std::max(x, y)] = std::min(x, y);
  }

  const NodeConfig& config_;
  Plan& plan_;
  Problems& problems_;
  std::map<std::uint32_t, const mtlink::config::Port*> entries_;  ///< by port number; no slots
  std::map<std::string, std::string> names_;                      ///< name -> who has it
  std::map<std::uint32_t, std::string> lanes_;                    ///< port -> trunk that has it
  std::vector<std::size_t> group_;                                ///< by port
};

std::string TrunkPlanner::name(const From& from, const std::string& path) {
  std::string name = from.name();
  if (name.empty()) name = "trunk" + (from.ports().empty() ? "" : text(from.ports(0)));
  if (!good_name(name)) problems_.add(path + ".name", "is \"" + name + "\"; " + kNameRule);
  const auto [first, fresh] = names_.emplace(name, path);
  if (!fresh) {
    problems_.add(path + ".name",
                  "is \"" + name + "\", which " + first->second + " has; names must differ");
  }
  return name;
}

bool TrunkPlanner::may_be_lane(std::uint32_t port, const std::string& path) {
  if (port >= plan_.ports.size() || !plan_.ports[port].present()) {
    problems_.add(
        path, "is " + text(port) + ", but the node has ports " + numbers(plan_.ports) + " only");
    return false;
  }
  if (!entries_.contains(port)) {
    problems_.add(path, "is " + text(port) + ", a slot, which has one link; leave it out");
    return false;
  }
  const auto [first, fresh] = lanes_.emplace(port, path);
  if (!fresh) {
    problems_.add(path, "is " + text(port) + ", which is a lane already, by " + first->second +
                            "; a port is in one trunk, once");
    return false;
  }
  if (!plan_.node.ports[port].link.expect_node) {
    problems_.add(path, "is port " + text(port) +
                            ", which has no peer_node; all lanes of a trunk lead to one node: give "
                            "the port that of the others");
    return false;
  }
  return true;
}

/// Whether both let in the same, in whatever order they say it.
bool same_edge(const std::optional<network::Edge>& a, const std::optional<network::Edge>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return std::set(a->nodes.begin(), a->nodes.end()) == std::set(b->nodes.begin(), b->nodes.end()) &&
         std::set(a->partitions.begin(), a->partitions.end()) ==
             std::set(b->partitions.begin(), b->partitions.end());
}

/// What a packet may not notice: by which lane it goes.
void TrunkPlanner::alike(PortId first, PortId port, const std::string& path) {
  const network::PortConfig& a = plan_.node.ports[first.value()];
  const network::PortConfig& b = plan_.node.ports[port.value()];
  const std::string ports = "is port " + text(port.value()) + ", which ";
  if (a.link.expect_node != b.link.expect_node) {
    problems_.add(path, ports + "leads to node " + text(b.link.expect_node->value()) +
                            ", but port " + text(first.value()) + " to node " +
                            text(a.link.expect_node->value()) +
                            "; all lanes of a trunk lead to one node");
  }
  if (!same_edge(a.edge, b.edge)) {
    problems_.add(path, ports + "lets others in (edge) than port " + text(first.value()) +
                            "; give all lanes of a trunk the same edge, or none");
  }
  if (a.link.mtu != b.link.mtu) {
    problems_.warn(path, ports + "has an mtu of " + text(b.link.mtu) + ", but port " +
                             text(first.value()) + " one of " + text(a.link.mtu) +
                             ": the trunk carries what its shortest lane does");
  }
}

void TrunkPlanner::trunk(const From& from, const std::string& path) {
  TrunkConfig trunk;
  TrunkPlan plan{name(from, path)};
  const auto lanes = static_cast<std::size_t>(from.ports_size());
  if (lanes < Trunk::kMinLanes || lanes > Trunk::kMaxLanes) {
    problems_.add(path + ".ports", "has " + text(lanes) + " entries; a trunk has " +
                                       text(Trunk::kMinLanes) + ".." + text(Trunk::kMaxLanes) +
                                       " lanes (one port alone needs no trunk)");
  }
  for (int i = 0; i < from.ports_size(); ++i) {
    const std::string at = path + "." + item("ports", i);
    if (!may_be_lane(from.ports(i), at)) continue;
    const PortId port(static_cast<std::uint16_t>(from.ports(i)));
    if (!trunk.lanes.empty()) alike(trunk.lanes.front(), port, at);
    trunk.lanes.push_back(port);
  }
  if (from.spread() == From::SHORTEST_QUEUE) trunk.spread = network::Spread::kShortestQueue;
  plan_.node.trunks.push_back(std::move(trunk));
  plan_.trunks.push_back(std::move(plan));
}

/// The first trunk of a group of ports that has one.
int TrunkPlanner::trunk_of(std::size_t wanted) const {
  const auto& trunks = plan_.node.trunks;
  const auto found = std::find_if(trunks.begin(), trunks.end(), [&](const TrunkConfig& trunk) {
    return group(trunk.lanes.front().value()) == wanted;
  });
  return static_cast<int>(found - trunks.begin());
}

/// A group's worker is the one that some port of it names, else that of its first port.
void TrunkPlanner::give_workers() {
  std::map<std::size_t, const mtlink::config::Port*> given;  // by group: who names its worker
  for (const auto& port : config_.ports()) {
    if (!port.has_worker()) continue;
    const auto [first, fresh] = given.emplace(group(port.port()), &port);
    if (fresh || first->second->worker() == port.worker()) continue;
    problems_.add(item("trunks", trunk_of(group(port.port()))),
                  "joins port " + text(port.port()) + " with port " + text(first->second->port()) +
                      " (and those on their devices), but one has worker " + text(port.worker()) +
                      " and the other " + text(first->second->worker()) +
                      "; the lanes of a trunk have one worker: give both the same");
  }
  for (std::size_t i = 0; i < group_.size(); ++i) {
    const std::size_t leader = group(i);
    if (!plan_.ports[i].present()) continue;
    plan_.ports[i].first_of_worker_group = PortId(static_cast<std::uint16_t>(leader));
    const auto by = given.find(leader);
    plan_.ports[i].worker_given = by != given.end() || plan_.ports[i].worker_given;
    plan_.node.ports[i].shard = by == given.end()
                                    ? plan_.node.ports[leader].shard
                                    : ShardId(static_cast<std::uint8_t>(by->second->worker()));
  }
}

}  // namespace

void plan_trunks(const NodeConfig& config, Plan& plan, Problems& problems) {
  TrunkPlanner(config, plan, problems).plan();
}

}  // namespace mtl::switchd
