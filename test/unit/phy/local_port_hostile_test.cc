// A peer that writes anything anywhere. The test plays it on a mapping of its own, as another
// process would; AddressSanitizer watches the victim's buffers, and the victim's mapping has no
// neighbours.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <random>
#include <thread>

#include "frames.h"
#include "local_pair.h"

namespace mtl::phy {
namespace {

using test::LocalPair;
using test::OutFrame;
using test::take;

constexpr std::uint32_t kRing = 65536;
constexpr std::uint32_t kFrame = 2048;

// The whole of the shared memory, writable, as the peer has it.
class Scribbler {
 public:
  explicit Scribbler(const LocalPortFds& fds) {
    void* got = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds.memory.get(), 0);
    if (got == MAP_FAILED) throw std::runtime_error("mmap");
    base_ = static_cast<std::byte*>(got);
  }
  ~Scribbler() { ::munmap(base_, kBytes); }
  Scribbler(const Scribbler&) = delete;
  Scribbler& operator=(const Scribbler&) = delete;

  static constexpr std::size_t kBytes = kLocalRings + 2 * kRing;
  LocalHeader& header() { return *reinterpret_cast<LocalHeader*>(base_); }
  LocalWords& endpoint() { return header().words[1]; }
  LocalWords& switch_words() { return header().words[0]; }
  std::byte* endpoint_ring() { return base_ + kLocalRings + kRing; }
  std::byte* base() { return base_; }

  void put_record(std::size_t at, std::uint32_t length) {
    std::memcpy(endpoint_ring() + at, &length, sizeof length);
  }

 private:
  std::byte* base_;
};

struct Hostile : ::testing::Test {
  Hostile() : scribbler(pair.fds) {}

  // The switch must see the break once, and do nothing more.
  void expect_broken() {
    EXPECT_TRUE(pair.switch_end->broken());
    EXPECT_FALSE(pair.switch_end->carrier());
    EXPECT_EQ(pair.switch_end->counters().drops.get(Drop::kBrokenRing), 1u);
    scribbler.endpoint().head = 0;
    scribbler.endpoint().tail = 0;
    EXPECT_TRUE(take(*pair.switch_end).empty());
    EXPECT_EQ(pair.switch_end->room(), 0u);
    const OutFrame out(100, 1);
    EXPECT_FALSE(pair.switch_end->send(out.frame));
    pair.switch_end->flush();
    EXPECT_TRUE(pair.switch_end->arm());
    pair.switch_end->disarm();
    EXPECT_EQ(pair.switch_end->counters().drops.get(Drop::kBrokenRing), 1u);
    EXPECT_EQ(pair.switch_pool.available(), pair.switch_pool.size());
  }

  LocalPair pair{LocalPortConfig{"slot0", kRing, kFrame}};
  Scribbler scribbler;
};

TEST_F(Hostile, AHeadBeyondTheRing) {
  scribbler.endpoint().head = kRing + 8;
  EXPECT_TRUE(take(*pair.switch_end).empty());
  expect_broken();
}

TEST_F(Hostile, AHeadThatRunsBack) {
  const OutFrame out(100, 1);
  ASSERT_TRUE(pair.endpoint->send(out.frame));
  pair.endpoint->flush();
  ASSERT_EQ(take(*pair.switch_end).size(), 1u);
  scribbler.endpoint().head = 0;
  EXPECT_TRUE(take(*pair.switch_end).empty());
  expect_broken();
}

TEST_F(Hostile, AHeadOffItsAlignment) {
  scribbler.put_record(0, 60);
  scribbler.endpoint().head = 68;
  EXPECT_TRUE(take(*pair.switch_end).empty());
  expect_broken();
}

TEST_F(Hostile, ARecordLongerThanWhatIsThere) {
  scribbler.put_record(0, 100);
  scribbler.endpoint().head = 104;
  EXPECT_TRUE(take(*pair.switch_end).empty());
  expect_broken();
}

TEST_F(Hostile, ARecordLongerThanTheLongestFrame) {
  scribbler.put_record(0, kFrame + 1);
  scribbler.endpoint().head = kRing;
  EXPECT_TRUE(take(*pair.switch_end).empty());
  expect_broken();
}

TEST_F(Hostile, ALengthThatOverflows) {
  scribbler.put_record(0, 0xFFFFFFFF);
  scribbler.endpoint().head = 8;
  EXPECT_TRUE(take(*pair.switch_end).empty());
  expect_broken();
}

TEST_F(Hostile, ARecordWithoutAFrame) {
  scribbler.put_record(0, 0);
  scribbler.endpoint().head = 8;
  EXPECT_TRUE(take(*pair.switch_end).empty());
  expect_broken();
}

TEST_F(Hostile, FramesBeforeTheBrokenRecordStillCount) {
  const OutFrame out(100, 1);
  ASSERT_TRUE(pair.endpoint->send(out.frame));
  pair.endpoint->flush();
  scribbler.put_record(local_record(130), 5);
  scribbler.endpoint().head = local_record(130) + 64;
  EXPECT_EQ(take(*pair.switch_end).size(), 1u);
  expect_broken();
}

TEST_F(Hostile, ATailAheadOfWhatWasPublished) {
  scribbler.endpoint().tail = 8;
  const OutFrame out(1900, 1);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pair.switch_end->send(out.frame));  // unpublished
  EXPECT_EQ(pair.switch_end->room(), 0u);
  expect_broken();
}

