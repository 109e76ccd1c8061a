#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "transport/key_table.h"
#include "transport/operation_layer.h"
#include "transport/transport.h"
#include "transport/work.h"

namespace mtl::transport {

/// What operations take. Everything that is allocated follows from it.
struct Limits {
  std::uint32_t operations = 4096;  ///< posted and not taken back, of all connections, 1 and up
  std::uint32_t keys = 1024;        ///< given at a time
  /// How long an operation that may wait (kMayWait) does at most before it leaves, if it can.
  Duration pack_delay = std::chrono::microseconds(2);
};

/// Operations on the memory of peers, and of peers on ours (protocol page, sections 5.4 and 5.6),
/// over the connections of a Transport. Sans I/O, like it. One thread.
///
///   post() --> queue of a connection --fill()--> packets --> peer --> RESULT, REPORT, ack
///                                                                        |
///   next_completion() <-- completed <------------------------------------'
///
/// Messages are not there yet: no peer may send one (OPEN tells none).
class Operations final : private OperationLayer {
 public:
  /// `settings` has no fault(); what it tells of messages is taken for 0.
  Operations(const Settings& settings, const Limits& limits, RandomWords& random);
  ~Operations();

  /// For endpoints, connections, packets and time.
  Transport& transport() { return transport_; }
  const Transport& transport() const { return transport_; }

  // Our memory.
  /// Gives `region` to peers under a key drawn at random (T37). Errors: KeyTable::give().
  Result<Key> give(const Region& region);
  /// Under a key that the owner chose. One that was withdrawn may be chosen again: the owner then
  /// knows that no peer still uses it.
  Result<void> give(Key key, const Region& region);
  /// T38: when it has returned nothing reads or writes the memory through `key`. Nothing if it is
  /// not given.
  void withdraw(Key key);

  // The memory of peers.
  /// Posts an operation on a connection that is OPENING or UP. Those of a connection execute in the
  /// order in which they were posted, unless kMayOvertake says otherwise.
  Posted post(ConnectionHandle connection, const Work& work, Time now);
  /// The next completion; false: none.
  bool next_completion(Completion& completion);
  /// Operations posted on the connection that are not complete.
  std::uint32_t incomplete(ConnectionHandle connection) const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  static constexpr std::size_t kMaxFlushes = 16;  ///< that wait on a connection

  /// An operation of ours from its post until its completion is taken and its packets are passed.
  struct Record {
    Work work;
    ConnectionHandle connection;
    Peer peer{};
    std::uint32_t next = kNone;        ///< in its connection's queue; or in the free list
    std::uint32_t next_done = kNone;   ///< in the list of completions
    std::uint32_t next_asked = kNone;  ///< in its bucket of outstanding READs
    std::uint64_t number = 0;          ///< among the connection's operations
    std::uint64_t packed = 0;          ///< bytes put into packets
    std::uint64_t got = 0;             ///< bytes of answer
    std::uint32_t length = 0;          ///< bytes of the peer's memory
    std::uint32_t pieces = 0;          ///< in packets that are not passed
    std::uint32_t before = 0;          ///< flush: operations that it still waits for
    RequestId id{};
    bool all_packed = false;
    bool queued = false;  ///< in its connection's queue
    bool asked = false;   ///< outstanding (T29)
    bool done = false;
    bool taken = false;  ///< its completion, or there is none to take
    Status status = Status::kOk;
    EndReason ended = EndReason::kNone;
    Time posted{};
    Time done_at{};
    std::array<std::byte, kMaxInjected> copied;  ///< kInject; operands as on the wire

    bool answered_by_result() const {
      return work.kind == Work::Kind::kGet || work.kind == Work::Kind::kFetchAtomic;
    }
  };

  /// What we owe a peer for a READ or FETCH, until its last RESULT is in a packet (T29).
  struct Owed {
    RequestId id{};
    const std::byte* memory = nullptr;  ///< of a long READ; nullptr: `bytes`
    Registration registration = 0;
    std::uint32_t total = 0;
    std::uint32_t sent = 0;
    Status status = Status::kOk;  ///< else RESULT with FAIL
    std::array<std::byte, kMaxFetch> bytes;
  };

