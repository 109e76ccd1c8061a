#pragma once

#include <cstddef>
#include <span>

#include "base/buffer.h"

namespace mtl::phy {

/// For a port that has just copied `frame`, while its bytes are in the cache: whether the packet
/// CRC is good (N2), if it is a DATA whose lengths are in order; else kUnknown, and the link looks.
CrcState check_packet(std::span<const std::byte> frame);

}  // namespace mtl::phy
