#include "base/mac_text.h"

#include <gtest/gtest.h>

namespace mtl {
namespace {

TEST(MacText, IsSixPairsOfHexDigits) {
  EXPECT_EQ(mac_text({std::byte{0x02}, std::byte{0x4D}, std::byte{0}, std::byte{0xFF},
                      std::byte{0x0A}, std::byte{0xB0}}),
            "02:4d:00:ff:0a:b0");
}

}  // namespace
}  // namespace mtl
