#include "conformance/live_binding.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/byte_order.h"
#include "conformance/describe.h"
#include "conformance/live_model.h"

namespace mtl::conformance {
namespace {

constexpr std::size_t kSourceAt = sizeof(Mac);
constexpr std::size_t kEtherTypeAt = 2 * sizeof(Mac);
// Within the link header.
constexpr std::size_t kFlagsAt = 9;
constexpr std::size_t kCrcAt = 12;
// Within the body of an INIT and of a STATUS.
constexpr std::size_t kPortAt = 10;
constexpr std::size_t kInitEpochAt = 14;
constexpr std::size_t kTxAt = 16;
constexpr std::size_t kEchoAt = 20;

bool is_kind(const std::byte* header, link::Kind kind) {
  return (load8(header) & 0x0FU) == static_cast<unsigned>(kind);
}

/// A frame with a link header and, of INIT and STATUS, a whole body.
bool can_be_bound(std::span<const std::byte> frame) {
  if (frame.size() < link::kFrameHeader) return false;
  const std::byte* header = frame.data() + link::kEthernetHeader;
  const std::size_t body = frame.size() - link::kFrameHeader;
  if (is_kind(header, link::Kind::kInit)) return body >= link::kInitBody;
  return !is_kind(header, link::Kind::kStatus) || body >= link::kStatusBody;
}

/// Changes a frame by `change`, so that its header CRC stays right, or wrong by the same bits.
template <class Change>
void keep_crc(std::vector<std::byte>& frame, Change change) {
  const std::uint32_t before = right_header_crc(frame);
  change(frame.data() + link::kEthernetHeader, frame.data() + link::kFrameHeader);
  std::byte* crc = frame.data() + link::kEthernetHeader + kCrcAt;
  store32(crc, load32(crc) ^ before ^ right_header_crc(frame));
}

void change_type(std::vector<std::byte>& frame, std::uint16_t from, std::uint16_t to) {
  if (frame.size() < link::kEthernetHeader || load16(frame.data() + kEtherTypeAt) != from) return;
  store16(frame.data() + kEtherTypeAt, to);
}

/// L6, as far as an INIT stands by itself.
bool acceptable(const link::Init& init) {
  std::uint32_t cells = 0;
  for (const std::uint16_t capacity : init.capacity) cells += capacity;
  return init.vcs == kVcs && init.cell != 0 && init.window != 0 &&
         init.window <= link::kMaxWindow && init.epoch != 0 && init.nonce != 0 &&
         init.mtu >= link::kMinMtu && cells <= link::kMaxCapacitySum;
}

/// How far a 32-bit clock is ahead of another.
std::int64_t ahead(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b);
}

}  // namespace

LiveBinding::LiveBinding(const Trace& trace, Duration slack, std::uint16_t ether_type)
    : trace_(trace), slack_(slack), ether_type_(ether_type), ports_(trace.ports.size()) {}

std::uint32_t LiveBinding::nonce_to_device(const Port& port, const TracePort& trace,
                                           std::uint32_t nonce) const {
  const std::size_t bound = std::min(port.seen.size(), trace.bring_ups.size());
  for (std::size_t i = bound; i > 0; --i) {
    if (trace.bring_ups[i - 1].nonce == nonce) return port.seen[i - 1].nonce;
  }
  return nonce;
}

/// Epochs that the trace holds apart from the one in force stay apart from it.
std::uint8_t LiveBinding::epoch_to_device(const Port& port, const TracePort& trace,
                                          std::uint8_t epoch) const {
  const std::size_t bound = std::min(port.seen.size(), trace.bring_ups.size());
  if (bound == 0) return epoch;
  const std::uint8_t live = port.seen[bound - 1].epoch;
  const std::uint8_t current = trace.bring_ups[bound - 1].epoch;
  if (epoch == current) return live;
  std::uint8_t other = epoch;
  for (std::size_t i = 0; i + 1 < bound; ++i) {
    if (trace.bring_ups[i].epoch == epoch) other = port.seen[i].epoch;
  }
  if (other != live) return other;
  return current != live ? current : static_cast<std::uint8_t>(live % 255 + 1);
}

std::vector<std::byte> LiveBinding::to_device(const TraceFrame& frame, Time now) {
  std::vector<std::byte> bytes = frame.bytes;
  change_type(bytes, link::kDefaultEtherType, ether_type_);
  const Port& port = ports_[frame.port.value()];
  const TracePort& trace = trace_.ports[frame.port.value()];
  if (port.mac &&
      std::equal(trace.config.link.mac.begin(), trace.config.link.mac.end(), bytes.begin())) {
    std::memcpy(bytes.data(), port.mac->data(), sizeof(Mac));
  }
  if (!can_be_bound(bytes)) return bytes;
  keep_crc(bytes, [&](std::byte* header, std::byte* body) {
    if (is_kind(header, link::Kind::kInit)) {
      store32(body, nonce_to_device(port, trace, load32(body)));
      store32(body + 4, nonce_to_device(port, trace, load32(body + 4)));
      return;
    }
    store8(header + 1, epoch_to_device(port, trace, load8(header + 1)));
    if (!is_kind(header, link::Kind::kStatus)) return;
    store32(body + kTxAt, load32(body + kTxAt) - wire_clock(frame.at) + wire_clock(now));
    if (port.last && (load8(header + kFlagsAt) & link::kFlagEcho) != 0) {
      store32(body + kEchoAt, port.last->t_tx + wire_clock(now) - wire_clock(port.last->at));
    }
  });
  return bytes;
}

