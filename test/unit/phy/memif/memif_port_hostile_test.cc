// A peer that writes anything anywhere into the shared memory, or takes it away.

#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>

#include "../frames.h"
#include "memif_pair.h"

namespace mtl::phy {
namespace {

using test::MemifPair;
using test::MemifScribbler;
using test::must;
using test::OutFrame;
using test::take;

/// The server is the victim, its client writes what it likes.
class MemifHostile : public ::testing::Test {
 protected:
  void expect_broken(MemifPort& port, MemifBreak reason) {
    EXPECT_TRUE(take(port).empty());
    EXPECT_EQ(port.broken(), reason);
    EXPECT_EQ(port.counters().drops.get(Drop::kBrokenRing), 1u);
    EXPECT_FALSE(port.carrier());
    EXPECT_EQ(port.room(), 0u);
    EXPECT_TRUE(port.arm());
    const OutFrame out(100, 1);
    EXPECT_FALSE(port.send(out.frame));
    port.flush();
    EXPECT_EQ(port.counters().drops.get(Drop::kBrokenRing), 1u) << "counted once";
    EXPECT_EQ(pair.server_pool.available(), pair.server_pool.size());
  }
  void offer(MemifDescriptor descriptor) {
    peer.to_server.store(0, descriptor);
    MemifScribbler::set(peer.to_server.head(), 1);
  }
  MemifPair pair;
  MemifScribbler peer{pair.layout};
  std::uint32_t buffer = 2 * 384;  // behind two rings of 16 descriptors and 128 bytes
};

TEST_F(MemifHostile, MoreFramesThanTheRingHas) {
  MemifScribbler::set(peer.to_server.head(), 17);
  expect_broken(*pair.server, MemifBreak::kIndex);
}

TEST_F(MemifHostile, AnIndexThatRunsBack) {
  const OutFrame out(100, 1);
  ASSERT_GT(pair.client->room(), 0u);
  ASSERT_TRUE(pair.client->send(out.frame));
  pair.client->flush();
  ASSERT_EQ(take(*pair.server).size(), 1u);
  MemifScribbler::set(peer.to_server.head(), 0);
  expect_broken(*pair.server, MemifBreak::kIndex);
}

TEST_F(MemifHostile, ARegionThatIsNotThere) {
  offer({0, 1, 60, buffer, 0});
  expect_broken(*pair.server, MemifBreak::kDescriptor);
}

TEST_F(MemifHostile, TheLastRegionThereCouldBe) {
  offer({0, 0xFFFF, 60, buffer, 0});
  expect_broken(*pair.server, MemifBreak::kDescriptor);
}

TEST_F(MemifHostile, ABufferThatBeginsBehindTheRegion) {
  offer({0, 0, 60, static_cast<std::uint32_t>(peer.size() + 1), 0});
  expect_broken(*pair.server, MemifBreak::kDescriptor);
}

TEST_F(MemifHostile, ABufferThatEndsBehindTheRegion) {
  offer({0, 0, 60, static_cast<std::uint32_t>(peer.size() - 59), 0});
  expect_broken(*pair.server, MemifBreak::kDescriptor);
}

TEST_F(MemifHostile, TheLastBytesOfTheRegionAreInOrder) {
  offer({0, 0, 60, static_cast<std::uint32_t>(peer.size() - 60), 0});
  EXPECT_EQ(take(*pair.server).size(), 1u);
  EXPECT_EQ(pair.server->broken(), MemifBreak::kNone);
}

TEST_F(MemifHostile, ALengthThatOverflows) {
  offer({0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0});
  expect_broken(*pair.server, MemifBreak::kDescriptor);
}

TEST_F(MemifHostile, AChainWithoutAnEnd) {
  offer({kMemifNext, 0, 60, buffer, 0});
  expect_broken(*pair.server, MemifBreak::kChain);
}

TEST_F(MemifHostile, AChainRoundTheWholeRing) {
  for (std::uint16_t i = 0; i < 16; ++i) peer.to_server.store(i, {kMemifNext, 0, 0, buffer, 0});
  MemifScribbler::set(peer.to_server.head(), 16);
  expect_broken(*pair.server, MemifBreak::kChain);
}

TEST_F(MemifHostile, FramesWithoutABodyAreTheLinksToJudge) {
  offer({0, 0, 0, buffer, 0});
  const auto got = take(*pair.server);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[0].empty());
}

TEST_F(MemifHostile, FramesBeforeTheBrokenOneStillCount) {
  peer.to_server.store(0, {0, 0, 60, buffer, 0});
  peer.to_server.store(1, {0, 9, 60, buffer, 0});
  MemifScribbler::set(peer.to_server.head(), 2);
  EXPECT_EQ(take(*pair.server).size(), 1u);
  expect_broken(*pair.server, MemifBreak::kDescriptor);
}

TEST_F(MemifHostile, MoreBuffersToSendIntoThanTheRingHas) {
  MemifScribbler::set(peer.to_client.head(), 17);
  EXPECT_EQ(pair.server->room(), 0u);
  expect_broken(*pair.server, MemifBreak::kIndex);
}

TEST_F(MemifHostile, ABufferToSendIntoThatIsNotThere) {
  peer.to_client.store(0, {0, 3, 2048, 0, 0});
  EXPECT_EQ(pair.server->room(), 0u);
  expect_broken(*pair.server, MemifBreak::kDescriptor);
}

// Seen good by room(), moved before send().
TEST_F(MemifHostile, ABufferToSendIntoThatMovesInBetween) {
  ASSERT_GT(pair.server->room(), 0u);
  peer.to_client.store(0, {0, 0, 2048, static_cast<std::uint32_t>(peer.size() - 100), 0});
  const OutFrame out(500, 1);
  EXPECT_FALSE(pair.server->send(out.frame));
  expect_broken(*pair.server, MemifBreak::kDescriptor);
}

TEST_F(MemifHostile, ABufferToSendIntoThatShrinksInBetween) {
  ASSERT_GT(pair.server->room(), 0u);
  peer.to_client.store(0, {0, 0, 8, buffer, 0});
  const OutFrame out(500, 1);
  EXPECT_FALSE(pair.server->send(out.frame));
  expect_broken(*pair.server, MemifBreak::kBuffers);
}

TEST_F(MemifHostile, BuffersTooSmallForALongestFrame) {
  // 16 descriptors of 60 bytes hold 960; a longest frame has 2048.
  for (std::uint16_t i = 0; i < 16; ++i) peer.to_client.store(i, {0, 0, 60, buffer, 0});
  EXPECT_EQ(pair.server->room(), 0u);
  expect_broken(*pair.server, MemifBreak::kBuffers);
}

TEST_F(MemifHostile, BuffersOfNoLength) {
  for (std::uint16_t i = 0; i < 16; ++i) peer.to_client.store(i, {0, 0, 0, buffer, 0});
  EXPECT_EQ(pair.server->room(), 0u);
  expect_broken(*pair.server, MemifBreak::kBuffers);
}

TEST_F(MemifHostile, TheServersOwnWordsAreNotBelieved) {
  const OutFrame out(100, 1);
  ASSERT_GT(pair.server->room(), 0u);
  ASSERT_TRUE(pair.server->send(out.frame));
  pair.server->flush();
  MemifScribbler::set(peer.to_server.tail(), 12345);
  MemifScribbler::set(peer.to_client.tail(), 54321);
  std::memset(peer.base(), 0xFF, 4);  // the cookie
  ASSERT_TRUE(pair.server->send(out.frame));
  pair.server->flush();
  EXPECT_EQ(MemifScribbler::get(peer.to_client.tail()), 2u);
  EXPECT_EQ(take(*pair.client).size(), 2u);
  EXPECT_EQ(pair.server->broken(), MemifBreak::kNone);
}

TEST_F(MemifHostile, ANewPeerMendsIt) {
  MemifScribbler::set(peer.to_server.head(), 17);
  take(*pair.server);
  ASSERT_NE(pair.server->broken(), MemifBreak::kNone);
  pair.join(4, 2048);
  EXPECT_EQ(pair.server->broken(), MemifBreak::kNone);
  EXPECT_TRUE(pair.server->carrier());
  const OutFrame out(100, 1);
  ASSERT_GT(pair.client->room(), 0u);
  ASSERT_TRUE(pair.client->send(out.frame));
  pair.client->flush();
  EXPECT_EQ(take(*pair.server).size(), 1u);
}

// --- the client is the victim ---

TEST_F(MemifHostile, AServerThatFillsMoreThanItWasGiven) {
  MemifScribbler::set(peer.to_client.tail(), 17);
  EXPECT_TRUE(take(*pair.client).empty());
  EXPECT_EQ(pair.client->broken(), MemifBreak::kIndex);
}

TEST_F(MemifHostile, AServerThatSaysMoreThanABufferHolds) {
  peer.to_client.store(0, {0, 0, 2049, 0, 0});
  MemifScribbler::set(peer.to_client.tail(), 1);
  EXPECT_TRUE(take(*pair.client).empty());
  EXPECT_EQ(pair.client->broken(), MemifBreak::kDescriptor);
}

TEST_F(MemifHostile, AServerThatReadsWhatWasNotSent) {
  MemifScribbler::set(peer.to_server.tail(), 1);
  const OutFrame out(100, 1);
  EXPECT_EQ(pair.client->room(), 0u);
  EXPECT_EQ(pair.client->broken(), MemifBreak::kIndex);
}

TEST_F(MemifHostile, AClientKnowsItselfWhereItsBuffersLie) {
  const OutFrame out(100, 1);
  ASSERT_GT(pair.server->room(), 0u);
  ASSERT_TRUE(pair.server->send(out.frame));
  pair.server->flush();
  auto descriptor = peer.to_client.load(0);
  descriptor.region = 77;
  descriptor.offset = 0xFFFFFF00;
  peer.to_client.store(0, descriptor);
  const auto got = take(*pair.client);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0], out.wire());
}

