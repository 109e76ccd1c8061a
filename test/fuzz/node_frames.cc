// A node between two peers that send anything: frames of any bytes, with checksums put right or
// not, mixed with the owner's calls and the passing of time. The books of the node balance at any
// moment, and no buffer is lost.

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "base/heap_pool.h"
#include "input.h"
#include "network/node.h"

namespace mtl {
namespace {

constexpr std::uint32_t kRoom = 1100;  // above the longest frame that receive() makes
constexpr std::uint32_t kBuffers = 320;
constexpr std::size_t kBurst = 32;  // as the real loop's
constexpr std::uint16_t kPorts = 2;
constexpr std::uint16_t kSelf = 7;

using fuzz::Input;
using fuzz::require;

network::NodeConfig config() {
  network::NodeConfig node;
  node.node = NodeId{kSelf};
  node.own_limit = 8;
  for (std::uint16_t p = 0; p < kPorts; ++p) {
    network::PortConfig port;
    port.link.node = node.node;
    port.link.port = PortId{p};
    port.link.mtu = 512;
    port.link.window = 16;
    port.link.mark_bytes = p;
    if (p == 1) port.edge = network::Edge{{NodeId{9}}, {Partition{0}}};
    node.ports.push_back(port);
  }
  return node;
}

class Fuzzed final : private network::ShardOwner {
 public:
  Fuzzed() : pool_(kBuffers, kRoom), node_(config()), shard_(node_, ShardId{0}, pool_, *this) {
    const std::vector<network::Route> routes{
        {NodeId{8}, {{{PortId{0}, 0}, {PortId{1}, 1}}, {{PortId{1}, 1}}}},
        {NodeId{9}, {{{PortId{1}, 0}}}}};
    auto table = network::RouteTable::build(routes, kPorts);
    require(static_cast<bool>(table), "the routes are good");
    table_ = std::move(*table);
    shard_.set_table(&table_);
    for (std::uint16_t p = 0; p < kPorts; ++p) {
      shard_.set_carrier(PortId{p}, true, now_);
      shard_.enable(PortId{p}, now_);
    }
  }

  ~Fuzzed() {
    hand_over();
    while (!kept_.empty()) release();
  }

  void step(Input& in) {
    const std::uint8_t op = in.byte();
    const PortId port{static_cast<std::uint16_t>(op >> 3 & 1)};
    switch (op & 7) {
      case 4:
        submit(in);
        break;
      case 5:
        now_ += Duration{std::int64_t{in.byte()} << (op >> 4)};
        break;
      case 6:
        if (!kept_.empty()) release();
        break;
      case 7:
        call_owner(in.byte(), port);
        break;
      default:
        receive(in, port, op >> 4);
        if ((op & 3) == 3 && burst_.size() < kBurst) return;  // more come with it
    }
    hand_over();
    pull();
    while (shard_.expire(now_)) pull();
    check_books();
  }

 private:
  void delivered(Buffer* packet, PortId, Vc) override { kept_.push_back(packet); }
  void answered(const Buffer&, PortId, Vc) override {}
  void pass(ShardId, Buffer*) override { require(false, "one shard passes nothing on"); }
  link::BringUp bring_up(PortId port, std::uint8_t last) override {
    const auto epoch = static_cast<std::uint8_t>(last % 255 + 1);
    ours_[port.value()] = {0x01010101U * epoch, epoch};
    return ours_[port.value()];
  }
  void link_changed(PortId) override {}

  void release() {
    Buffer* packet = kept_.front();
    kept_.pop_front();
    shard_.release(packet, now_);
  }

  /// `fix`: bit 0 what a peer of this session would write, bit 1 packet CRC, bit 2 header CRC.
  void receive(Input& in, PortId port, std::uint8_t fix) {
    Buffer* frame = pool_.take();
    if (frame == nullptr) return;
    const auto bytes = in.bytes(in.byte() * std::size_t{4});
    std::byte* out = frame->data;
    link::encode_ethernet({}, {std::byte{2}, std::byte{0xEE}}, link::kDefaultEtherType, out);
    std::copy(bytes.begin(), bytes.end(), out + link::kEthernetHeader);
    frame->length = static_cast<std::uint32_t>(link::kEthernetHeader + bytes.size());
    frame->tailroom -= frame->length;
    if (frame->length >= link::kFrameHeader + link::kMinPacket) repair(*frame, port, fix);
    if (port != burst_port_) hand_over();
    burst_port_ = port;
    burst_.push_back(frame);
  }

