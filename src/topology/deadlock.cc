#include "topology/deadlock.h"

#include <algorithm>
#include <map>
#include <span>

namespace mtl::topology {

using network::Route;

namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// A hop of a route with what is at the wire's other end.
struct Move {
  std::size_t link = 0;  ///< index of the directed link
  std::size_t to = 0;    ///< index of the node there
  std::uint8_t raise = 0;
};

/// The network with indices for names. Channel c is link c / kLayers, layer c % kLayers.
class Graph {
 public:
  explicit Graph(const Network& network);

  std::size_t channels() const { return links_.size() * kLayers; }
  Channel channel(std::size_t c) const {
    const auto& [from, to] = links_[c / kLayers];
    return {from, to, static_cast<std::uint8_t>(c % kLayers)};
  }
  /// Channels that packets in channel c may wait for.
  const std::vector<std::size_t>& next(std::size_t c) const { return next_[c]; }
  /// Destinations of packets in `c` that may wait for `d`.
  std::vector<NodeId> destinations(std::size_t c, std::size_t d) const;

 private:
  /// Each dependency that packets for `dst` make is given to `on(from, to)`.
  template <class On>
  void follow(NodeId dst, const On& on) const;
  const std::vector<Move>& moves(std::size_t node, NodeId dst) const;

  std::vector<NodeId> nodes_;
  std::vector<std::map<NodeId, std::vector<Move>>> moves_;  ///< by node, destination
  std::vector<std::pair<End, End>> links_;                  ///< both directions of each wire
  std::vector<std::size_t> arrives_;                        ///< by link: node at its far end
  std::vector<NodeId> destinations_;
  std::vector<std::vector<std::size_t>> next_;
};

Graph::Graph(const Network& network) {
  std::map<NodeId, std::size_t> index;
  for (const NodeRoutes& node : network.nodes) {
    if (index.emplace(node.node, nodes_.size()).second) nodes_.push_back(node.node);
  }
  std::map<End, std::size_t> link_from;
  for (const Wire& wire : network.wires) {
    for (const auto& [from, to] : {std::pair(wire.a, wire.b), std::pair(wire.b, wire.a)}) {
      // A node of which nothing is known forwards nothing: its links end nowhere.
      if (!index.contains(to.node) || !link_from.emplace(from, links_.size()).second) continue;
      links_.emplace_back(from, to);
      arrives_.push_back(index[to.node]);
    }
  }
  moves_.resize(nodes_.size());
  for (const NodeRoutes& node : network.nodes) {
    for (const Route& route : node.routes) {
      destinations_.push_back(route.dst);
      auto& moves = moves_[index[node.node]][route.dst];
      for (const auto& tier : route.tiers) {
        for (const auto& hop : tier) {
          const auto link = link_from.find({node.node, hop.port});
          if (link == link_from.end()) continue;
          moves.push_back({link->second, arrives_[link->second], hop.raise});
        }
      }
    }
  }
  std::sort(destinations_.begin(), destinations_.end());
  destinations_.erase(std::unique(destinations_.begin(), destinations_.end()), destinations_.end());

  next_.resize(channels());
  for (const NodeId dst : destinations_) {
    follow(dst, [&](std::size_t from, std::size_t to) { next_[from].push_back(to); });
  }
  for (auto& next : next_) {
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
  }
}

const std::vector<Move>& Graph::moves(std::size_t node, NodeId dst) const {
  static const std::vector<Move> none;
  if (nodes_[node] == dst) return none;
  const auto found = moves_[node].find(dst);
  return found == moves_[node].end() ? none : found->second;
}

template <class On>
void Graph::follow(NodeId dst, const On& on) const {
  std::vector<bool> reached(channels());
  std::vector<std::size_t> open;
  const auto enter = [&](std::size_t link, std::size_t layer) {
    const std::size_t c = link * kLayers + layer;
    if (!reached[c]) open.push_back(c);
    reached[c] = true;
    return c;
  };
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    for (const Move& move : moves(node, dst)) enter(move.link, move.raise);
  }
  while (!open.empty()) {
    const std::size_t c = open.back();
    open.pop_back();
    for (const Move& move : moves(arrives_[c / kLayers], dst)) {
      const std::size_t layer = c % kLayers + move.raise;
      if (layer < kLayers) on(c, enter(move.link, layer));
    }
  }
}

std::vector<NodeId> Graph::destinations(std::size_t c, std::size_t d) const {
  std::vector<NodeId> out;
  for (const NodeId dst : destinations_) {
    bool found = false;
    follow(dst, [&](std::size_t from, std::size_t to) { found |= from == c && to == d; });
    if (found) out.push_back(dst);
  }
  return out;
}

/// A channel that lies on a cycle, or kNone: depth first, without recursion, since chains may be
/// long.
std::size_t on_cycle(const Graph& graph) {
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(graph.channels(), Mark::kNew);
  struct Frame {
    std::size_t channel;
    std::size_t child;
  };
  std::vector<Frame> stack;
  for (std::size_t root = 0; root < graph.channels(); ++root) {
    if (marks[root] != Mark::kNew) continue;
    marks[root] = Mark::kOpen;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      auto& [channel, child] = stack.back();
      if (child == graph.next(channel).size()) {
        marks[channel] = Mark::kDone;
        stack.pop_back();
        continue;
      }
      const std::size_t next = graph.next(channel)[child++];
      if (marks[next] == Mark::kOpen) return next;
      if (marks[next] == Mark::kDone) continue;
      marks[next] = Mark::kOpen;
      stack.push_back({next, 0});
    }
  }
  return kNone;
}

/// The shortest way from `start` back to itself: breadth first.
std::vector<std::size_t> shortest_cycle(const Graph& graph, std::size_t start) {
  std::vector<std::size_t> before(graph.channels(), kNone);
  std::vector<std::size_t> queue{start};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const std::size_t next : graph.next(queue[i])) {
      if (next == start) {
        std::vector<std::size_t> cycle;
        for (std::size_t c = queue[i]; c != start; c = before[c]) cycle.push_back(c);
        cycle.push_back(start);
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
      }
      if (before[next] != kNone) continue;
      before[next] = queue[i];
      queue.push_back(next);
    }
  }
  return {};
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
  const Graph graph(network);
  const std::size_t start = on_cycle(graph);
  if (start == kNone) return std::nullopt;
  const auto cycle = shortest_cycle(graph, start);
  std::vector<CycleStep> out;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const std::size_t next = cycle[(i + 1) % cycle.size()];
    out.push_back({graph.channel(cycle[i]), graph.destinations(cycle[i], next)});
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
