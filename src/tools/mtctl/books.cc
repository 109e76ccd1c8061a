#include "tools/mtctl/books.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "tools/mtctl/show.h"

namespace mtl::tools {
namespace {

using mtlink::control::NodeState;
using mtlink::control::PortState;
using mtlink::control::ShardState;

using Drops = google::protobuf::RepeatedPtrField<mtlink::control::DropCount>;

std::uint64_t sum(const std::vector<Term>& terms) {
  std::uint64_t total = 0;
  for (const auto& term : terms) total += term.value;
  return total;
}

Term dropped(const Drops& drops, const std::string& name) {
  for (const auto& drop : drops)
    if (drop.layer() == "link" && drop.name() == name) return {name, drop.count()};
  return {name, 0};
}

/// Frames of a kind that passed the checks of L3, or were sent.
std::uint64_t of_kind(const PortState& port, const std::string& kind, bool in) {
  for (const auto& count : port.link().kinds())
    if (count.kind() == kind) return in ? count.in() : count.out();
  return 0;
}

void shard_books(const ShardState& shard, std::vector<Book>& all) {
  const std::string place = fmt::format("shard {}", shard.shard());
  all.push_back(
      {place,
       "packets",
       {{"accepted", shard.accepted()}, {"made", shard.made()}, {"passed_in", shard.passed_in()}},
       {{"acked", shard.acked()},
        {"delivered", shard.delivered()},
        {"dropped", shard.dropped()},
        {"passed_out", shard.passed_out()},
        {"held", shard.held()}},
       {}});
  std::vector<Term> reasons;
  // no_buffer is of the layer phy: a reply or error that was never made is no packet.
  for (const auto& drop : shard.drops())
    if (drop.layer() == "network") reasons.push_back({drop.name(), drop.count()});
  all.push_back({place, "drops", {{"dropped", shard.dropped()}}, reasons, {}});
}

/// Links and shards count the same packets on their own.
void node_books(const NodeState& node, std::vector<Book>& all) {
  const auto total = [&](const std::function<std::uint64_t(const ShardState&)>& of) {
    std::uint64_t n = 0;
    for (const auto& shard : node.shards()) n += of(shard);
    return n;
  };
  const auto ports = [&](const std::function<std::uint64_t(const PortState&)>& of) {
    std::uint64_t n = 0;
    for (const auto& port : node.ports()) n += of(port);
    return n;
  };
  const auto with_removed = [&](Term term, std::uint64_t removed) {
    std::vector<Term> terms{std::move(term)};
    if (node.removed().ports() > 0) terms.push_back({"of removed ports", removed});
    return terms;
  };
  all.push_back({"node",
                 "packets in",
                 with_removed({"ports' packets_in",
                               ports([](const auto& p) { return p.link().packets_in(); })},
                              node.removed().packets_in()),
                 {{"shards' accepted", total([](const auto& s) { return s.accepted(); })}},
                 {}});
  all.push_back({"node",
                 "packets out",
                 with_removed({"ports' packets_acked",
                               ports([](const auto& p) { return p.link().packets_acked(); })},
                              node.removed().packets_acked()),
                 {{"shards' acked", total([](const auto& s) { return s.acked(); })}},
                 {}});
  all.push_back(
      {"node",
       "packets here",
       {{"ports' queued", ports([](const auto& p) { return p.link().queued(); })},
        {"unacknowledged", ports([](const auto& p) { return p.link().unacknowledged(); })}},
       {{"shards' held", total([](const auto& s) { return s.held(); })}},
       {}});
}

void port_books(const PortState& port, std::vector<Book>& all) {
  const std::string place = fmt::format("port {}", port_label(port));
  const auto& link = port.link();
  Book seen{place, "frames in", {{"frames_seen", link.frames_seen()}}, {}, {}};
  for (const auto& kind : link.kinds()) seen.right.push_back({kind.kind(), kind.in()});
  // P2 and L3: what is dropped before a frame's kind counts.
  for (const char* reason : {"foreign", "malformed", "bad_header_crc", "stale"})
    seen.right.push_back(dropped(port.drops(), reason));
  all.push_back(std::move(seen));

  // L11 to L13. Two things keep this from being exact: bad_ack (L16) is counted for DATA, STATUS
  // and NACK together; and a poisoned frame (L12), in bad_packet_crc already, takes a place that
  // may be held, too.
  const Term poisoned = dropped(port.drops(), "poisoned");
  all.push_back({place,
                 "DATA in",
                 {{"DATA", of_kind(port, "DATA", true)}, poisoned},
                 {{"packets_in", link.packets_in()},
                  {"held", link.held()},
                  {"held_discarded", link.held_discarded()},
                  dropped(port.drops(), "duplicate"),
                  dropped(port.drops(), "out_of_window"),
                  dropped(port.drops(), "over_credit"),
                  dropped(port.drops(), "bad_packet_crc")},
                 {dropped(port.drops(), "bad_ack"), poisoned}});
  // L9 hands back both what was sent and what was only queued.
  all.push_back({place,
                 "DATA out",
                 {{"DATA", of_kind(port, "DATA", false)}},
                 {{"replays", link.replays()},
                  {"packets_acked", link.packets_acked()},
                  {"unacknowledged", link.unacknowledged()}},
                 {{"packets_back", link.packets_back()}}});
}

std::string joined(const std::vector<Term>& terms) {
  if (terms.empty()) return "0";
  std::string text;
  for (const auto& term : terms)
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", term.name, term.value);
  return text;
}

}  // namespace

std::int64_t Book::difference() const {
  const auto low = sum(right);
  const auto high = low + sum(slack);
  const auto value = sum(left);
  if (value < low) return -static_cast<std::int64_t>(low - value);
  return value > high ? static_cast<std::int64_t>(value - high) : 0;
}

std::vector<Book> books(const NodeState& node) {
  std::vector<Book> all;
  for (const auto& shard : node.shards()) shard_books(shard, all);
  node_books(node, all);
  for (const auto& port : node.ports()) port_books(port, all);
  return all;
}

std::string describe(const Book& book) {
  std::string text =
      fmt::format("{}, {}: {} = {}", book.place, book.about, joined(book.left), joined(book.right));
  if (sum(book.slack) > 0) text += fmt::format(" + up to {}", joined(book.slack));
  const auto difference = book.difference();
  if (difference == 0) return text + " (balanced)";
  return text + fmt::format(" (NOT BALANCED: the left is {} too {})",
                            difference < 0 ? -difference : difference,
                            difference < 0 ? "small" : "large");
}

}  // namespace mtl::tools
