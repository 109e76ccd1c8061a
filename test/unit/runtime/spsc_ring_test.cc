#include "runtime/spsc_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <thread>

namespace mtl::runtime {
namespace {

TEST(SpscRing, RoundsUpToAPowerOfTwo) {
  EXPECT_EQ(SpscRing<int>(1).capacity(), 2u);
  EXPECT_EQ(SpscRing<int>(64).capacity(), 64u);
  EXPECT_EQ(SpscRing<int>(65).capacity(), 128u);
}

TEST(SpscRing, KeepsOrderAndTellsFullAndEmptyOverManyRounds) {
  SpscRing<int> ring(4);
  int out = 0;
  EXPECT_FALSE(ring.pop(out));
  int next_in = 0, next_out = 0;
  for (int round = 0; round < 100; ++round) {
    while (ring.push(next_in)) ++next_in;
    EXPECT_EQ(ring.size(), 4u);
    EXPECT_EQ(next_in - next_out, 4);
    for (int i = 0; i < 1 + round % 4; ++i) {
      ASSERT_TRUE(ring.pop(out));
      EXPECT_EQ(out, next_out++);
    }
  }
}

TEST(SpscRing, LeavesTheItemToTheProducerWhenFull) {
  SpscRing<int> ring(2);
  EXPECT_TRUE(ring.push(1));
  EXPECT_TRUE(ring.push(2));
  EXPECT_FALSE(ring.push(3));
  int out = 0;
  EXPECT_TRUE(ring.pop(out));
  EXPECT_TRUE(ring.push(3));
  EXPECT_TRUE(ring.pop(out) && out == 2);
  EXPECT_TRUE(ring.pop(out) && out == 3);
  EXPECT_TRUE(ring.empty());
}

// Every item once and in order between two threads; what the producer wrote before a push is seen
// after the pop (ThreadSanitizer watches the plain memory behind the pointers).
TEST(SpscRing, CarriesPlainMemoryBetweenTwoThreads) {
  constexpr std::uint64_t kItems = 200'000;
  constexpr std::size_t kSlots = 64;
  SpscRing<std::uint64_t*> ring(kSlots);
  SpscRing<std::uint64_t*> back(kSlots);
  const auto memory = std::make_unique<std::uint64_t[]>(kSlots);
  for (std::size_t i = 0; i < kSlots; ++i) ASSERT_TRUE(back.push(&memory[i]));

  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kItems; ++i) {
      std::uint64_t* item = nullptr;
      while (!back.pop(item)) std::this_thread::yield();
      *item = i;
      while (!ring.push(item)) std::this_thread::yield();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kItems; ++i) {
    std::uint64_t* item = nullptr;
    while (!ring.pop(item)) std::this_thread::yield();
    if (*item != i) ++wrong;
    while (!back.push(item)) std::this_thread::yield();
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ring.empty());
  EXPECT_EQ(back.size(), kSlots);
}

}  // namespace
}  // namespace mtl::runtime
