#include "conformance/judge/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "base/byte_order.h"
#include "base/crc32c.h"

namespace mtl::conformance::judge {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// In so long a silence of a side so many frames of it may have been missed that numbers of 16 bits
// have gone half round, and what is ahead looks behind: 32,768 of the shortest at 400 Gbit/s.
constexpr Duration kQuiet = microseconds(50);
constexpr std::size_t kFewestSlots = 64;
constexpr std::size_t kUnknownSlots = 2048;  // where the window is not known
constexpr std::uint32_t kLost = 64;          // acks behind, in a row: it is we who are wrong
constexpr Duration kClockSlack = milliseconds(1);
// An echo is wrong by how long its side, or who captured, was stopped between its clock's reading
// and the frame's. A host does that to a few frames, and for less than this; a wrong echo is wrong
// always.
constexpr Duration kLongestStop = std::chrono::seconds(1);
constexpr std::uint32_t kAhead = 4;
constexpr std::int64_t kClocksApart = 5000;  // two clocks of 100 ppm each: one part in so many

constexpr std::size_t kTxAt = 16;  // in the body of a STATUS
constexpr std::size_t kEchoAt = 20;

bool is_data(const LinkFrame& frame) {
  return frame.kind == static_cast<std::uint8_t>(link::Kind::kData);
}

}  // namespace

void Spread::add(Duration sample) {
  // Times of a damaged capture may be centuries apart.
  constexpr Duration::rep kMost = std::numeric_limits<Duration::rep>::max();
  Duration::rep total = 0;
  least = samples == 0 ? sample : std::min(least, sample);
  most = std::max(most, sample);
  if (__builtin_add_overflow(sum.count(), sample.count(), &total)) total = kMost;
  sum = Duration{total};
  ++samples;
}

Duration Spread::mean() const {
  return samples == 0 ? Duration{0} : sum / static_cast<std::int64_t>(samples);
}

Session::Session(const Terms& terms, Reporter& reporter, std::array<SideSummary, 2>& sums)
    : reporter_(reporter),
      sums_(sums),
      terms_(terms),
      whole_(true),
      faults_{reporter.faults(0), reporter.faults(1)} {
  for (std::size_t side = 0; side < 2; ++side) {
    begin(side, Seq{});
    ways_[side].acks_begun = true;
    ways_[side].last_ack = Seq{};
    ways_[side].told_known = 0xFF;  // 0 counts as told (L23)
  }
}

Session::Session(Reporter& reporter, std::array<SideSummary, 2>& sums)
    : reporter_(reporter),
      sums_(sums),
      whole_(false),
      faults_{reporter.faults(0), reporter.faults(1)} {}

void Session::tangle() {
  lose_track();
  terms_.reset();
}

bool Session::in_slots(const Way& way, Seq seq) {
  const std::uint16_t behind = way.next.since(seq);
  return behind != 0 && behind <= way.slots.size();
}

std::uint16_t Session::window_of(std::size_t receiver) const {
  return terms_ ? (*terms_)[receiver].window : static_cast<std::uint16_t>(kUnknownSlots / 2);
}

std::uint16_t Session::cells_of(std::size_t receiver, std::uint16_t length) const {
  return terms_ ? link::CellSize((*terms_)[receiver].cell).cells(length) : std::uint16_t{0};
}

template <class Why>
void Session::certain(std::size_t side, std::string_view rule, Why&& why) {
  reporter_.certain(side, rule, frame_->tap->number, frame_->tap->at, std::forward<Why>(why));
}

template <class Why>
void Session::unless_missed(std::size_t side, std::string_view rule, Why&& why) {
  if (doubtful(1 - side)) return;
  reporter_.unless_missed(side, rule, frame_->tap->number, frame_->tap->at, std::forward<Why>(why));
}

// ---- what was sent ----

void Session::begin(std::size_t side, Seq next) {
  Way& way = ways_[side];
  way.begun = true;
  way.next = next;
  const std::size_t most =
      terms_ ? std::max(kFewestSlots, std::bit_ceil(std::size_t{window_of(1 - side)}) * 2)
             : kUnknownSlots;
  way.slots.assign(most, Slot{});
}

void Session::lose_track() {
  whole_ = false;
  for (Way& way : ways_) {
    way.begun = way.acks_begun = false;
    way.ack.known = way.newest.known = false;
    for (auto& allocation : way.allocation) allocation.known = false;
    way.told_known = 0;
    way.last_ack.reset();
    way.behind = 0;
  }
}

