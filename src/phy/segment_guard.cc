#include "phy/segment_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

namespace mtl::phy {
namespace {

using Entry = SegmentGuard::Entry;

// Entry::range: the number of the first page of 4096 bytes above, the count of such pages below.
constexpr unsigned kUnitBits = 12;
constexpr unsigned kCountBits = 19;
static_assert(SegmentGuard::kMaxBytes >> kUnitBits == std::uint64_t{1} << kCountBits);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<Entry*>::is_always_lock_free);

constexpr std::uint64_t kFree = 0;
constexpr std::uint64_t kTaken = 1;  // page 0 begins no segment, so no address lies in this

std::atomic<Entry*> entries{nullptr};
struct sigaction previous_action;  // what a SIGBUS of others gets; set before the handler

struct Range {
  std::uintptr_t base;
  std::uintptr_t bytes;
};

Range range_of(std::uint64_t word) {
  return {(word >> kCountBits) << kUnitBits, (word & ((std::uint64_t{1} << kCountBits) - 1))
                                                 << kUnitBits};
}

// True: the page of `address` lies in a guarded range and is the spare now.
bool replace_page(std::uintptr_t address) {
  for (Entry* entry = entries.load(std::memory_order_acquire); entry != nullptr;
       entry = entry->next) {
    const Range range = range_of(entry->range.load(std::memory_order_acquire));
    if (range.base == 0 || address - range.base >= range.bytes) continue;
    void* const spare = reinterpret_cast<void*>(range.base + range.bytes);
    const std::size_t bytes = entry->page.load(std::memory_order_relaxed);
    void* const page = reinterpret_cast<void*>(address & ~(bytes - 1));
    // From a size of 0 it is a second mapping of the same page (mremap(2)).
    if (::mremap(spare, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, page) == MAP_FAILED) {
      return false;
    }
    entry->tripped.store(true, std::memory_order_relaxed);
    return true;
  }
  return false;
}

void on_sigbus(int number, siginfo_t* info, void*) {
  const int kept = errno;
  const bool fault = info->si_code > 0;  // of the kernel's making: there is an address
  if (!fault || !replace_page(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    ::sigaction(number, &previous_action, nullptr);
    if (!fault) ::raise(number);  // a fault repeats itself
  }
  errno = kept;
}

void install_handler() {
  ::sigaction(SIGBUS, nullptr, &previous_action);
  struct sigaction action {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigaction(SIGBUS, &action, nullptr);  // fails only for a wrong number or address
}

Entry* take_entry() {
  for (Entry* entry = entries.load(std::memory_order_acquire); entry != nullptr;
       entry = entry->next) {
    std::uint64_t expected = kFree;
    if (entry->range.compare_exchange_strong(expected, kTaken, std::memory_order_acq_rel)) {
      return entry;
    }
  }
  auto* const entry = new Entry;
  entry->range.store(kTaken, std::memory_order_relaxed);
  entry->next = entries.load(std::memory_order_relaxed);
  while (!entries.compare_exchange_weak(entry->next, entry, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  return entry;
}

}  // namespace

SegmentGuard::SegmentGuard(const std::byte* base, std::size_t bytes, std::size_t page) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  entry_ = take_entry();
  entry_->tripped.store(false, std::memory_order_relaxed);
  entry_->page.store(page != 0 ? page : static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)),
                     std::memory_order_relaxed);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  entry_->range.store(address >> kUnitBits << kCountBits | bytes >> kUnitBits,
                      std::memory_order_release);
}

SegmentGuard::~SegmentGuard() {
  entry_->range.store(kFree, std::memory_order_release);
}

}  // namespace mtl::phy
