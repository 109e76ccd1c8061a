#include "phy/memif/memif_port.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/copy.h"
#include "phy/packet_check.h"

namespace mtl::phy {
namespace {

/// Frames ahead whose bytes are fetched: they lie in the peer's cache.
constexpr std::uint16_t kAhead = 4;
/// Buffers ahead that are fetched to be written.
constexpr std::uint16_t kAheadOut = 4;
/// A buffer that holds less than the shortest frame is none.
constexpr std::uint32_t kLeastBuffer = 60;
/// Between the two looks of arm(): longer than a store takes to leave a core.
constexpr int kPauses = 16;

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// The compiler's own would fetch a line to be read, and the write would wait once more.
void prefetch_to_write(const std::byte* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1);
#endif
}

std::uint16_t distance(std::uint16_t from, std::uint16_t to) {
  return static_cast<std::uint16_t>(to - from);
}
std::uint16_t sum(std::uint16_t index, unsigned n) {
  return static_cast<std::uint16_t>(index + n);
}

}  // namespace

const char* text(MemifBreak reason) {
  switch (reason) {
    case MemifBreak::kNone:
      return "nothing";
    case MemifBreak::kIndex:
      return "an index of a ring went where it cannot";
    case MemifBreak::kDescriptor:
      return "a descriptor points outside the shared memory";
    case MemifBreak::kChain:
      return "a frame in several buffers has no end";
    case MemifBreak::kBuffers:
      return "its buffers are too small for the link's longest frame, or its ring too short; make "
             "them larger there, or the link's mtu smaller";
    case MemifBreak::kMemory:
      return "it took pages of the shared memory away";
    case MemifBreak::kBell:
      return "the kernel takes no further interrupt; raise fs.epoll.max_user_watches";
  }
  return "";
}

Result<std::unique_ptr<MemifPort>> MemifPort::create(const MemifPortConfig& config,
                                                     BufferPool& pool) {
  if (pool.room() < config.max_frame) {
    return Error{"memif " + config.name + ": buffers of " + std::to_string(pool.room()) +
                 " bytes do not hold frames of " + std::to_string(config.max_frame) +
                 "; use larger buffers or a smaller mtu"};
  }
  auto ringer = EventfdRinger::open();
  if (!ringer) return Error{"memif " + config.name + ": " + ringer.error().message};
  std::unique_ptr<MemifPort> port(new MemifPort(config, pool, std::move(*ringer)));
  port->wake_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!port->wake_) {
    return Error{"memif " + config.name + ": epoll_create1 failed: " +
                 std::generic_category().message(errno) + "; raise the limit of open files"};
  }
  port->traits_.driver = "memif";
  port->traits_.device = config.name;
  port->traits_.max_frame = config.max_frame;
  port->traits_.lossy = false;
  port->traits_.knows_carrier = true;
  port->traits_.wake_fd = port->wake_.get();
  return port;
}

std::unique_ptr<MemifSegment> MemifPort::install(std::unique_ptr<MemifSegment> segment) {
  if (segment_ != nullptr) {
    ::epoll_ctl(wake_.get(), EPOLL_CTL_DEL, segment_->interrupt(), nullptr);
  }
  std::swap(segment_, segment);
  start();
  if (segment_ != nullptr) {
    epoll_event event{};
    // By edges: the counter is never read, which on a descriptor of the peer's could wait.
    event.events = EPOLLIN | EPOLLET;
    if (::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, segment_->interrupt(), &event) != 0) {
      fail(MemifBreak::kBell);
    }
  }
  return segment;
}

// Fresh rings: both are empty.
void MemifPort::start() {
  broken_.store(MemifBreak::kNone, std::memory_order_relaxed);
  given_up_ = false;
  in_ = out_ = {};
  free_ = 0;
  per_frame_ = 1;
  if (segment_ == nullptr) return;
  server_ = segment_->role() == MemifRole::kServer;
  regions_ = segment_->regions();
  in_.ring = segment_->in();
  out_.ring = segment_->out();
  if (!server_) release();  // all of them: they wait for the server's frames
}

