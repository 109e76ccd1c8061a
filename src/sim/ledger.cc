#include "sim/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "sim/shape.h"

namespace mtl::sim {
namespace {

using network::kHeader;
using network::kMinPacket;

constexpr std::uint8_t kDatagram = static_cast<std::uint8_t>(network::Proto::kDatagram);
constexpr std::uint8_t kEcho = static_cast<std::uint8_t>(network::Proto::kEcho);
constexpr std::size_t kNumberSize = 4;

// Where the number stands: first in the payload, in an echo behind its own header (N11).
std::size_t number_at(std::uint8_t proto) {
  return kHeader + (proto == kEcho ? network::kEchoHeader : 0);
}

std::uint8_t proto_of(std::span<const std::byte> packet) {
  return load8(&packet[2]) & 0xF;
}

}  // namespace

Ledger::Ledger(std::uint64_t seed, Violations& violations,
               std::function<bool(PortRef, std::uint32_t)> dead)
    : seed_(seed), violations_(violations), dead_(std::move(dead)) {}

bool Ledger::has_number(const PacketPlan& plan) {
  return plan.length >= number_at(plan.header.proto) + kNumberSize + network::kCrc;
}

PacketNumber Ledger::make(const PacketPlan& plan, Buffer& buffer, std::uint32_t epoch) {
  const PacketNumber number = size();
  records_.push_back({.plan = plan, .epoch = epoch});
  PacketPlan& own = records_.back().plan;
  assert(own.header.entropy < kTinyEntropy && plan.length <= buffer.tailroom);
  if (!has_number(own)) {
    own.header.entropy = static_cast<std::uint16_t>(kTinyEntropy + tiny_.size());
    tiny_.push_back(number);
  }
  buffer.length = plan.length;
  buffer.tailroom -= plan.length;
  write(number, buffer.bytes());
  ++open_;
  return number;
}

void Ledger::withdraw() {
  if (!has_number(records_.back().plan)) tiny_.pop_back();
  records_.pop_back();
  --open_;
}

// Header, number, seeded bytes, CRC.
void Ledger::write(PacketNumber number, std::span<std::byte> out) const {
  const PacketPlan& plan = records_[number].plan;
  network::encode(plan.header, out.data());
  std::span<std::byte> payload = out.subspan(kHeader);
  if (plan.header.proto == kEcho) {
    std::memset(payload.data(), 0, network::kEchoHeader);
    store8(payload.data(), 1);
    store16(&payload[2], static_cast<std::uint16_t>(number >> 16));
    store16(&payload[4], static_cast<std::uint16_t>(number));
    payload = payload.subspan(network::kEchoHeader);
  }
  if (has_number(plan)) {
    store32(payload.data(), number);
    payload = payload.subspan(kNumberSize);
  }
  std::uint64_t state = seed_ ^ (number * 0x9E3779B97F4A7C15u);
  while (!payload.empty()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::byte word[8];
    store64(word, state);
    const std::size_t n = std::min(payload.size(), sizeof word);
    std::memcpy(payload.data(), word, n);
    payload = payload.subspan(n);
  }
  network::seal(out);
  if (plan.bad_crc) out.back() ^= std::byte{0xFF};
}

std::optional<PacketNumber> Ledger::identify(std::span<const std::byte> packet) const {
  if (packet.size() < kMinPacket) return std::nullopt;
  const std::uint8_t proto = proto_of(packet);
  if (proto != kDatagram && proto != kEcho) return std::nullopt;
  const std::uint16_t entropy = load16(&packet[8]);
  PacketNumber number = kNone;
  if (entropy >= kTinyEntropy) {
    const std::size_t index = entropy - kTinyEntropy;
    if (index < tiny_.size()) number = tiny_[index];
  } else if (packet.size() >= number_at(proto) + kNumberSize + network::kCrc) {
    number = load32(&packet[number_at(proto)]);
  }
  if (number >= size()) return std::nullopt;
  const PacketPlan& plan = records_[number].plan;
  const network::Header& header = plan.header;
  const bool same = header.proto == proto && header.dst.value() == load16(&packet[4]) &&
                    header.src.value() == load16(&packet[6]) && header.entropy == entropy &&
                    plan.length == packet.size() && (load8(&packet[2]) >> 4) == header.packet_class;
  return same ? std::optional(number) : std::nullopt;
}

void Ledger::sent(PacketNumber number, PortRef from, std::uint32_t session) {
  Record& record = records_[number];
  hops_.push_back({from, session, record.hops});
  record.hops = static_cast<std::uint32_t>(hops_.size() - 1);
}

// A copy is a packet that had arrived and whose acknowledgement had not when the link died (L9): so
// the packet must have been sent in a session that has ended, once for each copy.
void Ledger::end(PacketNumber number, std::uint16_t Record::*count) {
  Record& record = records_[number];
  const unsigned before = record.delivered + record.dropped + record.poisoned;
  if (before + record.lost == 0) --open_;
  ++(record.*count);
  if (before == 0) return;
  ++copies_;
  unsigned deaths = 0;
  for (std::uint32_t hop = record.hops; hop != kNone; hop = hops_[hop].before) {
    deaths += dead_(hops_[hop].from, hops_[hop].session) ? 1u : 0u;
  }
  if (before > deaths) {
    violations_.add("copy",
                    fmt::format("{}: a copy that no link's death explains ({} deaths on its way)",
                                describe(number), deaths));
  }
}

void Ledger::delivered(PacketNumber number, std::uint32_t node, std::span<const std::byte> packet,
                       std::uint32_t epoch) {
  const PacketPlan& plan = records_[number].plan;
  expected_.resize(plan.length);
  write(number, expected_);
  // Bytes 0 and 1 change on the way (section 4).
  if (!std::equal(packet.begin() + 2, packet.end(), expected_.begin() + 2)) {
    violations_.add("altered", describe(number) + ": delivered with other content");
  }
  if (load8(packet.data()) > plan.header.hop_limit) {
    violations_.add("altered", describe(number) + ": its hop limit grew");
  }
  if (plan.bad_crc) violations_.add("bad_crc", describe(number) + ": delivered with a wrong CRC");
  if (node + 1u != plan.header.dst.value()) {
    violations_.add("wrong_node", fmt::format("{}: delivered at node {}", describe(number), node));
  }
  end(number, &Record::delivered);
  check_order(number, epoch);
}

// Packets of one flow and one length take one path as long as nothing changes (N7, N8), and a link
// keeps order (L13). Other lengths may find other hops usable, so the length is part of the key.
void Ledger::check_order(PacketNumber number, std::uint32_t epoch) {
  const Record& record = records_[number];
  const network::Header& header = record.plan.header;
  const bool own = header.src == node_id(record.plan.at);  // else another node has that flow
  if (header.entropy >= kTinyEntropy || !own || order_ == Order::kNever) return;
  const bool always = order_ == Order::kAlways;
  if (!always && record.epoch != epoch) return;
  // Only the first copy has to come in order; where that one ended otherwise, a later one may come.
  if (record.delivered != 1 || record.dropped + record.poisoned + record.lost != 0) return;
  const std::uint64_t key = std::uint64_t{record.plan.at} << 48 |
                            std::uint64_t{header.dst.value()} << 32 |
                            std::uint64_t{always ? 0 : record.plan.length} << 16 |
                            static_cast<std::uint64_t>(header.entropy << 1) | header.packet_class;
  const auto [found, fresh] = flows_.try_emplace(key, Flow{number});
  if (fresh) return;
  PacketNumber& last = found->second.last;
  if (number < last && (always || records_[last].epoch == epoch)) {
    violations_.add(
        "order",
        fmt::format("{}: delivered after {} of its flow {}", describe(number), last,
                    always ? "though there is one way alone" : "on a path that did not change"));
  }
  if (number > last && always && records_[last].epoch != epoch) ++ordered_across_changes_;
  last = std::max(last, number);
}

void Ledger::dropped(PacketNumber number) {
  end(number, &Record::dropped);
}

void Ledger::poisoned(PacketNumber number) {
  end(number, &Record::poisoned);
}

void Ledger::lost(PacketNumber number) {
  Record& record = records_[number];
  if (record.delivered + record.dropped + record.poisoned + record.lost == 0) --open_;
  ++record.lost;
}

std::uint64_t Ledger::ended_in_restart() const {
  return static_cast<std::uint64_t>(
      std::count_if(records_.begin(), records_.end(), [](const Record& record) {
        return record.lost != 0 && record.delivered + record.dropped + record.poisoned == 0;
      }));
}

void Ledger::close() {
  for (PacketNumber number = 0; number < size(); ++number) {
    const Record& record = records_[number];
    if (record.delivered + record.dropped + record.poisoned + record.lost != 0) continue;
    violations_.add("vanished", describe(number) + ": it is nowhere and has no end");
  }
}

std::string Ledger::describe(PacketNumber number) const {
  const Record& record = records_[number];
  const network::Header& header = record.plan.header;
  std::string text = fmt::format(
      "packet {} ({} bytes, node {} to id {}, class {}, entropy {}{}; delivered {} dropped {} "
      "poisoned {} lost {}; sent by",
      number, record.plan.length, record.plan.at, header.dst.value(), header.packet_class,
      header.entropy, record.plan.bad_crc ? ", bad CRC" : "", record.delivered, record.dropped,
      record.poisoned, record.lost);
  std::string hops;
  for (std::uint32_t hop = record.hops; hop != kNone; hop = hops_[hop].before) {
    hops = fmt::format(" {}:{}/{}", hops_[hop].from.node, hops_[hop].from.port.value(),
                       hops_[hop].session) +
           hops;
  }
  return text + (hops.empty() ? " nobody" : hops) + ')';
}

}  // namespace mtl::sim
