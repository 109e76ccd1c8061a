#include "switch/node_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "phy/local_port.h"
#include "test/unit/runtime/count_new.h"
#include "test/unit/runtime/wire.h"

namespace mtl::switchd {
namespace {

using runtime::test::node_config;
using runtime::test::patient;
using runtime::test::routes;
using runtime::test::TestNode;

constexpr std::uint16_t kSwitch = 9;
constexpr PortId kPort0{0};

/// A switch of two slots, claimed by the endpoints 1 and 2, each on a thread of its own. No EAL:
/// the pools lie in ordinary memory and are for one thread at a time: one for each port, which
/// moves with it, and one for each shard.
class SwitchOfTwo {
 public:
  explicit SwitchOfTwo(std::size_t shards) : shards_(shards) {
    for (std::size_t i = 0; i < shards + 2; ++i) {
      pools_.push_back(std::make_unique<HeapPool>(2048, 2048));
    }
    NodeHost::Config config;
    config.node = patient(node_config(kSwitch, 2, shards));
    config.table = routes({{1, 0}, {2, 1}}, 2);
    for (std::size_t i = 0; i < shards; ++i) config.pools.push_back(pools_[i + 2].get());
    config.buffers = 2048 * pools_.size();
    config.notify = [this] { told_ = true; };
    host = std::make_unique<NodeHost>(std::move(config), clock_);
    for (std::uint16_t p = 0; p < 2; ++p) join(p);
    for (std::size_t w = 0; w < shards; ++w) {
      threads_.emplace_back([this, w] { host->run(w); });
    }
    for (const auto& endpoint : endpoints_) {
      threads_.emplace_back([&endpoint] { endpoint->worker.run(); });
    }
  }

  ~SwitchOfTwo() {
    for (const auto& endpoint : endpoints_) endpoint->worker.stop();
    host->stop();
    for (std::thread& thread : threads_) thread.join();
    host->dispatch([](const Event&) {});
    host.reset();  // gives what its rings still hold back to the pools
  }

  runtime::Worker& worker(std::uint16_t id) { return endpoints_[id - 1u]->worker; }
  TestNode& node(std::uint16_t id) { return endpoints_[id - 1u]->node; }

  void until(const std::function<bool()>& condition) {
    while (!condition()) {
      if (!busy_elsewhere && told_.exchange(false) && dispatch()) told_ = true;
      std::this_thread::yield();
    }
  }
  bool dispatch() {
    return host->dispatch([this](const Event& e) { events.push_back(e); });
  }
  void on_endpoint(std::uint16_t id, const std::function<void(TestNode&, Time)>& f) {
    std::atomic<bool> ran{false};
    Endpoint& endpoint = *endpoints_[id - 1u];
    endpoint.worker.post([&](Time now) {
      f(endpoint.node, now);
      ran = true;
    });
    until([&] { return ran.load(); });
  }
  void on_switch(const NodeHost::Command& command) {
    bool done = false;
    host->post_all(command, [&] { done = true; });
    until([&] { return done; });
  }
  /// Both links, usable at both of their ends (N7): an end that is UP is not before it has heard
  /// the other one, and what it is to send before that has no route.
  void come_up() {
    bool up = false;
    while (!up) {
      up = true;
      for (std::uint16_t id = 1; id <= 2; ++id) {
        on_endpoint(id, [&](TestNode& n, Time) { up = up && n.shard.link(kPort0)->usable(); });
      }
      for (std::uint16_t p = 0; p < 2; ++p)
        up = up && host->node().board()[PortId(p)].longest[0] > 0;
    }
  }
  /// Sends `count` datagrams from one endpoint to the other and waits until all are there.
  void exchange(std::uint16_t from, std::uint16_t to, std::uint32_t count) {
    const std::uint64_t before = node(to).delivered_count;
    std::uint32_t sent = 0;
    while (sent < count) {
      on_endpoint(from, [&](TestNode& n, Time now) {
        while (sent < count && n.send(to, sent + 1, 200, now)) ++sent;
      });
    }
    until([&] { return node(to).delivered_count >= before + count; });
  }
  /// Echo replies that nobody asked for, from endpoint 1 to the switch, until it has taken them.
  void flood(std::uint16_t count) {
    const std::uint64_t before = delivered();
    std::uint16_t sent = 0;
    while (sent < count) {
      on_endpoint(1, [&](TestNode& n, Time now) {
        while (sent < count && send_reply(n, sent, now)) ++sent;
      });
    }
    while (delivered() < before + count) std::this_thread::yield();
  }
  /// What the switch itself was sent so far. No dispatch() is needed.
  std::uint64_t delivered() {
    std::atomic<std::uint64_t> sum{0};
    std::atomic<std::size_t> left{shards_};
    for (std::size_t i = 0; i < shards_; ++i) {
      ShardHost& shard = host->host(i);
      shard.worker().post([&, reading = shard.blank_reading()](Time now) mutable {
        shard.read(reading, now);
        sum += reading.counters.delivered.get();
        --left;
      });
    }
    while (left > 0) std::this_thread::yield();
    return sum;
  }
  std::size_t echoes_told() const {
    return static_cast<std::size_t>(std::count_if(
        events.begin(), events.end(), [](const Event& e) { return e.kind != Event::Kind::kLink; }));
  }
  /// Waits for the first event about an echo.
  Event echo() {
    for (;;) {
      for (const Event& event : events) {
        if (event.kind != Event::Kind::kLink) return event;
      }
      const std::size_t before = events.size();
      until([&] { return events.size() > before; });
    }
  }
  std::vector<ShardReading> read() {
    std::vector<ShardReading> out;
    bool done = false;
    host->read([&](const std::vector<ShardReading>& readings) {
      out = readings;
      done = true;
    });
    until([&] { return done; });
    return out;
  }

