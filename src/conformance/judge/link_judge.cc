#include "conformance/judge/link_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "conformance/judge/form.h"

namespace mtl::conformance::judge {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kSeenRight = 0xFFFFFFFF;
// With none right, so many wrong CRCs are no accident of the way.
constexpr std::uint32_t kAllWrong = 16;
constexpr std::uint32_t kStrangersInARow = 64;
constexpr std::uint32_t kErrorsInASecond = 2000;  // N11: 1,000 in each of two that it touches
constexpr std::size_t kFcs = 4;

bool is_data(const LinkFrame& frame) {
  return frame.kind == static_cast<std::uint8_t>(link::Kind::kData);
}

/// All that an INIT offers.
bool same_offer(const link::Init& a, const link::Init& b) {
  return a.node == b.node && a.port == b.port && a.mtu == b.mtu && a.epoch == b.epoch &&
         a.vcs == b.vcs && a.cell == b.cell && a.window == b.window && a.capacity == b.capacity;
}

}  // namespace

bool LinkJudge::BringUp::has_told(std::uint32_t nonce) const {
  const auto end = told.begin() + static_cast<std::ptrdiff_t>(std::min(told_count, kRemembered));
  return std::find(told.begin(), end, nonce) != end;
}

void LinkJudge::BringUp::tell(std::uint32_t nonce) {
  if (!has_told(nonce)) told[told_count++ % kRemembered] = nonce;
}

LinkJudge::LinkJudge(std::size_t link, const std::array<Mac, 2>& macs, FindingSink& sink,
                     bool complete)
    : reporter_(link, sink, complete) {
  for (std::size_t side = 0; side < 2; ++side) sums_[side].mac = macs[side];
}

bool LinkJudge::incomplete() const {
  return hole_ || std::any_of(sums_.begin(), sums_.end(), [](const SideSummary& side) {
           return side.bytes == 0 ||
                  side.missed + side.copies + side.late + side.cut + side.damaged != 0;
         });
}

void LinkJudge::moved() {
  hole_ = true;
  if (session_ != nullptr) session_->lose_track();
}

void LinkJudge::interrupted(bool earlier) {
  // Who says that the capture is complete says so of its joints, too.
  if (reporter_.complete() && !earlier) return;
  moved();
  if (!earlier) return;
  session_.reset();
  has_pair_ = false;
  sides_ = {};
}

void LinkJudge::finish() {
  reporter_.finish(incomplete());
}

bool LinkJudge::past(std::size_t side, std::uint32_t nonce) const {
  const Side& s = sides_[side];
  const auto end =
      s.past.begin() + static_cast<std::ptrdiff_t>(std::min(s.past_count, kRemembered));
  return std::find(s.past.begin(), end, nonce) != end;
}

void LinkJudge::frame(std::size_t side, const LinkFrame& frame) {
  SideSummary& sum = sums_[side];
  if (sum.bytes == 0) sum.first = frame.tap->at;
  sum.last = frame.tap->at;
  sum.bytes += frame.length;
  if (!frame.fields || frame.header_crc == Crc::kUnknown) {
    ++sum.cut;
    return;
  }
  std::uint32_t& all_wrong = sides_[side].all_wrong[is_data(frame) ? 0 : 1];
  if (frame.header_crc == Crc::kWrong) {
    ++sum.damaged;
    if (all_wrong != kSeenRight) count_wrong(side, frame);
    return;
  }
  all_wrong = kSeenRight;
  ++sum.judged;
  if (!judge_shape(frame, side, reporter_)) return;
  ++sum.frames[frame.kind];
  const bool sound = judge_form(frame, side, reporter_);
  if (frame.kind == static_cast<std::uint8_t>(link::Kind::kInit)) {
    on_init(side, frame);
    return;
  }
  if (is_data(frame)) on_packet(side, frame);
  if (Session* session = session_of(side, frame)) session->frame(side, frame, sound);
}

/// L1. One wrong CRC is the way's; if all of them are, the side reckons otherwise.
void LinkJudge::count_wrong(std::size_t side, const LinkFrame& frame) {
  if (!legal_shape(frame)) return;
  if (++sides_[side].all_wrong[is_data(frame) ? 0 : 1] != kAllWrong) return;
  reporter_.certain(side, "L1", frame.tap->number, frame.tap->at, [&] {
    return fmt::format("none of {} {} frames so far had a right header CRC", kAllWrong,
                       is_data(frame) ? "DATA" : "control");
  });
}

// ---- bring-up ----

