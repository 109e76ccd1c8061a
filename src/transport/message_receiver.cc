#include "transport/message_receiver.h"

#include <algorithm>
#include <cassert>

#include "transport/memory_access.h"

namespace mtl::transport {
namespace {

ConnectionHandle handle_of(const Connection& connection) {
  return {connection.index(), connection.id()};
}

bool by_itself(const Message& m) {
  return m.kind == Message::Kind::kEager;
}

}  // namespace

MessageReceiver::MessageReceiver(const Settings& settings, const Limits& limits,
                                 const CoverageMarks& marks, Transport& transport)
    : transport_(transport),
      eager_(settings.eager),
      marks_(marks),
      records_(limits.message_records, settings.connections, settings.messages),
      room_(settings.messages == 0 ? 0 : limits.eager_room, settings.connections),
      matching_(limits.receives, limits.receive_pools, settings.connections, records_),
      sides_(settings.connections) {}

// ---- connections ----

std::uint32_t MessageReceiver::begin(const Connection& connection) {
  Side& side = sides_[connection.index()];
  side = {.handle = handle_of(connection), .begun = true};
  for (const EndpointPool& each : endpoint_pools_) {
    if (each.endpoint == connection.endpoint()) side.pool = each.pool;
  }
  return records_.begin(connection.index());
}

void MessageReceiver::ended(const Connection& connection, Time now) {
  Side& side = sides_[connection.index()];
  if (!side.begun) return;
  const EndReason reason = connection.end_reason();
  side.due_first = side.due_last = kNone;
  side.begun = false;
  records_.drain(connection.index(),
                 [&](std::uint32_t message) { end_message(message, reason, now); });
  for (std::uint32_t r; (r = matching_.find_receive_from(connection.index())) != kNone;) {
    matching_.remove_receive(r);
    Received& received = matching_[r].received;
    received.connection = side.handle;
    received.peer = connection.peer();
    received.endpoint = connection.endpoint();
    received.ended = reason;
    receive_over(r);
  }
  records_.end(connection.index());
  lend(now);
}

/// T10: what is whole, and so complete for the peer, is not lost with the connection.
void MessageReceiver::end_message(std::uint32_t message, EndReason reason, Time now) {
  Message& m = records_[message];
  if (m.kind == Message::Kind::kWriteImm || (by_itself(m) && m.waits && m.got == m.total)) {
    room_.detach(m);
    records_.detach(message);
    return;
  }
  if (m.waits) matching_.remove_message(message);
  if (m.receive != kNone) {
    Received& received = matching_[m.receive].received;
    received = describe(m);
    received.ended = reason;
    receive_over(m.receive);
  }
  release(message, now);
}

void MessageReceiver::wake(std::uint32_t connection, Time now) {
  Connection* c = transport_.find(sides_[connection].handle);
  if (c != nullptr && c->state() == State::kUp) transport_.touch(*c, now);
}

void MessageReceiver::lend(Time now) {
  while (const auto connection = records_.lend()) wake(*connection, now);
}

// ---- what comes ----

Message& MessageReceiver::start(const Connection& connection, std::uint32_t index,
                                const Operation& o) {
  Message& m = records_[index];
  m.connection = handle_of(connection);
  m.peer = connection.peer();
  m.endpoint = connection.endpoint();
  m.has_imm = o.has(kImm);
  m.imm = o.imm;
  m.pool = sides_[connection.index()].pool;
  return m;
}

/// T34.
Executed MessageReceiver::on_send(const Connection& connection, const Operation& o, Status& status,
                                  Time now) {
  const std::uint32_t index = records_.take(connection.index());
  if (index == kNone) return Executed::kBroken;
  lend(now);
  Message& m = start(connection, index, o);
  m.kind = o.has(kOffer) ? Message::Kind::kOffered : Message::Kind::kEager;
  m.tagged = o.has(kTag);
  m.tag = o.tag;
  m.total = o.total;
  m.complete = o.has(kComplete);
  const std::uint32_t receive = matching_.meet_receive(m);
  if (receive == kNone) {
    // One that is longer than was told may not be sent without being asked for (T32): it has no
    // room, however much there is.
    if (by_itself(m) && (m.total > eager_ || !room_.reserve(m))) {
      m.kind = Message::Kind::kHeld;
      status = Status::kHeld;
    }
    matching_.add_message(index);
  } else {
    join(index, receive, now);
  }
  if (!by_itself(m)) return Executed::kAll;
  store(m, o.data, 0);
  if (m.receive != kNone && m.got == m.total) finish(index, now);
  return Executed::kAll;
}

/// The message has met its receive.
void MessageReceiver::join(std::uint32_t message, std::uint32_t receive, Time now) {
  Message& m = records_[message];
  m.receive = receive;
  const std::span<std::byte> to = matching_[receive].receive.to;
  if (by_itself(m)) {
    room_.read(m, to);
    room_.release(m);
    return;
  }
  m.wanted = static_cast<std::uint32_t>(std::min<std::size_t>(to.size(), m.total));
  m.want_due = m.wanted != 0;
  if (m.want_due) {
    answer(message);
  } else {
    finish(message, now);
  }
}

/// What of the data the receive takes goes to its place.
void MessageReceiver::store(Message& m, std::span<const std::byte> data, std::uint32_t at) {
  if (m.receive == kNone) {
    room_.append(m, data);
  } else {
    const std::span<std::byte> to = matching_[m.receive].receive.to;
    const std::size_t takes = at < to.size() ? std::min(to.size() - at, data.size()) : 0;
    if (takes != 0) store_to_memory(to.data() + at, data.data(), takes);
  }
  m.got += static_cast<std::uint32_t>(data.size());
}

Executed MessageReceiver::on_data(const Connection& connection, const Operation& o, Time now) {
  const std::uint32_t index = records_.find(connection.index(), o.id);
  if (index == kNone) return Executed::kAll;  // T34
  Message& m = records_[index];
  if (m.done_due || m.kind == Message::Kind::kWriteImm) return Executed::kAll;  // as if it had none
  const std::uint64_t end = std::uint64_t{o.at} + o.data.size();
  if (end > m.total) return Executed::kBroken;
  if (o.has(kWanted)) {
    const std::uint64_t sum = std::uint64_t{m.got} + o.data.size();
    // Nothing is wanted before the WANT has left.
    if (by_itself(m) || m.want_due || end > m.wanted || sum > m.wanted) return Executed::kBroken;
    store(m, o.data, o.at);
    m.covered += marks_.of(o.at, end);
    if (m.got != m.wanted) return Executed::kAll;
    if (m.covered != marks_.of(0, m.wanted)) return Executed::kBroken;  // some came twice
    finish(index, now);
    return Executed::kAll;
  }
  if (!by_itself(m)) return Executed::kAll;  // dropped
  if (o.at != m.got) return Executed::kBroken;
  store(m, o.data, o.at);
  if (m.receive != kNone && m.got == m.total) finish(index, now);
  return Executed::kAll;
}

void MessageReceiver::on_cancel(const Connection& connection, const Operation& o) {
  const std::uint32_t index = records_.find(connection.index(), o.id);
  if (index == kNone || !records_[index].waits) return;  // T36
  matching_.remove_message(index);
  Message& m = records_[index];
  room_.release(m);
  m.done_due = true;
  m.done_status = Status::kCancelled;
  answer(index);
}

void MessageReceiver::on_imm(const Connection& connection, const Operation& o, Status status,
                             Time now) {
  const std::uint32_t index = records_.take(connection.index());
  lend(now);
  Message& m = start(connection, index, o);
  m.kind = Message::Kind::kWriteImm;
  if (status != Status::kOk) {
    release(index, now);  // it failed: nothing is told
    return;
  }
  m.total = static_cast<std::uint32_t>(o.data.size());
  over(index | kIsMessage);
}

bool MessageReceiver::look_at_early(const Connection& connection, const Operation& o) {
  const std::uint32_t index = records_.find(connection.index(), o.id);
  if (index == kNone) return false;
  Message& m = records_[index];
  const std::uint64_t end = std::uint64_t{o.at} + o.data.size();
  const std::uint64_t sum = std::uint64_t{m.got} + m.early + o.data.size();
  if (m.done_due || m.want_due || m.wanted == 0 || end > m.wanted || sum > m.wanted) return false;
  m.early += static_cast<std::uint32_t>(o.data.size());
  m.early_covered += marks_.of(o.at, end);
  return sum != m.wanted || m.covered + m.early_covered == marks_.of(0, m.wanted);
}

void MessageReceiver::forget_early(const Connection& connection, const Operation& o) {
  const std::uint32_t index = records_.find(connection.index(), o.id);
  if (index == kNone) return;
  records_[index].early = 0;
  records_[index].early_covered = 0;
}

// ---- what follows ----

/// The receive has all that it takes of the message (T35).
void MessageReceiver::finish(std::uint32_t message, Time now) {
  Message& m = records_[message];
  Received& received = matching_[m.receive].received;
  received = describe(m);
  const std::size_t room = matching_[m.receive].receive.to.size();
  received.length = static_cast<std::uint32_t>(std::min<std::size_t>(room, m.total));
  received.status = received.length < m.total ? Status::kTooLong : Status::kOk;
  receive_over(m.receive);
  m.receive = kNone;
  const bool told = m.complete || (!by_itself(m) && received.status != Status::kOk);
  m.done_due = told && !m.outlives;
  m.done_status = received.status;
  if (m.done_due) {
    answer(message);
  } else {
    release(message, now);
  }
}

/// A message has one answer due at a time: it would be in the list twice.
void MessageReceiver::answer(std::uint32_t message) {
  Message& m = records_[message];
  assert(m.want_due != m.done_due);
  Side& side = sides_[m.connection.index];
  m.next = kNone;
  (side.due_first == kNone ? side.due_first : records_[side.due_last].next) = message;
  side.due_last = message;
}

bool MessageReceiver::take_answer(std::uint32_t connection, std::size_t room, Operation& o,
                                  Time now) {
  Side& side = sides_[connection];
  o = Operation{};
  if (side.due_first == kNone) {
    o.opcode = Opcode::kCredit;
    if (!records_.credit_due(connection) || head_size(o) > room) return false;
    o.limit = records_.tell(connection).value();
    return true;
  }
  const std::uint32_t index = side.due_first;
  Message& m = records_[index];
  const bool done = !m.want_due;
  o.opcode = done ? Opcode::kDone : Opcode::kWant;
  if (head_size(o) > room) return false;
  o.id = m.id.value();
  o.limit = m.wanted;
  o.status = static_cast<std::uint32_t>(m.done_status);
  side.due_first = m.next;
  if (side.due_first == kNone) side.due_last = kNone;
  m.want_due = false;
  if (done) release(index, now);
  return true;
}

void MessageReceiver::release(std::uint32_t message, Time now) {
  room_.release(records_[message]);
  records_.give(message);
  lend(now);
}

void MessageReceiver::receive_over(std::uint32_t receive) {
  Matching::Slot& slot = matching_[receive];
  slot.received.context = slot.receive.context;
  slot.received.pool = slot.pool;
  over(receive);
}

void MessageReceiver::over(std::uint32_t item) {
  const auto next = [&](std::uint32_t each) -> std::uint32_t& {
    return (each & kIsMessage) != 0 ? records_[each & ~kIsMessage].next : matching_[each].next;
  };
  next(item) = kNone;
  (over_first_ == kNone ? over_first_ : next(over_last_)) = item;
  over_last_ = item;
}

// ---- the owner's calls ----

Received MessageReceiver::describe(const Message& m) {
  Received r;
  r.kind =
      m.kind == Message::Kind::kWriteImm ? Received::Kind::kWriteImm : Received::Kind::kMessage;
  r.pool = m.pool;
  r.connection = m.connection;
  r.peer = m.peer;
  r.endpoint = m.endpoint;
  r.tagged = m.tagged;
  r.tag = m.tag;
  r.has_imm = m.has_imm;
  r.imm = m.imm;
  r.total = m.total;
  return r;
}

bool MessageReceiver::use_pool(EndpointId endpoint, ReceivePool pool) {
  if (pool >= matching_.pools()) return false;
  for (EndpointPool& each : endpoint_pools_) {
    if (each.endpoint == endpoint) return false;
  }
  endpoint_pools_.push_back({endpoint, pool});
  return true;
}

ReceivePosted MessageReceiver::post(ReceivePool pool, const Receive& receive, Time now) {
  if (pool >= matching_.pools()) return ReceivePosted::kInvalid;
  const std::uint32_t message = matching_.find_message(pool, receive);
  if (message == kNone && receive.from) {
    const Connection* c = transport_.find(*receive.from);
    if (c == nullptr || (c->state() != State::kOpening && c->state() != State::kUp)) {
      return ReceivePosted::kEnded;
    }
  }
  const std::uint32_t index = matching_.take(pool, receive);
  if (index == kNone) return ReceivePosted::kFull;
  if (message == kNone) {
    matching_.add_receive(index);
    return ReceivePosted::kTaken;
  }
  matching_.remove_message(message);
  const std::uint32_t connection = records_[message].connection.index;
  join(message, index, now);
  const Message& m = records_[message];
  if (m.kind == Message::Kind::kEager && m.receive == index && m.got == m.total) {
    finish(message, now);
  }
  wake(connection, now);
  return ReceivePosted::kTaken;
}

bool MessageReceiver::cancel(ReceivePool pool, std::uint64_t context) {
  const std::uint32_t receive =
      pool < matching_.pools() ? matching_.find_receive(pool, context) : kNone;
  if (receive == kNone) return false;
  matching_.remove_receive(receive);
  matching_[receive].received.status = Status::kCancelled;
  receive_over(receive);
  return true;
}

bool MessageReceiver::peek(ReceivePool pool, const Receive& receive, Received& message) const {
  const std::uint32_t index =
      pool < matching_.pools() ? matching_.find_message(pool, receive) : kNone;
  if (index == kNone) return false;
  message = describe(records_[index]);
  message.context = receive.context;
  return true;
}

bool MessageReceiver::next(Received& received, Time now) {
  if (over_first_ == kNone) return false;
  const std::uint32_t item = over_first_;
  if ((item & kIsMessage) != 0) {
    const std::uint32_t index = item & ~kIsMessage;
    const std::uint32_t connection = records_[index].connection.index;
    received = describe(records_[index]);
    received.length = received.total;
    over_first_ = records_[index].next;
    release(index, now);
    wake(connection, now);
  } else {
    received = matching_[item].received;
    over_first_ = matching_[item].next;
    matching_.give(item);
  }
  if (over_first_ == kNone) over_last_ = kNone;
  return true;
}

}  // namespace mtl::transport
