#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/event_log.h"
#include "sim/fabric.h"
#include "sim/ledger.h"
#include "sim/shape.h"
#include "sim/summary.h"
#include "sim/violation.h"

namespace mtl::sim {

/// Whether the books of a shard balance (network::ShardCounters).
bool books_balance(const network::ShardCounters& counters, std::uint64_t held);

/// What must hold of a fabric whatever happens to it, looked at from outside: by frames, packets
/// and what links and shards tell of themselves. Each check has a name, under which it is reported:
///
///   altered wrong_node bad_crc copy order vanished   each packet (Ledger)
///   drop            dropped under a name that does not fit it
///   books           of a shard, after each of its events
///   over_capacity   a receiver holds more cells than it has
///   counters        what a link counts against the frames that it was given and that it made
///   peer_fault      a link saw its peer break the protocol (over_credit, bad_ack, ...)
///   credit          lost or made: both ends of a link compared at a quiet time
///   leak            buffers that never came back
///   stall           after the faults ended nothing comes of what is left to do
///   events          more events than the run may take (ScenarioOptions::most_events)
///   deadlock        packets that wait for each other for ever: the cycle is named (deadlock.h)
class Checkers final : public FabricWatcher {
 public:
  Checkers(std::uint64_t seed, EventLog& log);

  /// To be called once, before the fabric starts.
  void watch(const Fabric& fabric, const FabricPlan& plan);

  Ledger& ledger() { return ledger_; }
  Violations& violations() { return violations_; }
  const Violations& violations() const { return violations_; }
  Summary& summary() { return summary_; }
  /// Numbers the periods in which no link changed and no route.
  std::uint32_t epoch() const { return epoch_; }
  void routes_changed() { ++epoch_; }

  /// Compares credits at both ends of every link whose both ends are usable; only when nothing is
  /// on its way and all has been told.
  void check_credits();
  /// At the end, when all is quiet.
  void check_end();

  // FabricWatcher
  void sent(PortRef from, std::uint32_t session, const link::FrameOut& frame) override;
  void delivered(std::uint32_t node, const Buffer& packet, bool answered) override;
  void dropped(std::uint32_t node, Drop reason, const Buffer& packet) override;
  void lost(std::uint32_t node, const Buffer& buffer) override;
  void poisoned(PortRef at, Seq seq) override;
  void link_changed(PortRef at) override;
  void settled(const ShardHost& shard) override;
  void retiring(const NodeHost& node) override;
  void retiring(const NodeHost& node, PortId port) override;
  void broken(std::string_view check, std::string text) override;

 private:
  /// What was seen of a port's frames.
  struct End {
    std::uint32_t session = 0;
    bool sent_data = false;
    std::array<std::uint16_t, kVcs> credit{};  ///< last told
    std::vector<PacketNumber> sent;            ///< by seq, of those that may be unacknowledged
  };

  End& end(PortRef at) { return ends_[at.node][at.port.value()]; }
  bool dead(PortRef from, std::uint32_t session) const;
  void note_data(PortRef from, std::uint32_t session, const link::FrameOut& frame);
  void note_credit(End& end, std::size_t vc, std::uint16_t credit);
  bool plausible(Drop reason, PacketNumber number, std::uint32_t node) const;
  void check_counters(const NodeHost& node, PortId port);
  void tally(const NodeHost& node);
  void tally(const NodeHost& node, PortId port);

  EventLog& log_;
  Violations violations_;
  Summary summary_;
  Ledger ledger_;
  const Fabric* fabric_ = nullptr;
  std::vector<std::vector<End>> ends_;
  std::uint32_t fits_ = 0;  ///< bytes that every port and VC can take
  std::uint32_t epoch_ = 0;
};

}  // namespace mtl::sim
