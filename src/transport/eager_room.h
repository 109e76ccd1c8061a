#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "transport/message_records.h"

namespace mtl::transport {

/// Room for the data of eager messages that have come before their receive (T34), in blocks, of all
/// connections. Allocated by the constructor. One thread.
class EagerRoom {
 public:
  static constexpr std::size_t kBlock = 512;

  EagerRoom(std::size_t bytes, std::uint32_t connections);

  /// Room for all of the message's data; false: there is none. A connection gets no more than it
  /// leaves to the others, and all those of a node, ended ones included, no more than three times
  /// what they leave.
  bool reserve(Message& message);
  /// The message outlives its connection: its room is its node's alone from here on.
  void detach(const Message& message) { taken_[message.connection.index] -= message.blocks; }
  /// Appends what follows in the message, which has room for it.
  void append(Message& message, std::span<const std::byte> data);
  /// The first bytes that came, as many as `to` takes. Returns how many.
  std::uint32_t read(const Message& message, std::span<std::byte> to) const;
  /// Gives its room back, if it has any.
  void release(Message& message);

  std::size_t free_blocks() const { return free_count_; }

 private:
  static constexpr std::uint32_t kNone = Message::kNone;

  std::byte* block(std::uint32_t index) const { return memory_.get() + index * kBlock; }

  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::uint32_t> next_;  ///< of a message's blocks, or of the free ones
  std::uint32_t free_ = kNone;
  std::uint32_t free_count_ = 0;
  std::vector<std::uint32_t> taken_;          ///< blocks, by connection
  std::vector<std::uint32_t> taken_by_node_;  ///< of its connections, and those that ended
};

}  // namespace mtl::transport
