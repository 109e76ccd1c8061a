#include "switch/config/node_config.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "link/codec.h"
#include "switch/config/buffer_plan.h"
#include "switch/config/link_plan.h"
#include "switch/config/port_plan.h"
#include "switch/config/problems.h"
#include "switch/config/routes_plan.h"
#include "switch/config/trunk_plan.h"
#include "topology/generate.h"

namespace mtl::switchd {

using mtlink::config::NodeConfig;
using mtlink::config::Runtime;

namespace {

constexpr std::uint32_t kMaxOwnLimit = 65536;
constexpr std::size_t kMaxSocketPath = 107;  // sun_path, its final zero not counted
constexpr std::uint32_t kEalReserveMib = 64;
constexpr std::uint64_t kMib = 1U << 20;

/// Takes a configuration apart, one part after the other; what fails is a problem, and the rest
/// goes on so that all problems show.
class Planner {
 public:
  Planner(const control::Located<NodeConfig>& file, const Host& host)
      : config_(file.message), host_(host), problems_(file.locations) {
    plan_.file = file;
  }

  Result<Plan> plan() {
    plan_identity();
    plan_workers();
    plan_ports();
    plan_control();
    if (!problems_.none()) return problems_.error();
    // What follows needs ports that are all right.
    plan_trunks(config_, plan_, problems_);
    plan_routes();
    plan_buffers(plan_);
    plan_sizes();
    if (!problems_.none()) return problems_.error();
    plan_.warnings = problems_.warnings();
    return std::move(plan_);
  }

 private:
  void plan_identity();
  void plan_workers();
  void plan_ports();
  void plan_control();
  void plan_routes();
  void plan_sizes();
  void warn_unreached();
  void warn_far();

