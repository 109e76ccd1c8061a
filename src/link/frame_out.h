#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/buffer.h"
#include "link/codec.h"

namespace mtl::link {

/// A frame as the link makes it when its port has room (L26): the header bytes, and the packet
/// (DATA) or the control body. The wire's frame is head | packet or body | zeros up to min_length.
struct FrameOut {
  /// Ethernet header and link header; for kinds other than DATA the body follows. A link makes it
  /// untagged.
  std::array<std::byte, kFrameHeader + kVlanTag + kMaxControlBody> head;
  std::uint32_t head_length = 0;
  /// Bytes of 802.1Q tag in `head`: a device's longest frame is told without.
  std::uint32_t tag_length = 0;
  /// The packet of a DATA, else nullptr. Still owned by the link, which keeps it until the peer has
  /// acknowledged it: the port copies it, or takes a reference of its own, before it returns.
  Buffer* packet = nullptr;
  /// Length to pad to (P4).
  std::uint32_t min_length = kMinFrame;
  Kind kind = Kind::kData;
  bool replay = false;

  std::uint32_t length() const {
    const std::uint32_t n = head_length + (packet == nullptr ? 0 : packet->length);
    return n < min_length ? min_length : n;
  }
  /// Copies the whole frame, padding included; `out` has at least length() bytes.
  std::uint32_t write(std::byte* out) const;
  /// Becomes `untagged` with an 802.1Q tag of priority 0 (P3). It is padded to 60 bytes, the tag
  /// included; an INIT that is padded to the longest DATA is 4 bytes longer (P4).
  void set_tagged(const FrameOut& untagged, VlanId vlan);

 private:
  void copy_header(std::byte* out) const;
};

}  // namespace mtl::link
