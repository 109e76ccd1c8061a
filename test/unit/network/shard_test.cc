// A node's forwarding, rule by rule: N1 to N13, on one shard and over two. Links come up between
// the node under test and scripted neighbours that are nodes themselves; the wire is a function
// call.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "base/byte_order.h"
#include "base/heap_pool.h"
#include "network/node.h"

namespace mtl::network::test {
namespace {

using namespace std::chrono_literals;

link::Config link_config(std::uint16_t node, std::uint16_t port) {
  link::Config c;
  c.node = NodeId{node};
  c.port = PortId{port};
  c.mac = {std::byte{2},
           std::byte{0},
           std::byte{0},
           std::byte{0},
           std::byte{static_cast<std::uint8_t>(node)},
           std::byte{static_cast<std::uint8_t>(port)}};
  c.mtu = 512;
  c.cell = 64;
  c.capacity.fill(16);
  c.timers.dead_interval = 10s;
  c.timers.keepalive_interval = 5s;
  return c;
}

struct Delivery {
  std::vector<std::byte> bytes;
  PortId port;
  Vc vc;
};

/// A node with its shards, whose owner keeps what is delivered until release_all().
class TestNode : public ShardOwner {
 public:
  TestNode(std::uint16_t id, std::size_t ports, std::size_t shard_count = 1,
           void (*change)(NodeConfig&) = nullptr)
      : pool(2000, 1024) {
    NodeConfig c;
    c.node = NodeId{id};
    c.shards = shard_count;
    for (std::uint16_t p = 0; p < ports; ++p) {
      c.ports.push_back(
          {link_config(id, p), std::nullopt, ShardId{static_cast<std::uint8_t>(p % shard_count)}});
    }
    if (change != nullptr) change(c);
    node = std::make_unique<Node>(c);
    for (std::uint8_t s = 0; s < shard_count; ++s) {
      shards.push_back(std::make_unique<Shard>(*node, ShardId{s}, pool, *this));
    }
  }
  virtual ~TestNode() = default;

  /// The shard of a port, to be called.
  Shard& of(PortId port) { return call(node->owner(port)); }
  Shard& call(ShardId id) {
    calling = id;
    return *shards[id.value()];
  }
  void routes(std::vector<Route> list) {
    auto built = RouteTable::build(list, node->config().ports.size());
    ASSERT_TRUE(built) << built.error().message;
    table = std::move(*built);
    for (auto& s : shards) s->set_table(&table);
  }
  std::uint64_t drops(Drop reason) const {
    std::uint64_t n = 0;
    for (const auto& s : shards) n += s->counters().drops.get(reason);
    return n;
  }
  void expect_books() const {
    for (const auto& s : shards) {
      const ShardCounters& c = s->counters();
      std::uint64_t dropped = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(Drop::kCount); ++i) {
        if (kDropInfo[i].layer == DropLayer::kNetwork) dropped += c.drops.get(static_cast<Drop>(i));
      }
      EXPECT_EQ(c.accepted.get() + c.made.get() + c.passed_in.get(),
                c.acked.get() + c.delivered.get() + dropped + c.passed_out.get() + s->held());
    }
  }

  void delivered(Buffer* packet, PortId port, Vc vc) override {
    got.push_back({{packet->bytes().begin(), packet->bytes().end()}, port, vc});
    kept.push_back(packet);
  }
  void answered(const Buffer& request, PortId port, Vc vc) override {
    answers.push_back({{request.bytes().begin(), request.bytes().end()}, port, vc});
  }
  void own_dropped(EchoType type, const Buffer& packet) override {
    dropped_here.emplace_back(type, load8(packet.data + kHeader));
  }
  void pass(ShardId to, Buffer* buffer) override {
    const PortId port = buffer->notes.returning ? buffer->notes.ingress : buffer->notes.egress;
    const bool on_its_way =
        to == calling && port != kNoPort && shards[to.value()]->link(port) == nullptr;
    (on_its_way ? kept_for_port : rings[to.value()]).push_back(buffer);
  }
  link::BringUp bring_up(PortId, std::uint8_t last) override {
    return {++nonces * 1000u + node->config().node.value(),
            static_cast<std::uint8_t>(last % 255 + 1)};
  }
  void link_changed(PortId) override {}

  HeapPool pool;
  std::unique_ptr<Node> node;
  RouteTable table;
  std::vector<std::unique_ptr<Shard>> shards;
  std::map<std::uint8_t, std::deque<Buffer*>> rings;
  ShardId calling;
  std::deque<Buffer*> kept_for_port;  ///< passed by a shard to itself
  std::vector<Delivery> got, answers;
  std::deque<Buffer*> kept;
  std::vector<std::pair<EchoType, int>> dropped_here;  ///< and the first byte of the payload
  std::uint32_t nonces = 0;
};

/// Nodes joined by wires; everything that is due happens at once, at `now`.
class Fabric : public testing::Test {
 protected:
  struct End {
    TestNode* node;
    PortId port;
    bool operator<(const End& o) const { return std::tie(node, port) < std::tie(o.node, o.port); }
  };
  void join(TestNode& a, std::uint16_t pa, TestNode& b, std::uint16_t pb) {
    wires[{&a, PortId{pa}}] = {&b, PortId{pb}};
    wires[{&b, PortId{pb}}] = {&a, PortId{pa}};
    for (auto [n, p] : {End{&a, PortId{pa}}, End{&b, PortId{pb}}}) {
      n->of(p).set_carrier(p, true, now);
      n->of(p).enable(p, now);
    }
    settle();
  }
  void cut(TestNode& a, std::uint16_t pa) {
    const End other = wires[{&a, PortId{pa}}];
    a.of(PortId{pa}).set_carrier(PortId{pa}, false, now);
    other.node->of(other.port).set_carrier(other.port, false, now);
    settle();
  }
  /// Carries frames and ring entries until nothing moves.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& [from, to] : wires) moved |= carry(from, to);
      for (auto& [from, to] : wires) moved |= pump(*from.node);
    }
  }
  bool carry(End from, End to) {
    link::FrameOut out;
    bool moved = false;
    while (from.node->of(from.port).next_frame(from.port, now, out)) {
      moved = true;
      if (blocked.contains(from.node)) continue;  // lost
      Buffer* b = to.node->pool.take();
      b->length = out.write(b->data);
      to.node->of(to.port).receive(to.port, b, now);
    }
    return moved;
  }
  bool pump(TestNode& n) {
    bool moved = false;
    for (auto& [shard, ring] : n.rings) {
      while (!ring.empty()) {
        Buffer* b = ring.front();
        ring.pop_front();
        n.call(ShardId(shard)).from_shard(b, now);
        moved = true;
      }
    }
    return moved;
  }
  void run_for(Duration d) {
    const Time end = now + d;
    for (;;) {
      Time at = kNever;
      for (auto& [from, to] : wires) {
        for (auto& s : from.node->shards) at = std::min(at, s->next_deadline());
      }
      if (at > end) break;
      now = std::max(now, at);
      for (auto& [from, to] : wires) {
        for (auto& s : from.node->shards) from.node->call(s->id()).expire(now);
      }
      settle();
    }
    now = end;
  }
  Submit send(TestNode& from, const Header& h, const std::vector<std::byte>& payload = {}) {
    Buffer* b = from.pool.take();
    make_packet(*b, h, payload);
    const Submit s = from.call(ShardId(0)).submit(b, now);
    if (s == Submit::kQueueFull) give_back(b);
    settle();
    return s;
  }
  static Header to(std::uint16_t dst, std::uint16_t src, std::uint8_t hop_limit = 16) {
    return {.hop_limit = hop_limit, .proto = 4, .dst = NodeId{dst}, .src = NodeId{src}};
  }
  static Route route(std::uint16_t dst, std::vector<Tier> tiers) { return {NodeId{dst}, tiers}; }
  static NextHop hop(std::uint16_t port, std::uint8_t raise = 0) { return {PortId{port}, raise}; }
  static std::vector<std::byte> echo(std::uint8_t type, std::uint16_t id, std::uint16_t number) {
    std::vector<std::byte> p(12, std::byte{0x61});
    encode(Echo{type, id, number}, p.data());
    return p;
  }

  std::map<End, End> wires;
  std::map<TestNode*, bool> blocked;  ///< what these send is lost
  Time now{1ms};
};