/// DATA of `side` from its next one to before `to` passed by without being seen.
void Session::miss(std::size_t side, Seq to) {
  Way& way = ways_[side];
  const std::uint16_t count = to.since(way.next);
  sums_[side].missed += count;
  if (count > window_of(1 - side)) {
    lose_track();
    begin(side, to);
    return;
  }
  while (way.next != to) advance(way, slot(way, way.next));
  // What the other told of them was missed, too, and may have gone half round.
  for (auto& allocation : ways_[1 - side].allocation) allocation.known = false;
}

/// The next number is taken, its slot is fresh but for what the other side has said already.
void Session::advance(Way& way, Slot& next) {
  const bool told = next.told && next.told_seq == way.next.value();
  next = Slot{};
  next.told = told;
  next.told_seq = way.next.value();
  way.next += 1;
}

/// Whether the frame in hand shows numbers that its side cannot have reached by what was seen.
bool Session::moved_unseen(std::size_t side) const {
  const Way& way = ways_[side];
  const Way& other = ways_[1 - side];
  const auto kind = static_cast<link::Kind>(frame_->kind);
  if (kind == link::Kind::kInit || kind == link::Kind::kClose) return false;
  const bool again = is_data(*frame_) && (frame_->flags & link::kFlagReplay) != 0;
  if (way.begun && !again && frame_->seq != way.next) return true;
  if (!way.last_ack || !other.begun) return false;
  return frame_->ack.since(*way.last_ack) > other.next.since(*way.last_ack);
}

void Session::frame(std::size_t side, const LinkFrame& frame, bool sound) {
  frame_ = &frame;
  sound_ = sound;
  Way& way = ways_[side];
  if (way.frames != 0) {
    const Duration silence = frame.tap->at - way.last;
    sums_[side].longest_silence = std::max(sums_[side].longest_silence, silence);
    if (!reporter_.complete() && silence >= kQuiet && moved_unseen(side)) lose_track();
  }
  if (way.closed) {
    unless_missed(side, "L8", [] { return std::string("goes on with a session that it closed"); });
  }
  switch (static_cast<link::Kind>(frame.kind)) {
    case link::Kind::kData:
      on_data(side);
      break;
    case link::Kind::kStatus:
    case link::Kind::kNack:
      on_control(side);
      break;
    case link::Kind::kClose:
      way.closed = true;
      ++sums_[side].closes;
      break;
    case link::Kind::kInit:
      break;
  }
  ++way.frames;
  way.last = frame.tap->at;
}

void Session::on_data(std::size_t side) {
  Way& way = ways_[side];
  const Seq seq = frame_->seq;
  const bool again = (frame_->flags & link::kFlagReplay) != 0;
  way.heard = true;
  judge_size(side);
  if (again) ++sums_[side].replays;
  if (!way.begun && !again) begin(side, seq);
  if (!way.begun) {
    // Of a frame sent again the number alone tells not how far its side is.
  } else if (again) {
    sent_again(side);
  } else if (seq.before(way.next)) {
    sent_behind(side);
  } else {
    sent_next(side);
  }
  follow(side, seq + 1, !again);
}

void Session::sent_next(std::size_t side) {
  Way& way = ways_[side];
  const Seq seq = frame_->seq;
  if (seq != way.next) {
    unless_missed(side, "L10", [&] {
      return fmt::format("sends seq {} for the first time, but the next one was {}", seq.value(),
                         way.next.value());
    });
    miss(side, seq);
  }
  Slot& here = slot(way, seq);
  advance(way, here);
  fill(side, here);
  here.first = true;
  here.first_crc = frame_->header_crc_field;
  see_copy(side, here);
  ++sums_[side].packets;
  sums_[side].packet_bytes += frame_->body_length;
  judge_room(side);
}

/// A DATA without REPLAY whose number was passed already.
void Session::sent_behind(std::size_t side) {
  Way& way = ways_[side];
  const Seq seq = frame_->seq;
  unless_missed(side, "L17", [&] {
    return fmt::format("sends seq {} without REPLAY, after seq {}", seq.value(),
                       static_cast<std::uint16_t>(way.next.value() - 1));
  });
  if (!in_slots(way, seq)) {
    ++sums_[side].late;
    return;
  }
  Slot& here = slot(way, seq);
  if (here.first && here.first_crc == frame_->header_crc_field) {
    ++sums_[side].copies;
    see_copy(side, here);
    return;
  }
  if (here.first) {
    certain(side, "L17", [&] {
      return fmt::format("sends seq {} a second time in another frame, without REPLAY",
                         seq.value());
    });
  } else {
    ++sums_[side].late;
    here.first = true;
    here.first_crc = frame_->header_crc_field;
  }
  if (here.seen) {
    compare(side, here);
  } else {
    fill(side, here);
  }
  see_copy(side, here);
}

