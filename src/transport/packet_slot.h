#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "transport/ids.h"

namespace mtl::transport {

/// Data of an operation that stays where it is until the packet is made: what an application sends
/// goes from its memory into the frame without a copy between.
struct External {
  const std::byte* data = nullptr;
  std::uint16_t length = 0;
  std::uint16_t at = 0;  ///< in the image: it stands before this byte of it
};

/// A DATA from its making until its flow's ack has passed it (T11): what it holds, so that it can
/// be sent again as it was, and how it fares. The body is the image with the externals between.
struct PacketSlot {
  static constexpr std::size_t kInlineImage = 96;
  static constexpr std::size_t kBlock = 4096;
  static constexpr std::size_t kMaxExternals = 4;

  std::byte* block = nullptr;  ///< the image, if it does not lie in `inline_image`
  std::uint16_t image_size = 0;
  std::uint16_t body_size = 0;  ///< externals included
  std::uint8_t operations = 0;
  std::uint8_t externals_used = 0;
  bool unordered = false;  ///< T15
  std::array<External, kMaxExternals> externals;
  std::uint32_t owner = 0;  ///< the layer of operations' own: what it keeps for this packet
  std::uint32_t guard = 0;  ///< its too: what must still be given for the externals to be read

  // Of delivery.
  Psn psn{};
  std::uint16_t entropy = 0;
  std::uint16_t times = 0;  ///< sent so often
  bool acknowledged = false;
  bool overdue = false;
  bool asked = false;       ///< sent with ASK, at least once (T18)
  std::uint64_t order = 0;  ///< of the last sending, among all of its flow
  Time first_sent{};
  Time sent{};  ///< last

  PacketSlot* before = nullptr;  ///< in flight, or overdue: list in the order of sending
  PacketSlot* after = nullptr;

  std::array<std::byte, kInlineImage> inline_image;

  /// Where heads and copied data are written.
  std::span<std::byte> image_space() {
    return block != nullptr ? std::span<std::byte>(block, kBlock)
                            : std::span<std::byte>(inline_image);
  }
  std::span<const std::byte> image() const {
    return {block != nullptr ? block : inline_image.data(), image_size};
  }
  /// Adds `data` behind the image as it stands; there must be one left.
  void add_external(std::span<const std::byte> data) {
    assert(externals_used < kMaxExternals);
    externals[externals_used++] = {data.data(), static_cast<std::uint16_t>(data.size()),
                                   image_size};
  }
  /// Writes the body, body_size bytes.
  void write_body(std::byte* out) const;
};

/// Slots, and blocks for the images of packets that hold much that is small. Allocated by the
/// constructor. One thread.
class PacketPool {
 public:
  PacketPool(std::uint32_t slots, std::uint32_t blocks);

  /// A fresh slot, nullptr when none is left.
  PacketSlot* take();
  /// Gives the slot a block for its image, which is still empty; false when none is left.
  bool add_block(PacketSlot& slot);
  void give(PacketSlot* slot);
  std::size_t available() const { return free_.size(); }
  /// All slots, in use or not; those not in use hold nothing (operations is 0).
  std::span<PacketSlot> slots() { return slots_; }

 private:
  std::vector<PacketSlot> slots_;
  std::vector<PacketSlot*> free_;
  std::unique_ptr<std::byte[]> block_memory_;
  std::vector<std::byte*> free_blocks_;
};

/// A list through PacketSlot::before and after; a slot is on one at most.
class SlotList {
 public:
  bool empty() const { return first_ == nullptr; }
  std::uint32_t size() const { return size_; }
  PacketSlot* first() const { return first_; }
  void append(PacketSlot& slot);
  void remove(PacketSlot& slot);

 private:
  PacketSlot* first_ = nullptr;
  PacketSlot* last_ = nullptr;
  std::uint32_t size_ = 0;
};

}  // namespace mtl::transport
