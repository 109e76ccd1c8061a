#include "network/trunk.h"

#include <algorithm>

namespace mtl::network {

const char* name(Spread spread) {
  return spread == Spread::kFlow ? "flow" : "shortest_queue";
}

void name_leaders(std::span<const TrunkConfig> trunks, std::vector<Route>& routes) {
  const auto name_leader = [&](NextHop& hop) {
    for (const TrunkConfig& trunk : trunks) {
      if (std::find(trunk.lanes.begin(), trunk.lanes.end(), hop.port) == trunk.lanes.end()) {
        continue;
      }
      hop.port = trunk.lanes.front();
      return;
    }
  };
  for (Route& route : routes) {
    for (Tier& tier : route.tiers) std::for_each(tier.begin(), tier.end(), name_leader);
  }
}

Trunk::Trunk(const TrunkConfig& config) : spread_(config.spread) {
  lanes_.reserve(config.lanes.size());
  for (const PortId port : config.lanes) lanes_.emplace_back().port = port;
}

void Trunk::set_lane(std::size_t lane, bool usable, const Longest& longest) {
  lanes_[lane].usable = usable;
  lanes_[lane].longest = longest;
  usable_count_ = 0;
  longest_ = {};
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (!lanes_[i].usable) continue;
    for (std::size_t v = 0; v < kVcs; ++v) {
      const std::uint32_t most = lanes_[i].longest[v];
      longest_[v] = usable_count_ == 0 ? most : std::min(longest_[v], most);
    }
    usable_[usable_count_++] = static_cast<std::uint8_t>(i);
  }
}

/// While all lanes are usable, each has as many buckets as the others; those of a lane that is not
/// are spread over the rest, and the others stay where they are.
std::size_t Trunk::by_hash(std::uint8_t bucket) const {
  const std::size_t home = bucket % lanes_.size();
  if (lanes_[home].usable) return home;
  return usable_[bucket / lanes_.size() % usable_count_];
}

std::size_t Trunk::by_queue(const LaneQueues& queues) {
  std::size_t best = 0;
  std::uint64_t least = ~std::uint64_t{0};
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const std::size_t lane = (turn_ + i) % lanes_.size();
    if (!lanes_[lane].usable) continue;
    const std::uint64_t bytes = queues.queued_bytes(lanes_[lane].port);
    if (bytes >= least) continue;
    least = bytes;
    best = lane;
  }
  turn_ = (best + 1) % lanes_.size();
  return best;
}

void Trunk::move(Bucket& bucket, std::size_t lane) {
  if (bucket.lane == lane) return;
  if (bucket.lane != kNoLane) {
    Lane& former = lanes_[bucket.lane];
    --former.flows;
    moves_.add();
    if (!former.usable) forced_moves_.add();
  }
  bucket.lane = static_cast<std::uint8_t>(lane);
  ++lanes_[lane].flows;
}

PortId Trunk::take(std::uint8_t index, const LaneQueues& queues) {
  Bucket& bucket = buckets_[index];
  const bool stays = bucket.under_way != 0 && lanes_[bucket.lane].usable;
  if (!stays) move(bucket, spread_ == Spread::kFlow ? by_hash(index) : by_queue(queues));
  ++bucket.under_way;
  Lane& lane = lanes_[bucket.lane];
  lane.packets.add();
  return lane.port;
}

}  // namespace mtl::network