  std::unique_ptr<NodeHost> host;
  std::vector<Event> events;
  bool busy_elsewhere = false;  ///< the control thread: until() takes no events

 private:
  static bool send_reply(TestNode& from, std::uint16_t number, Time now) {
    Buffer* packet = from.pool.take();
    if (packet == nullptr) return false;
    network::Header header;
    header.packet_class = network::kClassResponse;
    header.proto = static_cast<std::uint8_t>(network::Proto::kEcho);
    header.src = from.node.config().node;
    header.dst = NodeId(kSwitch);
    std::array<std::byte, network::kEchoHeader> payload{};
    const network::Echo reply{static_cast<std::uint8_t>(network::EchoType::kReply), 1, number};
    network::encode(reply, payload.data());
    network::make_packet(*packet, header, payload);
    if (from.shard.submit(packet, now) == network::Submit::kTaken) return true;
    give_back(packet);
    return false;
  }

  struct Endpoint {
    Endpoint(std::uint16_t id, const runtime::Clock& clock)
        : node(patient(node_config(id, 1)), routes({{1, 0}, {2, 0}, {kSwitch, 0}}, 1)),
          worker(runtime::IdleConfig{}, node.loop, clock) {}
    TestNode node;
    runtime::Worker worker;
    std::unique_ptr<phy::LocalPort> port;
  };

  void join(std::uint16_t p) {
    phy::LocalPortConfig config;
    config.name = "slot";
    config.max_frame = 1530;
    ports_.push_back(std::move(*phy::LocalPort::create(config, *pools_[p])));
    phy::LocalPort* const port = ports_.back().get();
    auto fds = std::move(*port->claim());
    endpoints_.push_back(std::make_unique<Endpoint>(static_cast<std::uint16_t>(p + 1), clock_));
    Endpoint& endpoint = *endpoints_.back();
    endpoint.port =
        std::move(*phy::LocalPort::attach(std::move(fds), "endpoint", endpoint.node.pool));
    endpoint.worker.post([&endpoint](Time now) {
      endpoint.node.loop.attach(kPort0, *endpoint.port, now);
      endpoint.node.shard.enable(kPort0, now);
    });
    host->post(PortId(p), [port, p](ShardHost& h, Time now) {
      h.attach(PortId(p), *port, now);
      h.enable(PortId(p), now);
    });
  }

