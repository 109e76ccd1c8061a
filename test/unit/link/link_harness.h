#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/heap_pool.h"
#include "link/link.h"
#include "network/packet.h"

namespace mtl::link::test {

using namespace std::chrono_literals;

inline constexpr std::uint32_t kOurNonce = 0x11111111;
inline constexpr std::uint32_t kPeerNonce = 0x22222222;
inline constexpr std::uint8_t kOurEpoch = 17;
inline constexpr std::uint8_t kPeerEpoch = 53;

inline Mac mac(std::uint8_t last) {
  return {std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{last}};
}

/// A frame that the link made, taken apart by hand: not by the decoder under test.
struct Sent {
  std::vector<std::byte> bytes;
  std::uint8_t at8(std::size_t i) const { return std::to_integer<std::uint8_t>(bytes.at(i)); }
  std::uint16_t at16(std::size_t i) const {
    return static_cast<std::uint16_t>(at8(i) << 8 | at8(i + 1));
  }
  std::uint32_t at32(std::size_t i) const {
    return static_cast<std::uint32_t>(at16(i)) << 16 | at16(i + 2);
  }
  Kind kind() const { return static_cast<Kind>(at8(14) & 0x0F); }
  std::uint8_t epoch() const { return at8(15); }
  std::uint16_t length() const { return at16(16); }
  std::uint16_t seq() const { return at16(18); }
  std::uint16_t ack() const { return at16(20); }
  std::uint8_t vc() const { return static_cast<std::uint8_t>(at8(22) >> 4); }
  std::uint8_t credit_vc() const { return at8(22) & 0x0F; }
  std::uint8_t flags() const { return at8(23); }
  std::uint16_t credit() const { return at16(24); }
  std::uint16_t allocation(std::size_t v) const { return at16(30 + 2 * v); }
  std::vector<std::pair<int, int>> ranges() const {
    std::vector<std::pair<int, int>> r;
    for (std::size_t i = 0; i < length() / 4U; ++i)
      r.emplace_back(at16(30 + 4 * i), at16(32 + 4 * i));
    return r;
  }
};

/// One link with a scripted peer. Time is set by hand; the link's frames are pulled after each
/// event.
class Harness final : private Owner {
 public:
  explicit Harness(Config config = base_config())
      : pool(4096, 4500), link(config, *this), config_(config) {}
  ~Harness() = default;

  static Config base_config() {
    Config c;
    c.node = NodeId{7};
    c.port = PortId{0};
    c.mac = mac(0xDD);
    c.mtu = 256;
    c.cell = 64;
    c.window = 64;
    c.capacity.fill(8);
    c.timers.replay_limit = 8;
    return c;
  }
  static Init peer_init() {
    Init init;
    init.nonce = kPeerNonce;
    init.node = NodeId{20};
    init.mtu = 256;
    init.epoch = kPeerEpoch;
    init.cell = 64;
    init.window = 64;
    init.capacity.fill(8);
    return init;
  }

  // ---- the peer's frames ----
  void deliver_bytes(const std::vector<std::byte>& frame) {
    Buffer* b = pool.take();
    ASSERT_NE(b, nullptr);
    std::memcpy(b->data, frame.data(), frame.size());
    b->length = static_cast<std::uint32_t>(frame.size());
    b->tailroom -= b->length;
    link.receive(b, now);
    pull();
  }
  std::vector<std::byte> frame(Header header, const std::vector<std::byte>& body) const {
    std::vector<std::byte> f(std::max<std::size_t>(60, 30 + body.size()));
    header.length = static_cast<std::uint16_t>(body.size());
    encode_ethernet(mac(0xDD), peer_mac, kDefaultEtherType, f.data());
    encode(header, body, f.data() + 14);
    std::memcpy(f.data() + 30, body.data(), body.size());
    return f;
  }
  void init(const Init& init) {
    std::vector<std::byte> body(kInitBody);
    encode(init, body.data());
    deliver_bytes(frame({.kind = Kind::kInit}, body));
  }
  void status(std::uint16_t ack, std::uint16_t allocation, std::uint16_t seq = 0,
              std::uint8_t flags = 0) {
    std::array<std::uint16_t, 8> all;
    all.fill(allocation);
    status_of(ack, all, seq, flags);
  }
  void status_of(std::uint16_t ack, const std::array<std::uint16_t, 8>& allocation,
                 std::uint16_t seq = 0, std::uint8_t flags = 0, std::uint32_t t_tx = 0,
                 std::uint32_t t_echo = 0) {
    Status s{.t_tx = t_tx, .t_echo = t_echo};
    for (std::size_t v = 0; v < 8; ++v) s.allocation[v] = CellCount{allocation[v]};
    std::vector<std::byte> body(kStatusBody);
    encode(s, body.data());
    deliver_bytes(frame(
        {.kind = Kind::kStatus, .epoch = epoch, .seq = Seq{seq}, .ack = Seq{ack}, .flags = flags},
        body));
  }
  void nack(std::uint16_t ack, std::initializer_list<NackRange> ranges, std::uint16_t seq = 0) {
    std::vector<std::byte> body(ranges.size() * 4);
    encode(std::vector<NackRange>(ranges), body.data());
    deliver_bytes(
        frame({.kind = Kind::kNack, .epoch = epoch, .seq = Seq{seq}, .ack = Seq{ack}}, body));
  }
  void close(CloseReason reason) {
    std::vector<std::byte> body(4);
    body[0] = std::byte{static_cast<std::uint8_t>(reason)};
    deliver_bytes(frame({.kind = Kind::kClose, .epoch = epoch}, body));
  }
  std::vector<std::byte> packet(std::size_t length, std::uint8_t fill = 0) const {
    std::vector<std::byte> p(length, std::byte{fill});
    network::encode(network::Header{.proto = 1, .dst = NodeId{7}, .src = NodeId{20}}, p.data());
    network::seal(p);
    return p;
  }
  void data(std::uint16_t seq, std::uint16_t ack = 0, std::uint8_t vc = 0, std::size_t length = 48,
            bool good = true, std::uint8_t credit_vc = kNoCreditVc, std::uint16_t credit = 0) {
    auto p = packet(length, static_cast<std::uint8_t>(seq));
    if (!good) p[14] ^= std::byte{1};  // behind what the header CRC covers
    deliver_bytes(frame({.kind = Kind::kData,
                         .epoch = epoch,
                         .seq = Seq{seq},
                         .ack = Seq{ack},
                         .vc = Vc{vc},
                         .credit_vc = credit_vc,
                         .credit = CellCount{credit}},
                        p));
  }

