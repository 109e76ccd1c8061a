#include "transport/packet_slot.h"

#include <cstring>

#include "transport/operation.h"

namespace mtl::transport {

void PacketSlot::write_body(std::byte* out) const {
  const std::byte* from = image().data();
  std::size_t copied = 0;
  for (std::size_t i = 0; i < externals_used; ++i) {
    const External& e = externals[i];
    std::memcpy(out, from + copied, e.at - copied);
    out += e.at - copied;
    copied = e.at;
    std::memcpy(out, e.data, e.length);
    std::memset(out + e.length, 0, padded(e.length) - e.length);
    out += padded(e.length);
  }
  std::memcpy(out, from + copied, image_size - copied);
}

PacketPool::PacketPool(std::uint32_t slots, std::uint32_t blocks)
    : slots_(slots), block_memory_(new std::byte[std::size_t{blocks} * PacketSlot::kBlock]) {
  free_.reserve(slots);
  for (std::size_t i = slots; i != 0; --i) free_.push_back(&slots_[i - 1]);
  free_blocks_.reserve(blocks);
  for (std::size_t i = blocks; i != 0; --i) {
    free_blocks_.push_back(block_memory_.get() + (i - 1) * PacketSlot::kBlock);
  }
}

PacketSlot* PacketPool::take() {
  if (free_.empty()) return nullptr;
  PacketSlot* slot = free_.back();
  free_.pop_back();
  slot->image_size = 0;
  slot->body_size = 0;
  slot->externals_used = 0;
  slot->unordered = false;
  slot->owner = 0;
  slot->guard = 0;
  slot->times = 0;
  slot->acknowledged = false;
  slot->overdue = false;
  slot->asked = false;
  return slot;
}

bool PacketPool::add_block(PacketSlot& slot) {
  if (slot.block != nullptr) return true;
  if (free_blocks_.empty()) return false;
  slot.block = free_blocks_.back();
  free_blocks_.pop_back();
  return true;
}

void PacketPool::give(PacketSlot* slot) {
  if (slot->block != nullptr) free_blocks_.push_back(slot->block);
  slot->block = nullptr;
  slot->operations = 0;
  free_.push_back(slot);
}

void SlotList::append(PacketSlot& slot) {
  slot.before = last_;
  slot.after = nullptr;
  (last_ == nullptr ? first_ : last_->after) = &slot;
  last_ = &slot;
  ++size_;
}

void SlotList::remove(PacketSlot& slot) {
  (slot.before == nullptr ? first_ : slot.before->after) = slot.after;
  (slot.after == nullptr ? last_ : slot.after->before) = slot.before;
  --size_;
}

}  // namespace mtl::transport
