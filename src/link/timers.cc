#include <algorithm>
#include <bit>

#include "link/link.h"

// Timers, each an event of its own, in the order of C2. deadline_ is a lower bound: arming a timer
// lowers it, and what stops or puts off a timer leaves it, so that the fast path never searches.
namespace mtl::link {

bool Link::expire(Time now) {
  if (now < deadline_) return false;
  const bool fired = expire_bring_up(now) || expire_replay(now) || expire_nack(now) ||
                     expire_poll(now) || expire_ack_and_credit(now);
  if (!fired) deadline_ = exact_deadline();
  return fired;
}

/// The INIT repeat, the end of hold_down, and the death of a silent link (L4, L8).
bool Link::expire_bring_up(Time now) {
  if (hold_until_ <= now) {
    enter_init(now);
    owner_->link_changed(config_.port);
    return true;
  }
  if (init_at_ <= now) {
    init_due_ = true;
    init_at_ = now + config_.timers.init_interval;
    return true;
  }
  if (state_ == State::kUp && last_valid_ + config_.timers.dead_interval <= now) {
    restart(DownReason::kDead, now);
    return true;
  }
  return false;
}

bool Link::expire_replay(Time now) {
  if (replay_at_ > now || state_ != State::kUp) return false;
  counters_.replay_timeouts.add();
  if (timeouts_ >= config_.timers.replay_limit) {  // L17
    close_due_ = {CloseReason::kReplayExhausted, peer_->epoch, *peer_mac_};
    leave_up(DownReason::kReplayExhausted);
    enter_down(DownReason::kReplayExhausted);
    hold_until_ = now + config_.timers.hold_down;
    arm(hold_until_);
    owner_->link_changed(config_.port);
    return true;
  }
  ++timeouts_;
  sender_.send_again(sender_.oldest(), 1);
  replay_at_ = now + replay_timeout_;
  return true;
}

bool Link::expire_nack(Time now) {
  if (state_ != State::kUp || nack_by_timer_ || receiver_.listing_bound() == kNever ||
      receiver_.listing_bound() + nack_interval_ > now) {
    return false;
  }
  const Time oldest = receiver_.oldest_listing();
  if (oldest == kNever || oldest + nack_interval_ > now) return false;
  nack_by_timer_ = true;
  return true;
}

/// When L21 asks for the next POLL; kNever if it does not.
Time Link::poll_time() const {
  Time since = kNever;
  if (!heard_) since = std::max(up_since_, last_poll_);
  for (unsigned rest = lacking_; rest != 0; rest &= rest - 1) {
    const auto vc = static_cast<std::size_t>(std::countr_zero(rest));
    since = std::min(since, std::max(lacks_since_[vc], last_poll_));
  }
  return since == kNever ? kNever : since + replay_timeout_;
}

bool Link::expire_poll(Time now) {
  if (state_ != State::kUp || poll_due_ || poll_time() > now) return false;
  ask_for_status(poll_due_, now);
  return true;
}

/// L23's clocks: the ack, the allocations, and keepalive.
bool Link::expire_ack_and_credit(Time now) {
  if (state_ != State::kUp) return false;
  const Timers& t = config_.timers;
  bool fired = false;
  if (!ack_due_ && ack_since_ != kNever && ack_since_ + t.ack_delay <= now) {
    fired = ack_due_ = true;
  }
  for (unsigned rest = ahead_ & ~credit_due_ & 0xFFU; rest != 0; rest &= rest - 1) {
    const auto vc = static_cast<std::size_t>(std::countr_zero(rest));
    if (ahead_since_[vc] + t.ack_delay <= now) {
      credit_due_ = static_cast<std::uint8_t>(credit_due_ | 1U << vc);
      fired = true;
    }
  }
  if (fired) return true;
  if (!keepalive_due_ && last_sent_ + t.keepalive_interval <= now) {
    return keepalive_due_ = true;
  }
  return false;
}

Time Link::exact_deadline() {
  Time at = std::min(init_at_, hold_until_);
  if (state_ != State::kUp) return at;
  const Timers& t = config_.timers;
  at = std::min({at, last_valid_ + t.dead_interval, replay_at_});
  if (!nack_by_timer_) {
    const Time oldest = receiver_.oldest_listing();
    if (oldest != kNever) at = std::min(at, oldest + nack_interval_);
  }
  if (!poll_due_) at = std::min(at, poll_time());
  if (!ack_due_ && ack_since_ != kNever) at = std::min(at, ack_since_ + t.ack_delay);
  for (unsigned rest = ahead_ & ~credit_due_ & 0xFFU; rest != 0; rest &= rest - 1) {
    const auto vc = static_cast<std::size_t>(std::countr_zero(rest));
    at = std::min(at, ahead_since_[vc] + t.ack_delay);
  }
  if (!keepalive_due_) at = std::min(at, last_sent_ + t.keepalive_interval);
  return at;
}

}  // namespace mtl::link