/// a(1) --- s(7) --- b(2): the usual fabric, on one shard or two.
class ThreeNodes : public Fabric, public testing::WithParamInterface<int> {
 protected:
  void wire(void (*change)(NodeConfig&) = nullptr) {
    s = std::make_unique<TestNode>(7, 2, static_cast<std::size_t>(GetParam()), change);
    a.routes({route(7, {{hop(0)}}), route(2, {{hop(0)}})});
    b.routes({route(7, {{hop(0)}}), route(1, {{hop(0)}})});
    s->routes({route(1, {{hop(0)}}), route(2, {{hop(1)}})});
    join(a, 0, *s, 0);
    join(*s, 1, b, 0);
  }
  TestNode a{1, 1}, b{2, 1};
  std::unique_ptr<TestNode> s;
};
using Both = ThreeNodes;
class Routing : public Fabric {};
INSTANTIATE_TEST_SUITE_P(Shards, Both, testing::Values(1, 2));

TEST_P(Both, N6_ForwardsWithTheHopLimitLoweredAndThePacketCrcUntouched) {
  wire();
  send(a, to(2, 1), echo(9, 1, 2));
  ASSERT_EQ(b.got.size(), 1u);
  EXPECT_EQ(std::to_integer<int>(b.got[0].bytes[0]), 15);
  EXPECT_TRUE(link::packet_crc_ok(b.got[0].bytes));
  s->expect_books();
}

TEST_P(Both, N1_ClassAndLayerMakeTheVc) {
  wire();
  Header h = to(2, 1);
  h.packet_class = kClassResponse;
  send(a, h);
  ASSERT_EQ(b.got.size(), 1u);
  EXPECT_EQ(b.got[0].vc, Vc{4});
}

TEST_P(Both, N1_OwnPacketsOfAClassAbove1AreDropped) {
  wire();
  Header h = to(2, 1);
  h.packet_class = 2;
  EXPECT_EQ(send(a, h), Submit::kTaken);
  EXPECT_EQ(a.drops(Drop::kWrongClass), 1u);
  EXPECT_TRUE(b.got.empty());
}

TEST_P(Both, N4_DeliversWhatIsForTheNode) {
  wire();
  send(a, to(7, 1));
  ASSERT_EQ(s->got.size(), 1u);
  EXPECT_EQ(s->got[0].port, PortId{0});
  EXPECT_EQ(s->got[0].vc, Vc{0});
}

TEST_P(Both, N5_SpoofedSourceAtAnEdge) {
  wire([](NodeConfig& c) { c.ports[0].edge = Edge{{NodeId{1}}, {Partition{0}}}; });
  send(a, to(2, 3));
  send(a, to(7, 3));  // also what is for the node itself
  EXPECT_EQ(s->drops(Drop::kSpoofed), 2u);
  send(a, to(2, 1));
  EXPECT_EQ(b.got.size(), 1u);
  EXPECT_TRUE(s->got.empty());
}

TEST_P(Both, N5_PartitionsHoldOnTheWayInAndOut) {
  wire([](NodeConfig& c) {
    c.ports[0].edge = Edge{{NodeId{1}}, {Partition{5}, Partition{6}}};
    c.ports[1].edge = Edge{{NodeId{2}}, {Partition{5}}};
  });
  Header h = to(2, 1);
  h.partition = Partition{7};
  send(a, h);  // in
  EXPECT_EQ(s->drops(Drop::kWrongPartition), 1u);
  h.partition = Partition{6};
  send(a, h);  // out
  EXPECT_EQ(s->drops(Drop::kWrongPartition), 2u);
  h.partition = Partition{5};
  send(a, h);
  EXPECT_EQ(b.got.size(), 1u);
  Header own = to(2, 7);  // the node's own packets are held to it likewise
  own.partition = Partition{6};
  send(*s, own);
  EXPECT_EQ(s->drops(Drop::kWrongPartition), 3u);
}

TEST_P(Both, N6_HopLimit1IsDroppedWithAnErrorToTheSource) {
  wire();
  send(a, to(2, 1, 1), echo(1, 0x1234, 5));
  EXPECT_EQ(s->drops(Drop::kHopLimitExceeded), 1u);
  ASSERT_EQ(a.got.size(), 1u);
  const auto& e = a.got[0].bytes;
  EXPECT_EQ(std::to_integer<int>(e[0]), 16);    // a fresh hop limit
  EXPECT_EQ(std::to_integer<int>(e[2]), 0x12);  // class 1, proto 2
  EXPECT_EQ(load16(e.data() + 6), 7);           // from the node that dropped
  EXPECT_EQ(std::to_integer<int>(e[12]), 3);    // hop limit exceeded
  EXPECT_EQ(load16(e.data() + 14), 0);          // id
  EXPECT_EQ(load16(e.data() + 16), 0);          // number
  EXPECT_EQ(e.size(), 12u + 8 + 28 + 4);
  EXPECT_EQ(load16(e.data() + 20 + 6), 1);        // the dropped packet's source
  EXPECT_EQ(load16(e.data() + 20 + 14), 0x1234);  // its echo id
  s->expect_books();
}

