#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "base/heap_pool.h"
#include "transport/operation.h"
#include "transport/transport.h"

namespace mtl::transport::test {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

inline constexpr NodeId kUs{9};
inline constexpr NodeId kPeerNode{7};
inline constexpr EndpointId kOurEndpoint{18};
inline constexpr EndpointId kPeerEndpoint{17};
inline constexpr Partition kPartition{3};
inline constexpr std::uint32_t kOurId = 0xA1B2C3D4;
inline constexpr std::uint32_t kPeerId = 0x5EED0001;
inline constexpr std::uint32_t kOurPsn = 0x2000;       ///< the first that we send
inline constexpr std::uint32_t kPeerPsn = 0x10000001;  ///< E at first

/// A packet that the transport made, taken apart by hand: not by the decoder under test.
struct Sent {
  Bytes bytes;
  Time at{};
  std::uint8_t at8(std::size_t i) const { return std::to_integer<std::uint8_t>(bytes.at(i)); }
  std::uint16_t at16(std::size_t i) const {
    return static_cast<std::uint16_t>(at8(i) << 8 | at8(i + 1));
  }
  std::uint32_t at32(std::size_t i) const {
    return static_cast<std::uint32_t>(at16(i)) << 16 | at16(i + 2);
  }
  std::uint64_t at64(std::size_t i) const {
    return static_cast<std::uint64_t>(at32(i)) << 32 | at32(i + 4);
  }
  int packet_class() const { return at8(2) >> 4; }
  std::uint16_t dst() const { return at16(4); }
  std::uint16_t entropy() const { return at16(8); }
  std::uint16_t partition() const { return at16(10); }
  Type type() const { return static_cast<Type>(at8(12) >> 4); }
  int flags() const { return at8(12) & 0x0F; }
  bool asks() const { return (flags() & 4) != 0; }
  bool of_response() const { return (flags() & 1) != 0; }
  int window() const { return at8(13); }
  std::uint16_t marks() const { return at16(14); }
  std::uint32_t connection() const { return at32(16); }
  std::uint32_t psn() const { return at32(20); }
  std::uint32_t ack() const { return at32(24); }
  std::size_t body() const { return bytes.size() - 32; }
  std::uint32_t open_id() const { return at32(28); }
  std::uint16_t open_mtu() const { return at16(36); }
  std::uint64_t open_key() const { return at64(56); }
  int reason() const { return at8(28); }  ///< of a REJECT or CLOSE
  std::uint32_t reject_id() const { return at32(32); }
  std::uint32_t held() const { return at32(28); }  ///< of an ACK
  std::vector<std::uint32_t> arrived() const {     ///< PSNs of the bitmap
    std::vector<std::uint32_t> psns;
    for (std::uint32_t i = 0; i < (body() - 4) * 8; ++i) {
      if ((at32(32 + i / 32 * 4) >> i % 32 & 1) != 0) psns.push_back(ack() + i);
    }
    return psns;
  }
};

/// Operations by hand: what it is told to send it sends, what comes it notes.
class ScriptedOperations final : public OperationLayer {
 public:
  struct Came {
    Flow flow;
    std::uint32_t psn;
    Bytes body;
    bool early;
  };
  std::deque<Bytes> waiting[kFlows];  ///< bodies of DATA to be sent
  bool unordered = false;             ///< sent so
  std::vector<Came> came;
  std::deque<Executed> verdicts;  ///< of what executes next; kAll when none is left
  bool early = true;              ///< what is unordered executes before its turn
  std::vector<std::uint32_t> acknowledged_psns, passed_psns, dropped_psns;
  int begins = 0, ups = 0, ends = 0;
  std::uint32_t report_at = 0;  ///< the PSN of ours that holds the REPORT; 0: none

