#include "link/link.h"

#include <algorithm>
#include <cstring>

#include "base/byte_order.h"

// Bring-up (section 3.1) and the owner's calls. What happens to frames of a session is in
// session.cc, timers in timers.cc, and the making of frames in frames.cc.
namespace mtl::link {
namespace {

constexpr std::size_t kSourceMac = 6;  // offset in an Ethernet header; the EtherType follows it

}  // namespace

const char* name(State state) {
  switch (state) {
    case State::kDown:
      return "down";
    case State::kInit:
      return "init";
    case State::kUp:
      return "up";
  }
  return "?";
}

const char* name(DownReason reason) {
  switch (reason) {
    case DownReason::kNone:
      return "none";
    case DownReason::kDisabled:
      return "disabled";
    case DownReason::kNoCarrier:
      return "no_carrier";
    case DownReason::kDead:
      return "dead";
    case DownReason::kReplayExhausted:
      return "replay_exhausted";
    case DownReason::kPeerRestart:
      return "peer_restart";
    case DownReason::kPeerClose:
      return "peer_close";
    case DownReason::kCount:
      break;
  }
  return "?";
}

Link::Link(const Config& config, Owner& owner)
    : config_(config),
      owner_(&owner),
      cell_(config.cell),
      receiver_(config.window),
      sender_(config.send_window),
      replay_timeout_(config.timers.replay_timeout),
      nack_interval_(config.timers.nack_interval) {
  set_peer_mac(config.peer_mac);
  for (std::size_t v = 0; v < kVcs; ++v) {
    quarter_[v] =
        std::max<std::uint16_t>(1, static_cast<std::uint16_t>((config.capacity[v] + 3) / 4));
  }
}

Link::~Link() {
  Receiver::Frame held;
  while (receiver_.drain(held)) {
    if (held.packet != nullptr) give_back(held.packet);
  }
  while (sender_.outstanding() != 0) give_back(sender_.take_oldest());
  for (BufferQueue& queue : queues_) {
    while (!queue.empty()) give_back(queue.pop());
  }
}

std::size_t Link::memory() const {
  return sizeof *this + receiver_.memory() + sender_.memory();
}

bool Link::can_take(std::uint32_t length, Vc vc) const {
  return peer_.has_value() && length <= link_mtu_ &&
         peer_cell_.cells(length) <= peer_->capacity[vc.value()];
}

std::uint16_t Link::credit(Vc vc) const {
  return limit_[vc.value()].since(used_[vc.value()]);
}

// ---- the owner's calls ----

void Link::enable(Time now) {
  if (enabled_) return;
  enabled_ = true;
  if (carrier_) {
    enter_init(now);
  } else {
    enter_down(DownReason::kNoCarrier);
  }
  owner_->link_changed(config_.port);
}

void Link::disable(Time now) {
  if (!enabled_) return;
  (void)now;
  enabled_ = false;
  if (state_ == State::kUp) {
    close_due_ = {CloseReason::kDisabled, peer_->epoch, *peer_mac_};
    leave_up(DownReason::kDisabled);
  }
  enter_down(DownReason::kDisabled);
  owner_->link_changed(config_.port);
}

void Link::set_carrier(bool carrier, Time now) {
  if (carrier == carrier_) return;
  carrier_ = carrier;
  if (!carrier) {
    close_due_.reset();  // nothing leaves without carrier
    if (!enabled_) return;
    if (state_ == State::kUp) leave_up(DownReason::kNoCarrier);
    enter_down(DownReason::kNoCarrier);
  } else {
    if (!enabled_) return;
    if (counters_.ups.get() == 0) down_reason_ = DownReason::kNone;  // that was all that was wrong
    enter_init(now);
  }
  owner_->link_changed(config_.port);
}

// ---- states (L4, L8, L9) ----

void Link::enter_down(DownReason reason) {
  state_ = State::kDown;
  down_reason_ = reason;
  init_at_ = hold_until_ = kNever;
  init_due_ = init_fresh_due_ = false;
}

void Link::enter_init(Time now) {
  state_ = State::kInit;
  ours_ = owner_->bring_up(config_.port, ours_.epoch);
  peer_.reset();
  set_peer_mac(config_.peer_mac);  // P2: what was learned is forgotten
  link_mtu_ = 0;
  nonces_told_ = {};
  nonce_turn_ = 0;
  init_due_ = false;
  init_fresh_due_ = true;
  init_at_ = now + config_.timers.init_interval;
  hold_until_ = kNever;
  heard_ = false;
  rtt_ = rtt_var_ = rtt_last_ = Duration::zero();  // the next peer may be elsewhere
  replay_timeout_ = config_.timers.replay_timeout;
  nack_interval_ = config_.timers.nack_interval;
  arm(init_at_);

  receiver_.reset();
  accepted_ = {};
  told_ = {};
  for (std::size_t v = 0; v < kVcs; ++v) {  // L20
    allocation_[v] = CellCount{static_cast<std::uint16_t>(config_.capacity[v] - occupied_[v])};
  }
  ahead_ = quarter_ahead_ = credit_turn_ = 0;
  ack_told_ = Seq{};
  ack_since_ = kNever;
  status_at_ = kNever;

  limit_ = {};
  used_ = {};
  ready_ = lacking_ = turn_ = 0;
  replay_at_ = kNever;
  timeouts_ = 0;
  nack_by_timer_ = nack_more_ = answer_due_ = poll_due_ = ack_due_ = keepalive_due_ = false;
  credit_due_ = 0;
  status_due_since_ = kNever;
}

void Link::enter_up(Time now) {
  state_ = State::kUp;
  if (counters_.ups.get() == 0) down_reason_ = DownReason::kNone;  // else why it last left UP
  init_at_ = kNever;
  init_fresh_due_ = false;
  init_due_ = !told(peer_->nonce);  // L6: an INIT first unless one with this peer_nonce went out
  sender_.reset(peer_->window);
  ask_for_status(answer_due_, now);
  up_since_ = last_poll_ = last_valid_ = last_sent_ = now;
  for (std::size_t v = 0; v < kVcs; ++v) {  // 0 counts as told before the first STATUS (L23)
    if (allocation_[v] != told_[v]) {
      ahead_ = static_cast<std::uint8_t>(ahead_ | 1U << v);
      ahead_since_[v] = now;
    }
  }
  counters_.ups.add();
  arm(now + config_.timers.dead_interval);
  arm(now + config_.timers.keepalive_interval);
  arm(now + config_.timers.ack_delay);
  arm(now + replay_timeout_);
}

void Link::set_peer_mac(const std::optional<Mac>& mac) {
  peer_mac_ = mac;
  encode_ethernet(mac.value_or(kUnknownPeer), config_.mac, config_.ether_type, ethernet_.data());
  std::array<std::byte, kEthernetHeader> from;
  encode_ethernet(config_.mac, mac.value_or(kUnknownPeer), config_.ether_type, from.data());
  from_peer_ = load64(from.data() + kSourceMac);
}

bool Link::told(std::uint32_t nonce) const {
  return std::find(nonces_told_.begin(), nonces_told_.end(), nonce) != nonces_told_.end();
}

void Link::leave_up(DownReason reason) {
  counters_.downs[static_cast<std::size_t>(reason)].add();
  state_ = State::kDown;  // the packets handed back must not come here again
  down_reason_ = reason;
  heard_ = false;
  owner_->link_changed(config_.port);

  Receiver::Frame held;
  while (receiver_.drain(held)) {  // L9: discarded, and their cells are free (L20)
    occupied_[held.vc.value()] -= held.cells;
    if (held.packet != nullptr) give_back(held.packet);
    counters_.held_discarded.add();
  }
  while (sender_.outstanding() != 0) {
    counters_.packets_back.add();
    owner_->packet_back(config_.port, sender_.take_oldest());
  }
  for (std::size_t v = 0; v < kVcs; ++v) {
    queue_cells_[v] = 0;
    while (!queues_[v].empty()) {
      Buffer* packet = queues_[v].pop();
      --queued_;
      queued_bytes_ -= packet->length;
      if (packet->notes.own) --queued_own_;
      counters_.packets_back.add();
      owner_->packet_back(config_.port, packet);
    }
  }
}

void Link::restart(DownReason reason, Time now) {
  leave_up(reason);
  enter_init(now);
  owner_->link_changed(config_.port);
}

// ---- frames in, up to the session ----

bool Link::foreign(const std::byte* frame) const {
  // P2: a configured MAC holds always, a learned one in UP.
  if (!config_.peer_mac && state_ != State::kUp) return false;
  return std::memcmp(frame + kSourceMac, peer_mac_->data(), peer_mac_->size()) != 0;
}

[[gnu::flatten]] void Link::receive(std::span<Buffer* const> frames, Time now) {
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (i + 1 < frames.size()) __builtin_prefetch(frames[i + 1]->data);
    if (receive_expected(frames[i], now)) [[likely]] {
      ++expected;
    } else {
      receive_one(frames[i], now);
    }
  }
  counters_.frames_seen.add(expected);
  counters_.frames_in[static_cast<std::size_t>(Kind::kData)].add(expected);
  hand_over();
}

