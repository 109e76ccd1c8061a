#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "link/config.h"
#include "mtlink/control.pb.h"
#include "network/route_table.h"
#include "runtime/worker.h"
#include "switch/media/media.h"
#include "switch/reading.h"

/// A node's state as the control API tells it, made of what the workers read and of what the daemon
/// knows itself.
namespace mtl::switchd {

/// What is known of a port beside its reading.
struct PortFacts {
  std::string name;
  std::string driver;
  std::string device;
  std::uint32_t max_frame = 0;
  bool slot = false;
  std::uint16_t endpoint_node = 0;  ///< of a slot
  bool claimed = false;             ///< likewise
  bool edge = false;
  std::uint32_t worker = 0;
  std::string fault;
  const link::Config* link = nullptr;
  DropReading device_drops{};  ///< counted by the control thread (driver and kernel)
};

mtlink::control::PortState port_state(const PortReading& reading, const PortFacts& facts);
/// Of all shards, and of the devices that went with the ports.
mtlink::control::RemovedPorts removed_state(const std::vector<ShardReading>& readings,
                                            const DropReading& device_drops);
mtlink::control::SharedDeviceState shared_device_state(const Media::SharedReading& reading);
mtlink::control::TrunkState trunk_state(const TrunkReading& reading, const std::string& name);
mtlink::control::ShardState shard_state(const ShardReading& reading);
mtlink::control::WorkerState worker_state(std::uint32_t worker, int cpu, std::uint64_t ticks_hz,
                                          const runtime::WorkerCounters& counters);
/// What the worker's reading says of the stages of its passes, if anything was measured.
void add_stages(const ShardReading& reading, mtlink::control::WorkerState& out);
/// Routes as configuration spells them: hops that are listed k times become one of weight k.
void add_routes(const network::RouteTable& table, mtlink::control::NodeState& out);
mtlink::config::Impairment impairment_message(const phy::ImpairmentConfig& config);

}  // namespace mtl::switchd
