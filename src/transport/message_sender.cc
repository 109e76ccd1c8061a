// Our messages: numbers, credit, what peers ask for, what ends them (T31 to T36).
#include <cassert>

#include "transport/operations.h"
#include "transport/packing.h"

namespace mtl::transport {
namespace {

/// A status of DONE that no status can be.
constexpr auto kNonsense = static_cast<Status>(0xFF);

Status status_of(std::uint32_t told) {
  return told < 0xFF ? static_cast<Status>(told) : kNonsense;
}

}  // namespace

// ---- credit (T33) ----

void Operations::let_overtake(ConnectionHandle handle, bool may) {
  Connection* connection = transport_.find(handle);
  if (connection != nullptr) side(*connection).overtaking = may;
}

/// What may not be overtaken waits in the queue itself; else messages without credit wait beside
/// it, and enter it when they have some.
void Operations::hold_back_or_queue(Side& side, std::uint32_t index, Time now) {
  Record& r = records_[index];
  const bool behind = side.waiting_first != kNone && (!side.overtaking || r.is_message() ||
                                                      r.tells(kFence) || side.waiting_firm != 0);
  const bool lacks = side.overtaking && r.is_message() && side.credit() <= side.unnumbered;
  if (!behind && !lacks) {
    queue(side, index, now);
    return;
  }
  r.next = kNone;
  (side.waiting_first == kNone ? side.waiting_first : records_[side.waiting_last].next) = index;
  side.waiting_last = index;
  ++side.waiting_count;
  if (!r.may_be_overtaken()) ++side.waiting_firm;
}

void Operations::queue_waiting(Side& side, Time now) {
  while (side.waiting_first != kNone) {
    const std::uint32_t index = side.waiting_first;
    const Record& r = records_[index];
    if (r.is_message() && side.credit() <= side.unnumbered) return;
    side.waiting_first = r.next;
    --side.waiting_count;
    if (!r.may_be_overtaken()) --side.waiting_firm;
    queue(side, index, now);
  }
}

void Operations::on_credit(Side& side, const Operation& o, Time now) {
  const MessageId limit{o.limit};
  if (!limit.after(side.message_limit)) return;
  side.message_limit = limit;
  queue_waiting(side, now);
}

// ---- packing ----

/// T31: the message that `r` is takes the next number.
void Operations::number(Side& side, Record& r) {
  r.message = side.next_message;
  side.next_message += 1;
  --side.unnumbered;
}

/// T32: SEND, with an offer or with the first of the data, then SEND_DATA.
bool Operations::pack_send(const Connection& connection, Side& side, Record& r, Packing& packing) {
  PacketSlot& slot = packing.slot;
  if (slot.operations != 0 && slot.unordered) return false;
  const bool first = !r.open;
  const bool offer =
      first && r.length != 0 && (r.tells(kOffered) || r.length > connection.terms().eager);
  Operation o;
  o.opcode = first ? Opcode::kSend : Opcode::kSendData;
  o.tag = r.work.tag;
  o.imm = r.work.imm;
  o.total = r.length;
  o.id = r.message.value();
  o.at = static_cast<std::uint32_t>(r.packed);
  if (!offer) o.data = r.work.from.subspan(r.packed);
  if (first) {
    const auto flag = [&](WorkFlag told, std::uint8_t bit) { return r.tells(told) ? bit : 0; };
    o.flags = static_cast<std::uint8_t>(flag(kTagged, kTag) | flag(kWithImm, kImm) |
                                        flag(kConfirm, kComplete) | (offer ? kOffer | kTotal : 0));
  }
  if (!packing.takes(o)) {
    if (slot.operations != 0) return false;  // a segment has its packet for itself
    if (first) o.flags |= kTotal;
    o.data = o.data.first(packing.segment(o));
  }
  if (!packing.put(o)) return false;
  if (first) {
    number(side, r);
    r.open = true;
    r.on_demand = offer;
    std::uint32_t& bucket = side.open[r.message.value() & (side.open.size() - 1)];
    r.next_by_id = bucket;
    bucket = side.to_pack;
  }
  packed(side, r, o.data.size(), packing);
  if (!offer && r.packed < r.length) return false;  // the packet is full
  r.all_packed = true;
  side.to_pack = r.next;
  return true;
}

/// T34: data as WANT asked. What is short and whole shares a packet; what is long has packets for
/// itself, in turn with others.
bool Operations::fill_wanted(Side& side, PacketSlot& slot, std::size_t room) {
  if (side.wanted_first != side.wanted_last) transport_.packets(Flow::kRequest).add_block(slot);
  Packing packing(slot, room);
  slot.guard = kAside;
  slot.owner = side.wanted_first;
  slot.unordered = true;
  while (side.wanted_first != kNone && slot.operations < kMaxOperations) {
    Record& r = records_[side.wanted_first];
    Operation o;
    o.opcode = Opcode::kSendData;
    o.flags = kWanted;
    o.id = r.message.value();
    o.at = r.wanted_packed;
    o.data = r.work.from.subspan(o.at, r.wanted - o.at);
    const bool whole = o.at == 0 && r.wanted == r.length && packing.takes(o);
    if (!whole) {
      if (slot.operations != 0) break;
      if (!packing.takes(o)) o.data = o.data.first(packing.segment(o));
    }
    if (!packing.put(o)) break;
    r.wanted_packed += static_cast<std::uint32_t>(o.data.size());
    ++r.wanted_pieces;
    side.wanted_first = r.next_wanted;
    if (side.wanted_first == kNone) side.wanted_last = kNone;
    r.in_wanted = false;
    if (r.wanted_packed != r.wanted) list_wanted(side, r);  // behind the others
    if (!whole) break;
  }
  return slot.operations != 0;
}

bool Operations::fill_cancels(Side& side, PacketSlot& slot, std::size_t room) {
  Packing packing(slot, room);
  slot.guard = kAside;
  slot.owner = kNone;
  for (const std::uint32_t bucket : side.open) {
    for (std::uint32_t at = bucket; at != kNone; at = records_[at].next_by_id) {
      Record& r = records_[at];
      if (!r.cancel_due) continue;
      Operation o;
      o.opcode = Opcode::kCancel;
      o.id = r.message.value();
      if (slot.operations == kMaxOperations || !packing.put(o)) return true;
      r.cancel_due = false;
      --side.cancels;
    }
  }
  return slot.operations != 0;
}

void Operations::pass_wanted(Side& side, const PacketSlot& slot, Time now) {
  std::uint32_t at = slot.owner;
  for (std::size_t i = 0; i < slot.operations && at != kNone; ++i) {
    Record& r = records_[at];
    at = r.next_wanted;
    --r.wanted_pieces;
    finish_send(side, r, now);
  }
}

void Operations::list_wanted(Side& side, Record& r) {
  const auto index = static_cast<std::uint32_t>(&r - records_.data());
  r.next_wanted = kNone;
  r.in_wanted = true;
  (side.wanted_first == kNone ? side.wanted_first : records_[side.wanted_last].next_wanted) = index;
  side.wanted_last = index;
}

void Operations::unlist_wanted(Side& side, Record& r) {
  if (!r.in_wanted) return;
  const auto index = static_cast<std::uint32_t>(&r - records_.data());
  std::uint32_t before = kNone;
  for (std::uint32_t at = side.wanted_first; at != index; at = records_[at].next_wanted)
    before = at;
  (before == kNone ? side.wanted_first : records_[before].next_wanted) = r.next_wanted;
  if (side.wanted_last == index) side.wanted_last = before;
  r.in_wanted = false;
}

// ---- what the peer says ----

Operations::Record* Operations::find_open(Side& side, std::uint32_t id) {
  std::uint32_t at = side.open[id & (side.open.size() - 1)];
  while (at != kNone && records_[at].message.value() != id) at = records_[at].next_by_id;
  return at == kNone ? nullptr : &records_[at];
}

/// What is left of an eager message is not sent by itself.
void Operations::stop_packing(Side& side, Record& r, Time now) {
  if (r.all_packed) return;
  r.all_packed = true;
  side.to_pack = r.next;  // it was begun, so it was the next
  pop_passed(side, now);
}

/// The message is held: its data goes as WANT says. A WANT may come before the REPORT.
void Operations::ask_for_data(Side& side, Record& r, Time now) {
  if (r.on_demand || r.finished) return;
  r.on_demand = true;
  if (r.cancel_asked) {
    r.cancel_asked = false;
    r.cancel_due = true;
    ++side.cancels;
  }
  stop_packing(side, r, now);
}

void Operations::fail_send(Side& side, Record& r, Status status, Time now) {
  if (status == Status::kHeld) {
    ask_for_data(side, r, now);
    return;
  }
  if (r.finished) return;
  r.finished = true;
  r.status = status;
  unlist_wanted(side, r);
  stop_packing(side, r, now);
}

Executed Operations::on_want(Side& side, const Operation& o, Time now) {
  Record* r = find_open(side, o.id);
  if (r == nullptr) return Executed::kAll;
  if (o.limit > r->length) return Executed::kBroken;  // T16
  if (r->finished || o.limit <= r->wanted) return Executed::kAll;
  ask_for_data(side, *r, now);
  r->wanted = o.limit;
  if (!r->in_wanted) list_wanted(side, *r);
  return Executed::kAll;
}

/// T35. It may come before the REPORT that the message is held.
void Operations::on_done(Side& side, const Operation& o, Time now) {
  Record* r = find_open(side, o.id);
  if (r == nullptr || r->finished) return;
  r->finished = true;
  r->status = status_of(o.status);
  unlist_wanted(side, *r);
  stop_packing(side, *r, now);
  finish_send(side, *r, now);
}

// ---- its end ----

void Operations::close_message(Side& side, Record& r) {
  const auto index = static_cast<std::uint32_t>(&r - records_.data());
  std::uint32_t* at = &side.open[r.message.value() & (side.open.size() - 1)];
  while (*at != index) at = &records_[*at].next_by_id;
  *at = r.next_by_id;
  unlist_wanted(side, r);
  if (r.cancel_due) --side.cancels;
  r.open = r.cancel_due = false;
}

/// T27, T35: completes the send if nothing more is to come, and no packet refers to its memory.
void Operations::finish_send(Side& side, Record& r, Time now) {
  if (!r.open || r.queued || r.pieces != 0 || r.wanted_pieces != 0) return;
  const std::uint64_t executed = r.on_demand ? r.wanted_packed : r.packed;
  const bool whole = executed == r.length && !r.tells(kConfirm);
  if (!whole && !r.finished) return;
  close_message(side, r);
  complete(side, r, now);
}

/// The oldest that is not complete.
Operations::Record* Operations::find_send(Side& side, std::uint64_t context) {
  Record* found = nullptr;
  const auto look = [&](std::uint32_t first, std::uint32_t Record::*next) {
    for (std::uint32_t at = first; at != kNone; at = records_[at].*next) {
      Record& r = records_[at];
      const bool its = r.work.kind == Work::Kind::kSend && !r.done && r.work.context == context;
      if (its && (found == nullptr || r.number < found->number)) found = &r;
    }
  };
  look(side.oldest, &Record::next);
  look(side.waiting_first, &Record::next);
  for (const std::uint32_t bucket : side.open) look(bucket, &Record::next_by_id);
  return found;
}

bool Operations::cancel(ConnectionHandle handle, std::uint64_t context, Time now) {
  Connection* connection = transport_.find(handle);
  if (connection == nullptr) return false;
  Side& side = this->side(*connection);
  Record* found = find_send(side, context);
  if (found == nullptr) return false;
  Record& r = *found;
  const auto index = static_cast<std::uint32_t>(found - records_.data());
  if (!r.open) {
    r.queued ? unqueue(side, index) : unhold(side, index);
    r.status = Status::kCancelled;
    complete(side, r, now);
    queue_waiting(side, now);  // what waited behind it
  } else if (!r.finished && !r.cancel_due) {
    const bool may = r.on_demand || r.tells(kConfirm);
    (may ? r.cancel_due : r.cancel_asked) = true;
    if (may) ++side.cancels;
  }
  transport_.touch(*connection, now);
  return true;
}

/// Takes what waits for credit beside the queue out of there.
void Operations::unhold(Side& side, std::uint32_t index) {
  std::uint32_t* at = &side.waiting_first;
  std::uint32_t before = kNone;
  while (*at != index) {
    before = *at;
    at = &records_[*at].next;
  }
  *at = records_[index].next;
  if (side.waiting_last == index) side.waiting_last = before;
  --side.waiting_count;
  if (!records_[index].may_be_overtaken()) --side.waiting_firm;
}

}  // namespace mtl::transport