  std::uint32_t begun(const Connection&) override {
    ++begins;
    return 64;
  }
  void up(Connection&) override { ++ups; }
  void ended(Connection&, Time) override { ++ends; }
  bool waits(const Connection&, Flow flow, Time) const override {
    return !waiting[static_cast<std::size_t>(flow)].empty();
  }
  Time ready_at(const Connection&) const override { return kNever; }
  bool fill(Connection&, Flow flow, PacketSlot& slot, std::size_t room, Time) override {
    auto& queue = waiting[static_cast<std::size_t>(flow)];
    if (queue.empty()) return false;
    EXPECT_LE(queue.front().size(), room);
    std::memcpy(slot.image_space().data(), queue.front().data(), queue.front().size());
    slot.image_size = slot.body_size = static_cast<std::uint16_t>(queue.front().size());
    slot.operations = 1;
    slot.unordered = unordered;
    queue.pop_front();
    return true;
  }
  Executed execute(Connection&, Flow flow, const DataBody& body, Time) override {
    came.push_back({flow, body.psn.value(), {body.bytes.begin(), body.bytes.end()}, false});
    if (verdicts.empty()) return Executed::kAll;
    const Executed verdict = verdicts.front();
    verdicts.pop_front();
    return verdict;
  }
  bool execute_early(Connection&, const DataBody& body, Time) override {
    if (!early) return false;
    came.push_back(
        {Flow::kRequest, body.psn.value(), {body.bytes.begin(), body.bytes.end()}, true});
    return true;
  }
  void acknowledged(Connection& c, Flow, PacketSlot& slot, Time) override {
    acknowledged_psns.push_back(slot.psn.value());
    if (slot.psn.value() == report_at) c.report_acknowledged();
  }
  void passed(Connection&, Flow, PacketSlot& slot, Time) override {
    passed_psns.push_back(slot.psn.value());
  }
  void dropped(Connection&, Flow, PacketSlot& slot) override {
    dropped_psns.push_back(slot.psn.value());
  }
  std::vector<std::uint32_t> executed() const {
    std::vector<std::uint32_t> psns;
    for (const Came& c : came) psns.push_back(c.psn);
    return psns;
  }
};

/// The words that a test wants drawn, then others that differ.
class ListedWords final : public RandomWords {
 public:
  std::deque<std::uint64_t> words;
  std::uint64_t draw() override {
    if (words.empty()) return ++other_ * 0x9E3779B97F4A7C15;
    const std::uint64_t word = words.front();
    words.pop_front();
    return word;
  }

 private:
  std::uint64_t other_ = 0;
};

inline Settings base_settings() {
  Settings s;
  s.node = kUs;
  return s;
}

/// A body of one operation: WRITE of no bytes, its key telling it apart.
inline Bytes write_of(std::uint8_t which) {
  Bytes b(20);
  b[0] = std::byte{1};
  b[11] = std::byte{which};
  return b;
}
/// RESULT of no bytes, for a response flow.
inline Bytes result_of(std::uint8_t which) {
  Bytes b(8);
  b[0] = std::byte{16};
  b[7] = std::byte{which};
  return b;
}

/// One transport, which `Subject` makes, with a scripted peer. Time is set by hand; packets are
/// pulled after each event.
template <class Subject>
class HarnessWith {
 public:
  /// The subject is made of settings, random words, and `more`.
  template <class... More>
  explicit HarnessWith(const Settings& settings, const More&... more)
      : pool(8, 65000), subject(settings, words, more...), transport(subject.transport()) {
    EXPECT_EQ(fault(settings), nullptr);
    words.words.push_back(std::uint64_t{kOurPsn} << 32 | kOurId);
    EXPECT_TRUE(transport.add_endpoint(kOurEndpoint, {.accepts = true}));
  }

  // ---- the peer's packets ----
  struct Origin {
    NodeId node = kPeerNode;
    Partition partition = kPartition;
    EndpointId endpoint = kPeerEndpoint;
    EndpointId to = kOurEndpoint;
  };
  Origin origin;
  std::uint32_t peer_id = kPeerId;
  std::uint32_t our_psn = kOurPsn;
  std::uint8_t peer_window = 8;
  std::uint16_t peer_mtu = 4096;
  std::uint16_t peer_reads = 64;
  std::uint32_t peer_messages = 64;
  std::uint32_t peer_eager = 16384;
  std::uint64_t open_key = 0;

