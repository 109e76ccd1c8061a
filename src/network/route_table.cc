#include "network/route_table.h"

#include <string>

namespace mtl::network {
namespace {

/// What is wrong with the tiers of the route called `what`; empty: nothing.
std::string fault(const std::string& what, const std::vector<Tier>& tiers, std::size_t ports) {
  if (tiers.empty()) return what + " has no tier: give at least one next hop, or leave it out";
  if (tiers.size() > RouteTable::kMaxTiers) {
    return what + " has " + std::to_string(tiers.size()) + " tiers; at most " +
           std::to_string(RouteTable::kMaxTiers);
  }
  for (const Tier& tier : tiers) {
    if (tier.empty()) return what + " has a tier without a next hop: leave the tier out";
    if (tier.size() > RouteTable::kMaxHops) {
      return what + " has a tier of " + std::to_string(tier.size()) +
             " next hops, weights counted; at most " + std::to_string(RouteTable::kMaxHops);
    }
    for (const NextHop& hop : tier) {
      if (hop.port.value() >= ports) {
        return what + " names port " + std::to_string(hop.port.value()) +
               ", which the node does not have (ports 0 to " + std::to_string(ports) + " - 1)";
      }
      if (hop.raise > 1) {
        return what + " has raise " + std::to_string(hop.raise) + "; it must be 0 or 1 (N7)";
      }
    }
  }
  return {};
}

std::size_t count_hops(const std::vector<Tier>& tiers) {
  std::size_t n = 0;
  for (const Tier& tier : tiers) n += tier.size();
  return n;
}

}  // namespace

void RouteTable::add(const std::vector<Tier>& tiers) {
  entries_.push_back(
      {static_cast<std::uint32_t>(tiers_.size()), static_cast<std::uint32_t>(tiers.size())});
  for (const Tier& tier : tiers) {
    const std::size_t first = hops_.size();
    hops_.insert(hops_.end(), tier.begin(), tier.end());
    tiers_.emplace_back(hops_.data() + first, tier.size());
  }
}

Result<RouteTable> RouteTable::build(std::span<const Route> routes, std::size_t ports,
                                     const std::vector<Tier>* default_tiers) {
  RouteTable table;
  table.entry_of_.assign(65536, 0);
  std::size_t hops = default_tiers == nullptr ? 0 : count_hops(*default_tiers);
  for (const Route& route : routes) hops += count_hops(route.tiers);
  table.hops_.reserve(hops);
  if (default_tiers != nullptr) {
    if (auto why = fault("the default route", *default_tiers, ports); !why.empty()) {
      return Error{why};
    }
    table.add(*default_tiers);
  } else {
    table.entries_.push_back({});
  }
  for (const Route& route : routes) {
    const std::string what = "the route to node " + std::to_string(route.dst.value());
    if (route.dst.value() < kMinNode || route.dst.value() > kMaxNode) {
      return Error{what + ": node ids are 1 to 65534 (N3)"};
    }
    if (auto why = fault(what, route.tiers, ports); !why.empty()) return Error{why};
    std::uint16_t& entry = table.entry_of_[route.dst.value()];
    if (entry != 0) return Error{what + " is given twice: merge both into one"};
    entry = static_cast<std::uint16_t>(table.entries_.size());
    table.add(route.tiers);
    table.routes_.push_back(route);
  }
  return table;
}

}  // namespace mtl::network