/// Nearly every frame is a DATA in order that tells nothing new of acks and credit. What L3, L11,
/// L12, L16 and L22 ask of it holds if the words of its headers are what they have to be; then it
/// is accepted at once. False: it is another one, which receive_one() looks at from the beginning.
bool Link::receive_expected(Buffer* buffer, Time now) {
  const std::byte* const frame = buffer->data;
  if (buffer->length < kFrameHeader + kMinPacket || load64(frame + kSourceMac) != from_peer_ ||
      !usable()) {
    return false;
  }
  const std::byte* const header = frame + kEthernetHeader;
  const std::uint64_t front = load64(header);
  const std::uint32_t back = load32(header + sizeof front);
  const auto length = static_cast<std::uint16_t>(front >> 32);
  const auto vc = static_cast<std::uint8_t>(back >> 28);
  const std::uint16_t cells = cell_.cells(length);
  if ((front & ~kFrontLength) != data_front(ours_.epoch, receiver_.expected(), sender_.oldest()) ||
      vc >= kVcs || (back >> 24 & 0x0F) != kNoCreditVc || length < kMinPacket ||
      length > config_.mtu || kFrameHeader + length > buffer->length || over_credit(vc, cells) ||
      !data_header_crc_ok(header)) {
    return false;
  }
  // Noted, so that on_data() does not count it once more if it is wrong.
  CrcState& crc = buffer->notes.crc;
  if (crc == CrcState::kUnknown) {
    crc = packet_crc_ok({frame + kFrameHeader, length}) ? CrcState::kGood : CrcState::kBad;
  }
  if (crc != CrcState::kGood) return false;
  last_valid_ = now;
  buffer->pull(kFrameHeader);
  buffer->trim(length);
  accept(receiver_.expected(), Receiver::Place::kNext, {buffer, Vc{vc}, cells}, now);
  return true;
}