  const NodeConfig& config_;
  const Host& host_;
  Problems problems_;
  std::vector<KnownPeer> peers_;
  Plan plan_;
};

void Planner::plan_identity() {
  if (config_.node() == 0) {
    problems_.add("node", "is missing; give the node's id, 1..65534");
  } else if (problems_.range("node", config_.node(), kMinNode, kMaxNode)) {
    plan_.node.node = NodeId(static_cast<std::uint16_t>(config_.node()));
  }
  plan_.name = config_.name().empty() ? "node-" + std::to_string(config_.node()) : config_.name();
  if (!good_name(plan_.name)) {
    problems_.add("name", "is \"" + plan_.name + "\"; " + kNameRule);
  }
  const std::uint32_t hops =
      config_.has_hop_limit() ? config_.hop_limit() : network::kDefaultHopLimit;
  if (problems_.range("hop_limit", hops, 1, 255)) {
    plan_.node.hop_limit = static_cast<std::uint8_t>(hops);
  }
  if (config_.has_own_limit() &&
      problems_.range("own_limit", config_.own_limit(), 1, kMaxOwnLimit)) {
    plan_.node.own_limit = config_.own_limit();
  }
  if (config_.hop_choice() == NodeConfig::SHORTEST_QUEUE) {
    plan_.node.hop_choice = network::HopChoice::kShortestQueue;
  }
}

void Planner::plan_workers() {
  const Runtime& runtime = config_.runtime();
  RuntimePlan& out = plan_.runtime;
  out.cpus.assign(runtime.cpus().begin(), runtime.cpus().end());
  out.workers = std::max<std::size_t>(out.cpus.size(), 1);
  out.poll = runtime.poll();
  out.balance = runtime.balance();
  if (runtime.has_balance_load() &&
      problems_.range("runtime.balance_load", runtime.balance_load(), 1, 99)) {
    out.balance_load = runtime.balance_load() / 100.0;
  }
  out.huge_pages = runtime.huge_pages();
  out.eal_args.assign(runtime.eal_args().begin(), runtime.eal_args().end());
  if (out.workers > kMaxWorkers) {
    problems_.add("runtime.cpus", "has " + std::to_string(out.workers) + " entries; at most " +
                                      std::to_string(kMaxWorkers));
  }
  std::set<std::uint32_t> seen;
  for (int i = 0; i < runtime.cpus_size(); ++i) {
    const std::uint32_t cpu = runtime.cpus(i);
    const std::string path = "runtime." + item("cpus", i);
    if (!seen.insert(cpu).second) {
      problems_.add(path, "is " + std::to_string(cpu) + ", which has a worker already");
    }
    const bool here = std::find(host_.cpus.begin(), host_.cpus.end(), cpu) != host_.cpus.end();
    if (!host_.cpus.empty() && !here) {
      problems_.add(path,
                    "is " + std::to_string(cpu) +
                        ", a CPU that this process may not use; `taskset -cp $$` tells which");
    }
  }
  plan_.node.shards = out.workers;
}

void Planner::plan_ports() {
  PortPlanner ports(config_, host_, plan_, peers_, problems_);
  ports.plan();
}

void Planner::plan_control() {
  const auto& control = config_.control();
  plan_.socket =
      control.socket().empty() ? "/run/mtlink/" + plan_.name + ".sock" : control.socket();
  if (plan_.socket.size() > kMaxSocketPath) {
    problems_.add("control.socket", "has " + std::to_string(plan_.socket.size()) +
                                        " bytes; a Unix socket's path has at most " +
                                        std::to_string(kMaxSocketPath));
  }
  plan_.log_format =
      control.log_format() == mtlink::config::Control::JSON ? LogFormat::kJson : LogFormat::kText;
}

void Planner::plan_routes() {
  const NodeId self = plan_.node.node;
  auto by_hand = read_routes(config_.routes(), self, plan_.ports, problems_);
  plan_.fabric = read_fabric(config_, problems_);
  if (plan_.fabric) {
    for (const PortPlan& port : plan_.ports) {
      if (!port.present()) continue;
      const bool known = std::any_of(peers_.begin(), peers_.end(),
                                     [&](const KnownPeer& p) { return p.port.port == port.port; });
      if (known) continue;
      problems_.add("fabric", "needs to know where port " + std::to_string(port.port.value()) +
                                  " leads; give it a peer_node");
    }
  }
  if (!problems_.none()) return;
  plan_.routes = make_routes(plan_.fabric, std::move(by_hand), self, peers_, problems_);
  network::name_leaders(plan_.node.trunks, plan_.routes);
  for (const auto& peer : peers_) plan_.peers.push_back(peer.port);
  if (deadlock_check(plan_, plan_.routes) == DeadlockCheck::kUnproved) {
    problems_.warn("routes", kUnprovedRoutes);
  }
  warn_unreached();
  warn_far();
}

void Planner::warn_far() {
  if (!plan_.fabric) return;
  const std::size_t links = topology::diameter(*plan_.fabric);
  if (plan_.node.hop_limit >= std::min<std::size_t>(2 * links, 255)) return;
  problems_.warn("hop_limit", "is " + std::to_string(plan_.node.hop_limit) +
                                  ", but the fabric's ways have up to " + std::to_string(links) +
                                  " links; set it to twice that (N6)");
}

void Planner::warn_unreached() {
  std::set<NodeId> reached{plan_.node.node};
  for (const auto& route : plan_.routes) reached.insert(route.dst);
  for (const auto& [port, path] : peers_) {
    if (!reached.insert(port.peer).second) continue;
    problems_.warn(path, "is " + std::to_string(port.peer.value()) +
                             ", to which no route leads: packets for it are dropped (no_route)");
  }
}

void Planner::plan_sizes() {
  BufferPlan& buffers = plan_.buffers;
  const Runtime& runtime = config_.runtime();
  if (runtime.has_buffers()) {
    if (runtime.buffers() < buffers.receive) {
      problems_.add("runtime.buffers", "is " + std::to_string(runtime.buffers()) +
                                           ", but the ports promise their peers " +
                                           "room that takes " + std::to_string(buffers.receive) +
                                           "; give that many, leave it out, or lower capacity");
      return;
    }
    buffers.receive = runtime.buffers();
  }
  plan_.memory.buffers = (std::uint64_t{buffers.receive} + buffers.own) *
                         (std::uint64_t{buffers.room} + BufferPlan::kOverhead);
  const auto need =
      static_cast<std::uint32_t>((plan_.memory.buffers + kMib - 1) / kMib) + kEalReserveMib;
  plan_.runtime.memory_mib = runtime.has_memory_mib() ? runtime.memory_mib() : need;
  if (plan_.runtime.memory_mib < need) {
    problems_.add("runtime.memory_mib",
                  "is " + std::to_string(runtime.memory_mib()) + ", but the buffers need " +
                      std::to_string(need) +
                      "; give that much, leave it out, or lower capacity or mtu");
  } else if (host_.memory_mib != 0 && plan_.runtime.memory_mib > host_.memory_mib) {
    const std::string have = " MiB, and this machine has " + std::to_string(host_.memory_mib);
    const std::string wanted = std::to_string(plan_.runtime.memory_mib) + have;
    if (runtime.has_memory_mib()) {
      problems_.add("runtime.memory_mib", "is " + wanted + "; leave it out for the " +
                                              std::to_string(need) + " that the buffers need");
    } else if (runtime.has_buffers()) {
      problems_.add("runtime.buffers", "is " + std::to_string(runtime.buffers()) +
                                           ", which needs " + wanted + "; lower it");
    } else {
      problems_.add("", "the buffers need " + wanted + "; lower capacity or mtu");
    }
  }
}

std::string mib(std::uint64_t bytes) {
  const std::uint64_t tenths = (bytes * 10 + kMib - 1) / kMib;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

}  // namespace

const char* const kNameRule = "a name has 1 to 64 letters, digits, '.', '_' or '-'";

bool good_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  });
}

