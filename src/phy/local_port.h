#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/result.h"
#include "phy/local_segment.h"
#include "phy/port.h"

namespace mtl::phy {

struct LocalPortConfig {
  std::string name;                     ///< the slot, for the operator
  std::uint32_t ring_bytes = 1u << 20;  ///< each way; see LocalSegment::create
  std::uint32_t max_frame = 9230;       ///< longest frame either way: 30 + the longest body
};

/// One end of a local port (docs/design: a process on the same host): two rings of frames in shared
/// memory, and a doorbell that is rung only when the other side sleeps.
///
/// The peer may die at any instruction or write anything anywhere into the memory at any time. So
/// nothing that it wrote is used before it is copied and checked; each index of the peer is read
/// once a burst; this side's own indices, and all sizes, are kept privately. A peer that
/// contradicts itself breaks the ring: Drop::kBrokenRing is counted once, nothing is read or sent
/// any more, there is no carrier, until the slot is claimed anew. So does a peer that takes pages
/// of the memory away which cannot be had again (LocalSegment::lost()); carrier() sees it. A frame
/// that the peer changes while it is being copied is a corrupted frame, which the link's CRCs catch
/// (L3, L12). A peer that carrier() has seen leave is gone likewise, though nothing is counted:
/// were it believed when it comes back, it could cut and join the link as often as this side looks.
///
/// Wake-ups. A side that wants to sleep stores a fresh number into its `armed` word and then looks
/// at the peer's index again; a side that has moved an index stores it and then looks at the peer's
/// `armed` word. All four are sequentially consistent, so at least one of them sees the other: the
/// sleeper finds the frames, or the mover finds the number and rings, once for each number. The
/// same holds for room: a sender that found none sleeps until the reader has moved its index.
///
/// Threads: one worker, but for make_segment() and the counters.
class LocalPort final : public Port {
 public:
  /// Switch side, not claimed yet: no memory, no carrier, nothing to receive, no room.
  /// @param pool where received frames go; its room() is at least max_frame; outlives the port
  static Result<std::unique_ptr<LocalPort>> create(const LocalPortConfig& config, BufferPool& pool);

  /// Endpoint side: takes what the switch's claim() gave.
  static Result<std::unique_ptr<LocalPort>> attach(LocalPortFds fds, std::string name,
                                                   BufferPool& pool);

  ~LocalPort() override;
  LocalPort(const LocalPort&) = delete;
  LocalPort& operator=(const LocalPort&) = delete;

  /// Switch side, a claim in two steps, so that the worker makes no system call for memory: any
  /// thread calls make_segment() and hands the segment to the worker, which install()s it and hands
  /// the one before back, to be destroyed anywhere else. The former claimant keeps memory that
  /// nobody reads. What was in the rings is lost, as on a wire that is cut.
  Result<std::unique_ptr<LocalSegment>> make_segment(LocalPortFds& claim) const;
  /// nullptr: not claimed any more, as when the claimant's control socket has died (a peer that was
  /// killed tells nothing itself). traits().wake_fd stays the same throughout. Where the kernel
  /// takes no further doorbell (fs.epoll.max_user_watches) the port counts as broken at once.
  std::unique_ptr<LocalSegment> install(std::unique_ptr<LocalSegment> segment);
  /// Both steps in one, for an owner with one thread.
  Result<LocalPortFds> claim();

  /// The peer has broken the rings, or their memory was lost.
  bool broken() const { return broken_; }

  unsigned receive(std::span<Buffer*> out) override;
  void prefetch() const override;
  unsigned room() override;
  bool send(const link::FrameOut& frame) override;
  void flush() override;
  bool carrier() override;
  /// False also while frames wait for buffers of the pool.
  bool arm() override;
  void disarm() override;

 private:
  LocalPort(const LocalPortConfig& config, BufferPool& pool);
  void start();
  void fail();
  /// Nothing is read or sent before the next claim.
  bool closed() const { return segment_ == nullptr || broken_ || left_; }
  unsigned survey(std::uint64_t available, std::span<std::uint32_t> lengths) const;
  bool refresh_free();
  void wake_if(const std::atomic<std::uint64_t>& armed, std::uint64_t& rung);
  void unarm();

  BufferPool& pool_;
  LocalPortConfig config_;
  std::unique_ptr<LocalSegment> segment_;  ///< nullptr: not claimed
  Fd wake_;  ///< switch side: an epoll that holds the doorbell of the claim of the day
  bool broken_ = false;
  bool met_ = false;      ///< the peer was seen attached in this claim
  bool left_ = false;     ///< and then not attached
  bool starved_ = false;  ///< room() said 0: sleep until there is some, too

  std::uint64_t mask_ = 0;         ///< ring bytes - 1
  std::uint64_t head_ = 0;         ///< where the next record goes (out ring)
  std::uint64_t published_ = 0;    ///< up to where the peer knows
  std::uint64_t free_ = 0;         ///< bytes of the out ring known to be free
  std::uint64_t tail_ = 0;         ///< where the next record comes from (in ring)
  std::uint64_t sleeps_ = 0;       ///< number of the last sleep
  std::uint64_t rung_frames_ = 0;  ///< the peer's sleep that was rung for frames
  std::uint64_t rung_room_ = 0;    ///< likewise for room
};

}  // namespace mtl::phy
