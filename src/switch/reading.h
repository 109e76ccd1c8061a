#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/drop.h"
#include "base/ids.h"
#include "base/time.h"
#include "link/link.h"
#include "network/node.h"
#include "phy/impairment.h"
#include "phy/pacer.h"
#include "phy/port.h"
#include "runtime/stages.h"

/// A node's state as its workers read it between two passes: plain numbers, taken in one go so that
/// the books balance, and made into messages by the control thread.
namespace mtl::switchd {

using DropReading = std::array<std::uint64_t, static_cast<std::size_t>(Drop::kCount)>;

DropReading read(const DropCounters& drops);

struct VcReading {
  std::uint32_t occupied = 0;
  std::uint32_t credit = 0;
  std::uint32_t queued_cells = 0;
  std::uint64_t marked = 0;
};

/// A port's medium. Counters run on when a port gets another medium.
struct MediumReading {
  std::uint64_t frames_in = 0;
  std::uint64_t frames_out = 0;
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  std::uint64_t send_full = 0;
  DropReading drops{};

  void add(const phy::PortCounters& counters);
  void add(const MediumReading& more);
};

/// A port's pacer.
struct PaceReading {
  phy::PacerConfig config;
  phy::PacerUse total;
  phy::PacerUse last;  ///< Pacer::last()
};

struct PortReading {
  PortId port;
  MediumReading medium;
  std::optional<phy::ImpairmentConfig> impairment;
  std::uint64_t impaired = 0;  ///< frames changed or dropped by impairments, former ones too
  std::uint64_t impaired_dropped = 0;  ///< of those, dropped
  std::optional<PaceReading> pace;

  link::Counters counters;
  bool enabled = false;
  bool carrier = false;
  link::State state = link::State::kDown;
  link::DownReason down_reason = link::DownReason::kNone;
  std::optional<link::Init> peer;
  std::optional<Mac> peer_mac;
  std::uint16_t link_mtu = 0;
  Duration round_trip{0};
  Duration replay_timeout{0};
  Duration nack_interval{0};
  std::uint32_t unacknowledged = 0;
  std::uint32_t queued = 0;
  std::uint32_t held = 0;
  std::array<VcReading, kVcs> vcs{};
  std::uint64_t memory = 0;
  std::optional<Time> last_up;
  std::optional<Time> last_down;
  Duration reroute{0};
};

/// Ports that the node has no more, as they were counted until they went.
struct RemovedReading {
  std::uint64_t ports = 0;
  std::uint64_t packets_in = 0;
  std::uint64_t packets_acked = 0;
  std::uint64_t packets_back = 0;
  MediumReading medium;
  DropReading link_drops{};

  void add(const link::Counters& link, const MediumReading& former);
};

struct LaneReading {
  PortId port;
  bool usable = false;
  std::uint32_t queued = 0;
  std::uint64_t packets = 0;
  std::uint32_t flows = 0;
};

struct TrunkReading {
  std::vector<LaneReading> lanes;  ///< the leader first
  bool here = false;               ///< its lanes are this shard's; else nothing else is told
  network::Spread spread = network::Spread::kFlow;
  std::uint64_t moves = 0;
  std::uint64_t forced_moves = 0;
};

struct ShardReading {
  ShardId shard;
  Time at{};
  std::vector<PortReading> ports;    ///< in the order of Shard::ports()
  std::vector<TrunkReading> trunks;  ///< in the order of Node::trunks()
  network::ShardCounters counters;
  std::uint64_t held = 0;
  RemovedReading removed;  ///< ports that this shard had last
  bool measuring = false;  ///< Worker::measure()
  runtime::StageCounters stages;
};

/// Takes in what a link says of itself.
void read(const link::Link& link, PortReading& out);
/// Takes in what a trunk says of itself if its lanes are `shard`'s; `out` has as many lanes.
void read(const network::Shard& shard, const network::Trunk& trunk, TrunkReading& out);

}  // namespace mtl::switchd