[[gnu::cold, gnu::noinline]] void MemifPort::fail(MemifBreak reason) {
  given_up_ = true;
  broken_.store(reason, std::memory_order_relaxed);
  counters_.drops.add(Drop::kBrokenRing);
}

// --- receiving ---

/// Up to where the peer has filled the in ring.
std::uint16_t MemifPort::in_index() const {
  return __atomic_load_n(server_ ? in_.ring.head() : in_.ring.tail(), __ATOMIC_ACQUIRE);
}

/// The bytes behind a descriptor of the in ring.
MemifPort::Piece MemifPort::in_piece(std::uint16_t index) const {
  const MemifDescriptor from = in_.ring.load(index);
  const bool more = (from.flags & kMemifNext) != 0;
  if (!server_) {
    if (from.length > segment_->buffer_bytes()) return {};
    return {regions_[0].base + segment_->in_buffer(index), from.length, more};
  }
  if (from.region >= regions_.size()) return {};
  const MemifSegment::Region& region = regions_[from.region];
  if (from.offset > region.size || from.length > region.size - from.offset) return {};
  return {region.base + from.offset, from.length, more};
}

void MemifPort::prefetch_piece(std::uint16_t index) const {
  const Piece piece = in_piece(index);
  if (piece.base == nullptr) return;
  __builtin_prefetch(piece.base);
  __builtin_prefetch(piece.base + 64);
}

// The frame that begins at in_.next, of which the peer says that `available` descriptors are there
// (not 0), into an empty buffer, which it leaves empty unless it is kFrame. `used`: of how many
// descriptors it is made. kStopped: given up.
MemifPort::Taken MemifPort::take(std::uint16_t available, std::uint16_t& used, Buffer* frame) {
  bool fits = true;
  for (used = 1;; ++used) {
    const Piece piece = in_piece(sum(in_.next, used - 1U));
    if (piece.base == nullptr) {
      fail(MemifBreak::kDescriptor);
      break;
    }
    fits = fits && piece.length <= config_.max_frame - frame->length;
    if (fits) {
      copy_short(frame->data + frame->length, piece.base, piece.length);
      frame->length += piece.length;
    }
    if (!piece.more) break;
    // A DPDK sender leaves the flag there, and would chain the next frame to what follows it.
    if (server_) in_.ring.clear_flags(sum(in_.next, used - 1U));
    if (used == available) {
      fail(MemifBreak::kChain);
      break;
    }
  }
  if (fits && !given_up_) {
    frame->tailroom -= frame->length;
    frame->notes.crc = check_packet(frame->bytes());
    return Taken::kFrame;
  }
  frame->length = 0;
  return given_up_ ? Taken::kStopped : Taken::kDropped;
}

[[gnu::flatten]] unsigned MemifPort::receive(std::span<Buffer*> out) {
  if (closed()) return 0;
  std::uint16_t available = distance(in_.next, in_index());
  if (available == 0) return 0;
  if (available > in_.ring.size()) {
    fail(MemifBreak::kIndex);
    return 0;
  }
  for (unsigned i = 0; i < std::min(available, kAhead); ++i) prefetch_piece(sum(in_.next, i));
  // A frame takes a descriptor at least.
  const std::size_t buffers =
      pool_.take_burst(out.first(std::min<std::size_t>(out.size(), available)));
  unsigned count = 0;
  std::uint64_t bytes = 0;
  const std::uint16_t first = in_.next;
  // Dropped ones count as well: a burst is no longer for what a peer writes.
  for (std::size_t n = 0; n < out.size() && available > 0 && count < buffers; ++n) {
    if (available > kAhead) prefetch_piece(sum(in_.next, kAhead));
    std::uint16_t used = 0;
    const Taken taken = take(available, used, out[count]);
    if (taken == Taken::kStopped) break;
    in_.next = sum(in_.next, used);
    available = static_cast<std::uint16_t>(available - used);
    if (taken == Taken::kDropped) {
      counters_.drops.add(Drop::kTooLong);
      continue;
    }
    bytes += out[count++]->length;
  }
  if (count < buffers) pool_.give_burst(out.subspan(count, buffers - count));
  counters_.frames_in.add(count);
  counters_.bytes_in.add(bytes);
  if (in_.next != first) release();
  return count;
}

