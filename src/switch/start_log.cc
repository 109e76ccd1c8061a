#include "switch/start_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <numeric>

namespace mtl::switchd {
namespace {

std::string joined(const auto& list) {
  return fmt::format("{}", fmt::join(list, ","));
}

}  // namespace

void log_start(const Plan& plan, const phy::EalConfig& eal, Log& log) {
  log.info("starting", {{"node", plan.node.node.value()},
                        {"name", plan.name},
                        {"ports", count(plan.ports)},
                        {"routes", plan.routes.size()},
                        {"workers", plan.runtime.workers},
                        {"cpus", plan.runtime.cpus.empty() ? "any" : joined(plan.runtime.cpus)},
                        {"poll", plan.runtime.poll}});
  log.info("memory", {{"eal_mib", eal.memory_mib},
                      {"huge_pages", eal.huge_pages},
                      {"buffers", plan.buffers.receive + plan.buffers.own},
                      {"buffer_bytes", plan.buffers.room},
                      {"links_bytes", plan.memory.links},
                      {"local_rings_bytes", plan.memory.local_rings}});
  if (!eal.args.empty()) log.info("further EAL arguments", {{"args", joined(eal.args)}});
  for (const std::string& warning : plan.warnings) log.warning(warning);
  if (geteuid() == 0) {
    log.debug("runs as root; CAP_NET_RAW alone does for AF_PACKET, and none for slots");
  }
}

void log_port(const Plan& plan, const link::Config& link, const PortPlan& port,
              const phy::PortTraits& traits, Log& log) {
  const auto cells = std::accumulate(link.capacity.begin(), link.capacity.end(), 0u);
  log.info("port", {{"port", port.name},
                    {"number", port.port.value()},
                    {"driver", traits.driver},
                    {"device", traits.device},
                    {"max_frame", traits.max_frame},
                    {"lossy", traits.lossy},
                    {"knows_carrier", traits.knows_carrier},
                    {"wakes", traits.wake_fd >= 0},
                    {"worker", plan.node.ports[port.port.value()].shard.value()},
                    {"mtu", link.mtu},
                    {"cell", link.cell},
                    {"window", link.window},
                    {"capacity", joined(link.capacity)},
                    {"cells", cells},
                    {"enabled", port.enabled}});
}

void log_final(const Plan& plan, NodeHost& host, Time now, Log& log) {
  for (std::size_t w = 0; w < host.workers(); ++w) {
    ShardReading r = host.host(w).blank_reading();
    host.host(w).read(r, now);
    const DropReading drops = read(r.counters.drops);
    const std::uint64_t dropped = std::accumulate(drops.begin(), drops.end(), std::uint64_t{0});
    log.info("final", {{"shard", w},
                       {"accepted", r.counters.accepted.get()},
                       {"made", r.counters.made.get()},
                       {"acked", r.counters.acked.get()},
                       {"delivered", r.counters.delivered.get()},
                       {"dropped", dropped},
                       {"held", r.held},
                       {"rerouted", r.counters.rerouted.get()}});
    for (const PortReading& p : r.ports) {
      log.info("final", {{"port", plan.ports[p.port.value()].name},
                         {"frames_in", p.medium.frames_in},
                         {"frames_out", p.medium.frames_out},
                         {"packets_in", p.counters.packets_in.get()},
                         {"packets_acked", p.counters.packets_acked.get()},
                         {"packets_back", p.counters.packets_back.get()},
                         {"replays", p.counters.replays.get()},
                         {"ups", p.counters.ups.get()}});
    }
  }
}

}  // namespace mtl::switchd
