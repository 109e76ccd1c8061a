#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

/// What keeps a process alive when pages of a memory that it shares with a peer cannot be had.
namespace mtl::phy {

/// The peer of a shared memory can punch holes into it, which no seal forbids to one that may
/// write. A page that is touched there comes back as zeros, unless the kernel will not give one
/// (vm.overcommit_memory = 2, a memory failure): then it raises SIGBUS, which would end the process
/// for all its peers. While a SegmentGuard stands, the page is replaced instead by the segment's
/// spare page, tripped() is true from then on, and the access goes on in memory that no peer sees.
///
/// The spare is a page that the process has already, because a new one could be refused just the
/// same. What is read or written there means nothing; several lost pages are all the same spare.
///
/// The first guard installs a handler of SIGBUS for the whole process, which stays. A SIGBUS from
/// anywhere else gets the action that was there before, for good: by default the process ends with
/// a core that shows the access at fault. The handler takes no lock and allocates nothing; it looks
/// through a list of atomic words and makes one mremap(), a mere system call. DPDK puts a handler
/// of its own in its place while it allocates huge pages: the guard does not hold in that moment.
///
/// Threads: made and unmade by any; the range is not accessed before or after. tripped() by any.
class SegmentGuard {
 public:
  /// Guards `bytes` from `base` on, both multiples of `page`, bytes below kMaxBytes. `page` is the
  /// size of the pages that the range is made of, which may be huge ones; 0: the system's. What
  /// lies behind the range, as large as a page, is the spare: present, writable, and mapped
  /// MAP_SHARED from memory of this process alone.
  SegmentGuard(const std::byte* base, std::size_t bytes, std::size_t page = 0);
  ~SegmentGuard();
  SegmentGuard(const SegmentGuard&) = delete;
  SegmentGuard& operator=(const SegmentGuard&) = delete;

  static constexpr std::size_t kMaxBytes = std::size_t{1} << 31;

  /// A page of the range was lost; it stays lost.
  bool tripped() const { return entry_->tripped.load(std::memory_order_relaxed); }

  /// One guard as the signal handler sees it. Entries are used again and never freed, so the
  /// handler can walk them at any time.
  struct Entry {
    std::atomic<std::uint64_t> range{0};  ///< base and size in one word, so that no half is seen
    std::atomic<std::size_t> page{0};
    std::atomic<bool> tripped{false};
    Entry* next = nullptr;
  };

 private:
  Entry* entry_;
};

}  // namespace mtl::phy
