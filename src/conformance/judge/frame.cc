#include "conformance/judge/frame.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "link/codec.h"

namespace mtl::conformance::judge {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kMacs = 12;
constexpr std::uint16_t kTag = 0x8100;         // 802.1Q
constexpr std::uint16_t kServiceTag = 0x88A8;  // 802.1ad
constexpr std::size_t kMostTags = 2;
constexpr std::size_t kCrcAt = 12;  // in the link header

constexpr bool is_tag(std::uint16_t type) {
  return type == kTag || type == kServiceTag;
}

/// CRC-32 of Ethernet, as it would stand behind `bytes`.
std::uint32_t ethernet_crc(Bytes bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const std::byte b : bytes) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (0xEDB88320U & (0U - (crc & 1U)));
  }
  return ~crc;
}

bool all_zeros(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

/// L1. All that it covers must be there.
std::uint32_t header_crc(const std::byte* header, Bytes covered) {
  std::array<std::byte, kCrcAt + link::kMaxControlBody> all;
  std::memcpy(all.data(), header, kCrcAt);
  std::memcpy(all.data() + kCrcAt, covered.data(), covered.size());
  return crc32c_short(Bytes(all).first(kCrcAt + covered.size()));
}

void check_crcs(LinkFrame& frame, const std::byte* header, std::size_t room) {
  const bool data = frame.kind == static_cast<std::uint8_t>(link::Kind::kData);
  const std::size_t length = frame.body_length;
  if (length > room) {  // no CRC can be right: the frame says that it is longer than it is
    frame.header_crc = Crc::kWrong;
    return;
  }
  const std::size_t covered = data ? std::min(length, link::kNetworkHeader) : length;
  if (covered > link::kMaxControlBody || (data && covered < link::kNetworkHeader)) {
    frame.header_crc = Crc::kWrong;
    return;
  }
  if (frame.body.size() < covered) return;
  frame.header_crc = header_crc(header, frame.body.first(covered)) == frame.header_crc_field
                         ? Crc::kRight
                         : Crc::kWrong;
  if (!data || length < link::kMinPacket || !frame.body_whole) return;
  const std::size_t end = length - link::kPacketCrc;
  frame.packet_crc = crc32c(frame.body.subspan(2, end - 2)) == load32(frame.body.data() + end)
                         ? Crc::kRight
                         : Crc::kWrong;
}

/// Bytes at the end of the frame that are its FCS, though the capture does not say so: four behind
/// all that the frame has (`end`; short ones are padded, P4), or any four that are just its CRC.
/// One of another value is that of the frame as it was before the capture took a tag out, say.
std::size_t fcs_of(const TapFrame& tap, std::size_t end) {
  constexpr std::size_t kFcs = 4;
  if (tap.length < end + kFcs) return 0;
  const bool whole = tap.bytes.size() == tap.length;
  if (whole && all_zeros(tap.bytes.last(kFcs))) return 0;
  if (tap.length == std::max(end, link::kMinFrame) + kFcs) return kFcs;
  if (!whole) return 0;
  std::uint32_t stands = 0;
  std::memcpy(&stands, tap.bytes.last(kFcs).data(), sizeof stands);  // least significant byte first
  return ethernet_crc(tap.bytes.first(tap.bytes.size() - kFcs)) == stands ? kFcs : 0;
}

/// Padding as far as it was captured. Of a frame that was cut, what may be its FCS is none; nor are
/// the last bytes of a long INIT alone, whose length this frame does not tell.
Bytes padding_of(const TapFrame& tap, Bytes behind, std::size_t fcs, bool init) {
  constexpr std::size_t kFcs = 4;
  const bool cut = tap.bytes.size() != tap.length;
  const bool unsure = fcs == 0 && (cut || (init && behind.size() > link::kMinFrame));
  const std::size_t without = fcs != 0 || unsure ? kFcs : 0;
  const std::size_t missing = tap.length - tap.bytes.size();
  const std::size_t less = without > missing ? without - missing : 0;
  return behind.first(behind.size() - std::min(behind.size(), less));
}

}  // namespace

Content take_apart(const TapFrame& tap, std::uint16_t ether_type, LinkFrame& frame) {
  frame = LinkFrame{};
  frame.tap = &tap;
  const Bytes bytes = tap.bytes;
  std::size_t at = kMacs;
  std::size_t tags = 0;
  while (bytes.size() >= at + 4 && tags < kMostTags && is_tag(load16(bytes.data() + at))) {
    // A priority tag, of VLAN 0, is of no VLAN (802.1Q).
    const std::uint32_t vlan = load16(bytes.data() + at + 2) & 0x0FFFU;
    if (vlan != 0) frame.tags = frame.tags << 16 | vlan;
    at += link::kVlanTag;
    ++tags;
  }
  if (bytes.size() < at + 2 || load16(bytes.data() + at) != ether_type) return Content::kOther;
  std::memcpy(frame.to.data(), bytes.data(), frame.to.size());
  std::memcpy(frame.from.data(), bytes.data() + frame.to.size(), frame.from.size());
  frame.length = tap.length - tags * link::kVlanTag;
  const std::size_t link_at = at + 2;
  if (bytes.size() < link_at + link::kLinkHeader) return Content::kLink;

  const std::byte* h = bytes.data() + link_at;
  frame.fields = true;
  frame.version = load8(h) >> 4;
  frame.kind = load8(h) & 0x0F;
  frame.epoch = load8(h + 1);
  frame.body_length = load16(h + 2);
  frame.seq = Seq{load16(h + 4)};
  frame.ack = Seq{load16(h + 6)};
  frame.vc = load8(h + 8) >> 4;
  frame.credit_vc = load8(h + 8) & 0x0F;
  frame.flags = load8(h + 9);
  frame.credit = CellCount{load16(h + 10)};
  frame.header_crc_field = load32(h + kCrcAt);
  const Bytes rest = bytes.subspan(link_at + link::kLinkHeader);
  const std::size_t fcs = fcs_of(tap, link_at + link::kLinkHeader + frame.body_length);
  frame.length -= fcs;
  const std::size_t room = tap.length - fcs - link_at - link::kLinkHeader;
  frame.body = rest.first(std::min<std::size_t>(rest.size(), frame.body_length));
  frame.body_whole = frame.body.size() == frame.body_length;
  const bool init = frame.kind == static_cast<std::uint8_t>(link::Kind::kInit);
  frame.padding = padding_of(tap, rest.subspan(frame.body.size()), fcs, init);
  check_crcs(frame, h, room);
  return Content::kLink;
}

}  // namespace mtl::conformance::judge