TEST_P(Both, N6_AnyHopLimitWillDoForTheNodeItself) {
  wire();
  send(a, to(7, 1, 0));
  EXPECT_EQ(s->got.size(), 1u);
}

TEST_P(Both, N7_NoRouteIsDroppedWithUnreachable) {
  wire();
  a.routes({route(9, {{hop(0)}})});
  send(a, to(9, 1));
  EXPECT_EQ(s->drops(Drop::kNoRoute), 1u);
  ASSERT_EQ(s->got.size(), 0u);
  EXPECT_EQ(a.got.size(), 1u);
  EXPECT_EQ(std::to_integer<int>(a.got[0].bytes[12]), 4);
}

TEST_P(Both, N7_APacketThatThePeerCanNeverTakeHasNoUsableHop) {
  wire();
  send(a, to(2, 1), std::vector<std::byte>(512 - 16));
  EXPECT_EQ(b.got.size(), 1u);
  send(a, to(2, 1), std::vector<std::byte>(513 - 16));  // beyond the link mtu
  EXPECT_EQ(a.drops(Drop::kNoRoute), 1u);
}

TEST_P(Both, N9_PacketsHandedBackAreRoutedAgain) {
  TestNode x(2, 2);
  s = std::make_unique<TestNode>(7, 3, static_cast<std::size_t>(GetParam()));
  a.routes({route(2, {{hop(0)}})});
  s->routes({route(2, {{hop(1)}, {hop(2, 1)}}), route(1, {{hop(0)}})});
  join(a, 0, *s, 0);
  join(*s, 1, x, 0);
  join(*s, 2, x, 1);
  blocked[s.get()] = true;  // nothing of s arrives, so nothing is acknowledged
  send(a, to(2, 1));
  EXPECT_TRUE(x.got.empty());
  blocked.clear();
  cut(*s, 1);
  ASSERT_EQ(x.got.size(), 1u);
  EXPECT_EQ(x.got[0].port, PortId{1});
  EXPECT_EQ(x.got[0].vc, Vc{1});  // the layer when first routed, plus the new hop's raise
  EXPECT_EQ(std::to_integer<int>(x.got[0].bytes[0]), 15);  // one hop_limit step, not two
  run_for(1ms);
  s->expect_books();
}

TEST_F(Routing, N9_WhatReachesADeadLinkOfAnotherShardIsRoutedAgain) {
  TestNode a(1, 1), x(2, 2), s(7, 3, 2);  // ports 0 and 2 on shard 0, port 1 on shard 1
  a.routes({route(2, {{hop(0)}})});
  s.routes({route(2, {{hop(1)}, {hop(2)}}), route(1, {{hop(0)}})});
  join(a, 0, s, 0);
  join(s, 1, x, 0);
  join(s, 2, x, 1);
  Buffer* p = a.pool.take();
  make_packet(*p, to(2, 1), {});
  a.shards[0]->submit(p, now);
  carry({&a, PortId{0}}, {&s, PortId{0}});
  ASSERT_EQ(s.rings[1].size(), 1u);  // on its way to shard 1, when its link loses the carrier
  s.of(PortId{1}).set_carrier(PortId{1}, false, now);
  settle();
  ASSERT_EQ(x.got.size(), 1u);
  EXPECT_EQ(x.got[0].port, PortId{1});
  run_for(1ms);
  s.expect_books();
  EXPECT_EQ(s.shards[1]->link(PortId{1})->queued(), 0u);
}

/// a(1), c(3) --- s(7) --- b(2), whose ports move between the two shards of s: port 0 to a and 2
/// are on shard 0, port 1 to b and 3 to c on shard 1.
class Moves : public Fabric {
 protected:
  void SetUp() override {
    a.routes({route(2, {{hop(0)}})});
    c.routes({route(2, {{hop(0)}})});
    b.routes({route(1, {{hop(0)}})});
    s.routes({route(1, {{hop(0)}}), route(2, {{hop(1)}}), route(3, {{hop(3)}})});
    join(a, 0, s, 0);
    join(b, 0, s, 1);
    join(c, 0, s, 3);
  }
  void TearDown() override {
    blocked.clear();
    run_for(100ms);
    release_all();
    for (const PortId port : {PortId(0), PortId(1), PortId(3)}) {
      const link::Link* link = s.of(port).link(port);
      ASSERT_NE(link, nullptr);
      EXPECT_EQ(link->counters().ups.get(), 1u);
      EXPECT_TRUE(link->usable());
      for (std::uint8_t v = 0; v < kVcs; ++v) EXPECT_EQ(link->occupied(Vc(v)), 0u);
    }
    EXPECT_EQ(s.pool.available(), available);
    s.expect_books();
  }
  void release_all() {
    while (!b.kept.empty()) {
      b.call(ShardId(0)).release(b.kept.front(), now);
      b.kept.pop_front();
      settle();
    }
  }
  /// The steps of a move; what is under way meanwhile is the test's.
  void announce(std::uint16_t port, std::uint8_t to) {
    s.node->set_owner(PortId(port), ShardId(to));
  }
  void take(std::uint16_t port, std::uint8_t from) {
    moving = s.call(ShardId(from)).take_link(PortId(port));
  }
  void put(std::uint8_t to) {
    s.call(ShardId(to)).put_link(std::move(moving), now);
    for (auto kept = std::exchange(s.kept_for_port, {}); !kept.empty(); kept.pop_front()) {
      s.call(ShardId(to)).from_shard(kept.front(), now);
    }
    settle();
  }
  void carry_into_s(TestNode& from, std::uint16_t port) {
    carry({&from, PortId(0)}, {&s, PortId(port)});
  }
  /// A packet for b, with its number as payload, which gets as far as the node s takes it at once.
  void send_numbered(TestNode& from, std::uint16_t port) {
    Buffer* packet = from.pool.take();
    std::vector<std::byte> payload(4);
    store32(payload.data(), ++number);
    make_packet(*packet, to(2, from.node->config().node.value()), payload);
    ASSERT_EQ(from.call(ShardId(0)).submit(packet, now), Submit::kTaken);
    carry_into_s(from, port);
  }
  std::vector<std::uint32_t> arrived() const {
    std::vector<std::uint32_t> out;
    for (const Delivery& d : b.got) out.push_back(load32(d.bytes.data() + kHeader));
    return out;
  }

