// Pages of a slot's memory that cannot be had. A mapping beyond the end of a file raises the same
// SIGBUS as a punched hole for which the kernel has no page, and does so on any machine.

#include "phy/segment_guard.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "base/fd.h"
#include "frames.h"
#include "local_pair.h"

namespace mtl::phy {
namespace {

using test::copy_of;
using test::must;
using test::OutFrame;
using test::take;

constexpr std::uint32_t kRing = 65536;
constexpr std::uint32_t kFrame = 2048;

std::size_t page() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Lets every touch of the page at `where` (nullptr: anywhere) raise SIGBUS.
std::byte* take_page_away(std::byte* where) {
  const Fd empty(::memfd_create("empty", MFD_CLOEXEC));
  void* got = ::mmap(where, page(), PROT_READ | PROT_WRITE,
                     MAP_SHARED | (where == nullptr ? 0 : MAP_FIXED), empty.get(), 0);
  if (got == MAP_FAILED) throw std::runtime_error("mmap");
  return static_cast<std::byte*>(got);
}

// A claimed slot whose switch end can be robbed of pages of its own mapping.
struct Slot {
  Slot()
      : switch_pool(64, kFrame),
        endpoint_pool(64, kFrame),
        switch_end(must(LocalPort::create({"slot0", kRing, kFrame}, switch_pool))) {
    claim();
  }

  void claim() {
    auto segment = must(switch_end->make_segment(fds));
    in_ring = const_cast<std::byte*>(segment->in_ring());
    out_ring = segment->out_ring();
    header = out_ring - kLocalRings;  // LocalSide::kSwitch writes the first ring
    segment = switch_end->install(std::move(segment));
    endpoint = must(LocalPort::attach(copy_of(fds), "endpoint", endpoint_pool));
  }

  void send(LocalPort& from) {
    const OutFrame out(100, 1);
    ASSERT_GT(from.room(), 0u);
    ASSERT_TRUE(from.send(out.frame));
    from.flush();
  }

  // Broken, counted once, shut, and mended by the next claim.
  void expect_broken_until_claimed() {
    EXPECT_FALSE(switch_end->carrier());
    EXPECT_TRUE(switch_end->broken());
    EXPECT_TRUE(take(*switch_end).empty());
    EXPECT_EQ(switch_end->room(), 0u);
    EXPECT_FALSE(switch_end->carrier());
    EXPECT_EQ(switch_end->counters().drops.get(Drop::kBrokenRing), 1u);
    EXPECT_EQ(switch_pool.available(), switch_pool.size());
    claim();
    EXPECT_TRUE(switch_end->carrier());
    EXPECT_FALSE(switch_end->broken());
    send(*endpoint);
    EXPECT_EQ(take(*switch_end).size(), 1u);
    send(*switch_end);
    EXPECT_EQ(take(*endpoint).size(), 1u);
  }

