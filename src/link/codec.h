#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/buffer.h"
#include "base/drop.h"
#include "base/ids.h"
#include "base/serial.h"

/// The bytes of a frame (protocol page, sections 1 to 3): constants, and encoders and decoders that
/// check every length before use. Nothing here keeps state.
namespace mtl::link {

inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kEthernetHeader = 14;
inline constexpr std::size_t kVlanTag = 4;
inline constexpr std::size_t kLinkHeader = 16;
/// Ethernet and link header: where the body begins in an untagged frame.
inline constexpr std::size_t kFrameHeader = kEthernetHeader + kLinkHeader;
inline constexpr std::size_t kMinFrame = 60;                ///< P4, tag included
inline constexpr std::uint16_t kDefaultEtherType = 0x88B5;  ///< P1
inline constexpr std::uint16_t kVlanEtherType = 0x8100;     ///< of an 802.1Q tag
/// Destination of frames while the peer's MAC is unknown (P2).
inline constexpr Mac kUnknownPeer{std::byte{0x03}, std::byte{0x4D}, std::byte{0x54},
                                  std::byte{0x4C}, std::byte{0x00}, std::byte{0x01}};

inline constexpr std::uint16_t kMinPacket = 16;  ///< network header and packet CRC (section 4)
inline constexpr std::size_t kPacketCrc = 4;
inline constexpr std::uint16_t kMinMtu = 64;  ///< L6
inline constexpr std::uint16_t kMaxWindow = 16384;
inline constexpr std::uint32_t kMaxCapacitySum = 32767;
inline constexpr std::size_t kNetworkHeader = 12;
inline constexpr std::size_t kInitBody = 40;
inline constexpr std::size_t kStatusBody = 24;
inline constexpr std::size_t kCloseBody = 4;
inline constexpr std::size_t kNackRange = 4;
inline constexpr std::size_t kMaxNackRanges = 32;
inline constexpr std::size_t kMaxControlBody = kNackRange * kMaxNackRanges;
inline constexpr std::uint8_t kNoCreditVc = 15;

enum class Kind : std::uint8_t { kData = 0, kStatus = 1, kNack = 2, kInit = 3, kClose = 4 };
inline constexpr std::size_t kKinds = 5;
const char* name(Kind kind);

enum Flag : std::uint8_t { kFlagReplay = 1, kFlagEcho = 2, kFlagPoll = 4 };

/// Link header, section 2, without its CRC.
struct Header {
  Kind kind = Kind::kData;
  std::uint8_t epoch = 0;
  std::uint16_t length = 0;
  Seq seq{};
  Seq ack{};
  Vc vc{};
  std::uint8_t credit_vc = kNoCreditVc;
  std::uint8_t flags = 0;
  CellCount credit{};
};

/// INIT body, section 3.1.
struct Init {
  std::uint32_t nonce = 0;
  std::uint32_t peer_nonce = 0;
  NodeId node{};
  PortId port{};
  std::uint16_t mtu = 0;
  std::uint8_t epoch = 0;
  std::uint8_t vcs = kVcs;
  std::uint16_t cell = 0;
  std::uint16_t window = 0;
  std::array<std::uint16_t, kVcs> capacity{};
  std::uint32_t capabilities = 0;
};

/// STATUS body, section 3.3.
struct Status {
  std::array<CellCount, kVcs> allocation{};
  std::uint32_t t_tx = 0;
  std::uint32_t t_echo = 0;
};

struct NackRange {
  Seq first{};
  std::uint16_t count = 0;
};

enum class CloseReason : std::uint8_t { kDisabled = 1, kReplayExhausted = 2 };

/// A frame's link header and body as far as L3 checks them without the state of a link.
struct Decoded {
  Header header;
  std::span<const std::byte> body;  ///< header.length bytes, padding excluded
};

/// L3 up to the header CRC: `frame` begins with the Ethernet header (its tag taken out) and may
/// have padding. `mtu` is that of our INIT. On failure the reason is kMalformed or kBadHeaderCrc.
struct DecodeResult {
  std::optional<Drop> drop;
  Decoded frame;
};
DecodeResult decode(std::span<const std::byte> frame, std::uint16_t mtu);

/// Writes the 16 bytes of `header` with its CRC over what L1 names of `body` (a DATA's has at least
/// 12 bytes).
void encode(const Header& header, std::span<const std::byte> body, std::byte* out);

/// The first 8 bytes of the link header of a DATA, in the order of numbers, without its length,
/// which is kFrontLength of them.
constexpr std::uint64_t data_front(std::uint8_t epoch, Seq seq, Seq ack) {
  return std::uint64_t{kVersion} << 60 | std::uint64_t{epoch} << 48 |
         std::uint64_t{seq.value()} << 16 | ack.value();
}
inline constexpr std::uint64_t kFrontLength = 0xFFFF'0000'0000;

/// Whether the header CRC of the DATA whose link header begins at `header` is right; behind that
/// are kMinPacket bytes at least.
bool data_header_crc_ok(const std::byte* header);

/// Bodies. Decoders take spans of the exact length that L3 checked.
void encode(const Init& init, std::byte* out);
Init decode_init(std::span<const std::byte> body);
void encode(const Status& status, std::byte* out);
Status decode_status(std::span<const std::byte> body);
void encode(std::span<const NackRange> ranges, std::byte* out);
NackRange decode_range(std::span<const std::byte> body, std::size_t index);

/// The packet CRC (N2) as `packet` ought to carry it in its last 4 bytes, whatever stands there: of
/// all before them but the first two bytes, which change on the way. At least kMinPacket bytes.
std::uint32_t packet_crc(std::span<const std::byte> packet);
/// Whether it carries that. At least kMinPacket bytes.
bool packet_crc_ok(std::span<const std::byte> packet);
/// The same where a port may have looked already.
inline bool intact(CrcState known, std::span<const std::byte> packet) {
  return known == CrcState::kUnknown ? packet_crc_ok(packet) : known == CrcState::kGood;
}

/// Writes an Ethernet header.
void encode_ethernet(const Mac& destination, const Mac& source, std::uint16_t ether_type,
                     std::byte* out);

/// Cells of a packet (L20): ceil(length / cell), at least 1. Divides once for each packet on the
/// fast path, so a power of two is shifted instead.
class CellSize {
 public:
  /// `cell` is not 0.
  constexpr explicit CellSize(std::uint16_t cell)
      : cell_(cell), shift_(std::has_single_bit(cell) ? std::countr_zero(cell) : -1) {}
  constexpr std::uint16_t cell() const { return cell_; }
  constexpr std::uint16_t cells(std::uint32_t length) const {
    if (length <= cell_) return 1;
    const std::uint32_t up = length + cell_ - 1U;
    return static_cast<std::uint16_t>(shift_ >= 0 ? up >> shift_ : up / cell_);
  }

 private:
  std::uint16_t cell_;
  int shift_;
};

}  // namespace mtl::link
