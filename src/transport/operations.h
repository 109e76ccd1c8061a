#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "transport/coverage.h"
#include "transport/key_table.h"
#include "transport/message.h"
#include "transport/message_receiver.h"
#include "transport/operation_layer.h"
#include "transport/operation_limits.h"
#include "transport/transport.h"
#include "transport/work.h"

namespace mtl::transport {

/// Operations on the memory of peers, and of peers on ours, and messages both ways (protocol page,
/// sections 5.4 to 5.6), over the connections of a Transport. Sans I/O, like it. One thread.
///
///   post() --> queue of a connection --fill()--> packets --> peer --> RESULT, REPORT, ack
///                                                                        |
///   next_completion() <-- completed <------------------------------------'
///
///   post_receive() --> pool --- meets the messages of peers ---> next_received()
class Operations final : private OperationLayer {
 public:
  /// Neither `settings` nor `limits` has a fault().
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
  /// order in which they were posted, unless kMayOvertake or let_overtake() say otherwise.
  Posted post(ConnectionHandle connection, const Work& work, Time now);
  /// Whether what is posted on the connection from here on may go before messages that wait for
  /// credit (T33); messages keep their order, and what has kFence waits. Not so at first: a queue
  /// pair never lets a later operation overtake a send.
  void let_overtake(ConnectionHandle connection, bool may);
  /// Takes back the oldest send with this context that is not complete. True: it was found; it
  /// completes with kCancelled if it had not left or had met no receive (T36), else as if nothing
  /// had been asked. One that is complete when it is executed (neither kConfirm, nor held or
  /// offered) is taken back only if it turns out to be held. Walks what is posted on the
  /// connection.
  bool cancel(ConnectionHandle connection, std::uint64_t context, Time now);
  /// The next completion; false: none.
  bool next_completion(Completion& completion);
  /// Operations posted on the connection that are not complete.
  std::uint32_t incomplete(ConnectionHandle connection) const;