  Bytes packet(int packet_class, int type, int flags, std::uint32_t connection, std::uint32_t psn,
               std::uint32_t ack, const Bytes& body, std::uint16_t marks = 0,
               bool ce = false) const {
    Bytes p(32 + body.size());
    network::encode({.flags = static_cast<std::uint8_t>(ce ? 1 : 0),
                     .packet_class = static_cast<std::uint8_t>(packet_class),
                     .proto = 1,
                     .dst = kUs,
                     .src = origin.node,
                     .partition = origin.partition},
                    p.data());
    p[12] = static_cast<std::byte>(type << 4 | flags);
    p[13] = std::byte{type == 2 || type == 5 ? std::uint8_t{0} : peer_window};
    store16(p.data() + 14, marks);
    store32(p.data() + 16, connection);
    store32(p.data() + 20, psn);
    store32(p.data() + 24, ack);
    std::copy(body.begin(), body.end(), p.begin() + 28);
    network::seal(p);
    return p;
  }
  void deliver(const Bytes& packet) {
    transport.receive(packet, now);
    pull();
  }
  /// An OPEN with `connection` (0: the first).
  void open(std::uint32_t connection, bool ask) {
    Bytes body(36);
    store32(body.data(), peer_id);
    store16(body.data() + 4, origin.endpoint.value());
    store16(body.data() + 6, origin.to.value());
    store16(body.data() + 8, peer_mtu);
    store16(body.data() + 10, peer_reads);
    store32(body.data() + 12, kPeerPsn);
    store32(body.data() + 16, peer_messages);
    store32(body.data() + 20, peer_eager);
    store64(body.data() + 28, open_key);
    deliver(packet(connection == 0 ? 0 : 1, 1, ask ? 4 : 0, connection, 0, 0, body));
  }
  void reject(std::uint32_t connection, int reason, std::uint32_t id) {
    Bytes body(8);
    body[0] = static_cast<std::byte>(reason);
    store32(body.data() + 4, id);
    deliver(packet(1, 2, 0, connection, 0, 0, body));
  }
  void close(int reason, std::uint32_t connection = kOurId) {
    Bytes body(4);
    body[0] = static_cast<std::byte>(reason);
    deliver(packet(1, 5, 0, connection, 0, 0, body));
  }
  /// DATA `n` of the peer, counted from 0, on its request flow or response flow.
  void data(Flow flow, std::uint32_t n, const Bytes& body, int flags = 0, std::uint32_t acked = 0,
            bool ce = false, std::uint16_t marks = 0) {
    deliver(packet(flow == Flow::kRequest ? 0 : 1, 3, flags, kOurId, kPeerPsn + n, our_psn + acked,
                   body, marks, ce));
  }
  void request(std::uint32_t n, int flags = 0, std::uint32_t acked = 0, bool ce = false) {
    data(Flow::kRequest, n, write_of(static_cast<std::uint8_t>(n)), flags, acked, ce);
  }
  /// An ACK: `acked` of ours have been executed, and those of `bits`, counted from there, arrived.
  void ack(std::uint32_t acked, std::initializer_list<std::uint32_t> bits = {},
           std::uint32_t last = 0, std::uint32_t held = kHeldNone, int flags = 0,
           std::uint16_t marks = 0) {
    Bytes body(4);
    store32(body.data(), held);
    for (const std::uint32_t bit : bits) {
      const std::size_t at = 4 + bit / 32 * 4;
      if (body.size() < at + 4) body.resize(at + 4);
      store32(body.data() + at, load32(body.data() + at) | std::uint32_t{1} << bit % 32);
    }
    deliver(packet(1, 4, flags, kOurId, our_psn + last, our_psn + acked, body, marks));
  }

