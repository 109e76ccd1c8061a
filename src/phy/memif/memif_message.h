#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

/// The messages of memif 2.0, by which two processes agree on shared memory over a Unix socket of
/// type SEQPACKET. Each is 128 bytes: its type in 16 bits, then its fields without gaps, in the
/// host's byte order; what is left is zeros. A server listens, a client connects and owns the
/// memory:
///
///   server                      client
///          HELLO ------------->
///          <-------------- INIT        (acknowledged by ACK, as the next two)
///          <-------- ADD_REGION        with the memory's descriptor, for each region
///          <---------- ADD_RING        with an eventfd, for each ring
///          <----------- CONNECT
///          CONNECTED --------->
///
/// and DISCONNECT from either side at any time.
namespace mtl::phy {

inline constexpr std::size_t kMemifMessage = 128;
inline constexpr std::uint16_t kMemifVersion = 0x0200;  ///< major 2, minor 0
inline constexpr std::size_t kMemifName = 32;           ///< bytes of a name's field
inline constexpr std::size_t kMemifSecret = 24;
inline constexpr std::size_t kMemifReason = 96;
inline constexpr std::uint8_t kMemifEthernet = 0;  ///< the mode in which frames are Ethernet's

enum class MemifType : std::uint16_t {
  kAck = 1,
  kHello,
  kInit,
  kAddRegion,
  kAddRing,
  kConnect,
  kConnected,
  kDisconnect,
};

using MemifSecret = std::array<char, kMemifSecret>;  ///< filled up with zeros

struct MemifAck {};
/// What a server can do. Of regions and rings the highest index is told.
struct MemifHello {
  std::string name;
  std::uint16_t min_version = kMemifVersion;
  std::uint16_t max_version = kMemifVersion;
  std::uint16_t max_region = 0;
  std::uint16_t max_s2c_ring = 0;
  std::uint16_t max_c2s_ring = 0;
  std::uint8_t max_log2_ring = 0;
};
/// Which of the server's interfaces a client wants.
struct MemifInit {
  std::uint16_t version = kMemifVersion;
  std::uint32_t id = 0;
  std::uint8_t mode = kMemifEthernet;
  MemifSecret secret{};
  std::string name;
};
struct MemifAddRegion {
  std::uint16_t index = 0;
  std::uint64_t size = 0;
};
struct MemifAddRing {
  bool to_server = false;
  std::uint16_t index = 0;
  std::uint16_t region = 0;
  std::uint32_t offset = 0;
  std::uint8_t log2_ring = 0;
};
struct MemifConnect {
  std::string name;
};
struct MemifConnected {
  std::string name;
};
struct MemifDisconnect {
  std::uint32_t code = 0;
  std::string reason;
};
using MemifMessage = std::variant<MemifAck, MemifHello, MemifInit, MemifAddRegion, MemifAddRing,
                                  MemifConnect, MemifConnected, MemifDisconnect>;

using MemifBytes = std::array<std::byte, kMemifMessage>;

/// Texts are cut to their fields.
MemifBytes encode(const MemifMessage& message);

/// nullopt: another length than kMemifMessage, or a type that memif 2.0 has not. Of texts the
/// printable characters are taken, '?' for others, up to the first zero.
std::optional<MemifMessage> decode_memif(std::span<const std::byte> bytes);

/// `text` as a secret; cut to kMemifSecret bytes.
MemifSecret memif_secret(std::string_view text);

}  // namespace mtl::phy
