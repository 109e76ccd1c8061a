#include "sim/checkers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/byte_order.h"
#include "base/serial.h"
#include "link/codec.h"
#include "network/packet.h"

namespace mtl::sim {
namespace {

// Nothing in a fabric of well-behaved nodes explains these, whatever the wires do: corruption is
// caught by a CRC, old frames by their epoch.
constexpr Drop kPeerFaults[] = {Drop::kOverCredit,   Drop::kBadAck,    Drop::kOutOfWindow,
                                Drop::kIncompatible, Drop::kWrongPeer, Drop::kLooped,
                                Drop::kForeign};
constexpr Drop kBeforeSession[] = {Drop::kForeign, Drop::kMalformed, Drop::kBadHeaderCrc,
                                   Drop::kStale};
constexpr Drop kDataDrops[] = {Drop::kDuplicate, Drop::kOutOfWindow, Drop::kOverCredit,
                               Drop::kBadPacketCrc};

std::string at_text(std::uint32_t node, PortId port) {
  return fmt::format("node {} port {}", node, port.value());
}

}  // namespace

bool books_balance(const network::ShardCounters& c, std::uint64_t held) {
  std::uint64_t dropped = 0;
  for (const Drop reason : kNetworkDrops) dropped += c.drops.get(reason);
  return c.accepted.get() + c.made.get() + c.passed_in.get() ==
         c.acked.get() + c.delivered.get() + dropped + c.passed_out.get() + held;
}

Checkers::Checkers(std::uint64_t seed, EventLog& log)
    : log_(log), ledger_(seed, violations_, [this](PortRef from, std::uint32_t session) {
        return dead(from, session);
      }) {}

void Checkers::watch(const Fabric& fabric, const FabricPlan& plan) {
  fabric_ = &fabric;
  fits_ = 0xFFFFFFFF;
  ends_.clear();
  for (const NodePlan& node : plan.nodes) {
    auto& ends = ends_.emplace_back(node.config.ports.size());
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const link::Config& config = node.config.ports[i].link;
      ends[i].sent.resize(std::bit_ceil(config.send_window) * std::size_t{2});
      fits_ = std::min<std::uint32_t>(fits_, config.mtu);
      for (const std::uint16_t capacity : config.capacity) {
        fits_ = std::min<std::uint32_t>(fits_, std::uint32_t{capacity} * config.cell);
      }
    }
  }
}

bool Checkers::dead(PortRef from, std::uint32_t session) const {
  const NodeHost& node = fabric_->node(from.node);
  if (node.slot(from.port).session != session) return true;
  const link::Link* link = node.link(from.port);
  return link == nullptr || link->state() != link::State::kUp;
}

void Checkers::note_credit(End& at, std::size_t vc, std::uint16_t credit) {
  if (credit < at.credit[vc] && CellCount(at.credit[vc]).before(CellCount(credit))) {
    ++summary_.credit_wraps;
  }
  at.credit[vc] = credit;
}

void Checkers::note_data(PortRef from, std::uint32_t session, const link::FrameOut& frame) {
  End& at = end(from);
  const std::byte* header = frame.head.data() + link::kEthernetHeader;
  const std::uint16_t seq = load16(header + 4);
  const std::uint8_t credit_vc = load8(header + 8) & 0xF;
  if (credit_vc < kVcs) note_credit(at, credit_vc, load16(header + 10));
  if (frame.replay) return;
  if (seq == 0 && at.sent_data) ++summary_.seq_wraps;
  at.sent_data = true;
  const auto number = ledger_.identify(frame.packet->bytes());
  at.sent[seq % at.sent.size()] = number.value_or(0xFFFFFFFF);
  if (number) ledger_.sent(*number, from, session);
}

