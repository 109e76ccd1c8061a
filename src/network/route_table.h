#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace mtl::network {

/// A next hop of N7: a port, and whether the layer is raised there.
struct NextHop {
  PortId port;
  std::uint8_t raise = 0;  ///< 0 or 1
  friend bool operator==(const NextHop&, const NextHop&) = default;
};

/// Next hops of equal standing; one listed k times has weight k.
using Tier = std::vector<NextHop>;

/// Tiers for one destination, the first with a usable hop is used.
struct Route {
  NodeId dst;
  std::vector<Tier> tiers;
  friend bool operator==(const Route&, const Route&) = default;
};

/// Destinations and their tiers (N7), immutable once built: workers read it without a lock, a new
/// one replaces it whole. A default route serves every destination that has none of its own (an
/// endpoint with one port).
class RouteTable {
 public:
  static constexpr std::size_t kMaxTiers = 8;
  static constexpr std::size_t kMaxHops = 64;  ///< of one tier, weights counted

  RouteTable() = default;
  // tiers_ points into hops_, which a move takes along.
  RouteTable(RouteTable&&) = default;
  RouteTable& operator=(RouteTable&&) = default;

  /// Checks ids, ports (below `ports`), raises, sizes, destinations listed twice, empty tiers.
  static Result<RouteTable> build(std::span<const Route> routes, std::size_t ports,
                                  const std::vector<Tier>* default_tiers = nullptr);

  /// The tiers for `dst`, best first; empty: no route.
  std::span<const std::span<const NextHop>> tiers(NodeId dst) const {
    if (entry_of_.empty()) return {};
    const Entry& entry = entries_[entry_of_[dst.value()]];
    return {tiers_.data() + entry.first_tier, entry.tiers};
  }
  /// As given to build(), for showing.
  const std::vector<Route>& routes() const { return routes_; }

 private:
  struct Entry {
    std::uint32_t first_tier = 0;
    std::uint32_t tiers = 0;
  };
  void add(const std::vector<Tier>& tiers);

  std::vector<Route> routes_;
  std::vector<std::uint16_t> entry_of_;  ///< by node id; entry 0 is the default route
  std::vector<Entry> entries_;
  // In a row each, so that a table of many destinations takes few cache lines.
  std::vector<std::span<const NextHop>> tiers_;
  std::vector<NextHop> hops_;  ///< reserved as a whole: never moves
};

}  // namespace mtl::network
