#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.h"

namespace mtl {

class BufferPool;

/// Bytes that must be free before a packet so that Ethernet header, 802.1Q tag and link header can
/// be written in front of it (14 + 4 + 16, rounded up).
inline constexpr std::uint32_t kHeadroom = 64;

/// What is known of the packet CRC (N2) before the link looks: a port that copies a frame out of
/// shared memory checks it in the same pass.
enum class CrcState : std::uint8_t { kUnknown, kGood, kBad };

/// The notes that travel with a packet through a node.
struct PacketNotes {
  PortId ingress =
      kNoPort;  ///< port whose receive buffer the packet occupies (L20); kNoPort: made here
  PortId egress = kNoPort;          ///< port it was routed to (N7)
  std::uint16_t ingress_cells = 0;  ///< cells of the ingress port's buffer that it occupies
  Vc ingress_vc{};                  ///< VC that it came in on
  Vc egress_vc{};                   ///< VC that it leaves on
  std::uint8_t layer = 0;           ///< layer before the raise of the hop chosen (N9)
  CrcState crc = CrcState::kUnknown;
  ShardId home{};           ///< of a packet made here: the shard whose pool it goes back to
  bool own = false;         ///< counts towards the bound on the node's own packets (N13)
  bool returning = false;   ///< between shards: on its way back to its pool and ingress port
  std::uint8_t bucket = 0;  ///< of flows, while it is on a lane of a trunk
};

/// One frame or packet in one piece of memory. Owned by exactly one place at any time: a pool, a
/// link (queue, replay ring, held out of order), a ring between shards, or the node's owner.
/// Whoever owns it may change it, except that a port may still be reading bytes that it was told to
/// send (BufferPool::exclusive). Not thread safe; ownership passes between threads by the rings
/// alone.
struct Buffer {
  std::byte* data = nullptr;   ///< first byte of the frame or packet
  std::uint32_t length = 0;    ///< bytes of frame or packet
  std::uint32_t headroom = 0;  ///< writable bytes before data
  std::uint32_t tailroom = 0;  ///< writable bytes after data + length
  Buffer* next = nullptr;      ///< the owner's list link
  BufferPool* pool = nullptr;  ///< where it goes back to
  PacketNotes notes;

  std::span<std::byte> bytes() { return {data, length}; }
  std::span<const std::byte> bytes() const { return {data, length}; }

  /// Takes `n` bytes off the front; they become headroom.
  void pull(std::uint32_t n) {
    assert(n <= length);
    data += n;
    length -= n;
    headroom += n;
  }
  /// Shortens the content to `n` bytes (padding off).
  void trim(std::uint32_t n) {
    assert(n <= length);
    tailroom += length - n;
    length = n;
  }
};

/// Where buffers come from and go back to. Which threads may use a pool, its implementation says.
/// The core takes from a shard's own pool on the shard's thread, and from a packet's pool
/// (phy::Impairment) and gives to it on the thread of whichever shard has the packet, which, for a
/// port that moves, is one after the other. Nothing is allocated after construction.
class BufferPool {
 public:
  virtual ~BufferPool() = default;
  /// A buffer with at least kHeadroom bytes of headroom, length 0, fresh notes, room() bytes of
  /// tailroom; nullptr when the pool is exhausted.
  virtual Buffer* take() = 0;
  /// Gives a buffer of this pool back. Never nullptr.
  virtual void give(Buffer* buffer) = 0;
  /// As take() for each place of `out`, from the first on; returns how many there were. What is in
  /// the places beyond these is not said.
  virtual std::size_t take_burst(std::span<Buffer*> out) {
    std::size_t n = 0;
    while (n < out.size() && (out[n] = take()) != nullptr) ++n;
    return n;
  }
  /// As give() for each.
  virtual void give_burst(std::span<Buffer* const> buffers) {
    for (Buffer* buffer : buffers) give(buffer);
  }
  /// False while a device still reads the buffer's memory: bytes and headroom must not be written.
  virtual bool exclusive(const Buffer& buffer) const = 0;
  /// Bytes that each buffer holds behind its headroom.
  virtual std::uint32_t room() const = 0;
  /// Buffers that the calling thread can take now; exact while no other takes or gives.
  virtual std::uint32_t available() const = 0;
};

/// Gives a buffer back to the pool it came from.
inline void give_back(Buffer* buffer) {
  buffer->pool->give(buffer);
}
/// Likewise each: those in a row that are of one pool at once.
inline void give_back(std::span<Buffer* const> buffers) {
  while (!buffers.empty()) {
    BufferPool* const pool = buffers.front()->pool;
    std::size_t n = 1;
    while (n < buffers.size() && buffers[n]->pool == pool) ++n;
    pool->give_burst(buffers.first(n));
    buffers = buffers.subspan(n);
  }
}

/// A first-in first-out list of buffers through Buffer::next; owns what it holds.
class BufferQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  std::uint32_t size() const { return size_; }
  Buffer* front() const { return head_; }
  void push(Buffer* buffer) {
    buffer->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = buffer;
    tail_ = buffer;
    ++size_;
  }
  /// The oldest buffer; the queue must not be empty.
  Buffer* pop() {
    Buffer* buffer = head_;
    head_ = buffer->next;
    --size_;
    return buffer;
  }

 private:
  Buffer* head_ = nullptr;
  Buffer* tail_ = nullptr;
  std::uint32_t size_ = 0;
};

}  // namespace mtl
