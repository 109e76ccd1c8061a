// Our operations on the memory of peers: queues, packets, completions (T26 to T29).
#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "base/byte_order.h"
#include "transport/codec.h"
#include "transport/memory_access.h"
#include "transport/operations.h"
#include "transport/packing.h"

namespace mtl::transport {
namespace {

constexpr std::uint64_t kLongest = 0xFFFFFFFF;  ///< bytes of one operation; READ tells 32 bits
/// What stands in a packet beside the data of a small operation.
constexpr std::size_t kTypicalHead = 8;
/// A RESULT with FAIL of a peer that tells ok, which cannot be.
constexpr auto kNonsense = static_cast<Status>(0xFF);

bool is_atomic(Work::Kind kind) {
  return kind == Work::Kind::kAtomic || kind == Work::Kind::kFetchAtomic;
}

Opcode opcode_of(Work::Kind kind) {
  switch (kind) {
    case Work::Kind::kGet:
      return Opcode::kRead;
    case Work::Kind::kAtomic:
    case Work::Kind::kFetchAtomic:
      return Opcode::kAtomic;
    case Work::Kind::kSend:
      return Opcode::kSend;
    default:
      return Opcode::kWrite;
  }
}

}  // namespace

// ---- posting ----

Posted Operations::check(const Work& work) {
  const auto tells = [&](WorkFlag flag) { return (work.flags & flag) != 0; };
  switch (work.kind) {
    case Work::Kind::kPut:
    case Work::Kind::kSend:
      if (work.from.size() > kLongest) return Posted::kInvalid;
      if (tells(kWithImm) && tells(kMayOvertake)) return Posted::kInvalid;  // T15
      if (tells(kInject) && work.from.size() > kMaxInjected) return Posted::kInvalid;
      return Posted::kTaken;
    case Work::Kind::kGet:
      return work.to.size() > kLongest || !work.from.empty() ? Posted::kInvalid : Posted::kTaken;
    case Work::Kind::kAtomic:
    case Work::Kind::kFetchAtomic:
      break;
    case Work::Kind::kFlush:
      return Posted::kTaken;
  }
  if (!known(work.op, work.type)) return Posted::kInvalid;
  const std::size_t values = work.op == AtomicOp::kCompareSwap ? 2 : 1;
  const std::size_t size = size_of(work.type) * values;
  if (work.from.empty() || work.from.size() % size != 0) return Posted::kInvalid;
  if (work.from.size() > kMaxInjected) return Posted::kInvalid;
  if (work.kind == Work::Kind::kAtomic) return Posted::kTaken;
  const std::size_t results = work.from.size() / values;
  return results <= kMaxFetch && work.to.size() == results ? Posted::kTaken : Posted::kInvalid;
}

Posted Operations::post(ConnectionHandle handle, const Work& work, Time now) {
  Connection* connection = transport_.find(handle);
  if (connection == nullptr ||
      (connection->state() != State::kOpening && connection->state() != State::kUp)) {
    return Posted::kEnded;
  }
  if (const Posted fault = check(work); fault != Posted::kTaken) return fault;
  if (free_ == kNone) return Posted::kFull;
  Side& side = this->side(*connection);
  const std::uint32_t index = free_;
  Record& r = records_[index];
  free_ = r.next;
  r.work = work;
  r.connection = handle;
  r.peer = connection->peer();
  r.next = r.next_done = r.next_by_id = r.next_wanted = kNone;
  r.number = side.posted++;
  r.packed = r.got = r.covered = 0;
  r.pieces = r.before = r.wanted = r.wanted_packed = r.wanted_pieces = 0;
  r.all_packed = r.queued = r.asked = r.done = r.taken = false;
  r.open = r.on_demand = r.in_wanted = r.finished = r.cancel_asked = r.cancel_due = false;
  r.status = Status::kOk;
  r.ended = EndReason::kNone;
  r.posted = now;
  if (work.kind == Work::Kind::kFlush) {
    post_flush(side, index, now);
  } else {
    prepare(r);
    ++side.incomplete;
    ++side.since_flush;
    hold_back_or_queue(side, index, now);
  }
  transport_.touch(*connection, now);
  return Posted::kTaken;
}

/// Copies what is to be copied.
void Operations::prepare(Record& r) {
  Work& w = r.work;
  if (is_atomic(w.kind)) {
    swap_order(r.copied.data(), w.from.data(), w.from.size(), size_of(w.type));
    const std::size_t values = w.op == AtomicOp::kCompareSwap ? 2 : 1;
    r.length = static_cast<std::uint32_t>(w.from.size() / values);
    w.from = {r.copied.data(), w.from.size()};
  } else if (w.kind == Work::Kind::kGet) {
    r.length = static_cast<std::uint32_t>(w.to.size());
  } else {
    r.length = static_cast<std::uint32_t>(w.from.size());
    if ((w.flags & kInject) != 0) {
      if (!w.from.empty()) std::memcpy(r.copied.data(), w.from.data(), w.from.size());
      w.from = {r.copied.data(), w.from.size()};
    }
  }
}

void Operations::queue(Side& side, std::uint32_t index, Time now) {
  Record& r = records_[index];
  r.queued = true;
  r.next = kNone;
  (side.newest == kNone ? side.oldest : records_[side.newest].next) = index;
  side.newest = index;
  if (side.to_pack == kNone) side.to_pack = index;
  ++side.unpacked;
  side.unpacked_bytes += kTypicalHead + r.work.from.size();
  if (r.is_message()) ++side.unnumbered;
  const bool wait = r.tells(kMayWait);
  side.leave_at = std::min(side.leave_at, wait ? now + limits_.pack_delay : now);
}

/// T27: nothing on the wire; what was posted before it is not to wait for company any more.
void Operations::post_flush(Side& side, std::uint32_t index, Time now) {
  Record& r = records_[index];
  r.length = 0;
  if (side.incomplete == 0) {
    finish_completed(r, now);
    return;
  }
  r.before = side.since_flush;
  side.since_flush = 0;
  (side.flush_first == kNone ? side.flush_first : records_[side.flush_last].next) = index;
  side.flush_last = index;
  if (side.to_pack != kNone) side.leave_at = std::min(side.leave_at, now);
}

std::uint32_t Operations::incomplete(ConnectionHandle handle) const {
  const Connection* connection = transport_.find(handle);
  return connection == nullptr ? 0 : side(*connection).incomplete;
}

// ---- packing ----

/// Whether the next to be packed may be now.
bool Operations::may_pack(const Connection& connection, const Side& side, const Record& r) const {
  if (r.packed != 0) return true;  // its first segment has left
  if (r.tells(kFence) && side.incomplete != side.unpacked + side.waiting_count) return false;
  if (r.is_message() && side.credit() == 0) return false;  // T33
  if (!r.answered_by_result()) return true;
  return side.outstanding < connection.terms().reads || connection.terms().reads == 0;
}

bool Operations::queue_waits(const Connection& connection, Time now) const {
  const Side& side = this->side(connection);
  if (side.to_pack == kNone) return false;
  const Record& r = records_[side.to_pack];
  if (!may_pack(connection, side, r)) return false;
  return r.packed != 0 || side.leave_at <= now || side.unpacked >= kMaxOperations ||
         side.unpacked_bytes >= connection.terms().mtu - kOverhead;
}

bool Operations::waits_to_request(const Connection& connection, Time now) const {
  const Side& side = this->side(connection);
  return side.wanted_first != kNone || side.cancels != 0 || queue_waits(connection, now);
}

/// Why the peer can never take the next to be packed, kOk if it can: known once it is UP.
Status Operations::hopeless(const Connection& connection, const Record& r, std::size_t room) const {
  if (r.answered_by_result() && connection.terms().reads == 0) return Status::kUnsupported;
  if (is_atomic(r.work.kind) && kMaxHead + padded(r.work.from.size()) > room) {
    return Status::kTooLong;
  }
  return Status::kOk;
}

/// The queue and what peers asked for in turn.
bool Operations::fill_requests(Connection& connection, PacketSlot& slot, std::size_t room,
                               Time now) {
  Side& side = this->side(connection);
  if (side.cancels != 0) return fill_cancels(side, slot, room);
  const bool wanted = side.wanted_first != kNone;
  if (wanted && (side.wanted_turn || !queue_waits(connection, now))) {
    side.wanted_turn = false;
    return fill_wanted(side, slot, room);
  }
  side.wanted_turn = true;
  return fill_from_queue(connection, slot, room, now);
}

bool Operations::fill_from_queue(Connection& connection, PacketSlot& slot, std::size_t room,
                                 Time now) {
  Side& side = this->side(connection);
  if (side.unpacked > 1 && records_[side.to_pack].packed == 0) {
    transport_.packets(Flow::kRequest).add_block(slot);
  }
  Packing packing(slot, room);
  while (side.to_pack != kNone && slot.operations < kMaxOperations) {
    Record& r = records_[side.to_pack];
    const Status fault = hopeless(connection, r, room);
    if (fault != Status::kOk) {
      if (slot.operations != 0) break;
      skip(side, r, fault, now);
      continue;
    }
    if (!may_pack(connection, side, r) || !pack(connection, side, r, packing)) break;
  }
  if (side.to_pack == kNone) side.leave_at = kNever;
  return slot.operations != 0;
}

/// Takes what is not packed out of the queue.
void Operations::unqueue(Side& side, std::uint32_t index) {
  std::uint32_t* at = &side.oldest;
  std::uint32_t before = kNone;
  while (*at != index) {
    before = *at;
    at = &records_[*at].next;
  }
  Record& r = records_[index];
  *at = r.next;
  if (side.newest == index) side.newest = before;
  if (side.to_pack == index) side.to_pack = r.next;
  --side.unpacked;
  side.unpacked_bytes -= kTypicalHead + r.work.from.size();
  if (r.is_message()) --side.unnumbered;
  r.queued = false;
}

/// The next to be packed fails without having been sent.
void Operations::skip(Side& side, Record& r, Status fault, Time now) {
  unqueue(side, side.to_pack);
  r.status = fault;
  complete(side, r, now);
}

/// The operation on memory that `r` is, from where it is packed to.
Operation Operations::describe(const Side& side, const Record& r) {
  const Work& w = r.work;
  Operation o;
  o.opcode = opcode_of(w.kind);
  o.key = w.key;
  o.offset = w.offset + r.packed;
  o.op = w.op;
  o.type = w.type;
  o.total = r.length;
  o.id = side.next_id.value();
  if (w.kind == Work::Kind::kFetchAtomic) o.flags = kFetch;
  o.data = w.from.subspan(r.packed);
  return o;
}

/// How much of a put goes into the packet: all that is left of it, which tells its imm, or a
/// segment; false: it is for the next packet.
bool Operations::cut(const Record& r, Operation& o, const Packing& packing) {
  o.imm = r.work.imm;
  if (r.tells(kWithImm)) o.flags |= kImm;
  if (packing.takes(o)) return true;
  if (packing.slot.operations != 0) return false;  // a segment has its packet for itself
  o.flags &= static_cast<std::uint8_t>(~kImm);
  std::size_t most = packing.segment(o);
  if (most >= o.data.size())
    most = (o.data.size() - 1) / Packing::kSegmentUnit * Packing::kSegmentUnit;
  o.data = o.data.first(most);
  return true;
}

/// Puts a piece of `r`, or all of it, into the packet; false: it is for the next packet.
bool Operations::pack(const Connection& connection, Side& side, Record& r, Packing& packing) {
  if (r.work.kind == Work::Kind::kSend) return pack_send(connection, side, r, packing);
  PacketSlot& slot = packing.slot;
  const bool overtakes = r.work.kind == Work::Kind::kPut && r.tells(kMayOvertake);
  if (slot.operations != 0 && slot.unordered != overtakes) return false;
  Operation o = describe(side, r);
  packing.writer.choose_address(o);
  if (r.work.kind == Work::Kind::kPut && !cut(r, o, packing)) return false;
  if (!packing.put(o)) return false;
  if (slot.operations == 1) slot.unordered = overtakes;
  if (o.opcode == Opcode::kWrite && o.has(kImm)) number(side, r);
  packed(side, r, o.data.size(), packing);
  if (r.answered_by_result()) ask(side, r);
  if (r.packed < r.work.from.size()) return false;  // the packet is full
  r.all_packed = true;
  side.to_pack = r.next;
  return true;
}

/// A piece of `r` is in the packet.
void Operations::packed(Side& side, Record& r, std::size_t bytes, Packing& packing) {
  if (packing.slot.operations == 1) packing.slot.owner = side.to_pack;
  if (r.packed == 0) {
    --side.unpacked;
    side.unpacked_bytes -= kTypicalHead + r.work.from.size();
  }
  ++r.pieces;
  r.packed += bytes;
}

// ---- READs and FETCHes that are outstanding (T29) ----

void Operations::ask(Side& side, Record& r) {
  r.id = side.next_id;
  side.next_id += 1;
  r.asked = true;
  ++side.outstanding;
  std::uint32_t& bucket = side.asked[r.id.value() & (side.asked.size() - 1)];
  r.next_by_id = bucket;
  bucket = side.to_pack;
}

void Operations::unask(Side& side, Record& r) {
  const auto index = static_cast<std::uint32_t>(&r - records_.data());
  std::uint32_t* at = &side.asked[r.id.value() & (side.asked.size() - 1)];
  while (*at != index) at = &records_[*at].next_by_id;
  *at = r.next_by_id;
  r.asked = false;
  --side.outstanding;
}

Operations::Record* Operations::find_asked(Side& side, std::uint32_t id) {
  std::uint32_t at = side.asked[id & (side.asked.size() - 1)];
  while (at != kNone && records_[at].id.value() != id) at = records_[at].next_by_id;
  return at == kNone ? nullptr : &records_[at];
}

Executed Operations::on_result(Side& side, const Operation& o, Time now) {
  Record* r = find_asked(side, o.id);
  if (r == nullptr) return Executed::kAll;  // T29: ignored
  if (o.has(kFail)) {
    const auto status = static_cast<Status>(load8(o.data.data()));
    r->status = status == Status::kOk ? kNonsense : status;
  } else {
    const std::uint64_t end = std::uint64_t{o.at} + o.data.size();
    const bool fetch = r->work.kind == Work::Kind::kFetchAtomic;
    if (end > r->length || r->got + o.data.size() > r->length) return Executed::kBroken;
    if (fetch && o.data.size() != r->length) return Executed::kBroken;
    std::byte* to = r->work.to.data() + o.at;
    if (fetch) {
      swap_order(to, o.data.data(), o.data.size(), size_of(r->work.type));
    } else {
      store_to_memory(to, o.data.data(), o.data.size());
    }
    r->got += o.data.size();
    r->covered += marks_.of(o.at, end);
    if (r->got < r->length) return Executed::kAll;
    // Some came twice, and as much is lacking that can come only beyond the total in sum.
    if (r->covered != marks_.of(0, r->length)) return Executed::kBroken;
  }
  unask(side, *r);
  complete(side, *r, now);
  return Executed::kAll;
}

Executed Operations::on_report(Connection& connection, Side& side, const Operation& o, Time now) {
  PacketSlot* slot = connection.find_sent(Flow::kRequest, o.psn);
  if (slot == nullptr) return Executed::kBroken;  // T16
  const bool wanted = slot->guard == kAside;
  for (std::size_t i = 0; i < o.data.size(); i += 2) {
    std::size_t nth = load8(o.data.data() + i);
    const auto status = static_cast<Status>(load8(o.data.data() + i + 1));
    if (nth >= slot->operations) return Executed::kBroken;
    std::uint32_t at = slot->owner;
    for (; nth != 0 && at != kNone; --nth) {
      at = wanted ? records_[at].next_wanted : records_[at].next;
    }
    if (at == kNone || status == Status::kOk) continue;  // a CANCEL, or nothing that failed
    Record& r = records_[at];
    if (r.open) {
      fail_send(side, r, status, now);
      continue;
    }
    if (r.done || r.status != Status::kOk) continue;
    r.status = status;
    if (!r.asked) continue;  // complete once all its packets are passed
    unask(side, r);
    complete(side, r, now);
  }
  return Executed::kAll;
}

// ---- completion ----

void Operations::pass(Side& side, const PacketSlot& slot, Time now) {
  if (slot.guard == kAside) {
    pass_wanted(side, slot, now);
    return;
  }
  std::uint32_t at = slot.owner;
  for (std::size_t i = 0; i < slot.operations; ++i) {
    --records_[at].pieces;
    at = records_[at].next;
  }
  pop_passed(side, now);
}

/// What is wholly packed and passed leaves the queue.
void Operations::pop_passed(Side& side, Time now) {
  while (side.oldest != kNone) {
    Record& r = records_[side.oldest];
    if (r.pieces != 0 || !r.all_packed) return;
    side.oldest = r.next;
    if (side.oldest == kNone) side.newest = kNone;
    r.queued = false;
    if (r.open) {
      finish_send(side, r, now);
    } else if (!r.done && !r.asked) {
      complete(side, r, now);
    } else {
      release_if_over(r);
    }
  }
}

void Operations::complete(Side& side, Record& r, Time now) {
  --side.incomplete;
  const std::uint64_t number = r.number;
  finish_completed(r, now);
  std::uint32_t at = side.flush_first;  // the first behind it
  while (at != kNone && records_[at].number < number) at = records_[at].next;
  --(at == kNone ? side.since_flush : records_[at].before);
  while (side.flush_first != kNone && records_[side.flush_first].before == 0) {
    Record& flush = records_[side.flush_first];
    side.flush_first = flush.next;
    finish_completed(flush, now);
  }
}

/// Hands the completion over, if there is to be one.
void Operations::finish_completed(Record& r, Time now) {
  r.done = true;
  r.done_at = now;
  const bool ok = r.status == Status::kOk && r.ended == EndReason::kNone;
  if (ok && (r.work.flags & kSilent) != 0) {
    r.taken = true;
    release_if_over(r);
    return;
  }
  const auto index = static_cast<std::uint32_t>(&r - records_.data());
  (done_last_ == kNone ? done_first_ : records_[done_last_].next_done) = index;
  done_last_ = index;
}

void Operations::release_if_over(Record& r) {
  if (!r.done || !r.taken || r.queued) return;
  r.next = free_;
  free_ = static_cast<std::uint32_t>(&r - records_.data());
}

bool Operations::next_completion(Completion& completion) {
  if (done_first_ == kNone) return false;
  Record& r = records_[done_first_];
  done_first_ = r.next_done;
  if (done_first_ == kNone) done_last_ = kNone;
  completion = {.context = r.work.context,
                .kind = r.work.kind,
                .connection = r.connection,
                .peer = r.peer,
                .status = r.status,
                .ended = r.ended,
                .key = r.work.key,
                .offset = r.work.offset,
                .length = r.length,
                .age = r.done_at - r.posted};
  r.taken = true;
  release_if_over(r);
  return true;
}

/// T10: whatever is not complete fails with the connection.
void Operations::fail_all(Side& side, EndReason reason, Time now) {
  for (std::uint32_t at = side.flush_first; at != kNone; at = records_[at].next) {
    records_[at].ended = reason;
  }
  for (std::uint32_t& bucket : side.asked) {
    while (bucket != kNone) {
      Record& r = records_[bucket];
      unask(side, r);
      r.ended = reason;
      if (!r.queued) complete(side, r, now);  // else below, in the order of posting
    }
  }
  for (std::uint32_t& bucket : side.open) {
    while (bucket != kNone) {
      Record& r = records_[bucket];
      close_message(side, r);
      r.ended = reason;
      if (!r.queued) complete(side, r, now);
    }
  }
  while (side.oldest != kNone) {
    Record& r = records_[side.oldest];
    side.oldest = r.next;
    r.queued = false;
    if (r.done) {
      release_if_over(r);
    } else {
      r.ended = reason;
      complete(side, r, now);
    }
  }
  while (side.waiting_first != kNone) {
    Record& r = records_[side.waiting_first];
    side.waiting_first = r.next;
    r.ended = reason;
    complete(side, r, now);
  }
}

}  // namespace mtl::transport
