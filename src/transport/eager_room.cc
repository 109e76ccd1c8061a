#include "transport/eager_room.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace mtl::transport {

EagerRoom::EagerRoom(std::size_t bytes, std::uint32_t connections)
    : memory_(new std::byte[bytes / kBlock * kBlock]),
      next_(bytes / kBlock),
      free_count_(static_cast<std::uint32_t>(next_.size())),
      taken_(connections),
      taken_by_node_(std::size_t{kMaxNode} + 1) {
  for (std::uint32_t i = free_count_; i != 0; --i) {
    next_[i - 1] = free_;
    free_ = i - 1;
  }
}

bool EagerRoom::reserve(Message& m) {
  const auto blocks = static_cast<std::uint32_t>((std::uint64_t{m.total} + kBlock - 1) / kBlock);
  if (blocks == 0) return true;
  std::uint32_t& taken = taken_[m.connection.index];
  std::uint32_t& taken_by_node = taken_by_node_[m.peer.node.value()];
  if (taken + blocks > free_count_) return false;
  if (taken_by_node + blocks > 3 * std::uint64_t{free_count_}) return false;
  taken += blocks;
  taken_by_node += blocks;
  m.blocks = blocks;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const std::uint32_t index = free_;
    free_ = next_[index];
    next_[index] = m.first_block;
    m.first_block = index;
  }
  free_count_ -= blocks;
  m.last_block = m.first_block;
  return true;
}

void EagerRoom::append(Message& m, std::span<const std::byte> data) {
  assert(m.got + data.size() <= m.blocks * kBlock);
  std::size_t at = m.got % kBlock;
  if (at == 0 && m.got != 0 && !data.empty()) m.last_block = next_[m.last_block];
  while (!data.empty()) {
    const std::size_t size = std::min(data.size(), kBlock - at);
    std::memcpy(block(m.last_block) + at, data.data(), size);
    data = data.subspan(size);
    at = 0;
    if (!data.empty()) m.last_block = next_[m.last_block];
  }
}

std::uint32_t EagerRoom::read(const Message& m, std::span<std::byte> to) const {
  to = to.first(std::min<std::size_t>(to.size(), m.got));
  const auto all = static_cast<std::uint32_t>(to.size());
  for (std::uint32_t index = m.first_block; !to.empty(); index = next_[index]) {
    const std::size_t size = std::min(to.size(), kBlock);
    std::memcpy(to.data(), block(index), size);
    to = to.subspan(size);
  }
  return all;
}

void EagerRoom::release(Message& m) {
  while (m.first_block != kNone) {
    const std::uint32_t index = m.first_block;
    m.first_block = next_[index];
    next_[index] = free_;
    free_ = index;
  }
  free_count_ += m.blocks;
  if (!m.outlives) taken_[m.connection.index] -= m.blocks;
  taken_by_node_[m.peer.node.value()] -= m.blocks;
  m.blocks = 0;
  m.last_block = kNone;
}

}  // namespace mtl::transport