/// What lies before in_.next has been read: the peer may fill it again.
void MemifPort::release() {
  if (server_) {
    in_.published = in_.next;
    __atomic_store_n(in_.ring.tail(), in_.published, __ATOMIC_RELEASE);
    return;
  }
  const std::uint16_t end = sum(in_.next, in_.ring.size());
  for (; in_.published != end; ++in_.published) {
    in_.ring.store(in_.published,
                   {0, 0, segment_->buffer_bytes(), segment_->in_buffer(in_.published), 0});
  }
  __atomic_store_n(in_.ring.head(), in_.published, __ATOMIC_RELEASE);
}

// --- sending ---

/// The room behind a descriptor of the out ring, and what it says of it.
MemifPort::Piece MemifPort::out_piece(std::uint16_t index, MemifDescriptor& descriptor) const {
  if (!server_) {
    descriptor = {0, 0, segment_->buffer_bytes(), segment_->out_buffer(index), 0};
    return {regions_[0].base + descriptor.offset, descriptor.length, false};
  }
  descriptor = out_.ring.load(index);
  if (descriptor.region >= regions_.size()) return {};
  const MemifSegment::Region& region = regions_[descriptor.region];
  if (descriptor.offset > region.size || descriptor.length > region.size - descriptor.offset) {
    return {};
  }
  return {region.base + descriptor.offset, descriptor.length, false};
}

// How many descriptors a longest frame takes, by the next one. False: given up.
bool MemifPort::measure_buffers() {
  MemifDescriptor descriptor;
  const Piece piece = out_piece(out_.next, descriptor);
  if (piece.base == nullptr) {
    fail(MemifBreak::kDescriptor);
    return false;
  }
  const std::uint32_t needed =
      piece.length == 0 ? ~0U : (config_.max_frame + piece.length - 1) / piece.length;
  if (piece.length < kLeastBuffer || needed > out_.ring.size()) {
    fail(MemifBreak::kBuffers);
    return false;
  }
  per_frame_ = static_cast<std::uint16_t>(needed);
  return true;
}

// Takes over how much of the out ring is free. False: given up.
bool MemifPort::refresh_free() {
  const std::uint16_t size = out_.ring.size();
  std::uint16_t free = 0;
  if (server_) {
    free = distance(out_.next, __atomic_load_n(out_.ring.head(), __ATOMIC_ACQUIRE));
  } else {
    const std::uint16_t tail = __atomic_load_n(out_.ring.tail(), __ATOMIC_ACQUIRE);
    // It cannot have read what was not published.
    free = distance(tail, out_.published) > size
               ? sum(size, 1)
               : static_cast<std::uint16_t>(size - distance(tail, out_.next));
  }
  if (free > size) {
    fail(MemifBreak::kIndex);
    return false;
  }
  free_ = free;
  return free_ == 0 || measure_buffers();
}

unsigned MemifPort::room() {
  if (closed()) return 0;
  // The peer's cache line is fetched only when what is known runs low.
  const bool low = free_ <= out_.ring.size() / 2 || free_ < per_frame_;
  if (low && !refresh_free()) return 0;
  return free_ / per_frame_;
}

