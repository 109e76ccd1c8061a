#include "base/heap_pool.h"

namespace mtl {

HeapPool::HeapPool(std::uint32_t count, std::uint32_t room)
    : room_(room),
      stride_((kHeadroom + room + 63) / 64 * 64),
      memory_(new std::byte[std::size_t{count} * stride_]),
      buffers_(count) {
  free_.reserve(count);
  for (std::size_t i = count; i-- > 0;) free_.push_back(&buffers_[i]);
}

Buffer* HeapPool::take() {
  if (free_.empty()) return nullptr;
  Buffer* buffer = free_.back();
  free_.pop_back();
  const auto index = static_cast<std::size_t>(buffer - buffers_.data());
  *buffer = Buffer{};
  buffer->data = memory_.get() + index * stride_ + kHeadroom;
  buffer->headroom = kHeadroom;
  buffer->tailroom = room_;
  buffer->pool = this;
  return buffer;
}

void HeapPool::give(Buffer* buffer) {
  assert(buffer->pool == this && free_.size() < buffers_.size());
  free_.push_back(buffer);
}

}  // namespace mtl