  HeapPool switch_pool;
  HeapPool endpoint_pool;
  std::unique_ptr<LocalPort> switch_end;
  LocalPortFds fds;
  std::unique_ptr<LocalPort> endpoint;
  std::byte* header = nullptr;
  std::byte* in_ring = nullptr;
  std::byte* out_ring = nullptr;
};

TEST(SegmentGuard, ALostPageOfTheRingReadBreaksThePort) {
  Slot slot;
  ASSERT_TRUE(slot.switch_end->carrier());
  slot.send(*slot.endpoint);
  take_page_away(slot.in_ring);
  EXPECT_TRUE(take(*slot.switch_end).empty()) << "the spare page holds no record";
  slot.expect_broken_until_claimed();
}

TEST(SegmentGuard, ALostPageOfTheRingWrittenBreaksThePort) {
  Slot slot;
  ASSERT_TRUE(slot.switch_end->carrier());
  take_page_away(slot.out_ring);
  slot.send(*slot.switch_end);
  slot.expect_broken_until_claimed();
}

TEST(SegmentGuard, ALostHeaderBreaksThePort) {
  Slot slot;
  ASSERT_TRUE(slot.switch_end->carrier());
  take_page_away(slot.header);
  slot.switch_end->flush();
  EXPECT_TRUE(take(*slot.switch_end).empty());
  slot.expect_broken_until_claimed();
}

TEST(SegmentGuard, NobodySleepsOverALostPage) {
  Slot slot;
  ASSERT_TRUE(slot.switch_end->carrier());
  take_page_away(slot.header);
  EXPECT_FALSE(slot.switch_end->arm());
  slot.expect_broken_until_claimed();
}

TEST(SegmentGuard, AllPagesMayBeLostAndOtherSlotsGoOn) {
  Slot lost;
  Slot other;
  ASSERT_TRUE(lost.switch_end->carrier());
  for (std::size_t at = 0; at < 2 * kRing; at += page()) take_page_away(lost.out_ring + at);
  const OutFrame out(kFrame - 30, 1);
  for (unsigned room = lost.switch_end->room(); room > 0; --room) {
    ASSERT_TRUE(lost.switch_end->send(out.frame));
  }
  lost.expect_broken_until_claimed();
  EXPECT_TRUE(other.switch_end->carrier());
  other.send(*other.endpoint);
  EXPECT_EQ(take(*other.switch_end).size(), 1u);
  EXPECT_EQ(other.switch_end->counters().drops.get(Drop::kBrokenRing), 0u);
}

// Places in the list are used again.
TEST(SegmentGuard, ManyGuardsComeAndGo) {
  const std::size_t bytes = 2 * page();
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<SegmentGuard>> guards;
    std::vector<std::byte*> bases;
    for (int i = 0; i < 100; ++i) {
      void* got = ::mmap(nullptr, bytes + page(), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
      ASSERT_NE(got, MAP_FAILED);
      bases.push_back(static_cast<std::byte*>(got));
      guards.push_back(std::make_unique<SegmentGuard>(bases.back(), bytes));
    }
    for (std::size_t i = 0; i < guards.size(); i += 2) {
      *static_cast<volatile std::byte*>(take_page_away(bases[i] + page())) = std::byte{1};
    }
    for (std::size_t i = 0; i < guards.size(); ++i) {
      EXPECT_EQ(guards[i]->tripped(), i % 2 == 0) << i;
      guards[i].reset();
      ::munmap(bases[i], bytes + page());
    }
  }
}

// As a region on huge pages: a part that is lost is replaced as a whole, at the bounds of its page.
TEST(SegmentGuard, PagesOfAnotherSizeAreReplacedAsAWhole) {
  const std::size_t large = 4 * page();
  void* const start =
      ::mmap(nullptr, 4 * large, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(start, MAP_FAILED);
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  auto* const base = static_cast<std::byte*>(start) + (large - address % large) % large;
  {
    SegmentGuard guard(base, 2 * large, large);
    std::byte* const lost = base + large;
    for (std::size_t at = 0; at < large; at += page()) take_page_away(lost + at);
    *static_cast<volatile std::byte*>(lost + 3 * page() + 5) = std::byte{1};
    EXPECT_TRUE(guard.tripped());
    for (std::size_t at = 0; at < large; at += page()) {
      EXPECT_EQ(lost[at], std::byte{0}) << "no further fault, in memory of our own";
    }
    EXPECT_EQ(lost[3 * page() + 5], std::byte{1});
    base[5] = std::byte{2};
    EXPECT_EQ(base[5], std::byte{2}) << "the page before is as it was";
  }
  ::munmap(start, 4 * large);
}

void touch(std::byte* where) {
  *static_cast<volatile std::byte*>(where) = std::byte{1};
}

TEST(SegmentGuardDeathTest, WhatIsNotGuardedEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Slot slot;
  EXPECT_DEATH(touch(take_page_away(nullptr)), "");
}

TEST(SegmentGuardDeathTest, ASignalThatIsNoFaultEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const Slot slot;
  EXPECT_DEATH(
      {
        ::raise(SIGBUS);
        ::_exit(0);
      },
      "");
}

TEST(SegmentGuardDeathTest, AnEarlierHandlerGetsWhatIsNotGuarded) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        ::signal(SIGBUS, [](int) { ::_exit(42); });
        const Slot slot;
        touch(take_page_away(nullptr));
      },
      ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace mtl::phy
