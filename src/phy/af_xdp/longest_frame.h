#pragma once

#include <cstdint>

namespace mtl::phy {

/// Longest frame through AF_XDP, tag included: a page, less what the kernel keeps free before a
/// frame.
inline constexpr std::uint32_t kAfXdpMaxFrame = 4096 - 256;

}  // namespace mtl::phy