  std::size_t shards_;
  runtime::Clock clock_;
  std::vector<std::unique_ptr<HeapPool>> pools_;  ///< of the ports, then of the shards
  std::vector<std::unique_ptr<phy::LocalPort>> ports_;
  std::atomic<bool> told_{false};
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<std::thread> threads_;
};

std::uint64_t dropped(const ShardReading& r) {
  std::uint64_t n = 0;
  for (const std::uint64_t d : read(r.counters.drops)) n += d;
  return n;
}

class NodeHostOf : public testing::TestWithParam<std::size_t> {};

TEST_P(NodeHostOf, ForwardsBetweenLocalPortsAndItsBooksBalance) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  for (int round = 0; round < 5; ++round) {
    fabric.exchange(1, 2, 400);
    fabric.exchange(2, 1, 100);
    for (const ShardReading& r : fabric.read()) {
      const network::ShardCounters& c = r.counters;
      EXPECT_EQ(c.accepted.get() + c.made.get() + c.passed_in.get(),
                c.acked.get() + c.delivered.get() + dropped(r) + c.passed_out.get() + r.held);
      EXPECT_EQ(dropped(r), 0u);
    }
  }
  std::uint64_t accepted = 0;
  for (const ShardReading& r : fabric.read()) accepted += r.counters.accepted.get();
  EXPECT_EQ(accepted, 2500u);
}

// Datagrams to the switch itself are taken, counted and let go; no buffer stays behind.
TEST_P(NodeHostOf, TakesWhatIsForItself) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  std::uint32_t sent = 0;
  while (sent < 1000) {  // more than the ingress port has cells: they must be freed
    fabric.on_endpoint(1, [&](TestNode& n, Time now) {
      while (sent < 1000 && n.send(kSwitch, sent + 1, 200, now)) ++sent;
    });
  }
  fabric.until([&] {
    std::uint64_t delivered = 0;
    for (const ShardReading& r : fabric.read()) delivered += r.counters.delivered.get();
    return delivered == 1000;
  });
  for (const ShardReading& r : fabric.read()) {
    for (const PortReading& port : r.ports) EXPECT_EQ(port.vcs[0].occupied, 0u);
  }
}

TEST_P(NodeHostOf, N11_TellsOfRepliesToItsEchoRequests) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  EchoRequest request;
  request.dst = NodeId(2);
  request.id = 77;
  request.number = 5;
  request.bytes = 100;
  fabric.host->expect_echoes(1);
  EchoSubmit outcome = EchoSubmit::kNoBuffer;
  bool done = false;
  fabric.host->post(
      kPort0, [&](ShardHost& h, Time now) { outcome = h.submit_echo(request, now); },
      [&] { done = true; });
  fabric.until([&] { return done; });
  EXPECT_EQ(outcome, EchoSubmit::kSent);
  const Event event = fabric.echo();
  EXPECT_EQ(event.kind, Event::Kind::kEchoReply);
  EXPECT_EQ(event.from, NodeId(2));
  EXPECT_EQ(event.id, 77);
  EXPECT_EQ(event.number, 5);
}

// Node 3 has a route at the switch to endpoint 2, which has none: it answers unreachable (N7, N11),
// and the switch finds its own request in the error's data.
TEST_P(NodeHostOf, N11_TellsOfErrorsAboutItsEchoRequests) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  fabric.host->tables().publish(routes({{1, 0}, {2, 1}, {3, 1}}, 2), {});
  fabric.until([&] {
    fabric.read();
    return fabric.host->tables().reclaim() == 0;
  });
  EchoRequest request;
  request.dst = NodeId(3);
  request.id = 0xBEEF;
  request.number = 2;
  fabric.host->expect_echoes(1);
  fabric.host->post(kPort0, [&](ShardHost& h, Time now) { h.submit_echo(request, now); });
  const Event event = fabric.echo();
  EXPECT_EQ(event.kind, Event::Kind::kEchoError);
  EXPECT_EQ(event.echo, network::EchoType::kUnreachable);
  EXPECT_EQ(event.from, NodeId(2));
  EXPECT_EQ(event.id, 0xBEEF);
  EXPECT_EQ(event.number, 2);
}