// --- memory taken away ---

/// A client's memory without seals, as DPDK's zero-copy has it.
MemifLayout without_seals(const MemifLayout& from, int& memory) {
  MemifLayout layout = MemifPair::copy(from);
  memory = ::memfd_create("open", MFD_CLOEXEC);
  if (::ftruncate(memory, static_cast<off_t>(layout.regions[0].size)) != 0) throw 1;
  layout.regions[0].memory = Fd(::dup(memory));
  MemifScribbler rings(layout);
  rings.to_server.clear();
  rings.to_client.clear();
  return layout;
}

TEST_F(MemifHostile, MemoryThatIsCutOffUnderItsFeet) {
  int raw = -1;
  MemifLayout layout = without_seals(pair.layout, raw);
  const Fd memory(raw);
  pair.server->install(must(MemifSegment::attach(MemifPair::copy(layout), pair.ringer)));
  ASSERT_TRUE(pair.server->carrier());
  {
    MemifScribbler client(layout);
    client.to_server.store(0, {0, 0, 1000, 8192, 0});
    MemifScribbler::set(client.to_server.head(), 1);
    for (std::uint16_t i = 0; i < 16; ++i) client.to_client.store(i, {0, 0, 2048, 16384, 0});
    MemifScribbler::set(client.to_client.head(), 16);
  }
  ASSERT_EQ(pair.server->room(), 16u);
  ASSERT_EQ(::ftruncate(memory.get(), 4096), 0) << "the rings stay, the buffers go";
  take(*pair.server);  // the link's CRCs judge what came
  const OutFrame out(500, 1);
  pair.server->send(out.frame);
  pair.server->flush();
  EXPECT_FALSE(pair.server->carrier());
  expect_broken(*pair.server, MemifBreak::kMemory);
}