  void hand_over() {
    shard_.receive(burst_port_, burst_, now_);
    burst_.clear();
  }

  void repair(Buffer& frame, PortId port, std::uint8_t fix) {
    std::byte* header = frame.data + link::kEthernetHeader;
    std::byte* body = frame.data + link::kFrameHeader;
    const std::size_t room = frame.length - link::kFrameHeader;
    const auto kind = static_cast<std::uint8_t>(load8(header) & 0x0F);
    const bool data = kind == 0;
    if (fix & 1) {
      store8(header, static_cast<std::uint8_t>(0x10 | kind % link::kKinds));
      store8(header + 1, ours_[port.value()].epoch);
      if (kind == 3) store32(body + 4, ours_[port.value()].nonce);
      const std::array<std::size_t, link::kKinds> lengths{room, 24, room / 4 * 4, 40, 4};
      store16(header + 2, static_cast<std::uint16_t>(lengths[kind % link::kKinds]));
    }
    const std::size_t length = std::min<std::size_t>(load16(header + 2), room);
    if (fix & 2 && data && length >= link::kMinPacket) {
      store32(body + length - 4, crc32c({body + 2, length - 6}));
    }
    if (fix & 4) {
      const std::size_t covered = data ? link::kNetworkHeader : length;
      store32(header + 12, crc32c_short({header, 12}, {body, covered}));
    }
  }

  void submit(Input& in) {
    Buffer* packet = pool_.take();
    if (packet == nullptr) return;
    const std::uint8_t choice = in.byte();
    const network::Header header{.packet_class = static_cast<std::uint8_t>(choice & 1),
                                 .proto = static_cast<std::uint8_t>(choice >> 1 & 3),
                                 .dst = NodeId{static_cast<std::uint16_t>(7 + (choice >> 3 & 3))},
                                 .src = NodeId{kSelf},
                                 .entropy = in.byte()};
    network::make_packet(*packet, header, in.bytes(in.byte()));
    if (shard_.submit(packet, now_) == network::Submit::kQueueFull) give_back(packet);
  }

  void call_owner(std::uint8_t what, PortId port) {
    switch (what & 3) {
      case 0:
        shard_.enable(port, now_);
        break;
      case 1:
        shard_.disable(port, now_);
        break;
      default:
        shard_.set_carrier(port, what & 1, now_);
    }
  }

  void pull() {
    link::FrameOut frame;
    for (std::uint16_t p = 0; p < kPorts; ++p) {
      unsigned frames = 0;
      while (shard_.next_frame(PortId{p}, now_, frame)) {
        // A window sent anew, as many fresh ones, and a few of each other kind.
        require(++frames < 1000, "one event makes boundedly many frames");
        require(frame.length() >= link::kMinFrame, "a frame has its least length (P4)");
      }
    }
  }

  void check_books() {
    const network::ShardCounters& c = shard_.counters();
    std::uint64_t dropped = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(Drop::kCount); ++i) {
      const auto reason = static_cast<Drop>(i);
      if (info(reason).layer == DropLayer::kNetwork) dropped += c.drops.get(reason);
    }
    require(c.accepted.get() + c.made.get() ==
                c.acked.get() + c.delivered.get() + dropped + shard_.held(),
            "the books balance");
    // Frames held early may be poisoned places, which have no buffer (L12).
    const std::uint64_t known = pool_.available() + shard_.held() + kept_.size();
    require(known <= pool_.size() && known + held_early() >= pool_.size(),
            "every buffer is in one place");
  }

  std::uint64_t held_early() const {
    std::uint64_t n = 0;
    for (std::uint16_t p = 0; p < kPorts; ++p) n += shard_.link(PortId{p})->held();
    return n;
  }

  HeapPool pool_;
  network::Node node_;
  network::RouteTable table_;
  std::array<link::BringUp, kPorts> ours_{};
  std::deque<Buffer*> kept_;
  std::vector<Buffer*> burst_;  ///< arrived, and not yet given to the link
  PortId burst_port_{0};
  Time now_{};
  network::Shard shard_;
};

}  // namespace
}  // namespace mtl

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mtl::Input in(data, size);
  mtl::Fuzzed fuzzed;
  while (!in.empty()) fuzzed.step(in);
  return 0;
}