// The node itself has no route: N11 knows no error to oneself, but whoever asked is told.
TEST_P(NodeHostOf, N11_TellsWhenItHasNoRouteForItsOwnEchoRequest) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  EchoRequest request;
  request.dst = NodeId(8);
  request.id = 4711;
  request.number = 3;
  fabric.host->post(kPort0, [&](ShardHost& h, Time now) { h.submit_echo(request, now); });
  const Event event = fabric.echo();
  EXPECT_EQ(event.kind, Event::Kind::kEchoError);
  EXPECT_EQ(event.echo, network::EchoType::kUnreachable);
  EXPECT_EQ(event.from, NodeId(kSwitch));
  EXPECT_EQ(event.id, 4711);
  EXPECT_EQ(event.number, 3);
}

// Any node can send replies at the rate of its links.
TEST_P(NodeHostOf, TellsOfNoEchoWhileNoneIsWaitedFor) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  fabric.flood(100);
  fabric.read();  // all that was told before is taken then
  EXPECT_EQ(fabric.echoes_told(), 0u);
  fabric.host->expect_echoes(1);
  fabric.flood(100);
  fabric.read();
  EXPECT_EQ(fabric.echoes_told(), 100u);
  fabric.host->expect_echoes(0);
  fabric.flood(100);
  fabric.read();
  EXPECT_EQ(fabric.echoes_told(), 100u);
}

TEST_P(NodeHostOf, EchoesThatNobodyTakesCostNoLinkItsEvents) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  fabric.read();
  fabric.events.clear();
  fabric.host->expect_echoes(1);
  fabric.busy_elsewhere = true;
  fabric.flood(ShardHost::kEvents + 500);
  std::atomic<bool> done{false};
  fabric.host->post(kPort0, [&](ShardHost& h, Time now) {
    h.disable(kPort0, now);
    done = true;
  });
  while (!done) std::this_thread::yield();
  EXPECT_EQ(fabric.host->host(0).events_lost(), 0u);
  EXPECT_EQ(fabric.host->host(0).echoes_lost(), 500u);
  ASSERT_TRUE(fabric.dispatch()) << "and more";
  EXPECT_TRUE(std::any_of(fabric.events.begin(), fabric.events.end(), [](const Event& e) {
    return e.kind == Event::Kind::kLink && e.reason == link::DownReason::kDisabled;
  })) << "nor does it wait behind them";
}

TEST_P(NodeHostOf, ADispatchEndsHoweverMuchWasTold) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  fabric.read();
  fabric.host->expect_echoes(1);
  fabric.busy_elsewhere = true;
  constexpr std::size_t kLast = 10;
  fabric.flood(3 * NodeHost::kDispatch + kLast);
  for (std::size_t i = 1; i <= 3; ++i) {
    EXPECT_TRUE(fabric.dispatch());
    EXPECT_EQ(fabric.echoes_told(), i * NodeHost::kDispatch);
  }
  EXPECT_FALSE(fabric.dispatch());
  EXPECT_EQ(fabric.echoes_told(), 3 * NodeHost::kDispatch + kLast);
}

// Tables replaced all the time under load: nothing is lost, since all of them have the routes.
TEST_P(NodeHostOf, RoutesAreReplacedUnderLoad) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  std::size_t most = 0;
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    fabric.host->tables().publish(
        routes({{1, 0}, {2, 1}, {static_cast<std::uint16_t>(100 + i), 0}}, 2), [&] { ++done; });
    fabric.exchange(1, 2, 20);
    most = std::max(most, fabric.host->tables().reclaim());
  }
  fabric.until([&] { return fabric.host->tables().reclaim() == 0; });
  EXPECT_EQ(done, 100);
  EXPECT_LT(most, 100u) << "tables are freed while traffic flows, too";
  for (const ShardReading& r : fabric.read()) EXPECT_EQ(dropped(r), 0u);
}

