#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "base/heap_pool.h"
#include "link/codec.h"
#include "link/frame_out.h"

/// Frames for the tests of the PHY, made from the page's layout and not by the link's encoder.
namespace mtl::phy::test {

/// Content that tells place and frame apart.
inline std::byte pattern(std::uint64_t number, std::size_t at) {
  return static_cast<std::byte>((number * 0x9E3779B97F4A7C15 >> 40) + at * 7 + (at >> 8));
}

/// A packet (section 4) of `length` bytes, from 16 on, with its packet CRC (N2).
inline void fill_packet(std::span<std::byte> packet, std::uint64_t number) {
  const std::size_t crc_at = packet.size() - 4;
  for (std::size_t i = 0; i < crc_at; ++i) packet[i] = pattern(number, i);
  store32(&packet[crc_at], crc32c_portable(packet.subspan(2, crc_at - 2)));
}

/// Ethernet and link header (section 2) of a body of `body` bytes, with the header CRC (L1).
inline void fill_headers(std::byte* head, link::Kind kind, std::span<const std::byte> body) {
  std::memset(head, 0x22, link::kEthernetHeader);
  std::byte* link_header = head + link::kEthernetHeader;
  std::memset(link_header, 0, link::kLinkHeader);
  store8(link_header, static_cast<std::uint8_t>(0x10 | static_cast<unsigned>(kind)));
  store16(link_header + 2, static_cast<std::uint16_t>(body.size()));
  store8(link_header + 8, 0x0F);
  const std::size_t covered = kind == link::Kind::kData ? 12 : body.size();
  store32(link_header + 12,
          crc32c_short(std::span<const std::byte>(link_header, 12), body.first(covered)));
}

/// A whole DATA frame with a packet of `length` bytes, padded to 60, in a buffer of `pool`.
inline Buffer* make_data(BufferPool& pool, std::size_t length, std::uint64_t number) {
  Buffer* frame = pool.take();
  if (frame == nullptr) return nullptr;
  std::memset(frame->data, 0, link::kMinFrame);
  const std::span<std::byte> packet(frame->data + link::kFrameHeader, length);
  fill_packet(packet, number);
  fill_headers(frame->data, link::Kind::kData, packet);
  const std::size_t whole = std::max(link::kFrameHeader + length, link::kMinFrame);
  frame->length = static_cast<std::uint32_t>(whole);
  frame->tailroom -= frame->length;
  return frame;
}

/// A frame as a link hands it to a port: `length` bytes of packet numbered `number`.
class OutFrame {
 public:
  OutFrame(std::size_t length, std::uint64_t number)
      : pool_(1, static_cast<std::uint32_t>(length)), packet_(pool_.take()) {
    packet_->length = static_cast<std::uint32_t>(length);
    fill_packet(packet_->bytes(), number);
    fill_headers(frame.head.data(), link::Kind::kData, packet_->bytes());
    frame.head_length = link::kFrameHeader;
    frame.packet = packet_;
  }
  ~OutFrame() { give_back(packet_); }
  OutFrame(const OutFrame&) = delete;
  OutFrame& operator=(const OutFrame&) = delete;

  /// The untagged frame as it must arrive: header, packet, zeros to min_length (P4).
  std::vector<std::byte> wire() const {
    std::vector<std::byte> bytes(frame.head.begin(), frame.head.begin() + frame.head_length);
    bytes.insert(bytes.end(), packet_->data, packet_->data + packet_->length);
    if (bytes.size() < frame.min_length) bytes.resize(frame.min_length);
    return bytes;
  }

  link::FrameOut frame;

 private:
  HeapPool pool_;
  Buffer* packet_;
};

}  // namespace mtl::phy::test
