#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mtl {

static_assert(std::endian::native == std::endian::little, "add the other branch before porting");

/// Big-endian loads and stores at any alignment: every integer of the wire is big-endian.
inline std::uint8_t load8(const std::byte* p) {
  return std::to_integer<std::uint8_t>(*p);
}
inline std::uint16_t load16(const std::byte* p) {
  std::uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap16(v);
}
inline std::uint32_t load32(const std::byte* p) {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap32(v);
}
inline std::uint64_t load64(const std::byte* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap64(v);
}
inline void store8(std::byte* p, std::uint8_t v) {
  *p = std::byte{v};
}
inline void store16(std::byte* p, std::uint16_t v) {
  v = __builtin_bswap16(v);
  std::memcpy(p, &v, sizeof v);
}
inline void store32(std::byte* p, std::uint32_t v) {
  v = __builtin_bswap32(v);
  std::memcpy(p, &v, sizeof v);
}
inline void store64(std::byte* p, std::uint64_t v) {
  v = __builtin_bswap64(v);
  std::memcpy(p, &v, sizeof v);
}

}  // namespace mtl