TEST_P(NodeHostOf, TellsOfLinksThatChangeAndMeasuresNoRerouteWithoutOne) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  fabric.until([&] {
    int ups = 0;
    for (const Event& e : fabric.events) ups += e.state == link::State::kUp ? 1 : 0;
    return ups == 2;
  });
  fabric.events.clear();
  bool done = false;
  fabric.host->post(
      kPort0, [](ShardHost& h, Time now) { h.disable(kPort0, now); }, [&] { done = true; });
  fabric.until([&] { return done && !fabric.events.empty(); });
  const Event& event = fabric.events.front();
  EXPECT_EQ(event.port, kPort0);
  EXPECT_EQ(event.before, link::State::kUp);
  EXPECT_EQ(event.state, link::State::kDown);
  EXPECT_EQ(event.reason, link::DownReason::kDisabled);
  for (const ShardReading& r : fabric.read()) {
    for (const PortReading& port : r.ports) {
      EXPECT_EQ(port.reroute, Duration::zero());
      EXPECT_EQ(port.last_down.has_value(), port.port == kPort0);
      EXPECT_TRUE(port.last_up.has_value());
    }
  }
}

// A peer that says CLOSE and INIT again and again, while the control thread is elsewhere.
TEST_P(NodeHostOf, ALinkThatKeepsChangingTakesNoPlaceOfOthersEvents) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  fabric.busy_elsewhere = true;
  constexpr std::uint64_t kCycles = ShardHost::kEvents;
  const auto began = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < kCycles; ++i) {
    fabric.on_endpoint(1, [](TestNode& n, Time now) {
      n.shard.disable(kPort0, now);
      n.shard.enable(kPort0, now);
    });
    fabric.come_up();
  }
  fabric.on_endpoint(2, [](TestNode& n, Time now) { n.shard.disable(kPort0, now); });
  const PortId second{1};
  while (fabric.host->node().board()[second].longest[0] > 0) std::this_thread::yield();
  fabric.busy_elsewhere = false;
  const auto told = [&](PortId port) {
    return static_cast<std::uint64_t>(std::count_if(
        fabric.events.begin(), fabric.events.end(),
        [&](const Event& e) { return e.port == port && e.before == link::State::kUp; }));
  };
  fabric.until([&] { return told(second) == 1; });
  while (fabric.dispatch()) {
  }
  // So many seconds of what may be told fill the ring, and then it is no fast peer's doing.
  if (std::chrono::steady_clock::now() - began >
      std::chrono::seconds(ShardHost::kEvents / ShardHost::kLinkEvents / 2)) {
    GTEST_SKIP() << "this machine is too slow to change a link often";
  }
  for (std::size_t w = 0; w < fabric.host->workers(); ++w)
    EXPECT_EQ(fabric.host->host(w).events_lost(), 0u);
  EXPECT_LT(told(kPort0), kCycles);
  EXPECT_GT(fabric.host->untold(kPort0), 0u);
  EXPECT_EQ(fabric.host->untold(second), 0u);
}

// L8: a disabled link tells its peer so.
TEST_P(NodeHostOf, L8_DisablingAllSendsCloseToEveryPeer) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  fabric.on_switch([](ShardHost& h, Time now) { h.disable_all(now); });
  for (std::uint16_t id = 1; id <= 2; ++id) {
    std::uint64_t closed = 0;
    while (closed == 0) {
      fabric.on_endpoint(id, [&](TestNode& n, Time) {
        closed = n.shard.link(kPort0)
                     ->counters()
                     .downs[static_cast<std::size_t>(link::DownReason::kPeerClose)]
                     .get();
      });
    }
    EXPECT_EQ(closed, 1u);
  }
}

TEST_P(NodeHostOf, NothingIsAllocatedOnTheWorkersWhileTrafficFlows) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  fabric.exchange(1, 2, 50);
  fabric.on_switch([](ShardHost&, Time) { runtime::test::count_allocations_here(true); });
  const std::uint64_t before = runtime::test::allocations_counted();
  fabric.exchange(1, 2, 3000);
  fabric.exchange(2, 1, 3000);
  EXPECT_EQ(runtime::test::allocations_counted(), before);
  fabric.on_switch([](ShardHost&, Time) { runtime::test::count_allocations_here(false); });
}