void Checkers::sent(PortRef from, std::uint32_t session, const link::FrameOut& frame) {
  ++summary_.frames;
  End& at = end(from);
  if (at.session != session) {
    at.session = session;
    at.sent_data = false;
    at.credit.fill(0);
  }
  const std::byte* header = frame.head.data() + link::kEthernetHeader;
  if (log_.on()) {
    log_.line(fabric_->now(),
              fmt::format("{}:{} sends {}{} seq {} ack {} vc {} flags {} credit {}:{} bytes {}",
                          from.node, from.port.value(), link::name(frame.kind),
                          frame.replay ? " again" : "", load16(header + 4), load16(header + 6),
                          load8(header + 8) >> 4, load8(header + 9), load8(header + 8) & 0xF,
                          load16(header + 10), load16(header + 2)));
  }
  if (frame.kind == link::Kind::kData) {
    note_data(from, session, frame);
  } else if (frame.kind == link::Kind::kStatus) {
    const std::byte* body = frame.head.data() + link::kFrameHeader;
    for (std::size_t v = 0; v < kVcs; ++v) note_credit(at, v, load16(body + 2 * v));
  }
}

void Checkers::delivered(std::uint32_t node, const Buffer& packet, bool answered) {
  const auto number = ledger_.identify(packet.bytes());
  if (log_.on()) {
    log_.line(fabric_->now(),
              fmt::format("node {} {} {}", node, answered ? "answers" : "takes",
                          number ? fmt::format("packet {}", *number) : std::string("an echo")));
  }
  ++summary_.delivered;
  if (number) {
    ledger_.delivered(*number, node, packet.bytes(), epoch_);
    return;
  }
  const auto echo = network::decode_echo(packet.bytes());
  const bool known = echo && echo->type >= 2 && echo->type <= 4;
  if (!known || !link::packet_crc_ok(packet.bytes())) {
    violations_.add("altered", fmt::format("node {}: a packet delivered that nobody made", node));
  }
  if (network::decode(packet.bytes()).dst != node_id(node)) {
    violations_.add("wrong_node", fmt::format("node {}: an echo for another node", node));
  }
}

// Whether a packet can end under this name, by what it is and what has changed since it was made.
bool Checkers::plausible(Drop reason, PacketNumber number, std::uint32_t) const {
  const PacketPlan& plan = ledger_.plan(number);
  switch (reason) {
    case Drop::kWrongClass:
      return plan.header.packet_class > network::kClassResponse;
    case Drop::kSpoofed:
      return plan.header.src != node_id(plan.at);
    case Drop::kWrongPartition:
      return plan.header.partition != kGoodPartition;
    case Drop::kHopLimitExceeded:
      return plan.header.hop_limit < network::kDefaultHopLimit;
    case Drop::kNoRoute:
      return ledger_.epoch(number) != epoch_ || plan.length > fits_ ||
             plan.header.dst.value() > fabric_->nodes() || !fabric_->all_usable();
    default:
      return false;
  }
}

void Checkers::dropped(std::uint32_t node, Drop reason, const Buffer& packet) {
  const auto number = ledger_.identify(packet.bytes());
  if (log_.on()) {
    log_.line(fabric_->now(),
              fmt::format("node {} drops {} {}", node, name(reason),
                          number ? fmt::format("packet {}", *number) : std::string("an echo")));
  }
  if (!number) return;
  ledger_.dropped(*number);
  if (!plausible(reason, *number, node)) {
    violations_.add("drop", fmt::format("node {}: {}: dropped as {}", node,
                                        ledger_.describe(*number), name(reason)));
  }
}

void Checkers::lost(std::uint32_t, const Buffer& buffer) {
  const auto number = ledger_.identify(buffer.bytes());
  if (number) ledger_.lost(*number);
}

void Checkers::poisoned(PortRef at, Seq seq) {
  const PortRef peer = fabric_->node(at.node).slot(at.port).peer;
  const End& sender = end(peer);
  const PacketNumber number = sender.sent[seq.value() % sender.sent.size()];
  if (log_.on()) {
    log_.line(fabric_->now(), fmt::format("{}:{} poisons seq {} packet {}", at.node,
                                          at.port.value(), seq.value(), number));
  }
  if (number >= ledger_.size()) return;  // an echo's reply or error
  ++summary_.poisoned;
  ledger_.poisoned(number);
}