void Session::sent_again(std::size_t side) {
  Way& way = ways_[side];
  const Seq seq = frame_->seq;
  if (!seq.before(way.next)) {
    unless_missed(side, "L17", [&] {
      return fmt::format("sends seq {} again, but the next one to be sent at all was {}",
                         seq.value(), way.next.value());
    });
    miss(side, seq + 1);
  }
  if (!in_slots(way, seq)) return;
  Slot& here = slot(way, seq);
  if (here.seen) {
    compare(side, here);
  } else {
    fill(side, here);
  }
  judge_cause(side, here);
  see_copy(side, here);
}

void Session::fill(std::size_t side, Slot& slot) {
  slot.seen = true;
  slot.vc = frame_->vc;
  slot.length = frame_->body_length;
  slot.cells = cells_of(1 - side, frame_->body_length);
  slot.network_header = crc32c_short(frame_->body.first(link::kNetworkHeader));
  ways_[side].used[slot.vc] += slot.cells;
}

void Session::see_copy(std::size_t side, Slot& slot) {
  slot.seen_at = frame_->tap->at;
  switch (frame_->packet_crc) {
    case Crc::kRight:
      slot.good = slot.right = true;
      slot.packet_crc = load32(frame_->body.data() + frame_->body_length - link::kPacketCrc);
      break;
    case Crc::kWrong:
      if (slot.bad != 0xFF) ++slot.bad;
      ++sums_[side].damaged_packets;
      break;
    case Crc::kUnknown:
      slot.good = true;
  }
}

/// L17: what is sent again is what was sent.
void Session::compare(std::size_t side, const Slot& slot) {
  const bool same_header =
      slot.network_header == crc32c_short(frame_->body.first(link::kNetworkHeader));
  bool same_packet = slot.length == frame_->body_length && same_header;
  if (same_packet && slot.right && frame_->packet_crc == Crc::kRight) {
    same_packet =
        slot.packet_crc == load32(frame_->body.data() + frame_->body_length - link::kPacketCrc);
  }
  if (slot.vc != frame_->vc) {
    certain(side, "L17", [&] {
      return fmt::format("sends seq {} again on VC {}, after VC {}", frame_->seq.value(),
                         frame_->vc, slot.vc);
    });
  }
  if (!same_packet) {
    certain(side, "L17", [&] {
      return fmt::format("sends seq {} again with another packet", frame_->seq.value());
    });
  }
}

/// L17: by a NACK, or, of the oldest unacknowledged frame, by the timer. What is the oldest, the
/// other side has told by an ack, or it is the first of all.
void Session::judge_cause(std::size_t side, const Slot& slot) {
  if (slot.listed) return;
  ++sums_[side].replays_by_timer;
  if (slot.seen_at != Time{}) sums_[side].timer_replay.add(frame_->tap->at - slot.seen_at);
  const bool oldest = (slot.told && slot.told_seq == frame_->seq.value()) || frame_->seq == Seq{};
  if (!whole_ || oldest) return;
  unless_missed(side, "L17", [&] {
    return fmt::format(
        "sends seq {} again, which no NACK listed, and no ack says that it is the "
        "oldest",
        frame_->seq.value());
  });
}

void Session::judge_size(std::size_t side) {
  if (!terms_) return;
  const link::Init& peer = (*terms_)[1 - side];
  const std::uint16_t mtu = std::min((*terms_)[side].mtu, peer.mtu);
  if (frame_->body_length > mtu) {
    certain(side, "L6", [&] {
      return fmt::format("sends a DATA of {} bytes, and the link mtu is {}", frame_->body_length,
                         mtu);
    });
  }
  const std::uint16_t cells = cells_of(1 - side, frame_->body_length);
  if (cells > peer.capacity[frame_->vc]) {
    certain(side, "N7", [&] {
      return fmt::format("sends a packet of {} cells on VC {}, where the other side has {} in all",
                         cells, frame_->vc, peer.capacity[frame_->vc]);
    });
  }
}

