#pragma once

#include <memory>
#include <vector>

#include "base/buffer.h"

namespace mtl {

/// A pool in ordinary memory, all of it allocated by the constructor: for the simulator, the
/// replayer, and endpoints that have no Ethernet device. Last in, first out, so that few buffers
/// stay warm. One thread.
class HeapPool final : public BufferPool {
 public:
  /// `count` buffers that hold `room` bytes each (behind kHeadroom).
  HeapPool(std::uint32_t count, std::uint32_t room);
  Buffer* take() override;
  void give(Buffer* buffer) override;
  bool exclusive(const Buffer&) const override { return true; }
  std::uint32_t room() const override { return room_; }
  std::uint32_t available() const override { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(buffers_.size()); }

 private:
  std::uint32_t room_;
  std::uint32_t stride_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<Buffer> buffers_;
  std::vector<Buffer*> free_;
};

}  // namespace mtl