TEST_F(Hostile, ATailOffItsAlignment) {
  const OutFrame out(1900, 1);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pair.switch_end->send(out.frame));
  pair.switch_end->flush();
  scribbler.endpoint().tail = 12;
  EXPECT_EQ(pair.switch_end->room(), 0u);
  expect_broken();
}

TEST_F(Hostile, ANewClaimMendsTheSlot) {
  scribbler.endpoint().head = kRing + 8;
  take(*pair.switch_end);
  ASSERT_TRUE(pair.switch_end->broken());
  LocalPortFds fds = test::must(pair.switch_end->claim());
  HeapPool pool(4, kFrame);
  auto newcomer = test::must(LocalPort::attach(std::move(fds), "newcomer", pool));
  EXPECT_FALSE(pair.switch_end->broken());
  EXPECT_TRUE(pair.switch_end->carrier());
  const OutFrame out(100, 1);
  ASSERT_TRUE(newcomer->send(out.frame));
  newcomer->flush();
  EXPECT_EQ(take(*pair.switch_end).size(), 1u);
}

// Each change of carrier costs the switch an event and an INIT: one of each is all that a claim
// gets.
TEST_F(Hostile, APeerThatLeavesAndComesBackGetsNoCarrierBeforeTheNextClaim) {
  ASSERT_TRUE(pair.switch_end->carrier());
  for (int i = 0; i < 100; ++i) {
    scribbler.endpoint().attached = 0;
    EXPECT_FALSE(pair.switch_end->carrier());
    scribbler.endpoint().attached = kLocalAttached;
    EXPECT_FALSE(pair.switch_end->carrier()) << "after coming back " << i + 1 << " times";
  }
  const OutFrame out(100, 1);
  ASSERT_TRUE(pair.endpoint->send(out.frame));
  pair.endpoint->flush();
  EXPECT_TRUE(take(*pair.switch_end).empty());
  EXPECT_EQ(pair.switch_end->room(), 0u);
  EXPECT_TRUE(pair.switch_end->arm());
  EXPECT_EQ(pair.switch_end->counters().drops.get(Drop::kBrokenRing), 0u) << "to leave is no fault";

  HeapPool pool(4, kFrame);
  auto newcomer =
      test::must(LocalPort::attach(test::must(pair.switch_end->claim()), "newcomer", pool));
  EXPECT_TRUE(pair.switch_end->carrier());
}

TEST_F(Hostile, SizesInTheHeaderAreNotLookedAtAgain) {
  scribbler.header().ring_bytes = ~0ull;
  scribbler.header().max_frame = ~0u;
  scribbler.header().magic = 0;
  const OutFrame out(100, 1);
  ASSERT_TRUE(pair.endpoint->send(out.frame));
  pair.endpoint->flush();
  EXPECT_EQ(take(*pair.switch_end).size(), 1u);
  EXPECT_EQ(pair.switch_end->room(), kRing / (8 + kFrame));
}

TEST_F(Hostile, TheSwitchsOwnWordsAreNotBelieved) {
  const OutFrame out(1900, 1);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pair.switch_end->send(out.frame));
  pair.switch_end->flush();
  scribbler.switch_words().head = 12345;
  scribbler.switch_words().tail = 54321;
  scribbler.switch_words().frames_armed = 99;
  ASSERT_TRUE(pair.endpoint->send(out.frame));
  pair.endpoint->flush();
  EXPECT_EQ(take(*pair.switch_end).size(), 1u);
  EXPECT_FALSE(pair.switch_end->broken());
}

// A bell stuffed full, and its non-blocking flag taken off: neither ringing nor draining may wait.
TEST_F(Hostile, AStuffedDoorbellHoldsNobody) {
  const int bell = pair.fds.doorbell.get();
  std::vector<char> junk(1000);
  while (::send(bell, junk.data(), junk.size(), MSG_DONTWAIT) > 0) {
  }
  ASSERT_EQ(::fcntl(bell, F_SETFL, 0), 0);
  pair.switch_end->disarm();
  const OutFrame out(16, 1);
  for (std::uint64_t sleep = 1; sleep <= 100; ++sleep) {  // nobody takes what is rung
    scribbler.endpoint().frames_armed = sleep;
    ASSERT_TRUE(pair.switch_end->send(out.frame));
    pair.switch_end->flush();
  }
  pair.switch_end->disarm();
  EXPECT_FALSE(pair.switch_end->broken());
}

