#include "network/packet.h"

#include <cstring>

#include "base/byte_order.h"
#include "base/crc32c.h"

namespace mtl::network {
namespace {

constexpr std::size_t kHashFrom = 4;  // N8: dst, src, entropy
constexpr std::size_t kHashBytes = 6;
constexpr std::uint32_t kNodeFactor = 0x9E3779B1;

/// The finaliser of MurmurHash3 (N8).
std::uint32_t fmix32(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85EBCA6B;
  x ^= x >> 13;
  x *= 0xC2B2AE35;
  x ^= x >> 16;
  return x;
}

}  // namespace

Header decode(std::span<const std::byte> packet) {
  const std::byte* p = packet.data();
  return {.hop_limit = load8(p),
          .flags = load8(p + 1),
          .packet_class = static_cast<std::uint8_t>(load8(p + 2) >> 4),
          .proto = static_cast<std::uint8_t>(load8(p + 2) & 0x0F),
          .dst = NodeId{load16(p + 4)},
          .src = NodeId{load16(p + 6)},
          .entropy = load16(p + 8),
          .partition = Partition{load16(p + 10)}};
}

void encode(const Header& header, std::byte* out) {
  store8(out, header.hop_limit);
  store8(out + 1, header.flags);
  store8(out + 2, static_cast<std::uint8_t>(header.packet_class << 4 | (header.proto & 0x0F)));
  store8(out + 3, 0);
  store16(out + 4, header.dst.value());
  store16(out + 6, header.src.value());
  store16(out + 8, header.entropy);
  store16(out + 10, header.partition.value());
}

void seal(std::span<std::byte> packet) {
  store32(packet.data() + packet.size() - kCrc, link::packet_crc(packet));
}

std::uint32_t path_hash(std::span<const std::byte> packet, NodeId node) {
  return fmix32(crc32c_short(packet.subspan(kHashFrom, kHashBytes)) ^ node.value() * kNodeFactor);
}

std::optional<Echo> decode_echo(std::span<const std::byte> packet) {
  const bool echo = (load8(packet.data() + 2) & 0x0F) == static_cast<std::uint8_t>(Proto::kEcho);
  if (!echo || packet.size() < kMinPacket + kEchoHeader) return std::nullopt;
  const std::byte* p = packet.data() + kHeader;
  return Echo{load8(p), load16(p + 2), load16(p + 4)};
}

void encode(const Echo& echo, std::byte* out) {
  store8(out, echo.type);
  store8(out + 1, 0);
  store16(out + 2, echo.id);
  store16(out + 4, echo.number);
  store16(out + 6, 0);
}

void make_packet(Buffer& buffer, const Header& header, std::span<const std::byte> payload) {
  const auto length = static_cast<std::uint32_t>(kMinPacket + payload.size());
  buffer.tailroom -= length - buffer.length;
  buffer.length = length;
  encode(header, buffer.data);
  if (!payload.empty()) std::memcpy(buffer.data + kHeader, payload.data(), payload.size());
  seal(buffer.bytes());
}

}  // namespace mtl::network