/// What a new DATA needs: that the other side was heard, a place in its window, and its credit.
/// Whatever this side had received, had passed the tap.
void Session::judge_room(std::size_t side) {
  if (!whole_) return;
  const Way& way = ways_[side];
  const Way& other = ways_[1 - side];
  const std::uint16_t window = window_of(1 - side);
  if (other.frames == 0) {
    unless_missed(side, "L10", [] {
      return std::string("sends DATA before the other side sent a frame of the session");
    });
  }
  if (const std::uint16_t open = way.next.since(way.acked); open > window) {
    unless_missed(side, "L10", [&] {
      return fmt::format("has {} DATA unacknowledged, and the other side's window is {}", open,
                         window);
    });
  }
  const CellCount used = way.used[frame_->vc];
  const CellCount told = other.told[frame_->vc];
  if (used == told) ++sums_[side].exhausted;
  if (told.before(used)) {
    unless_missed(side, "L21", [&] {
      return fmt::format("has used {} cells of VC {}, and the other side had told {}", used.value(),
                         frame_->vc, told.value());
    });
  }
}

// ---- what it tells of the other direction ----

/// `made_at`: the DATA that its side had sent when the frame was made, itself included.
void Session::follow(std::size_t side, Seq made_at, bool ordered) {
  if (ordered) follow_order(side, made_at);
  follow_ack(side);
  if (is_data(*frame_)) {
    if (frame_->credit_vc != link::kNoCreditVc) {
      follow_allocation(side, frame_->credit_vc, frame_->credit, made_at, ordered);
    }
  } else if (frame_->kind == static_cast<std::uint8_t>(link::Kind::kStatus)) {
    for (std::size_t vc = 0; vc < kVcs; ++vc) {
      follow_allocation(side, vc, CellCount{load16(frame_->body.data() + 2 * vc)}, made_at, true);
    }
  }
}

/// Frames made later have no lower ack. Holds in any order of arrival.
void Session::follow_order(std::size_t side, Seq made_at) {
  Way& way = ways_[side];
  const Seq ack = frame_->ack;
  Rising<Seq>& told = way.ack;
  if (told.known && told.at.before(made_at) && ack.before(told.value)) {
    certain(side, "L2", [&] {
      return fmt::format("tells ack {}; frame {}, made before it, told ack {}", ack.value(),
                         told.frame, told.value.value());
    });
  }
  Newest& newest = way.newest;
  if (newest.known && made_at.before(newest.at) && newest.ack.before(ack)) {
    certain(side, is_data(*frame_) ? "L10" : "L18", [&] {
      return fmt::format(
          "tells that {} DATA were sent, and ack {}; frame {} told a lower ack, {}, when {} had "
          "been sent",
          made_at.value(), ack.value(), newest.frame, newest.ack.value(), newest.at.value());
    });
  }
  if (!told.known || told.value.before(ack)) {
    told = {ack, made_at, frame_->tap->number, true};
  } else if (told.value == ack && made_at.before(told.at)) {
    told.at = made_at;
  }
  if (!newest.known || newest.at.before(made_at)) {
    newest = {made_at, ack, frame_->tap->number, true};
  } else if (newest.at == made_at && ack.before(newest.ack)) {
    newest.ack = ack;
  }
}

void Session::follow_ack(std::size_t side) {
  Way& way = ways_[side];
  Way& other = ways_[1 - side];
  const Seq ack = frame_->ack;
  if (whole_ && ack != Seq{}) way.heard = true;
  if (way.last_ack && ack.before(*way.last_ack)) {
    unless_missed(side, "L2", [&] {
      return fmt::format("tells ack {}, after ack {}", ack.value(), way.last_ack->value());
    });
  } else {
    way.last_ack = ack;
  }
  if (other.begun && other.next.before(ack)) {
    unless_missed(side, "L2", [&] {
      return fmt::format(
          "acknowledges what is before seq {}, and the other side has sent no "
          "further than before {}",
          ack.value(), other.next.value());
    });
    miss(1 - side, ack);
  }
  acknowledge(side);
}

/// `side` has taken all DATA of the other one before its ack.
void Session::acknowledge(std::size_t side) {
  Way& way = ways_[side];
  Way& other = ways_[1 - side];
  const Seq ack = frame_->ack;
  if (!other.acks_begun) {
    other.acks_begun = true;
    other.acked = ack;
  }
  if (ack.before(other.acked)) {
    if (++way.behind == kLost) lose_track();
    return;
  }
  way.behind = 0;
  if (!other.begun) {
    other.acked = ack;
    return;
  }
  while (other.acked != ack) {
    if (in_slots(other, other.acked) && slot(other, other.acked).seen) {
      accept(side, slot(other, other.acked));
    } else {
      ++other.unseen_delivered;
    }
    ++sums_[1 - side].acked;
    other.acked += 1;
  }
  Slot& oldest = slot(other, ack);
  oldest.told = true;
  oldest.told_seq = ack.value();
}

