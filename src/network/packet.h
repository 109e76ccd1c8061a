#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/buffer.h"
#include "base/ids.h"
#include "link/codec.h"

/// The bytes of a packet (protocol page, section 4): header, CRC, echo. No state.
namespace mtl::network {

inline constexpr std::size_t kHeader = link::kNetworkHeader;
inline constexpr std::size_t kCrc = link::kPacketCrc;
inline constexpr std::size_t kMinPacket = kHeader + kCrc;
inline constexpr std::size_t kEchoHeader = 8;
inline constexpr std::size_t kErrorData =
    28;  ///< bytes of the dropped packet that an error carries (N11)
inline constexpr std::uint8_t kDefaultHopLimit = 16;
inline constexpr std::uint8_t kFlagCe = 1;

enum class Proto : std::uint8_t { kTransport = 1, kEcho = 2, kCollective = 3, kDatagram = 4 };
inline constexpr std::uint8_t kClassRequest = 0;
inline constexpr std::uint8_t kClassResponse = 1;

/// Network header. `class` is 0 or 1 in packets that nodes send.
struct Header {
  std::uint8_t hop_limit = kDefaultHopLimit;
  std::uint8_t flags = 0;
  std::uint8_t packet_class = kClassRequest;
  std::uint8_t proto = 0;
  NodeId dst{};
  NodeId src{};
  std::uint16_t entropy = 0;
  Partition partition{};
};

/// `packet` has at least kMinPacket bytes (L3).
Header decode(std::span<const std::byte> packet);
void encode(const Header& header, std::byte* out);

/// Writes the packet CRC (N2, link::packet_crc) of `packet` into its last 4 bytes.
void seal(std::span<std::byte> packet);

/// fmix32 of N8 over dst, src, entropy of `packet`, for forwarding node `node`.
std::uint32_t path_hash(std::span<const std::byte> packet, NodeId node);
/// Index of N8 among n hops: (h x n) >> 32. n is not 0.
constexpr std::uint32_t pick(std::uint32_t hash, std::uint32_t n) {
  return static_cast<std::uint32_t>((std::uint64_t{hash} * n) >> 32);
}

enum class EchoType : std::uint8_t {
  kRequest = 1,
  kReply = 2,
  kHopLimitExceeded = 3,
  kUnreachable = 4
};

/// First 8 bytes of an echo's payload (N11).
struct Echo {
  std::uint8_t type = 0;
  std::uint16_t id = 0;
  std::uint16_t number = 0;
};

/// The echo of a packet of proto 2 with at least 8 bytes of payload, else nullopt.
std::optional<Echo> decode_echo(std::span<const std::byte> packet);

/// Writes the 8 bytes of an echo's payload.
void encode(const Echo& echo, std::byte* out);

/// Makes a whole packet, CRC included, in `buffer` (fresh from a pool, room for
/// kMinPacket + payload.size()): header and payload.
void make_packet(Buffer& buffer, const Header& header, std::span<const std::byte> payload);

}  // namespace mtl::network