[[gnu::flatten]] bool MemifPort::send(const link::FrameOut& frame) {
  if (closed()) return false;
  const std::uint32_t length = frame.length();
  if (length > config_.max_frame) {
    counters_.drops.add(Drop::kTooLong);
    return false;
  }
  if (free_ == 0) {
    counters_.send_full.add();
    return false;
  }
  MemifDescriptor descriptor;
  if (free_ > kAheadOut) {
    const Piece ahead = out_piece(sum(out_.next, kAheadOut), descriptor);
    if (ahead.base != nullptr) prefetch_to_write(ahead.base);
  }
  const Piece piece = out_piece(out_.next, descriptor);
  if (piece.base == nullptr) {
    fail(MemifBreak::kDescriptor);
    return false;
  }
  if (piece.length >= length) {
    frame.write(piece.base);
    descriptor.flags = 0;
    descriptor.length = length;
    out_.ring.store(out_.next, descriptor);
    out_.next = sum(out_.next, 1);
    --free_;
  } else if (!send_chained(frame)) {
    return false;
  }
  counters_.frames_out.add();
  counters_.bytes_out.add(length);
  return true;
}

// A frame longer than a buffer, in as many as it takes. False: they do not suffice, or given up.
[[gnu::noinline]] bool MemifPort::send_chained(const link::FrameOut& frame) {
  std::uint32_t left = frame.write(whole_.data());
  const std::byte* from = whole_.data();
  for (std::uint16_t used = 0; left > 0;) {
    if (used == free_) {
      counters_.drops.add(Drop::kNotSent);
      return false;
    }
    const std::uint16_t index = sum(out_.next, used);
    MemifDescriptor descriptor;
    const Piece piece = out_piece(index, descriptor);
    if (piece.base == nullptr || piece.length < kLeastBuffer) {
      fail(piece.base == nullptr ? MemifBreak::kDescriptor : MemifBreak::kBuffers);
      return false;
    }
    const std::uint32_t n = std::min(left, piece.length);
    std::memcpy(piece.base, from, n);
    from += n;
    left -= n;
    descriptor.flags = left > 0 ? kMemifNext : 0;
    descriptor.length = n;
    out_.ring.store(index, descriptor);
    ++used;
    if (left > 0) continue;
    out_.next = sum(out_.next, used);
    free_ = static_cast<std::uint16_t>(free_ - used);
  }
  return true;
}

void MemifPort::flush() {
  if (closed() || out_.next == out_.published) return;
  out_.published = out_.next;
  std::uint16_t* const index = server_ ? out_.ring.tail() : out_.ring.head();
  // Sequentially consistent, as the look at the mask behind it: a reader that takes its mask off
  // and looks at the index likewise misses neither.
  __atomic_store_n(index, out_.published, __ATOMIC_SEQ_CST);
  const std::uint16_t flags = __atomic_load_n(out_.ring.flags(), __ATOMIC_SEQ_CST);
  if ((flags & kMemifMask) == 0) ringer_.ring(segment_->bell());
}

// --- carrier and sleep ---

bool MemifPort::carrier() {
  if (closed()) return false;
  if (!segment_->lost()) return true;
  fail(MemifBreak::kMemory);
  return false;
}

void MemifPort::mask(std::uint16_t flags) {
  __atomic_store_n(in_.ring.flags(), flags, __ATOMIC_SEQ_CST);
}

bool MemifPort::arm() {
  if (closed()) return true;
  mask(0);
  // Both sequentially consistent: see flush().
  std::uint16_t* const index = server_ ? in_.ring.head() : in_.ring.tail();
  bool waiting = __atomic_load_n(index, __ATOMIC_SEQ_CST) != in_.next;
  if (!waiting) {
    for (int i = 0; i < kPauses; ++i) pause_cpu();
    waiting = in_index() != in_.next;
  }
  waiting = waiting || segment_->lost();  // carrier() is to say so now, not after a sleep
  if (waiting) mask(kMemifMask);
  return !waiting;
}

void MemifPort::disarm() {
  if (segment_ == nullptr) return;
  mask(kMemifMask);
  epoll_event event{};
  (void)::epoll_wait(wake_.get(), &event, 1, 0);  // takes the edge
}

}  // namespace mtl::phy
