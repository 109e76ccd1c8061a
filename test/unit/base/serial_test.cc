#include "base/serial.h"

#include <gtest/gtest.h>

#include <concepts>

namespace mtl {
namespace {

using Small = Serial<struct SmallTag, std::uint8_t>;

// The preamble of the protocol page, word for word, for every pair: a < b iff
// 0 < (b - a) mod 2^n < 2^(n-1).
TEST(Serial, OrderIsThePagesForEveryPair) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const int distance = (b - a + 256) % 256;
      const Small left(static_cast<std::uint8_t>(a));
      const Small right(static_cast<std::uint8_t>(b));
      ASSERT_EQ(left.before(right), 0 < distance && distance < 128) << a << ' ' << b;
      ASSERT_EQ(right.after(left), left.before(right)) << a << ' ' << b;
      ASSERT_EQ(right.since(left), distance) << a << ' ' << b;
    }
  }
}

TEST(Serial, HalfTheSpaceApartIsNeitherBeforeNorAfter) {
  EXPECT_FALSE(Seq(0).before(Seq(0x8000)));
  EXPECT_FALSE(Seq(0x8000).before(Seq(0)));
  EXPECT_TRUE(Seq(0).before(Seq(0x7FFF)));
}

TEST(Serial, WrapsAtItsWidth) {
  EXPECT_EQ(Seq(0xFFFF) + 1, Seq(0));
  EXPECT_TRUE(Seq(0xFFFF).before(Seq(0)));
  Seq seq(0xFFFE);
  seq += 5;
  EXPECT_EQ(seq.value(), 3);
  EXPECT_EQ(Seq(2).since(Seq(0xFFFE)), 4);
}

TEST(Serial, L11_WindowIsHalfOpenAndWraps) {
  const Seq expected(0xFFFE);
  EXPECT_TRUE(Seq(0xFFFE).in_window(expected, 4));
  EXPECT_TRUE(Seq(1).in_window(expected, 4));
  EXPECT_FALSE(Seq(2).in_window(expected, 4));
  EXPECT_FALSE(Seq(0xFFFD).in_window(expected, 4));
  EXPECT_FALSE(Seq(0xFFFE).in_window(expected, 0));
}

template <class A, class B>
concept Comparable = requires(A a, B b) {
  a.before(b);
};
static_assert(Comparable<Seq, Seq>);
static_assert(!Comparable<Seq, CellCount>, "sequence numbers must not mix with credit");
static_assert(!std::convertible_to<std::uint16_t, Seq>);

}  // namespace
}  // namespace mtl
