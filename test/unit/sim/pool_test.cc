#include "sim/pool.h"

#include <gtest/gtest.h>

namespace mtl::sim {
namespace {

class Watcher final : public PoolWatcher {
 public:
  void given(const Buffer&) override { ++given_count; }
  void misgiven(const Buffer&) override { ++misgiven_count; }
  int given_count = 0;
  int misgiven_count = 0;
};

TEST(CheckedPool, IsBoundedAndCountsWhatIsOut) {
  CheckedPool pool(2, 100, nullptr);
  Buffer* first = pool.take();
  Buffer* second = pool.take();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_GE(first->headroom, kHeadroom);
  EXPECT_EQ(first->tailroom, 100u);
  give_back(first);
  EXPECT_EQ(pool.in_use(), 1u);
  int seen = 0;
  pool.for_each_in_use([&](const Buffer& buffer) {
    ++seen;
    EXPECT_EQ(&buffer, second);
  });
  EXPECT_EQ(seen, 1);
}

TEST(CheckedPool, FindsWhatIsGivenTwiceAndWhatIsNotItsOwn) {
  Watcher watcher;
  CheckedPool pool(2, 100, &watcher);
  CheckedPool other(1, 100, nullptr);
  Buffer* buffer = pool.take();
  pool.give(buffer);
  pool.give(buffer);
  EXPECT_EQ(watcher.given_count, 1);
  EXPECT_EQ(watcher.misgiven_count, 1);
  pool.give(other.take());
  EXPECT_EQ(watcher.misgiven_count, 2);
  EXPECT_EQ(pool.available(), 2u);
}

TEST(CheckedPool, SpoilsWhatIsFree) {
  CheckedPool pool(1, 100, nullptr);
  Buffer* buffer = pool.take();
  buffer->length = 4;
  buffer->data[3] = std::byte{7};
  const std::byte* stale = buffer->data;
  pool.give(buffer);
  EXPECT_NE(stale[3], std::byte{7});
}

TEST(WirePool, GrowsAndTakesBackWhatWasPulledAndTrimmed) {
  WirePool pool(200);
  std::vector<Buffer*> out;
  for (int i = 0; i < 100; ++i) out.push_back(pool.take());
  EXPECT_EQ(pool.in_use(), 100u);
  out[0]->length = 50;
  out[0]->tailroom -= 50;
  out[0]->pull(30);
  for (Buffer* buffer : out) give_back(buffer);
  EXPECT_EQ(pool.in_use(), 0u);
  for (int i = 0; i < 100; ++i) {
    const Buffer* again = pool.take();
    EXPECT_EQ(again->headroom, kHeadroom);
    EXPECT_EQ(again->tailroom, 200u);
    EXPECT_EQ(again->length, 0u);
  }
}

}  // namespace
}  // namespace mtl::sim