// One seeded round: traffic that is right, with damage in between.
void scribble_round(std::uint64_t seed, std::uint64_t& broken, std::uint64_t& survived) {
  LocalPair pair(LocalPortConfig{"slot0", kRing, kFrame}, 16);
  Scribbler scribbler(pair.fds);
  std::mt19937_64 random(seed);
  const auto damage = [&] {
    std::atomic<std::uint64_t>* words[] = {
        &scribbler.endpoint().head,         &scribbler.endpoint().tail,
        &scribbler.endpoint().frames_armed, &scribbler.endpoint().room_armed,
        &scribbler.switch_words().head,     &scribbler.switch_words().tail};
    switch (random() % 5) {
      case 0:
        *words[random() % 6] = random();
        break;
      case 1:
        *words[random() % 6] += (random() % 512 - 256) * 8;
        break;
      case 2:
        *words[random() % 2] = random() % (2 * kRing);
        break;
      case 3:
        scribbler.put_record(random() % (kRing / 8) * 8, static_cast<std::uint32_t>(random()));
        break;
      default:
        for (int i = 0; i < 64; ++i) {
          scribbler.endpoint_ring()[random() % kRing] = static_cast<std::byte>(random());
        }
    }
  };
  for (int step = 0; step < 40; ++step) {
    const OutFrame out(16 + random() % 2000, random());
    if (pair.endpoint->room() > 0) pair.endpoint->send(out.frame);
    pair.endpoint->flush();
    if (random() % 4 == 0) damage();
    if (pair.switch_end->room() > 0) pair.switch_end->send(out.frame);
    pair.switch_end->flush();
    for (const auto& frame : take(*pair.switch_end, 1 + random() % 8)) {
      EXPECT_LE(frame.size(), kFrame);
    }
    if (random() % 4 == 0 && pair.switch_end->arm()) pair.switch_end->disarm();
    take(*pair.endpoint, 4);
  }
  ++(pair.switch_end->broken() ? broken : survived);
  EXPECT_LE(pair.switch_end->counters().drops.get(Drop::kBrokenRing), 1u);
  EXPECT_EQ(pair.switch_pool.available(), pair.switch_pool.size());
}

TEST(HostileRounds, RandomDamageOfAnyKind) {
  std::uint64_t broken = 0, survived = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    scribble_round(seed, broken, survived);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(broken, 300u) << "the damage must often be seen";
  EXPECT_GT(survived, 30u) << "and sometimes be mere garbage";
}

// Lengths around every bound, everywhere, and indices that go their own way.
void scribble_on(std::byte* base, std::mt19937_64& random) {
  constexpr std::uint32_t kLengths[] = {60, 64, kFrame, kFrame + 1, 0xFFFFFFF0, 0};
  std::byte* ring = base + kLocalRings + kRing;
  for (std::size_t at = 0; at < kRing; at += 8) {
    const std::uint32_t length = kLengths[random() % (random() % 8 == 0 ? 6 : 3)];
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(ring + at), length, __ATOMIC_RELAXED);
  }
  LocalWords& words = reinterpret_cast<LocalHeader*>(base)->words[1];
  words.head.fetch_add(local_record(60) * (1 + random() % 8));
  words.tail.fetch_add(random() % 2 * 8);
}

// Damage while the victim reads: what is checked must be what is used.
TEST(HostileRounds, DamageWhileTheVictimReads) {
  constexpr std::size_t kRounds = 40;
  std::vector<std::unique_ptr<LocalPair>> pairs;  // kept: the peer may still be writing there
  std::vector<std::unique_ptr<Scribbler>> scribblers;
  std::atomic<std::byte*> target{nullptr};
  std::atomic<bool> stop{false};
  std::thread peer([&] {
    std::mt19937_64 random(3);
    while (!stop) {
      if (std::byte* base = target; base != nullptr) scribble_on(base, random);
    }
  });
  const OutFrame out(500, 1);
  for (std::size_t round = 0; round < kRounds; ++round) {
    pairs.push_back(std::make_unique<LocalPair>(LocalPortConfig{"slot0", kRing, kFrame}, 16));
    scribblers.push_back(std::make_unique<Scribbler>(pairs.back()->fds));
    target = scribblers.back()->base();
    LocalPort& victim = *pairs.back()->switch_end;
    while (!victim.broken()) {
      for (const auto& frame : take(victim, 8)) EXPECT_LE(frame.size(), kFrame);
      if (victim.room() > 0) victim.send(out.frame);
      victim.flush();
    }
    EXPECT_EQ(victim.counters().drops.get(Drop::kBrokenRing), 1u);
    EXPECT_EQ(pairs.back()->switch_pool.available(), pairs.back()->switch_pool.size());
  }
  stop = true;
  peer.join();
}

}  // namespace
}  // namespace mtl::phy
