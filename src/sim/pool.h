#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/buffer.h"

namespace mtl::sim {

/// Who wants to know what goes back to a pool.
class PoolWatcher {
 public:
  /// `buffer` is about to be free; its content still stands.
  virtual void given(const Buffer& buffer) = 0;
  /// A buffer was given twice, or one that is not of this pool.
  virtual void misgiven(const Buffer& buffer) = 0;

 protected:
  ~PoolWatcher() = default;
};

/// A bounded pool that knows what is out: a buffer given back twice is noticed, one that never
/// comes back is found, and the memory of a free one is spoilt so that who still reads it is found
/// out.
class CheckedPool final : public BufferPool {
 public:
  /// `count` buffers of `room` bytes behind kHeadroom. `watcher` may be nullptr.
  CheckedPool(std::uint32_t count, std::uint32_t room, PoolWatcher* watcher);

  Buffer* take() override;
  void give(Buffer* buffer) override;
  bool exclusive(const Buffer&) const override { return true; }
  std::uint32_t room() const override { return room_; }
  std::uint32_t available() const override { return static_cast<std::uint32_t>(free_.size()); }

  std::uint32_t size() const { return static_cast<std::uint32_t>(buffers_.size()); }
  std::uint32_t in_use() const { return size() - available(); }
  /// Calls visit(const Buffer&) for each buffer that is out, in a fixed order.
  template <class Visit>
  void for_each_in_use(Visit&& visit) const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      if (out_[i]) visit(buffers_[i]);
    }
  }

 private:
  std::uint32_t room_;
  std::size_t stride_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<Buffer> buffers_;
  std::vector<bool> out_;
  std::vector<Buffer*> free_;
  PoolWatcher* watcher_;
};

/// Memory of the frames on the wires: it grows as they need, in slabs that never move. The wires
/// are the simulator's world, not part of what is tested, so they have no bound of their own.
class WirePool final : public BufferPool {
 public:
  /// Buffers of `room` bytes behind kHeadroom.
  explicit WirePool(std::uint32_t room);

  Buffer* take() override;
  void give(Buffer* buffer) override;
  bool exclusive(const Buffer&) const override { return true; }
  std::uint32_t room() const override { return room_; }
  std::uint32_t available() const override { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t in_use() const {
    return static_cast<std::uint32_t>(slabs_.size()) * kSlab - available();
  }

 private:
  static constexpr std::uint32_t kSlab = 32;
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<Buffer[]> buffers;
  };
  void grow();

  std::uint32_t room_;
  std::size_t stride_;
  std::vector<Slab> slabs_;
  std::vector<Buffer*> free_;
};

}  // namespace mtl::sim
