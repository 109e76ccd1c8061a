#pragma once

#include <atomic>
#include <cstdint>

namespace mtl {

/// A counter with one writer and any readers. An increment is a plain load and store (no locked
/// instruction); readers on other threads see a recent value, never a torn one. A copy is a
/// reading: so a struct of counters is read by copying it, and all its values are of one moment if
/// the writer's thread copies.
class Counter {
 public:
  Counter() = default;
  Counter(const Counter& other) : value_(other.get()) {}
  Counter& operator=(const Counter& other) {
    value_.store(other.get(), std::memory_order_relaxed);
    return *this;
  }
  void add(std::uint64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace mtl