  // ---- the owner's side ----
  void enable() {
    link.set_carrier(true, now);
    link.enable(now);
    pull();
  }
  /// To UP and heard, with `limit` cells of credit for each VC; what was sent is forgotten.
  void come_up(std::uint16_t limit = 8) {
    enable();
    Init i = peer;
    i.peer_nonce = nonce();
    init(i);
    status(0, limit);
    sent.clear();
    ASSERT_EQ(link.state(), State::kUp);
  }
  Buffer* make(std::uint8_t vc = 0, std::size_t length = 48, std::uint8_t fill = 0) {
    Buffer* b = pool.take();
    const auto p = packet(length, fill);
    std::memcpy(b->data, p.data(), p.size());
    b->length = static_cast<std::uint32_t>(length);
    b->notes.egress_vc = Vc{vc};
    return b;
  }
  void submit(std::uint8_t vc = 0, std::size_t length = 48, std::uint8_t fill = 0) {
    link.submit(make(vc, length, fill), now);
    pull();
  }
  /// Frees the cells of the oldest delivered packet and gives its buffer back.
  void consume() {
    Buffer* b = delivered.front();
    delivered.pop_front();
    link.release(b->notes.ingress_vc, b->notes.ingress_cells, now);
    give_back(b);
    pull();
  }
  /// Lets time pass to `to`, firing timers one by one at their own times.
  void run_to(Time to) {
    for (;;) {
      const Time at = link.next_deadline();
      if (at > to) break;
      now = std::max(now, at);
      while (link.expire(now)) pull();
    }
    now = to;
  }
  void run_for(Duration d) { run_to(now + d); }
  void pull() {
    FrameOut out;
    while (link.next_frame(now, out)) {
      Sent s;
      s.bytes.resize(out.length());
      out.write(s.bytes.data());
      sent.push_back(s);
      sent_at.push_back(now);
    }
    EXPECT_FALSE(link.wants_to_send());  // nothing left that a port would be asked for
  }
  std::uint32_t nonce() const { return kOurNonce + bring_ups - 1; }
  std::uint64_t drops(Drop reason) const { return link.counters().drops.get(reason); }
  std::string kinds() const {
    std::string all;
    for (const Sent& s : sent) all += (all.empty() ? "" : " ") + std::string(name(s.kind()));
    return all;
  }

  // ---- Owner ----
  void packets_in(PortId, std::span<Buffer* const> packets) override {
    delivered.insert(delivered.end(), packets.begin(), packets.end());
  }
  void packets_acked(PortId, std::span<Buffer* const> packets) override {
    for (const Buffer* p : packets) acked.push_back(std::to_integer<int>(p->data[20]));
    give_back(packets);
  }
  void packet_back(PortId, Buffer* p) override {
    back.push_back(std::to_integer<int>(p->data[20]));
    give_back(p);
  }
  void link_changed(PortId) override { ++changes; }
  BringUp bring_up(PortId, std::uint8_t) override {
    ++bring_ups;
    return {kOurNonce + bring_ups - 1, static_cast<std::uint8_t>(kOurEpoch + bring_ups - 1)};
  }

  HeapPool pool;
  Link link;
  Time now{1us};
  Mac peer_mac = mac(0xEE);
  Init peer = peer_init();
  std::uint8_t epoch = kOurEpoch;  ///< what the peer puts into its frames
  std::vector<Sent> sent;
  std::vector<Time> sent_at;
  std::deque<Buffer*> delivered;
  std::vector<int> acked, back;  ///< fill bytes of the packets
  unsigned bring_ups = 0;
  int changes = 0;

 private:
  Config config_;
};

}  // namespace mtl::link::test
