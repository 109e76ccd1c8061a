#include "runtime/random.h"

#include <gtest/gtest.h>

#include <set>

namespace mtl::runtime {
namespace {

TEST(RandomStock, L4_NonceIsNeverZeroAndEpochInRangeAndOtherThanTheLast) {
  RandomStock stock;
  std::set<unsigned> epochs;
  for (int last = 0; last <= 255; ++last) {
    for (int i = 0; i < 20; ++i) {
      const link::BringUp numbers = stock.bring_up(static_cast<std::uint8_t>(last));
      EXPECT_NE(numbers.nonce, 0u);
      EXPECT_GE(numbers.epoch, 1);
      EXPECT_NE(numbers.epoch, last);
      epochs.insert(numbers.epoch);
    }
  }
  // 5,120 draws of 255 values: that one never came has the chance of 1 in a million.
  EXPECT_EQ(epochs.size(), 255u);
}

TEST(RandomStock, L4_NoncesDiffer) {
  RandomStock stock;
  std::set<std::uint32_t> nonces;
  for (int i = 0; i < 64; ++i) nonces.insert(stock.bring_up(0).nonce);
  EXPECT_GE(nonces.size(), 63u);  // a pair among 64 draws of 2^32: 1 in 2 million
}

TEST(RandomStock, IsLowWhenHalfIsUsedAndFullWhenToppedUp) {
  RandomStock stock;
  for (std::size_t i = 0; i < RandomStock::kWords / 2; ++i) stock.word();
  EXPECT_FALSE(stock.low());
  stock.word();
  EXPECT_TRUE(stock.low());
  stock.top_up();
  EXPECT_FALSE(stock.low());
}

}  // namespace
}  // namespace mtl::runtime