TEST_F(MemifHostile, AllOfTheMemoryCutOff) {
  int raw = -1;
  MemifLayout layout = without_seals(pair.layout, raw);
  const Fd memory(raw);
  pair.server->install(must(MemifSegment::attach(std::move(layout), pair.ringer)));
  ASSERT_EQ(::ftruncate(memory.get(), 0), 0);
  take(*pair.server);
  pair.server->room();
  pair.server->arm();
  EXPECT_FALSE(pair.server->carrier());
  expect_broken(*pair.server, MemifBreak::kMemory);
}

// As DPDK and VPP have it; what is cut off is a huge page.
TEST_F(MemifHostile, MemoryOnHugePages) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  const Fd memory(::memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB));
  if (!memory || ::ftruncate(memory.get(), 2 * kHuge) != 0)
    GTEST_SKIP() << "no huge pages of 2 MiB";
  void* const got = ::mmap(nullptr, 2 * kHuge, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (got == MAP_FAILED) GTEST_SKIP() << "no two huge pages are free (vm.nr_hugepages)";
  auto* const base = static_cast<std::byte*>(got);
  MemifLayout layout = MemifPair::copy(pair.layout);
  layout.regions[0] = {Fd(::dup(memory.get())), 2 * kHuge};
  const MemifRingView to_server(base + layout.to_server.offset, layout.to_server.log2);
  const MemifRingView to_client(base + layout.to_client.offset, layout.to_client.log2);
  to_server.clear();
  to_client.clear();
  pair.server->install(must(MemifSegment::attach(std::move(layout), pair.ringer)));
  std::memset(base + kHuge + 64, 0x5A, 1000);
  to_server.store(0, {0, 0, 1000, kHuge + 64, 0});
  MemifScribbler::set(to_server.head(), 1);
  const auto frames = take(*pair.server);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0], std::vector<std::byte>(1000, std::byte{0x5A}));
  to_server.store(1, {0, 0, 1000, kHuge + 64, 0});
  ASSERT_EQ(::ftruncate(memory.get(), kHuge), 0);
  MemifScribbler::set(to_server.head(), 2);
  take(*pair.server);  // the link's CRCs judge what came
  EXPECT_FALSE(pair.server->carrier());
  expect_broken(*pair.server, MemifBreak::kMemory);
  ::munmap(got, 2 * kHuge);
}