// A slot that is claimed anew between two passes: the link starts over (the peer is another one).
TEST_P(NodeHostOf, ACutBetweenTwoPassesEndsTheSession) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  const auto losses = [&] {
    std::uint64_t n = 0;
    for (const ShardReading& r : fabric.read()) {
      for (const PortReading& p : r.ports) {
        n += p.counters.downs[static_cast<std::size_t>(link::DownReason::kNoCarrier)].get();
      }
    }
    return n;
  };
  const auto ups_of_port_0 = [&] {
    std::uint64_t n = 0;
    for (const ShardReading& r : fabric.read()) {
      for (const PortReading& p : r.ports) n += p.port == kPort0 ? p.counters.ups.get() : 0;
    }
    return n;
  };
  const std::uint64_t before = losses(), before_ups = ups_of_port_0();
  bool done = false;
  fabric.host->post(
      kPort0, [](ShardHost& h, Time now) { h.cut(kPort0, now); }, [&] { done = true; });
  fabric.until([&] { return done; });
  EXPECT_EQ(losses(), before + 1);
  // It comes back, the medium having carrier. What endpoint 1 sent before it heard of that would be
  // lost there: it has no other way (N9).
  while (ups_of_port_0() == before_ups) {
  }
  fabric.come_up();
  fabric.exchange(1, 2, 100);
}

// N9: what an ended link hands back goes another way, and how long that took is told. Endpoint 2
// stands still, so that what was sent to it is unacknowledged when its link is disabled.
TEST_P(NodeHostOf, N9_MeasuresHowLongReroutingTook) {
  SwitchOfTwo fabric(GetParam());
  fabric.come_up();
  const std::vector<network::Route> by_two_ways{
      {NodeId(1), {{network::NextHop{PortId(0), 0}}}},
      {NodeId(2), {{network::NextHop{PortId(1), 0}}, {network::NextHop{PortId(0), 0}}}}};
  fabric.host->tables().publish(std::move(*network::RouteTable::build(by_two_ways, 2)), {});
  fabric.until([&] { return fabric.host->tables().reclaim() == 0; });
  std::atomic<bool> stands_still{false}, go_on{false}, went_on{false};
  fabric.worker(2).post([&](Time) {
    stands_still = true;
    while (!go_on) std::this_thread::yield();
    went_on = true;
  });
  fabric.until([&] { return stands_still.load(); });
  fabric.on_endpoint(1, [&](TestNode& n, Time now) { EXPECT_TRUE(n.send(2, 1, 200, now)); });
  fabric.until([&] {
    std::uint32_t waiting = 0;
    for (const ShardReading& r : fabric.read()) {
      for (const PortReading& p : r.ports) {
        if (p.port == PortId(1)) waiting = p.unacknowledged;
      }
    }
    return waiting > 0;
  });
  bool done = false;
  fabric.host->post(
      PortId(1), [](ShardHost& h, Time now) { h.disable(PortId(1), now); }, [&] { done = true; });
  fabric.until([&] { return done; });
  std::uint64_t rerouted = 0;
  fabric.on_switch([](ShardHost&, Time) {});  // a pass has ended since
  for (const ShardReading& r : fabric.read()) {
    rerouted += r.counters.rerouted.get();
    for (const PortReading& p : r.ports) {
      EXPECT_EQ(p.reroute > Duration::zero(), p.port == PortId(1)) << p.port.value();
    }
  }
  EXPECT_EQ(rerouted, 1u);
  go_on = true;
  fabric.until([&] { return went_on.load(); });
}

class NodeHostMoves : public testing::Test {
 protected:
  void SetUp() override { fabric.come_up(); }

  /// Lets each endpoint send some datagrams to the other, numbered on.
  void send_some() {
    for (std::uint16_t id = 1; id <= 2; ++id) {
      std::uint32_t& number = sent[id - 1u];
      fabric.on_endpoint(id, [&, id](TestNode& n, Time now) {
        for (int i = 0; i < 4; ++i) {
          if (n.send(static_cast<std::uint16_t>(3 - id), number + 1, 200, now)) ++number;
        }
      });
    }
  }
  void move(std::vector<PortId> ports) {
    const ShardId to(fabric.host->owner(ports.front()) == ShardId(0) ? 1 : 0);
    under_way = true;
    fabric.host->move(std::move(ports), to, [this] {
      under_way = false;
      ++moves;
    });
  }
  bool all_arrived() {
    return fabric.node(1).delivered_count == sent[1] && fabric.node(2).delivered_count == sent[0];
  }

