#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "phy/memif/eventfd_ringer.h"
#include "phy/memif/memif_session.h"
#include "phy/segment_guard.h"

/// The shared memory of a memif connection, mapped: regions with two rings in them, and an eventfd
/// for each ring. What the words mean and how they are kept is MemifPort's.
namespace mtl::phy {

inline constexpr std::uint32_t kMemifCookie = 0x03E31F20;
inline constexpr std::uint16_t kMemifMask = 1;  ///< ring flag, of its reader: no interrupts wanted
inline constexpr std::uint16_t kMemifNext = 1;  ///< descriptor flag: the frame goes on in the next

/// A descriptor as it lies in a ring.
struct MemifDescriptor {
  std::uint16_t flags;
  std::uint16_t region;
  std::uint32_t length;
  std::uint32_t offset;
  std::uint32_t metadata;
};
static_assert(sizeof(MemifDescriptor) == 16);

/// A ring in the memory. Of the two indices one is the client's and one is the server's, in both
/// rings: a client has the head, a server the tail. They count descriptors ever passed, modulo
/// 2^16.
class MemifRingView {
 public:
  MemifRingView() = default;
  MemifRingView(std::byte* base, std::uint8_t log2)
      : base_(base), size_(static_cast<std::uint16_t>(1U << log2)) {}

  std::uint16_t size() const { return size_; }
  std::uint32_t cookie() const { return __atomic_load_n(word<std::uint32_t>(0), __ATOMIC_RELAXED); }
  std::uint16_t* flags() const { return word<std::uint16_t>(4); }
  std::uint16_t* head() const { return word<std::uint16_t>(6); }
  std::uint16_t* tail() const { return word<std::uint16_t>(64); }

  /// A copy, each half read once: what is checked is what is used.
  MemifDescriptor load(std::uint16_t index) const {
    const std::uint64_t* from = slot(index);
    const std::array<std::uint64_t, 2> halves{__atomic_load_n(from, __ATOMIC_RELAXED),
                                              __atomic_load_n(from + 1, __ATOMIC_RELAXED)};
    return std::bit_cast<MemifDescriptor>(halves);
  }
  void store(std::uint16_t index, const MemifDescriptor& descriptor) const {
    const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(descriptor);
    std::uint64_t* to = slot(index);
    __atomic_store_n(to, halves[0], __ATOMIC_RELAXED);
    __atomic_store_n(to + 1, halves[1], __ATOMIC_RELAXED);
  }
  void clear_flags(std::uint16_t index) const {
    __atomic_store_n(reinterpret_cast<std::uint16_t*>(slot(index)), std::uint16_t{0},
                     __ATOMIC_RELAXED);
  }
  /// Sets cookie and flags, and both indices to 0.
  void clear() const;

 private:
  template <class T>
  T* word(std::size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  std::uint64_t* slot(std::uint16_t index) const {
    constexpr std::size_t kDescriptors = 128;
    const auto place = static_cast<std::size_t>(index & (size_ - 1));
    return word<std::uint64_t>(kDescriptors + place * sizeof(MemifDescriptor));
  }

  std::byte* base_ = nullptr;
  std::uint16_t size_ = 0;
};

/// Making and unmaking are system calls: not on a worker's fast path. Movable only by pointer.
class MemifSegment {
 public:
  struct Region {
    std::byte* base = nullptr;
    std::uint64_t size = 0;
  };

  /// A server maps what its client said. Errors, each in a few words that the client is told:
  /// memory that is no memfd or shorter than was said, rings without their cookie, no eventfd.
  static Result<std::unique_ptr<MemifSegment>> attach(MemifLayout layout, EventfdRinger& ringer);

  /// A client makes memory: one region, sealed against a change of size, with two rings of 2^log2
  /// descriptors and for each of them a buffer of `buffer_bytes` (a multiple of 64).
  static Result<std::unique_ptr<MemifSegment>> create(std::uint8_t log2,
                                                      std::uint32_t buffer_bytes);
  /// What a client tells of it.
  Result<MemifLayout> layout() const;

  ~MemifSegment();
  MemifSegment(const MemifSegment&) = delete;
  MemifSegment& operator=(const MemifSegment&) = delete;

  MemifRole role() const { return role_; }
  /// The ring that this side writes frames into, and the one that it reads.
  const MemifRingView& out() const { return out_; }
  const MemifRingView& in() const { return in_; }
  std::span<const Region> regions() const { return regions_; }
  /// Client: where the buffer of each descriptor begins; length of each.
  std::uint32_t buffer_bytes() const { return buffer_bytes_; }
  std::uint32_t in_buffer(std::uint16_t index) const {
    return in_buffers_ + (index & (in_.size() - 1U)) * buffer_bytes_;
  }
  std::uint32_t out_buffer(std::uint16_t index) const {
    return out_buffers_ + (index & (out_.size() - 1U)) * buffer_bytes_;
  }

  /// Wakes the reader of the out ring (EventfdRinger).
  int bell() const { return bell_.get(); }
  /// Readable when the peer has rung. Never read: its level means nothing, each ring is an edge.
  int interrupt() const { return interrupt_.get(); }

  /// A page of the memory was taken away and could not be had again (SegmentGuard). Cheap.
  bool lost() const {
    for (const Mapping& mapping : mappings_) {
      if (mapping.guard->tripped()) return true;
    }
    return false;
  }

 private:
  struct Mapping {
    std::byte* base = nullptr;
    std::size_t reserved = 0;
    std::unique_ptr<SegmentGuard> guard;
  };
  explicit MemifSegment(MemifRole role) : role_(role) {}
  Result<void> map(int memory, std::uint64_t size);

  MemifRole role_;
  MemifRingView out_, in_;
  std::vector<Region> regions_;
  std::vector<Mapping> mappings_;  ///< by region
  Fd bell_;
  Fd interrupt_;
  Fd memory_;  ///< client
  std::uint32_t buffer_bytes_ = 0;
  std::uint32_t out_buffers_ = 0;
  std::uint32_t in_buffers_ = 0;
};

}  // namespace mtl::phy
