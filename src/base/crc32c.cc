#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <array>
#include <cstring>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mtl {
namespace {

// Everywhere below, `state` is the CRC's register: not inverted at either end.
constexpr std::uint32_t kStart = 0xFFFFFFFF;

// The Castagnoli polynomial 0x1EDC6F41, bits reversed.
constexpr std::uint32_t kPolynomial = 0x82F63B78;

// From this length on ISA-L's folding wins over the plain instruction, whose 8 bytes in 3 cycles
// have no start-up cost (bench/crc).
constexpr std::size_t kFoldFrom = 400;

constexpr std::size_t kSlices = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// tables[k][b]: what byte b does to the register when k more bytes have followed it.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = state;
  }
  for (std::size_t k = 1; k < kSlices; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t update_portable(std::uint32_t state, std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, p += kSlices) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < kSlices; ++i) {
      auto byte = std::to_integer<std::uint32_t>(p[i]);
      if (i < sizeof state) byte ^= (state >> (8 * i)) & 0xFF;
      next ^= kTables[kSlices - 1 - i][byte];
    }
    state = next;
  }
  for (; left > 0; --left, ++p) {
    state = (state >> 8) ^ kTables[0][(state & 0xFF) ^ std::to_integer<std::uint32_t>(*p)];
  }
  return state;
}

#if defined(__SSE4_2__)

std::uint32_t update_short(std::uint32_t state, std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t wide = state;
  for (; left >= 8; left -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  state = static_cast<std::uint32_t>(wide);
  if (left >= 4) {
    std::uint32_t word;
    std::memcpy(&word, p, sizeof word);
    state = _mm_crc32_u32(state, word);
    left -= 4;
    p += 4;
  }
  for (; left > 0; --left, ++p) state = _mm_crc32_u8(state, std::to_integer<std::uint8_t>(*p));
  return state;
}

// Three words instead of two and two halves.
std::uint32_t update_headers(std::uint32_t state, const std::byte* first, const std::byte* second) {
  std::uint64_t begin, end;
  std::uint32_t left, right;
  std::memcpy(&begin, first, sizeof begin);
  std::memcpy(&left, first + sizeof begin, sizeof left);
  std::memcpy(&right, second, sizeof right);
  std::memcpy(&end, second + sizeof right, sizeof end);
  std::uint64_t wide = _mm_crc32_u64(state, begin);
  wide = _mm_crc32_u64(wide, std::uint64_t{right} << 32 | left);
  return static_cast<std::uint32_t>(_mm_crc32_u64(wide, end));
}

#else

std::uint32_t update_short(std::uint32_t state, std::span<const std::byte> bytes) {
  return update_portable(state, bytes);
}

std::uint32_t update_headers(std::uint32_t state, const std::byte* first, const std::byte* second) {
  return update_portable(update_portable(state, {first, kCrcHeader}), {second, kCrcHeader});
}

#endif

#if defined(__x86_64__)

// vzeroupper is an AVX instruction, and the program is compiled for CPUs without.
__attribute__((target("avx"))) void clear_upper_halves() {
  _mm256_zeroupper();
}

bool cpu_has_avx() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx") != 0;
}

const bool kHasAvx = cpu_has_avx();

// ISA-L's folding leaves the upper halves of the vector registers in use. Each SSE instruction that
// follows, and the compiler makes many, then waits for what its register held before: up to the
// next vzeroupper, some 100 ns for each packet (bench/link).
void after_folding() {
  if (kHasAvx) clear_upper_halves();
}

#else

void after_folding() {}

#endif

// ISA-L chooses by the CPU itself. Its function does not write through the pointer.
[[gnu::noinline]] std::uint32_t update_long(std::uint32_t state, std::span<const std::byte> bytes) {
  auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
  state = crc32_iscsi(data, static_cast<int>(bytes.size()), state);
  after_folding();
  return state;
}

}  // namespace

std::uint32_t crc32c_short(std::span<const std::byte> bytes) {
  return ~update_short(kStart, bytes);
}

std::uint32_t crc32c_short(std::span<const std::byte> first, std::span<const std::byte> second) {
  return ~update_short(update_short(kStart, first), second);
}

std::uint32_t crc32c_headers(const std::byte* first, const std::byte* second) {
  return ~update_headers(kStart, first, second);
}

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  constexpr auto kIsalMax = static_cast<std::size_t>(std::numeric_limits<int>::max());
  if (bytes.size() < kFoldFrom || bytes.size() > kIsalMax) return crc32c_short(bytes);
  return ~update_long(kStart, bytes);
}

std::uint32_t crc32c_portable(std::span<const std::byte> bytes) {
  return ~update_portable(kStart, bytes);
}

}  // namespace mtl