Result<Plan> plan_node(const control::Located<NodeConfig>& file, const Host& host) {
  std::map<std::string, std::uint32_t> frames;
  Host asked = host;
  if (host.longest_frame) {
    asked.longest_frame = [&](const std::string& interface) {
      auto frame = host.longest_frame(interface);
      if (frame) frames[interface] = *frame;
      return frame;
    };
  }
  auto plan = Planner(file, asked).plan();
  if (plan) plan->frames = std::move(frames);
  return plan;
}

Result<std::vector<network::Route>> plan_routes(const mtlink::config::Routes& routes,
                                                const Plan& plan,
                                                const std::vector<network::Route>& in_force) {
  const control::Locations nowhere;
  Problems problems(nowhere);
  auto out = read_routes(routes.routes(), plan.node.node, plan.ports, problems);
  if (!problems.none()) return problems.error();
  network::name_leaders(plan.node.trunks, out);
  if (plan.fabric) {
    if (auto ok = topology::check_routes(*plan.fabric, plan.node.node, plan.peers, out); !ok) {
      return ok.error();
    }
    if (auto ok = topology::check_change(*plan.fabric, plan.node.node, plan.peers, in_force, out);
        !ok) {
      return Error{
          "the routes in force, whose packets are still under way, do not go with the new ones: "
          "both are right, but together " +
          ok.error().message +
          "; or first set routes without the destinations of the circle, and these when nothing "
          "is queued any more (mtctl show links)"};
    }
  }
  return out;
}

const char* const kUnprovedRoutes =
    "are by hand, and no `fabric` tells what the other nodes are: nothing proves that packets "
    "cannot "
    "wait in a circle for ever (N10); give the shape of the whole as `fabric`, too";

DeadlockCheck deadlock_check(const Plan& plan, const std::vector<network::Route>& routes) {
  if (plan.fabric) return DeadlockCheck::kProved;
  const auto leads_to = [&](const network::NextHop& hop, NodeId dst) {
    return std::any_of(plan.peers.begin(), plan.peers.end(), [&](const topology::PortPeer& peer) {
      return peer.port == hop.port && peer.peer == dst;
    });
  };
  for (const network::Route& route : routes) {
    for (const network::Tier& tier : route.tiers) {
      for (const network::NextHop& hop : tier) {
        if (!leads_to(hop, route.dst)) return DeadlockCheck::kUnproved;
      }
    }
  }
  return DeadlockCheck::kNotNeeded;
}

const char* name(DeadlockCheck check) {
  switch (check) {
    case DeadlockCheck::kProved:
      return "proved";
    case DeadlockCheck::kNotNeeded:
      return "not_needed";
    case DeadlockCheck::kUnproved:
      break;
  }
  return "unproved";
}

std::string describe(const Plan& plan) {
  std::string out = "node " + std::to_string(plan.node.node.value()) + " \"" + plan.name + "\", " +
                    std::to_string(plan.runtime.workers) + " worker(s), " +
                    std::to_string(plan.routes.size()) + " routes, control socket " + plan.socket +
                    "\n";
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    const PortPlan& port = plan.ports[i];
    if (!port.present()) continue;
    const auto& link = plan.node.ports[i].link;
    const std::string share = share_of(link, port).text();
    out += "port " + std::to_string(i) + " " + port.name + ": " + text(port.device) +
           (share.empty() ? "" : " " + share) + ", mtu " + std::to_string(link.mtu) + ", cell " +
           std::to_string(link.cell) + ", window " + std::to_string(link.window) + ", worker " +
           std::to_string(plan.node.ports[i].shard.value()) + ", " + std::to_string(port.buffers) +
           " buffers" + (port.enabled ? "" : ", disabled") + "\n";
  }
  for (std::size_t i = 0; i < plan.trunks.size(); ++i) {
    const network::TrunkConfig& trunk = plan.node.trunks[i];
    out += "trunk " + plan.trunks[i].name + ": ports";
    for (const PortId lane : trunk.lanes) out += " " + std::to_string(lane.value());
    out += ", spread " + std::string(name(trunk.spread)) + ", worker " +
           std::to_string(plan.node.ports[trunk.lanes.front().value()].shard.value()) + "\n";
  }
  const BufferPlan& b = plan.buffers;
  out += "buffers: " + std::to_string(b.receive) + " to receive, " + std::to_string(b.own) +
         " for own packets, " + std::to_string(b.room) + " bytes each\n";
  out += "memory: buffers " + mib(plan.memory.buffers) + ", local rings " +
         mib(plan.memory.local_rings) + ", links " + mib(plan.memory.links) + ", in all " +
         mib(plan.memory.total()) + "\n";
  return out;
}

}  // namespace mtl::switchd
