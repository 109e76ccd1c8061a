#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "transport/operation.h"
#include "transport/operations.h"
#include "transport/packet_slot.h"

namespace mtl::transport {

/// A packet that is being filled.
struct Operations::Packing {
  /// Data up to this long is copied into the image rather than left where it is: that is cheaper.
  static constexpr std::size_t kCopied = 64;
  /// Segments of an operation begin at multiples of this from its start.
  static constexpr std::size_t kSegmentUnit = 8;

  Packing(PacketSlot& into, std::size_t body_room)
      : slot(into), writer(into.image_space()), room(body_room) {}
  std::size_t left() const { return room - slot.body_size; }
  /// Whether all of `operation` goes into what is left.
  bool takes(const Operation& operation) const {
    return operation.data.size() <= kMaxLength &&
           head_size(operation) + padded(operation.data.size()) <= left();
  }
  /// Bytes of data of a segment that fills what is left behind the head of `operation`.
  std::size_t segment(const Operation& operation) const {
    const std::size_t behind = left() - std::min(left(), head_size(operation));
    return std::min(behind, kMaxLength) / kSegmentUnit * kSegmentUnit;
  }

  /// Puts `operation`; false: it does not fit.
  bool put(const Operation& operation) {
    const std::span<const std::byte> data = operation.data;
    const std::size_t head = head_size(operation);
    const std::size_t whole = padded(data.size());
    if (head + whole > left() || head > writer.left()) return false;
    const bool fits = head + whole <= writer.left();
    const bool copy =
        fits && (data.size() <= kCopied || slot.externals_used == PacketSlot::kMaxExternals);
    if (!copy && slot.externals_used == PacketSlot::kMaxExternals) return false;
    writer.put_head(operation);
    if (copy) writer.put_data(data);
    slot.image_size = static_cast<std::uint16_t>(writer.size());
    if (!copy) slot.add_external(data);
    slot.body_size = static_cast<std::uint16_t>(slot.body_size + head + whole);
    ++slot.operations;
    return true;
  }

  PacketSlot& slot;
  OperationWriter writer;
  std::size_t room;
};

}  // namespace mtl::transport
