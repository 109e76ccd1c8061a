#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "link/link.h"
#include "network/packet.h"
#include "phy/local_segment.h"
#include "phy/memif/memif_segment.h"
#include "runtime/random.h"

/// What loads a switch through its local ports, as cheaply as can be.
namespace mtl {

inline constexpr unsigned kLoadBurst = 32;  ///< packets queued, and frames taken, in a pass

/// Buffers without memory of their own: they show bytes that lie elsewhere.
class Views final : public BufferPool {
 public:
  static constexpr std::uint32_t kViews = 4096;
  Views() : views_(kViews) {
    for (Buffer& view : views_) free_.push_back(&view);
  }
  /// The packet CRC counts as checked, so that the link does not read the payload.
  Buffer* show(std::byte* data, std::uint32_t length) {
    if (free_.empty()) throw std::runtime_error("out of views: frames do not come in order");
    Buffer* view = take();
    view->data = data;
    view->length = length;
    view->notes.crc = CrcState::kGood;
    return view;
  }
  Buffer* take() override {
    Buffer* view = free_.back();
    free_.pop_back();
    *view = Buffer{};
    view->pool = this;
    return view;
  }
  void give(Buffer* buffer) override { free_.push_back(buffer); }
  bool exclusive(const Buffer&) const override { return false; }
  std::uint32_t room() const override { return 0; }
  std::uint32_t available() const override { return static_cast<std::uint32_t>(free_.size()); }

 private:
  std::vector<Buffer> views_;
  std::vector<Buffer*> free_;
};

/// The far end of a slot's rings. Rings no doorbell: the other side has to poll.
class SlotRings {
 public:
  explicit SlotRings(std::unique_ptr<phy::LocalSegment> segment)
      : segment_(std::move(segment)), mask_(segment_->ring_bytes() - 1) {}

  /// Calls `take(bytes, length)` for up to kLoadBurst frames that have come, where they lie; then
  /// their place is given back. Returns how many.
  template <class Take>
  unsigned receive(Take take) {
    const std::uint64_t head = segment_->peer().head.load(std::memory_order_acquire);
    unsigned count = 0;
    for (; tail_ != head && count < kLoadBurst; ++count) {
      // The ring is mapped writable; the link only moves the view's bounds.
      auto* record = const_cast<std::byte*>(segment_->in_ring() + (tail_ & mask_));
      __builtin_prefetch(record + kAhead);
      std::uint32_t length = 0;
      std::memcpy(&length, record, sizeof length);
      take(record + kRecordHeader, length);
      tail_ += phy::local_record(length);
    }
    if (count > 0) segment_->own().tail.store(tail_, std::memory_order_release);
    return count;
  }
  /// Calls `make(place)`, which writes a frame and returns its length (0: there is none), while
  /// there is room. Returns how many it made; publish() shows them.
  template <class Make>
  unsigned send(Make make) {
    const std::uint64_t used = head_ - segment_->peer().tail.load(std::memory_order_acquire);
    std::uint64_t free = segment_->ring_bytes() - used;
    const std::uint64_t longest = phy::local_record(segment_->max_frame());
    unsigned count = 0;
    for (; free >= longest; ++count) {
      std::byte* record = segment_->out_ring() + (head_ & mask_);
      const std::uint64_t length = make(record + kRecordHeader);
      if (length == 0) break;
      __builtin_prefetch(record + kAhead, 1);
      std::memcpy(record, &length, sizeof length);
      const std::uint64_t bytes = phy::local_record(static_cast<std::uint32_t>(length));
      head_ += bytes;
      free -= bytes;
    }
    return count;
  }
  void publish() { segment_->own().head.store(head_, std::memory_order_release); }

 private:
  static constexpr std::uint64_t kRecordHeader = 8;
  static constexpr std::uint64_t kAhead = 512;  ///< bytes: fetched from the other core meanwhile

  std::unique_ptr<phy::LocalSegment> segment_;
  std::uint64_t mask_ = 0;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

/// The client's end of a memif connection, likewise.
class MemifRings {
 public:
  /// The memory is the client's own.
  explicit MemifRings(std::unique_ptr<phy::MemifSegment> segment) : segment_(std::move(segment)) {
    post();
  }

  template <class Take>
  unsigned receive(Take take) {
    const phy::MemifRingView& in = segment_->in();
    const std::uint16_t tail = __atomic_load_n(in.tail(), __ATOMIC_ACQUIRE);
    unsigned count = 0;
    for (; tail_ != tail && count < kLoadBurst; ++count, ++tail_) {
      __builtin_prefetch(base() + segment_->in_buffer(ahead_of(tail_)));
      take(base() + segment_->in_buffer(tail_), in.load(tail_).length);
    }
    if (count > 0) post();
    return count;
  }
  template <class Make>
  unsigned send(Make make) {
    const phy::MemifRingView& out = segment_->out();
    const std::uint16_t tail = __atomic_load_n(out.tail(), __ATOMIC_ACQUIRE);
    unsigned count = 0;
    for (; static_cast<std::uint16_t>(head_ - tail) < out.size(); ++count, ++head_) {
      const std::uint32_t at = segment_->out_buffer(head_);
      const std::uint32_t length = make(base() + at);
      if (length == 0) break;
      __builtin_prefetch(base() + segment_->out_buffer(ahead_of(head_)), 1);
      out.store(head_, {0, 0, length, at, 0});
    }
    return count;
  }
  void publish() { __atomic_store_n(segment_->out().head(), head_, __ATOMIC_RELEASE); }

