// What a connection sends (sections 5.1 to 5.3).
#include <algorithm>
#include <cassert>
#include <cstring>

#include "transport/connection.h"

namespace mtl::transport {

bool Connection::has_data(Flow flow, Time now) const {
  const SendFlow& to = sending(flow);
  if (to.again() != nullptr) return true;
  return to.open() && context_.operations.waits(*this, flow, now);
}

bool Connection::wants_to_send(Time now) const {
  if (close_due_ || first_open_due_ || answer_due_ || ask_due_) return true;
  if (state_ != State::kUp) return false;
  return poll_due_ || receiving(Flow::kRequest).due() || receiving(Flow::kResponse).due() ||
         has_data(Flow::kRequest, now) || has_data(Flow::kResponse, now);
}

/// What is overdue before what is new (T20), and the flows in turn.
std::optional<Flow> Connection::pick_data(Time now) const {
  const Flow other = turn_ == Flow::kRequest ? Flow::kResponse : Flow::kRequest;
  for (const Flow flow : {turn_, other}) {
    if (sending(flow).again() != nullptr) return flow;
  }
  for (const Flow flow : {turn_, other}) {
    if (has_data(flow, now)) return flow;
  }
  return std::nullopt;
}

/// T17: the flow that a DATA speaks of, best one whose ack is due, and that it can tell whole.
Flow Connection::speak_of() const {
  const auto whole = [&](Flow flow, bool must_be_due) {
    const ReceiveFlow& from = receiving(flow);
    return !from.beyond() && (must_be_due ? from.due() : from.untold());
  };
  for (const bool due : {true, false}) {
    for (const Flow flow : {Flow::kRequest, Flow::kResponse}) {
      if (whole(flow, due)) return flow;
    }
  }
  return Flow::kRequest;
}

/// The flow whose ack is due and is not told by the DATA that leaves anyway.
std::optional<Flow> Connection::ack_to_send(bool data_leaves) const {
  for (const Flow flow : {Flow::kRequest, Flow::kResponse}) {
    const ReceiveFlow& from = receiving(flow);
    if (from.due() && !(data_leaves && !from.beyond() && flow == speak_of())) return flow;
  }
  return std::nullopt;
}

bool Connection::next_packet(Buffer& out, Time now) {
  if (close_due_) {
    make_close(out);
    return true;
  }
  if (first_open_due_ || answer_due_ || ask_due_) {
    make_open(out, now);
    return true;
  }
  if (state_ != State::kUp) return false;
  const auto data = pick_data(now);
  if (const auto flow = ack_to_send(data.has_value())) {
    make_ack(*flow, false, out, now);
    return true;
  }
  if (poll_due_) {
    poll_due_ = false;
    make_ack(Flow::kRequest, true, out, now);
    take_another_path();
    return true;
  }
  if (!data) return false;
  PacketSlot* slot = send(*data).again();
  const bool again = slot != nullptr;
  if (!again) slot = new_data(*data, now);
  if (slot == nullptr) {
    // What waited can never be sent, and has failed instead: the ack does not leave with it.
    const auto flow = ack_to_send(false);
    if (flow) make_ack(*flow, false, out, now);
    return flow.has_value();
  }
  make_data(*data, *slot, again, out, now);
  return true;
}

PacketSlot* Connection::new_data(Flow flow, Time now) {
  PacketSlot* slot = pool(flow).take();
  if (slot == nullptr) return nullptr;
  const std::size_t room = (terms_.mtu - kOverhead) & ~std::size_t{3};
  if (context_.operations.fill(*this, flow, *slot, room, now)) return slot;
  pool(flow).give(slot);
  return nullptr;
}

void Connection::make_data(Flow flow, PacketSlot& slot, bool again, Buffer& out, Time now) {
  SendFlow& to = send(flow);
  if (again) {
    to.sent_again(slot, round_trip_, now);
    slot.entropy = static_cast<std::uint16_t>(slot.entropy + kEntropyStep);
    context_.counters.data_again.add();
  } else {
    to.sent_new(slot, round_trip_, now);
    slot.entropy = next_entropy();
    if (unacknowledged_at_ == kNever) unacknowledged_at_ = now;
  }
  const bool ask = again || (!has_data(flow, now) && !to.asks());  // T18
  if (ask) to.asked(slot);
  const Flow spoken = speak_of();
  ReceiveFlow& from = receive(spoken);
  const Header header{.type = Type::kData,
                      .flags = static_cast<std::uint8_t>(
                          (spoken == Flow::kResponse ? kFlagResponse : 0) |
                          (slot.unordered ? kFlagUnordered : 0) | (ask ? kFlagAsk : 0)),
                      .window = settings_.window,
                      .marks = from.marks(),
                      .connection = peer_id_,
                      .psn = slot.psn,
                      .ack = from.expected()};
  const auto packet_class = static_cast<std::uint8_t>(flow);
  slot.write_body(begin_packet(out, header, packet_class, slot.body_size, slot.entropy));
  network::seal(out.bytes());
  from.told(!from.beyond());
  turn_ = flow == Flow::kRequest ? Flow::kResponse : Flow::kRequest;
}

void Connection::make_ack(Flow flow, bool ask, Buffer& out, Time now) {
  ReceiveFlow& from = receive(flow);
  const Header header{.type = Type::kAck,
                      .flags = static_cast<std::uint8_t>(
                          (flow == Flow::kResponse ? kFlagResponse : 0) | (ask ? kFlagAsk : 0)),
                      .window = settings_.window,
                      .marks = from.marks(),
                      .connection = peer_id_,
                      .psn = from.last(),
                      .ack = from.expected()};
  std::array<std::uint32_t, kMaxWords> words;
  // T4; what does not fit is told when E has moved on.
  const std::size_t fits = (terms_.mtu - kOverhead - sizeof(std::uint32_t)) / kBitmapWord;
  const std::size_t count = std::min(from.bitmap(words), fits);
  std::byte* body = begin_packet(out, header, network::kClassResponse,
                                 sizeof(std::uint32_t) + count * kBitmapWord, own_entropy_);
  encode_ack(from.held(now), std::span(words).first(count), body);
  network::seal(out.bytes());
  from.told(true);
}

void Connection::make_open(Buffer& out, Time now) {
  const bool up = state_ == State::kUp;
  const bool answer = answer_due_;
  const bool first = !answer && first_open_due_;
  const bool ask = !answer || !up;
  (answer ? answer_due_ : first ? first_open_due_ : ask_due_) = false;
  if (ask) {
    if (asks_sent_++ == 0) ask_sent_at_ = now;
  }
  const Header header{.type = Type::kOpen,
                      .flags = static_cast<std::uint8_t>(ask ? kFlagAsk : 0),
                      .window = settings_.window,
                      .connection = first ? kNoConnection : peer_id_};
  const std::size_t body = up ? terms_.mtu - kOverhead : kOpenBody;
  std::byte* p = begin_packet(out, header, first ? network::kClassRequest : network::kClassResponse,
                              body, own_entropy_);
  encode(Open{.id = id_,
              .endpoint = endpoint_,
              .peer = peer_.endpoint,
              .mtu = settings_.mtu,
              .reads = settings_.reads,
              .psn = first_psn_,
              .messages = messages_told_,
              .eager = settings_.eager,
              .key = first ? key_ : 0},
         p);
  std::memset(p + kOpenBody, 0, body - kOpenBody);
  network::seal(out.bytes());
  take_another_path();
}

void Connection::make_close(Buffer& out) {
  close_due_ = false;
  const Header header{.type = Type::kClose, .connection = peer_id_};
  encode(close_reason_,
         begin_packet(out, header, network::kClassResponse, kCloseBody, own_entropy_));
  network::seal(out.bytes());
  take_another_path();
}

std::uint16_t Connection::next_entropy() {
  const std::uint32_t which = sprayed_++ % settings_.spray;
  return static_cast<std::uint16_t>(entropy_ + which * kEntropyStep);
}

std::byte* Connection::begin_packet(Buffer& out, const Header& header, std::uint8_t packet_class,
                                    std::size_t body, std::uint16_t entropy) {
  context_.counters.packets_out[static_cast<std::size_t>(header.type)].add();
  return write_headers(out,
                       {.hop_limit = settings_.hop_limit,
                        .packet_class = packet_class,
                        .proto = static_cast<std::uint8_t>(network::Proto::kTransport),
                        .dst = peer_.node,
                        .src = settings_.node,
                        .entropy = entropy,
                        .partition = peer_.partition},
                       header, body);
}

}  // namespace mtl::transport
