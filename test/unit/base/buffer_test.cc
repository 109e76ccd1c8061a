#include "base/buffer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "base/heap_pool.h"

namespace mtl {
namespace {

TEST(BufferQueue, FirstInFirstOut) {
  std::vector<Buffer> buffers(3);
  BufferQueue queue;
  EXPECT_TRUE(queue.empty());
  for (Buffer& buffer : buffers) queue.push(&buffer);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.front(), &buffers[0]);
  for (Buffer& buffer : buffers) EXPECT_EQ(queue.pop(), &buffer);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.size(), 0u);
}

TEST(BufferQueue, WorksAgainAfterItRanEmpty) {
  std::vector<Buffer> buffers(2);
  BufferQueue queue;
  queue.push(&buffers[0]);
  EXPECT_EQ(queue.pop(), &buffers[0]);
  queue.push(&buffers[1]);
  queue.push(&buffers[0]);
  EXPECT_EQ(queue.pop(), &buffers[1]);
  EXPECT_EQ(queue.pop(), &buffers[0]);
  EXPECT_TRUE(queue.empty());
}

TEST(BufferQueue, PushForgetsAnOldListLink) {
  Buffer first, second;
  first.next = &second;
  BufferQueue queue;
  queue.push(&first);
  queue.pop();
  EXPECT_TRUE(queue.empty());
}

TEST(Buffer, ThoseOfABurstGoBackEachToItsPool) {
  HeapPool one(4, 100), other(4, 100);
  std::vector<Buffer*> burst(6);
  EXPECT_EQ(one.take_burst(std::span(burst).first(2)), 2u);
  EXPECT_EQ(other.take_burst(std::span(burst).subspan(2, 3)), 3u);
  EXPECT_EQ(one.take_burst(std::span(burst).subspan(5)), 1u);
  give_back(burst);
  EXPECT_EQ(one.available(), 4u);
  EXPECT_EQ(other.available(), 4u);
  std::vector<Buffer*> more(6);
  EXPECT_EQ(one.take_burst(more), 4u) << "no more than there are";
  give_back(std::span(more).first(4));
}

TEST(Buffer, PullAndTrimKeepTheSumOfBytes) {
  HeapPool pool(1, 100);
  Buffer* buffer = pool.take();
  ASSERT_NE(buffer, nullptr);
  std::byte* const begin = buffer->data;
  buffer->length = 60;
  buffer->tailroom -= 60;
  buffer->pull(14);
  EXPECT_EQ(buffer->data, begin + 14);
  EXPECT_EQ(buffer->length, 46u);
  EXPECT_EQ(buffer->headroom, kHeadroom + 14);
  buffer->trim(40);
  EXPECT_EQ(buffer->length, 40u);
  EXPECT_EQ(buffer->headroom + buffer->length + buffer->tailroom, kHeadroom + 100);
  EXPECT_EQ(buffer->bytes().size(), 40u);
  give_back(buffer);
}

TEST(HeapPool, GivesOutWhatItHasAndThenNothing) {
  HeapPool pool(4, 100);
  EXPECT_EQ(pool.size(), 4u);
  EXPECT_EQ(pool.available(), 4u);
  std::set<Buffer*> taken;
  for (int i = 0; i < 4; ++i) taken.insert(pool.take());
  EXPECT_EQ(taken.size(), 4u);
  EXPECT_EQ(taken.count(nullptr), 0u);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.available(), 0u);
  give_back(*taken.begin());
  EXPECT_EQ(pool.available(), 1u);
  EXPECT_EQ(pool.take(), *taken.begin());
  for (Buffer* buffer : taken) pool.give(buffer);
  EXPECT_EQ(pool.available(), 4u);
}

TEST(HeapPool, BuffersAreApartAndWholeToTheLastByte) {
  constexpr std::uint32_t kRoom = 101;
  HeapPool pool(3, kRoom);
  std::vector<Buffer*> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(pool.take());
  for (std::size_t i = 0; i < taken.size(); ++i) {
    EXPECT_GE(taken[i]->headroom, kHeadroom);
    EXPECT_EQ(taken[i]->tailroom, kRoom);
    std::memset(taken[i]->data - kHeadroom, static_cast<int>(i + 1), kHeadroom + kRoom);
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    for (const std::byte* p = taken[i]->data - kHeadroom; p < taken[i]->data + kRoom; ++p) {
      ASSERT_EQ(*p, static_cast<std::byte>(i + 1));
    }
    give_back(taken[i]);
  }
}

TEST(HeapPool, ATakenBufferIsFresh) {
  HeapPool pool(1, 100);
  Buffer* buffer = pool.take();
  std::byte* const begin = buffer->data;
  buffer->length = 80;
  buffer->pull(20);
  buffer->notes.crc = CrcState::kBad;
  buffer->notes.own = true;
  buffer->notes.egress = PortId{3};
  give_back(buffer);
  buffer = pool.take();
  EXPECT_EQ(buffer->data, begin);
  EXPECT_EQ(buffer->length, 0u);
  EXPECT_EQ(buffer->headroom, kHeadroom);
  EXPECT_EQ(buffer->tailroom, 100u);
  EXPECT_EQ(buffer->next, nullptr);
  EXPECT_EQ(buffer->pool, &pool);
  EXPECT_EQ(buffer->notes.crc, CrcState::kUnknown);
  EXPECT_FALSE(buffer->notes.own);
  EXPECT_EQ(buffer->notes.egress, kNoPort);
  EXPECT_TRUE(pool.exclusive(*buffer));
  give_back(buffer);
}

}  // namespace
}  // namespace mtl
