#include "transport/codec.h"

#include <bit>
#include <cassert>

#include "base/byte_order.h"

namespace mtl::transport {
namespace {

constexpr std::size_t kHeldBytes = 4;
constexpr std::size_t kMaxAck = kHeldBytes + kMaxWords * kBitmapWord;

/// Whether `length` is legal for `type` (T3); false for a type that is not known.
bool legal_length(Type type, std::size_t length) {
  switch (type) {
    case Type::kOpen:
      return length >= kOpenBody;
    case Type::kReject:
      return length == kRejectBody;
    case Type::kData:
      return length >= kMinData && length % 4 == 0;
    case Type::kAck:
      return length >= kHeldBytes && length <= kMaxAck && length % kBitmapWord == 0;
    case Type::kClose:
      return length == kCloseBody;
  }
  return false;
}

/// Whether a packet of this type goes by this class (the table of types).
bool legal_class(Type type, std::uint8_t packet_class, ConnectionId connection) {
  const bool request = packet_class == network::kClassRequest;
  if (!request && packet_class != network::kClassResponse) return false;
  switch (type) {
    case Type::kOpen:
      return request == (connection == kNoConnection);
    case Type::kData:
      return true;
    case Type::kReject:
    case Type::kAck:
    case Type::kClose:
      return !request;
  }
  return false;
}

}  // namespace

const char* name(Type type) {
  switch (type) {
    case Type::kOpen:
      return "OPEN";
    case Type::kReject:
      return "REJECT";
    case Type::kData:
      return "DATA";
    case Type::kAck:
      return "ACK";
    case Type::kClose:
      return "CLOSE";
  }
  return "?";
}

std::optional<Packet> decode(std::span<const std::byte> packet) {
  if (packet.size() < kOverhead) return std::nullopt;
  Packet out{.network = network::decode(packet),
             .body = packet.subspan(kBodyAt, packet.size() - kOverhead)};
  const std::byte* h = packet.data() + network::kHeader;
  const std::uint8_t type_flags = load8(h);
  out.header = {.type = static_cast<Type>(type_flags >> 4),
                .flags = static_cast<std::uint8_t>(type_flags & 0x0F),
                .window = static_cast<std::uint8_t>(load8(h + 1) & 0x0F),
                .marks = Marks{load16(h + 2)},
                .connection = ConnectionId{load32(h + 4)},
                .psn = Psn{load32(h + 8)},
                .ack = Psn{load32(h + 12)}};
  if (!legal_class(out.header.type, out.network.packet_class, out.header.connection) ||
      out.header.window > kMaxWindow || !legal_length(out.header.type, out.body.size())) {
    return std::nullopt;
  }
  return out;
}

Open decode_open(std::span<const std::byte> body) {
  const std::byte* b = body.data();
  return {.id = ConnectionId{load32(b)},
          .endpoint = EndpointId{load16(b + 4)},
          .peer = EndpointId{load16(b + 6)},
          .mtu = load16(b + 8),
          .reads = load16(b + 10),
          .psn = Psn{load32(b + 12)},
          .messages = load32(b + 16),
          .eager = load32(b + 20),
          .options = load32(b + 24),
          .key = load64(b + 28)};
}

Reject decode_reject(std::span<const std::byte> body) {
  return {static_cast<RejectReason>(load8(body.data())), ConnectionId{load32(body.data() + 4)}};
}

std::uint32_t AckBody::held() const {
  return load32(body_.data());
}

std::uint32_t AckBody::word(std::size_t index) const {
  return load32(body_.data() + kHeldBytes + index * kBitmapWord);
}

std::uint32_t AckBody::extent() const {
  for (std::size_t i = words(); i != 0; --i) {
    const std::uint32_t bits = word(i - 1);
    if (bits != 0) {
      return static_cast<std::uint32_t>((i - 1) * kWordBits) +
             static_cast<std::uint32_t>(std::bit_width(bits));
    }
  }
  return 0;
}

void encode(const Header& header, std::byte* out) {
  store8(out, static_cast<std::uint8_t>(static_cast<unsigned>(header.type) << 4 |
                                        (header.flags & 0x0FU)));
  store8(out + 1, header.window);
  store16(out + 2, header.marks.value());
  store32(out + 4, header.connection.value());
  store32(out + 8, header.psn.value());
  store32(out + 12, header.ack.value());
}

std::byte* write_headers(Buffer& out, const network::Header& network, const Header& header,
                         std::size_t body) {
  const auto length = static_cast<std::uint32_t>(kOverhead + body);
  assert(length <= out.length + out.tailroom);
  out.tailroom -= length - out.length;
  out.length = length;
  network::encode(network, out.data);
  encode(header, out.data + network::kHeader);
  return out.data + kBodyAt;
}

void encode(const Open& open, std::byte* out) {
  store32(out, open.id.value());
  store16(out + 4, open.endpoint.value());
  store16(out + 6, open.peer.value());
  store16(out + 8, open.mtu);
  store16(out + 10, open.reads);
  store32(out + 12, open.psn.value());
  store32(out + 16, open.messages);
  store32(out + 20, open.eager);
  store32(out + 24, open.options);
  store64(out + 28, open.key);
}

void encode(const Reject& reject, std::byte* out) {
  store32(out, static_cast<std::uint32_t>(reject.reason) << 24);
  store32(out + 4, reject.id.value());
}

void encode(CloseReason reason, std::byte* out) {
  store32(out, static_cast<std::uint32_t>(reason) << 24);
}

void encode_ack(std::uint32_t held, std::span<const std::uint32_t> bitmap, std::byte* out) {
  store32(out, held);
  for (std::size_t i = 0; i < bitmap.size(); ++i) {
    store32(out + kHeldBytes + i * kBitmapWord, bitmap[i]);
  }
}

}  // namespace mtl::transport
