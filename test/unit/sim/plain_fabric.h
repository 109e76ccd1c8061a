#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "sim/checkers.h"
#include "sim/fabric.h"
#include "sim/shape.h"

namespace mtl::sim {

/// A fabric with every parameter at its default, wires of 1 us, and the checkers: for tests that do
/// one thing at a time.
class PlainFabric {
 public:
  static FabricPlan plan_of(const Shape& shape) {
    FabricPlan plan;
    for (std::uint32_t n = 0; n < shape.nodes.size(); ++n) {
      NodePlan node;
      node.endpoint = shape.nodes[n].endpoint;
      node.routes = shape.nodes[n].routes;
      node.config.node = node_id(n);
      for (std::size_t p = 0; p < shape.nodes[n].edge.size(); ++p) {
        network::PortConfig port;
        port.link.node = node.config.node;
        port.link.port = PortId(static_cast<std::uint16_t>(p));
        port.link.mac = {std::byte{2}, {}, {}, {}, std::byte(n), std::byte(p)};
        port.link.mtu = 1024;
        node.config.ports.push_back(port);
      }
      plan.nodes.push_back(node);
    }
    for (const auto& ends : shape.wires) {
      plan.wires.push_back({ends, std::chrono::microseconds(1)});
    }
    return plan;
  }

  explicit PlainFabric(FabricPlan plan)
      : plan_(std::move(plan)),
        checkers_(1, log_),
        fabric_(std::make_unique<Fabric>(plan_, queue_, Random(1), checkers_, log_)) {
    checkers_.watch(*fabric_, plan_);
    fabric_->start();
  }
  explicit PlainFabric(const Shape& shape) : PlainFabric(plan_of(shape)) {}

  void run(Duration time) {
    const Time until = queue_.now() + time;
    while (queue_.step(until)) {
    }
  }

  /// Node `from` sends a datagram of `length` bytes to node `to`.
  std::optional<PacketNumber> send(std::uint32_t from, std::uint32_t to, std::uint32_t length = 100,
                                   bool bad_crc = false) {
    PacketPlan packet;
    packet.at = from;
    packet.header = {.proto = static_cast<std::uint8_t>(network::Proto::kDatagram),
                     .dst = node_id(to),
                     .src = node_id(from),
                     .partition = kGoodPartition};
    packet.length = length;
    packet.bad_crc = bad_crc;
    ShardHost& shard = *fabric_->node(from).shards()[0];
    Buffer* buffer = shard.take_own();
    if (buffer == nullptr) return std::nullopt;
    const PacketNumber number = checkers_.ledger().make(packet, *buffer, checkers_.epoch());
    if (shard.submit(buffer, queue_.now()) == network::Submit::kTaken) return number;
    checkers_.ledger().withdraw();
    return std::nullopt;
  }

  /// Destroys the nodes, which ends the counters' checks.
  void end() { fabric_.reset(); }

  bool violated(std::string_view check) const {
    for (const Violation& violation : checkers_.violations().list()) {
      if (violation.check == check) return true;
    }
    return false;
  }

  Fabric& fabric() { return *fabric_; }
  Checkers& checkers() { return checkers_; }
  Time now() const { return queue_.now(); }

 private:
  ClockQueue queue_;
  EventLog log_;
  FabricPlan plan_;
  Checkers checkers_;
  std::unique_ptr<Fabric> fabric_;
};

}  // namespace mtl::sim
