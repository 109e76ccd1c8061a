#include <bit>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "link/link.h"

// Making frames when the port has room (L26): only here are seq, ack, credit and times stamped.
namespace mtl::link {
namespace {

/// The first VC of `mask` counting up cyclically from `turn`. `mask` is not 0.
std::size_t first_from(std::uint8_t mask, std::uint8_t turn) {
  const auto rotated = std::rotr(mask, turn);
  return (static_cast<std::size_t>(std::countr_zero(rotated)) + turn) % kVcs;
}

}  // namespace

bool Link::next_frame(Time now, FrameOut& out) {
  if (close_due_) {
    make_close(out);
    return true;
  }
  if (state_ == State::kDown) return false;
  if (init_fresh_due_ || init_due_) {
    const bool fresh = init_fresh_due_;
    (fresh ? init_fresh_due_ : init_due_) = false;
    make_init(fresh, now, out);
    return true;
  }
  if (state_ != State::kUp) return false;
  // Most of the time only DATA waits: the rest is asked for before it is called.
  if ((sender_.again_waits() && make_again(now, out)) || (nack_is_due() && make_nack(now, out))) {
    return true;
  }
  // L26 orders the frames of one event. A STATUS that an earlier one asked for is not to wait
  // behind new DATA for as long as a busy port has no room for both.
  if (status_due_since_ < now && make_status(now, out)) return true;
  return make_data(now, out) || make_status(now, out);
}

bool Link::wants_to_send() const {
  if (close_due_ || init_fresh_due_ || init_due_) return true;
  // Out of UP, what the session left behind waits for enter_init() to be cleared.
  return state_ == State::kUp && (sender_.again_waits() || nack_is_due() ||
                                  (ready_ != 0 && sender_.window_open()) || status_is_due());
}

/// Ethernet header and link header, both with all that the other end will check.
void Link::finish(const Header& header, FrameOut& out, Time now) {
  const std::byte* covered =
      out.packet != nullptr ? out.packet->data : out.head.data() + kFrameHeader;
  std::memcpy(out.head.data(), ethernet_.data(), 8);  // in pieces: see FrameOut::copy_header
  std::memcpy(out.head.data() + 8, ethernet_.data() + 8, 4);
  std::memcpy(out.head.data() + 12, ethernet_.data() + 12, 2);
  encode(header, {covered, header.length}, out.head.data() + kEthernetHeader);
  out.kind = header.kind;
  out.replay = header.flags & kFlagReplay && header.kind == Kind::kData;
  out.head_length = static_cast<std::uint32_t>(kFrameHeader + (out.packet ? 0 : header.length));
  counters_.frames_out[static_cast<std::size_t>(header.kind)].add();
  last_sent_ = now;
  // L23: counted from the last frame of any kind. While it was due nothing armed it.
  if (std::exchange(keepalive_due_, false)) arm(now + config_.timers.keepalive_interval);
}

[[gnu::cold, gnu::noinline]] void Link::make_close(FrameOut& out) {
  std::byte* body = out.head.data() + kFrameHeader;
  store32(body, std::uint32_t{static_cast<std::uint8_t>(close_due_->reason)} << 24);
  const Header header{.kind = Kind::kClose, .epoch = close_due_->epoch, .length = kCloseBody};
  encode_ethernet(close_due_->mac, config_.mac, config_.ether_type, out.head.data());
  encode(header, {body, kCloseBody}, out.head.data() + kEthernetHeader);
  out.packet = nullptr;
  out.kind = Kind::kClose;
  out.replay = false;
  out.head_length = kFrameHeader + kCloseBody;
  out.min_length = kMinFrame;
  counters_.frames_out[static_cast<std::size_t>(Kind::kClose)].add();
  close_due_.reset();
}

/// `fresh`: the INIT of L4, made before anything of the peer was taken.
[[gnu::cold, gnu::noinline]] void Link::make_init(bool fresh, Time now, FrameOut& out) {
  const bool known = !fresh && peer_.has_value();
  if (known && !told(peer_->nonce)) {
    nonces_told_[nonce_turn_] = peer_->nonce;
    nonce_turn_ = static_cast<std::uint8_t>((nonce_turn_ + 1) % nonces_told_.size());
  }
  const Init init{.nonce = ours_.nonce,
                  .peer_nonce = known ? peer_->nonce : 0,
                  .node = config_.node,
                  .port = config_.port,
                  .mtu = config_.mtu,
                  .epoch = ours_.epoch,
                  .cell = config_.cell,
                  .window = config_.window,
                  .capacity = config_.capacity};
  out.packet = nullptr;
  encode(init, out.head.data() + kFrameHeader);
  finish({.kind = Kind::kInit, .length = kInitBody}, out, now);
  if (!known) {
    encode_ethernet(config_.peer_mac.value_or(kUnknownPeer), config_.mac, config_.ether_type,
                    out.head.data());
  }
  // P4: as long as the longest DATA, so that a path that loses long frames never comes UP.
  out.min_length = known ? kFrameHeader + link_mtu_ : kMinFrame;
}

[[gnu::noinline]] bool Link::make_again(Time now, FrameOut& out) {
  Seq seq;
  Buffer* packet = nullptr;
  if (!sender_.next_again(seq, packet)) return false;
  counters_.replays.add();
  make_data_frame(seq, packet, true, now, out);
  return true;
}

bool Link::make_data(Time now, FrameOut& out) {
  // L10: no more than the peer's window; and nothing before it was heard, because no VC is ready
  // before a frame of the session told a limit (L21).
  if (ready_ == 0 || !sender_.window_open()) return false;
  const std::size_t vc = first_from(ready_, turn_);  // L25
  turn_ = static_cast<std::uint8_t>((vc + 1) % kVcs);
  Buffer* packet = queues_[vc].pop();
  const std::uint16_t cells = peer_cell_.cells(packet->length);
  queue_cells_[vc] -= cells;
  used_[vc] += cells;
  --queued_;
  queued_bytes_ -= packet->length;
  if (packet->notes.own) --queued_own_;
  head_changed(vc, now);
  if (sender_.outstanding() == 0) {  // L17: armed while frames are unacknowledged
    replay_at_ = now + replay_timeout_;
    arm(replay_at_);
  }
  const Seq seq = sender_.sent(packet);
  make_data_frame(seq, packet, false, now, out);
  return true;
}

void Link::make_data_frame(Seq seq, Buffer* packet, bool replay, Time now, FrameOut& out) {
  Header header{.kind = Kind::kData,
                .epoch = peer_->epoch,
                .length = static_cast<std::uint16_t>(packet->length),
                .seq = seq,
                .ack = receiver_.expected(),
                .vc = packet->notes.egress_vc,
                .flags = replay ? std::uint8_t{kFlagReplay} : std::uint8_t{0}};
  if (ahead_ != 0) {  // L24
    const std::size_t told = first_from(ahead_, credit_turn_);
    header.credit_vc = static_cast<std::uint8_t>(told);
    header.credit = allocation_[told];
    credit_turn_ = static_cast<std::uint8_t>((told + 1) % kVcs);
    tell_allocation(told);
  }
  tell_ack();
  counters_.bytes_out.add(packet->length);
  out.packet = packet;
  out.min_length = kMinFrame;
  finish(header, out, now);
}

[[gnu::noinline]] bool Link::make_nack(Time now, FrameOut& out) {
  // L15: the timer's NACK also lists what is at least half the interval old.
  const Duration age = nack_by_timer_ ? nack_interval_ / 2 : nack_interval_;
  std::array<NackRange, kMaxNackRanges> ranges;
  const std::size_t count = receiver_.list_missing(now, age, ranges, nack_more_);
  if (nack_by_timer_ && !nack_more_) {
    nack_by_timer_ = false;
    // While it waited for the port, other listings have grown old, and nothing armed their timer.
    const Time oldest = receiver_.oldest_listing();
    if (oldest != kNever) arm(oldest + nack_interval_);
  }
  if (count == 0) return false;  // what was missing has come meanwhile
  arm(now + nack_interval_);
  encode(std::span<const NackRange>(ranges.data(), count), out.head.data() + kFrameHeader);
  out.packet = nullptr;
  out.min_length = kMinFrame;
  finish({.kind = Kind::kNack,
          .epoch = peer_->epoch,
          .length = static_cast<std::uint16_t>(count * kNackRange),
          .seq = sender_.next(),
          .ack = receiver_.expected()},
         out, now);
  tell_ack();
  return true;
}

bool Link::status_is_due() const {
  const Seq expected = receiver_.expected();
  return answer_due_ || poll_due_ || ack_due_ || keepalive_due_ || quarter_ahead_ != 0 ||
         credit_due_ != 0 || expected.since(ack_told_) >= config_.timers.ack_every;
}

[[gnu::noinline]] bool Link::make_status(Time now, FrameOut& out) {
  if (!status_is_due()) return false;
  // L18a: an answer carries no POLL, so a POLL that is due as well takes a STATUS of its own.
  const bool poll = poll_due_ && !answer_due_;
  std::uint8_t flags = 0;
  Status status{.allocation = allocation_, .t_tx = wire_clock(now)};
  if (status_at_ != kNever) {
    flags |= kFlagEcho;
    status.t_echo = status_t_tx_ + static_cast<std::uint32_t>((now - status_at_).count());
  }
  if (poll) {
    flags |= kFlagPoll;
    poll_due_ = false;
    last_poll_ = now;
    counters_.polls.add();
    arm(poll_time());
  }
  answer_due_ = false;
  status_due_since_ = poll_due_ ? status_due_since_ : kNever;
  out.packet = nullptr;
  out.min_length = kMinFrame;
  encode(status, out.head.data() + kFrameHeader);
  finish({.kind = Kind::kStatus,
          .epoch = peer_->epoch,
          .length = kStatusBody,
          .seq = sender_.next(),
          .ack = receiver_.expected(),
          .flags = flags},
         out, now);
  tell_ack();
  for (std::size_t v = 0; v < kVcs; ++v) tell_allocation(v);
  return true;
}

void Link::tell_ack() {
  ack_told_ = receiver_.expected();
  ack_since_ = kNever;
  ack_due_ = false;
}

void Link::tell_allocation(std::size_t vc) {
  const auto keep = static_cast<std::uint8_t>(~(1U << vc));
  told_[vc] = allocation_[vc];
  ahead_ &= keep;
  quarter_ahead_ &= keep;
  credit_due_ &= keep;
}

}  // namespace mtl::link
