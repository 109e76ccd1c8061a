#include "topology/cycle.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/ids.h"

namespace mtl::topology {

namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
constexpr std::uint8_t kAllTiers = 0xFF;

using Words = std::vector<std::uint64_t>;

/// What a list of tiers makes a packet of each layer wait for: bit out x 4 + layer.
class Leaving {
 public:
  explicit Leaving(const Forwarding& tables) : bits_(tables.lists()) {
    for (Forwarding::HopsId id = 0; id < tables.lists(); ++id) {
      for (std::size_t layer = 0; layer < kLayers; ++layer) add(tables.hops(id), layer, id);
    }
  }
  const Words& at(Forwarding::HopsId id, std::size_t layer) const { return bits_[id][layer]; }

 private:
  void add(const Forwarding::Hops& hops, std::size_t layer, Forwarding::HopsId id) {
    Words& words = bits_[id][layer];
    for (const Forwarding::Hop& hop : hops) {
      if (layer + hop.raise >= kLayers) continue;
      const std::size_t bit = hop.out * std::size_t{kLayers} + layer + hop.raise;
      if (bit / 64 >= words.size()) words.resize(bit / 64 + 1);
      words[bit / 64] |= std::uint64_t{1} << (bit % 64);
    }
  }
  std::vector<std::array<Words, kLayers>> bits_;
};

/// Calls on(node, link's number, far node, layer after the hop) for each way that a packet of the
/// column, wherever `layers` says it may be, goes on.
template <class On>
void each_move(const Forwarding& tables, const Layers& layers, std::size_t column, const On& on) {
  for (std::size_t node = 0; node < tables.nodes(); ++node) {
    const unsigned at = layers.at(node);
    if (at == 0) continue;
    const auto links = tables.links(node);
    const Forwarding::Hop* last = nullptr;
    for (const Forwarding::Hop& hop : tables.hops(node, column)) {
      if (last != nullptr && *last == hop) continue;  // its weight
      last = &hop;
      for (std::size_t layer = hop.raise; layer < kLayers; ++layer) {
        if ((at >> (layer - hop.raise) & 1U) == 0) continue;
        on(tables.first_link(node) + hop.out, links[hop.out].node, layer);
      }
    }
  }
}

/// The channel dependency graph: a row of bits for each channel.
class Dependencies {
 public:
  explicit Dependencies(const Forwarding& tables);
  std::size_t channels() const { return first_word_.size() - 1; }
  /// The first channel from the `from`-th bit of c's row on that c waits for; kNowhere if none.
  /// `from` is set behind it.
  std::size_t next(std::size_t c, std::size_t& from) const;
  /// The bit of `to` in the row of `c`, which waits for it.
  std::size_t bit(std::size_t c, std::size_t to) const { return to - base(c); }

 private:
  std::size_t base(std::size_t c) const { return tables_.first_link(far_[c / kLayers]) * kLayers; }
  const Forwarding& tables_;
  std::vector<std::uint32_t> far_;  ///< by link
  std::vector<std::size_t> first_word_;
  Words words_;
};

Dependencies::Dependencies(const Forwarding& tables) : tables_(tables) {
  first_word_.push_back(0);
  for (std::size_t node = 0; node < tables.nodes(); ++node) {
    for (const Forwarding::Far& far : tables.links(node)) {
      far_.push_back(far.node);
      const std::size_t words = (tables.links(far.node).size() * kLayers + 63) / 64;
      for (std::size_t layer = 0; layer < kLayers; ++layer) {
        first_word_.push_back(first_word_.back() + words);
      }
    }
  }
  words_.assign(first_word_.back(), 0);
  const Leaving leaving(tables);
  Layers layers(tables);
  for (std::size_t column = 0; column < tables.columns(); ++column) {
    layers.follow(column, kAllTiers);
    each_move(tables, layers, column, [&](std::size_t link, std::uint32_t far, std::size_t layer) {
      const Words& leave = leaving.at(tables.at(far, column), layer);
      std::uint64_t* row = words_.data() + first_word_[link * kLayers + layer];
      for (std::size_t w = 0; w < leave.size(); ++w) row[w] |= leave[w];
    });
  }
}

std::size_t Dependencies::next(std::size_t c, std::size_t& from) const {
  const std::size_t first = first_word_[c];
  const std::size_t words = first_word_[c + 1] - first;
  for (std::size_t w = from / 64; w < words; ++w) {
    std::uint64_t word = words_[first + w];
    if (w == from / 64) word &= ~std::uint64_t{0} << (from % 64);
    if (word == 0) continue;
    const std::size_t bit = w * 64 + static_cast<std::size_t>(std::countr_zero(word));
    from = bit + 1;
    return base(c) + bit;
  }
  return kNowhere;
}

/// A channel that lies on a cycle, or kNowhere: depth first, without recursion, since chains may be
/// long.
std::size_t on_cycle(const Dependencies& graph) {
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
      const std::size_t next = graph.next(stack.back().channel, stack.back().child);
      if (next == kNowhere) {
        marks[stack.back().channel] = Mark::kDone;
        stack.pop_back();
        continue;
      }
      if (marks[next] == Mark::kOpen) return next;
      if (marks[next] == Mark::kDone) continue;
      marks[next] = Mark::kOpen;
      stack.push_back({next, 0});
    }
  }
  return kNowhere;
}

/// The shortest way from `start` back to itself: breadth first.
std::vector<std::size_t> shortest_cycle(const Dependencies& graph, std::size_t start) {
  std::vector<std::size_t> before(graph.channels(), kNowhere);
  std::vector<std::size_t> queue{start};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    std::size_t from = 0;
    for (std::size_t next; (next = graph.next(queue[i], from)) != kNowhere;) {
      if (next == start) {
        std::vector<std::size_t> cycle;
        for (std::size_t c = queue[i]; c != start; c = before[c]) cycle.push_back(c);
        cycle.push_back(start);
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
      }
      if (before[next] != kNowhere) continue;
      before[next] = queue[i];
      queue.push_back(next);
    }
  }
  return {};
}

/// Which columns make each dependency of the cycle.
void name_columns(const Forwarding& tables, const Dependencies& graph, Cycle& cycle) {
  const Leaving leaving(tables);
  Layers layers(tables);
  cycle.columns.resize(cycle.channels.size());
  for (std::size_t column = 0; column < tables.columns(); ++column) {
    layers.follow(column, kAllTiers);
    each_move(tables, layers, column, [&](std::size_t link, std::uint32_t far, std::size_t layer) {
      for (std::size_t i = 0; i < cycle.channels.size(); ++i) {
        if (cycle.channels[i] != link * kLayers + layer) continue;
        const std::size_t to = cycle.channels[(i + 1) % cycle.channels.size()];
        const Words& leave = leaving.at(tables.at(far, column), layer);
        const std::size_t bit = graph.bit(cycle.channels[i], to);
        if (bit / 64 >= leave.size() || (leave[bit / 64] >> (bit % 64) & 1U) == 0) continue;
        auto& columns = cycle.columns[i];
        if (columns.empty() || columns.back() != column) columns.push_back(column);
      }
    });
  }
}

}  // namespace

std::optional<Cycle> find_cycle(const Forwarding& tables) {
  const Dependencies graph(tables);
  const std::size_t start = on_cycle(graph);
  if (start == kNowhere) return std::nullopt;
  Cycle cycle{shortest_cycle(graph, start), {}};
  name_columns(tables, graph, cycle);
  return cycle;
}

}  // namespace mtl::topology
