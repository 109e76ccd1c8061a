#include "topology/deadlock.h"

#include <algorithm>
#include <map>
#include <span>

#include "topology/cycle.h"

namespace mtl::topology {

using network::Route;

namespace {

/// The network with indices for names: a column for each destination.
class Indexed {
 public:
  explicit Indexed(const Network& network) : network_(network) {
    for (const NodeRoutes& node : network.nodes) {
      if (index_.emplace(node.node, nodes_.size()).second) nodes_.push_back(node.node);
      for (const Route& route : node.routes) column_.emplace(route.dst, 0);
    }
    for (auto& [dst, column] : column_) {
      column = destinations_.size();
      destinations_.push_back(dst);
    }
    cable();
    tables_ = Forwarding(links_, destinations_.size());
    for (const NodeRoutes& node : network.nodes) fill(node);
  }

  const Forwarding& tables() const { return tables_; }
  Channel channel(std::size_t c) const {
    const auto& [from, to] = ends_[c / kLayers];
    return {from, to, static_cast<std::uint8_t>(c % kLayers)};
  }
  NodeId destination(std::size_t column) const { return destinations_[column]; }

 private:
  void cable();
  void fill(const NodeRoutes& node);

  const Network& network_;
  std::map<NodeId, std::size_t> index_;
  std::vector<NodeId> nodes_;
  std::map<NodeId, std::size_t> column_;
  std::vector<NodeId> destinations_;
  std::vector<std::vector<Forwarding::Far>> links_;
  std::map<End, std::uint16_t> out_;       ///< index among its node's links
  std::vector<std::pair<End, End>> ends_;  ///< by number of the link
  Forwarding tables_;
};

void Indexed::cable() {
  links_.resize(nodes_.size());
  std::vector<std::vector<std::pair<End, End>>> ends(nodes_.size());
  for (const Wire& wire : network_.wires) {
    for (const auto& [from, to] : {std::pair(wire.a, wire.b), std::pair(wire.b, wire.a)}) {
      // A node of which nothing is known forwards nothing: its links end nowhere.
      if (!index_.contains(to.node) || !index_.contains(from.node)) continue;
      auto& own = links_[index_[from.node]];
      if (!out_.emplace(from, static_cast<std::uint16_t>(own.size())).second) continue;
      own.push_back({static_cast<std::uint32_t>(index_[to.node]), Forwarding::kNoBack});
      ends[index_[from.node]].emplace_back(from, to);
    }
  }
  for (const auto& own : ends) ends_.insert(ends_.end(), own.begin(), own.end());
}

void Indexed::fill(const NodeRoutes& node) {
  for (const Route& route : node.routes) {
    if (route.dst == node.node) continue;
    Forwarding::Hops hops;
    for (std::size_t t = 0; t < route.tiers.size(); ++t) {
      for (const auto& hop : route.tiers[t]) {
        const auto out = out_.find({node.node, hop.port});
        if (out == out_.end()) continue;
        hops.push_back({out->second, hop.raise, static_cast<std::uint8_t>(t)});
      }
    }
    tables_.set(index_[node.node], column_[route.dst], tables_.intern(hops));
  }
}

std::string text(const End& end) {
  return "node " + std::to_string(end.node.value()) + " port " + std::to_string(end.port.value());
}

/// At most so many destinations are written out; a tree of endpoints behind a node gives thousands.
constexpr std::size_t kMaxShown = 8;

std::string text(std::span<const NodeId> nodes) {
  std::string out;
  for (std::size_t i = 0; i < nodes.size() && i < kMaxShown; ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(nodes[i].value());
  }
  if (nodes.size() > kMaxShown) out += " and " + std::to_string(nodes.size() - kMaxShown) + " more";
  return out;
}

}  // namespace

std::optional<std::vector<CycleStep>> find_deadlock(const Network& network) {
  const Indexed indexed(network);
  const auto cycle = find_cycle(indexed.tables());
  if (!cycle) return std::nullopt;
  std::vector<CycleStep> out;
  for (std::size_t i = 0; i < cycle->channels.size(); ++i) {
    CycleStep& step = out.emplace_back(CycleStep{indexed.channel(cycle->channels[i]), {}});
    for (const std::size_t column : cycle->columns[i]) {
      step.destinations.push_back(indexed.destination(column));
    }
  }
  return out;
}

std::string describe(const std::vector<CycleStep>& cycle) {
  std::string out;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Channel& c = cycle[i].channel;
    out += text(c.from) + " -> " + text(c.to) + ", layer " + std::to_string(c.layer) +
           ": packets for " + text(cycle[i].destinations) + " wait for" +
           (i + 1 == cycle.size() ? " the first\n" : "\n");
  }
  return out;
}

}  // namespace mtl::topology
