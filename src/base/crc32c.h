#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mtl {

/// CRC-32C (Castagnoli: reflected, init and final XOR 0xFFFFFFFF; "123456789" gives 0xE3069283).
/// By the CPU's instruction where the program is compiled for CPUs that have one. Any thread.

/// Of a header: a few dozen bytes, by the instruction (L1, N8).
std::uint32_t crc32c_short(std::span<const std::byte> bytes);

/// As crc32c_short over the concatenation of two pieces (L1: link header, then network header).
std::uint32_t crc32c_short(std::span<const std::byte> first, std::span<const std::byte> second);

/// As that over two headers of kCrcHeader bytes each (L1: those of a DATA).
inline constexpr std::size_t kCrcHeader = 12;
std::uint32_t crc32c_headers(const std::byte* first, const std::byte* second);

/// Of a packet of any length (N2): the instruction when short, ISA-L when long.
std::uint32_t crc32c(std::span<const std::byte> bytes);

/// The portable implementation, also where the CPU has better: the reference of the tests.
std::uint32_t crc32c_portable(std::span<const std::byte> bytes);

}  // namespace mtl
