#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "transport/ids.h"
#include "transport/packet_slot.h"

namespace mtl::transport {

class Connection;

/// What became of the operations of a DATA.
enum class Executed : std::uint8_t {
  kAll,
  kReported,  ///< some failed or were held: E stays until the REPORT is acknowledged (T28)
  kBroken,    ///< the peer went beyond what it was told: the connection is to end (T16)
};

/// The body of a DATA that count_operations() let through.
struct DataBody {
  Psn psn{};
  bool unordered = false;
  std::size_t operations = 0;
  std::span<const std::byte> bytes;
};

/// What stands above the connections: it makes the operations that their packets carry, and
/// executes those that come. Called within the connection's calls; it may call back what is said
/// below.
class OperationLayer {
 public:
  /// A connection begins, OPENING. Returns how many messages its OPENs tell (T33).
  virtual std::uint32_t begun(const Connection& connection) = 0;
  /// What is left of connections that have ended, in all places, or in one of the table: it takes
  /// room from the connection that comes next there.
  virtual std::uint32_t left_over() const { return 0; }
  virtual std::uint32_t left_over(std::uint32_t) const { return 0; }
  /// The connection is UP; Connection::peer() tells its terms.
  virtual void up(Connection& connection) = 0;
  /// What has begun has ended, after the last of its packets was given to dropped(): what is not
  /// complete fails.
  virtual void ended(Connection& connection, Time now) = 0;

  /// Whether fill() would put something into a new DATA of `flow` at `now`.
  virtual bool waits(const Connection& connection, Flow flow, Time now) const = 0;
  /// When waits() becomes true by time alone; kNever.
  virtual Time ready_at(const Connection& connection) const = 0;
  /// Fills `slot` for a new DATA whose body has at most `room` bytes, a multiple of 4, 96 and up;
  /// false: there is nothing.
  virtual bool fill(Connection& connection, Flow flow, PacketSlot& slot, std::size_t room,
                    Time now) = 0;

  /// Executes a DATA in its turn (T14), a response on arrival.
  virtual Executed execute(Connection& connection, Flow flow, const DataBody& body, Time now) = 0;
  /// T15: executes a request before its turn if nothing of it would fail; else does nothing and
  /// says false.
  virtual bool execute_early(Connection& connection, const DataBody& body, Time now) = 0;

  /// A DATA of ours has been acknowledged, in turn or not (T13). If it holds the REPORT that the
  /// peer's requests wait for (T28), Connection::report_acknowledged() is to be called.
  virtual void acknowledged(Connection& connection, Flow flow, PacketSlot& slot, Time now) = 0;
  /// The ack has passed it (T27): the slot goes back to its pool.
  virtual void passed(Connection& connection, Flow flow, PacketSlot& slot, Time now) = 0;
  /// The connection ends; the slot, which the ack has not passed, goes back to its pool.
  virtual void dropped(Connection& connection, Flow flow, PacketSlot& slot) = 0;

 protected:
  ~OperationLayer() = default;
};

}  // namespace mtl::transport
