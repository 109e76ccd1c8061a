#include "network/node.h"

#include <algorithm>

namespace mtl::network {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kErrorsPerSecond = 1000;  // N11
constexpr unsigned kCountBits = 16;

}  // namespace

const char* name(HopChoice choice) {
  return choice == HopChoice::kHash ? "hash" : "shortest_queue";
}

Node::Node(NodeConfig config)
    : config_(std::move(config)),
      board_(config_.ports.size()),
      trunks_(config_.trunks.begin(), config_.trunks.end()),
      places_(config_.ports.size()) {
  for (Trunk& trunk : trunks_) {
    for (std::uint8_t lane = 0; lane < trunk.lanes().size(); ++lane) {
      places_[trunk.lanes()[lane].port.value()] = {&trunk, lane};
    }
  }
  for (std::size_t i = 0; i < config_.ports.size(); ++i) {
    const PortId port(static_cast<std::uint16_t>(i));
    set_port(port, std::move(config_.ports[i]));
  }
}

void Node::set_port(PortId port, PortConfig config) {
  PortConfig& own = config_.ports[port.value()];
  own = std::move(config);
  if (own.edge) {  // sorted, so that a lookup is a binary search
    std::sort(own.edge->nodes.begin(), own.edge->nodes.end());
    std::sort(own.edge->partitions.begin(), own.edge->partitions.end());
  }
  set_owner(port, own.shard);
}

bool Node::take_error(Time now) {
  const auto second = static_cast<std::uint64_t>(nanos(now) / kSecond);
  std::uint64_t seen = errors_.load(std::memory_order_relaxed);
  for (;;) {
    // A shard whose pass began before the second's end counts in the one that another has begun.
    const std::uint64_t counted = std::max(seen >> kCountBits, second);
    const bool same = seen >> kCountBits == counted;
    const std::uint64_t made = same ? seen & ((1U << kCountBits) - 1) : 0;
    if (made >= kErrorsPerSecond) return false;
    if (errors_.compare_exchange_weak(seen, counted << kCountBits | (made + 1),
                                      std::memory_order_relaxed)) {
      return true;
    }
  }
}

}  // namespace mtl::network