  // The messages of peers (T31 to T36).
  /// Messages on connections of `endpoint` that begin from here on meet receives in `pool`, not in
  /// pool 0. False: there is no such pool, or the endpoint has one already. Allocates.
  bool use_pool(EndpointId endpoint, ReceivePool pool) {
    return receiver_.use_pool(endpoint, pool);
  }
  ReceivePosted post_receive(ReceivePool pool, const Receive& receive, Time now) {
    return receiver_.post(pool, receive, now);
  }
  /// Takes back the oldest receive with this context that has met no message: it ends kCancelled.
  /// False: there is none, so it is over, or will be when its message is complete.
  bool cancel_receive(ReceivePool pool, std::uint64_t context) {
    return receiver_.cancel(pool, context);
  }
  /// Describes the message that such a receive would meet if it were posted; false: none waits.
  bool peek(ReceivePool pool, const Receive& receive, Received& message) const {
    return receiver_.peek(pool, receive, message);
  }
  /// The next receive that is over, or imm; false: none. In the order in which they were.
  bool next_received(Received& received, Time now) { return receiver_.next(received, now); }
  const MessageReceiver& receiver() const { return receiver_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  /// PacketSlot::guard on request flows: it holds CANCELs, or data as WANT asked, not operations
  /// of the queue. Its owner is the first send, the others follow by next_wanted.
  static constexpr std::uint32_t kAside = 1;

  /// An operation of ours from its post until its completion is taken and its packets are passed.
  struct Record {
    Work work;
    ConnectionHandle connection;
    Peer peer{};
    std::uint32_t next = kNone;         ///< in its connection's queue; or in the free list
    std::uint32_t next_done = kNone;    ///< in the list of completions
    std::uint32_t next_by_id = kNone;   ///< in its bucket: outstanding READs, or open messages
    std::uint32_t next_wanted = kNone;  ///< of those with wanted data; then in its packet
    std::uint64_t number = 0;           ///< among the connection's operations
    std::uint64_t packed = 0;           ///< bytes put into packets
    std::uint64_t got = 0;              ///< bytes of answer
    std::uint64_t covered = 0;          ///< of the answer, CoverageMarks
    std::uint32_t length = 0;           ///< bytes of the peer's memory
    std::uint32_t pieces = 0;           ///< in packets that are not passed
    std::uint32_t before = 0;           ///< flush: operations between the last and it, not complete
    RequestId id{};
    MessageId message{};
    std::uint32_t wanted = 0;         ///< send: limit that WANT told
    std::uint32_t wanted_packed = 0;  ///< of it
    std::uint32_t wanted_pieces = 0;  ///< in packets that are not passed
    bool open = false;                ///< send: it has left, and is not complete
    bool on_demand = false;           ///< held or offered: its data goes as WANT says (T34)
    bool in_wanted = false;           ///< in the list of those with wanted data
    bool finished = false;            ///< DONE came, or it failed
    bool cancel_asked = false;
    bool cancel_due = false;  ///< a CANCEL is to leave
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
    bool tells(WorkFlag flag) const { return (work.flags & flag) != 0; }
    /// It has a number among the messages of the flow (T31).
    bool is_message() const {
      return work.kind == Work::Kind::kSend || (work.kind == Work::Kind::kPut && tells(kWithImm));
    }
    /// By what is posted later, while it waits for credit (let_overtake()).
    bool may_be_overtaken() const { return is_message() && !tells(kFence); }
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
    std::uint32_t outstanding = 0;      ///< READs and FETCHes (T29)
    std::vector<std::uint32_t> asked;   ///< buckets by id
    std::uint32_t flush_first = kNone;  ///< flushes that wait, the oldest first
    std::uint32_t flush_last = kNone;
    std::uint32_t since_flush = 0;  ///< operations behind them that are not complete
    // Our messages.
    std::uint32_t waiting_first = kNone;  ///< for credit, not in the queue (let_overtake())
    std::uint32_t waiting_last = kNone;
    std::uint32_t waiting_count = 0;
    std::uint32_t waiting_firm = 0;  ///< of them, those that nothing overtakes
    bool overtaking = false;
    std::uint32_t unnumbered = 0;        ///< messages in the queue that have no number yet
    MessageId next_message{};            ///< the next to leave
    MessageId message_limit{};           ///< of credit (T33)
    std::vector<std::uint32_t> open;     ///< buckets by number of sends that are not complete
    std::uint32_t wanted_first = kNone;  ///< sends whose data is to leave as WANT asked, in turn
    std::uint32_t wanted_last = kNone;
    std::uint32_t cancels = 0;  ///< due
    bool wanted_turn = false;   ///< before the queue

    std::uint32_t credit() const { return message_limit.since(next_message); }
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
  std::uint32_t begun(const Connection& connection) override;
  std::uint32_t left_over() const override { return receiver_.records().outliving(); }
  std::uint32_t left_over(std::uint32_t place) const override {
    return receiver_.records().used(place);
  }
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
  void prepare(Record& record);
  void queue(Side& side, std::uint32_t index, Time now);
  void unqueue(Side& side, std::uint32_t index);
  void post_flush(Side& side, std::uint32_t index, Time now);
  bool may_pack(const Connection& connection, const Side& side, const Record& record) const;
  bool queue_waits(const Connection& connection, Time now) const;
  bool waits_to_request(const Connection& connection, Time now) const;
  Status hopeless(const Connection& connection, const Record& record, std::size_t room) const;
  bool fill_requests(Connection& connection, PacketSlot& slot, std::size_t room, Time now);
  void skip(Side& side, Record& record, Status fault, Time now);
  bool fill_from_queue(Connection& connection, PacketSlot& slot, std::size_t room, Time now);
  bool pack(const Connection& connection, Side& side, Record& record, Packing& packing);
  static Operation describe(const Side& side, const Record& record);
  static bool cut(const Record& record, Operation& operation, const Packing& packing);
  void packed(Side& side, Record& record, std::size_t bytes, Packing& packing);
  void ask(Side& side, Record& record);
  void unask(Side& side, Record& record);
  Record* find_asked(Side& side, std::uint32_t id);
  Executed on_result(Side& side, const Operation& operation, Time now);
  Executed on_report(Connection& connection, Side& side, const Operation& operation, Time now);
  void pass(Side& side, const PacketSlot& slot, Time now);
  void pop_passed(Side& side, Time now);
  void complete(Side& side, Record& record, Time now);
  void finish_completed(Record& record, Time now);
  void release_if_over(Record& record);
  void fail_all(Side& side, EndReason reason, Time now);

  // Messages of ours (message_sender.cc).
  void hold_back_or_queue(Side& side, std::uint32_t index, Time now);
  void queue_waiting(Side& side, Time now);
  void unhold(Side& side, std::uint32_t index);
  bool pack_send(const Connection& connection, Side& side, Record& record, Packing& packing);
  void number(Side& side, Record& record);
  bool fill_wanted(Side& side, PacketSlot& slot, std::size_t room);
  bool fill_cancels(Side& side, PacketSlot& slot, std::size_t room);
  void pass_wanted(Side& side, const PacketSlot& slot, Time now);
  Record* find_open(Side& side, std::uint32_t id);
  Record* find_send(Side& side, std::uint64_t context);
  void list_wanted(Side& side, Record& record);
  void unlist_wanted(Side& side, Record& record);
  void stop_packing(Side& side, Record& record, Time now);
  void ask_for_data(Side& side, Record& record, Time now);
  void close_message(Side& side, Record& record);
  void finish_send(Side& side, Record& record, Time now);
  void fail_send(Side& side, Record& record, Status status, Time now);
  void on_credit(Side& side, const Operation& operation, Time now);
  Executed on_want(Side& side, const Operation& operation, Time now);
  void on_done(Side& side, const Operation& operation, Time now);

  // Responder (responder.cc).
  Executed execute_requests(Connection& connection, const DataBody& body, Time now);
  Executed execute_responses(Connection& connection, const DataBody& body, Time now);
  Executed execute_one(const Connection& connection, Side& side, const Operation& operation,
                       Status& status, Time now);
  Status write(const Connection& connection, const Operation& operation);
  Status read(const Connection& connection, Side& side, const Operation& operation);
  Status atomic(const Connection& connection, Side& side, const Operation& operation);
  static Owed& owe(Side& side, std::uint32_t id);
  bool may_execute_early(const Connection& connection, const Operation& operation);
  bool waits_to_respond(const Connection& connection) const;
  bool fill_responses(Connection& connection, PacketSlot& slot, std::size_t room, Time now);
  void put_answers(const Connection& connection, PacketSlot& slot, OperationWriter& writer,
                   std::size_t room, Time now);
  static void put_report(Side& side, PacketSlot& slot, OperationWriter& writer);
  static bool put_result(Side& side, PacketSlot& slot, OperationWriter& writer, std::size_t room);
  static void fail_result(PacketSlot& slot);

  Side& side(const Connection& connection) { return sides_[connection.index()]; }
  const Side& side(const Connection& connection) const { return sides_[connection.index()]; }

  const Limits limits_;
  RandomWords& random_;
  const CoverageMarks marks_;
  KeyTable keys_;
  std::vector<Record> records_;
  std::uint32_t free_ = kNone;
  std::uint32_t done_first_ = kNone;
  std::uint32_t done_last_ = kNone;
  std::vector<Side> sides_;  ///< by connection
  MessageReceiver receiver_;
  Transport transport_;
};

}  // namespace mtl::transport
