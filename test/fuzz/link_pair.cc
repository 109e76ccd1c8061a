// Two real links with a wire between them that loses, doubles, reorders and damages frames, in
// bursts, and owners that send, hold back what they got, enable and disable.
//
// The first byte, if even, makes it an honest wire: what arrives was sent, but for a bit or the
// order. Then no packet is altered, none comes twice or out of its VC's order, each that is
// acknowledged was delivered or is one that the receiver gave up (L12), and once the wire is well,
// all that was queued arrives and all credit comes back. If odd, frames of any bytes come in
// between, made right for the session here and there: then nothing is promised but that buffers
// balance.

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "base/heap_pool.h"
#include "input.h"
#include "link/link.h"
#include "network/packet.h"

namespace mtl {
namespace {

using fuzz::Input;
using fuzz::require;

constexpr std::uint16_t kMtu = 256;
constexpr std::uint32_t kRoom = 600;
constexpr std::uint32_t kBuffers = 1024;
constexpr std::size_t kBurst = 32;  // as the real loop's
constexpr std::size_t kMostFlying = 128;
constexpr std::size_t kNumberAt = network::kHeader;

link::Config config(std::uint16_t node) {
  link::Config c;
  c.node = NodeId{node};
  c.port = PortId{0};
  c.mac = {std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte(node)};
  c.mtu = kMtu;
  c.cell = 64;
  c.window = 16;
  c.send_window = 16;
  c.capacity.fill(8);
  return c;
}

/// A link and its owner.
class End final : private link::Owner {
 public:
  End(std::uint16_t node, HeapPool& pool, bool honest)
      : pool_(pool),
        honest_(honest),
        epoch_(static_cast<std::uint8_t>(node * 16)),
        link_(config(node), *this) {}
  ~End() {
    for (Buffer* packet : kept_) give_back(packet);
  }

  link::Link& link() { return link_; }
  const link::BringUp& numbers() const { return numbers_; }
  std::uint32_t bring_ups() const { return nonce_; }
  void meet(End& other) { other_ = &other; }

  /// Queues a packet with the next number.
  void send(Input& in, Time now) {
    const Vc vc{static_cast<std::uint8_t>(in.byte() % kVcs)};
    const std::uint32_t payload = 4u + in.byte() % 200u;
    const auto length = static_cast<std::uint32_t>(network::kMinPacket + payload);
    if (link_.queued() > 64 || !link_.usable() || !link_.can_take(length, vc)) return;
    Buffer* packet = pool_.take();
    if (packet == nullptr) return;
    std::array<std::byte, 256> content{};
    store32(content.data(), ++sent_);
    arrived_.push_back(false);
    network::make_packet(*packet, {.proto = 4, .dst = NodeId{9}, .src = NodeId{8}},
                         std::span(content).first(payload));
    packet->notes.egress_vc = vc;
    packet->notes.egress = PortId{0};
    link_.submit(packet, now);
  }
  void release(Time now) {
    if (kept_.empty()) return;
    Buffer* packet = kept_.front();
    kept_.pop_front();
    const PacketNotes notes = packet->notes;
    give_back(packet);
    link_.release(notes.ingress_vc, notes.ingress_cells, now);
  }
  std::size_t kept() const { return kept_.size(); }

  void check() const {
    std::array<std::uint32_t, kVcs> cells{};
    for (const Buffer* packet : kept_) {
      cells[packet->notes.ingress_vc.value()] += packet->notes.ingress_cells;
    }
    for (std::uint8_t v = 0; v < kVcs; ++v) {
      // What came early occupies it as well.
      require(link_.occupied(Vc{v}) >= cells[v], "what is kept occupies the buffer");
      require(link_.occupied(Vc{v}) == cells[v] || link_.held() != 0, "and nothing else does");
      require(link_.occupied(Vc{v}) <= link_.config().capacity[v],
              "a receiver never holds more than its capacity (L22)");
    }
  }