[[gnu::noinline]] void Link::receive_one(Buffer* buffer, Time now) {
  const std::byte* frame = buffer->data;
  if (buffer->length >= kEthernetHeader && load16(frame + 12) != config_.ether_type) {
    give_back(buffer);  // P2: not the link's, not counted
    return;
  }
  counters_.frames_seen.add();
  if (buffer->length < kEthernetHeader) {
    drop(Drop::kMalformed, buffer);
    return;
  }
  if (foreign(frame)) {
    drop(Drop::kForeign, buffer);
    return;
  }
  const DecodeResult decoded = decode(buffer->bytes(), config_.mtu);
  if (decoded.drop) {
    drop(*decoded.drop, buffer);
    return;
  }
  const Header& header = decoded.frame.header;
  const bool init = header.kind == Kind::kInit;
  const bool current =
      init ? state_ != State::kDown : state_ == State::kUp && header.epoch == ours_.epoch;
  if (!current) {  // L3, last group
    drop(Drop::kStale, buffer);
    return;
  }
  counters_.frames_in[static_cast<std::size_t>(header.kind)].add();
  if (init) {
    hand_over();
    on_init(decode_init(decoded.frame.body), frame, now);
    give_back(buffer);
  } else {
    on_session_frame(decoded.frame, buffer, now);
  }
}

std::optional<Drop> Link::refuse(const Init& init) const {
  std::uint32_t sum = 0;
  for (const std::uint16_t capacity : init.capacity) sum += capacity;
  if (init.vcs != kVcs || init.cell == 0 || init.window == 0 || init.window > kMaxWindow ||
      init.epoch == 0 || init.nonce == 0 || init.mtu < kMinMtu || sum > kMaxCapacitySum) {
    return Drop::kIncompatible;
  }
  if ((config_.expect_node && *config_.expect_node != init.node) ||
      (config_.expect_port && *config_.expect_port != init.port)) {
    return Drop::kWrongPeer;
  }
  return std::nullopt;
}

void Link::on_init(const Init& init, const std::byte* frame, Time now) {
  if (init.nonce == ours_.nonce) {  // L5, L7
    counters_.drops.add(Drop::kLooped);
  } else if (state_ == State::kInit) {
    on_init_in_init(init, frame, now);
  } else {
    on_init_in_up(init, frame, now);
  }
}

void Link::on_init_in_init(const Init& init, const std::byte* frame, Time now) {
  if (const auto drop = refuse(init)) {
    counters_.drops.add(*drop);
    return;
  }
  peer_ = init;
  peer_cell_ = CellSize{init.cell};
  mark_cells_ = config_.mark_bytes == 0 ? kNeverMark : (config_.mark_bytes - 1) / init.cell + 1;
  link_mtu_ = std::min(config_.mtu, init.mtu);
  if (!config_.peer_mac) {
    Mac source;
    std::memcpy(source.data(), frame + kSourceMac, source.size());
    set_peer_mac(source);
  }
  if (init.peer_nonce == ours_.nonce) {
    enter_up(now);
  } else {
    init_due_ = true;
    init_at_ = now + config_.timers.init_interval;
    arm(init_at_);
  }
  owner_->link_changed(config_.port);
}

void Link::on_init_in_up(const Init& init, const std::byte* frame, Time now) {
  if (init.nonce == peer_->nonce) {  // L7
    if (!heard_) {
      init_due_ = true;
      ask_for_status(answer_due_, now);
    }
    return;
  }
  if (const auto drop = refuse(init)) {
    counters_.drops.add(*drop);
    return;
  }
  restart(DownReason::kPeerRestart, now);
  on_init_in_init(init, frame, now);
}

}  // namespace mtl::link
