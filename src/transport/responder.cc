// Peers' operations on our memory: execution, RESULTs, REPORTs (T26 to T30, T37, T38).
#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/byte_order.h"
#include "transport/memory_access.h"
#include "transport/operations.h"

namespace mtl::transport {
namespace {

constexpr std::size_t kSegmentUnit = 8;
constexpr std::size_t kResultIdAt = 4;   ///< in an encoded RESULT
constexpr std::uint32_t kHasReport = 1;  ///< PacketSlot::owner on response flows

}  // namespace

// ---- execution ----

Executed Operations::execute_requests(Connection& connection, const DataBody& body, Time now) {
  Side& side = this->side(connection);
  OperationReader reader(body.bytes);
  Operation o;
  side.report_size = 0;
  for (std::size_t index = 0; reader.next(o); ++index) {
    Status status = Status::kOk;
    if (execute_one(connection, side, o, status, now) == Executed::kBroken)
      return Executed::kBroken;
    if (status == Status::kOk) continue;
    store8(side.report.data() + side.report_size, static_cast<std::uint8_t>(index));
    store8(side.report.data() + side.report_size + 1, static_cast<std::uint8_t>(status));
    side.report_size = static_cast<std::uint16_t>(side.report_size + 2);
  }
  if (side.report_size == 0) return Executed::kAll;
  side.report_psn = body.psn;
  side.report_due = true;
  return Executed::kReported;
}

Executed Operations::execute_one(const Connection& connection, Side& side, const Operation& o,
                                 Status& status, Time now) {
  const bool answered = o.opcode == Opcode::kRead || (o.opcode == Opcode::kAtomic && o.has(kFetch));
  if (answered && side.owed_count == side.owed.size()) return Executed::kBroken;  // T16
  switch (o.opcode) {
    case Opcode::kWrite:
      if (o.has(kImm) && !receiver_.may_come(connection)) return Executed::kBroken;  // T16
      status = write(connection, o);
      if (o.has(kImm)) receiver_.on_imm(connection, o, status, now);
      return Executed::kAll;
    case Opcode::kRead:
      status = read(connection, side, o);
      return Executed::kAll;
    case Opcode::kAtomic:
      status = atomic(connection, side, o);
      return Executed::kAll;
    case Opcode::kSend:
      return receiver_.on_send(connection, o, status, now);
    case Opcode::kSendData:
      return receiver_.on_data(connection, o, now);
    case Opcode::kCancel:
      receiver_.on_cancel(connection, o);
      return Executed::kAll;
    default:
      return Executed::kAll;  // of responses, which count_operations() has not let through
  }
}

Status Operations::write(const Connection& connection, const Operation& o) {
  if (o.data.empty()) return Status::kOk;
  const auto a = keys_.access(o.key, connection.id(), o.offset, o.data.size(), kRightWrite);
  if (a.status == Status::kOk) store_to_memory(a.memory, o.data.data(), o.data.size());
  return a.status;
}

Operations::Owed& Operations::owe(Side& side, std::uint32_t id) {
  Owed& owed = side.owed[(side.owed_head + side.owed_count++) % side.owed.size()];
  owed.id = RequestId{id};
  owed.memory = nullptr;
  owed.registration = 0;
  owed.total = owed.sent = 0;
  owed.status = Status::kOk;
  return owed;
}

/// T29: what is short is read now, the rest until its last byte is sent.
Status Operations::read(const Connection& connection, Side& side, const Operation& o) {
  KeyTable::Access a;
  if (o.total != 0) {
    a = keys_.access(o.key, connection.id(), o.offset, o.total, kRightRead);
    if (a.status != Status::kOk) return a.status;
  }
  Owed& owed = owe(side, o.id);
  owed.total = o.total;
  if (o.total <= kMaxFetch) {
    load_from_memory(owed.bytes.data(), a.memory, o.total);
  } else {
    owed.memory = a.memory;
    owed.registration = a.registration;
  }
  return Status::kOk;
}

Status Operations::atomic(const Connection& connection, Side& side, const Operation& o) {
  if (!supported(o.op, o.type)) return Status::kUnsupported;
  const std::size_t bytes = o.op == AtomicOp::kCompareSwap ? o.data.size() / 2 : o.data.size();
  const auto a =
      keys_.access(o.key, connection.id(), o.offset, bytes, kRightAtomic, size_of(o.type));
  if (a.status != Status::kOk) return a.status;
  std::byte* results = nullptr;
  if (o.has(kFetch)) {
    Owed& owed = owe(side, o.id);
    owed.total = static_cast<std::uint32_t>(bytes);
    results = owed.bytes.data();
  }
  execute_atomic(o.op, o.type, a.memory, o.data, results);
  return Status::kOk;
}

/// T15: whether it would not fail.
bool Operations::may_execute_early(const Connection& connection, const Operation& o) {
  if (o.opcode == Opcode::kSendData) return receiver_.look_at_early(connection, o);
  if (o.data.empty()) return true;
  const auto a = keys_.access(o.key, connection.id(), o.offset, o.data.size(), kRightWrite);
  return a.status == Status::kOk;
}

bool Operations::execute_early(Connection& connection, const DataBody& body, Time now) {
  OperationReader look(body.bytes);
  Operation o;
  bool may = true;
  while (may && look.next(o)) may = may_execute_early(connection, o);
  OperationReader forget(body.bytes);
  while (forget.next(o)) {
    if (o.opcode == Opcode::kSendData) receiver_.forget_early(connection, o);
  }
  OperationReader reader(body.bytes);
  while (may && reader.next(o)) {
    if (o.opcode == Opcode::kSendData) {
      receiver_.on_data(connection, o, now);
    } else {
      write(connection, o);
    }
  }
  return may;
}

Executed Operations::execute_responses(Connection& connection, const DataBody& body, Time now) {
  Side& side = this->side(connection);
  OperationReader reader(body.bytes);
  Operation o;
  while (reader.next(o)) {
    auto executed = Executed::kAll;
    if (o.opcode == Opcode::kResult) executed = on_result(side, o, now);
    if (o.opcode == Opcode::kReport) executed = on_report(connection, side, o, now);
    if (o.opcode == Opcode::kWant) executed = on_want(side, o, now);
    if (o.opcode == Opcode::kCredit) on_credit(side, o, now);
    if (o.opcode == Opcode::kDone) on_done(side, o, now);
    if (executed == Executed::kBroken) return executed;
  }
  return Executed::kAll;
}

// ---- what is owed ----

bool Operations::waits_to_respond(const Connection& connection) const {
  const Side& side = this->side(connection);
  return side.report_due || side.owed_count != 0 || receiver_.owes(connection.index());
}

bool Operations::fill_responses(Connection& connection, PacketSlot& slot, std::size_t room,
                                Time now) {
  Side& side = this->side(connection);
  const bool messages = receiver_.owes(connection.index());
  if (side.owed_count > 1 || messages) transport_.packets(Flow::kResponse).add_block(slot);
  OperationWriter writer(slot.image_space());
  if (side.report_due) put_report(side, slot, writer);
  if (messages) put_answers(connection, slot, writer, room, now);
  while (side.owed_count != 0 && slot.operations < kMaxOperations &&
         put_result(side, slot, writer, room)) {
  }
  return slot.operations != 0;
}

/// T28. Its data stays in the side until it is acknowledged: until then no other is made.
void Operations::put_report(Side& side, PacketSlot& slot, OperationWriter& writer) {
  side.report_due = false;
  const std::span<const std::byte> pairs(side.report.data(), side.report_size);
  Operation o{.opcode = Opcode::kReport, .psn = side.report_psn};
  o.data = pairs;
  writer.put_head(o);
  slot.image_size = static_cast<std::uint16_t>(writer.size());
  slot.add_external(pairs);
  slot.body_size = static_cast<std::uint16_t>(slot.body_size + head_size(o) + padded(pairs.size()));
  slot.owner = kHasReport;
  ++slot.operations;
}

/// WANT, DONE and CREDIT (T33 to T35).
void Operations::put_answers(const Connection& connection, PacketSlot& slot,
                             OperationWriter& writer, std::size_t room, Time now) {
  Operation o;
  while (slot.operations < kMaxOperations) {
    const std::size_t left = std::min(room - slot.body_size, writer.left());
    if (!receiver_.take_answer(connection.index(), left, o, now)) return;
    writer.put_head(o);
    slot.image_size = static_cast<std::uint16_t>(writer.size());
    slot.body_size = static_cast<std::uint16_t>(slot.body_size + head_size(o));
    ++slot.operations;
  }
}

/// Puts what is owed first, or a segment of it; false: nothing more is for this packet.
bool Operations::put_result(Side& side, PacketSlot& slot, OperationWriter& writer,
                            std::size_t room) {
  Owed& owed = side.owed[side.owed_head];
  Operation o{.opcode = Opcode::kResult, .id = owed.id.value()};
  const auto status = static_cast<std::byte>(owed.status);
  const bool is_long = owed.memory != nullptr;
  if (is_long) {
    if (slot.operations != 0) return false;  // so a key that is withdrawn takes the whole packet
    if (owed.sent != 0) o.flags = kAt;
    o.at = owed.sent;
    const std::size_t most =
        std::min((room - head_size(o)) / kSegmentUnit * kSegmentUnit, kMaxLength - 7);
    o.data = {owed.memory + owed.sent, std::min<std::size_t>(owed.total - owed.sent, most)};
  } else if (owed.status != Status::kOk) {
    o.flags = kFail;
    o.data = {&status, 1};
  } else {
    o.data = {owed.bytes.data(), owed.total};
  }
  const std::size_t size = head_size(o) + padded(o.data.size());
  if (slot.body_size + size > room || (!is_long && size > writer.left())) return false;
  writer.put_head(o);
  if (!is_long) writer.put_data(o.data);
  slot.image_size = static_cast<std::uint16_t>(writer.size());
  slot.body_size = static_cast<std::uint16_t>(slot.body_size + size);
  ++slot.operations;
  if (is_long) {
    slot.add_external(o.data);
    slot.guard = owed.registration;
    owed.sent += static_cast<std::uint32_t>(o.data.size());
  }
  const Owed rest = owed;
  side.owed_head = (side.owed_head + 1) % side.owed.size();
  --side.owed_count;
  if (!is_long || rest.sent == rest.total) return !is_long;
  // The others in turn: a short READ is not to wait for a long one.
  side.owed[(side.owed_head + side.owed_count++) % side.owed.size()] = rest;
  return false;
}

// ---- our memory ----

Result<Key> Operations::give(const Region& region) {
  const Key key = keys_.draw(random_.draw());
  const auto given = keys_.give(key, region);
  if (!given) return given.error();
  return key;
}

Result<void> Operations::give(Key key, const Region& region) {
  return keys_.give(key, region);
}

/// A RESULT in a packet of its own becomes one with FAIL.
void Operations::fail_result(PacketSlot& slot) {
  const std::uint32_t id = load32(slot.image().data() + kResultIdAt);
  const auto status = static_cast<std::byte>(Status::kBadKey);
  OperationWriter writer(slot.image_space());
  Operation o{.opcode = Opcode::kResult, .flags = kFail, .id = id};
  o.data = {&status, 1};
  writer.put_head(o);
  writer.put_data(o.data);
  slot.externals_used = 0;
  slot.image_size = slot.body_size = static_cast<std::uint16_t>(writer.size());
  slot.guard = 0;
}

void Operations::withdraw(Key key) {
  const Registration registration = keys_.withdraw(key);
  if (registration == 0) return;
  for (Side& side : sides_) {
    for (std::size_t i = 0; i < side.owed_count; ++i) {
      Owed& owed = side.owed[(side.owed_head + i) % side.owed.size()];
      if (owed.registration != registration) continue;
      owed.memory = nullptr;
      owed.registration = 0;
      owed.status = Status::kBadKey;
    }
  }
  for (PacketSlot& slot : transport_.packets(Flow::kResponse).slots()) {
    if (slot.operations != 0 && slot.guard == registration) fail_result(slot);
  }
}

}  // namespace mtl::transport