 private:
  void packets_in(PortId, std::span<Buffer* const> packets) override {
    for (Buffer* packet : packets) {
      kept_.push_back(packet);
      if (!honest_) continue;
      require(link::packet_crc_ok(packet->bytes()), "what is delivered is unaltered");
      const std::uint32_t number = load32(&packet->data[kNumberAt]);
      std::uint32_t& last = last_[packet->notes.ingress_vc.value()];
      require(number <= other_->sent_, "what is delivered was sent");
      require(number > last, "once, and in order");
      last = number;
      other_->arrived_[number - 1] = true;
    }
  }
  void packets_acked(PortId, std::span<Buffer* const> packets) override {
    for (const Buffer* packet : packets) {
      if (!arrived_[load32(&packet->data[kNumberAt]) - 1]) ++given_up_;
    }
    require(!honest_ || given_up_ <= other_->link_.counters().drops.get(Drop::kPoisoned),
            "what is acknowledged was delivered or given up");
    give_back(packets);
  }
  void packet_back(PortId, Buffer* packet) override { give_back(packet); }
  void link_changed(PortId) override {}
  link::BringUp bring_up(PortId, std::uint8_t last) override {
    epoch_ = static_cast<std::uint8_t>(epoch_ % 255 + 1);
    if (epoch_ == last) epoch_ = static_cast<std::uint8_t>(epoch_ % 255 + 1);
    numbers_ = {++nonce_ * 0x01000193u + link_.config().node.value(), epoch_};
    return numbers_;
  }

  HeapPool& pool_;
  bool honest_;
  std::uint8_t epoch_;
  std::uint32_t nonce_ = 0;
  link::BringUp numbers_{};
  std::deque<Buffer*> kept_;
  std::uint32_t sent_ = 0;
  std::vector<bool> arrived_;   ///< at the other end, by number less one
  std::uint64_t given_up_ = 0;  ///< acknowledged, and had not arrived
  std::array<std::uint32_t, kVcs> last_{};
  End* other_ = nullptr;
  link::Link link_;
};

class Pair {
 public:
  explicit Pair(bool honest)
      : honest_(honest),
        pool_(kBuffers, kRoom),
        ends_{End(1, pool_, honest), End(2, pool_, honest)} {
    ends_[0].meet(ends_[1]);
    ends_[1].meet(ends_[0]);
    for (End& end : ends_) {
      end.link().set_carrier(true, now_);
      end.link().enable(now_);
    }
    pull();
  }
  ~Pair() {
    for (auto& flying : flying_) {
      for (Buffer* frame : flying) give_back(frame);
    }
  }

  /// Epochs come again after 255 bring-ups, and the wire may hold a frame for as long as it likes.
  bool worn_out() const { return ends_[0].bring_ups() > 200 || ends_[1].bring_ups() > 200; }

  void step(Input& in) {
    const std::uint8_t op = in.byte();
    const std::size_t side = op >> 3 & 1;
    switch (op & 7) {
      case 0:
      case 1:
        for (unsigned i = 0; i <= (op >> 4u); ++i) ends_[side].send(in, now_);
        break;
      case 2:
      case 3:
        arrive(side, (op >> 4) + std::size_t{1});
        break;
      case 4:
        disturb(in, side);
        break;
      case 5:
        pass_time(Duration{std::int64_t{in.byte()} << (op >> 4)});
        break;
      case 6:
        for (unsigned i = 0; i <= (op >> 4u); ++i) ends_[side].release(now_);
        break;
      default:
        call_owner(in.byte(), ends_[side].link());
    }
    pull();
    for (const End& end : ends_) end.check();
  }

