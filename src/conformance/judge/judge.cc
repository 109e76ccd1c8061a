#include "conformance/judge/judge.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace mtl::conformance::judge {
namespace {

// Headers, two tags and the body of an INIT; the rest is padding.
constexpr std::size_t kCallBytes = 128;
// A side whose frames come by another interface alone, so many and for so long, is judged there:
// longer than two taps of one link can lie apart.
constexpr std::uint32_t kMoved = 64;
constexpr Duration kMovedFor = std::chrono::milliseconds(10);

bool group(const Mac& mac) {
  return (std::to_integer<unsigned>(mac[0]) & 1U) != 0;
}

std::uint64_t number(const Mac& mac) {
  std::uint64_t value = 0;
  std::memcpy(&value, mac.data(), mac.size());
  return value;
}

}  // namespace

std::size_t Judge::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = number(key.macs[0]) * 0x9E3779B97F4A7C15U;
  hash = (hash ^ (hash >> 32) ^ number(key.macs[1])) * 0xBF58476D1CE4E5B9U;
  return hash ^ (hash >> 32) ^ key.tags;
}

void Judge::frame(const TapFrame& tap) {
  if (frames_ != 0 && tap.section != section_) begin_section(tap);
  section_ = tap.section;
  newest_ = frames_ == 0 ? tap.at : std::max(newest_, tap.at);
  ++frames_;
  LinkFrame frame;
  if (take_apart(tap, options_.ether_type, frame) == Content::kOther) {
    ++other_;
  } else if (group(frame.to)) {
    to_nobody(frame);
  } else {
    to_link(frame);
  }
}

/// The capture was begun anew: interfaces may have other numbers, and what passed in between is not
/// in it. One that is of an earlier time knows nothing of what came before.
void Judge::begin_section(const TapFrame& tap) {
  const bool earlier = tap.at < newest_;
  for (LinkView& link : links_) link.judge->interrupted(earlier);
  newest_ = tap.at;
}

void Judge::to_link(const LinkFrame& frame) {
  if (frame.from == frame.to || group(frame.from)) {
    ++unjudged_.addresses;
  } else if (const auto link = find(frame)) {
    give(*link, frame);
  }
}

/// Whether a frame of a link that is not known yet shows that there is one; else it is counted.
bool Judge::makes_link(const LinkFrame& frame) {
  if (frame.header_crc == Crc::kRight) return true;
  ++(frame.header_crc == Crc::kWrong ? unjudged_.damaged : unjudged_.cut);
  return false;
}

/// A frame to a group: an INIT of who does not know its peer yet (P2). It is of all links of that
/// end, or waits for the first one.
void Judge::to_nobody(const LinkFrame& frame) {
  const End end{frame.tags, frame.from};
  if (const auto links = by_end_.find(end); links != by_end_.end()) {
    for (const std::size_t link : links->second) give(link, frame);
    return;
  }
  if (group(frame.from)) {
    ++unjudged_.addresses;
    return;
  }
  if (!makes_link(frame)) return;
  if (!calls_.contains(end) && calls_.size() == kMostLinks) {
    ++unjudged_.beyond;
    return;
  }
  std::deque<Call>& calls = calls_[end];
  if (calls.size() == kCallsKept) calls.pop_front();
  Call& call = calls.emplace_back();
  const auto kept = frame.tap->bytes.first(std::min(frame.tap->bytes.size(), kCallBytes));
  call.bytes.assign(kept.begin(), kept.end());
  call.tap = *frame.tap;
  call.tap.bytes = call.bytes;
}

void Judge::give(std::size_t index, const LinkFrame& frame) {
  LinkView& link = links_[index];
  const std::size_t side = frame.from == link.judge->sides()[0].mac ? 0 : 1;
  if (tapped_here(link, side, frame)) {
    link.judge->frame(side, frame);
  } else {
    link.judge->seen_elsewhere(side);
  }
}

