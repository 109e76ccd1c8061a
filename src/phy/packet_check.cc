#include "phy/packet_check.h"

#include "base/byte_order.h"
#include "link/codec.h"

namespace mtl::phy {

CrcState check_packet(std::span<const std::byte> frame) {
  if (frame.size() < link::kFrameHeader + link::kMinPacket) return CrcState::kUnknown;
  const auto kind = static_cast<link::Kind>(load8(&frame[link::kEthernetHeader]) & 0x0F);
  const std::size_t length = load16(&frame[link::kEthernetHeader + 2]);
  const auto body = frame.subspan(link::kFrameHeader);
  if (kind != link::Kind::kData || length < link::kMinPacket || length > body.size()) {
    return CrcState::kUnknown;
  }
  return link::packet_crc_ok(body.first(length)) ? CrcState::kGood : CrcState::kBad;
}

}  // namespace mtl::phy
