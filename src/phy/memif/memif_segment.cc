#include "phy/memif/memif_segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

namespace mtl::phy {
namespace {

constexpr std::size_t kLargestPage = std::size_t{2} << 20;

Error system_error(const std::string& what) {
  return Error{what + ": " + std::generic_category().message(errno)};
}

/// Bytes of the pages that the memory file is made of.
Result<std::size_t> page_of(int memory) {
  struct statfs status {};
  if (::fstatfs(memory, &status) != 0) return system_error("cannot look at the memory");
  if (status.f_type != HUGETLBFS_MAGIC) return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (static_cast<std::size_t>(status.f_bsize) <= kLargestPage) {
    return static_cast<std::size_t>(status.f_bsize);
  }
  return Error{"huge pages of more than 2 MiB are not taken"};
}

/// Errors in words that fit a DISCONNECT. Only memory files are taken: of another file a page may
/// have to come from a disk or from a process, and whoever touches it waits.
Result<void> check_memory(const MemifRegion& region) {
  if (::fcntl(region.memory.get(), F_GET_SEALS) < 0) return Error{"Region is no memfd"};
  struct stat status {};
  if (::fstat(region.memory.get(), &status) != 0) return system_error("cannot look at the memory");
  if (static_cast<std::uint64_t>(status.st_size) < region.size) {
    return Error{"Region is longer than its memory"};
  }
  return {};
}

Result<Fd> copy_of(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_error("cannot copy a descriptor; raise the limit of open files");
  return copy;
}

}  // namespace

void MemifRingView::clear() const {
  __atomic_store_n(word<std::uint32_t>(0), kMemifCookie, __ATOMIC_RELAXED);
  __atomic_store_n(flags(), std::uint16_t{0}, __ATOMIC_RELAXED);
  __atomic_store_n(head(), std::uint16_t{0}, __ATOMIC_RELAXED);
  __atomic_store_n(tail(), std::uint16_t{0}, __ATOMIC_RELAXED);
}

MemifSegment::~MemifSegment() {
  for (Mapping& mapping : mappings_) {
    mapping.guard.reset();
    ::munmap(mapping.base, mapping.reserved);
  }
}

// One reservation for the region and the guard's spare page behind it; with room to begin at a
// multiple of the page, which a huge one asks for.
Result<void> MemifSegment::map(int memory, std::uint64_t size) {
  const auto page = page_of(memory);
  if (!page) return page.error();
  const std::size_t bytes = (size + *page - 1) / *page * *page;
  const std::size_t reserved = bytes + 2 * *page;
  void* const start =
      ::mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return system_error("no address space for a region");
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  auto* const base = static_cast<std::byte*>(start) + ((*page - address % *page) % *page);
  constexpr int kReadWrite = PROT_READ | PROT_WRITE;
  if (::mmap(base, bytes, kReadWrite, MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED ||
      ::mmap(base + bytes, *page, kReadWrite, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE,
             -1, 0) == MAP_FAILED) {
    Error error = system_error("cannot map a region");
    ::munmap(start, reserved);
    return error;
  }
  mappings_.push_back({static_cast<std::byte*>(start), reserved,
                       std::make_unique<SegmentGuard>(base, bytes, *page)});
  regions_.push_back({base, size});
  return {};
}

Result<std::unique_ptr<MemifSegment>> MemifSegment::attach(MemifLayout layout,
                                                           EventfdRinger& ringer) {
  std::unique_ptr<MemifSegment> segment(new MemifSegment(MemifRole::kServer));
  for (const MemifRegion& region : layout.regions) {
    if (auto ok = check_memory(region); !ok) return ok.error();
    if (auto ok = segment->map(region.memory.get(), region.size); !ok) return ok.error();
  }
  const auto view = [&](const MemifRing& ring) {
    return MemifRingView(segment->regions_[ring.region].base + ring.offset, ring.log2);
  };
  segment->in_ = view(layout.to_server);
  segment->out_ = view(layout.to_client);
  for (const MemifRingView& ring : {segment->in_, segment->out_}) {
    if (ring.cookie() != kMemifCookie) return Error{"Wrong cookie"};
    __atomic_store_n(ring.tail(), std::uint16_t{0}, __ATOMIC_RELAXED);
  }
  __atomic_store_n(segment->in_.flags(), kMemifMask, __ATOMIC_RELAXED);
  segment->bell_ = std::move(layout.to_client.interrupt);
  segment->interrupt_ = std::move(layout.to_server.interrupt);
  // A descriptor of another kind could make epoll wait for whoever is behind it.
  if (!ringer.ring(segment->bell_.get()) || !ringer.ring(segment->interrupt_.get())) {
    return Error{"Interrupt is no eventfd"};
  }
  return segment;
}

Result<std::unique_ptr<MemifSegment>> MemifSegment::create(std::uint8_t log2,
                                                           std::uint32_t buffer_bytes) {
  std::unique_ptr<MemifSegment> segment(new MemifSegment(MemifRole::kClient));
  const std::uint64_t rings = 2 * memif_ring_bytes(log2);
  const std::uint64_t buffers = std::uint64_t{buffer_bytes} << log2;
  const std::uint64_t first = (rings + 63) / 64 * 64;
  const std::uint64_t size = first + 2 * buffers;
  if (size > kMaxMemifRegion) {
    return Error{"rings of " + std::to_string(1U << log2) + " buffers of " +
                 std::to_string(buffer_bytes) +
                 " bytes take more than 2 GiB; make ring_size or buffer_size smaller"};
  }
  segment->memory_ = Fd(::memfd_create("mtlink-memif", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int memory = segment->memory_.get();
  if (memory < 0) return system_error("cannot make a memory file; raise the limit of open files");
  const auto length = static_cast<off_t>(size);
  if (::ftruncate(memory, length) != 0 || ::fallocate(memory, 0, 0, length) != 0) {
    return system_error("no memory for " + std::to_string(size) +
                        " bytes of rings and buffers; make ring_size or buffer_size smaller");
  }
  if (::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal the shared memory");
  }
  if (auto ok = segment->map(memory, size); !ok) return ok.error();
  std::byte* const base = segment->regions_.front().base;
  (void)::madvise(base, size, MADV_POPULATE_WRITE);  // faults now rather than on the worker
  segment->buffer_bytes_ = buffer_bytes;
  segment->out_ = MemifRingView(base, log2);
  segment->in_ = MemifRingView(base + memif_ring_bytes(log2), log2);
  segment->out_buffers_ = static_cast<std::uint32_t>(first);
  segment->in_buffers_ = static_cast<std::uint32_t>(first + buffers);
  segment->out_.clear();
  segment->in_.clear();
  __atomic_store_n(segment->in_.flags(), kMemifMask, __ATOMIC_RELAXED);
  for (Fd* const fd : {&segment->bell_, &segment->interrupt_}) {
    *fd = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!*fd) return system_error("cannot make an eventfd; raise the limit of open files");
  }
  return segment;
}

Result<MemifLayout> MemifSegment::layout() const {
  MemifLayout out;
  auto memory = copy_of(memory_.get());
  auto to_server = copy_of(bell_.get());
  auto to_client = copy_of(interrupt_.get());
  for (const auto* copy : {&memory, &to_server, &to_client}) {
    if (!*copy) return copy->error();
  }
  const auto log2 = static_cast<std::uint8_t>(std::countr_zero(out_.size()));
  out.regions.push_back({std::move(*memory), regions_.front().size});
  out.to_server = {0, 0, log2, std::move(*to_server)};
  out.to_client = {0, static_cast<std::uint32_t>(memif_ring_bytes(log2)), log2,
                   std::move(*to_client)};
  return out;
}

}  // namespace mtl::phy
