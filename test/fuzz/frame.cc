// A frame of any bytes: taken apart or refused under a name of L3, without a look beyond its end;
// header and body that were taken apart and are put together again are the same. The first byte,
// if odd, asks for the header CRC to be made right.

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "input.h"
#include "link/codec.h"

namespace {

using namespace mtl;
using fuzz::require;

constexpr std::uint16_t kMtu = 512;

void mend(std::span<std::byte> frame) {
  std::byte* header = frame.data() + link::kEthernetHeader;
  const std::size_t body = frame.size() - link::kFrameHeader;
  const std::size_t length = std::min<std::size_t>(load16(header + 2), body);
  const bool data = (load8(header) & 0x0F) == static_cast<std::uint8_t>(link::Kind::kData);
  const std::size_t covered = data ? std::min(length, link::kNetworkHeader) : length;
  store32(header + 12, crc32c_short({header, 12}, {header + link::kLinkHeader, covered}));
}

/// The bodies of control frames as written again from what was read.
void look_into_body(const link::Decoded& frame) {
  std::vector<std::byte> again(frame.body.size());
  switch (frame.header.kind) {
    case link::Kind::kStatus:
      link::encode(link::decode_status(frame.body), again.data());
      break;
    case link::Kind::kInit:
      link::encode(link::decode_init(frame.body), again.data());
      break;
    case link::Kind::kNack: {
      std::vector<link::NackRange> ranges;
      for (std::size_t i = 0; i < frame.body.size() / 4; ++i) {
        ranges.push_back(link::decode_range(frame.body, i));
      }
      link::encode(ranges, again.data());
      break;
    }
    default:
      return;
  }
  require(std::memcmp(again.data(), frame.body.data(), again.size()) == 0,
          "a body is written as it was read");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // Of its own size: a look beyond it is found.
  std::vector<std::byte> frame(reinterpret_cast<const std::byte*>(data) + 1,
                               reinterpret_cast<const std::byte*>(data) + size);
  if ((data[0] & 1) != 0 && frame.size() >= link::kFrameHeader) mend(frame);
  const link::DecodeResult result = link::decode(frame, kMtu);
  if (result.drop) {
    require(*result.drop == Drop::kMalformed || *result.drop == Drop::kBadHeaderCrc,
            "a frame is refused as L3 says");
    return 0;
  }
  const link::Decoded& decoded = result.frame;
  require(decoded.body.size() == decoded.header.length, "the body is as long as it says");
  require(decoded.body.data() == frame.data() + link::kFrameHeader &&
              decoded.body.size() <= frame.size() - link::kFrameHeader,
          "the body lies in the frame");
  if (decoded.header.kind == link::Kind::kData) {
    require(decoded.body.size() >= link::kMinPacket && decoded.body.size() <= kMtu,
            "a packet has its least length, and its greatest");
    link::packet_crc_ok(decoded.body);
  }
  std::array<std::byte, link::kLinkHeader> header;
  link::encode(decoded.header, decoded.body, header.data());
  require(std::memcmp(header.data(), frame.data() + link::kEthernetHeader, header.size()) == 0,
          "a header is written as it was read");
  look_into_body(decoded);
  return 0;
}