/// `side` says that it accepted the DATA in `slot`. Of one damaged copy a way that doubles frames
/// makes two; three are needed until a packet is given up (L12).
void Session::accept(std::size_t side, const Slot& slot) {
  ways_[1 - side].delivered[slot.vc] += slot.cells;
  if (slot.good || slot.bad != 1) return;
  unless_missed(side, "L12", [&] {
    return fmt::format("acknowledges seq {}, of which one copy passed, with a wrong packet CRC",
                       ways_[1 - side].acked.value());
  });
}

void Session::follow_allocation(std::size_t side, std::size_t vc, CellCount told, Seq made_at,
                                bool ordered) {
  Way& way = ways_[side];
  Rising<CellCount>& most = way.allocation[vc];
  if (ordered) {
    if (most.known && most.at.before(made_at) && told.before(most.value)) {
      certain(side, "L20", [&] {
        return fmt::format("tells allocation {} of VC {}; frame {}, made before it, told {}",
                           told.value(), vc, most.frame, most.value.value());
      });
    }
    if (!most.known || most.value.before(told)) {
      most = {told, made_at, frame_->tap->number, true};
    } else if (most.value == told && made_at.before(most.at)) {
      most.at = made_at;
    }
  }
  const bool known = (way.told_known >> vc & 1) != 0;
  if (known && told.before(way.told[vc])) {
    unless_missed(side, "L20", [&] {
      return fmt::format("tells allocation {} of VC {}, after {}", told.value(), vc,
                         way.told[vc].value());
    });
  } else {
    if (known && is_data(*frame_) && told == way.told[vc]) {
      unless_missed(side, "L24", [&] {
        return fmt::format("a DATA tells allocation {} of VC {}, which was told already",
                           told.value(), vc);
      });
    }
    way.told[vc] = told;
    way.told_known = static_cast<std::uint8_t>(way.told_known | 1U << vc);
  }
  if (frame_->ack == ways_[1 - side].acked) bound_allocation(side, vc, told);
}

/// L20: never more than the capacity and what has left the buffer, which is at most what was
/// acknowledged. DATA that were not seen count as the longest there are.
void Session::bound_allocation(std::size_t side, std::size_t vc, CellCount told) {
  if (!whole_ || doubtful(1 - side)) return;
  const Way& other = ways_[1 - side];
  const link::Init& ours = (*terms_)[side];
  const std::uint16_t mtu = std::min(ours.mtu, (*terms_)[1 - side].mtu);
  const std::uint64_t slack = std::uint64_t{other.unseen_delivered} * cells_of(side, mtu);
  const std::uint64_t beyond = ours.capacity[vc] + slack;
  if (beyond > link::kMaxCapacitySum) return;  // half round: nothing can be said
  const CellCount limit{static_cast<std::uint16_t>(beyond + other.delivered[vc])};
  if (!limit.before(told)) return;
  certain(side, "L20", [&] {
    return fmt::format(
        "tells allocation {} of VC {}; its capacity and all that it has "
        "acknowledged make {} at most",
        told.value(), vc, limit.value());
  });
}

// ---- STATUS and NACK ----

void Session::on_control(std::size_t side) {
  Way& way = ways_[side];
  const Seq seq = frame_->seq;
  if (!way.begun) begin(side, seq);
  if (seq != way.next) {
    unless_missed(side, "L18", [&] {
      return fmt::format("tells seq {} as its next, and the next one was {}", seq.value(),
                         way.next.value());
    });
    if (way.next.before(seq)) {
      miss(side, seq);
    } else {
      ++sums_[side].late;
    }
  }
  follow(side, seq, true);
  if (frame_->kind == static_cast<std::uint8_t>(link::Kind::kNack)) {
    on_nack(side);
  } else {
    on_status(side);
  }
}

