#include "sim/pool.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace mtl::sim {
namespace {

constexpr std::size_t stride_of(std::uint32_t room) {
  return (kHeadroom + room + 63) / 64 * 64;
}
// Enough to spoil every header and the number of a packet, little enough to cost nothing.
constexpr std::uint32_t kSpoilt = 96;

void refresh(Buffer& buffer, std::byte* memory, std::uint32_t room, BufferPool& pool) {
  buffer = Buffer{};
  buffer.data = memory + kHeadroom;
  buffer.headroom = kHeadroom;
  buffer.tailroom = room;
  buffer.pool = &pool;
}

}  // namespace

CheckedPool::CheckedPool(std::uint32_t count, std::uint32_t room, PoolWatcher* watcher)
    : room_(room),
      stride_(stride_of(room)),
      memory_(new std::byte[count * stride_]),
      buffers_(count),
      out_(count, false),
      watcher_(watcher) {
  free_.reserve(count);
  for (std::size_t i = count; i-- > 0;) free_.push_back(&buffers_[i]);
}

Buffer* CheckedPool::take() {
  if (free_.empty()) return nullptr;
  Buffer* buffer = free_.back();
  free_.pop_back();
  const auto index = static_cast<std::size_t>(buffer - buffers_.data());
  out_[index] = true;
  refresh(*buffer, memory_.get() + index * stride_, room_, *this);
  return buffer;
}

void CheckedPool::give(Buffer* buffer) {
  // std::less orders any two pointers: a buffer of another pool is what this looks for.
  const std::less<const Buffer*> before;
  const Buffer* first = buffers_.data();
  const bool ours = !before(buffer, first) && before(buffer, first + buffers_.size());
  const auto index = ours ? static_cast<std::size_t>(buffer - first) : 0;
  if (!ours || !out_[index]) {
    if (watcher_ != nullptr) watcher_->misgiven(*buffer);
    return;
  }
  if (watcher_ != nullptr) watcher_->given(*buffer);
  out_[index] = false;
  const std::size_t spoilt = std::min(kSpoilt, buffer->length);
  std::memset(buffer->data, 0xDB, spoilt);
  free_.push_back(buffer);
}

WirePool::WirePool(std::uint32_t room) : room_(room), stride_(stride_of(room)) {}

void WirePool::grow() {
  Slab slab{std::unique_ptr<std::byte[]>(new std::byte[kSlab * stride_]),
            std::make_unique<Buffer[]>(kSlab)};
  for (std::size_t i = kSlab; i-- > 0;) {
    Buffer& buffer = slab.buffers[i];
    refresh(buffer, slab.memory.get() + i * stride_, room_, *this);
    free_.push_back(&buffer);
  }
  slabs_.push_back(std::move(slab));
}

Buffer* WirePool::take() {
  if (free_.empty()) grow();
  Buffer* buffer = free_.back();
  free_.pop_back();
  return buffer;
}

void WirePool::give(Buffer* buffer) {
  // Where the data began is known from what stands before and behind it.
  std::byte* memory = buffer->data - buffer->headroom;
  refresh(*buffer, memory, room_, *this);
  free_.push_back(buffer);
}

}  // namespace mtl::sim
