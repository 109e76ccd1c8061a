#include "phy/local_port.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/copy.h"
#include "link/codec.h"
#include "phy/packet_check.h"

namespace mtl::phy {
namespace {

constexpr std::uint32_t kRecordHeader = 8;
constexpr std::size_t kBurst = 64;  // frames taken out of the ring at once, at most

// How far ahead of the record in hand the ring is fetched from the other core's cache: some frames
// of the shortest kind. The CPU cannot do so by itself, since each record's place depends on the
// length of the one before.
constexpr std::uint64_t kAhead = 512;
constexpr std::uint64_t kCacheLine = 64;

// The length word of a record, read once: the compiler must not look at it a second time, after the
// check, when a hostile peer may have changed it.
std::uint32_t read_length(const std::byte* record) {
  std::uint32_t length;
  __atomic_load(reinterpret_cast<const std::uint32_t*>(record), &length, __ATOMIC_RELAXED);
  return length;
}

/// Copies a frame into an empty buffer.
void copy_frame(const std::byte* from, std::uint32_t length, Buffer& frame) {
  copy_short(frame.data, from, length);
  frame.length = length;
  frame.tailroom -= length;
  frame.notes.crc = check_packet(frame.bytes());
}

Result<void> check_pool(const BufferPool& pool, std::uint32_t max_frame) {
  if (pool.room() >= max_frame) return {};
  return Error{"local port: buffers of " + std::to_string(pool.room()) +
               " bytes do not hold frames of " + std::to_string(max_frame) +
               "; use larger buffers or a smaller mtu"};
}

}  // namespace

LocalPort::LocalPort(const LocalPortConfig& config, BufferPool& pool)
    : pool_(pool), config_(config) {
  traits_.driver = "local";
  traits_.device = config.name;
  traits_.max_frame = config.max_frame;
  traits_.lossy = false;
  traits_.knows_carrier = true;
}

LocalPort::~LocalPort() = default;

Result<std::unique_ptr<LocalPort>> LocalPort::create(const LocalPortConfig& config,
                                                     BufferPool& pool) {
  if (auto ok = LocalSegment::check_sizes(config.ring_bytes, config.max_frame); !ok)
    return ok.error();
  if (auto ok = check_pool(pool, config.max_frame); !ok) return ok.error();
  std::unique_ptr<LocalPort> port(new LocalPort(config, pool));
  port->wake_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!port->wake_) {
    return Error{"local port " + config.name + ": epoll_create1 failed: " +
                 std::generic_category().message(errno) + "; raise the limit of open files"};
  }
  port->traits_.wake_fd = port->wake_.get();
  return port;
}

Result<std::unique_ptr<LocalPort>> LocalPort::attach(LocalPortFds fds, std::string name,
                                                     BufferPool& pool) {
  auto segment = LocalSegment::attach(std::move(fds));
  if (!segment) return segment.error();
  const std::uint32_t max_frame = (*segment)->max_frame();
  if (auto ok = check_pool(pool, max_frame); !ok) return ok.error();
  std::unique_ptr<LocalPort> port(
      new LocalPort({std::move(name), (*segment)->ring_bytes(), max_frame}, pool));
  port->traits_.wake_fd = (*segment)->doorbell();
  port->segment_ = std::move(*segment);
  port->start();
  return port;
}

Result<std::unique_ptr<LocalSegment>> LocalPort::make_segment(LocalPortFds& claim) const {
  return LocalSegment::create(config_.ring_bytes, config_.max_frame, claim);
}

std::unique_ptr<LocalSegment> LocalPort::install(std::unique_ptr<LocalSegment> segment) {
  // The former doorbell leaves by name: its descriptor lives on in the segment that is handed back.
  if (segment_ != nullptr) {
    ::epoll_ctl(wake_.get(), EPOLL_CTL_DEL, segment_->doorbell(), nullptr);
  }
  std::swap(segment_, segment);
  start();
  if (segment_ != nullptr) {
    epoll_event event{};
    event.events = EPOLLIN;
    // Without its bell the peer would go unheard while the worker sleeps: better no carrier at all.
    if (::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, segment_->doorbell(), &event) != 0) fail();
  }
  return segment;
}