std::vector<std::byte> LiveBinding::from_device(PortId id, std::span<const std::byte> frame,
                                                Time at, const TraceFrame* expected) {
  std::vector<std::byte> bytes(frame.begin(), frame.end());
  clock_off_ = Duration{};
  if (bytes.size() < link::kEthernetHeader) return bytes;
  change_type(bytes, ether_type_, link::kDefaultEtherType);
  Port& port = ports_[id.value()];
  const TracePort& trace = trace_.ports[id.value()];
  Mac source;
  std::memcpy(source.data(), bytes.data() + kSourceAt, sizeof(Mac));
  // P2: the source of a frame is no group; and no two ports have one.
  const bool group = (std::to_integer<unsigned>(source[0]) & 1U) != 0;
  const bool taken = std::any_of(ports_.begin(), ports_.end(), [&](const Port& other) {
    return &other != &port && other.mac == source;
  });
  if (!port.mac && !group && !taken) port.mac = source;
  if (source == port.mac) {
    std::memcpy(bytes.data() + kSourceAt, trace.config.link.mac.data(), sizeof(Mac));
  }
  if (!can_be_bound(bytes)) return bytes;
  keep_crc(bytes, [&](std::byte* header, std::byte* body) {
    if (is_kind(header, link::Kind::kInit)) {
      take_init(id, link::decode_init({body, link::kInitBody}));
      init_from_device(id, body);
      return;
    }
    if (is_kind(header, link::Kind::kStatus)) status_from_device(port, header, at, expected);
  });
  return bytes;
}

/// A nonce that was not seen is that of a new bring-up (L4).
void LiveBinding::take_init(PortId id, const link::Init& init) {
  if (!acceptable(init)) return;
  Port& port = ports_[id.value()];
  const bool known = std::any_of(port.seen.begin(), port.seen.end(),
                                 [&](const link::BringUp& b) { return b.nonce == init.nonce; });
  if (!known) port.seen.push_back({init.nonce, init.epoch});
  // Another port of the trace: the cables are the wrong way round.
  const bool other = init.port.value() < ports_.size() && init.port != id;
  if (!port.number && !other) port.number = init.port;
}

void LiveBinding::init_from_device(PortId id, std::byte* body) const {
  const Port& port = ports_[id.value()];
  const TracePort& trace = trace_.ports[id.value()];
  const link::Init told = link::decode_init({body, link::kInitBody});
  if (!acceptable(told)) return;
  for (std::size_t i = std::min(port.seen.size(), trace.bring_ups.size()); i > 0; --i) {
    if (port.seen[i - 1].nonce != told.nonce) continue;
    store32(body, trace.bring_ups[i - 1].nonce);
    const bool fresh = i == 1 || port.seen[i - 2].epoch != told.epoch;  // L4
    if (fresh && port.seen[i - 1].epoch == told.epoch) {
      store8(body + kInitEpochAt, trace.bring_ups[i - 1].epoch);
    } else if (told.epoch == trace.bring_ups[i - 1].epoch) {
      store8(body + kInitEpochAt, 0);
    }
    break;
  }
  if (told.port == port.number) store16(body + kPortAt, id.value());
}

/// A clock of the device's own: only that it goes as ours does since the first STATUS, and that it
/// echoes ours, can be right or wrong (L19).
void LiveBinding::status_from_device(Port& port, std::byte* header, Time at,
                                     const TraceFrame* expected) {
  std::byte* body = header + link::kLinkHeader;
  const std::uint32_t t_tx = load32(body + kTxAt);
  const std::uint32_t t_echo = load32(body + kEchoAt);
  const Clock now{at, t_tx};
  const std::optional<Clock> before = std::exchange(port.last, now);
  const Clock first = port.first.value_or(now);
  port.first = first;
  if (expected == nullptr || !can_be_bound(expected->bytes)) return;
  const std::byte* wanted = expected->bytes.data() + link::kEthernetHeader;
  if (!is_kind(wanted, link::Kind::kStatus)) return;
  const std::byte* wanted_body = wanted + link::kLinkHeader;
  const auto close = [&](std::uint32_t told, std::uint32_t right, Duration since) {
    const std::int64_t off = std::abs(ahead(told, right));
    const bool is = off <= slack_.count() + since.count() / kClockRate;
    if (!is) clock_off_ = std::max(clock_off_, Duration{off});
    return is;
  };
  const std::uint32_t due = first.t_tx + wire_clock(at) - wire_clock(first.at);
  if (close(t_tx, due, at - first.at)) {
    store32(body + kTxAt, load32(wanted_body + kTxAt));
  }
  if ((load8(header + kFlagsAt) & load8(wanted + kFlagsAt) & link::kFlagEcho) == 0) return;
  const std::uint32_t right =
      load32(wanted_body + kEchoAt) - wire_clock(expected->at) + wire_clock(at);
  if (close(t_echo, right, before ? at - before->at : Duration{})) {
    store32(body + kEchoAt, load32(wanted_body + kEchoAt));
  }
}

}  // namespace mtl::conformance