void LinkJudge::on_init(std::size_t side, const LinkFrame& frame) {
  const link::Init init = read_init(frame);
  if (judge_init(init, frame, side, reporter_)) {
    sides_[side].refused = init.nonce;
    return;
  }
  BringUp& now = sides_[side].now;
  if (!now.known || now.init.nonce != init.nonce) {
    if (past(side, init.nonce)) {
      ++sums_[side].late;
      reporter_.unless_missed(side, "L4", frame.tap->number, frame.tap->at, [] {
        return std::string("an INIT with the nonce of an earlier bring-up");
      });
      if (!reporter_.complete()) return;
    }
    begin_bring_up(side, init, frame);
  } else if (init.epoch != now.init.epoch) {
    reporter_.certain(side, "L4", frame.tap->number, frame.tap->at, [&] {
      return fmt::format("epoch {} in an INIT with the nonce of frame {}, which said {}",
                         init.epoch, now.frame, now.init.epoch);
    });
  } else if (has_pair_ && pair_.nonces[side] == init.nonce && session_->heard(side)) {
    reporter_.unless_missed(side, "L7", frame.tap->number, frame.tap->at, [] {
      return std::string("an INIT in UP, after having heard the other side");
    });
  }
  if (now.init.peer_nonce == init.peer_nonce && now.last != Time{}) {
    sums_[side].init_apart.add(frame.tap->at - now.last);
  }
  now.last = frame.tap->at;
  if (!same_offer(init, now.init)) now.changed = true;
  now.init = init;
  if (init.peer_nonce == 0) return;
  if (init.peer_nonce == init.nonce) {
    reporter_.certain(side, "L5", frame.tap->number, frame.tap->at,
                      [] { return std::string("takes its own INIT for a peer's"); });
  } else {
    judge_peer_nonce(side, init, frame);
    judge_init_length(side, init, frame);
  }
}

void LinkJudge::begin_bring_up(std::size_t side, const link::Init& init, const LinkFrame& frame) {
  Side& s = sides_[side];
  if (s.now.known) {
    s.past[s.past_count % kRemembered] = s.now.init.nonce;
    s.past_epochs[s.past_count++ % kRemembered] = s.now.init.epoch;
  }
  s.now = BringUp{};
  s.now.known = true;
  s.now.init = init;
  s.now.frame = frame.tap->number;
  ++sums_[side].bring_ups;
  sums_[side].node = init.node;
  sums_[side].port = init.port;
  if (has_pair_ || session_ == nullptr) return;
  // What it sends from now on is of another session than that of unknown beginning.
  session_.reset();
  for (Side& each : sides_) each.epoch.reset();
}

/// L6: the nonce last received from the peer; nothing of one that must be refused.
void LinkJudge::judge_peer_nonce(std::size_t side, const link::Init& init, const LinkFrame& frame) {
  const Side& peer = sides_[1 - side];
  sides_[side].now.tell(init.peer_nonce);
  if (peer.now.known && peer.now.init.nonce == init.peer_nonce) return;
  if (peer.refused == init.peer_nonce) {
    reporter_.certain(side, "L6", frame.tap->number, frame.tap->at,
                      [] { return std::string("answers an INIT that it must refuse"); });
  } else if (!past(1 - side, init.peer_nonce)) {
    reporter_.unless_missed(side, "L6", frame.tap->number, frame.tap->at, [&] {
      return fmt::format("answers nonce {}, which the other side has not sent", init.peer_nonce);
    });
  }
}

/// P4. An FCS in the capture may make it longer.
void LinkJudge::judge_init_length(std::size_t side, const link::Init& init,
                                  const LinkFrame& frame) {
  const BringUp& peer = sides_[1 - side].now;
  if (!peer.known || peer.changed || peer.init.nonce != init.peer_nonce) return;
  const std::size_t length = link::kFrameHeader + std::min(init.mtu, peer.init.mtu);
  if (frame.length == length || frame.length == length + kFcs) return;
  reporter_.unless_missed(side, "P4", frame.tap->number, frame.tap->at, [&] {
    return fmt::format("an answering INIT of {} bytes; with the link mtu it has {}", frame.length,
                       length);
  });
}

// ---- sessions ----

/// The session of a frame, or nullptr: it cannot be known. A frame carries the epoch that its
/// receiver asked for.
Session* LinkJudge::session_of(std::size_t side, const LinkFrame& frame) {
  const BringUp& ours = sides_[side].now;
  const BringUp& peer = sides_[1 - side].now;
  const bool of_pair = has_pair_ && frame.epoch == pair_.epochs[1 - side];
  const bool ours_stands = ours.known && ours.init.nonce == pair_.nonces[side];
  const bool peer_stands = peer.known && peer.init.nonce == pair_.nonces[1 - side];
  // The other side may have begun anew with the same epoch, and this side not know of it.
  const bool moved_on =
      !peer_stands && peer.init.epoch == frame.epoch && ours.has_told(peer.init.nonce);
  if (of_pair && ours_stands && !moved_on) return session_.get();
  if (ours.known && peer.known && frame.epoch == peer.init.epoch) {
    return begin_session(side, frame);
  }
  if (of_pair && !ours_stands) {
    ++sums_[side].strangers;
    reporter_.unless_missed(side, "L4", frame.tap->number, frame.tap->at, [] {
      return std::string("goes on with a session after an INIT with a fresh nonce");
    });
    return nullptr;
  }
  judge_epoch(side, frame);
  return unknown_session(side, frame);
}

