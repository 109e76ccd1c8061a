// Records in the order of their times, as far as memory and reach go.

#include "conformance/time_sorter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace mtl::conformance {
namespace {

using std::chrono::milliseconds;

class Sorted : public testing::Test {
 protected:
  void push(Duration at, std::size_t size = 1) {
    const std::vector<std::byte> bytes(size, static_cast<std::byte>(next_));
    CaptureRecord record;
    record.number = next_++;
    record.at = Time{at};
    record.bytes = bytes;
    record.length = size;
    sorter_.push(record, [&](const CaptureRecord& r) { take(r); });
  }
  void take(const CaptureRecord& record) {
    numbers_.push_back(record.number);
    if (record.bytes.empty()) return;
    EXPECT_EQ(record.bytes.front(), static_cast<std::byte>(record.number));
    EXPECT_EQ(record.bytes.back(), static_cast<std::byte>(record.number));
  }
  std::vector<std::uint64_t> finish() {
    sorter_.finish([&](const CaptureRecord& r) { take(r); });
    return numbers_;
  }

  TimeSorter sorter_;
  std::vector<std::uint64_t> numbers_;
  std::uint64_t next_ = 1;
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(Sorted, ByTimeThenByNumber) {
  push(milliseconds(30));
  push(milliseconds(10));
  push(milliseconds(20));
  push(milliseconds(10));
  EXPECT_TRUE(numbers_.empty());
  EXPECT_EQ(finish(), (Numbers{2, 4, 3, 1}));
  EXPECT_EQ(sorter_.unsorted(), 0U);
}

TEST_F(Sorted, WhatNothingCanOvertakeIsGiven) {
  push(milliseconds(0));
  push(milliseconds(900));
  push(milliseconds(1000));
  EXPECT_TRUE(numbers_.empty());
  push(milliseconds(1001));
  EXPECT_EQ(numbers_, (Numbers{1}));
  push(milliseconds(500));
  EXPECT_EQ(finish(), (Numbers{1, 5, 2, 3, 4}));
}

TEST_F(Sorted, WhatComesTooLateIsCountedAndGivenAtOnce) {
  push(milliseconds(5000));
  push(milliseconds(7000));
  EXPECT_EQ(numbers_, (Numbers{1}));
  push(milliseconds(4000));
  EXPECT_EQ(numbers_, (Numbers{1, 3}));
  EXPECT_EQ(sorter_.unsorted(), 1U);
}

// Buffers that were grown for long records serve short ones: what counts is what they take.
TEST_F(Sorted, BoundsWhatBuffersTake) {
  constexpr std::size_t kLong = TimeSorter::kMostBytes / 16;
  Duration at{0};
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 40; ++i) push(at += milliseconds(1), i == round ? kLong : 10);
    push(at += milliseconds(2000), 10);  // all before it are given, their buffers spare
    EXPECT_LE(sorter_.memory(), TimeSorter::kMostBytes);
  }
  for (int i = 0; i < 100; ++i) push(at += milliseconds(1), kLong);
  EXPECT_LE(sorter_.memory(), TimeSorter::kMostBytes);
  EXPECT_GE(sorter_.memory(), TimeSorter::kMostBytes - kLong);
}

TEST_F(Sorted, BeginsAnewWhenAllIsGiven) {
  push(milliseconds(5000));
  finish();
  push(milliseconds(2000));
  push(milliseconds(1000));
  EXPECT_EQ(finish(), (Numbers{1, 3, 2}));
  EXPECT_EQ(sorter_.unsorted(), 0U);
}

TEST_F(Sorted, HoldsNoMoreThanItsBounds) {
  for (std::size_t i = 0; i <= TimeSorter::kMostRecords; ++i) push(Duration{0}, 0);
  EXPECT_EQ(numbers_.size(), 1U);
  finish();
  numbers_.clear();
  const std::size_t size = TimeSorter::kMostBytes / 4;
  for (int i = 0; i < 4; ++i) push(Duration{0}, size);
  EXPECT_TRUE(numbers_.empty());
  push(Duration{0}, 1);
  EXPECT_EQ(numbers_.size(), 1U);
}

}  // namespace
}  // namespace mtl::conformance
