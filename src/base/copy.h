#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mtl {

/// As std::memcpy, without a call for what most frames and packets of the shortest kind are.
inline void copy_short(std::byte* to, const std::byte* from, std::size_t length) {
  constexpr std::size_t kBlock = 16;
  using Block [[gnu::vector_size(kBlock)]] = std::uint8_t;
  if (length < 2 * kBlock || length > 4 * kBlock) {
    std::memcpy(to, from, length);
    return;
  }
  // Two blocks from either end, which may overlap.
  Block first, second, last, last_but_one;
  std::memcpy(&first, from, kBlock);
  std::memcpy(&second, from + kBlock, kBlock);
  std::memcpy(&last_but_one, from + length - 2 * kBlock, kBlock);
  std::memcpy(&last, from + length - kBlock, kBlock);
  std::memcpy(to, &first, kBlock);
  std::memcpy(to + kBlock, &second, kBlock);
  std::memcpy(to + length - 2 * kBlock, &last_but_one, kBlock);
  std::memcpy(to + length - kBlock, &last, kBlock);
}

}  // namespace mtl
