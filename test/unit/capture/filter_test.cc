#include "capture/filter.h"

#include <gtest/gtest.h>

#include <array>

namespace mtl::capture {
namespace {

/// The bytes that a filter looks at, by the protocol page: EtherType in bytes 12 and 13, version
/// and kind in byte 14 of the frame, vc in the upper half of byte 22, dst in bytes 34 and 35, src
/// in 36 and 37.
std::array<std::byte, 60> frame(unsigned kind, unsigned vc = 0, unsigned dst = 0,
                                unsigned src = 0) {
  std::array<std::byte, 60> bytes{};
  bytes[12] = std::byte{0x88};
  bytes[13] = std::byte{0xB5};
  bytes[14] = static_cast<std::byte>(0x10 | kind);
  bytes[22] = static_cast<std::byte>(vc << 4 | 15);
  bytes[34] = static_cast<std::byte>(dst >> 8);
  bytes[35] = static_cast<std::byte>(dst);
  bytes[36] = static_cast<std::byte>(src >> 8);
  bytes[37] = static_cast<std::byte>(src);
  return bytes;
}
constexpr std::uint16_t kType = 0x88B5;  // P1
constexpr unsigned kData = 0;
constexpr unsigned kStatus = 1;
constexpr unsigned kNack = 2;
constexpr unsigned kClose = 4;

TEST(Filter, PassesAllUnlessToldOtherwise) {
  const Filter filter;
  EXPECT_TRUE(filter.wants(Direction::kIn));
  EXPECT_TRUE(filter.wants(Direction::kOut));
  for (const unsigned kind : {kData, kStatus, kClose, 9U}) {
    EXPECT_TRUE(filter.passes(frame(kind, 12), kType));
  }
  EXPECT_TRUE(filter.passes({}, kType));
}

TEST(Filter, TellsDirectionsApart) {
  Filter filter;
  filter.out = false;
  EXPECT_TRUE(filter.wants(Direction::kIn));
  EXPECT_FALSE(filter.wants(Direction::kOut));
}

TEST(Filter, TellsKindsApart) {
  Filter filter;
  filter.by_kind = true;
  filter.kinds = 1U << kData | 1U << kNack;
  EXPECT_TRUE(filter.passes(frame(kData), kType));
  EXPECT_TRUE(filter.passes(frame(kNack), kType));
  EXPECT_FALSE(filter.passes(frame(kStatus), kType));
  EXPECT_FALSE(filter.passes(frame(kClose), kType));
  EXPECT_FALSE(filter.passes(frame(5), kType));
  EXPECT_FALSE(filter.passes(frame(15), kType));
}

TEST(Filter, VcsAndNodesAreOfDataAlone) {
  Filter filter;
  filter.by_vc = true;
  filter.vcs = 1U << 4 | 1U << 5;
  EXPECT_TRUE(filter.passes(frame(kData, 4), kType));
  EXPECT_TRUE(filter.passes(frame(kData, 5), kType));
  EXPECT_FALSE(filter.passes(frame(kData, 0), kType));
  EXPECT_FALSE(filter.passes(frame(kData, 12), kType));
  EXPECT_FALSE(filter.passes(frame(kStatus, 4), kType));
  filter = {};
  filter.node = NodeId{0x1234};
  EXPECT_TRUE(filter.passes(frame(kData, 0, 0x1234, 7), kType));
  EXPECT_TRUE(filter.passes(frame(kData, 0, 7, 0x1234), kType));
  EXPECT_FALSE(filter.passes(frame(kData, 0, 7, 8), kType));
  EXPECT_FALSE(filter.passes(frame(kStatus, 0, 0x1234, 7), kType));
}

// Who names all of them asks for something still: frames of no kind are none of these.
TEST(Filter, AllKindsAndAllVcsNamedAreStillAsked) {
  Filter filter;
  filter.by_kind = true;
  filter.kinds = 0x1F;
  for (unsigned kind = 0; kind < 5; ++kind) EXPECT_TRUE(filter.passes(frame(kind), kType)) << kind;
  EXPECT_FALSE(filter.passes(frame(5), kType));
  EXPECT_FALSE(filter.passes({}, kType));
  filter = {};
  filter.by_vc = true;
  filter.vcs = 0xFF;
  EXPECT_TRUE(filter.passes(frame(kData, 7), kType));
  EXPECT_FALSE(filter.passes(frame(kData, 8), kType));
  EXPECT_FALSE(filter.passes(frame(kStatus, 0), kType));
}

// Byte 14 of an ARP frame is 0 and of an IPv6 one 0x60: neither is a DATA.
TEST(Filter, AnotherEtherTypeHasNoKind) {
  Filter filter;
  EXPECT_TRUE(filter.passes(frame(kData), 0x1234));
  filter.by_kind = true;
  filter.kinds = 1U << kData;
  EXPECT_TRUE(filter.passes(frame(kData), kType));
  EXPECT_FALSE(filter.passes(frame(kData), 0x1234));
  filter = {};
  filter.node = NodeId{7};
  EXPECT_TRUE(filter.passes(frame(kData, 0, 7), kType));
  EXPECT_FALSE(filter.passes(frame(kData, 0, 7), 0x1234));
}

TEST(Filter, WhatIsTooShortToTellDoesNotPass) {
  Filter filter;
  filter.node = NodeId{7};
  const auto whole = frame(kData, 0, 7, 8);
  EXPECT_TRUE(filter.passes(std::span(whole).first(42), kType));
  EXPECT_FALSE(filter.passes(std::span(whole).first(41), kType));
  filter = {};
  filter.by_kind = true;
  filter.kinds = 1U << kData;
  EXPECT_TRUE(filter.passes(std::span(whole).first(30), kType));
  EXPECT_FALSE(filter.passes(std::span(whole).first(29), kType));
  EXPECT_FALSE(filter.passes({}, kType));
}

}  // namespace
}  // namespace mtl::capture
