#include "capture/verdict.h"

#include <string_view>

#include "base/byte_order.h"
#include "link/codec.h"

namespace mtl::capture {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Outcome::kCount)> kNames{
    "accepted",  "accepted, out of order: held", "not ours: another EtherType", "drop", "sent",
    "sent again"};

constexpr Reasons of_layer(DropLayer layer) {
  Reasons out = 0;
  for (unsigned i = 0; i < static_cast<unsigned>(Drop::kCount); ++i) {
    if (kDropInfo[i].layer == layer) out |= reason(static_cast<Drop>(i));
  }
  return out;
}
constexpr Reasons kOfNode = of_layer(DropLayer::kNetwork);

bool is_data(std::span<const std::byte> frame) {
  return frame.size() >= link::kFrameHeader && (load8(frame.data() + link::kEthernetHeader) &
                                                0x0FU) == static_cast<unsigned>(link::Kind::kData);
}

std::string names(Reasons reasons) {
  std::string out;
  for (unsigned bit = 0; bit < 64; ++bit) {
    if ((reasons >> bit & 1U) == 0) continue;
    if (!out.empty()) out += ", ";
    out += bit < static_cast<unsigned>(Drop::kCount) ? name(static_cast<Drop>(bit)) : "?";
  }
  return out;
}

}  // namespace

std::string describe(const Verdict& verdict) {
  const auto outcome = static_cast<std::size_t>(verdict.outcome);
  std::string out(outcome < kNames.size() ? kNames[outcome] : "?");
  const Reasons of_node = verdict.reasons & kOfNode;
  const Reasons of_frame = verdict.reasons & ~kOfNode;
  if (of_frame != 0) out += ": " + names(of_frame);
  if (of_node != 0) out += "; the node dropped: " + names(of_node);
  return out;
}

DropsBefore::DropsBefore(const DropCounters& counters) : counters_(counters) {
  for (std::size_t i = 0; i < before_.size(); ++i) before_[i] = counters.get(static_cast<Drop>(i));
}

Reasons DropsBefore::grown(DropLayer layer) const {
  Reasons out = 0;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    const auto drop = static_cast<Drop>(i);
    if (info(drop).layer == layer && counters_.get(drop) != before_[i]) out |= reason(drop);
  }
  return out;
}

BeforeFrame::BeforeFrame(const link::Link& link, const network::ShardCounters& shard,
                         std::span<const std::byte> frame)
    : link_(link),
      of_link_(link.counters().drops),
      of_shard_(shard.drops),
      seen_(link.counters().frames_seen.get()),
      held_(link.held()),
      data_(is_data(frame)) {}

Verdict BeforeFrame::after() const {
  const Reasons dropped = of_link_.grown(DropLayer::kLink);
  if (dropped == 0 && link_.counters().frames_seen.get() == seen_) return {Outcome::kNotOurs, 0};
  // L12: a poisoned one is missed by nobody, so those that waited for it go on.
  const bool moves_on = data_ && (dropped == 0 || (dropped & reason(Drop::kPoisoned)) != 0);
  const Reasons of_node = moves_on ? of_shard_.grown(DropLayer::kNetwork) : 0;
  if (dropped != 0) return {Outcome::kDropped, dropped | of_node};
  return {link_.held() > held_ ? Outcome::kHeld : Outcome::kAccepted, of_node};
}

}  // namespace mtl::capture
