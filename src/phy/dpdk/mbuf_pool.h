#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/result.h"

struct rte_mbuf;
struct rte_mempool;

namespace mtl::phy {

struct MbufPoolConfig {
  std::uint32_t count = 1023;  ///< buffers that can be taken at the same time
  std::uint32_t room = 2048;   ///< bytes of each behind its headroom, at most kMaxMbufRoom
  std::uint32_t threads = 1;   ///< worker threads that take from it or give to it
  /// Its buffers lie in memory of their own, which is given back with the pool, rather than in
  /// Eal's, which without huge pages does not grow. No NIC can reach them.
  bool apart = false;
};

/// DPDK's bound: lengths within an mbuf are 16 bits wide, its headroom included.
inline constexpr std::uint32_t kMaxMbufRoom = 65535 - 128;

/// A pool of DPDK mbufs. The core's Buffer lies in the mbuf's private area, so that a frame that a
/// device delivers becomes a Buffer without a copy or an allocation.
///
/// take(): any thread; fast on EAL workers and the control thread (each has a cache). give():
/// likewise, also for buffers that another worker took. A buffer given back while a device still
/// reads it becomes free when the device is done.
class MbufPool final : public BufferPool {
 public:
  /// Needs a started Eal. Errors: room out of range; not enough memory, naming how much is needed.
  static Result<std::unique_ptr<MbufPool>> create(const MbufPoolConfig& config);
  /// Bytes of EAL memory that create() needs, for EalConfig::memory_mib (add up the pools).
  static std::uint64_t memory(const MbufPoolConfig& config);
  /// How many buffers create() makes.
  static std::uint32_t size(const MbufPoolConfig& config);
  /// Free buffers that no thread keeps for itself, and those that the calling one does. Where
  /// nobody takes any more, the pool may go if in_common(), and after it the sum of what each
  /// thread says of itself, make size(): a buffer goes from a thread to the common ones, never
  /// back, so none is counted twice, and a thread is in no call of the pool while it counts.
  std::uint32_t in_common() const;
  std::uint32_t kept_by_me() const;
  /// Every buffer must be back, and every port that receives into the pool closed.
  ~MbufPool() override;
  MbufPool(const MbufPool&) = delete;
  MbufPool& operator=(const MbufPool&) = delete;

  Buffer* take() override;
  void give(Buffer* buffer) override;
  std::size_t take_burst(std::span<Buffer*> out) override;
  void give_burst(std::span<Buffer* const> buffers) override;
  bool exclusive(const Buffer& buffer) const override;
  std::uint32_t room() const override { return room_; }
  /// What the calling thread can take now; what lies in other threads' caches does not count.
  std::uint32_t available() const override;

  /// Buffers in all, those for the threads' caches included.
  std::uint32_t size() const { return size_; }
  /// Buffers that are free, wherever they lie. Slow, and only about right while they are in use:
  /// for tests and for show.
  std::uint32_t free_buffers() const;

  /// Makes the Buffer of a single-segment mbuf of this pool: its bytes are the mbuf's data.
  Buffer* adopt(rte_mbuf* mbuf);
  /// The mbuf of a buffer of any MbufPool.
  static rte_mbuf* mbuf(const Buffer& buffer);
  /// Whether mbuf() may be asked for this buffer.
  static bool holds(const Buffer& buffer);
  rte_mempool* mempool() const { return mempool_; }

 private:
  Buffer* fresh(rte_mbuf* mbuf, std::byte* data, std::uint32_t length, std::uint32_t headroom,
                std::uint32_t tailroom);
  Buffer* fresh_empty(rte_mbuf* mbuf);
  MbufPool(rte_mempool* mempool, std::uint32_t room, std::uint32_t size)
      : mempool_(mempool), room_(room), size_(size) {}
  rte_mempool* mempool_;
  std::uint32_t room_;
  std::uint32_t size_;
};

}  // namespace mtl::phy
