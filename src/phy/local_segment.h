#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "phy/segment_guard.h"

/// The shared memory of a local port: its layout, its making, and the doorbell beside it. What the
/// words mean and how they are kept is LocalPort's.
namespace mtl::phy {

/// Which end of a local port.
enum class LocalSide : std::uint8_t { kSwitch = 0, kEndpoint = 1 };

/// What one side writes and the other one reads. Each group has a cache line pair of its own, so
/// that a side's writing of one does not disturb the other side's polling of another.
struct LocalWords {
  /// Bytes of frame records ever put into the ring that this side writes.
  alignas(128) std::atomic<std::uint64_t> head;
  /// Bytes of records ever taken out of the ring that this side reads.
  alignas(128) std::atomic<std::uint64_t> tail;
  /// Not 0: this side sleeps (or is about to) until frames come; a new number for each sleep.
  alignas(128) std::atomic<std::uint64_t> frames_armed;
  /// Not 0: it sleeps until the ring that it writes has more room.
  std::atomic<std::uint64_t> room_armed;
  /// kLocalAttached while this side uses the segment.
  std::atomic<std::uint32_t> attached;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::uint64_t kLocalMagic = 0x4D544C2D4C504F52;  // "MTL-LPOR"
inline constexpr std::uint32_t kLocalVersion = 1;
inline constexpr std::uint32_t kLocalAttached = 0x41545443;

/// What the memory begins with. The two rings follow at kLocalRings: first the one that the switch
/// writes, then the endpoint's.
struct LocalHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t max_frame;          ///< longest frame either way, bytes
  std::uint64_t ring_bytes;         ///< of each ring; a power of two
  std::array<LocalWords, 2> words;  ///< by LocalSide
};

/// Where the rings begin: a multiple of every page size in use. What the header leaves of it is
/// never touched, so it costs address space only.
inline constexpr std::size_t kLocalRings = 65536;
static_assert(sizeof(LocalHeader) <= kLocalRings);

inline constexpr std::uint32_t kMinLocalRing = 65536;
inline constexpr std::uint32_t kMaxLocalRing = 1u << 28;
inline constexpr std::uint32_t kMinLocalFrame = 94;  ///< 30 + the least mtu (L6)
inline constexpr std::uint32_t kMaxLocalFrame = 61440;

/// The descriptors of the endpoint's end, as they travel over the control socket, in this order.
struct LocalPortFds {
  Fd memory;    ///< memfd, sealed against a change of size
  Fd doorbell;  ///< the endpoint's end of a datagram socket pair
  std::array<int, 2> raw() const { return {memory.get(), doorbell.get()}; }
};
inline constexpr std::size_t kLocalPortFds = 2;

/// One claim's memory, mapped, and this side's end of the doorbell. Each ring is mapped twice in a
/// row, so that a record that wraps is in one piece. Making and unmaking are system calls: not on
/// a worker's fast path. Movable only by pointer.
///
/// The doorbell is a datagram socket pair and not an eventfd: of an eventfd both sides hold the
/// same open file, whose O_NONBLOCK the peer could take off before it fills the counter, and the
/// ringer would wait for ever. A socket's end belongs to its side alone.
class LocalSegment {
 public:
  /// Whether a segment may have these sizes (ranges: see create); the error says what is wrong.
  static Result<void> check_sizes(std::uint64_t ring_bytes, std::uint32_t max_frame);

  /// Switch side: makes memory and doorbell, and guards the process against a claimant that takes
  /// pages away (which sets the process's action for SIGBUS, see SegmentGuard); the endpoint's
  /// descriptors are put into `claim`, which the caller sends to the claimant and then closes.
  /// @param ring_bytes power of two, kMinLocalRing..kMaxLocalRing, at least two longest frames
  /// @param max_frame  kMinLocalFrame..kMaxLocalFrame
  static Result<std::unique_ptr<LocalSegment>> create(std::uint32_t ring_bytes,
                                                      std::uint32_t max_frame, LocalPortFds& claim);

  /// Endpoint side: checks type, seals, size and header of what came over the control socket.
  static Result<std::unique_ptr<LocalSegment>> attach(LocalPortFds fds);

  ~LocalSegment();
  LocalSegment(const LocalSegment&) = delete;
  LocalSegment& operator=(const LocalSegment&) = delete;

  LocalWords& own() { return header().words[static_cast<std::size_t>(side_)]; }
  LocalWords& peer() { return header().words[1 - static_cast<std::size_t>(side_)]; }
  /// The ring that this side writes, twice in a row: 2 x ring_bytes() are addressable.
  std::byte* out_ring() { return rings_[static_cast<std::size_t>(side_)]; }
  /// The ring that this side reads, likewise.
  const std::byte* in_ring() { return rings_[1 - static_cast<std::size_t>(side_)]; }

  std::uint32_t ring_bytes() const { return ring_bytes_; }
  std::uint32_t max_frame() const { return max_frame_; }
  int doorbell() const { return doorbell_.get(); }
  /// Switch side: a page of the memory was taken away and could not be had again; what this side
  /// sees there since then is not the peer's (SegmentGuard). Cheap; may be asked each burst.
  bool lost() const { return guard_ && guard_->tripped(); }

  /// Wakes the peer. Never waits; a bell that is full has woken it already.
  void ring();
  /// Takes what the peer's ringing left, at most a fixed number.
  void drain();

 private:
  LocalSegment(LocalSide side, std::uint32_t ring_bytes, std::uint32_t max_frame, Fd doorbell)
      : side_(side),
        ring_bytes_(ring_bytes),
        max_frame_(max_frame),
        doorbell_(std::move(doorbell)) {}
  Result<void> map(int memory);
  Result<void> guard();
  LocalHeader& header() { return *reinterpret_cast<LocalHeader*>(base_); }

  LocalSide side_;
  std::uint32_t ring_bytes_;  ///< private: the shared copy is never looked at again
  std::uint32_t max_frame_;
  Fd doorbell_;
  std::byte* base_ = nullptr;
  std::array<std::byte*, 2> rings_{};
  std::optional<SegmentGuard> guard_;  ///< switch side
};

/// Bytes that a frame of `length` takes in a ring: a header of 8, the frame, and up to a multiple
/// of 8.
constexpr std::uint32_t local_record(std::uint32_t length) {
  return (8 + length + 7) / 8 * 8;
}

}  // namespace mtl::phy