  TestNode a{1, 1}, b{2, 1}, c{3, 1}, s{7, 4, 2};
  std::unique_ptr<link::Link> moving;
  std::uint32_t number = 0;
  std::uint32_t available = s.pool.available();
};

TEST_F(Moves, ALinkTakesItsPacketsAlong) {
  blocked[&b] = true;  // nothing is acknowledged
  for (int i = 0; i < 5; ++i) send(a, to(2, 1));
  EXPECT_EQ(s.shards[1]->held(), 5u);
  announce(1, 0);
  take(1, 1);
  EXPECT_EQ(s.shards[1]->held(), 0u);
  EXPECT_EQ(s.shards[1]->link(PortId(1)), nullptr);
  EXPECT_EQ(s.shards[1]->ports().size(), 1u);
  s.expect_books();
  put(0);
  EXPECT_EQ(s.shards[0]->held(), 5u);
  ASSERT_EQ(s.shards[0]->ports().size(), 3u);  // still ascending (C2)
  EXPECT_EQ(s.shards[0]->ports()[1], PortId(1));
  s.expect_books();
  blocked.clear();
  run_for(100ms);
  EXPECT_EQ(s.shards[0]->counters().acked.get(), 5u);
  EXPECT_EQ(b.got.size(), 5u);
  for (int i = 0; i < 5; ++i) send(a, to(2, 1));
  EXPECT_EQ(b.got.size(), 10u);
}

