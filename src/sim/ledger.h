#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "base/drop.h"
#include "base/ids.h"
#include "network/packet.h"
#include "sim/violation.h"
#include "sim/wire.h"

namespace mtl::sim {

using PacketNumber = std::uint32_t;

/// The partition that every edge port carries; another is alien (N5).
inline constexpr Partition kGoodPartition{7};

/// When packets of a flow must be delivered in order.
enum class Order : std::uint8_t {
  kUnchangedPaths,  ///< while no link changes; of one length, since others may take other hops
  kAlways,          ///< whatever the links do: each hop has one neighbour to go to, parallel links
                    ///< are lanes of trunks
  kNever,           ///< hops are chosen by the shortest queue
};

/// What a packet is to be; its content follows from the run's seed and its number.
struct PacketPlan {
  std::uint32_t at = 0;      ///< index of the node that makes it
  network::Header header;    ///< proto 4, or 2 for an echo request
  std::uint32_t length = 0;  ///< bytes, kMinPacket and up
  bool bad_crc = false;      ///< sent with a wrong packet CRC
};

/// Every packet of a run and how it ended. It writes the packets, knows them again by their
/// content, and says what is wrong: altered, at the wrong node, out of order, a copy that no link's
/// death explains, vanished.
class Ledger {
 public:
  /// `dead(end, session)`: whether that session of that port has ended; asked when a copy turns up.
  Ledger(std::uint64_t seed, Violations& violations,
         std::function<bool(PortRef, std::uint32_t)> dead);

  /// kUnchangedPaths unless it is said, before the first packet.
  void expect(Order order) { order_ = order; }
  /// Packets that came in order behind one of their flow that was made before a link changed
  /// (Order::kAlways).
  std::uint64_t ordered_across_changes() const { return ordered_across_changes_; }

  /// Writes the next packet into `buffer` (fresh, with room). `epoch` numbers the periods in which
  /// no path changed.
  PacketNumber make(const PacketPlan& plan, Buffer& buffer, std::uint32_t epoch);
  /// The packet made last was refused by its node: it never was.
  void withdraw();

  /// Which packet these bytes are, the CRC and what changes on the way aside.
  std::optional<PacketNumber> identify(std::span<const std::byte> packet) const;

  /// A link sent the packet for the first time (in this session).
  void sent(PacketNumber number, PortRef from, std::uint32_t session);

  // Ends.
  void delivered(PacketNumber number, std::uint32_t node, std::span<const std::byte> packet,
                 std::uint32_t epoch);
  void dropped(PacketNumber number);
  void poisoned(PacketNumber number);
  /// Was inside a node that was destroyed; it may live on at the hop before.
  void lost(PacketNumber number);

  const PacketPlan& plan(PacketNumber number) const { return records_[number].plan; }
  std::uint32_t epoch(PacketNumber number) const { return records_[number].epoch; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(records_.size()); }
  /// Packets without an end so far.
  std::uint32_t open() const { return open_; }
  /// Ends beyond the first of each packet.
  std::uint64_t copies() const { return copies_; }
  /// Packets whose only end is a restart.
  std::uint64_t ended_in_restart() const;
  /// Nothing is anywhere any more: what has no end has vanished.
  void close();
  std::string describe(PacketNumber number) const;

  /// Room for tiny packets, too short to carry their number.
  bool tiny_left() const { return tiny_.size() < kMaxTiny; }

 private:
  static constexpr std::size_t kMaxTiny = 0x7FFF;
  static constexpr std::uint16_t kTinyEntropy = 0x8000;
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Record {
    PacketPlan plan;
    std::uint32_t epoch = 0;
    std::uint32_t hops = kNone;  ///< index of the last one
    std::uint16_t delivered = 0;
    std::uint16_t dropped = 0;
    std::uint16_t poisoned = 0;
    std::uint16_t lost = 0;
  };
  struct Hop {
    PortRef from;
    std::uint32_t session;
    std::uint32_t before;
  };
  struct Flow {
    PacketNumber last;
  };

  void write(PacketNumber number, std::span<std::byte> out) const;
  void end(PacketNumber number, std::uint16_t Record::*count);
  void check_order(PacketNumber number, std::uint32_t epoch);
  static bool has_number(const PacketPlan& plan);

  std::uint64_t seed_;
  Violations& violations_;
  std::function<bool(PortRef, std::uint32_t)> dead_;
  std::vector<Record> records_;
  std::vector<Hop> hops_;
  std::vector<PacketNumber> tiny_;
  std::unordered_map<std::uint64_t, Flow> flows_;  ///< looked up only: its order decides nothing
  std::vector<std::byte> expected_;
  std::uint32_t open_ = 0;
  std::uint64_t copies_ = 0;
  std::uint64_t ordered_across_changes_ = 0;
  Order order_ = Order::kUnchangedPaths;
};

}  // namespace mtl::sim