  /// The operations of one connection.
  struct Side {
    // Ours.
    std::uint32_t oldest = kNone;   ///< queue: of those with packets that are not passed,
    std::uint32_t to_pack = kNone;  ///< then of those that are not wholly packed
    std::uint32_t newest = kNone;
    std::uint64_t posted = 0;  ///< ever; numbers operations
    std::uint32_t incomplete = 0;
    std::uint32_t unpacked = 0;        ///< operations of which no byte is packed
    std::uint64_t unpacked_bytes = 0;  ///< about what they take in a packet
    Time leave_at = kNever;            ///< what may wait does so until then
    RequestId next_id{};
    std::uint32_t outstanding = 0;                     ///< READs and FETCHes (T29)
    std::vector<std::uint32_t> asked;                  ///< buckets by id
    std::array<std::uint32_t, kMaxFlushes> flushes{};  ///< records, the oldest first
    std::size_t flush_count = 0;
    // The peer's.
    std::vector<Owed> owed;  ///< ring of Settings::reads
    std::size_t owed_head = 0;
    std::size_t owed_count = 0;
    bool report_due = false;  ///< not in a packet yet
    Psn report_psn{};
    std::uint16_t report_size = 0;
    std::array<std::byte, 2 * kMaxOperations> report;
  };

  // OperationLayer
  void up(Connection& connection) override;
  void ended(Connection& connection, Time now) override;
  bool waits(const Connection& connection, Flow flow, Time now) const override;
  Time ready_at(const Connection& connection) const override;
  bool fill(Connection& connection, Flow flow, PacketSlot& slot, std::size_t room,
            Time now) override;
  Executed execute(Connection& connection, Flow flow, const DataBody& body, Time now) override;
  bool execute_early(Connection& connection, const DataBody& body, Time now) override;
  void acknowledged(Connection& connection, Flow flow, PacketSlot& slot, Time now) override;
  void passed(Connection& connection, Flow flow, PacketSlot& slot, Time now) override;
  void dropped(Connection& connection, Flow flow, PacketSlot& slot) override;

  // Requester (requester.cc).
  struct Packing;
  static Posted check(const Work& work);
  void queue(Side& side, std::uint32_t index, Time now);
  void post_flush(Side& side, std::uint32_t index, Time now);
  bool may_pack(const Connection& connection, const Side& side, const Record& record) const;
  bool waits_to_request(const Connection& connection, Time now) const;
  Status hopeless(const Connection& connection, const Record& record, std::size_t room) const;
  bool fill_requests(Connection& connection, PacketSlot& slot, std::size_t room, Time now);
  void skip(Side& side, Record& record, Status fault, Time now);
  bool pack(Side& side, Record& record, Packing& packing);
  void ask(Side& side, Record& record);
  void unask(Side& side, Record& record);
  Record* find_asked(Side& side, std::uint32_t id);
  Executed on_result(Side& side, const Operation& operation, Time now);
  Executed on_report(Connection& connection, Side& side, const Operation& operation, Time now);
  void pass(Side& side, const PacketSlot& slot, Time now);
  void complete(Side& side, Record& record, Time now);
  void finish_completed(Record& record, Time now);
  void release_if_over(Record& record);
  void fail_all(Side& side, EndReason reason, Time now);

  // Responder (responder.cc).
  Executed execute_requests(Connection& connection, const DataBody& body);
  Executed execute_responses(Connection& connection, const DataBody& body, Time now);
  Executed execute_one(const Connection& connection, Side& side, const Operation& operation,
                       Status& status);
  Status write(const Connection& connection, const Operation& operation);
  Status read(const Connection& connection, Side& side, const Operation& operation);
  Status atomic(const Connection& connection, Side& side, const Operation& operation);
  static Owed& owe(Side& side, std::uint32_t id);
  bool waits_to_respond(const Side& side) const;
  bool fill_responses(Side& side, PacketSlot& slot, std::size_t room);
  static void put_report(Side& side, PacketSlot& slot, OperationWriter& writer);
  static bool put_result(Side& side, PacketSlot& slot, OperationWriter& writer, std::size_t room);
  static void fail_result(PacketSlot& slot);

  Side& side(const Connection& connection) { return sides_[connection.index()]; }
  const Side& side(const Connection& connection) const { return sides_[connection.index()]; }

  const Limits limits_;
  RandomWords& random_;
  KeyTable keys_;
  std::vector<Record> records_;
  std::uint32_t free_ = kNone;
  std::uint32_t done_first_ = kNone;
  std::uint32_t done_last_ = kNone;
  std::vector<Side> sides_;  ///< by connection
  Transport transport_;
};

}  // namespace mtl::transport
