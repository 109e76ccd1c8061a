// What comes in on a connection that is UP, and its timers (sections 5.2 and 5.3).
#include <algorithm>
#include <cassert>

#include "transport/connection.h"
#include "transport/operation.h"

namespace mtl::transport {

std::optional<Drop> Connection::receive(const Packet& packet, Time now) {
  if (state_ != State::kUp) {
    if (state_ == State::kOpening && peer_id_ != kNoConnection) answer_due_ = true;  // T7
    return Drop::kNotUp;
  }
  const bool ack = packet.header.type == Type::kAck;
  const std::uint32_t extent = ack ? AckBody(packet.body).extent() : 0;
  if (!send(packet.spoken_of()).plausible(packet.header.ack, extent)) return Drop::kTransportBadAck;
  heard(now);
  take_told(packet, now);
  if (state_ != State::kUp) return std::nullopt;  // what was held behind a REPORT ended it
  if (!ack) return on_data(packet, now);
  if (packet.asks()) {
    receive(Flow::kRequest).ack_due();
    take_another_path();  // perhaps it has not heard the last one
  }
  return std::nullopt;
}

void Connection::heard(Time now) {
  heard_at_ = now;
  poll_at_ = now + timers_.idle_interval;
  repeat_at_ = kNever;  // T6
  ask_due_ = false;
}

void Connection::take_told(const Packet& packet, Time now) {
  const Flow flow = packet.spoken_of();
  const bool ack = packet.header.type == Type::kAck;
  const AckBody bitmap(packet.body);
  send(flow).told({.ack = packet.header.ack,
                   .marks = packet.header.marks,
                   .window = packet.header.window,
                   .bitmap = ack ? &bitmap : nullptr,
                   .psn = packet.header.psn},
                  round_trip_, now,
                  [&](PacketSlot& s) { context_.operations.acknowledged(*this, flow, s, now); });
  while (PacketSlot* s = send(flow).take_passed()) {
    context_.operations.passed(*this, flow, *s, now);
    pool(flow).give(s);
  }
  if (!report_acknowledged_) return;
  report_acknowledged_ = false;
  if (!report_waits_) return;
  report_waits_ = false;
  receive(Flow::kRequest).executed();
  // The peer may have been told that this has arrived, and nothing else makes an ack due that says
  // that it is executed now (T17).
  receive(Flow::kRequest).ack_due();
  execute_held(now);
}

std::optional<Drop> Connection::on_data(const Packet& packet, Time now) {
  const Flow flow = packet.flow();
  ReceiveFlow& from = receive(flow);
  switch (from.place(packet.header.psn)) {
    case ReceiveFlow::Place::kArrived:
      from.copy(now);
      take_another_path();  // perhaps the ack was lost
      return Drop::kTransportDuplicate;
    case ReceiveFlow::Place::kBeyond:
      return Drop::kTransportOutOfWindow;
    default:
      break;
  }
  const auto operations = count_operations(flow, packet.unordered(), packet.body);
  const bool too_long =
      packet.body.size() + kOverhead > terms_.mtu;  // T4; a held one has mtu bytes
  if (!operations || too_long) {                    // T16
    close(EndReason::kProtocol, now);
    return Drop::kTransportMalformed;
  }
  if (flow == Flow::kRequest) {
    if (const auto drop = on_request(packet, *operations, now)) return drop;
  } else {
    const bool congested = (packet.network.flags & network::kFlagCe) != 0;
    from.arrived(packet.header.psn, congested, nullptr, now);
    from.take_held();  // nothing is held: E passes what has arrived
    const DataBody body{packet.header.psn, packet.unordered(), *operations, packet.body};
    execute_in_turn(flow, body, now);
  }
  if (state_ == State::kUp && packet.asks()) from.ack_due();
  return std::nullopt;
}

std::optional<Drop> Connection::on_request(const Packet& packet, std::size_t operations, Time now) {
  ReceiveFlow& from = receive(Flow::kRequest);
  const Psn psn = packet.header.psn;
  const bool congested = (packet.network.flags & network::kFlagCe) != 0;
  const DataBody body{psn, packet.unordered(), operations, packet.body};
  if (psn == from.expected()) {
    from.arrived(psn, congested, nullptr, now);
    if (execute_in_turn(Flow::kRequest, body, now)) execute_held(now);
    return std::nullopt;
  }
  HeldPacket* held = nullptr;
  if (!body.unordered || !context_.operations.execute_early(*this, body, now)) {
    held = from.hold(packet.body);
    if (held == nullptr) return Drop::kNoRoom;
    held->unordered = body.unordered;
    held->operations = static_cast<std::uint8_t>(operations);
  }
  context_.counters.data_early.add();
  from.arrived(psn, congested, held, now);
  return std::nullopt;
}

/// Whether E may go on.
bool Connection::execute_in_turn(Flow flow, const DataBody& body, Time now) {
  switch (context_.operations.execute(*this, flow, body, now)) {
    case Executed::kAll:
      if (flow == Flow::kRequest) receive(flow).executed();
      return true;
    case Executed::kReported:
      report_waits_ = true;
      return false;
    case Executed::kBroken:
      break;
  }
  close(EndReason::kProtocol, now);
  return false;
}

void Connection::execute_held(Time now) {
  ReceiveFlow& from = receive(Flow::kRequest);
  while (HeldPacket* held = from.take_held()) {
    const DataBody body{
        from.expected(), held->unordered, held->operations, {held->body, held->size}};
    const bool on = execute_in_turn(Flow::kRequest, body, now);
    from.give(held);
    if (!on) return;
  }
}

bool Connection::unacknowledged_too_long(Time now) {
  if (unacknowledged_at_ == kNever || unacknowledged_at_ + timers_.peer_timeout > now) return false;
  unacknowledged_at_ =
      std::min(send(Flow::kRequest).oldest_sent(), send(Flow::kResponse).oldest_sent());
  return unacknowledged_at_ != kNever && unacknowledged_at_ + timers_.peer_timeout <= now;
}

void Connection::expire(Time now) {
  switch (state_) {
    case State::kOpening:
      if (give_up_at_ <= now) {
        end(EndReason::kOpenTimeout, now);
      } else if (repeat_due(now)) {
        first_open_due_ = true;
      }
      break;
    case State::kClosing:
      if (give_up_at_ <= now) {
        closed();
      } else if (repeat_due(now)) {
        close_due_ = true;
      }
      break;
    case State::kUp:
      expire_up(now);
      break;
    default:
      break;
  }
}

void Connection::expire_up(Time now) {
  if (heard_at_ + timers_.peer_timeout <= now || unacknowledged_too_long(now)) {
    close(EndReason::kDead, now);
    return;
  }
  if (repeat_due(now)) ask_due_ = true;
  if (poll_at_ <= now) {
    poll_due_ = true;
    poll_at_ = now + timers_.idle_interval;
  }
  for (ReceiveFlow& flow : receive_) flow.expire(now);
  for (SendFlow& flow : send_) {
    const std::uint32_t timed_out = flow.expire(round_trip_, now);
    if (timed_out == 0) continue;
    context_.counters.time_outs.add(timed_out);
    // Nothing gets through: perhaps the path is gone, so new packets leave it as well (T11).
    entropy_ = static_cast<std::uint16_t>(entropy_ + kEntropyStep);
  }
}

Time Connection::deadline(Time now) const {
  Time at = std::min(repeat_at_, give_up_at_);
  if (state_ != State::kUp) return at;
  at = std::min({at, heard_at_ + timers_.peer_timeout, poll_at_});
  if (unacknowledged_at_ != kNever) at = std::min(at, unacknowledged_at_ + timers_.peer_timeout);
  for (const ReceiveFlow& flow : receive_) at = std::min(at, flow.deadline());
  for (const SendFlow& flow : send_) at = std::min(at, flow.deadline(round_trip_));
  const Time ready = context_.operations.ready_at(*this);
  return ready > now ? std::min(at, ready) : at;
}

}  // namespace mtl::transport