TEST_F(Moves, WhatComesForAPortOnItsWayWaitsInOrder) {
  announce(1, 0);
  pump(s);
  take(1, 1);
  for (int i = 0; i < 3; ++i) {
    send_numbered(a, 0);  // shard 0 itself is to have the port
    send_numbered(c, 3);  // shard 1 passes it on there
    pump(s);
  }
  EXPECT_EQ(s.kept_for_port.size(), 6u);
  EXPECT_TRUE(b.got.empty());
  s.expect_books();
  put(0);
  EXPECT_EQ(arrived(), (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Moves, WhatReachesTheFormerShardIsPassedOn) {
  send_numbered(a, 0);  // in the ring to shard 1
  ASSERT_EQ(s.rings[1].size(), 1u);
  announce(1, 0);
  take(1, 1);
  put(0);  // which settles: the ring is taken in
  EXPECT_EQ(arrived(), std::vector<std::uint32_t>{1});
  EXPECT_EQ(s.shards[1]->counters().passed_in.get(), 1u);
}

TEST_F(Moves, L20_CellsGoBackToWhereverThePortOfArrivalIs) {
  for (int i = 0; i < 4; ++i) {
    send_numbered(a, 0);
    pump(s);
  }
  carry({&s, PortId(1)}, {&b, PortId(0)});
  EXPECT_EQ(b.got.size(), 4u);
  EXPECT_EQ(s.of(PortId(0)).link(PortId(0))->occupied(Vc(0)), 4u);
  announce(0, 1);
  take(0, 0);
  // Shard 1, which is to have port 0, hears the ack on port 1.
  now += 1ms;
  while (b.call(ShardId(0)).expire(now)) {
  }
  carry({&b, PortId(0)}, {&s, PortId(1)});
  EXPECT_EQ(s.shards[1]->counters().acked.get(), 4u);
  EXPECT_EQ(s.kept_for_port.size(), 4u);
  EXPECT_EQ(moving->occupied(Vc(0)), 4u);
  s.expect_books();
  put(1);
  EXPECT_EQ(s.of(PortId(0)).link(PortId(0))->occupied(Vc(0)), 0u);
  announce(1, 0);
  take(1, 1);
  put(0);
  // Now port 0 is at shard 1 and port 1 at shard 0.
  release_all();
  for (int i = 0; i < 40; ++i) {  // more than a's port has cells
    send(a, to(2, 1));
    release_all();
    run_for(1ms);
  }
  EXPECT_EQ(b.got.size(), 44u);
}

/// a(1) and b(2) at s(7), whose port 2 is nobody's at first: c(3) comes there, by hand of the test,
/// and goes.
class ComeAndGo : public Fabric {
 protected:
  static constexpr PortId kThird{2};
  void SetUp() override {
    a.routes({route(2, {{hop(0)}}), route(3, {{hop(0)}})});
    b.routes({route(1, {{hop(0)}})});
    c.routes({route(1, {{hop(0)}}), route(2, {{hop(0)}})});
    s.routes({route(1, {{hop(0)}}), route(2, {{hop(1)}})});
    join(a, 0, s, 0);
    join(b, 0, s, 1);
  }
  void TearDown() override {
    for (const PortId port : {PortId(0), PortId(1)}) {
      EXPECT_EQ(s.of(port).link(port)->counters().ups.get(), 1u);
    }
    s.expect_books();
  }
  void add(ShardId shard) {
    const PortConfig config{link_config(7, 2), Edge{{NodeId(3)}, {Partition(0)}}, shard};
    s.node->set_port(kThird, config);
    Shard& owner = s.call(shard);
    owner.put_link(owner.make_link(config.link), now);
    join(c, 0, s, 2);
    s.routes({route(1, {{hop(0)}}), route(2, {{hop(1)}}), route(3, {{hop(2)}})});
  }
  /// No table names it any more, and its link closes.
  void close() {
    s.routes({route(1, {{hop(0)}}), route(2, {{hop(1)}})});
    s.of(kThird).disable(kThird, now);
    settle();
  }
  void remove() {
    ASSERT_TRUE(s.of(kThird).settled(kThird));
    s.of(kThird).take_link(kThird);
    PortConfig none;
    none.shard = kNoShard;
    s.node->set_port(kThird, none);
    wires.erase({&c, PortId(0)});
    wires.erase({&s, kThird});
  }

  TestNode a{1, 1}, b{2, 1}, c{3, 1};
  TestNode s{7, 3, 2, [](NodeConfig& config) { config.ports[2].shard = kNoShard; }};
};

TEST_F(ComeAndGo, ANumberOfNobodyIsNoHop) {
  EXPECT_EQ(s.node->owner(kThird), kNoShard);
  for (const auto& shard : s.shards) EXPECT_EQ(shard->link(kThird), nullptr);
  s.routes({route(1, {{hop(0)}}), route(2, {{hop(1)}}), route(3, {{hop(2)}})});
  send(a, to(3, 1));
  EXPECT_EQ(s.drops(Drop::kNoRoute), 1u);
}

TEST_F(ComeAndGo, APortIsAddedToEitherShardAndGoesAgain) {
  std::uint64_t closes = 0;
  for (const ShardId shard : {ShardId(0), ShardId(1), ShardId(0)}) {
    const std::size_t before = c.got.size();
    add(shard);
    send(a, to(3, 1));
    ASSERT_EQ(c.got.size(), before + 1);
    send(c, to(2, 3));
    run_for(100ms);  // the acks
    EXPECT_EQ(b.got.back().bytes.size(), kMinPacket);
    send(c, to(2, 9));  // as another than the edge lets in (N5)
    while (!b.kept.empty()) {
      b.call(ShardId(0)).release(b.kept.front(), now);
      b.kept.pop_front();
    }
    run_for(100ms);
    close();
    const auto& downs = c.shards[0]->link(PortId(0))->counters().downs;
    EXPECT_EQ(downs[static_cast<std::size_t>(link::DownReason::kPeerClose)].get(), ++closes);
    remove();
    c.call(ShardId(0)).disable(PortId(0), now);
  }
  EXPECT_EQ(s.drops(Drop::kSpoofed), 3u);
  send(a, to(3, 1));
  EXPECT_EQ(s.drops(Drop::kNoRoute), 1u);
}

// L20, C4: the cells of what came in on it are its own until the next hop has them.
TEST_F(ComeAndGo, APortIsSettledWhenWhatCameInOnItIsGone) {
  add(ShardId(1));
  blocked[&b] = true;  // nothing is acknowledged
  for (int i = 0; i < 4; ++i) send(c, to(2, 3));
  close();
  EXPECT_FALSE(s.of(kThird).settled(kThird));
  run_for(10ms);  // less than what a link survives without an answer
  EXPECT_FALSE(s.of(kThird).settled(kThird));
  blocked.clear();
  run_for(1s);
  EXPECT_EQ(b.got.size(), 4u);
  EXPECT_TRUE(s.of(kThird).settled(kThird));
  remove();
}

// N9: what waits for the port is handed back when it closes, and goes by the new table.
TEST_F(ComeAndGo, N9_WhatItHeldIsRoutedAgainOrDroppedUnderAName) {
  add(ShardId(1));
  blocked[&c] = true;
  for (int i = 0; i < 3; ++i) send(a, to(3, 1));
  EXPECT_EQ(s.shards[1]->held(), 3u);
  s.routes({route(1, {{hop(0)}}), route(2, {{hop(1)}}), route(3, {{hop(1)}})});
  s.of(kThird).disable(kThird, now);
  settle();
  run_for(100ms);
  EXPECT_EQ(s.shards[1]->counters().rerouted.get(), 3u);
  s.routes({route(1, {{hop(0)}}), route(2, {{hop(1)}})});
  remove();
  blocked.clear();
  add(ShardId(0));
  blocked[&c] = true;
  for (int i = 0; i < 3; ++i) send(a, to(3, 1));
  close();
  run_for(100ms);
  EXPECT_EQ(s.drops(Drop::kNoRoute), 3u);
  remove();
}

TEST_P(Both, N11_EchoRequestIsAnswered) {
  wire();
  Header h = to(7, 1);
  h.proto = 2;
  h.entropy = 0xBEEF;
  send(a, h, echo(1, 77, 3));
  ASSERT_EQ(s->answers.size(), 1u);
  EXPECT_TRUE(s->got.empty());
  ASSERT_EQ(a.got.size(), 1u);
  const auto& r = a.got[0].bytes;
  const Header rh = decode(r);
  EXPECT_EQ(rh.dst, NodeId{1});
  EXPECT_EQ(rh.src, NodeId{7});
  EXPECT_EQ(rh.packet_class, 1);
  EXPECT_EQ(rh.hop_limit, 16);
  EXPECT_EQ(rh.entropy, 0xBEEF);
  EXPECT_EQ(std::to_integer<int>(r[12]), 2);
  EXPECT_EQ(load16(r.data() + 14), 77);
  EXPECT_EQ(load16(r.data() + 16), 3);
  EXPECT_EQ(std::to_integer<int>(r[20]), 0x61);  // the data
  EXPECT_TRUE(link::packet_crc_ok(r));
}

TEST_P(Both, N11_TheReplyHoldsTheRequestsCells) {
  wire();
  Header h = to(7, 1);
  h.proto = 2;
  blocked[s.get()] = true;  // the reply is never acknowledged
  send(a, h, echo(1, 77, 3));
  EXPECT_EQ(s->of(PortId{0}).link(PortId{0})->occupied(Vc{0}), 1u);
  EXPECT_EQ(s->answers.size(), 1u);
  EXPECT_TRUE(s->kept.empty());
}

TEST_P(Both, N11_EchoRequestsOfClass1AndShortOnesAreOnlyDelivered) {
  wire();
  Header h = to(7, 1);
  h.proto = 2;
  h.packet_class = 1;
  send(a, h, echo(1, 77, 3));
  h.packet_class = 0;
  send(a, h, std::vector<std::byte>(7, std::byte{1}));
  EXPECT_EQ(s->got.size(), 2u);
  EXPECT_TRUE(a.got.empty());
}

TEST_P(Both, N11_NoErrorAboutRepliesAndErrors) {
  wire();
  Header h = to(2, 1, 1);
  h.proto = 2;
  for (const std::uint8_t type : std::initializer_list<std::uint8_t>{2, 3, 4})
    send(a, h, echo(type, 0, 0));
  send(a, h, std::vector<std::byte>(1, std::byte{2}));  // the first byte tells
  EXPECT_EQ(s->drops(Drop::kHopLimitExceeded), 4u);
  EXPECT_TRUE(a.got.empty());
  send(a, h, echo(5, 0, 0));
  EXPECT_EQ(a.got.size(), 1u);
}

// What another node would be told by an echo error, a node's own owner is told as it is; and of a
// reply or an error neither is.
TEST_P(Both, N11_TheOwnerIsToldOfOwnPacketsWhereOthersWouldBe) {
  wire();
  Header h = to(99, 7);
  h.proto = 2;
  send(*s, h, echo(1, 77, 3));
  for (const std::uint8_t type : std::initializer_list<std::uint8_t>{2, 3, 4})
    send(*s, h, echo(type, 0, 0));
  EXPECT_EQ(s->drops(Drop::kNoRoute), 4u);
  EXPECT_EQ(s->dropped_here, (std::vector<std::pair<EchoType, int>>{{EchoType::kUnreachable, 1}}));
}

TEST_P(Both, N11_AtMost1000ErrorsInASecondOfTheClock) {
  wire();
  now = Time{5s};
  for (int i = 0; i < 1100; ++i) {
    send(a, to(2, 1, 1));
    while (!a.kept.empty()) {
      a.shards[0]->release(a.kept.front(), now);
      a.kept.pop_front();
    }
    settle();
  }
  EXPECT_EQ(a.got.size(), 1000u);
  now = Time{6s - 1ns};
  send(a, to(2, 1, 1));
  EXPECT_EQ(a.got.size(), 1000u);
  now = Time{6s};
  send(a, to(2, 1, 1));
  EXPECT_EQ(a.got.size(), 1001u);
}

TEST_F(Routing, N11_TheBudgetOfErrorsIsOneForShardsOnBothSidesOfASecond) {
  TestNode s(7, 1);
  int made = 0;
  // Two shards take in turn, one of them in a pass that began just before second 6.
  for (int i = 0; i < 3000; ++i)
    made += s.node->take_error(Time{i % 2 == 0 ? 6s - 1us : 6s}) ? 1 : 0;
  EXPECT_LE(made, 1001);  // the first of second 5, and 1,000 of second 6
  EXPECT_GE(made, 1000);
}

TEST_P(Both, L20_CellsOfAForwardedPacketAreFreeWhenTheNextHopHasAcknowledged) {
  wire();
  blocked[&b] = true;
  send(a, to(2, 1));
  EXPECT_EQ(b.got.size(), 1u);
  EXPECT_EQ(s->of(PortId{0}).link(PortId{0})->occupied(Vc{0}), 1u);
  blocked.clear();
  run_for(5ms);  // the replay, its duplicate, and the ack of that
  EXPECT_EQ(s->of(PortId{0}).link(PortId{0})->occupied(Vc{0}), 0u);
  EXPECT_EQ(b.got.size(), 1u);
  s->expect_books();
}

TEST_P(Both, N13_OwnPacketsBeyondTheBoundAreRefusedOrDropped) {
  wire([](NodeConfig& c) { c.own_limit = 3; });
  b.kept.clear();
  // b's buffer for VC 0 is 16 cells: 16 packets that b keeps, then s's queue fills.
  int taken = 0;
  while (taken < 100 && send(*s, to(2, 7)) == Submit::kTaken) ++taken;
  EXPECT_EQ(taken, 16 + 3);
  EXPECT_EQ(s->shards[0]->counters().refused.get(), 1u);
  EXPECT_EQ(s->drops(Drop::kOwnQueueFull), 0u);
}

TEST_F(Routing, N2_BadPacketCrcOfTheSourceIsPoisonAtTheFirstHop) {
  TestNode a{1, 1}, b{2, 1};
  a.routes({route(2, {{hop(0)}})});
  join(a, 0, b, 0);
  Buffer* p = a.pool.take();
  make_packet(*p, to(2, 1), std::vector<std::byte>(8));
  p->data[14] ^= std::byte{1};
  a.shards[0]->submit(p, now);
  settle();
  EXPECT_TRUE(b.got.empty());
  EXPECT_EQ(b.shards[0]->link(PortId{0})->counters().drops.get(Drop::kPoisoned), 1u);
  EXPECT_EQ(b.shards[0]->link(PortId{0})->counters().drops.get(Drop::kBadPacketCrc), 3u);
}

TEST_F(Routing, N3_RoutesToIdsOutside1To65534AreRefused) {
  for (const std::uint16_t dst : std::initializer_list<std::uint16_t>{0, 65535}) {
    const std::vector<Route> list{{NodeId{dst}, {{NextHop{PortId{0}, 0}}}}};
    EXPECT_FALSE(RouteTable::build(list, 1));
  }
  const std::vector<Route> good{{NodeId{65534}, {{NextHop{PortId{0}, 0}}}}};
  EXPECT_TRUE(RouteTable::build(good, 1));
}

TEST_F(Routing, N7_TableRefusesWhatItCannotServe) {
  const auto refused = [](std::vector<Route> list) { return !RouteTable::build(list, 2); };
  EXPECT_TRUE(refused({route(1, {})}));
  EXPECT_TRUE(refused({route(1, {{}})}));
  EXPECT_TRUE(refused({route(1, {{hop(2)}})}));
  EXPECT_TRUE(refused({route(1, {{hop(0, 2)}})}));
  EXPECT_TRUE(refused({route(1, {{hop(0)}}), route(1, {{hop(1)}})}));
  EXPECT_TRUE(refused({route(1, {Tier(65, hop(0))})}));
  EXPECT_FALSE(refused({route(1, {Tier(64, hop(0))})}));
}

TEST_F(Routing, N7_FirstTierWithAUsableHopAndTheRaiseOfIt) {
  TestNode a{1, 2}, b{2, 2};
  a.routes({route(2, {{hop(0)}, {hop(1, 1)}})});
  join(a, 0, b, 0);
  join(a, 1, b, 1);
  send(a, to(2, 1));
  run_for(1ms);  // acknowledged, so that the cut hands nothing back
  cut(a, 0);
  send(a, to(2, 1));
  ASSERT_EQ(b.got.size(), 2u);
  EXPECT_EQ(b.got[0].vc, Vc{0});
  EXPECT_EQ(b.got[1].port, PortId{1});
  EXPECT_EQ(b.got[1].vc, Vc{1});
}

TEST_F(Routing, N7_ALayerAbove3IsNotUsable) {
  // a -> s -> s2 -> s3 -> s4 -> b, a raise at every hop: the fifth raise has no layer left.
  TestNode n1{1, 1}, n2{2, 2}, n3{3, 2}, n4{4, 2}, n5{5, 2}, n6{6, 1};
  TestNode* chain[] = {&n1, &n2, &n3, &n4, &n5, &n6};
  n1.routes({route(5, {{hop(0, 1)}}), route(6, {{hop(0, 1)}})});
  for (TestNode* n : {&n2, &n3, &n4, &n5})
    n->routes({route(5, {{hop(1, 1)}}), route(6, {{hop(1, 1)}})});
  for (std::size_t i = 0; i + 1 < std::size(chain); ++i) {
    join(*chain[i], i == 0 ? 0 : 1, *chain[i + 1], 0);
  }
  send(n1, to(5, 1));
  // It arrives there on layer 3; its error has no route back either.
  EXPECT_EQ(n4.drops(Drop::kNoRoute), 2u);
  EXPECT_TRUE(n5.got.empty());
}

TEST_F(Routing, N7_AHopIsUsableOnlyAfterAValidFrame) {
  TestNode a{1, 1}, b{2, 1};
  a.routes({route(2, {{hop(0)}})});
  send(a, to(2, 1));
  EXPECT_EQ(a.drops(Drop::kNoRoute), 1u);
}

TEST_F(Routing, N8_HopOfTheHashOverDstSrcEntropyAndNode) {
  TestNode a{1, 2}, b{2, 2};
  a.routes({route(2, {{hop(0), hop(1)}})});
  join(a, 0, b, 0);
  join(a, 1, b, 1);
  int second = 0;
  for (std::uint16_t e = 0; e < 200; ++e) {
    Header h = to(2, 1);
    h.entropy = e;
    send(a, h);
    // N8 with the published functions: the index is the top bit of h for two hops.
    std::byte key[6];
    store16(key, 2);
    store16(key + 2, 1);
    store16(key + 4, e);
    std::uint32_t crc = 0xFFFFFFFF;
    for (const std::byte k : key) {  // CRC-32C bit by bit
      crc ^= std::to_integer<std::uint32_t>(k);
      for (int i = 0; i < 8; ++i) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    std::uint32_t x = ~crc ^ (1 * 0x9E3779B1u);
    x ^= x >> 16, x *= 0x85EBCA6B, x ^= x >> 13, x *= 0xC2B2AE35, x ^= x >> 16;
    ASSERT_EQ(b.got.back().port.value(), x >> 31) << e;
    second += static_cast<int>(x >> 31);
    b.shards[0]->release(b.kept.back(), now);
    settle();
  }
  EXPECT_GT(second, 50);
  EXPECT_LT(second, 150);
}

TEST_F(Routing, N10_IsForTheToolsThatInstallRoutesAndThePortOfArrivalIsAllowed) {
  TestNode a{1, 1}, s{7, 1};
  a.routes({route(9, {{hop(0)}}), route(7, {{hop(0)}})});
  s.routes({route(9, {{hop(0)}}), route(1, {{hop(0)}})});
  join(a, 0, s, 0);
  send(a, to(9, 1, 4));  // to and fro until the hop limit ends it
  EXPECT_EQ(a.drops(Drop::kHopLimitExceeded) + s.drops(Drop::kHopLimitExceeded), 1u);
  a.expect_books();
  s.expect_books();
}

// A hundred bytes take two of the peer's cells of 64, whatever our own cell is.
TEST_F(Routing, N12_MarksWhatIsQueuedBehindMoreCellsThanTheMark) {
  TestNode a{1, 1, 1, [](NodeConfig&c) { c.ports[0].link.mark_bytes = 100; }}, b{2, 1};
  a.routes({route(2, {{hop(0)}})});
  join(a, 0, b, 0);
  for (int i = 0; i < 16 + 5; ++i) send(a, to(2, 1));  // 16 fill b, five wait: behind 0, 1, 2, 3, 4
  EXPECT_EQ(a.shards[0]->counters().marked.get(), 2u);
  EXPECT_EQ(a.shards[0]->link(PortId{0})->counters().marked[0].get(), 2u);
  while (b.got.size() < 21) {
    b.shards[0]->release(b.kept.front(), now);
    b.kept.pop_front();
    settle();
  }
  int marked = 0;
  for (const Delivery& d : b.got) marked += std::to_integer<int>(d.bytes[1]) & 1;
  EXPECT_EQ(marked, 2);
  EXPECT_TRUE(link::packet_crc_ok(b.got.back().bytes));
}

TEST_F(Routing, N13_RepliesAndErrorsBeyondTheBoundAreDropped) {
  TestNode a{1, 1}, s{7, 1, 1, [](NodeConfig&c) { c.own_limit = 2; }};
  a.routes({route(7, {{hop(0)}}), route(9, {{hop(0)}})});
  s.routes({route(1, {{hop(0)}})});
  join(a, 0, s, 0);
  // Errors of s fill a's buffer for VC 4 (16 cells, a keeps them), then two wait, then they drop.
  for (int i = 0; i < 20; ++i) send(a, to(9, 1));
  EXPECT_EQ(a.got.size(), 16u);
  EXPECT_EQ(s.drops(Drop::kOwnQueueFull), 2u);
  s.expect_books();
}

/// a(1) === b(2), two equal hops, by the shortest queue; a on one shard, or a port on each of two.
class ByQueue : public Fabric, public testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    a.routes({route(2, {{hop(0)}})});
    join(a, 0, b, 0);
    join(a, 1, b, 1);
    // b keeps what it gets: 16 packets take its buffer for VC 0 of the one link, and five wait.
    for (int i = 0; i < 16 + 5; ++i) send_flow(0);
    a.routes({route(2, {{hop(0), hop(1)}})});
  }
  void send_flow(std::uint16_t entropy) {
    Header h = to(2, 1);
    h.entropy = entropy;
    send(a, h);
  }
  TestNode a{1, 2, static_cast<std::size_t>(GetParam()),
             [](NodeConfig& c) { c.hop_choice = HopChoice::kShortestQueue; }};
  TestNode b{2, 2};
};
INSTANTIATE_TEST_SUITE_P(Shards, ByQueue, testing::Values(1, 2));

TEST_P(ByQueue, N8_TheShortestQueueIsTaken) {
  for (std::uint16_t e = 0; e < 16; ++e) send_flow(e);
  ASSERT_EQ(b.got.size(), 32u);
  for (std::size_t i = 16; i < 32; ++i) EXPECT_EQ(b.got[i].port, PortId{1}) << i;
  // Five more wait on port 1, too, and then it is the hash's turn.
  for (std::uint16_t e = 0; e < 5; ++e) send_flow(e);
  EXPECT_EQ(a.of(PortId{1}).link(PortId{1})->queued(), 5u);
  for (std::uint16_t e = 0; e < 40; ++e) send_flow(e);
  EXPECT_EQ(a.of(PortId{0}).link(PortId{0})->queued(), 25u);
  EXPECT_EQ(a.of(PortId{1}).link(PortId{1})->queued(), 25u);
  a.expect_books();
}

TEST_P(ByQueue, N7_AnUnusableHopIsNoneHoweverShortItsQueue) {
  cut(a, 1);
  for (std::uint16_t e = 0; e < 16; ++e) send_flow(e);
  EXPECT_EQ(a.of(PortId{0}).link(PortId{0})->queued(), 5u + 16);
  EXPECT_EQ(a.drops(Drop::kNoRoute), 0u);
}

/// a(1) --- s(7) === b(2), four lanes in a trunk; s on one shard, or its trunk on another than the
/// port from a.
class Trunked : public Fabric, public testing::WithParamInterface<int> {
 protected:
  static constexpr std::uint16_t kFlows = 64;
  void SetUp() override {
    a.routes({route(2, {{hop(0)}}), route(7, {{hop(0)}})});
    b.routes({route(1, {{hop(0)}}), route(7, {{hop(0)}})});
    // Port 3 is a lane that a route names against the rule: nothing passes the trunk by.
    s.routes({route(1, {{hop(0)}}), route(2, {{hop(3)}, {hop(1)}})});
    join(a, 0, s, 0);
    for (std::uint16_t lane = 0; lane < 4; ++lane) join(s, 1 + lane, b, lane);
  }
  /// Room for all that a case sends before something is acknowledged.
  static void roomy(NodeConfig& c) {
    for (PortConfig& port : c.ports) port.link.capacity.fill(256);
  }
  static void change(NodeConfig& c) {
    roomy(c);
    for (std::size_t p = 0; p < 5; ++p) {
      c.ports[p].shard = ShardId{static_cast<std::uint8_t>(p == 0 ? 0 : c.shards - 1)};
    }
    c.trunks = {{{PortId{1}, PortId{2}, PortId{3}, PortId{4}}, Spread::kFlow}};
    c.own_limit = 6;
  }
  /// One packet of each flow, its number in the payload.
  void send_round(int number) {
    for (std::uint16_t flow = 0; flow < kFlows; ++flow) {
      Header h = to(2, 1);
      h.entropy = flow;
      send(a, h, {std::byte{static_cast<std::uint8_t>(number)}});
      consume();
    }
  }
  void consume() {
    while (!b.kept.empty()) {
      b.shards[0]->release(b.kept.front(), now);
      b.kept.pop_front();
    }
    settle();
  }
  /// The numbers of each flow as they came, copies left out.
  std::map<int, std::vector<int>> first_copies() const {
    std::map<int, std::vector<int>> out;
    for (const Delivery& d : b.got) {
      std::vector<int>& came = out[load16(d.bytes.data() + 8)];
      const int number = std::to_integer<int>(d.bytes[12]);
      if (std::find(came.begin(), came.end(), number) == came.end()) came.push_back(number);
    }
    return out;
  }
  std::set<std::uint16_t> ports_of(int number) const {
    std::set<std::uint16_t> out;
    for (const Delivery& d : b.got) {
      if (std::to_integer<int>(d.bytes[12]) == number) out.insert(d.port.value());
    }
    return out;
  }
  const Trunk& trunk() const { return s.node->trunks()[0]; }

  TestNode a{1, 1, 1, roomy}, b{2, 4, 1, roomy};
  TestNode s{7, 5, static_cast<std::size_t>(GetParam()), change};
};
INSTANTIATE_TEST_SUITE_P(Shards, Trunked, testing::Values(1, 2));

TEST_P(Trunked, N7_TheTrunkIsOneHopWhoseLanesAllCarry) {
  send_round(0);
  EXPECT_EQ(b.got.size(), kFlows);
  EXPECT_EQ(ports_of(0), (std::set<std::uint16_t>{0, 1, 2, 3}));
  s.expect_books();
}

TEST_P(Trunked, N9_ALostLaneCostsNeitherAPacketNorAFlowsOrder) {
  send_round(0);
  blocked[&b] = true;  // what b gets, it cannot acknowledge
  for (int number = 1; number < 4; ++number) send_round(number);
  cut(s, 2);
  EXPECT_GT(s.of(PortId{2}).counters().rerouted.get(), 20u);  // 3 of each of about 16 flows
  blocked.clear();
  run_for(10ms);  // what a was not told is told again
  consume();
  send_round(4);
  EXPECT_EQ(ports_of(4), (std::set<std::uint16_t>{0, 2, 3}));
  for (const auto& [flow, came] : first_copies()) {
    EXPECT_EQ(came, (std::vector<int>{0, 1, 2, 3, 4})) << flow;
  }
  EXPECT_EQ(first_copies().size(), kFlows);
  EXPECT_EQ(s.drops(Drop::kNoRoute), 0u);
  EXPECT_EQ(trunk().forced_moves(), trunk().moves());
  // Nothing is under way any more: the lane gets its flows back.
  join(s, 2, b, 1);
  run_for(10ms);
  send_round(5);
  EXPECT_EQ(ports_of(5), (std::set<std::uint16_t>{0, 1, 2, 3}));
  s.expect_books();
}

TEST_P(Trunked, AReturnedLaneCarriesAgain) {
  cut(s, 2);
  send_round(0);
  join(s, 2, b, 1);
  send_round(1);
  EXPECT_EQ(ports_of(1), (std::set<std::uint16_t>{0, 1, 2, 3}));
}

TEST_P(Trunked, N7_NoLaneNoRoute) {
  for (std::uint16_t lane = 1; lane <= 4; ++lane) cut(s, lane);
  send_round(0);
  EXPECT_EQ(s.drops(Drop::kNoRoute), kFlows);
  s.expect_books();
}

TEST_P(Trunked, N13_TheBoundHoldsForTheTrunkAsAWhole) {
  // Each lane's buffer at b takes 256; b keeps them all.
  int taken = 0;
  for (std::uint16_t flow = 0; flow < 2000; ++flow) {
    Header h = to(2, 7);
    h.entropy = flow;
    if (send(s, h) == Submit::kQueueFull) break;
    ++taken;
  }
  std::uint32_t queued = 0;
  for (std::uint16_t lane = 1; lane <= 4; ++lane)
    queued += s.of(PortId{lane}).link(PortId{lane})->queued_own();
  EXPECT_EQ(queued, 6u);
  EXPECT_EQ(static_cast<std::uint32_t>(taken), b.got.size() + 6);
}

}  // namespace
}  // namespace mtl::network::test
