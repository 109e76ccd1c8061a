#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "topology/routes.h"

namespace mtl::topology {

/// A packet of one column at a router, with its layer: state = router x 4 + layer.
using State = std::uint32_t;

/// Follows packets of one column from state to state, with at most one link dead.
class Walk {
 public:
  static constexpr std::uint32_t kNoLink = ~std::uint32_t{0};

  explicit Walk(const Routes& routes) : routes_(routes) {
    const std::size_t states = routes.core().size() * kLayers;
    mark_.assign(states, Mark::kNew);
    longest_.assign(states, 0);
  }

  /// `all`: a packet takes any hop of any tier, as if others were dead; else those of the first
  /// tier with one that is usable.
  void begin(std::size_t column, std::uint32_t dead, bool all) {
    for (const State s : touched_) mark_[s] = Mark::kNew;
    touched_.clear();
    column_ = column;
    dead_ = dead;
    all_ = all;
  }
  /// Whether a packet surely comes from here to a root.
  bool arrives(State from) {
    visit(from);
    return mark_[from] == Mark::kGood;
  }
  /// Links of the longest way from here that is visited already.
  std::uint32_t longest(State from) const { return longest_[from]; }

 private:
  enum class Mark : std::uint8_t { kNew, kOpen, kGood, kBad };
  struct Frame {
    State state;
    std::size_t hop;
    std::uint8_t tier;  ///< the one used; 0xFF: none yet
  };

  bool dead(std::size_t router, const Forwarding::Hop& hop) const {
    if (dead_ == kNoLink) return false;
    const auto& core = routes_.core();
    return routes_.graph().outs(core.node[router])[core.outs[router][hop.out]].link == dead_;
  }
  void visit(State from);
  /// Where the next hop of the frame leads; kNoLink: there is none.
  State step(Frame& frame);

  const Routes& routes_;
  std::vector<Mark> mark_;
  std::vector<std::uint32_t> longest_;
  std::vector<State> touched_;
  std::vector<Frame> stack_;
  std::size_t column_ = 0;
  std::uint32_t dead_ = kNoLink;
  bool all_ = false;
};

}  // namespace mtl::topology
