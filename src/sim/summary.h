#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/drop.h"
#include "link/link.h"

namespace mtl::sim {

/// What happened in one run, or in many.
struct Summary {
  std::uint64_t runs = 0;
  std::uint64_t packets = 0;          ///< submitted and taken
  std::uint64_t delivered = 0;        ///< copies included
  std::uint64_t copies = 0;           ///< ends beyond the first, explained by a link's death (L9)
  std::uint64_t refused = 0;          ///< submits refused (N13)
  std::uint64_t lost_in_restart = 0;  ///< packets that ended inside a node that was restarted
  std::uint64_t poisoned = 0;         ///< packets that a receiver gave up (L12)
  std::uint64_t bad_at_source = 0;    ///< packets that their source sent with a wrong CRC
  std::uint64_t frames = 0;           ///< made by links
  std::uint64_t frame_hops = 0;       ///< given to links
  std::uint64_t late_frames = 0;      ///< arrived after a cut and its restoration
  std::uint64_t too_late = 0;  ///< lost because they would have been later than FrameAge allows
  std::uint64_t events = 0;
  std::uint64_t node_restarts = 0;
  std::uint64_t cuts = 0;  ///< with notice
  std::uint64_t silent_cuts = 0;
  std::uint64_t seq_wraps = 0;
  std::uint64_t credit_wraps = 0;
  std::uint64_t ups = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(link::DownReason::kCount)> downs{};
  std::array<std::uint64_t, static_cast<std::size_t>(Drop::kCount)> drops{};
  std::uint64_t replays = 0;
  std::uint64_t replay_timeouts = 0;
  std::uint64_t polls = 0;
  std::uint64_t credit_stalls = 0;
  std::uint64_t held_discarded = 0;
  std::uint64_t nacks = 0;
  std::uint64_t handed_back = 0;
  std::uint64_t rerouted = 0;
  std::uint64_t forwarded = 0;
  std::uint64_t between_shards = 0;
  std::uint64_t moves = 0;                  ///< of ports between the shards of a node
  std::uint64_t replaced = 0;               ///< ports that were removed, and added anew
  std::uint64_t moves_beside_replaced = 0;  ///< moves begun while a port was being replaced, or the
                                            ///< other way round
  std::uint64_t marked = 0;
  std::uint64_t lane_moves = 0;        ///< flows that went on by another lane of a trunk
  std::uint64_t lane_forced = 0;       ///< of them, because theirs was lost
  std::uint64_t lane_handed_back = 0;  ///< packets that lost lanes handed back
  std::uint64_t ordered_across = 0;    ///< packets in order behind one made before a link changed
  std::uint64_t by_queue = 0;          ///< nodes that choose hops by the shortest queue
  std::uint64_t replies = 0;
  std::uint64_t errors = 0;
  std::uint64_t quiet_checks =
      0;  ///< links whose credits were compared at both ends, occupied or not
  std::uint64_t quiet_occupied = 0;  ///< of these, VCs with packets that stayed in the buffer
  std::int64_t virtual_ns = 0;

  std::uint64_t& drop(Drop reason) { return drops[static_cast<std::size_t>(reason)]; }
  std::uint64_t drop(Drop reason) const { return drops[static_cast<std::size_t>(reason)]; }
  std::uint64_t down(link::DownReason reason) const {
    return downs[static_cast<std::size_t>(reason)];
  }

  Summary& operator+=(const Summary& other);
  /// Every count with its name, for printing.
  std::vector<std::pair<std::string, std::uint64_t>> list() const;
  /// The kinds of event that a sample must have seen: those that never happened.
  std::vector<std::string> missing_kinds(bool fabrics) const;
};

}  // namespace mtl::sim
