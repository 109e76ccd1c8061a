#include "tools/mtperf/stream.h"

#include <gtest/gtest.h>

#include <array>

namespace mtl::mtperf {
namespace {

TEST(Arrivals, EachNumberOnceWhateverTheOrder) {
  Arrivals a;
  for (const std::uint64_t n : {0u, 2u, 1u, 5u}) {
    EXPECT_EQ(a.add(n), Arrivals::What::kNew) << n;
  }
  for (const std::uint64_t n : {0u, 1u, 2u, 5u}) {
    EXPECT_EQ(a.add(n), Arrivals::What::kCopy) << n;
  }
  EXPECT_EQ(a.add(3), Arrivals::What::kNew);
  EXPECT_EQ(a.received(), 5u);
  EXPECT_EQ(a.copies(), 4u);
  EXPECT_EQ(a.out_of_order(), 2u);  // 1 and 3
}

TEST(Arrivals, TheWindowMovesOnWithoutMistakingNewNumbersForOldOnes) {
  Arrivals a;
  a.add(0);
  a.add(Arrivals::kWindow + 3);                               // 1 .. kWindow + 2 have not come
  EXPECT_EQ(a.add(Arrivals::kWindow), Arrivals::What::kNew);  // shares its place with 0
  EXPECT_EQ(a.add(Arrivals::kWindow), Arrivals::What::kCopy);
  EXPECT_EQ(a.add(4), Arrivals::What::kNew);  // just within the window
  a.add(10 * Arrivals::kWindow);
  EXPECT_EQ(a.add(10 * Arrivals::kWindow - 1), Arrivals::What::kNew);
  EXPECT_EQ(a.add(5), Arrivals::What::kCopy);  // too far behind to be known
}

TEST(Arrivals, SaysWhatHasCome) {
  Arrivals a;
  a.add(3);
  EXPECT_TRUE(a.has(3));
  EXPECT_FALSE(a.has(2));
  EXPECT_FALSE(a.has(4));
}

TEST(FlowOrder, EachFlowHasItsOwn) {
  FlowOrder order;
  order.add(1, 0);
  order.add(2, 7);
  order.add(1, 4);  // behind 7, which is of another flow
  order.add(1, 8);
  EXPECT_EQ(order.out_of_order(), 0u);
  order.add(2, 5);
  order.add(2, 6);  // behind 7, too, though ahead of 5
  order.add(1, 9);
  EXPECT_EQ(order.out_of_order(), 2u);
}

TEST(Payload, HeaderComesBack) {
  std::array<std::byte, 40> bytes{};
  encode({Kind::kEnd, 7, 0x1122334455667788, 9}, bytes);
  const auto h = decode(bytes);
  ASSERT_TRUE(h);
  EXPECT_EQ(h->kind, Kind::kEnd);
  EXPECT_EQ(h->number, 7u);
  EXPECT_EQ(h->run, 0x1122334455667788u);
  EXPECT_EQ(h->extra, 9u);
  EXPECT_FALSE(decode(std::span(bytes).first(31)));
  // 16 bytes are what an echo error brings back of a payload (N11): 28 less the network header.
  const auto head = decode_head(std::span(bytes).first(16));
  ASSERT_TRUE(head);
  EXPECT_EQ(head->number, 7u);
  bytes[0] ^= std::byte{1};
  EXPECT_FALSE(decode(bytes));
}

TEST(Payload, AlteredContentIsSeenAtEveryByte) {
  std::array<std::byte, 37> content{};
  fill_content(1, 2, content);
  EXPECT_TRUE(content_ok(1, 2, content));
  EXPECT_FALSE(content_ok(1, 3, content));
  EXPECT_FALSE(content_ok(2, 2, content));
  for (std::byte& b : content) {
    b ^= std::byte{0x10};
    EXPECT_FALSE(content_ok(1, 2, content));
    b ^= std::byte{0x10};
  }
}

TEST(Payload, SizesStayWithinTheirBounds) {
  std::size_t least = 1000;
  std::size_t most = 0;
  for (std::uint64_t n = 0; n < 1000; ++n) {
    const std::size_t size = size_of(5, n, 64, 80);
    least = std::min(least, size);
    most = std::max(most, size);
  }
  EXPECT_EQ(least, 64u);
  EXPECT_EQ(most, 80u);
}

}  // namespace
}  // namespace mtl::mtperf