/// Whether a frame came by the interface on which its side is judged.
bool Judge::tapped_here(LinkView& link, std::size_t side, const LinkFrame& frame) {
  Tapped& tapped = link.taps[side];
  const TapFrame& tap = *frame.tap;
  const bool unicast = !group(frame.to);
  const auto by = unicast ? Tapped::By::kUnicastFrame : Tapped::By::kGroupFrame;
  if (tapped.by != Tapped::By::kNothing && tapped.section == tap.section) {
    if (tapped.interface == tap.interface) {
      tapped.by = std::max(tapped.by, by);
      tapped.last = tap.at;
      tapped.elsewhere = 0;
      return true;
    }
    if (!unicast) return false;
    if (tapped.by == Tapped::By::kUnicastFrame) {
      if (++tapped.elsewhere < kMoved || tap.at - tapped.last < kMovedFor) return false;
      link.judge->moved();
    }
  }
  tapped = {by, tap.interface, tap.section, tap.at, 0};
  auto& known = link.interfaces;
  if (std::find(known.begin(), known.end(), tap.interface) == known.end()) {
    known.push_back(tap.interface);
  }
  return true;
}

/// The link of a frame, made if need be. Nullopt: there is none, and the frame is counted.
std::optional<std::size_t> Judge::find(const LinkFrame& frame) {
  Key key{frame.tags, {std::min(frame.from, frame.to), std::max(frame.from, frame.to)}};
  if (last_ && key == last_key_) return last_;
  auto at = by_key_.find(key);
  if (at == by_key_.end()) {
    if (!makes_link(frame)) return std::nullopt;
    if (links_.size() == kMostLinks) {
      ++unjudged_.beyond;
      return std::nullopt;
    }
    at = by_key_.emplace(key, make(key.tags, frame.from, frame.to)).first;
  }
  last_ = at->second;
  last_key_ = key;
  return last_;
}

/// A link between `from` and `to`; what they called before it was known is judged first.
std::size_t Judge::make(std::uint32_t tags, const Mac& from, const Mac& to) {
  std::vector<Call> earlier;
  for (const Mac& mac : {from, to}) {
    const auto calls = calls_.find({tags, mac});
    if (calls == calls_.end()) continue;
    std::move(calls->second.begin(), calls->second.end(), std::back_inserter(earlier));
    calls_.erase(calls);
  }
  std::sort(earlier.begin(), earlier.end(),
            [](const Call& a, const Call& b) { return a.tap.number < b.tap.number; });
  LinkFrame frame;
  if (!earlier.empty()) take_apart(earlier.front().tap, options_.ether_type, frame);
  const bool other_first = !earlier.empty() && frame.from == to;

  const std::size_t index = links_.size();
  LinkView& link = links_.emplace_back();
  link.tags = tags;
  const std::array<Mac, 2> macs{other_first ? to : from, other_first ? from : to};
  link.judge = std::make_unique<LinkJudge>(index, macs, sink_, options_.complete);
  for (const Mac& mac : macs) by_end_[{tags, mac}].push_back(index);
  for (const Call& call : earlier) {
    take_apart(call.tap, options_.ether_type, frame);
    give(index, frame);
  }
  return index;
}

void Judge::missed_on(std::uint32_t interface) {
  for (LinkView& link : links_) {
    const auto& known = link.interfaces;
    if (std::find(known.begin(), known.end(), interface) != known.end()) link.judge->missed();
  }
}

std::uint64_t Judge::judged() const {
  std::uint64_t all = 0;
  for (const LinkView& link : links_) {
    for (const SideSummary& side : link.judge->sides()) all += side.judged;
  }
  return all;
}

void Judge::finish() {
  // Who called and was never answered is a link all the same, to nobody.
  while (!calls_.empty() && links_.size() < kMostLinks) {
    const auto [tags, mac] = calls_.begin()->first;
    make(tags, mac, link::kUnknownPeer);
  }
  for (LinkView& link : links_) link.judge->finish();
}

}  // namespace mtl::conformance::judge