Result<LocalPortFds> LocalPort::claim() {
  LocalPortFds fds;
  auto segment = make_segment(fds);
  if (!segment) return segment.error();
  install(std::move(*segment));
  return fds;
}

// Fresh memory: both rings are empty and nobody sleeps.
void LocalPort::start() {
  broken_ = met_ = left_ = false;
  starved_ = false;
  mask_ = config_.ring_bytes - 1;
  head_ = published_ = tail_ = 0;
  free_ = config_.ring_bytes;
  sleeps_ = rung_frames_ = rung_room_ = 0;
}

[[gnu::cold, gnu::noinline]] void LocalPort::fail() {
  broken_ = true;
  counters_.drops.add(Drop::kBrokenRing);
}

// The lengths of the frames that begin at tail_, read once and checked, as many as `lengths` has
// places for, up to the first that cannot be. The peer says that `available` bytes are there (a
// multiple of 8).
unsigned LocalPort::survey(std::uint64_t available, std::span<std::uint32_t> lengths) const {
  const std::byte* const ring = segment_->in_ring();
  unsigned count = 0;
  std::uint64_t at = tail_;
  while (count < lengths.size() && available > 0) {
    const std::byte* record = ring + (at & mask_);
    const std::uint32_t length = read_length(record);
    const std::uint32_t bytes = local_record(length);
    if (length < link::kEthernetHeader || length > config_.max_frame || bytes > available) break;
    if (available > kAhead) {  // a record and a bit of the shortest kind: two lines
      __builtin_prefetch(record + kAhead);
      __builtin_prefetch(record + kAhead + kCacheLine);
    }
    lengths[count++] = length;
    at += bytes;
    available -= bytes;
  }
  return count;
}

void LocalPort::prefetch() const {
  if (segment_ == nullptr) return;
  __builtin_prefetch(&segment_->peer().head);
  const std::byte* const next = segment_->in_ring() + (tail_ & mask_);
  for (std::uint64_t at = 0; at < kAhead; at += kCacheLine) __builtin_prefetch(next + at);
}

[[gnu::flatten]] unsigned LocalPort::receive(std::span<Buffer*> out) {
  if (closed()) return 0;
  const std::uint64_t head = segment_->peer().head.load(std::memory_order_acquire);
  std::uint64_t available = head - tail_;
  if (available == 0) return 0;
  if (available > config_.ring_bytes || available % 8 != 0) {
    fail();
    return 0;
  }
  // The first records at once; each then fetches what lies kAhead of it.
  const std::byte* const first = segment_->in_ring() + (tail_ & mask_);
  for (std::uint64_t at = 0; at < std::min(available, kAhead + kCacheLine); at += kCacheLine) {
    __builtin_prefetch(first + at);
  }
  std::array<std::uint32_t, kBurst> lengths;
  const unsigned there =
      survey(available, std::span(lengths).first(std::min(out.size(), lengths.size())));
  const auto count = static_cast<unsigned>(pool_.take_burst(out.first(there)));
  const std::byte* const ring = segment_->in_ring();
  const std::uint64_t begin = tail_, mask = mask_;
  std::uint64_t taken = 0;
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    copy_frame(ring + ((begin + taken) & mask) + kRecordHeader, lengths[i], *out[i]);
    bytes += lengths[i];
    taken += local_record(lengths[i]);
  }
  // What stopped the survey is looked at when all before it has been taken.
  if (count == there && there < out.size() && there < lengths.size() && taken < available) fail();
  if (count > 0) {
    tail_ += taken;
    counters_.frames_in.add(count);
    counters_.bytes_in.add(bytes);
    segment_->own().tail.store(tail_, std::memory_order_seq_cst);
    wake_if(segment_->peer().room_armed, rung_room_);
  }
  return count;
}

