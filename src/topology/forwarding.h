#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "network/route_table.h"

namespace mtl::topology {

/// A number of links, the tables of all nodes that forward over them, and nothing else: what the
/// proof of N10 is about. Nodes, their links and the destinations are indices here.
///
/// The tables are compressed twice. Destinations that everybody routes alike share a column, and
/// lists of tiers that are the same share a number: a table of 16,384 destinations is one number
/// for each node and column.
class Forwarding {
 public:
  /// A hop of a list of tiers: the index of the node's link, and whether the layer is raised.
  struct Hop {
    std::uint16_t out = 0;
    std::uint8_t raise = 0;
    std::uint8_t tier = 0;
    friend auto operator<=>(const Hop&, const Hop&) = default;
  };
  /// Tiers in order, each hop with its tier's number. Sorted by tier, hops of weight k k times.
  using Hops = std::vector<Hop>;
  using HopsId = std::uint32_t;
  static constexpr HopsId kNone = 0;  ///< no hops: a packet ends here

  /// The far end of a node's link.
  struct Far {
    std::uint32_t node = 0;
    std::uint32_t back = 0;  ///< index there of the other direction; kNoBack: it has none
  };
  static constexpr std::uint32_t kNoBack = ~std::uint32_t{0};

  Forwarding() = default;
  /// `links` by node; `columns` without an entry yet.
  Forwarding(const std::vector<std::vector<Far>>& links, std::size_t columns);

  std::size_t nodes() const { return first_.empty() ? 0 : first_.size() - 1; }
  std::size_t columns() const { return columns_; }
  std::span<const Far> links(std::size_t node) const {
    return {far_.data() + first_[node], first_[node + 1] - first_[node]};
  }
  /// All links' numbers: those of `node` begin here.
  std::size_t first_link(std::size_t node) const { return first_[node]; }
  std::size_t all_links() const { return far_.size(); }

  /// The number of a list of tiers, the same for the same list.
  HopsId intern(const Hops& hops);
  const Hops& hops(HopsId id) const { return lists_[id]; }
  std::size_t lists() const { return lists_.size(); }
  void set(std::size_t node, std::size_t column, HopsId id) {
    entries_[column * nodes() + node] = id;
  }
  HopsId at(std::size_t node, std::size_t column) const {
    return entries_[column * nodes() + node];
  }
  const Hops& hops(std::size_t node, std::size_t column) const { return lists_[at(node, column)]; }
  /// Takes every raise away: what the tables would be with one layer.
  void lower();
  /// Bytes that the tables take.
  std::size_t bytes() const;

 private:
  std::vector<std::size_t> first_;
  std::vector<Far> far_;
  std::size_t columns_ = 0;
  std::vector<HopsId> entries_;  ///< by column, then node
  std::vector<Hops> lists_;
  struct HashOfHops {
    std::size_t operator()(const Hops& hops) const noexcept;
  };
  std::unordered_map<Hops, HopsId, HashOfHops> numbers_;
};

/// The layers (bit k: layer k) with which packets of one column may be at each node, from layer 0
/// at every node that has hops, by any hop of the first `tiers` tiers.
class Layers {
 public:
  explicit Layers(const Forwarding& tables) : tables_(tables), at_(tables.nodes()) {}
  void follow(std::size_t column, std::uint8_t tiers);
  std::uint8_t at(std::size_t node) const { return at_[node]; }

 private:
  const Forwarding& tables_;
  std::vector<std::uint8_t> at_;
  std::vector<std::uint32_t> open_;
};

}  // namespace mtl::topology
