#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace mtl {
namespace {

using Bytes = std::vector<std::byte>;

void expect_all(std::span<const std::byte> bytes, std::uint32_t crc) {
  EXPECT_EQ(crc32c(bytes), crc);
  EXPECT_EQ(crc32c_short(bytes), crc);
  EXPECT_EQ(crc32c_portable(bytes), crc);
}

Bytes noise(std::size_t count) {
  std::mt19937 random(7);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32c, CheckValue) {
  const std::string digits = "123456789";
  expect_all(std::as_bytes(std::span(digits)), 0xE3069283);
}

// RFC 3720, appendix B.4, which prints the CRC's bytes in the order of iSCSI's wire.
TEST(Crc32c, Rfc3720) {
  Bytes up(32), down(32);
  for (std::size_t i = 0; i < 32; ++i) {
    up[i] = static_cast<std::byte>(i);
    down[i] = static_cast<std::byte>(31 - i);
  }
  expect_all(Bytes(32, std::byte{0x00}), 0x8A9136AA);
  expect_all(Bytes(32, std::byte{0xFF}), 0x62A8AB43);
  expect_all(up, 0x46DD794E);
  expect_all(down, 0x113FDB5C);
}

// Bit by bit from the definition: shares nothing with the tables.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
  std::uint32_t state = 0xFFFFFFFF;
  for (const std::byte byte : bytes) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) * 0x82F63B78u);
  }
  return ~state;
}

TEST(Crc32c, AllWaysAgreeAtEveryLengthAndAlignment) {
  const Bytes bytes = noise(2016);
  for (std::size_t length = 0; length <= 2000; ++length) {
    for (std::size_t offset = 0; offset < 9; offset += length % 8 == 0 ? 1 : 3) {
      const auto part = std::span(bytes).subspan(offset, length);
      const std::uint32_t crc = by_definition(part);
      ASSERT_EQ(crc32c(part), crc) << length << " at " << offset;
      ASSERT_EQ(crc32c_short(part), crc) << length << " at " << offset;
      ASSERT_EQ(crc32c_portable(part), crc) << length << " at " << offset;
    }
  }
}

TEST(Crc32c, LongPackets) {
  const Bytes bytes = noise(65536);
  for (const std::size_t length : {9000u, 9001u, 61440u, 65535u}) {
    const auto part = std::span(bytes).subspan(1, length);
    expect_all(part, by_definition(part));
  }
}

TEST(Crc32c, L1_TwoPiecesAreTheirConcatenation) {
  const Bytes bytes = noise(64);
  const auto all = std::span<const std::byte>(bytes);
  for (std::size_t cut = 0; cut <= all.size(); ++cut) {
    EXPECT_EQ(crc32c_short(all.first(cut), all.subspan(cut)), by_definition(all)) << cut;
  }
}

// Twelve bytes each is what the link makes of every DATA, and has a way of its own.
TEST(Crc32c, L1_LinkHeaderAndNetworkHeader) {
  const Bytes bytes = noise(64);
  const auto all = std::span<const std::byte>(bytes);
  for (std::size_t at = 0; at < 8; ++at) {
    const auto first = all.subspan(at, 12);
    const auto second = all.subspan(at + 16, 12);
    Bytes both(first.begin(), first.end());
    both.insert(both.end(), second.begin(), second.end());
    EXPECT_EQ(crc32c_headers(first.data(), second.data()), by_definition(both)) << at;
  }
}

}  // namespace
}  // namespace mtl
