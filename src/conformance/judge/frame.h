#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "base/serial.h"
#include "base/time.h"

namespace mtl::conformance::judge {

/// A frame as a tap sees it, whatever it is.
struct TapFrame {
  std::uint64_t number = 0;          ///< in the capture, from 1
  std::uint32_t interface = 0;       ///< of the capture
  Time at{};                         ///< when it passed the tap; within 2^32 s of 0, either way
  std::span<const std::byte> bytes;  ///< from the Ethernet header on, as far as captured, no FCS
  std::size_t length = 0;            ///< on the wire; not less than bytes
  std::uint32_t section = 0;         ///< of the capture; each is a capture of its own, never fewer
};

/// What can be said of a CRC.
enum class Crc : std::uint8_t {
  kRight,
  kWrong,
  kUnknown,  ///< the frame was cut before its end
};

/// A frame of the link's EtherType taken apart. Reads the bytes by itself: the judge shares no code
/// with the codec that it judges.
struct LinkFrame {
  const TapFrame* tap = nullptr;
  Mac to{};
  Mac from{};
  std::uint32_t tags = 0;  ///< VLAN ids of up to two tags, outer first; priority tags are none
  std::size_t length = 0;  ///< of the whole frame on the wire, tags and FCS taken out
  bool fields = false;     ///< the link header was captured: what follows holds
  std::uint8_t version = 0;
  std::uint8_t kind = 0;  ///< link::Kind, or an unknown number
  std::uint8_t epoch = 0;
  std::uint16_t body_length = 0;
  Seq seq{};
  Seq ack{};
  std::uint8_t vc = 0;
  std::uint8_t credit_vc = 0;
  std::uint8_t flags = 0;
  CellCount credit{};
  std::uint32_t header_crc_field = 0;
  Crc header_crc = Crc::kUnknown;      ///< L1; kWrong, too, if the body goes beyond the frame
  Crc packet_crc = Crc::kUnknown;      ///< N2; of DATA with at least 16 bytes
  std::span<const std::byte> body;     ///< as far as captured
  std::span<const std::byte> padding;  ///< as far as captured
  bool body_whole = false;             ///< all of the body was captured
};

/// What a frame is to a judge of `ether_type`.
enum class Content : std::uint8_t {
  kOther,  ///< of another EtherType (P2), or too short to have one
  kLink,
};
/// Takes `tap` apart; `frame` refers to its bytes.
Content take_apart(const TapFrame& tap, std::uint16_t ether_type, LinkFrame& frame);

}  // namespace mtl::conformance::judge
