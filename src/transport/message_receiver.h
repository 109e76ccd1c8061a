#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/coverage.h"
#include "transport/eager_room.h"
#include "transport/matching.h"
#include "transport/message.h"
#include "transport/message_records.h"
#include "transport/operation_layer.h"
#include "transport/operation_limits.h"

namespace mtl::transport {

/// The messages that peers send to us, of all connections (T31 to T36): their records, how they
/// meet receives, and the WANT, DONE and CREDIT that are due. All memory is allocated by the
/// constructor. One thread. Nothing that a peer sends is trusted: what goes beyond what it was told
/// or asked for is Executed::kBroken, what else does not fit is ignored (T16).
///
///   SEND --> meets a receive ----------------------------------> data to its place --> received
///        \-> waits: its data in EagerRoom, or held, or offered --'   (WANT, SEND_DATA)
class MessageReceiver {
 public:
  /// `transport`, which is only referred to here, is told of connections that have something to
  /// send.
  MessageReceiver(const Settings& settings, const Limits& limits, const CoverageMarks& marks,
                  Transport& transport);

  // The owner's calls, as Operations has them.
  bool use_pool(EndpointId endpoint, ReceivePool pool);
  ReceivePosted post(ReceivePool pool, const Receive& receive, Time now);
  bool cancel(ReceivePool pool, std::uint64_t context);
  bool peek(ReceivePool pool, const Receive& receive, Received& message) const;
  bool next(Received& received, Time now);

  // Connections.
  /// One begins. Returns how many messages its OPEN tells.
  std::uint32_t begin(const Connection& connection);
  void ended(const Connection& connection, Time now);

  // What a peer's DATA holds, in its turn.
  Executed on_send(const Connection& connection, const Operation& operation, Status& status,
                   Time now);
  Executed on_data(const Connection& connection, const Operation& operation, Time now);
  void on_cancel(const Connection& connection, const Operation& operation);
  /// Whether the peer may send a message now (T33).
  bool may_come(const Connection& connection) const {
    return records_.may_take(connection.index());
  }
  /// A WRITE with IMM was executed, with `status`.
  void on_imm(const Connection& connection, const Operation& operation, Status status, Time now);

  // T15: SEND_DATA with WANTED before its turn.
  /// Whether it may execute now, after those of the same DATA that were looked at before it.
  bool look_at_early(const Connection& connection, const Operation& operation);
  /// What was looked at counts no more.
  void forget_early(const Connection& connection, const Operation& operation);

  // What we owe to the peer.
  bool owes(std::uint32_t connection) const {
    return sides_[connection].due_first != kNone || records_.credit_due(connection);
  }
  /// Takes the next WANT, DONE or CREDIT that is due, if it has at most `room` bytes; false: none.
  bool take_answer(std::uint32_t connection, std::size_t room, Operation& operation, Time now);

  const MessageRecords& records() const { return records_; }
  const EagerRoom& room() const { return room_; }

 private:
  static constexpr std::uint32_t kNone = Message::kNone;
  /// In the list of what is over: a message (the imm of a WRITE), not a receive.
  static constexpr std::uint32_t kIsMessage = 0x80000000;

  struct Side {
    ConnectionHandle handle;
    std::uint32_t due_first = kNone;  ///< messages whose answer is due
    std::uint32_t due_last = kNone;
    ReceivePool pool = 0;
    bool begun = false;
  };
  struct EndpointPool {
    EndpointId endpoint;
    ReceivePool pool = 0;
  };

  static Received describe(const Message& message);
  Message& start(const Connection& connection, std::uint32_t index, const Operation& operation);
  void join(std::uint32_t message, std::uint32_t receive, Time now);
  void store(Message& message, std::span<const std::byte> data, std::uint32_t at);
  void finish(std::uint32_t message, Time now);
  void answer(std::uint32_t message);
  void receive_over(std::uint32_t receive);
  void over(std::uint32_t item);
  void release(std::uint32_t message, Time now);
  void lend(Time now);
  void wake(std::uint32_t connection, Time now);
  void end_message(std::uint32_t message, EndReason reason, Time now);

  Transport& transport_;
  const std::uint32_t eager_;  ///< Settings::eager
  const CoverageMarks marks_;
  MessageRecords records_;
  EagerRoom room_;
  Matching matching_;
  std::vector<Side> sides_;
  std::vector<EndpointPool> endpoint_pools_;
  std::uint32_t over_first_ = kNone;  ///< receives, and messages of WRITEs, for the owner
  std::uint32_t over_last_ = kNone;
};

}  // namespace mtl::transport