void Checkers::link_changed(PortRef at) {
  ++epoch_;
  if (!log_.on()) return;
  const link::Link* link = fabric_->node(at.node).link(at.port);
  log_.line(fabric_->now(),
            fmt::format("{}:{} is {} ({}){}", at.node, at.port.value(), link::name(link->state()),
                        link::name(link->down_reason()), link->usable() ? " usable" : ""));
}

void Checkers::settled(const ShardHost& host) {
  const network::Shard& shard = host.shard();
  if (!books_balance(shard.counters(), shard.held())) {
    const auto& c = shard.counters();
    violations_.add(
        "books", fmt::format("node {} shard {}: accepted {} made {} passed in {}; acked {} "
                             "delivered {} passed out {} held {}",
                             host.node().index(), host.id().value(), c.accepted.get(), c.made.get(),
                             c.passed_in.get(), c.acked.get(), c.delivered.get(),
                             c.passed_out.get(), shard.held()));
  }
  for (const PortId port : shard.ports()) {
    const link::Link& link = *shard.link(port);
    for (std::uint8_t v = 0; v < kVcs; ++v) {
      if (link.occupied(Vc{v}) <= link.config().capacity[v]) continue;
      violations_.add(
          "over_capacity",
          fmt::format("{} vc {}: {} cells occupied of {}", at_text(host.node().index(), port), v,
                      link.occupied(Vc{v}), link.config().capacity[v]));
    }
  }
}

void Checkers::check_counters(const NodeHost& node, PortId port) {
  const link::Counters& c = node.link(port)->counters();
  const PortSlot& slot = node.slot(port);
  const auto wrong = [&](std::string_view what, std::uint64_t counted, std::uint64_t seen) {
    if (counted == seen) return;
    violations_.add("counters", fmt::format("{}: {} is {}, seen {}", at_text(node.index(), port),
                                            what, counted, seen));
  };
  wrong("frames_seen", c.frames_seen.get(), slot.given);
  std::uint64_t in = 0;
  for (std::size_t k = 0; k < link::kKinds; ++k) {
    wrong(fmt::format("frames_out of {}", link::name(static_cast<link::Kind>(k))),
          c.frames_out[k].get(), slot.pulled[k]);
    in += c.frames_in[k].get();
  }
  for (const Drop reason : kBeforeSession) in += c.drops.get(reason);
  wrong("frames_in with the drops of L3", in, slot.given);
  // Each DATA that passed L3 is delivered, dropped by name, or held (L11 to L13); a poisoned one is
  // dropped by name and may be held as well.
  const std::uint64_t data = c.frames_in[0].get();
  std::uint64_t known = c.packets_in.get() + c.held_discarded.get() + node.link(port)->held();
  for (const Drop reason : kDataDrops) known += c.drops.get(reason);
  if (known < data || known > data + c.drops.get(Drop::kPoisoned)) {
    wrong("DATA delivered, dropped and held", known, data);
  }
  for (const Drop reason : kPeerFaults) {
    if (c.drops.get(reason) == 0) continue;
    violations_.add("peer_fault",
                    fmt::format("{}: {} frames counted {}", at_text(node.index(), port),
                                c.drops.get(reason), name(reason)));
  }
}

