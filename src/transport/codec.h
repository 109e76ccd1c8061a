#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "network/packet.h"
#include "transport/ids.h"

/// The bytes of a packet of proto 1 down to its body (protocol page, section 5): constants, and
/// encoders and decoders that check every length before use. Operations are in operation.h. Nothing
/// here keeps state.
namespace mtl::transport {

inline constexpr std::size_t kHeader = 16;
/// Network header and transport header: where the body begins.
inline constexpr std::size_t kBodyAt = network::kHeader + kHeader;
/// What of a packet is not body.
inline constexpr std::size_t kOverhead = kBodyAt + network::kCrc;
inline constexpr std::size_t kOpenBody = 36;
inline constexpr std::size_t kRejectBody = 8;
inline constexpr std::size_t kCloseBody = 4;
inline constexpr std::size_t kMinData = 4;
inline constexpr std::size_t kBitmapWord = 4;  ///< bytes
inline constexpr std::size_t kWordBits = 32;
inline constexpr std::size_t kMaxWords = 32;
inline constexpr std::uint8_t kMaxWindow = 10;  ///< log2 of packets
inline constexpr std::uint16_t kMinMtu = 128;   ///< of an OPEN, whole packet (section 5.1)
/// `held` of an ACK before anything arrived (T18).
inline constexpr std::uint32_t kHeldNone = 0xFFFFFFFF;

enum class Type : std::uint8_t { kOpen = 1, kReject = 2, kData = 3, kAck = 4, kClose = 5 };
const char* name(Type type);

enum Flag : std::uint8_t { kFlagResponse = 1, kFlagUnordered = 2, kFlagAsk = 4 };

/// Transport header. Which fields a type uses is the page's to say; the others are 0.
struct Header {
  Type type = Type::kData;
  std::uint8_t flags = 0;
  std::uint8_t window = 0;  ///< log2 of packets
  Marks marks{};
  ConnectionId connection{};
  Psn psn{};
  Psn ack{};
};

/// OPEN body.
struct Open {
  ConnectionId id{};
  EndpointId endpoint{};
  EndpointId peer{};
  std::uint16_t mtu = 0;
  std::uint16_t reads = 0;
  Psn psn{};
  std::uint32_t messages = 0;
  std::uint32_t eager = 0;
  std::uint32_t options = 0;
  std::uint64_t key = 0;
};

/// REJECT reasons: of T9, then of T5.
enum class RejectReason : std::uint8_t {
  kUnknown = 0,
  kNoEndpoint = 1,
  kWrongKey = 2,
  kNoRoom = 3,
  kBadOpen = 4,
};

struct Reject {
  RejectReason reason{};
  ConnectionId id{};
};

/// CLOSE reasons (T10).
enum class CloseReason : std::uint8_t { kDone = 1, kProtocol = 2, kDead = 3 };

/// A packet as far as T3 checks it without the state of a connection.
struct Packet {
  network::Header network{};
  Header header{};
  std::span<const std::byte> body{};

  Flow flow() const {  ///< that a DATA is of
    return network.packet_class == network::kClassRequest ? Flow::kRequest : Flow::kResponse;
  }
  Flow spoken_of() const {  ///< flow of the receiver that window, marks and ack are of
    return (header.flags & kFlagResponse) != 0 ? Flow::kResponse : Flow::kRequest;
  }
  bool asks() const { return (header.flags & kFlagAsk) != 0; }
  bool unordered() const { return (header.flags & kFlagUnordered) != 0; }
};

/// The first five checks of T3. `packet` is whole, from network header to packet CRC, with at least
/// network::kMinPacket bytes. nullopt: `malformed`.
std::optional<Packet> decode(std::span<const std::byte> packet);

/// Bodies; decoders take bodies of the length that decode() checked.
Open decode_open(std::span<const std::byte> body);
Reject decode_reject(std::span<const std::byte> body);

/// Body of an ACK: how long ago the DATA named in `psn` arrived, and what has arrived beyond `ack`.
class AckBody {
 public:
  explicit AckBody(std::span<const std::byte> body) : body_(body) {}
  std::uint32_t held() const;
  std::size_t words() const { return (body_.size() - sizeof(std::uint32_t)) / kBitmapWord; }
  std::uint32_t word(std::size_t index) const;
  /// One past the last bit set; 0 if none is.
  std::uint32_t extent() const;

 private:
  std::span<const std::byte> body_;
};

/// Writes the 16 bytes of a header.
void encode(const Header& header, std::byte* out);
/// Begins a packet in `out`, a fresh buffer with room for it: writes both headers, leaves `body`
/// bytes for the caller to write, and is then to be sealed. Returns where the body begins.
std::byte* write_headers(Buffer& out, const network::Header& network, const Header& header,
                         std::size_t body);
/// Writes kOpenBody bytes.
void encode(const Open& open, std::byte* out);
/// Writes kRejectBody bytes.
void encode(const Reject& reject, std::byte* out);
/// Writes kCloseBody bytes.
void encode(CloseReason reason, std::byte* out);
/// Writes an ACK's body: 4 bytes, and 4 for each word.
void encode_ack(std::uint32_t held, std::span<const std::uint32_t> bitmap, std::byte* out);

}  // namespace mtl::transport