  // ---- the owner's side ----
  /// UP as the one that was opened; what was sent is forgotten.
  void accept() {
    open(0, true);
    open(0, true);  // answered twice: no sample of the round trip (T19)
    open(kOurId, false);
    ASSERT_EQ(connection().state(), State::kUp);
    ack(0);
    sent.clear();
  }
  ConnectionHandle open_here(std::uint64_t key = 0) {
    const auto handle =
        transport.open(kOurEndpoint, {kPeerNode, kPeerEndpoint, kPartition}, key, now);
    EXPECT_TRUE(handle) << handle.error().message;
    pull();
    return handle ? *handle : ConnectionHandle{};
  }
  const Connection& connection() {
    const Connection* c = transport.find(ConnectionHandle{0, ConnectionId{kOurId}});
    static const Connection* none = nullptr;
    EXPECT_NE(c, none);
    return *c;
  }
  Connection& mutable_connection() {
    return *transport.find(ConnectionHandle{0, ConnectionId{kOurId}});
  }
  void touch() {
    transport.touch(mutable_connection(), now);
    pull();
  }
  /// Lets time pass to `to`, expiring what is due at its own time.
  void run_to(Time to) {
    while (transport.next_deadline() <= to) {
      now = std::max(now, transport.next_deadline());
      transport.expire(now);
      pull();
    }
    now = to;
  }
  void run_for(Duration d) { run_to(now + d); }
  void pull() {
    for (;;) {
      Buffer* b = pool.take();
      if (room == 0 || !transport.next_packet(*b, now)) {
        give_back(b);
        break;
      }
      Sent s;
      s.bytes.assign(b->data, b->data + b->length);
      s.at = now;
      EXPECT_TRUE(link::packet_crc_ok(s.bytes));
      sent.push_back(s);
      give_back(b);
      if (room > 0) --room;
    }
    if (room != 0) {
      EXPECT_FALSE(transport.wants_to_send());
    }
    const auto& c = transport.counters();
    std::uint64_t dropped = 0;
    for (std::size_t i = 0; i < kDropInfo.size(); ++i) {
      if (kDropInfo[i].layer == DropLayer::kTransport) dropped += c.drops.get(static_cast<Drop>(i));
    }
    EXPECT_EQ(c.packets_in.get(), c.taken.get() + dropped);
  }
  std::uint64_t drops(Drop reason) const { return transport.counters().drops.get(reason); }
  std::vector<ConnectionEvent> events() {
    std::vector<ConnectionEvent> all;
    ConnectionEvent e;
    while (transport.next_event(e)) all.push_back(e);
    return all;
  }
  /// Types of what was sent.
  std::string types() {
    std::string all;
    for (const Sent& s : sent) all += (all.empty() ? "" : " ") + std::string(name(s.type()));
    return all;
  }
  std::vector<Sent> data_sent() const {
    std::vector<Sent> all;
    for (const Sent& s : sent) {
      if (s.type() == Type::kData) all.push_back(s);
    }
    return all;
  }

  HeapPool pool;
  ListedWords words;
  Subject subject;
  Transport& transport;
  Time now{1us};
  std::vector<Sent> sent;
  int room = -1;  ///< packets that still may leave; below 0: any number
};

/// The transport alone, with scripted operations.
class Delivery {
 public:
  Delivery(const Settings& settings, RandomWords& words)
      : transport_(settings, words, operations) {}
  Transport& transport() { return transport_; }
  ScriptedOperations operations;

 private:
  Transport transport_;
};

class Harness final : public HarnessWith<Delivery> {
 public:
  explicit Harness(const Settings& settings = base_settings())
      : HarnessWith(settings), operations(subject.operations) {}
  ScriptedOperations& operations;

  /// `count` DATA of ours, which leave as far as they may.
  void post(std::uint32_t count, Flow flow = Flow::kRequest) {
    for (std::uint32_t i = 0; i < count; ++i) {
      operations.waiting[static_cast<std::size_t>(flow)].push_back(
          flow == Flow::kRequest ? write_of(static_cast<std::uint8_t>(i))
                                 : result_of(static_cast<std::uint8_t>(i)));
    }
    touch();
  }
};

}  // namespace mtl::transport::test
