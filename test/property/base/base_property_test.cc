#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <cstring>
#include <deque>
#include <vector>

#include "base/byte_order.h"
#include "base/copy.h"
#include "base/crc32c.h"
#include "base/heap_pool.h"
#include "base/serial.h"

namespace mtl {
namespace {

using Bytes = std::vector<std::uint8_t>;

// Up to 3,000 bytes: short enough for the instruction, long enough for ISA-L.
Bytes draw_bytes() {
  return *rc::gen::resize(3000, rc::gen::arbitrary<Bytes>());
}

std::span<const std::byte> view(const Bytes& bytes) {
  return std::as_bytes(std::span(bytes));
}

TEST(CrcProperty, AllWaysAgreeAndAnyCutDoes) {
  EXPECT_TRUE(rc::check([] {
    const Bytes bytes = draw_bytes();
    const auto all = view(bytes);
    const auto cut = *rc::gen::inRange<std::size_t>(0, all.size() + 1);
    const std::uint32_t crc = crc32c_portable(all);
    RC_ASSERT(crc32c(all) == crc);
    RC_ASSERT(crc32c_short(all.first(cut), all.subspan(cut)) == crc);
  }));
}

// What makes it a CRC: the difference of two messages of one length decides the difference of the
// CRCs, so one flipped bit never goes unseen (L3, L12 rely on it).
TEST(CrcProperty, IsLinear) {
  EXPECT_TRUE(rc::check([] {
    const Bytes a = draw_bytes();
    const auto b = *rc::gen::container<Bytes>(a.size(), rc::gen::arbitrary<std::uint8_t>());
    Bytes both(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) both[i] = a[i] ^ b[i];
    const Bytes zeros(a.size());
    RC_ASSERT((crc32c(view(a)) ^ crc32c(view(b)) ^ crc32c(view(zeros))) == crc32c(view(both)));
  }));
}

TEST(CrcProperty, EveryFlippedBitShows) {
  EXPECT_TRUE(rc::check([] {
    Bytes bytes = draw_bytes();
    RC_PRE(!bytes.empty());
    const std::uint32_t before = crc32c(view(bytes));
    const auto bit = *rc::gen::inRange<std::size_t>(0, bytes.size() * 8);
    bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] ^ (1u << (bit % 8)));
    RC_ASSERT(crc32c(view(bytes)) != before);
  }));
}

TEST(SerialProperty, SteppingForwardKeepsDistanceAndOrder) {
  EXPECT_TRUE(rc::check([](std::uint16_t start, std::uint16_t step) {
    const Seq from(start);
    const Seq to = from + step;
    RC_ASSERT(to.since(from) == step);
    RC_ASSERT(from.before(to) == (step != 0 && step < 0x8000));
    RC_ASSERT(to.in_window(from, static_cast<std::uint16_t>(step + 1)) == (step != 0xFFFF));
    RC_ASSERT(!to.in_window(from, step));
    RC_ASSERT(!(from.before(to) && to.before(from)));
  }));
}

TEST(ByteOrderProperty, LoadGivesWhatStoreTook) {
  EXPECT_TRUE(rc::check([](std::uint64_t value) {
    std::byte bytes[8];
    store64(bytes, value);
    RC_ASSERT(load64(bytes) == value);
    RC_ASSERT(load32(bytes) == value >> 32);
    RC_ASSERT(load16(bytes + 6) == (value & 0xFFFF));
    RC_ASSERT(load8(bytes + 7) == (value & 0xFF));
  }));
}

// Of any length, and nothing else is written.
TEST(CopyProperty, CopyShortDoesAsMemcpy) {
  const std::vector<std::byte> from = [] {
    std::vector<std::byte> bytes(300);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
    return bytes;
  }();
  for (std::size_t length = 0; length <= 200; ++length) {
    std::vector<std::byte> expected(300, std::byte{0xEE}), to = expected;
    std::memcpy(expected.data() + 16, from.data() + 3, length);
    copy_short(to.data() + 16, from.data() + 3, length);
    EXPECT_EQ(to, expected) << length;
  }
}

// A queue over a pool, against std::deque: no buffer is lost, doubled or out of order.
TEST(BufferQueueProperty, BehavesAsADequeOverAFinitePool) {
  EXPECT_TRUE(rc::check([](const std::vector<bool>& takes) {
    HeapPool pool(8, 64);
    BufferQueue queue;
    std::deque<Buffer*> model;
    for (const bool take : takes) {
      if (take) {
        Buffer* buffer = pool.take();
        RC_ASSERT((buffer == nullptr) == (model.size() == 8));
        if (buffer == nullptr) continue;
        queue.push(buffer);
        model.push_back(buffer);
      } else if (!model.empty()) {
        RC_ASSERT(queue.front() == model.front());
        RC_ASSERT(queue.pop() == model.front());
        give_back(model.front());
        model.pop_front();
      }
      RC_ASSERT(queue.size() == model.size());
      RC_ASSERT(queue.empty() == model.empty());
      RC_ASSERT(pool.available() + queue.size() == 8);
    }
  }));
}

}  // namespace
}  // namespace mtl
