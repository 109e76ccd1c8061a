#include "capture/segment.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "base/drop.h"

namespace mtl::capture {
namespace {

constexpr std::uint64_t kMagic = 0x4D544C2D43415054;  // "MTL-CAPT"
constexpr std::uint32_t kVersion = 1;
constexpr const char* kRemedy = "use mtctl and mtswitchd of one version";
constexpr int kNeededSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr std::size_t kMaxRings = 256;
constexpr std::size_t kLine = 128;
constexpr std::size_t kPage = 65536;   ///< a multiple of every page size in use
constexpr std::uint64_t kBlock = 512;  ///< bytes, of stat::st_blocks

/// An Interface as it lies in the memory.
struct Entry {
  std::array<char, 64> name;
  std::array<char, 160> about;
  std::uint16_t port;
  std::uint16_t vlan;
  Mac mac;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

Error system_error(const std::string& what, const std::string& remedy) {
  return Error{"capture: " + what + ": " + std::generic_category().message(errno) + "; " + remedy};
}

template <std::size_t N>
void put(std::array<char, N>& to, const std::string& text) {
  to.fill('\0');
  std::memcpy(to.data(), text.data(), std::min(text.size(), N));
}

template <std::size_t N>
std::string get(const std::array<char, N>& from) {
  return {from.data(), strnlen(from.data(), N)};
}

constexpr std::size_t up(std::size_t n, std::size_t unit) {
  return (n + unit - 1) / unit * unit;
}

bool sizes_fit(std::uint64_t rings, std::uint64_t ring_bytes) {
  return rings > 0 && rings <= kMaxRings && std::has_single_bit(ring_bytes) &&
         ring_bytes >= Segment::kMinRing && ring_bytes <= Segment::kMaxBytes / rings;
}

Error bad_sizes(std::uint64_t rings, std::uint64_t ring_bytes) {
  return Error{"capture: " + std::to_string(rings) + " rings of " + std::to_string(ring_bytes) +
               " bytes; a ring has a power of two from " + std::to_string(Segment::kMinRing) +
               ", all together at most " + std::to_string(Segment::kMaxBytes)};
}

}  // namespace

struct Segment::Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reasons;  ///< Drop::kCount: the names of both sides are the same
  std::uint64_t rings;
  std::uint64_t ring_bytes;
  alignas(kLine) std::atomic<std::uint32_t> interfaces;
  std::atomic<std::uint32_t> left_out;
  std::array<Entry, kMaxInterfaces> entries;
  // Words of each ring follow, then, at a multiple of kPage, the rings.
};

/// Of a ring; each side's in lines of its own.
struct Segment::Words {
  alignas(kLine) std::atomic<std::uint64_t> head;
  alignas(kLine) std::atomic<std::uint64_t> tail;
  alignas(kLine) std::array<std::atomic<std::uint64_t>, kMaxInterfaces> missed;
};

Segment::Segment(std::size_t rings, std::uint64_t ring_bytes)
    : rings_(rings), ring_bytes_(ring_bytes), bytes_(size_of(rings, ring_bytes)) {}

std::size_t Segment::size_of(std::size_t rings, std::uint64_t ring_bytes) {
  return up(up(sizeof(Header), kLine) + rings * sizeof(Words), kPage) + rings * ring_bytes;
}

Segment::Header& Segment::header() const {
  return *reinterpret_cast<Header*>(base_);
}

Segment::Words& Segment::words(std::size_t ring) const {
  return *reinterpret_cast<Words*>(base_ + up(sizeof(Header), kLine) + ring * sizeof(Words));
}

std::atomic<std::uint64_t>& Segment::head(std::size_t ring) const {
  return words(ring).head;
}
std::atomic<std::uint64_t>& Segment::tail(std::size_t ring) const {
  return words(ring).tail;
}
std::atomic<std::uint64_t>& Segment::missed(std::size_t ring, std::size_t interface) const {
  return words(ring).missed[interface];
}

Result<void> Segment::map(int memory) {
  // Behind it there is place for the guard's spare page, of whatever size pages have.
  reserved_ = bytes_ + kPage;
  void* reserved =
      ::mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    return system_error("no address space for its rings", "ask for smaller ones (--buffer)");
  }
  base_ = static_cast<std::byte*>(reserved);
  ring_base_ = base_ + (bytes_ - rings_ * ring_bytes_);
  if (::mmap(base_, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) ==
      MAP_FAILED) {
    return system_error("cannot map its memory", "ask for smaller rings (--buffer)");
  }
  return {};
}

Result<void> Segment::guard() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* spare = ::mmap(base_ + bytes_, page, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0);
  if (spare == MAP_FAILED) {
    return system_error("no memory for a spare page", "raise the memory limit");
  }
  guard_.emplace(base_, bytes_);
  return {};
}

bool Segment::populate() {
  const std::size_t part = std::min(bytes_ - populated_, kPopulated);
  // Only a hint: what is not done now, a fault on a worker's path does.
  if (part > 0) (void)::madvise(base_ + populated_, part, MADV_POPULATE_WRITE);
  populated_ += part;
  return populated_ < bytes_;
}

