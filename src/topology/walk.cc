#include "topology/walk.h"

#include <algorithm>

namespace mtl::topology {

State Walk::step(Frame& frame) {
  const std::size_t router = frame.state / kLayers;
  const auto& hops = routes_.tables().hops(router, column_);
  for (; frame.hop < hops.size(); ++frame.hop) {
    const Forwarding::Hop& hop = hops[frame.hop];
    if (!all_ && frame.tier != 0xFF && hop.tier != frame.tier) return kNoLink;
    const std::size_t layer = frame.state % kLayers + hop.raise;
    if (layer >= kLayers || dead(router, hop)) continue;
    frame.tier = hop.tier;
    ++frame.hop;
    return routes_.tables().links(router)[hop.out].node * kLayers + static_cast<State>(layer);
  }
  return kNoLink;
}

void Walk::visit(State from) {
  if (mark_[from] != Mark::kNew) return;
  const auto open = [&](State s) {
    mark_[s] = Mark::kOpen;
    longest_[s] = 0;
    touched_.push_back(s);
    stack_.push_back({s, 0, 0xFF});
  };
  open(from);
  while (!stack_.empty()) {
    Frame& frame = stack_.back();
    const State state = frame.state;
    const bool root = routes_.distance(state / kLayers, column_) == 0 &&
                      routes_.tables().at(state / kLayers, column_) == Forwarding::kNone;
    const State next = root ? kNoLink : step(frame);
    if (next == kNoLink) {
      // Without a hop it is dropped: no_route.
      if (mark_[state] == Mark::kOpen) {
        mark_[state] = root || frame.tier != 0xFF ? Mark::kGood : Mark::kBad;
      }
      stack_.pop_back();
      if (stack_.empty()) break;
      const State before = stack_.back().state;
      if (mark_[state] == Mark::kBad && !all_) mark_[before] = Mark::kBad;
      longest_[before] = std::max(longest_[before], longest_[state] + 1);
      continue;
    }
    if (mark_[next] == Mark::kNew) {
      open(next);
    } else if (mark_[next] == Mark::kGood || all_) {
      longest_[state] = std::max(longest_[state], longest_[next] + 1);
    } else {
      mark_[state] = Mark::kBad;  // it may end there, or go in a circle until its hop limit
    }
  }
}

}  // namespace mtl::topology