void Checkers::tally(const NodeHost& node, PortId port) {
  const link::Counters& c = node.link(port)->counters();
  summary_.frame_hops += node.slot(port).given;
  summary_.ups += c.ups.get();
  summary_.replays += c.replays.get();
  summary_.replay_timeouts += c.replay_timeouts.get();
  summary_.polls += c.polls.get();
  summary_.credit_stalls += c.credit_stalls.get();
  summary_.held_discarded += c.held_discarded.get();
  summary_.handed_back += c.packets_back.get();
  if (node.node().place(port).trunk != nullptr) {
    summary_.lane_handed_back += c.packets_back.get();
  }
  summary_.nacks += c.frames_out[static_cast<std::size_t>(link::Kind::kNack)].get();
  for (std::size_t r = 0; r < summary_.downs.size(); ++r) summary_.downs[r] += c.downs[r].get();
  for (std::size_t d = 0; d < summary_.drops.size(); ++d) {
    summary_.drops[d] += c.drops.get(static_cast<Drop>(d));
  }
}

void Checkers::tally(const NodeHost& node) {
  for (const network::Trunk& trunk : node.node().trunks()) {
    summary_.lane_moves += trunk.moves();
    summary_.lane_forced += trunk.forced_moves();
  }
  if (node.node().config().hop_choice == network::HopChoice::kShortestQueue) ++summary_.by_queue;
  for (const auto& host : node.shards()) {
    const network::ShardCounters& c = host->shard().counters();
    summary_.rerouted += c.rerouted.get();
    summary_.forwarded += c.forwarded.get();
    summary_.between_shards += c.passed_out.get();
    summary_.marked += c.marked.get();
    summary_.replies += c.replies.get();
    summary_.errors += c.errors.get();
    for (std::size_t d = 0; d < summary_.drops.size(); ++d) {
      summary_.drops[d] += c.drops.get(static_cast<Drop>(d));
    }
  }
}

void Checkers::retiring(const NodeHost& node) {
  for (std::size_t i = 0; i < node.slots().size(); ++i) {
    const PortId port(static_cast<std::uint16_t>(i));
    if (node.link(port) == nullptr) continue;  // removed; it has been retired
    check_counters(node, port);
    tally(node, port);
  }
  tally(node);
  ++epoch_;
}

void Checkers::retiring(const NodeHost& node, PortId port) {
  check_counters(node, port);
  tally(node, port);
  ++summary_.replaced;
  ++epoch_;
}

void Checkers::broken(std::string_view check, std::string text) {
  violations_.add(check, std::move(text));
}

void Checkers::check_credits() {
  for (std::size_t w = 0; w < fabric_->wires(); ++w) {
    const WirePlan& plan = fabric_->wire(w).plan();
    for (std::size_t d = 0; d < 2; ++d) {
      const PortRef from = plan.ends[d];
      const PortRef to = plan.ends[1 - d];
      const link::Link* sender = fabric_->node(from.node).link(from.port);
      const link::Link* receiver = fabric_->node(to.node).link(to.port);
      if (sender == nullptr || receiver == nullptr || !sender->usable() || !receiver->usable()) {
        continue;
      }
      ++summary_.quiet_checks;
      for (std::uint8_t v = 0; v < kVcs; ++v) {
        const std::uint32_t occupied = receiver->occupied(Vc{v});
        summary_.quiet_occupied += occupied != 0 ? 1 : 0;
        if (sender->credit(Vc{v}) + occupied == receiver->config().capacity[v]) continue;
        violations_.add("credit", fmt::format("{} vc {}: credit {}; {}: capacity {} occupied {}",
                                              at_text(from.node, from.port), v,
                                              sender->credit(Vc{v}), at_text(to.node, to.port),
                                              receiver->config().capacity[v], occupied));
      }
    }
  }
}

void Checkers::check_end() {
  check_credits();
  ledger_.close();
  for (std::uint32_t n = 0; n < fabric_->nodes(); ++n) {
    if (fabric_->node(n).in_use() == 0) continue;
    violations_.add("leak",
                    fmt::format("node {}: {} buffers are out and nothing is left to be done", n,
                                fabric_->node(n).in_use()));
  }
  summary_.packets += ledger_.size();
  summary_.copies += ledger_.copies();
  summary_.ordered_across += ledger_.ordered_across_changes();
  summary_.lost_in_restart += ledger_.ended_in_restart();
}

}  // namespace mtl::sim
