#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/node_host.h"
#include "sim/wire.h"

namespace mtl::sim {

struct FabricPlan {
  std::vector<NodePlan> nodes;
  std::vector<WirePlan> wires;
};

/// Nodes and wires in virtual time. One thread; the same plan, seed and calls give the same run.
///
///   ClockQueue --events--> Wire, ShardHost          Wire <--frames--> ShardHost (network::Shard)
class Fabric final : private WireEnd {
 public:
  /// Each port of each node is an end of one wire. Nodes are not running yet.
  Fabric(const FabricPlan& plan, ClockQueue& queue, Random random, FabricWatcher& watcher,
         EventLog& log);
  ~Fabric();

  /// Starts every node, ports enabled, with carrier.
  void start();

  // Faults; each may come at any time.
  /// The node is gone with all in it; its neighbours lose the carrier if `carrier`.
  void halt_node(std::uint32_t node, bool carrier);
  /// It comes back, knowing nothing.
  void boot_node(std::uint32_t node);
  void set_enabled(PortRef port, bool enabled);
  Wire& wire(std::size_t index) { return *wires_[index]; }
  const Wire& wire(std::size_t index) const { return *wires_[index]; }
  std::size_t wires() const { return wires_.size(); }

  NodeHost& node(std::uint32_t index) { return *nodes_[index]; }
  const NodeHost& node(std::uint32_t index) const { return *nodes_[index]; }
  std::uint32_t nodes() const { return static_cast<std::uint32_t>(nodes_.size()); }
  const WirePool& wire_pool() const { return wire_pool_; }
  Time now() const { return context_.queue.now(); }

  /// Whether all links that can be usable are (N7), at both ends.
  bool all_usable() const;
  /// Buffers out of the pools of all nodes.
  std::uint32_t in_use() const;
  /// The state of every link that is not idle, a line each: what a stall looks like.
  std::string dump() const;

 private:
  void frames_in(PortRef end, std::span<Buffer* const> frames, Time now) override;
  void room_again(PortRef end, Time now) override;
  void carrier_changed(PortRef end, bool carrier, Time now) override;

  FabricContext context_;
  WirePool wire_pool_;
  std::vector<std::unique_ptr<NodeHost>> nodes_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<bool> dark_;  ///< by node: halted, and its neighbours lost the carrier
};

}  // namespace mtl::sim