void Session::on_status(std::size_t side) {
  Way& way = ways_[side];
  if (way.has_t_tx) way.t_tx_apart = std::max(way.t_tx_apart, frame_->tap->at - way.t_tx_at);
  way.t_tx = load32(frame_->body.data() + kTxAt);
  way.t_tx_at = frame_->tap->at;
  way.has_t_tx = true;
  if ((frame_->flags & link::kFlagPoll) != 0) ++sums_[side].polls;
  if ((frame_->flags & link::kFlagEcho) != 0) {
    way.heard = way.echoed = true;
    on_echo(side, load32(frame_->body.data() + kEchoAt));
  } else if (way.echoed) {
    unless_missed(side, "L19", [] {
      return std::string("a STATUS without ECHO, after one with it in the same session");
    });
  }
}

/// From the tap to `side` and back: by the tap's clock, of which the other side's clock is told by
/// its last STATUS. That may not have arrived yet, so that the one before it is echoed.
void Session::on_echo(std::size_t side, std::uint32_t t_echo) {
  const Way& other = ways_[1 - side];
  if (!other.has_t_tx) return;
  const Duration since = frame_->tap->at - other.t_tx_at;
  const std::uint32_t now = other.t_tx + static_cast<std::uint32_t>(since.count());
  const Duration sample{static_cast<std::int32_t>(now - t_echo)};
  if (sample >= Duration{0}) sums_[side].turn.add(sample);
  const Duration between = std::max(since, Duration{0}) + std::max(other.t_tx_apart, Duration{0});
  Way& way = ways_[side];
  const Duration ahead = -sample - (kClockSlack + between / kClocksApart);
  if (ahead <= Duration{0}) {
    way.ahead = 0;
    return;
  }
  if (ahead <= kLongestStop) {
    // What one STATUS came to is echoed until the next one comes.
    if (way.ahead != 0 && way.ahead_of == other.t_tx_at) return;
    way.ahead_of = other.t_tx_at;
    if (++way.ahead < kAhead) return;
  }
  way.ahead = 0;
  unless_missed(side, "L19", [&] {
    return fmt::format("echoes a time that the other side's clock reaches in {} ns{}",
                       -sample.count(),
                       ahead > kLongestStop ? ", longer than a host stops anybody"
                                            : ", as its echoes of the STATUS before did");
  });
}

void Session::on_nack(std::size_t side) {
  // What is found in a NACK without order may overlap as often as it likes: 32 times all numbers.
  if (!sound_) return;
  const std::size_t ranges = frame_->body_length / link::kNackRange;
  judge_last(side, ranges);
  for (std::size_t i = 0; i < ranges; ++i) {
    const std::byte* range = frame_->body.data() + i * link::kNackRange;
    list(side, Seq{load16(range)}, load16(range + 2));
  }
}

/// L15: how far a NACK goes.
void Session::judge_last(std::size_t side, std::size_t ranges) {
  const Way& other = ways_[1 - side];
  const std::byte* range = frame_->body.data() + (ranges - 1) * link::kNackRange;
  const Seq last{static_cast<std::uint16_t>(load16(range) + load16(range + 2) - 1)};
  if (const link::Init* ours = terms(side);
      ours != nullptr && last.since(frame_->ack) >= ours->window) {
    certain(side, "L15", [&] {
      return fmt::format("lists seq {}, beyond its window of {} from {} on", last.value(),
                         ours->window, frame_->ack.value());
    });
  } else if (other.begun && !last.before(other.next)) {
    unless_missed(side, "L15", [&] {
      return fmt::format("lists seq {}, and the other side has sent no further than before {}",
                         last.value(), other.next.value());
    });
  }
}

/// Of `count` DATA from `first` on, those of which something is known: no more steps than slots.
void Session::list(std::size_t side, Seq first, std::uint16_t count) {
  Way& other = ways_[1 - side];
  if (!other.begun) return;
  const auto known = static_cast<std::uint16_t>(std::min<std::size_t>(other.slots.size(), 0xFFFF));
  const std::uint16_t behind = other.next.since(first);  // next lies so far from the range's start
  std::uint32_t skip = 0;
  if (behind == 0 || behind > known) {
    // The range begins outside: with what is before the oldest, or from next on.
    const Seq oldest{static_cast<std::uint16_t>(other.next.value() - known)};
    skip = oldest.since(first);
  }
  for (std::uint32_t i = skip; i < count; ++i) {
    const Seq seq = first + static_cast<std::uint16_t>(i);
    if (!in_slots(other, seq)) return;
    Slot& here = slot(other, seq);
    if (!std::exchange(here.listed, true)) ++sums_[side].nacked;
  }
}

}  // namespace mtl::conformance::judge
