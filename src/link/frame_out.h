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
  /// Ethernet header (untagged) and link header; for kinds other than DATA the body follows.
  std::array<std::byte, kFrameHeader + kMaxControlBody> head;
  std::uint32_t head_length = 0;
  /// The packet of a DATA, else nullptr. Still owned by the link, which keeps it until the peer has
  /// acknowledged it: the port copies it, or takes a reference of its own, before it returns.
  Buffer* packet = nullptr;
  /// Length to pad to, of the untagged frame (P4); a tagged port adds 4 to the padding of INIT.
  std::uint32_t min_length = kMinFrame;
  Kind kind = Kind::kData;
  bool replay = false;

  std::uint32_t length() const {
    const std::uint32_t n = head_length + (packet == nullptr ? 0 : packet->length);
    return n < min_length ? min_length : n;
  }
  /// Copies the whole untagged frame, padding included; `out` has at least length() bytes.
  std::uint32_t write(std::byte* out) const;
};

}  // namespace mtl::link