  /// The wire is well again, everybody consumes: all that is queued arrives, on an honest wire.
  void settle() {
    for (End& end : ends_) {
      end.link().set_carrier(true, now_);
      end.link().enable(now_);
    }
    const int patience = honest_ ? 20'000 : 200;
    for (int i = 0; i < patience && !at_rest(); ++i) go_on();
    if (honest_) {
      require(at_rest(), "an honest wire brings the links to rest");
      for (int i = 0; i < kCreditTold && !(all_credit() && at_rest()); ++i) go_on();
      require(all_credit() && at_rest(), "all credit comes back, and no more");
      require(pool_.available() == pool_.size(), "no buffer is lost");
    }
    end();
  }

 private:
  // Until a credit is told that a loss kept from being told: a keepalive after 10 ms (L23), in
  // steps of go_on().
  static constexpr int kCreditTold = 1'000;

  /// All that flies arrives, all that arrived is consumed, or time passes.
  void go_on() {
    pull();
    for (std::size_t side = 0; side < 2; ++side) {
      while (!flying_[side].empty()) arrive(side, kBurst);
      while (ends_[side].kept() != 0) ends_[side].release(now_);
    }
    pull();
    if (flying_[0].empty() && flying_[1].empty()) pass_time(std::chrono::microseconds(50));
  }

  /// At rest nothing is in the buffers, so that all of them is credit.
  bool all_credit() {
    for (std::size_t side = 0; side < 2; ++side) {
      const auto& capacity = ends_[1 - side].link().config().capacity;
      for (std::uint8_t v = 0; v < kVcs; ++v) {
        if (ends_[side].link().credit(Vc{v}) != capacity[v]) return false;
      }
    }
    return true;
  }

  /// Whatever came before: links that are disabled hold nothing.
  void end() {
    for (End& end : ends_) end.link().disable(now_);
    pull();
    for (std::size_t side = 0; side < 2; ++side) {
      while (!flying_[side].empty()) arrive(side, kBurst);
      while (ends_[side].kept() != 0) ends_[side].release(now_);
    }
    for (const End& end : ends_) end.check();
    require(pool_.available() == pool_.size(), "no buffer is lost when the links end");
  }

  bool at_rest() const { return flying_[0].empty() && flying_[1].empty() && quiet(0) && quiet(1); }
  bool quiet(std::size_t side) const {
    const link::Link& link = const_cast<Pair*>(this)->ends_[side].link();
    return link.usable() && link.queued() == 0 && link.unacknowledged() == 0 &&
           ends_[side].kept() == 0 && link.held() == 0;
  }

  void pass_time(Duration time) {
    now_ += time;
    for (End& end : ends_) {
      for (int i = 0; end.link().expire(now_); ++i) {
        require(i < 1000, "timers come to an end");
        pull();
      }
    }
  }

  void pull() {
    link::FrameOut out;
    for (std::size_t side = 0; side < 2; ++side) {
      for (int i = 0; ends_[side].link().next_frame(now_, out); ++i) {
        require(i < 1000, "one event makes boundedly many frames");
        Buffer* frame = flying_[side].size() < kMostFlying ? pool_.take() : nullptr;
        if (frame == nullptr) continue;  // lost
        frame->length = out.write(frame->data);
        frame->tailroom -= frame->length;
        flying_[side].push_back(frame);
      }
    }
  }

  void arrive(std::size_t from, std::size_t most) {
    std::vector<Buffer*> burst;
    while (!flying_[from].empty() && burst.size() < most) {
      burst.push_back(flying_[from].front());
      flying_[from].pop_front();
    }
    ends_[1 - from].link().receive(burst, now_);
    pull();
  }

  Buffer* copy(const Buffer& frame) {
    Buffer* out = pool_.take();
    if (out == nullptr) return nullptr;
    std::copy(frame.data, frame.data + frame.length, out->data);
    out->length = frame.length;
    out->tailroom -= frame.length;
    return out;
  }

