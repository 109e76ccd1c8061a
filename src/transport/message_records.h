#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/bounded_queue.h"
#include "transport/connection.h"
#include "transport/ids.h"
#include "transport/operation.h"
#include "transport/transport.h"

namespace mtl::transport {

/// A message of a peer from its SEND, or WRITE with IMM, until it is received (T33).
struct Message {
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  enum class Kind : std::uint8_t {
    kFree,
    kEager,     ///< its data comes by itself (T32)
    kHeld,      ///< its data was dropped: it is to be asked for (T34)
    kOffered,   ///< likewise; none was sent
    kWriteImm,  ///< a WRITE with IMM
  };
  Kind kind = Kind::kFree;
  bool tagged = false;
  bool has_imm = false;
  bool complete = false;  ///< COMPLETE: the peer waits for DONE
  bool waits = false;     ///< has met no receive
  bool want_due = false;
  bool done_due = false;
  bool outlives = false;  ///< its connection, having been whole before that ended
  Status done_status = Status::kOk;
  MessageId id{};
  std::uint64_t tag = 0;
  std::uint64_t imm = 0;
  std::uint32_t total = 0;
  std::uint32_t got = 0;            ///< bytes that were executed
  std::uint32_t wanted = 0;         ///< as WANT tells
  std::uint64_t covered = 0;        ///< of those wanted that came, CoverageMarks
  std::uint32_t early = 0;          ///< bytes of the packet that is looked at (T15)
  std::uint64_t early_covered = 0;  ///< likewise
  std::uint32_t receive = kNone;
  ConnectionHandle connection;
  Peer peer{};
  EndpointId endpoint{};
  std::uint32_t pool = 0;
  std::uint32_t first_block = kNone;  ///< EagerRoom's
  std::uint32_t last_block = kNone;   ///< that is written to
  std::uint32_t blocks = 0;

  std::uint32_t next_by_id = kNone;  ///< or in the free list
  std::uint32_t before = kNone;      ///< among those that wait for a receive
  std::uint32_t after = kNone;
  std::uint32_t next = kNone;  ///< among those whose answer is due, or those for the owner
};

/// The records for messages that peers may send, and the credit that follows from them (T33).
/// Allocated by the constructor. One thread.
///
/// Each connection has a share of records of its own, so that no peer can take those of another.
/// If there are not enough to give each of them `messages`, half are kept back and lent, a share at
/// a time, to those that have used up theirs, in turn.
class MessageRecords {
 public:
  static constexpr std::uint32_t kNone = Message::kNone;

  MessageRecords(std::uint32_t records, std::uint32_t connections, std::uint32_t messages);

  std::uint32_t share() const { return share_; }

  /// A connection begins at message `first`, which is 0 (T31) but in tests. Returns how many
  /// messages its OPEN is to tell.
  std::uint32_t begin(std::uint32_t connection, MessageId first = MessageId{});
  /// It has ended, and has no messages but such as outlive it.
  void end(std::uint32_t connection);

  /// The next message of the connection, with its id; kNone: it is beyond the limit told (T16).
  std::uint32_t take(std::uint32_t connection);
  /// Whether take() would give one.
  bool may_take(std::uint32_t connection) const {
    return sides_[connection].told != sides_[connection].next;
  }
  /// The message is received, or is none any more.
  void give(std::uint32_t index);
  /// One of the connection's messages that does not outlive an earlier one, kNone.
  std::uint32_t find(std::uint32_t connection, std::uint32_t id) const;
  /// It has outlived its connection: find() finds it no more.
  void detach(std::uint32_t index);
  /// Gives all of the connection's messages, but what outlives an earlier one, to `each`, which is
  /// to detach() or give() it.
  template <class Each>
  void drain(std::uint32_t connection, Each each) {
    for (const std::uint32_t& head : sides_[connection].by_id) {
      while (head != kNone) each(head);
    }
  }
  Message& operator[](std::uint32_t index) { return messages_[index]; }
  const Message& operator[](std::uint32_t index) const { return messages_[index]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(messages_.size()); }
  std::uint32_t used(std::uint32_t connection) const { return sides_[connection].used; }
  /// Messages that have outlived their connections.
  std::uint32_t outliving() const { return outliving_; }

  /// T33: whether CREDIT is due, and the limit that it tells.
  bool credit_due(std::uint32_t connection) const;
  MessageId tell(std::uint32_t connection);
  /// Lends records that are there to be lent to the next connection that waits for some, whose
  /// credit has moved by that; nullopt: nobody waits, or there are none.
  std::optional<std::uint32_t> lend();

 private:
  struct Side {
    MessageId next{};          ///< number of the next message
    MessageId told{};          ///< the limit that the peer knows
    std::uint32_t opened = 0;  ///< messages that OPEN told
    std::uint32_t used = 0;    ///< records in use
    std::uint32_t lent = 0;    ///< beyond its share
    bool begun = false;
    bool queued = false;               ///< in wanting_
    std::vector<std::uint32_t> by_id;  ///< heads of chains
  };

  /// The limit as far as there are records.
  MessageId granted(const Side& side) const { return side.next + (share_ + side.lent - side.used); }
  std::uint32_t& bucket(Side& side, std::uint32_t id) {
    return side.by_id[id & (side.by_id.size() - 1)];
  }
  void want_more(std::uint32_t connection);
  void unlink(std::uint32_t index);

  const std::uint32_t messages_told_;  ///< Settings::messages
  const std::uint32_t share_;
  std::uint32_t spare_;  ///< not lent
  std::uint32_t outliving_ = 0;
  std::vector<Message> messages_;
  std::uint32_t free_ = kNone;
  std::vector<Side> sides_;
  BoundedQueue<std::uint32_t> wanting_;
};

}  // namespace mtl::transport