Result<Fd> Segment::allocate(std::size_t rings, std::uint64_t ring_bytes) {
  if (!sizes_fit(rings, ring_bytes)) return bad_sizes(rings, ring_bytes);
  Fd memory(::memfd_create("mtlink-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return system_error("memfd_create failed", "raise the limit of open files");
  const auto size = static_cast<off_t>(size_of(rings, ring_bytes));
  if (::ftruncate(memory.get(), size) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, kNeededSeals | F_SEAL_SEAL) != 0 ||
      ::fallocate(memory.get(), 0, 0, size) != 0) {
    return system_error("no memory of " + std::to_string(size) + " bytes",
                        errno == EFBIG
                            ? "raise the limit of a file's size (ulimit -f), which counts here"
                            : "ask for smaller rings (--buffer)");
  }
  return memory;
}

/// Of a memory that the other side has made, or has had in its hands: sealed, or it could be cut
/// under our feet; of small pages, of which the guard has a spare one. What becomes of holes that
/// are made in it later, SegmentGuard says.
Result<void> Segment::check(const Fd& memory) const {
  struct stat status {};
  struct statfs system {};
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kNeededSeals) != kNeededSeals || ::fstat(memory.get(), &status) != 0 ||
      ::fstatfs(memory.get(), &system) != 0 || system.f_type != TMPFS_MAGIC) {
    return Error{std::string("capture: what was handed over is no memory of a capture; ") +
                 kRemedy};
  }
  if (static_cast<std::uint64_t>(status.st_size) != bytes_) {
    return Error{"capture: the memory that was handed over has " + std::to_string(status.st_size) +
                 " bytes instead of " + std::to_string(bytes_) + "; " + kRemedy};
  }
  const std::uint64_t there = static_cast<std::uint64_t>(status.st_blocks) * kBlock;
  if (there < bytes_) {
    return Error{"capture: of the memory that was handed over only " + std::to_string(there) +
                 " bytes of " + std::to_string(bytes_) + " are there; " + kRemedy};
  }
  return {};
}

Result<std::unique_ptr<Segment>> Segment::adopt(const Fd& memory, std::size_t rings,
                                                std::uint64_t ring_bytes) {
  if (!sizes_fit(rings, ring_bytes)) return bad_sizes(rings, ring_bytes);
  std::unique_ptr<Segment> segment(new Segment(rings, ring_bytes));
  if (auto checked = segment->check(memory); !checked) return checked.error();
  if (auto mapped = segment->map(memory.get()); !mapped) return mapped.error();
  if (auto guarded = segment->guard(); !guarded) return guarded.error();
  auto* header = ::new (segment->base_) Header{};
  header->magic = kMagic;
  header->version = kVersion;
  header->reasons = static_cast<std::uint32_t>(Drop::kCount);
  header->rings = rings;
  header->ring_bytes = ring_bytes;
  for (std::size_t i = 0; i < rings; ++i) ::new (&segment->words(i)) Words{};
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::attach(const Fd& memory) {
  struct {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t reasons;
    std::uint64_t rings;
    std::uint64_t ring_bytes;
  } seen{};
  static_assert(offsetof(Header, ring_bytes) == offsetof(decltype(seen), ring_bytes));
  if (::pread(memory.get(), &seen, sizeof seen, 0) != sizeof seen || seen.magic != kMagic ||
      seen.version != kVersion || seen.reasons != static_cast<std::uint32_t>(Drop::kCount) ||
      !sizes_fit(seen.rings, seen.ring_bytes)) {
    return Error{std::string("capture: what mtswitchd wrote into the memory has another layout; ") +
                 kRemedy};
  }
  std::unique_ptr<Segment> segment(new Segment(seen.rings, seen.ring_bytes));
  if (auto checked = segment->check(memory); !checked) return checked.error();
  if (auto mapped = segment->map(memory.get()); !mapped) return mapped.error();
  return segment;
}

Segment::~Segment() {
  guard_.reset();
  if (base_ != nullptr) ::munmap(base_, reserved_);
}

std::optional<std::uint16_t> Segment::add_interface(const Interface& interface) {
  if (added_ == kMaxInterfaces) {
    header().left_out.store(++left_out_, std::memory_order_relaxed);
    return std::nullopt;
  }
  Entry& entry = header().entries[added_];
  put(entry.name, interface.name);
  put(entry.about, interface.about);
  entry.port = interface.port.value();
  entry.vlan = interface.vlan.value();
  entry.mac = interface.mac;
  header().interfaces.store(++added_, std::memory_order_release);
  return static_cast<std::uint16_t>(added_ - 1);
}

std::size_t Segment::interfaces() const {
  return std::min<std::size_t>(header().interfaces.load(std::memory_order_acquire), kMaxInterfaces);
}

std::size_t Segment::left_out() const {
  return header().left_out.load(std::memory_order_relaxed);
}

Interface Segment::interface(std::size_t index) const {
  const Entry entry = header().entries[index];
  return {get(entry.name), get(entry.about), PortId{entry.port}, VlanId{entry.vlan}, entry.mac};
}

}  // namespace mtl::capture
