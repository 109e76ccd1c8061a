#include "phy/dpdk/mbuf_pool.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <cstring>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/heap_pool.h"
#include "support.h"

namespace mtl::phy {
namespace {

test::EalEnvironment* environment = nullptr;

std::unique_ptr<MbufPool> make(const MbufPoolConfig& config) {
  auto pool = MbufPool::create(config);
  EXPECT_TRUE(pool) << (pool ? "" : pool.error().message);
  return pool ? std::move(*pool) : nullptr;
}

TEST(MbufPool, GivesFreshBuffersWithHeadroomAndRoom) {
  const auto pool = make({.count = 100, .room = 2000});
  Buffer* buffer = pool->take();
  ASSERT_NE(buffer, nullptr);
  EXPECT_GE(buffer->headroom, kHeadroom);
  EXPECT_EQ(buffer->length, 0u);
  EXPECT_EQ(buffer->tailroom, 2000u);
  EXPECT_EQ(pool->room(), 2000u);
  EXPECT_EQ(buffer->pool, pool.get());
  EXPECT_EQ(buffer->notes.ingress, kNoPort);
  // All of it is the buffer's own memory: another buffer taken now is not touched by writing it.
  Buffer* other = pool->take();
  ASSERT_NE(other, nullptr);
  std::memset(other->data - other->headroom, 0x55, other->headroom + other->tailroom);
  std::memset(buffer->data - buffer->headroom, 0xAA, buffer->headroom + buffer->tailroom);
  EXPECT_EQ(other->data[-static_cast<int>(other->headroom)], std::byte{0x55});
  EXPECT_EQ(other->data[1999], std::byte{0x55});
  EXPECT_EQ(other->pool, pool.get());

  buffer->notes.ingress = PortId{7};
  buffer->pull(0);
  give_back(buffer);
  give_back(other);
  std::set<Buffer*> taken;
  while (Buffer* next = pool->take()) {
    EXPECT_EQ(next->notes.ingress, kNoPort) << "notes of an earlier use";
    EXPECT_EQ(next->length, 0u);
    EXPECT_TRUE(taken.insert(next).second) << "handed out twice";
  }
  for (Buffer* each : taken) give_back(each);
}

// A thread without a cache gives to the common ones.
TEST(MbufPool, CountsWhatIsInCommonAndWhatAThreadKeeps) {
  const auto pool = make({.count = 100, .threads = 2});
  EXPECT_EQ(pool->size(), MbufPool::size({.count = 100, .threads = 2}));
  Buffer* const buffer = pool->take();
  EXPECT_EQ(pool->in_common() + pool->kept_by_me(), pool->size() - 1);
  std::thread([&] {
    EXPECT_EQ(pool->kept_by_me(), 0u);
    give_back(buffer);
    EXPECT_EQ(pool->kept_by_me(), 0u);
  }).join();
  EXPECT_EQ(pool->in_common() + pool->kept_by_me(), pool->size());
}

/// Bytes of this process that are mapped.
std::uint64_t mapped() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages;
  return pages * 4096;
}

// Ports that are added while the node runs: EAL's memory without huge pages is what it was at
// start.
TEST(MbufPool, APoolApartLiesInMemoryThatItGivesBack) {
  make({.count = 100, .room = 9000, .apart = true});  // what is made once is made
  const std::uint64_t before = mapped();
  auto pool = make({.count = 4000, .room = 9000, .apart = true});
  EXPECT_GE(mapped() - before, 4000u * 9000u);
  std::vector<Buffer*> taken;
  while (Buffer* buffer = pool->take()) {
    ASSERT_EQ(buffer->tailroom, 9000u);
    ASSERT_GE(buffer->headroom, kHeadroom);
    std::memset(buffer->data - buffer->headroom, static_cast<int>(taken.size()),
                buffer->headroom + buffer->tailroom);
    taken.push_back(buffer);
  }
  EXPECT_GE(taken.size(), 4000u);
  EXPECT_EQ(taken.size(), pool->size());
  for (std::size_t i = 0; i < taken.size(); ++i) {
    ASSERT_EQ(taken[i]->data[8999], static_cast<std::byte>(i)) << "another's memory";
  }
  EXPECT_EQ(pool->free_buffers(), 0u);
  for (Buffer* buffer : taken) give_back(buffer);
  EXPECT_EQ(pool->free_buffers(), pool->size());
  pool.reset();
  EXPECT_LT(mapped(), before + (1U << 20));
}

TEST(MbufPool, APoolApartThatTheMachineHasNoMemoryForIsRefused) {
  const auto pool = MbufPool::create({.count = 1U << 30, .room = 9000, .apart = true});
  ASSERT_FALSE(pool);
  EXPECT_NE(pool.error().message.find("MiB available; configure fewer or smaller buffers"),
            std::string::npos)
      << pool.error().message;
}

TEST(MbufPool, HoldsAtLeastTheCountThatWasAskedForAndSaysHowManyAreLeft) {
  const auto pool = make({.count = 500, .room = 128});
  EXPECT_EQ(pool->available(), pool->size());
  std::vector<Buffer*> taken;
  while (Buffer* buffer = pool->take()) {
    taken.push_back(buffer);
    EXPECT_EQ(pool->available(), pool->size() - taken.size());
  }
  EXPECT_GE(taken.size(), 500u);
  EXPECT_EQ(taken.size(), pool->size());
  EXPECT_EQ(pool->take(), nullptr);
  for (Buffer* buffer : taken) give_back(buffer);
  EXPECT_EQ(pool->available(), pool->size());
  EXPECT_EQ(pool->free_buffers(), pool->size());
}

// Else what is in turn walks through all the memory of the pool, and each buffer is cold.
TEST(MbufPool, KeepsFewBuffersInTurnWhateverItsSize) {
  const auto pool = make({.count = 8000, .room = 128});
  constexpr std::size_t kInTurn = 1000;  // more than any cache of a thread holds
  std::set<Buffer*> seen;
  for (unsigned round = 0; round < 100; ++round) {
    std::vector<Buffer*> taken;
    while (taken.size() < kInTurn) taken.push_back(pool->take());
    seen.insert(taken.begin(), taken.end());
    for (Buffer* buffer : taken) give_back(buffer);  // the oldest first, as acks do
  }
  EXPECT_LE(seen.size(), 2 * kInTurn);
}

TEST(MbufPool, IsExclusiveUnlessADeviceHoldsAReference) {
  const auto pool = make({.count = 10, .room = 256});
  Buffer* buffer = pool->take();
  EXPECT_TRUE(pool->exclusive(*buffer));
  rte_mbuf* mbuf = MbufPool::mbuf(*buffer);
  rte_mbuf_refcnt_update(mbuf, 1);  // as a transmit queue does
  EXPECT_FALSE(pool->exclusive(*buffer));
  rte_pktmbuf_free(mbuf);
  EXPECT_TRUE(pool->exclusive(*buffer));

  // Given back while the device still reads it: free when the device is done, not before.
  rte_mbuf_refcnt_update(mbuf, 1);
  give_back(buffer);
  EXPECT_EQ(pool->free_buffers(), pool->size() - 1);
  rte_pktmbuf_free(mbuf);
  EXPECT_EQ(pool->free_buffers(), pool->size());
}

TEST(MbufPool, GivesAndTakesBurstsAsOneByOne) {
  const auto pool = make({.count = 90, .room = 256});
  std::vector<Buffer*> taken(pool->size() + 5, nullptr);
  ASSERT_EQ(pool->take_burst(std::span(taken).first(70)), 70u);
  // No more than there are, and all of those.
  const std::size_t all = 70 + pool->take_burst(std::span(taken).subspan(70));
  ASSERT_EQ(all, pool->size());
  EXPECT_EQ(
      std::set<Buffer*>(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(all)).size(),
      all)
      << "handed out twice";
  for (std::size_t i = 0; i < all; ++i) {
    EXPECT_EQ(taken[i]->length, 0u);
    EXPECT_EQ(taken[i]->headroom, 128u);
    EXPECT_EQ(taken[i]->tailroom, 256u);
    EXPECT_EQ(taken[i]->pool, pool.get());
    EXPECT_EQ(taken[i]->notes.ingress, kNoPort);
    taken[i]->notes.ingress = PortId{7};
  }
  // One of them a device still reads.
  rte_mbuf* read = MbufPool::mbuf(*taken[40]);
  rte_mbuf_refcnt_update(read, 1);
  pool->give_burst(std::span(taken).first(all));
  EXPECT_EQ(pool->free_buffers(), pool->size() - 1);
  rte_pktmbuf_free(read);
  EXPECT_EQ(pool->free_buffers(), pool->size());
}

TEST(MbufPool, ReceivedMbufBecomesABufferOfItsBytes) {
  const auto pool = make({.count = 10, .room = 256});
  rte_mbuf* mbuf = rte_pktmbuf_alloc(pool->mempool());
  ASSERT_NE(mbuf, nullptr);
  std::memcpy(rte_pktmbuf_append(mbuf, 60), std::string(60, 'x').data(), 60);
  Buffer* buffer = pool->adopt(mbuf);
  EXPECT_EQ(static_cast<void*>(buffer->data), rte_pktmbuf_mtod(mbuf, void*));
  EXPECT_EQ(buffer->length, 60u);
  EXPECT_EQ(buffer->tailroom, 196u);
  EXPECT_EQ(MbufPool::mbuf(*buffer), mbuf);
  give_back(buffer);
}

TEST(MbufPool, KnowsItsOwnKindOfBuffer) {
  const auto pool = make({.count = 10, .room = 256});
  HeapPool heap(1, 256);
  Buffer* ours = pool->take();
  Buffer* foreign = heap.take();
  EXPECT_TRUE(MbufPool::holds(*ours));
  EXPECT_FALSE(MbufPool::holds(*foreign));
  give_back(ours);
  give_back(foreign);
}

TEST(MbufPool, BuffersTakenByOneWorkerAndGivenByAnotherAreNotStranded) {
  constexpr std::uint32_t kCount = 300;
  const auto pool = make({.count = kCount, .room = 256, .threads = 3});
  Eal& eal = environment->eal();
  std::vector<Buffer*> taken;
  for (int round = 0; round < 20; ++round) {
    eal.launch(0, [&] {
      for (std::uint32_t i = 0; i < kCount; ++i)
        if (Buffer* buffer = pool->take()) taken.push_back(buffer);
    });
    eal.join(0);
    // Whatever lies in the caches of the other threads, this one gets what was promised.
    ASSERT_EQ(taken.size(), kCount) << round;
    eal.launch(1, [&] {
      for (Buffer* buffer : taken) give_back(buffer);
    });
    eal.join(1);
    taken.clear();
  }
  EXPECT_EQ(pool->free_buffers(), pool->size());
}

TEST(MbufPool, WorkersTakeAndGiveAtTheSameTimeWithoutLosingAny) {
  const auto pool = make({.count = 600, .room = 256, .threads = 3});
  const auto work = [&pool] {
    std::vector<Buffer*> mine;
    for (unsigned i = 0; i < 100'000; ++i) {
      if (i / 200 % 2 == 0) {
        if (Buffer* buffer = pool->take()) mine.push_back(buffer);
      } else if (!mine.empty()) {
        give_back(mine.back());
        mine.pop_back();
      }
    }
    for (Buffer* buffer : mine) give_back(buffer);
  };
  environment->eal().launch(0, work);
  environment->eal().launch(1, work);
  environment->eal().join(0);
  environment->eal().join(1);
  EXPECT_EQ(pool->free_buffers(), pool->size());
}

TEST(MbufPool, NamesWhatItCannotMake) {
  auto pool = MbufPool::create({.count = 10, .room = kMaxMbufRoom + 1});
  ASSERT_FALSE(pool);
  EXPECT_NE(pool.error().message.find(std::to_string(kMaxMbufRoom)), std::string::npos);
  pool = MbufPool::create({.count = 100000, .room = 60000});
  ASSERT_FALSE(pool);
  EXPECT_NE(pool.error().message.find("MiB more"), std::string::npos) << pool.error().message;
}

TEST(MbufPool, MemoryForecastIsEnough) {
  // EAL was started with 64 MiB: what memory() says to fit must fit.
  MbufPoolConfig config{.count = 1, .room = 9216};
  while (MbufPool::memory(config) < (56U << 20)) config.count += 100;
  const auto pool = make(config);
  EXPECT_NE(pool, nullptr);
}

}  // namespace
}  // namespace mtl::phy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mtl::phy::EalConfig config;
  config.workers = {{}, {}};
  mtl::phy::environment = new mtl::phy::test::EalEnvironment(config);
  ::testing::AddGlobalTestEnvironment(mtl::phy::environment);
  return RUN_ALL_TESTS();
}