 private:
  static std::uint16_t ahead_of(std::uint16_t index) {
    constexpr unsigned kAhead = 4;  // frames: fetched from the other core meanwhile
    return static_cast<std::uint16_t>(index + kAhead);
  }
  std::byte* base() const { return segment_->regions().front().base; }
  /// Gives the switch the buffers that have been read, and all of them at first.
  void post() {
    const phy::MemifRingView& in = segment_->in();
    const auto end = static_cast<std::uint16_t>(tail_ + in.size());
    for (; posted_ != end; ++posted_) {
      in.store(posted_, {0, 0, segment_->buffer_bytes(), segment_->in_buffer(posted_), 0});
    }
    __atomic_store_n(in.head(), posted_, __ATOMIC_RELEASE);
  }

  std::unique_ptr<phy::MemifSegment> segment_;
  std::uint16_t head_ = 0;
  std::uint16_t tail_ = 0;
  std::uint16_t posted_ = 0;
};

/// The far end of a link to a switch: its rings (SlotRings or MemifRings), its link, and what it
/// sends. Reads frames where they lie and does not look at their payload, so that it costs less
/// than what it loads. Throws std::runtime_error. One thread.
template <class Rings>
class LinkEnd final : public link::Owner {
 public:
  /// `size`: bytes of the frames that it sends, Ethernet header included. `config` has no fault().
  LinkEnd(const link::Config& config, Rings rings, std::uint32_t size)
      : size_(size), rings_(std::move(rings)) {
    if (size > link::kFrameHeader + config.mtu) {
      throw std::runtime_error("frames are longer than the link's mtu");
    }
    link_ = std::make_unique<link::Link>(config, *this);
  }

  /// Makes the packets to `destinations` nodes from `first` on; their entropy differs, so that they
  /// are of several flows.
  void make_packets(NodeId first, std::size_t destinations) {
    const std::size_t length = size_ - link::kFrameHeader;
    for (std::size_t i = 0; i < std::max<std::size_t>(kPackets, destinations); ++i) {
      auto& packet = packets_.emplace_back(length, static_cast<std::byte>(i));
      network::encode(network::Header{.proto = static_cast<std::uint8_t>(network::Proto::kDatagram),
                                      .dst = NodeId{static_cast<std::uint16_t>(first.value() +
                                                                               i % destinations)},
                                      .src = node(),
                                      .entropy = static_cast<std::uint16_t>(i)},
                      packet.data());
      network::seal(packet);
    }
  }
  void enable(Time now) {
    link_->set_carrier(true, now);
    link_->enable(now);
  }
  NodeId node() const { return link_->config().node; }
  bool usable() const { return link_->usable(); }
  std::uint64_t sent() const { return sent_; }
  std::uint64_t received() const { return received_; }
  std::uint64_t replays() const { return link_->counters().replays.get(); }

  /// Takes what has come, queues a burst of packets if `in_flight` of ours may be on their way, and
  /// sends what the link has to send. Returns whether any of it was anything.
  bool pass(std::uint32_t in_flight, std::uint64_t arrived_at_peer, Time now) {
    now_ = now;
    const bool received = receive();
    const bool submitted = usable() && submit(in_flight, sent_ - arrived_at_peer);
    bool sent = pull();
    while (link_->next_deadline() <= now_ && link_->expire(now_)) sent |= pull();
    rings_.publish();
    return received || submitted || sent;
  }

 private:
  static constexpr std::size_t kPackets = 64;  ///< at least, made beforehand

  bool receive() {
    return rings_.receive([this](std::byte* frame, std::uint32_t length) {
      link_->receive(views_.show(frame, length), now_);
    }) > 0;
  }

  bool submit(std::uint32_t limit, std::uint64_t in_flight) {
    if (in_flight + kLoadBurst > limit || link_->queued() != 0) return false;
    for (unsigned i = 0; i < kLoadBurst; ++i) {
      auto& packet = packets_[sent_++ % packets_.size()];
      link_->submit(views_.show(packet.data(), static_cast<std::uint32_t>(packet.size())), now_);
    }
    return true;
  }

  bool pull() {
    return rings_.send([this](std::byte* place) -> std::uint32_t {
      return link_->next_frame(now_, frame_) ? frame_.write(place) : 0;
    }) > 0;
  }

  // link::Owner
  void packets_in(PortId, std::span<Buffer* const> packets) override {
    received_ += packets.size();
    for (const Buffer* packet : packets) {
      link_->release(packet->notes.ingress_vc, packet->notes.ingress_cells, now_);
    }
    give_back(packets);
  }
  void packets_acked(PortId, std::span<Buffer* const> packets) override { give_back(packets); }
  void packet_back(PortId, Buffer* packet) override {
    give_back(packet);
    died_ = true;
  }
  void link_changed(PortId) override {}
  link::BringUp bring_up(PortId, std::uint8_t last_epoch) override {
    if (died_) throw std::runtime_error("a link died under load");
    return random_.bring_up(last_epoch);
  }

  const std::uint32_t size_;
  Rings rings_;
  Views views_;  ///< before link_, which gives back what it holds
  runtime::RandomStock random_;
  std::unique_ptr<link::Link> link_;
  std::vector<std::vector<std::byte>> packets_;
  link::FrameOut frame_;
  Time now_{};
  bool died_ = false;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace mtl
