#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/counter.h"

namespace mtl {

/// Where a frame or packet was dropped; a reason belongs to one layer.
enum class DropLayer : std::uint8_t { kPhy, kLink, kNetwork, kTransport };

/// Every reason for which something is dropped, in one list: it serves counters, logs, captures and
/// metrics. Link, network and transport names are the protocol page's; kPhy and `no_buffer` are
/// local.
enum class Drop : std::uint8_t {
  // PHY: of the device and of impairments, never of the protocol.
  kImpaired,     ///< dropped by a configured impairment
  kNoBuffer,     ///< no buffer for a frame that came in, or for a reply or error of the node's own
  kTooLong,      ///< longer than a buffer or than the device carries
  kBrokenRing,   ///< a local port whose peer wrote a record wrong or took its memory away
  kNotSent,      ///< the device did not send it and said so, or lost its carrier first
  kNotReceived,  ///< lost by the device or in its ring
  // Link, per port (L3, L5, L6, L11, L12, L16).
  kForeign,
  kMalformed,
  kBadHeaderCrc,
  kStale,
  kLooped,
  kIncompatible,
  kWrongPeer,
  kDuplicate,
  kOutOfWindow,
  kOverCredit,
  kBadPacketCrc,
  kPoisoned,
  kBadAck,
  // Network, per node (N1, N5, N6, N7, N13).
  kWrongClass,
  kSpoofed,
  kWrongPartition,
  kHopLimitExceeded,
  kNoRoute,
  kOwnQueueFull,
  // Transport, per node (T3, T5, T6, T12).
  kTransportMalformed,
  kNoConnection,
  kTransportWrongPeer,
  kNotUp,
  kTransportBadAck,
  kRejected,
  kTransportStale,
  kTransportDuplicate,
  kTransportOutOfWindow,
  kNoRoom,
  kCount,
};

struct DropInfo {
  DropLayer layer;
  std::string_view name;
};

inline constexpr std::array<DropInfo, static_cast<std::size_t>(Drop::kCount)> kDropInfo{{
    {DropLayer::kPhy, "impaired"},
    {DropLayer::kPhy, "no_buffer"},
    {DropLayer::kPhy, "too_long"},
    {DropLayer::kPhy, "broken_ring"},
    {DropLayer::kPhy, "not_sent"},
    {DropLayer::kPhy, "not_received"},
    {DropLayer::kLink, "foreign"},
    {DropLayer::kLink, "malformed"},
    {DropLayer::kLink, "bad_header_crc"},
    {DropLayer::kLink, "stale"},
    {DropLayer::kLink, "looped"},
    {DropLayer::kLink, "incompatible"},
    {DropLayer::kLink, "wrong_peer"},
    {DropLayer::kLink, "duplicate"},
    {DropLayer::kLink, "out_of_window"},
    {DropLayer::kLink, "over_credit"},
    {DropLayer::kLink, "bad_packet_crc"},
    {DropLayer::kLink, "poisoned"},
    {DropLayer::kLink, "bad_ack"},
    {DropLayer::kNetwork, "wrong_class"},
    {DropLayer::kNetwork, "spoofed"},
    {DropLayer::kNetwork, "wrong_partition"},
    {DropLayer::kNetwork, "hop_limit_exceeded"},
    {DropLayer::kNetwork, "no_route"},
    {DropLayer::kNetwork, "own_queue_full"},
    {DropLayer::kTransport, "malformed"},
    {DropLayer::kTransport, "no_connection"},
    {DropLayer::kTransport, "wrong_peer"},
    {DropLayer::kTransport, "not_up"},
    {DropLayer::kTransport, "bad_ack"},
    {DropLayer::kTransport, "rejected"},
    {DropLayer::kTransport, "stale"},
    {DropLayer::kTransport, "duplicate"},
    {DropLayer::kTransport, "out_of_window"},
    {DropLayer::kTransport, "no_room"},
}};

constexpr const DropInfo& info(Drop reason) {
  return kDropInfo[static_cast<std::size_t>(reason)];
}
constexpr std::string_view name(Drop reason) {
  return info(reason).name;
}

/// One counter for each reason; one writer.
class DropCounters {
 public:
  void add(Drop reason, std::uint64_t n = 1) { counters_[static_cast<std::size_t>(reason)].add(n); }
  std::uint64_t get(Drop reason) const { return counters_[static_cast<std::size_t>(reason)].get(); }

 private:
  std::array<Counter, static_cast<std::size_t>(Drop::kCount)> counters_;
};

}  // namespace mtl
