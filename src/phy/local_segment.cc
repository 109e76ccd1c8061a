#include "phy/local_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace mtl::phy {
namespace {

constexpr int kNeededSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// The peer rings once a sleep and reason; a hostile one cannot keep us here for longer.
constexpr int kMaxDrain = 16;

Error system_error(const std::string& what, const std::string& remedy) {
  return Error{"local port: " + what + ": " + std::generic_category().message(errno) + "; " +
               remedy};
}

std::size_t segment_bytes(std::uint64_t ring_bytes) {
  return kLocalRings + 2 * ring_bytes;
}

// What may touch the shared memory: the header, and each ring twice.
std::size_t view_bytes(std::uint64_t ring_bytes) {
  return kLocalRings + 4 * ring_bytes;
}
static_assert(kLocalRings + 4 * std::size_t{kMaxLocalRing} < SegmentGuard::kMaxBytes);

// Behind that there is place for the guard's spare page, of whatever size pages have.
std::size_t reserved_bytes(std::uint64_t ring_bytes) {
  return view_bytes(ring_bytes) + kLocalRings;
}

Result<Fd> make_memory(std::size_t bytes) {
  Fd memory(::memfd_create("mtlink-local-port", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return system_error("memfd_create failed", "raise the limit of open files");
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(memory.get(), size) != 0) {
    return system_error("cannot size the shared memory to " + std::to_string(bytes) + " bytes",
                        "make the rings smaller");
  }
  // Without these the peer could cut the memory under our feet: SIGBUS. SEAL keeps them.
  if (::fcntl(memory.get(), F_ADD_SEALS, kNeededSeals | F_SEAL_SEAL) != 0) {
    return system_error("cannot seal the shared memory", "use a kernel with memfd sealing");
  }
  // The rings' pages now, where a lack of memory is an error. (The peer can still punch holes into
  // them: such a page comes back as zeros when it is touched, and costs memory again. Where there
  // is none it is SIGBUS: SegmentGuard.)
  const auto rings = static_cast<off_t>(kLocalRings);
  if (::fallocate(memory.get(), 0, rings, size - rings) != 0) {
    return system_error("no memory for rings of " + std::to_string(bytes) + " bytes in all",
                        "make the rings smaller or raise the memory limit");
  }
  return memory;
}

// The header as it stands in the memory, read once into private memory.
struct Claimed {
  std::uint32_t ring_bytes;
  std::uint32_t max_frame;
};

Result<Claimed> inspect(int memory) {
  const int seals = ::fcntl(memory, F_GET_SEALS);
  if (seals < 0) {
    return system_error("the memory descriptor is no memfd", "claim the slot again");
  }
  if ((seals & kNeededSeals) != kNeededSeals) {
    return Error{
        "local port: the shared memory is not sealed against a change of size; "
        "connect to an mtswitchd of this version"};
  }
  struct stat status {};
  if (::fstat(memory, &status) != 0) {
    return system_error("cannot stat the shared memory", "claim the slot again");
  }
  struct {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t max_frame;
    std::uint64_t ring_bytes;
  } seen{};
  static_assert(offsetof(LocalHeader, ring_bytes) == 16);
  if (::pread(memory, &seen, sizeof seen, 0) != sizeof seen) {
    return Error{"local port: the shared memory is too short for its header; claim the slot again"};
  }
  if (seen.magic != kLocalMagic || seen.version != kLocalVersion) {
    return Error{"local port: the shared memory has another layout (version " +
                 std::to_string(seen.version) + ", this program knows " +
                 std::to_string(kLocalVersion) + "); use programs of one release"};
  }
  if (auto ok = LocalSegment::check_sizes(seen.ring_bytes, seen.max_frame); !ok) return ok.error();
  if (static_cast<std::uint64_t>(status.st_size) != segment_bytes(seen.ring_bytes)) {
    return Error{"local port: the shared memory has " + std::to_string(status.st_size) +
                 " bytes, its header says " + std::to_string(segment_bytes(seen.ring_bytes)) +
                 "; claim the slot again"};
  }
  return Claimed{static_cast<std::uint32_t>(seen.ring_bytes), seen.max_frame};
}

bool map_at(std::byte* where, std::size_t bytes, int memory, std::size_t offset) {
  void* got = ::mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory,
                     static_cast<off_t>(offset));
  return got != MAP_FAILED;
}

}  // namespace

