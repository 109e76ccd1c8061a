#include "base/byte_order.h"

#include <gtest/gtest.h>

#include <array>

namespace mtl {
namespace {

constexpr std::array<std::byte, 9> kWire{std::byte{0xAA}, std::byte{0x01}, std::byte{0x23},
                                         std::byte{0x45}, std::byte{0x67}, std::byte{0x89},
                                         std::byte{0xAB}, std::byte{0xCD}, std::byte{0xEF}};

TEST(ByteOrder, LoadsBigEndianAtAnOddAddress) {
  EXPECT_EQ(load8(&kWire[1]), 0x01u);
  EXPECT_EQ(load16(&kWire[1]), 0x0123u);
  EXPECT_EQ(load32(&kWire[1]), 0x01234567u);
  EXPECT_EQ(load64(&kWire[1]), 0x0123456789ABCDEFu);
}

TEST(ByteOrder, StoresBigEndianAndNothingBeside) {
  const auto stored = [](auto store, auto value) {
    std::array<std::byte, 10> bytes;
    bytes.fill(std::byte{0x55});
    store(&bytes[1], value);
    EXPECT_EQ(bytes[0], std::byte{0x55});
    EXPECT_EQ(bytes[1 + sizeof value], std::byte{0x55});
    for (std::size_t i = 0; i < sizeof value; ++i) {
      EXPECT_EQ(bytes[1 + i], kWire[1 + i]) << "byte " << i << " of " << sizeof value;
    }
  };
  stored(store8, std::uint8_t{0x01});
  stored(store16, std::uint16_t{0x0123});
  stored(store32, std::uint32_t{0x01234567});
  stored(store64, std::uint64_t{0x0123456789ABCDEF});
}

}  // namespace
}  // namespace mtl