  SwitchOfTwo fabric{2};
  std::array<std::uint32_t, 2> sent{};
  std::uint32_t moves = 0;
  bool under_way = false;
};

TEST_F(NodeHostMoves, PortsMoveToAndFroUnderTraffic) {
  const std::uint32_t all = std::getenv("MTL_LONG") != nullptr ? 5000 : 1000;
  const PortId port1{1};
  for (std::uint32_t turn = 0; moves < all; ++turn) {
    send_some();
    if (under_way) continue;
    const bool together = fabric.host->owner(kPort0) == fabric.host->owner(port1);
    if (turn % 3 == 0 && together) {
      move({kPort0, port1});
    } else {
      move({PortId(static_cast<std::uint16_t>(turn % 2))});
    }
  }
  fabric.until([&] { return !under_way && all_arrived(); });
  EXPECT_GT(sent[0], 1000u);
  for (std::uint16_t id = 1; id <= 2; ++id) {
    fabric.on_endpoint(id, [&](TestNode& n, Time) { EXPECT_EQ(n.steps_back, 0u) << "overtaken"; });
  }
  std::size_t ports = 0;
  const auto settled = [&] {  // the last acks
    for (const ShardReading& r : fabric.read()) {
      if (r.held != 0) return false;
      for (const PortReading& p : r.ports) {
        if (p.vcs[0].occupied != 0) return false;
      }
    }
    return true;
  };
  while (!settled()) std::this_thread::yield();
  for (const ShardReading& r : fabric.read()) {
    const network::ShardCounters& c = r.counters;
    EXPECT_EQ(c.accepted.get() + c.made.get() + c.passed_in.get(),
              c.acked.get() + c.delivered.get() + dropped(r) + c.passed_out.get() + r.held);
    EXPECT_EQ(dropped(r), 0u);
    for (const PortReading& p : r.ports) {
      ++ports;
      EXPECT_EQ(p.counters.ups.get(), 1u);
      EXPECT_TRUE(p.last_up.has_value());
      EXPECT_GT(p.medium.frames_in, 0u);
    }
  }
  EXPECT_EQ(ports, 2u);
}

// What is asked of a port while it moves reaches it where it is then, in the order of asking.
TEST_F(NodeHostMoves, CommandsAndReadingsWaitForTheEnd) {
  std::vector<std::string> order;
  move({kPort0});
  const ShardId to = fabric.host->owner(kPort0);
  bool done = false;
  fabric.host->post(
      kPort0, [&](ShardHost& h, Time) { EXPECT_EQ(h.id(), to); },
      [&] {
        EXPECT_EQ(moves, 1u);
        order.emplace_back("command");
      });
  fabric.host->read([&](const std::vector<ShardReading>& readings) {
    std::size_t ports = 0;
    for (const ShardReading& r : readings) ports += r.ports.size();
    EXPECT_EQ(ports, 2u);
    order.emplace_back("reading");
  });
  fabric.host->move({kPort0}, to, [&] { order.emplace_back("move to where it is"); });
  fabric.host->post_all([](ShardHost&, Time) {}, [&] { done = true; });
  fabric.until([&] { return done && order.size() == 3; });
  EXPECT_EQ(std::count(order.begin(), order.end(), "command"), 1);
  EXPECT_EQ(std::count(order.begin(), order.end(), "reading"), 1);
}

TEST_F(NodeHostMoves, NothingIsAllocatedOnTheWorkers) {
  fabric.on_switch([](ShardHost&, Time) { runtime::test::count_allocations_here(true); });
  const std::uint64_t before = runtime::test::allocations_counted();
  for (int i = 0; i < 50; ++i) {
    send_some();
    move({PortId(static_cast<std::uint16_t>(i % 2))});
    fabric.until([&] { return !under_way; });
  }
  fabric.until([&] { return all_arrived(); });
  EXPECT_EQ(runtime::test::allocations_counted(), before);
  fabric.on_switch([](ShardHost&, Time) { runtime::test::count_allocations_here(false); });
}

INSTANTIATE_TEST_SUITE_P(Shards, NodeHostOf, testing::Values(1u, 2u));

}  // namespace
}  // namespace mtl::switchd