// Takes over how far the peer has read. False: broken.
bool LocalPort::refresh_free() {
  const std::uint64_t tail = segment_->peer().tail.load(std::memory_order_acquire);
  const std::uint64_t used = head_ - tail;
  // It cannot have read what was not published; a tail that runs back is caught when the ring would
  // hold more than it can.
  if (published_ - tail > config_.ring_bytes || used > config_.ring_bytes || tail % 8 != 0) {
    fail();
    return false;
  }
  free_ = config_.ring_bytes - used;
  return true;
}

unsigned LocalPort::room() {
  if (closed()) return 0;
  // What comes next is written, and was last read by the other core: fetch it early.
  std::byte* const next = segment_->out_ring() + (head_ & mask_);
  for (std::uint64_t at = 0; at < kAhead; at += kCacheLine) __builtin_prefetch(next + at, 1);
  __builtin_prefetch(&segment_->own().head, 1);  // for flush()
  // The peer's cache line is fetched only when what is known runs low.
  if (free_ <= config_.ring_bytes / 2 && !refresh_free()) return 0;
  const auto frames = static_cast<unsigned>(free_ / local_record(config_.max_frame));
  starved_ = frames == 0;
  return frames;
}

[[gnu::flatten]] bool LocalPort::send(const link::FrameOut& frame) {
  if (closed()) return false;
  const std::uint32_t length = frame.length();
  if (length > config_.max_frame) {
    counters_.drops.add(Drop::kTooLong);
    return false;
  }
  const std::uint32_t record = local_record(length);
  if (record > free_) {
    counters_.send_full.add();
    return false;
  }
  std::byte* to = segment_->out_ring() + (head_ & mask_);
  const std::uint64_t record_header = length;
  std::memcpy(to, &record_header, kRecordHeader);
  to += kRecordHeader;
  // Of the other core's cache likewise, to be written.
  __builtin_prefetch(to + kAhead, 1);
  __builtin_prefetch(to + kAhead + kCacheLine, 1);
  frame.write(to);
  head_ += record;
  free_ -= record;
  counters_.frames_out.add();
  counters_.bytes_out.add(length);
  return true;
}

void LocalPort::flush() {
  if (segment_ == nullptr || head_ == published_) return;
  published_ = head_;
  segment_->own().head.store(head_, std::memory_order_seq_cst);
  wake_if(segment_->peer().frames_armed, rung_frames_);
}

// After an index was stored. Once for each sleep: the peer clears the word only when it runs again,
// and until then every burst would cost a system call.
void LocalPort::wake_if(const std::atomic<std::uint64_t>& armed, std::uint64_t& rung) {
  const std::uint64_t sleep = armed.load(std::memory_order_seq_cst);
  if (sleep == 0 || sleep == rung) return;
  rung = sleep;
  segment_->ring();
}

bool LocalPort::carrier() {
  if (closed()) return false;
  if (segment_->lost()) {
    fail();
    return false;
  }
  const bool attached = segment_->peer().attached.load(std::memory_order_acquire) == kLocalAttached;
  left_ = met_ && !attached;
  met_ = met_ || attached;
  return attached;
}

bool LocalPort::arm() {
  if (closed()) return true;
  ++sleeps_;
  LocalWords& own = segment_->own();
  own.frames_armed.store(sleeps_, std::memory_order_seq_cst);
  if (starved_) own.room_armed.store(sleeps_, std::memory_order_seq_cst);
  bool waiting = segment_->peer().head.load(std::memory_order_seq_cst) != tail_;
  // Sequentially consistent as well: refresh_free()'s acquire alone could be moved before the
  // store.
  if (starved_ &&
      segment_->peer().tail.load(std::memory_order_seq_cst) != head_ + free_ - config_.ring_bytes) {
    waiting = waiting || room() > 0;
  }
  waiting = waiting || segment_->lost();  // carrier() is to say so now, not after a sleep
  if (waiting) unarm();
  return !waiting;
}

void LocalPort::unarm() {
  LocalWords& own = segment_->own();
  own.frames_armed.store(0, std::memory_order_relaxed);
  own.room_armed.store(0, std::memory_order_relaxed);
}

void LocalPort::disarm() {
  if (segment_ == nullptr) return;
  unarm();
  segment_->drain();
}

}  // namespace mtl::phy
