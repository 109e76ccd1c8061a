#include "link/codec.h"

#include <cstring>

#include "base/byte_order.h"
#include "base/crc32c.h"

namespace mtl::link {
namespace {

constexpr std::size_t kCrcOffset = 12;
constexpr std::size_t kPacketCrcFrom = 2;

/// Whether `length` is legal for `kind` (L3).
bool legal_length(Kind kind, std::size_t length, std::uint16_t mtu) {
  if (kind == Kind::kData) [[likely]]
    return length >= kMinPacket && length <= mtu;
  switch (kind) {
    case Kind::kData:
      break;
    case Kind::kStatus:
      return length == kStatusBody;
    case Kind::kNack:
      return length >= kNackRange && length <= kMaxControlBody && length % kNackRange == 0;
    case Kind::kInit:
      return length == kInitBody;
    case Kind::kClose:
      return length == kCloseBody;
  }
  return false;
}

/// L1: of the link header that begins at `header`, and of what it covers of `body`.
std::uint32_t header_crc(Kind kind, const std::byte* header, std::span<const std::byte> body) {
  static_assert(kCrcOffset == kCrcHeader && kNetworkHeader == kCrcHeader);
  if (kind == Kind::kData) return crc32c_headers(header, body.data());
  return crc32c_short({header, kCrcOffset}, body);
}

}  // namespace

const char* name(Kind kind) {
  switch (kind) {
    case Kind::kData:
      return "DATA";
    case Kind::kStatus:
      return "STATUS";
    case Kind::kNack:
      return "NACK";
    case Kind::kInit:
      return "INIT";
    case Kind::kClose:
      return "CLOSE";
  }
  return "?";
}

DecodeResult decode(std::span<const std::byte> frame, std::uint16_t mtu) {
  if (frame.size() < kFrameHeader) return {Drop::kMalformed, {}};
  const std::byte* h = frame.data() + kEthernetHeader;
  // As it was made (encode): two words rather than field by field.
  const std::uint64_t front = load64(h);
  const std::uint32_t back = load32(h + 8);
  const auto version_kind = static_cast<std::uint8_t>(front >> 56);
  const auto length = static_cast<std::uint16_t>(front >> 32);
  const auto kind = static_cast<Kind>(version_kind & 0x0F);
  const auto vc = static_cast<std::uint8_t>(back >> 28);
  const auto credit_vc = static_cast<std::uint8_t>(back >> 24 & 0x0F);
  // L3, first group: legal_length() is false for a kind that is not known.
  if (version_kind >> 4 != kVersion || kFrameHeader + length > frame.size() ||
      !legal_length(kind, length, mtu) || vc >= kVcs ||
      (credit_vc >= kVcs && credit_vc != kNoCreditVc)) {
    return {Drop::kMalformed, {}};
  }
  const auto body = frame.subspan(kFrameHeader, length);
  if (load32(h + kCrcOffset) != header_crc(kind, h, body)) {
    return {Drop::kBadHeaderCrc, {}};
  }
  Header header{.kind = kind,
                .epoch = static_cast<std::uint8_t>(front >> 48),
                .length = length,
                .seq = Seq{static_cast<std::uint16_t>(front >> 16)},
                .ack = Seq{static_cast<std::uint16_t>(front)},
                .vc = Vc{vc},
                .credit_vc = credit_vc,
                .flags = static_cast<std::uint8_t>(back >> 16),
                .credit = CellCount{static_cast<std::uint16_t>(back)}};
  return {std::nullopt, {header, body}};
}

bool data_header_crc_ok(const std::byte* header) {
  return load32(header + kCrcOffset) == crc32c_headers(header, header + kLinkHeader);
}

void encode(const Header& header, std::span<const std::byte> body, std::byte* out) {
  // Two words rather than field by field: the CRC reads them back at once, and a CPU hands a store
  // on to a load that it covers, but makes a load of several stores wait.
  const auto version_kind =
      static_cast<std::uint8_t>(kVersion << 4 | static_cast<std::uint8_t>(header.kind));
  const auto vcs = static_cast<std::uint8_t>(header.vc.value() << 4 | header.credit_vc);
  store64(out, std::uint64_t{version_kind} << 56 | std::uint64_t{header.epoch} << 48 |
                   std::uint64_t{header.length} << 32 | std::uint64_t{header.seq.value()} << 16 |
                   header.ack.value());
  const std::uint32_t back =
      std::uint32_t{vcs} << 24 | std::uint32_t{header.flags} << 16 | header.credit.value();
  store32(out + 8, back);
  store64(out + 8, std::uint64_t{back} << 32 | header_crc(header.kind, out, body));
}

void encode(const Init& init, std::byte* out) {
  store32(out, init.nonce);
  store32(out + 4, init.peer_nonce);
  store16(out + 8, init.node.value());
  store16(out + 10, init.port.value());
  store16(out + 12, init.mtu);
  store8(out + 14, init.epoch);
  store8(out + 15, init.vcs);
  store16(out + 16, init.cell);
  store16(out + 18, init.window);
  for (std::size_t v = 0; v < kVcs; ++v) store16(out + 20 + 2 * v, init.capacity[v]);
  store32(out + 36, init.capabilities);
}

Init decode_init(std::span<const std::byte> body) {
  const std::byte* b = body.data();
  Init init{.nonce = load32(b),
            .peer_nonce = load32(b + 4),
            .node = NodeId{load16(b + 8)},
            .port = PortId{load16(b + 10)},
            .mtu = load16(b + 12),
            .epoch = load8(b + 14),
            .vcs = load8(b + 15),
            .cell = load16(b + 16),
            .window = load16(b + 18),
            .capabilities = load32(b + 36)};
  for (std::size_t v = 0; v < kVcs; ++v) init.capacity[v] = load16(b + 20 + 2 * v);
  return init;
}

void encode(const Status& status, std::byte* out) {
  for (std::size_t v = 0; v < kVcs; ++v) store16(out + 2 * v, status.allocation[v].value());
  store32(out + 16, status.t_tx);
  store32(out + 20, status.t_echo);
}

Status decode_status(std::span<const std::byte> body) {
  Status status{.t_tx = load32(body.data() + 16), .t_echo = load32(body.data() + 20)};
  for (std::size_t v = 0; v < kVcs; ++v) {
    status.allocation[v] = CellCount{load16(body.data() + 2 * v)};
  }
  return status;
}

void encode(std::span<const NackRange> ranges, std::byte* out) {
  for (const NackRange& range : ranges) {
    store16(out, range.first.value());
    store16(out + 2, range.count);
    out += kNackRange;
  }
}

NackRange decode_range(std::span<const std::byte> body, std::size_t index) {
  const std::byte* b = body.data() + index * kNackRange;
  return {Seq{load16(b)}, load16(b + 2)};
}

std::uint32_t packet_crc(std::span<const std::byte> packet) {
  return crc32c(packet.subspan(kPacketCrcFrom, packet.size() - kPacketCrcFrom - kPacketCrc));
}

bool packet_crc_ok(std::span<const std::byte> packet) {
  return load32(packet.data() + packet.size() - kPacketCrc) == packet_crc(packet);
}

void encode_ethernet(const Mac& destination, const Mac& source, std::uint16_t ether_type,
                     std::byte* out) {
  std::memcpy(out, destination.data(), destination.size());
  std::memcpy(out + 6, source.data(), source.size());
  store16(out + 12, ether_type);
}

}  // namespace mtl::link
