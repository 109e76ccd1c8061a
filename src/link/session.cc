#include <algorithm>
#include <array>
#include <utility>

#include "link/link.h"

// Frames of a session (sections 3.2 to 3.4): what comes in, and what the owner queues and releases.
namespace mtl::link {
namespace {

constexpr std::size_t kBurst = 32;  // packets told to the owner at once

constexpr std::uint8_t bit(std::size_t vc) {
  return static_cast<std::uint8_t>(1U << vc);
}

}  // namespace

/// Tells the owner of the packets that have come in order. Those of one burst are told of at once,
/// but before anything that what the owner does could influence, or that tells it something else:
/// acks, limits, frames of another kind, a packet for which there is no credit, the end of the
/// session.
[[gnu::noinline]] void Link::hand_over() {
  if (in_order_count_ == 0) return;
  const std::span<Buffer* const> packets =
      std::span(in_order_).first(std::exchange(in_order_count_, 0));
  std::uint64_t bytes = 0;
  for (const Buffer* packet : packets) bytes += packet->length;
  counters_.packets_in.add(packets.size());
  counters_.bytes_in.add(bytes);
  owner_->packets_in(config_.port, packets);
}

void Link::on_session_frame(const Decoded& frame, Buffer* buffer, Time now) {
  const Header& header = frame.header;
  last_valid_ = now;
  if (!heard_) {
    heard_ = true;
    owner_->link_changed(config_.port);
  }
  if (header.kind != Kind::kData) hand_over();
  if (header.kind == Kind::kClose) {
    give_back(buffer);
    restart(DownReason::kPeerClose, now);
    return;
  }
  if (!on_ack(header.ack, now)) {  // L16
    counters_.drops.add(Drop::kBadAck);
    give_back(buffer);
    return;
  }
  if (header.credit_vc != kNoCreditVc) on_limit(header.credit_vc, header.credit, now);
  if (header.kind == Kind::kData) {
    on_data(header, buffer, now);
    return;
  }
  receiver_.peer_next(header.seq);  // L14
  if (header.kind == Kind::kStatus) {
    on_status(header, frame.body, now);
  } else {
    on_nack(frame.body);
  }
  give_back(buffer);
}

bool Link::on_ack(Seq ack, Time now) {
  if (ack.before(sender_.oldest())) return true;  // L16: behind una, ignored
  if (!sender_.valid_ack(ack)) return false;
  if (ack == sender_.oldest()) return true;
  hand_over();
  std::array<Buffer*, kBurst> acked;
  while (sender_.oldest() != ack) {
    const std::size_t n = sender_.take_acked(ack, acked);
    counters_.packets_acked.add(n);
    owner_->packets_acked(config_.port, std::span(acked).first(n));
  }
  timeouts_ = 0;
  replay_at_ = sender_.outstanding() == 0 ? kNever : now + replay_timeout_;
  arm(replay_at_);
  return true;
}

void Link::on_limit(std::size_t vc, CellCount limit, Time now) {
  if (!limit_[vc].before(limit)) return;  // L21: not ahead
  hand_over();
  limit_[vc] = limit;
  head_changed(vc, now);
}

void Link::on_data(const Header& header, Buffer* buffer, Time now) {
  const Seq seq = header.seq;
  const std::size_t vc = header.vc.value();
  const std::uint16_t cells = cell_.cells(header.length);
  const Receiver::Place place = receiver_.place(seq);
  std::optional<Drop> drop;
  switch (place) {  // L11
    case Receiver::Place::kBehind:
      ack_due_ = true;
      drop = Drop::kDuplicate;
      break;
    case Receiver::Place::kOutside:
      drop = Drop::kOutOfWindow;
      break;
    case Receiver::Place::kHeldAlready:
      drop = Drop::kDuplicate;
      break;
    case Receiver::Place::kNext:
    case Receiver::Place::kAhead:
      // The owner may release some of what came just before.
      if (over_credit(vc, cells)) hand_over();
      if (over_credit(vc, cells)) drop = Drop::kOverCredit;
      break;
  }
  if (drop) {
    counters_.drops.add(*drop);
    give_back(buffer);
    return;
  }
  buffer->pull(kFrameHeader);
  buffer->trim(header.length);
  Receiver::Frame frame{buffer, header.vc, cells};
  if (!intact(buffer->notes.crc, buffer->bytes())) {  // L12
    counters_.drops.add(Drop::kBadPacketCrc);
    give_back(buffer);
    if (!receiver_.crc_failed(seq)) return;
    counters_.drops.add(Drop::kPoisoned);
    frame.packet = nullptr;
  }
  accept(seq, place, frame, now);
}

void Link::accept(Seq seq, Receiver::Place place, const Receiver::Frame& frame, Time now) {
  accepted_[frame.vc.value()] += frame.cells;
  occupied_[frame.vc.value()] += frame.cells;
  if (place == Receiver::Place::kAhead) {
    receiver_.hold(seq, frame);
    return;
  }
  receiver_.accept_next();
  // L23: E is ahead of the ack last told from here on.
  if (ack_since_ == kNever) {
    ack_since_ = now;
    arm(now + config_.timers.ack_delay);
  }
  deliver(frame, now);
  Receiver::Frame held;
  while (receiver_.next_held(held)) deliver(held, now);
}

void Link::deliver(const Receiver::Frame& frame, Time now) {
  if (frame.packet == nullptr) {  // L12: poisoned, its cells are used and free at once
    hand_over();
    release(frame.vc, frame.cells, now);
    return;
  }
  PacketNotes notes;
  notes.ingress = config_.port;
  notes.ingress_vc = frame.vc;
  notes.ingress_cells = frame.cells;
  frame.packet->notes = notes;
  in_order_[in_order_count_++] = frame.packet;
  if (in_order_count_ == in_order_.size()) hand_over();
}

void Link::on_status(const Header& header, std::span<const std::byte> body, Time now) {
  const Status status = decode_status(body);
  for (std::size_t v = 0; v < kVcs; ++v) on_limit(v, status.allocation[v], now);
  status_t_tx_ = status.t_tx;
  status_at_ = now;
  if (header.flags & kFlagEcho) {  // L19
    // Both ends stamp with the time of the pass they are in, so that a short way may seem to take
    // less than nothing.
    const auto sample = static_cast<std::int32_t>(wire_clock(now) - status.t_echo);
    sample_round_trip(Duration{std::max(sample, 1)});
  }
  if (header.flags & kFlagPoll) ask_for_status(answer_due_, now);  // L18a
}

void Link::on_nack(std::span<const std::byte> body) {
  for (std::size_t i = 0; i < body.size() / kNackRange; ++i) {
    const NackRange range = decode_range(body, i);
    sender_.send_again(range.first, range.count);
  }
}

void Link::sample_round_trip(Duration sample) {
  rtt_last_ = sample;
  if (rtt_ == Duration::zero()) {
    rtt_ = sample;
    rtt_var_ = sample / 2;
  } else {  // the weights of RFC 6298
    rtt_var_ += (std::chrono::abs(rtt_ - sample) - rtt_var_) / 4;
    rtt_ += (sample - rtt_) / 8;
  }
  const Timers& t = config_.timers;
  if (!t.adaptive) return;
  const Duration wait = 2 * rtt_ + 4 * rtt_var_;  // L27
  replay_timeout_ = std::clamp(wait + t.ack_delay, t.adaptive_min, t.adaptive_max);
  nack_interval_ = std::clamp(wait, t.adaptive_min, t.adaptive_max);
  arm(exact_deadline());  // a shorter interval brings forward what is running already
}

void Link::submit(Buffer* packet, Time now) {
  const std::size_t vc = packet->notes.egress_vc.value();
  const bool first = queues_[vc].empty();
  queues_[vc].push(packet);
  queue_cells_[vc] += peer_cell_.cells(packet->length);
  ++queued_;
  queued_bytes_ += packet->length;
  if (packet->notes.own) ++queued_own_;
  if (first) head_changed(vc, now);
}

void Link::head_changed(std::size_t vc, Time now) {
  const std::uint8_t mask = bit(vc);
  const auto without = [mask](std::uint8_t vcs) { return static_cast<std::uint8_t>(vcs & ~mask); };
  const auto with = [mask](std::uint8_t vcs) { return static_cast<std::uint8_t>(vcs | mask); };
  const bool lacked = lacking_ & mask;
  if (queues_[vc].empty()) {
    ready_ = without(ready_);
    lacking_ = without(lacking_);
    return;
  }
  const CellCount need = used_[vc] + peer_cell_.cells(queues_[vc].front()->length);
  if (need == limit_[vc] || need.before(limit_[vc])) {  // L21
    ready_ = with(ready_);
    lacking_ = without(lacking_);
    return;
  }
  ready_ = without(ready_);
  lacking_ = with(lacking_);
  lacks_since_[vc] = now;
  if (!lacked) counters_.credit_stalls.add();
  arm(std::max(now, last_poll_) + replay_timeout_);
}

void Link::release(Vc vc, std::uint16_t count, Time now) {
  const std::size_t v = vc.value();
  occupied_[v] -= count;
  allocation_[v] += count;
  if (state_ != State::kUp) return;  // enter_init() and enter_up() begin the clocks anew
  const std::uint8_t mask = bit(v);
  if (!(ahead_ & mask)) {
    ahead_ = static_cast<std::uint8_t>(ahead_ | mask);
    ahead_since_[v] = now;
    arm(now + config_.timers.ack_delay);
  }
  if (allocation_[v].since(told_[v]) >= quarter_[v]) {
    quarter_ahead_ = static_cast<std::uint8_t>(quarter_ahead_ | mask);
  }
}

}  // namespace mtl::link