  /// One of the frames on the wire from `side`, or one more.
  void disturb(Input& in, std::size_t side) {
    auto& flying = flying_[side];
    const std::uint8_t what = in.byte();
    if (!honest_ && (what & 4) != 0) return inject(in, side, what >> 3);
    if (flying.empty()) return;
    const std::size_t index = in.byte() % flying.size();
    const auto at = flying.begin() + static_cast<std::ptrdiff_t>(index);
    Buffer* const frame = *at;
    switch (what & 3) {
      case 0:
        give_back(frame);
        flying.erase(at);
        break;
      case 1:
        if (Buffer* twin = copy(*frame)) flying.push_back(twin);
        break;
      case 2:
        flying.erase(at);
        flying.push_back(frame);
        break;
      default:
        // What the Ethernet header says is for the device's check sequence to guard.
        const std::uint32_t bits = (frame->length - link::kEthernetHeader) * 8u;
        if (bits == 0) return;
        const std::uint32_t high = in.byte();
        const std::uint32_t bit = (high << 8 | in.byte()) % bits;
        frame->data[link::kEthernetHeader + bit / 8] ^= std::byte(1u << bit % 8);
    }
  }

  /// `fix`: bit 0 the epoch of the session, bit 1 packet CRC, bit 2 header CRC.
  void inject(Input& in, std::size_t side, unsigned fix) {
    Buffer* frame = pool_.take();
    if (frame == nullptr) return;
    const auto bytes = in.bytes(in.byte() * std::size_t{2});
    const link::Config& from = ends_[side].link().config();
    link::encode_ethernet(ends_[1 - side].link().config().mac, from.mac, link::kDefaultEtherType,
                          frame->data);
    std::copy(bytes.begin(), bytes.end(), frame->data + link::kEthernetHeader);
    frame->length = static_cast<std::uint32_t>(link::kEthernetHeader + bytes.size());
    frame->tailroom -= frame->length;
    if (frame->length >= link::kFrameHeader + link::kMinPacket) repair(*frame, side, fix);
    flying_[side].push_back(frame);
  }

  void repair(Buffer& frame, std::size_t side, unsigned fix) {
    std::byte* header = frame.data + link::kEthernetHeader;
    std::byte* body = frame.data + link::kFrameHeader;
    const std::size_t room = frame.length - link::kFrameHeader;
    const auto kind = static_cast<std::uint8_t>((load8(header) & 0x0F) % link::kKinds);
    if (fix & 1) {
      const link::BringUp& to = ends_[1 - side].numbers();
      store8(header, static_cast<std::uint8_t>(0x10 | kind));
      store8(header + 1, to.epoch);
      if (kind == static_cast<std::uint8_t>(link::Kind::kInit)) store32(body + 4, to.nonce);
      const std::array<std::size_t, link::kKinds> lengths{room, 24, room / 4 * 4, 40, 4};
      store16(header + 2, static_cast<std::uint16_t>(std::min(lengths[kind], room)));
    }
    const std::size_t length = std::min<std::size_t>(load16(header + 2), room);
    if (fix & 2 && kind == 0 && length >= link::kMinPacket) {
      store32(body + length - link::kPacketCrc, link::packet_crc({body, length}));
    }
    if (fix & 4) {
      const std::size_t covered = kind == 0 ? std::min(length, link::kNetworkHeader) : length;
      store32(header + 12, crc32c_short({header, 12}, {body, covered}));
    }
  }

  void call_owner(std::uint8_t what, link::Link& link) {
    switch (what & 3) {
      case 0:
        link.enable(now_);
        break;
      case 1:
        link.disable(now_);
        break;
      default:
        link.set_carrier((what & 1) != 0, now_);
    }
  }

  bool honest_;
  HeapPool pool_;
  std::array<End, 2> ends_;
  std::array<std::deque<Buffer*>, 2> flying_;  ///< by end that sent
  Time now_{};
};

}  // namespace
}  // namespace mtl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  mtl::fuzz::Input in(data + 1, size - 1);
  mtl::Pair pair((data[0] & 1) == 0);
  while (!in.empty() && !pair.worn_out()) pair.step(in);
  pair.settle();
  return 0;
}
