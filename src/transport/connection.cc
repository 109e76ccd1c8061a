// How a connection comes and goes (section 5.1).
#include "transport/connection.h"

#include <algorithm>
#include <cassert>

namespace mtl::transport {
namespace {

CloseReason close_reason(EndReason reason) {
  switch (reason) {
    case EndReason::kProtocol:
      return CloseReason::kProtocol;
    case EndReason::kDead:
      return CloseReason::kDead;
    default:
      return CloseReason::kDone;
  }
}

}  // namespace

const char* name(State state) {
  switch (state) {
    case State::kFree:
      return "free";
    case State::kOpening:
      return "opening";
    case State::kUp:
      return "up";
    case State::kClosing:
      return "closing";
    case State::kEnded:
      return "ended";
  }
  return "?";
}

const char* name(EndReason reason) {
  switch (reason) {
    case EndReason::kNone:
      return "none";
    case EndReason::kClosed:
      return "closed";
    case EndReason::kProtocol:
      return "protocol";
    case EndReason::kDead:
      return "dead";
    case EndReason::kPeerClose:
      return "peer_close";
    case EndReason::kPeerRestart:
      return "peer_restart";
    case EndReason::kRejected:
      return "rejected";
    case EndReason::kOpenTimeout:
      return "open_timeout";
  }
  return "?";
}

Connection::Connection(const ConnectionContext& context, std::uint32_t index)
    : context_(context),
      settings_(context.settings),
      timers_(context.settings.timers),
      index_(index),
      round_trip_(timers_),
      send_{SendFlow(settings_, context.request_packets),
            SendFlow(settings_, context.response_packets)},
      receive_{ReceiveFlow(settings_, context.held_packets),
               ReceiveFlow(settings_, context.held_packets)} {}

void Connection::begin(EndpointId endpoint, const Peer& peer, ConnectionId id, Psn psn, Time now) {
  assert(state_ == State::kFree);
  state_ = State::kOpening;
  endpoint_ = endpoint;
  peer_ = peer;
  id_ = id;
  peer_id_ = kNoConnection;
  first_psn_ = psn;
  terms_ = {};
  opened_here_ = false;
  end_reason_ = EndReason::kNone;
  reject_reason_ = {};
  key_ = 0;
  first_open_due_ = answer_due_ = ask_due_ = close_due_ = poll_due_ = false;
  report_waits_ = report_acknowledged_ = false;
  repeat_at_ = poll_at_ = unacknowledged_at_ = kNever;
  give_up_at_ = now + timers_.open_timeout;
  asks_sent_ = 0;
  round_trip_.reset();
  turn_ = Flow::kRequest;
  // Connections of one pair of nodes begin on different paths (N8).
  entropy_ = own_entropy_ = static_cast<std::uint16_t>(id.value());
  sprayed_ = 0;
  messages_told_ = context_.operations.begun(*this);
}

void Connection::open(std::uint64_t key, Time now) {
  assert(state_ == State::kOpening);
  opened_here_ = true;
  key_ = key;
  first_open_due_ = true;
  give_up_at_ = now + timers_.open_timeout;
  repeat_from(now);
}

void Connection::repeat_from(Time now) {
  repeat_interval_ = timers_.open_interval;
  repeat_at_ = now + repeat_interval_;
}

/// Whether an OPEN or CLOSE is to be repeated now; the next time is then twice as far.
bool Connection::repeat_due(Time now) {
  if (repeat_at_ > now) return false;
  repeat_interval_ = std::min(2 * repeat_interval_, timers_.open_interval_max);
  repeat_at_ = now + repeat_interval_;
  return true;
}

void Connection::on_first_open(const Packet& packet, const Open& open) {
  if (state_ == State::kOpening) peer_id_ = open.id;
  if (packet.asks()) answer_due_ = true;
}

bool Connection::on_open(const Packet& packet, const Open& open, Time now) {
  if (state_ == State::kUp && open.id != peer_id_) return false;
  const bool opening = state_ == State::kOpening;
  if (opening) come_up(packet, open, now);
  if (packet.asks()) {
    answer_due_ = true;
    if (opening) repeat_from(now);
  } else {
    // The peer is UP, and says so.
    repeat_at_ = kNever;
    ask_due_ = false;
  }
  return true;
}

void Connection::come_up(const Packet& packet, const Open& open, Time now) {
  state_ = State::kUp;
  peer_id_ = open.id;
  terms_ = {.mtu = std::min(settings_.mtu, open.mtu),
            .reads = open.reads,
            .messages = open.messages,
            .eager = open.eager};
  if (asks_sent_ == 1) round_trip_.sample(now - ask_sent_at_);
  for (SendFlow& flow : send_) flow.start(first_psn_, packet.header.window);
  for (ReceiveFlow& flow : receive_) flow.start(open.psn);
  receive(Flow::kRequest).ack_due();  // T17
  first_open_due_ = false;
  repeat_at_ = give_up_at_ = kNever;
  heard_at_ = now;
  poll_at_ = now + timers_.idle_interval;
  context_.counters.ups.add();
  context_.operations.up(*this);
}

/// T10: all that is not complete fails.
void Connection::end(EndReason reason, Time now) {
  const bool was_up = state_ == State::kUp;
  state_ = State::kEnded;
  end_reason_ = reason;
  first_open_due_ = answer_due_ = ask_due_ = close_due_ = poll_due_ = false;
  repeat_at_ = give_up_at_ = poll_at_ = unacknowledged_at_ = kNever;
  report_waits_ = report_acknowledged_ = false;
  if (was_up) {
    for (const Flow flow : {Flow::kRequest, Flow::kResponse}) {
      send(flow).clear([&](PacketSlot& s) { context_.operations.dropped(*this, flow, s); });
      receive(flow).clear();
    }
  }
  context_.operations.ended(*this, now);
}

void Connection::on_reject(RejectReason reason, Time now) {
  reject_reason_ = reason;
  end(EndReason::kRejected, now);
}

void Connection::on_unknown_to_peer(Time now) {
  if (state_ == State::kOpening) {
    peer_id_ = kNoConnection;
    answer_due_ = false;
  } else if (state_ == State::kUp) {
    end(EndReason::kPeerRestart, now);
  } else if (state_ == State::kClosing) {
    closed();
  }
}

/// Nobody waits for our CLOSE any more.
void Connection::closed() {
  state_ = State::kEnded;
  close_due_ = false;
  repeat_at_ = give_up_at_ = kNever;
}

void Connection::close(EndReason reason, Time now) {
  assert(state_ == State::kOpening || state_ == State::kUp);
  end(reason, now);
  if (peer_id_ == kNoConnection) return;
  state_ = State::kClosing;
  close_reason_ = close_reason(reason);
  close_due_ = true;
  repeat_from(now);
  give_up_at_ = now + timers_.open_timeout;
}

bool Connection::on_close(ConnectionId& answer_to, Time now) {
  answer_to = peer_id_;
  switch (state_) {
    case State::kUp:
      end(EndReason::kPeerClose, now);
      return true;
    case State::kOpening:
      peer_id_ = kNoConnection;
      answer_due_ = false;
      if (!opened_here_) end(EndReason::kPeerClose, now);
      return answer_to != kNoConnection;
    default:
      closed();  // it answers ours, or both closed at once
      return false;
  }
}

void Connection::free() {
  assert(state_ == State::kEnded);
  state_ = State::kFree;
}

}  // namespace mtl::transport