Result<void> LocalSegment::check_sizes(std::uint64_t ring_bytes, std::uint32_t max_frame) {
  if (max_frame < kMinLocalFrame || max_frame > kMaxLocalFrame) {
    return Error{"local port: longest frame of " + std::to_string(max_frame) +
                 " bytes; it must be from " + std::to_string(kMinLocalFrame) + " to " +
                 std::to_string(kMaxLocalFrame)};
  }
  if (ring_bytes < kMinLocalRing || ring_bytes > kMaxLocalRing ||
      !std::has_single_bit(ring_bytes)) {
    return Error{"local port: ring of " + std::to_string(ring_bytes) +
                 " bytes; it must be a power of two from " + std::to_string(kMinLocalRing) +
                 " to " + std::to_string(kMaxLocalRing)};
  }
  if (ring_bytes < std::uint64_t{2} * local_record(max_frame)) {
    return Error{"local port: ring of " + std::to_string(ring_bytes) +
                 " bytes holds no two frames of " + std::to_string(max_frame) +
                 "; make it larger or the frames shorter"};
  }
  return {};
}

Result<void> LocalSegment::map(int memory) {
  // One reservation, so that nothing else can come to lie inside and one munmap ends it.
  const std::size_t ring = ring_bytes_;
  void* reserved = ::mmap(nullptr, reserved_bytes(ring), PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return system_error("no address space for the rings", "make the rings smaller");
  }
  base_ = static_cast<std::byte*>(reserved);
  rings_ = {base_ + kLocalRings, base_ + kLocalRings + 2 * ring};
  bool ok = map_at(base_, kLocalRings, memory, 0);
  for (std::size_t i = 0; i < rings_.size() && ok; ++i) {
    const std::size_t offset = kLocalRings + i * ring;
    ok = map_at(rings_[i], ring, memory, offset) && map_at(rings_[i] + ring, ring, memory, offset);
  }
  if (!ok) {
    Error error = system_error("cannot map the shared memory", "make the rings smaller");
    ::munmap(std::exchange(base_, nullptr), reserved_bytes(ring));
    return error;
  }
  // Page tables now rather than a fault on the worker's path; only a hint, so no error.
  (void)::madvise(rings_[0], 4 * ring, MADV_POPULATE_WRITE);
  return {};
}

Result<void> LocalSegment::guard() {
  const std::size_t bytes = view_bytes(ring_bytes_);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* spare = ::mmap(base_ + bytes, page, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
  if (spare == MAP_FAILED) {
    return system_error("no memory for a spare page", "raise the memory limit");
  }
  guard_.emplace(base_, bytes);
  return {};
}

Result<std::unique_ptr<LocalSegment>> LocalSegment::create(std::uint32_t ring_bytes,
                                                           std::uint32_t max_frame,
                                                           LocalPortFds& claim) {
  if (auto ok = check_sizes(ring_bytes, max_frame); !ok) return ok.error();
  auto memory = make_memory(segment_bytes(ring_bytes));
  if (!memory) return memory.error();
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
    return system_error("cannot make the doorbell", "raise the limit of open files");
  }
  Fd ours(pair[0]);
  Fd theirs(pair[1]);
  std::unique_ptr<LocalSegment> segment(
      new LocalSegment(LocalSide::kSwitch, ring_bytes, max_frame, std::move(ours)));
  if (auto ok = segment->map(memory->get()); !ok) return ok.error();
  if (auto ok = segment->guard(); !ok) return ok.error();
  auto* header = ::new (segment->base_) LocalHeader{};
  header->magic = kLocalMagic;
  header->version = kLocalVersion;
  header->max_frame = max_frame;
  header->ring_bytes = ring_bytes;
  segment->own().attached.store(kLocalAttached, std::memory_order_release);
  claim.memory = std::move(*memory);
  claim.doorbell = std::move(theirs);
  return segment;
}

Result<std::unique_ptr<LocalSegment>> LocalSegment::attach(LocalPortFds fds) {
  const auto claimed = inspect(fds.memory.get());
  if (!claimed) return claimed.error();
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(fds.doorbell.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_DGRAM) {
    return Error{
        "local port: the doorbell is no datagram socket; "
        "the control socket hands over the memory first, then the doorbell"};
  }
  std::unique_ptr<LocalSegment> segment(new LocalSegment(
      LocalSide::kEndpoint, claimed->ring_bytes, claimed->max_frame, std::move(fds.doorbell)));
  if (auto ok = segment->map(fds.memory.get()); !ok) return ok.error();
  segment->own().attached.store(kLocalAttached, std::memory_order_release);
  segment->ring();  // a sleeping switch notices the carrier
  return segment;
}

LocalSegment::~LocalSegment() {
  if (base_ == nullptr) return;
  own().attached.store(0, std::memory_order_release);
  ring();
  guard_.reset();
  ::munmap(base_, reserved_bytes(ring_bytes_));
}

void LocalSegment::ring() {
  const char bell = 1;
  // MSG_DONTWAIT and MSG_NOSIGNAL: neither a full bell nor a peer that is gone holds or kills us.
  (void)!::send(doorbell_.get(), &bell, sizeof bell, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void LocalSegment::drain() {
  char bell[8];
  for (int i = 0; i < kMaxDrain; ++i) {
    if (::recv(doorbell_.get(), bell, sizeof bell, MSG_DONTWAIT) < 0) return;
  }
}

}  // namespace mtl::phy
