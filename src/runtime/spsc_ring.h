#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace mtl::runtime {

/// A ring between exactly one producing and one consuming thread, without a lock. The size is a
/// power of two, fixed by the constructor; nothing is allocated later. Each side keeps a copy of
/// the other's index and reads the shared one only when the copy says "full" or "empty", so that in
/// steady state the two threads do not take each other's cache line with every item.
///
/// It never drops by itself: push() on a full ring says so. Rings between shards are made as large
/// as what can ever be in them (all buffers of the pool), so there push() cannot fail.
template <class T>
class SpscRing {
 public:
  /// Room for at least `items`, rounded up to a power of two (at least 2).
  explicit SpscRing(std::size_t items)
      : size_(std::bit_ceil(items < 2 ? std::size_t{2} : items)), items_(new T[size_]) {}
  SpscRing(const SpscRing&) = delete;
  SpscRing& operator=(const SpscRing&) = delete;

  std::size_t capacity() const { return size_; }

  /// Producer: false if the ring is full; `item` is then left as it was.
  bool push(T item) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_seen_ == size_) {
      head_seen_ = head_.load(std::memory_order_acquire);
      if (tail - head_seen_ == size_) return false;
    }
    items_[tail & (size_ - 1)] = std::move(item);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// Consumer: false if the ring is empty.
  bool pop(T& out) {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_seen_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head == tail_seen_) return false;
    }
    out = std::move(items_[head & (size_ - 1)]);
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  /// Whether nothing is in it; certain on the consumer's thread only until the producer pushes.
  bool empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }

  /// Items in it; exact while neither side moves.
  std::size_t size() const {
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_acquire);
  }

 private:
  static constexpr std::size_t kLine = 64;

  const std::size_t size_;
  const std::unique_ptr<T[]> items_;
  alignas(kLine) std::atomic<std::size_t> head_{0};  ///< written by the consumer
  std::size_t tail_seen_ = 0;                        ///< the consumer's copy of tail_
  alignas(kLine) std::atomic<std::size_t> tail_{0};  ///< written by the producer
  std::size_t head_seen_ = 0;                        ///< the producer's copy of head_
};

}  // namespace mtl::runtime
