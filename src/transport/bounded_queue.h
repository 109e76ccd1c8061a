#pragma once

#include <cassert>
#include <cstddef>
#include <vector>

namespace mtl::transport {

/// First in, first out, of at most as many as the constructor allocates for. One thread.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t most) : ring_(most) {}
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == ring_.size(); }
  std::size_t size() const { return size_; }
  /// Not when it is full.
  void push(const T& value) {
    assert(!full());
    ring_[(head_ + size_++) % ring_.size()] = value;
  }
  /// Not when it is empty.
  T pop() {
    assert(!empty());
    const T value = ring_[head_];
    head_ = (head_ + 1) % ring_.size();
    --size_;
    return value;
  }

 private:
  std::vector<T> ring_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace mtl::transport
