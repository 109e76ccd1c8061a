#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "phy/memif/memif_segment.h"
#include "phy/port.h"

namespace mtl::phy {

struct MemifPortConfig {
  std::string name;                ///< socket and id, for the operator
  std::uint32_t max_frame = 9230;  ///< longest frame either way, bytes
};

/// Why a port has given its peer up.
enum class MemifBreak : std::uint8_t {
  kNone,
  kIndex,       ///< an index went where it cannot
  kDescriptor,  ///< a descriptor points outside the memory
  kChain,       ///< a frame in several buffers has no end
  kBuffers,     ///< the buffers given for sending are too small for a longest frame
  kMemory,      ///< pages of the memory were taken away
  kBell,        ///< the kernel takes no further interrupt (fs.epoll.max_user_watches)
};
/// A sentence's part, with the remedy where there is one.
const char* text(MemifBreak reason);

/// The data path of one end of memif: frames in two rings of shared memory, in one buffer each or
/// chained over several.
///
/// The peer may die at any instruction or write anything anywhere into the memory at any time. So
/// nothing that it wrote is used before it is copied and checked; its index is read once a burst;
/// this side's own indices, and all sizes, are kept privately. A client uses its own knowledge of
/// where its buffers lie and looks at no offset in the memory. A peer that contradicts itself, or
/// takes memory away, is given up: Drop::kBrokenRing is counted once, nothing is read or sent any
/// more, there is no carrier, until the next install(). A frame that the peer changes while it is
/// being copied is a corrupted frame, which the link's CRCs catch (L3, L12).
///
/// Sleep. The reader of a ring masks its interrupt while it is awake. arm() takes the mask off and
/// then looks at the peer's index again, twice: memif asks no barrier of a sender between its index
/// and its look at the mask, so the second look gives the first one's racing store time to arrive.
/// Nobody tells a sender that there is room again: it polls (ShardLoop::has_bells).
///
/// Threads: one worker; install() too, but for counters and broken(), which are any thread's.
class MemifPort final : public Port {
 public:
  /// Without a peer: no memory, no carrier, nothing to receive, no room.
  /// @param pool where received frames go; its room() is at least max_frame; outlives the port
  static Result<std::unique_ptr<MemifPort>> create(const MemifPortConfig& config, BufferPool& pool);

  /// Takes what a connection has agreed on (nullptr: no connection any more) and gives back what it
  /// had, to be destroyed off the worker. traits().wake_fd stays the same throughout.
  std::unique_ptr<MemifSegment> install(std::unique_ptr<MemifSegment> segment);

  /// Why the peer of the day was given up. Any thread.
  MemifBreak broken() const { return broken_.load(std::memory_order_relaxed); }

  unsigned receive(std::span<Buffer*> out) override;
  unsigned room() override;
  bool send(const link::FrameOut& frame) override;
  void flush() override;
  bool carrier() override;
  bool arm() override;
  void disarm() override;

 private:
  /// One ring as this side goes through it.
  struct Course {
    MemifRingView ring;
    std::uint16_t next = 0;       ///< the next descriptor to use
    std::uint16_t published = 0;  ///< what the peer was told of it
  };
  /// What the peer's descriptor lets us touch; nullptr: nothing.
  struct Piece {
    std::byte* base = nullptr;
    std::uint32_t length = 0;
    bool more = false;
  };
  enum class Taken : std::uint8_t { kFrame, kDropped, kStopped };

  MemifPort(const MemifPortConfig& config, BufferPool& pool, EventfdRinger ringer)
      : pool_(pool), config_(config), ringer_(std::move(ringer)), whole_(config.max_frame) {}
  void start();
  void fail(MemifBreak reason);
  bool closed() const { return segment_ == nullptr || given_up_; }
  std::uint16_t in_index() const;
  Piece in_piece(std::uint16_t index) const;
  Piece out_piece(std::uint16_t index, MemifDescriptor& descriptor) const;
  void prefetch_piece(std::uint16_t index) const;
  Taken take(std::uint16_t available, std::uint16_t& used, Buffer* frame);
  void release();
  bool refresh_free();
  bool measure_buffers();
  bool send_chained(const link::FrameOut& frame);
  void mask(std::uint16_t flags);

  BufferPool& pool_;
  MemifPortConfig config_;
  EventfdRinger ringer_;
  std::vector<std::byte> whole_;  ///< a frame that is to be cut into several buffers
  std::unique_ptr<MemifSegment> segment_;
  Fd wake_;  ///< an epoll that holds the interrupt of the connection of the day
  std::atomic<MemifBreak> broken_{MemifBreak::kNone};
  bool given_up_ = false;  ///< the same for this thread
  bool server_ = false;
  std::span<const MemifSegment::Region> regions_;  ///< of segment_
  Course in_, out_;
  std::uint16_t free_ = 0;       ///< descriptors of the out ring known to be free
  std::uint16_t per_frame_ = 1;  ///< descriptors that a longest frame takes
};

}  // namespace mtl::phy