/// L3: a frame has an epoch that its receiver asked for, if only in an earlier bring-up.
void LinkJudge::judge_epoch(std::size_t side, const LinkFrame& frame) {
  const Side& peer = sides_[1 - side];
  if (!sides_[side].now.known || !peer.now.known || peer.now.changed) return;
  const auto end = peer.past_epochs.begin() +
                   static_cast<std::ptrdiff_t>(std::min(peer.past_count, kRemembered));
  const bool asked = frame.epoch == peer.now.init.epoch ||
                     std::find(peer.past_epochs.begin(), end, frame.epoch) != end;
  if (asked) return;
  reporter_.unless_missed(side, "L3", frame.tap->number, frame.tap->at, [&] {
    return fmt::format("epoch {}; the other side asked for {}", frame.epoch, peer.now.init.epoch);
  });
}

Session* LinkJudge::begin_session(std::size_t side, const LinkFrame& frame) {
  const BringUp& ours = sides_[side].now;
  const BringUp& peer = sides_[1 - side].now;
  const bool told = ours.has_told(peer.init.nonce);
  const bool answered = peer.has_told(ours.init.nonce);
  if (!told) {
    reporter_.unless_missed(side, "L6", frame.tap->number, frame.tap->at, [] {
      return std::string("is UP without having sent an INIT with the other side's nonce");
    });
  }
  if (!answered) {
    reporter_.unless_missed(side, "L6", frame.tap->number, frame.tap->at, [] {
      return std::string("is UP before the other side has sent an INIT with its nonce");
    });
  }
  if ((!told || !answered) && !reporter_.complete()) return unknown_session(side, frame);
  Session::Terms terms;
  terms[side] = ours.init;
  terms[1 - side] = peer.init;
  session_ = std::make_unique<Session>(terms, reporter_, sums_);
  for (std::size_t i = 0; i < 2; ++i) {
    pair_.nonces[i] = terms[i].nonce;
    pair_.epochs[i] = terms[i].epoch;
    sides_[i].epoch.reset();
    sides_[i].strangers = 0;
  }
  has_pair_ = true;
  ++sessions_;
  // A side that has answered two peers in one bring-up may still get frames of the first; of one
  // that changed its offer nobody knows which one was taken.
  const bool two_peers = ours.told_count > 1 || peer.told_count > 1;
  if (ours.changed || peer.changed || (two_peers && !reporter_.complete())) session_->tangle();
  return session_.get();
}

/// A session whose bring-up was not seen, known by the epochs of its frames alone.
Session* LinkJudge::unknown_session(std::size_t side, const LinkFrame& frame) {
  Side& receiver = sides_[1 - side];
  Side& sender = sides_[side];
  if (!has_pair_ && session_ != nullptr && (!receiver.epoch || receiver.epoch == frame.epoch)) {
    // Both sides speak of another bring-up than those that were seen: one was missed.
    if (sender.now.known && receiver.now.known && sender.epoch) hole_ = true;
    receiver.epoch = frame.epoch;
    sender.strangers = 0;
    return session_.get();
  }
  // Of an older session, on its way for long; or the capture missed a bring-up.
  const bool first = session_ == nullptr;
  if (sender.strange_epoch != frame.epoch) sender.strangers = 0;
  sender.strange_epoch = frame.epoch;
  if (!first && ++sender.strangers < kStrangersInARow) {
    ++sums_[side].strangers;
    return nullptr;
  }
  session_ = std::make_unique<Session>(reporter_, sums_);
  has_pair_ = false;
  sender.strangers = 0;
  sender.epoch.reset();
  receiver.epoch = frame.epoch;
  ++sessions_;
  return session_.get();
}

// ---- packets ----

void LinkJudge::on_packet(std::size_t side, const LinkFrame& frame) {
  Side& s = sides_[side];
  if (frame.packet_crc == Crc::kUnknown) return;
  if (frame.packet_crc == Crc::kWrong) {
    if (s.packets_wrong == kSeenRight || ++s.packets_wrong != kAllWrong) return;
    reporter_.certain(side, "N2", frame.tap->number, frame.tap->at, [] {
      return fmt::format("none of {} packets so far had a right packet CRC", kAllWrong);
    });
    return;
  }
  s.packets_wrong = kSeenRight;
  judge_packet(frame, side, sums_[side].node, reporter_);
  if ((frame.flags & link::kFlagReplay) != 0 || !is_own_error(frame, sums_[side].node)) return;
  if (frame.tap->at - s.second >= seconds(1)) {
    s.second = frame.tap->at;
    s.errors = 0;
  }
  if (++s.errors != kErrorsInASecond + 1) return;
  reporter_.unless_missed(side, "N11", frame.tap->number, frame.tap->at, [] {
    return fmt::format("more than {} echo errors in a second", kErrorsInASecond);
  });
}

}  // namespace mtl::conformance::judge