// --- rounds ---

MemifDescriptor any_descriptor(std::mt19937_64& random, std::size_t size) {
  constexpr std::uint32_t kLengths[] = {0, 1, 60, 64, 2047, 2048, 2049, 0xFFFFFFFF};
  MemifDescriptor out{};
  out.flags = static_cast<std::uint16_t>(random() % 4);
  out.region = static_cast<std::uint16_t>(random() % 8 == 0 ? random() : 0);
  out.length = kLengths[random() % (random() % 4 == 0 ? 8 : 6)];
  out.offset = static_cast<std::uint32_t>(random() % 8 == 0 ? random() : random() % size);
  return out;
}

void damage(MemifScribbler& peer, std::mt19937_64& random) {
  const MemifRingView& ring = random() % 2 == 0 ? peer.to_server : peer.to_client;
  std::uint16_t* words[] = {ring.head(), ring.tail(), ring.flags()};
  switch (random() % 4) {
    case 0:
      MemifScribbler::set(words[random() % 3], static_cast<unsigned>(random()));
      break;
    case 1: {
      std::uint16_t* const word = words[random() % 2];
      MemifScribbler::set(word, MemifScribbler::get(word) + static_cast<unsigned>(random() % 9));
      break;
    }
    case 2:
      ring.store(static_cast<std::uint16_t>(random()), any_descriptor(random, peer.size()));
      break;
    default:
      for (int i = 0; i < 64; ++i) peer.base()[random() % peer.size()] = std::byte(random() & 255);
  }
}

TEST(MemifHostileRounds, RandomDamageOfAnyKind) {
  std::uint64_t broken = 0, survived = 0;
  MemifPair pair;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    pair.join(4, random() % 2 == 0 ? 2048 : 256);
    MemifScribbler peer(pair.layout);
    for (int step = 0; step < 40; ++step) {
      for (MemifPort* port : {pair.server.get(), pair.client.get()}) {
        const OutFrame out(16 + random() % 2000, random());
        if (port->room() > 0) port->send(out.frame);
        port->flush();
        for (const auto& frame : take(*port, 1 + random() % 8)) ASSERT_LE(frame.size(), 2048u);
        if (random() % 4 == 0 && port->arm()) port->disarm();
      }
      if (random() % 4 == 0) damage(peer, random);
    }
    for (MemifPort* port : {pair.server.get(), pair.client.get()}) {
      ++(port->broken() != MemifBreak::kNone ? broken : survived);
    }
    ASSERT_EQ(pair.server->counters().drops.get(Drop::kBrokenRing) +
                  pair.client->counters().drops.get(Drop::kBrokenRing),
              broken)
        << "once for each break";
    ASSERT_EQ(pair.server_pool.available(), pair.server_pool.size());
    ASSERT_EQ(pair.client_pool.available(), pair.client_pool.size());
  }
  EXPECT_GT(broken, 300u) << "the damage must often be seen";
  EXPECT_GT(survived, 30u) << "and sometimes be mere garbage";
}

// Damage while the victim reads: what is checked must be what is used.
TEST(MemifHostileRounds, DamageWhileTheVictimWorks) {
  std::atomic<bool> stop{false};
  std::atomic<MemifScribbler*> target{nullptr};
  std::vector<std::unique_ptr<MemifScribbler>> peers;  // kept: the other thread may be writing
  std::thread writer([&] {
    std::mt19937_64 random(3);
    while (!stop) {
      MemifScribbler* const peer = target;
      if (peer == nullptr) continue;
      for (std::uint16_t i = 0; i < 16; ++i) {
        peer->to_server.store(i, any_descriptor(random, peer->size()));
        peer->to_client.store(i, any_descriptor(random, peer->size()));
      }
      std::uint16_t* const word =
          random() % 2 == 0 ? peer->to_server.head() : peer->to_client.head();
      MemifScribbler::set(word, MemifScribbler::get(word) + static_cast<unsigned>(random() % 3));
    }
  });
  MemifPair pair;
  const OutFrame out(500, 1);
  for (std::size_t round = 0; round < 60; ++round) {
    pair.join(4, 2048);
    peers.push_back(std::make_unique<MemifScribbler>(pair.layout));
    target = peers.back().get();
    while (pair.server->broken() == MemifBreak::kNone) {
      for (const auto& frame : take(*pair.server, 8)) ASSERT_LE(frame.size(), 2048u);
      if (pair.server->room() > 0) pair.server->send(out.frame);
      pair.server->flush();
    }
    ASSERT_EQ(pair.server_pool.available(), pair.server_pool.size());
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace mtl::phy
