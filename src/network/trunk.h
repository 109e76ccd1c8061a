#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/counter.h"
#include "base/ids.h"
#include "network/route_table.h"

namespace mtl::network {

/// How a trunk spreads flows over its lanes.
enum class Spread : std::uint8_t {
  kFlow,           ///< by their hash: each has its lane
  kShortestQueue,  ///< a flow that has nothing under way goes on where the queue is shortest
};

/// Its name in the control API: flow, shortest_queue.
const char* name(Spread spread);

/// Parallel links to one neighbour that are one next hop (N7): routes name it by its leader, the
/// first lane, and never by another lane.
struct TrunkConfig {
  std::vector<PortId> lanes;  ///< 2 to Trunk::kMaxLanes ports of one shard, each in one trunk alone
  Spread spread = Spread::kFlow;
};

/// Puts the leader of a trunk in the place of every lane that `routes` name; what stands there
/// several times has that weight (N7).
void name_leaders(std::span<const TrunkConfig> trunks, std::vector<Route>& routes);

/// What a trunk asks of its lanes' links.
class LaneQueues {
 public:
  /// Bytes of packets queued on the link of a lane and not yet sent.
  virtual std::uint64_t queued_bytes(PortId lane) const = 0;

 protected:
  ~LaneQueues() = default;
};

/// Which lane of a trunk a packet takes. N8 has picked the trunk; a flow falls into one of kBuckets
/// by bits of the same hash that N8 uses last.
///
/// Order within a flow: a bucket changes its lane only while none of its packets is under way
/// there, neither queued nor unacknowledged, so that all of them have arrived before the next one
/// leaves by another link; or when its lane has become unusable, for then the link hands all of
/// them back in order (L9) and they are routed again (N9) before any newer packet, within one
/// event.
///
/// One thread: the shard that owns the lanes.
class alignas(64) Trunk {
 public:
  static constexpr std::size_t kMinLanes = 2;
  static constexpr std::size_t kMaxLanes = 16;
  static constexpr std::size_t kBuckets = 256;
  /// By VC: PortView::longest.
  using Longest = std::array<std::uint32_t, kVcs>;

  /// A lane as others may see it.
  struct Lane {
    PortId port;
    bool usable = false;
    Longest longest{};
    Counter packets;          ///< given to its link, those handed back and given again included
    std::uint32_t flows = 0;  ///< buckets whose last packet went here
  };

  explicit Trunk(const TrunkConfig& config);

  static constexpr std::uint8_t bucket_of(std::uint32_t path_hash) {
    return static_cast<std::uint8_t>(path_hash & (kBuckets - 1));
  }

  /// A lane's link has changed: whether it is usable (N7), and the longest packet it takes.
  void set_lane(std::size_t lane, bool usable, const Longest& longest);
  /// The longest packet that every usable lane takes, so that a flow may go on by any of them; 0
  /// while none is usable.
  const Longest& longest() const { return longest_; }
  std::size_t usable_lanes() const { return usable_count_; }

  /// The lane for the next packet of a bucket, which counts as under way there until gone(). At
  /// least one lane must be usable.
  PortId take(std::uint8_t bucket, const LaneQueues& queues);
  /// A packet of the bucket was acknowledged, or handed back.
  void gone(std::uint8_t bucket) { --buckets_[bucket].under_way; }

  PortId leader() const { return lanes_.front().port; }
  Spread spread() const { return spread_; }
  std::span<const Lane> lanes() const { return lanes_; }
  /// Times that a bucket went on by another lane than before; and of those, because its lane had
  /// become unusable.
  std::uint64_t moves() const { return moves_.get(); }
  std::uint64_t forced_moves() const { return forced_moves_.get(); }

 private:
  static constexpr std::uint8_t kNoLane = 0xFF;
  struct Bucket {
    std::uint32_t under_way = 0;
    std::uint8_t lane = kNoLane;
  };
  std::size_t by_hash(std::uint8_t bucket) const;
  std::size_t by_queue(const LaneQueues& queues);
  void move(Bucket& bucket, std::size_t lane);

  std::vector<Lane> lanes_;
  Spread spread_;
  std::array<std::uint8_t, kMaxLanes> usable_{};  ///< indices of the usable lanes, ascending
  std::size_t usable_count_ = 0;
  Longest longest_{};
  std::array<Bucket, kBuckets> buckets_{};
  std::size_t turn_ = 0;  ///< lane to look at first among equal queues
  Counter moves_;
  Counter forced_moves_;
};

}  // namespace mtl::network
