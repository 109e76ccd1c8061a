#include "switch/node_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "capture/collector.h"
#include "capture/segment.h"
#include "capture/tap.h"
#include "phy/local_port.h"
#include "switch/capture_host.h"
#include "test/unit/capture/make_segment.h"
#include "test/unit/runtime/count_new.h"
#include "test/unit/runtime/wire.h"
#include "test/unit/switch/standing_still.h"

namespace mtl::switchd {
namespace {

using runtime::test::node_config;
using runtime::test::patient;
using runtime::test::routes;
using runtime::test::TestNode;
using test::StandingStill;

constexpr std::uint16_t kSwitch = 9;
constexpr PortId kPort0{0};

struct Options {
  std::size_t shards = 1;
  std::uint16_t ports = 2;
  std::uint16_t cells = 16;  ///< that each port of the switch has on VC 0
  Duration hold = std::chrono::milliseconds(2);
};

/// A switch of some slots, claimed by the endpoints 1, 2 and so on, each on a thread of its own. No
/// EAL: the pools lie in ordinary memory and are for one thread at a time: one for each port, which
/// moves with it, and one for each shard.
class SwitchAndEndpoints {
 public:
  explicit SwitchAndEndpoints(std::size_t shards) : SwitchAndEndpoints(Options{shards}) {}
  explicit SwitchAndEndpoints(const Options& options)
      : ports_count_(options.ports), shards_(options.shards) {
    for (std::size_t i = 0; i < ports_count_ + shards_; ++i) {
      pools_.push_back(std::make_unique<HeapPool>(2048, 2048));
    }
    host = std::make_unique<NodeHost>(host_config(options), clock_);
    for (std::uint16_t p = 0; p < ports_count_; ++p) join(p);
    for (std::size_t w = 0; w < shards_; ++w) {
      threads_.emplace_back([this, w] { host->run(w); });
    }
    for (const auto& endpoint : endpoints_) {
      threads_.emplace_back([&endpoint] { endpoint->worker.run(); });
    }
  }

  ~SwitchAndEndpoints() {
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
  /// All links, usable at both of their ends (N7): an end that is UP is not before it has heard
  /// the other one, and what it is to send before that has no route.
  void come_up() {
    bool up = false;
    while (!up) {
      up = true;
      for (std::uint16_t id = 1; id <= ports_count_; ++id) {
        on_endpoint(id, [&](TestNode& n, Time) { up = up && n.shard.link(kPort0)->usable(); });
      }
      for (std::uint16_t p = 0; p < ports_count_; ++p)
        up = up && host->node().board()[PortId(p)].longest[0] > 0;
    }
  }
  /// Sends `count` datagrams from one endpoint to another, numbered from `first` on.
  void send(std::uint16_t from, std::uint16_t to, std::uint32_t count, std::uint32_t first = 1) {
    std::uint32_t sent = 0;
    while (sent < count) {
      on_endpoint(from, [&](TestNode& n, Time now) {
        while (sent < count && n.send(to, first + sent, 200, now)) ++sent;
      });
    }
  }
  /// Likewise, and waits until all are there.
  void exchange(std::uint16_t from, std::uint16_t to, std::uint32_t count) {
    const std::uint64_t before = node(to).delivered_count;
    send(from, to, count);
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
  /// What a worker says of itself, whatever the host waits for. No dispatch() is needed.
  ShardReading ask(std::size_t worker) {
    ShardHost& shard = host->host(worker);
    ShardReading reading = shard.blank_reading();
    std::atomic<bool> read{false};
    shard.worker().post([&](Time now) {
      shard.read(reading, now);
      read = true;
    });
    while (!read) std::this_thread::yield();
    return reading;
  }
  bool has(std::size_t worker, PortId port) {
    const ShardReading reading = ask(worker);
    return std::any_of(reading.ports.begin(), reading.ports.end(),
                       [port](const PortReading& p) { return p.port == port; });
  }
  /// What the switch itself was sent so far.
  std::uint64_t delivered() {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < shards_; ++i) sum += ask(i).counters.delivered.get();
    return sum;
  }
  /// Goes on until all has happened that can while only these workers of the switch run: each of
  /// them, the endpoints and the control thread have had more turns than a move has steps, and more
  /// than a port at rest waits to be looked at.
  void turns(const std::vector<std::size_t>& running) {
    for (int i = 0; i < 16; ++i) {
      std::size_t left = running.size();
      for (const std::size_t w : running) {
        host->host(w).worker().post([](Time) {}, [&left] { --left; });
      }
      until([&] { return left == 0; });
      for (std::uint16_t id = 1; id <= ports_count_; ++id) on_endpoint(id, [](TestNode&, Time) {});
    }
  }
  std::uint64_t closes_heard(std::uint16_t id) {
    std::uint64_t closes = 0;
    on_endpoint(id, [&](TestNode& n, Time) {
      const auto& downs = n.shard.link(kPort0)->counters().downs;
      closes = downs[static_cast<std::size_t>(link::DownReason::kPeerClose)].get();
    });
    return closes;
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
    Endpoint(std::uint16_t id, std::uint16_t ids, const runtime::Clock& clock)
        : node(patient(node_config(id, 1)), to_all(ids)),
          worker(runtime::IdleConfig{}, node.loop, clock) {}
    TestNode node;
    runtime::Worker worker;
    std::unique_ptr<phy::LocalPort> port;

   private:
    static network::RouteTable to_all(std::uint16_t ids) {
      std::vector<std::pair<std::uint16_t, std::uint16_t>> list{{kSwitch, 0}};
      for (std::uint16_t id = 1; id <= ids; ++id) list.emplace_back(id, 0);
      return routes(list, 1);
    }
  };

  NodeHost::Config host_config(const Options& options) {
    NodeHost::Config config;
    config.node = patient(node_config(kSwitch, ports_count_, shards_));
    for (network::PortConfig& port : config.node.ports) port.link.capacity[0] = options.cells;
    config.node.ports.emplace_back().shard = kNoShard;  // a number that nobody has
    std::vector<std::pair<std::uint16_t, std::uint16_t>> list;
    for (std::uint16_t p = 0; p < ports_count_; ++p) {
      list.emplace_back(static_cast<std::uint16_t>(p + 1), p);
    }
    config.table = routes(list, ports_count_ + 1u);
    for (std::size_t i = 0; i < shards_; ++i) {
      config.pools.push_back(pools_[ports_count_ + i].get());
    }
    config.buffers = 2048 * pools_.size();
    config.notify = [this] { told_ = true; };
    config.hold = options.hold;
    return config;
  }

  void join(std::uint16_t p) {
    phy::LocalPortConfig config;
    config.name = "slot";
    config.max_frame = 1530;
    ports_.push_back(std::move(*phy::LocalPort::create(config, *pools_[p])));
    phy::LocalPort* const port = ports_.back().get();
    auto fds = std::move(*port->claim());
    endpoints_.push_back(
        std::make_unique<Endpoint>(static_cast<std::uint16_t>(p + 1), ports_count_, clock_));
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

  std::uint16_t ports_count_;
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
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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

// A port without traffic comes and goes while the others have it: they lose nothing, and what it
// counted is there when it is gone.
TEST_P(NodeHostOf, PortsComeAndGoUnderLoad) {
  SwitchAndEndpoints fabric(GetParam());
  fabric.come_up();
  const PortId third{2};
  HeapPool pool(64, 2048);
  constexpr std::uint64_t kTimes = 50;
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    const ShardId shard(static_cast<std::uint8_t>(i % GetParam()));
    phy::LocalPortConfig slot;
    slot.name = "third";
    slot.max_frame = 1530;
    auto local = std::move(*phy::LocalPort::create(slot, pool));
    network::PortConfig config = patient(node_config(kSwitch, 3)).ports[2];
    config.shard = shard;
    ShardHost::MovingPort parts;
    parts.port.medium = local.get();
    int done = 0;
    fabric.host->add(config, std::move(parts), true, [&] { ++done; });
    fabric.exchange(1, 2, 10);
    fabric.until([&] { return done == 1; });
    EXPECT_EQ(fabric.host->owner(third), shard);
    std::size_t ports = 0;
    for (const ShardReading& r : fabric.read()) ports += r.ports.size();
    EXPECT_EQ(ports, 3u);
    fabric.host->close(third, [&] { ++done; });
    fabric.host->post(third, [&](ShardHost& host, Time now) {
      EXPECT_TRUE(host.told(third));  // there is nobody to say CLOSE to
      EXPECT_TRUE(host.settled(third));
      host.detach(third, now);
    });
    fabric.host->remove(third, [&] { ++done; });
    fabric.exchange(2, 1, 10);
    fabric.until([&] { return done == 3; });
    EXPECT_EQ(fabric.host->owner(third), kNoShard);
  }
  std::uint64_t removed = 0;
  for (const ShardReading& r : fabric.read()) {
    EXPECT_EQ(dropped(r), 0u);
    removed += r.removed.ports;
    for (const PortReading& port : r.ports) EXPECT_EQ(port.counters.ups.get(), 1u);
  }
  EXPECT_EQ(removed, kTimes);
  EXPECT_EQ(pool.available(), 64u);
}

// What a port that goes has counted is in the node's books still.
TEST_P(NodeHostOf, ARemovedPortLeavesWhatItCounted) {
  SwitchAndEndpoints fabric(GetParam());
  fabric.come_up();
  fabric.exchange(1, 2, 500);
  fabric.exchange(2, 1, 300);
  int done = 0;
  fabric.host->close(kPort0, [&] { ++done; });
  fabric.until([&] { return done == 1; });
  bool settled = false;
  while (!settled) {
    fabric.host->post(
        kPort0, [&](ShardHost& host, Time) { settled = host.settled(kPort0); }, [&] { ++done; });
    const int before = done;
    fabric.until([&] { return done > before; });
  }
  fabric.host->post(kPort0, [](ShardHost& host, Time now) { host.detach(kPort0, now); });
  done = 0;
  fabric.host->remove(kPort0, [&] { ++done; });
  fabric.until([&] { return done == 1; });
  std::uint64_t accepted = 0, acked = 0, in = 0, out = 0;
  for (const ShardReading& r : fabric.read()) {
    accepted += r.counters.accepted.get();
    acked += r.counters.acked.get();
    in += r.removed.packets_in;
    out += r.removed.packets_acked;
    if (r.removed.ports > 0) {
      EXPECT_GE(r.removed.medium.frames_in, 500u);
    }
    for (const PortReading& port : r.ports) {
      EXPECT_EQ(port.port, PortId(1));
      in += port.counters.packets_in.get();
      out += port.counters.packets_acked.get();
    }
  }
  EXPECT_EQ(accepted, 800u);
  EXPECT_EQ(in, accepted);
  EXPECT_EQ(out, acked);
}

// More buffers than there were at first: the rings between workers grow under load, in order.
TEST_P(NodeHostOf, RingsGrowUnderLoad) {
  SwitchAndEndpoints fabric(GetParam());
  fabric.come_up();
  std::size_t room = 2048 * 5;
  for (int i = 0; i < 6; ++i) {
    room *= 2;
    bool done = false;
    fabric.host->make_room(room, [&] { done = true; });
    fabric.exchange(1, 2, 200);
    fabric.until([&] { return done; });
    if (GetParam() > 1) {
      EXPECT_GE(fabric.host->host(0).ring_capacity(ShardId(1)), room);
      EXPECT_GE(fabric.host->host(1).ring_capacity(ShardId(0)), room);
    }
  }
  EXPECT_EQ(fabric.node(2).delivered_count, 1200u);
  for (const ShardReading& r : fabric.read()) EXPECT_EQ(dropped(r), 0u);
}

// Tables replaced all the time under load: nothing is lost, since all of them have the routes.
TEST_P(NodeHostOf, RoutesAreReplacedUnderLoad) {
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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
  const auto began = std::chrono::steady_clock::now();
  SwitchAndEndpoints fabric(GetParam());
  fabric.come_up();
  fabric.busy_elsewhere = true;
  constexpr std::uint64_t kCycles = 100;
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
    return static_cast<std::uint64_t>(
        std::count_if(fabric.events.begin(), fabric.events.end(),
                      [&](const Event& e) { return e.port == port; }));
  };
  fabric.until([&] {
    return std::any_of(fabric.events.begin(), fabric.events.end(), [&](const Event& e) {
      return e.port == second && e.before == link::State::kUp;
    });
  });
  while (fabric.dispatch()) {
  }
  const auto seconds = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began)
          .count());
  EXPECT_LE(told(kPort0), ShardHost::kLinkEvents * (seconds + 1));
  // Each cycle leaves UP and comes back to it.
  EXPECT_GE(told(kPort0) + fabric.host->untold(kPort0), 2 * kCycles);
  EXPECT_EQ(fabric.host->untold(second), 0u);
  for (std::size_t w = 0; w < fabric.host->workers(); ++w)
    EXPECT_EQ(fabric.host->host(w).events_lost(), 0u);
}

// L8: a disabled link tells its peer so.
TEST_P(NodeHostOf, L8_DisablingAllSendsCloseToEveryPeer) {
  SwitchAndEndpoints fabric(GetParam());
  fabric.come_up();
  fabric.on_switch([](ShardHost& h, Time now) { h.disable_all(now); });
  for (std::uint16_t id = 1; id <= 2; ++id) {
    while (fabric.closes_heard(id) == 0) {
    }
    EXPECT_EQ(fabric.closes_heard(id), 1u);
  }
}

TEST_P(NodeHostOf, NothingIsAllocatedOnTheWorkersWhileTrafficFlows) {
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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
  SwitchAndEndpoints fabric(GetParam());
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

/// As many endpoints as workers, so that each worker has a port at first.
class Moving {
 public:
  explicit Moving(const Options& options) : fabric(options), count_(options.ports) {
    sent.resize(count_);
    fabric.come_up();
  }

  std::uint16_t next(std::uint16_t id) const { return static_cast<std::uint16_t>(id % count_ + 1); }
  /// Lets each endpoint send some datagrams to the next, numbered on.
  void send_some() {
    for (std::uint16_t id = 1; id <= count_; ++id) {
      std::uint32_t& number = sent[id - 1u];
      fabric.on_endpoint(id, [&, id](TestNode& n, Time now) {
        for (int i = 0; i < 4; ++i) {
          if (n.send(next(id), number + 1, 200, now)) ++number;
        }
      });
    }
  }
  bool all_arrived() {
    for (std::uint16_t id = 1; id <= count_; ++id) {
      if (fabric.node(next(id)).delivered_count != sent[id - 1u]) return false;
    }
    return true;
  }
  void move(std::vector<PortId> ports, std::size_t to) {
    under_way = true;
    const ShardId from = fabric.host->owner(ports.front());
    fabric.host->move(std::move(ports), ShardId(static_cast<std::uint8_t>(to)),
                      [this, from](ShardId told) {
                        EXPECT_EQ(told, from);
                        under_way = false;
                        ++moves;
                      });
  }
  /// Until its first step was taken.
  void until_begun(PortId port, std::size_t to) {
    fabric.until([&] { return fabric.host->owner(port).value() == to; });
  }
  std::uint32_t steps_back(std::uint16_t id) {
    std::uint32_t out = 0;
    fabric.on_endpoint(id, [&](TestNode& n, Time) { out = n.steps_back; });
    return out;
  }

  SwitchAndEndpoints fabric;
  std::vector<std::uint32_t> sent;  ///< by endpoint
  std::uint32_t moves = 0;
  bool under_way = false;

 private:
  std::uint16_t count_;
};

class NodeHostMoves : public testing::TestWithParam<std::uint16_t>, protected Moving {
 protected:
  NodeHostMoves() : Moving(Options{.shards = GetParam(), .ports = GetParam()}) {}

  /// Moves a port to a worker where it is not, by turns, or two that have the same worker.
  void move_some(std::uint32_t turn) {
    const PortId port(static_cast<std::uint16_t>(turn % GetParam()));
    const PortId other(static_cast<std::uint16_t>((turn + 1) % GetParam()));
    std::vector<PortId> ports{port};
    const ShardId from = fabric.host->owner(port);
    if (turn % 4 == 0 && fabric.host->owner(other) == from) ports.push_back(other);
    const std::uint32_t further = 1 + turn / GetParam() % (GetParam() - 1u);
    move(std::move(ports), (from.value() + further) % GetParam());
  }
};

TEST_P(NodeHostMoves, PortsMoveToAndFroUnderTraffic) {
  const std::uint32_t all = std::getenv("MTL_LONG") != nullptr ? 5000 : 1000;
  for (std::uint32_t turn = 0; moves < all; ++turn) {
    send_some();
    if (!under_way) move_some(turn);
  }
  fabric.until([&] { return !under_way && all_arrived(); });
  EXPECT_GT(sent[0], 1000u);
  for (std::uint16_t id = 1; id <= GetParam(); ++id) EXPECT_EQ(steps_back(id), 0u) << "overtaken";
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
  EXPECT_EQ(ports, GetParam());
}

// What is asked of a port while it moves reaches it where it is then, in the order of asking.
TEST_P(NodeHostMoves, CommandsAndReadingsWaitForTheEnd) {
  std::vector<std::string> order;
  const ShardId to(1);
  move({kPort0}, to.value());
  until_begun(kPort0, to.value());
  EXPECT_EQ(moves, 0u);
  bool done = false;
  fabric.host->post(
      kPort0, [&](ShardHost& h, Time) { EXPECT_EQ(h.id(), to); },
      [&] {
        EXPECT_EQ(moves, 1u);
        order.emplace_back("command");
      });
  fabric.host->read([&](const std::vector<ShardReading>& readings) {
    EXPECT_EQ(moves, 1u);
    std::size_t ports = 0;
    for (const ShardReading& r : readings) ports += r.ports.size();
    EXPECT_EQ(ports, GetParam());
    order.emplace_back("reading");
  });
  fabric.host->move({kPort0}, to, [&](ShardId from) {
    EXPECT_EQ(from, to);
    order.emplace_back("move to where it is");
  });
  fabric.host->post_all([](ShardHost&, Time) {}, [&] { done = true; });
  fabric.until([&] { return done && order.size() == 3; });
  EXPECT_EQ(order, (std::vector<std::string>{"command", "reading", "move to where it is"}));
}

TEST_P(NodeHostMoves, NothingIsAllocatedOnTheWorkers) {
  fabric.on_switch([](ShardHost&, Time) { runtime::test::count_allocations_here(true); });
  const std::uint64_t before = runtime::test::allocations_counted();
  for (std::uint32_t i = 0; i < 50; ++i) {
    send_some();
    move_some(i);
    fabric.until([&] { return !under_way; });
  }
  fabric.until([&] { return all_arrived(); });
  EXPECT_EQ(runtime::test::allocations_counted(), before);
  fabric.on_switch([](ShardHost&, Time) { runtime::test::count_allocations_here(false); });
}

/// A capture of all ports by all workers, read now and then on this thread.
class Captured {
 public:
  explicit Captured(SwitchAndEndpoints& fabric, std::size_t ports) : fabric_(fabric), last_(ports) {
    Fd memory;
    const std::size_t workers = fabric.host->workers();
    segment_ = std::move(*capture::test::make_segment(workers, 1U << 22, memory));
    for (std::size_t w = 0; w < workers; ++w) {
      taps_.push_back(std::make_unique<capture::Tap>(*segment_, w, capture::Filter{}, ports));
    }
    for (std::uint16_t p = 0; p < ports; ++p) {
      const auto interface = segment_->add_interface({"", "", PortId(p), {}, {}});
      for (const auto& tap : taps_) tap->set_interface(PortId(p), *interface);
    }
    collector_ = std::make_unique<capture::Collector>(std::move(*capture::Segment::attach(memory)));
    fabric.on_switch(
        [this](ShardHost& host, Time) { host.set_tap(taps_[host.id().value()].get()); });
  }
  /// The workers let go of it.
  void end() {
    fabric_.on_switch([](ShardHost& host, Time) { host.set_tap(nullptr); });
    read();
    read();
  }
  /// Each port's frames are in its order: DATA that it took in have the numbers in a row (L13), and
  /// so have those that it sends, the first time.
  void read() {
    const auto found = collector_->sweep([this](const capture::Captured& frame) {
      ++frames;
      Last& last = last_[frame.interface];
      EXPECT_LE(last.at, frame.at);
      last.at = frame.at;
      if (frame.bytes[14] != std::byte{0x10}) return;  // version 1, DATA
      const std::uint16_t seq = load16(frame.bytes.data() + 18);
      const bool out = frame.direction == capture::Direction::kOut;
      if (!out && frame.verdict.outcome != capture::Outcome::kAccepted) return;
      if (out && frame.verdict.outcome != capture::Outcome::kSent) return;
      std::uint16_t& next = out ? last.sent : last.taken;
      EXPECT_EQ(seq, next) << (out ? "sent" : "taken") << " by port " << frame.interface;
      next = static_cast<std::uint16_t>(seq + 1);
      ++data;
    });
    EXPECT_TRUE(found);
  }
  std::uint64_t missed() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < last_.size(); ++i) sum += collector_->missed(i);
    return sum;
  }

  std::uint64_t frames = 0;
  std::uint64_t data = 0;

 private:
  struct Last {
    Time at{};
    std::uint16_t sent = 0;
    std::uint16_t taken = 0;
  };
  SwitchAndEndpoints& fabric_;
  std::vector<Last> last_;  ///< by port
  std::unique_ptr<capture::Segment> segment_;
  std::vector<std::unique_ptr<capture::Tap>> taps_;
  std::unique_ptr<capture::Collector> collector_;
};

// Frames come once, whole and in the order of their port, wherever it is; and workers that capture
// allocate nothing, either.
TEST_P(NodeHostMoves, PortsAreCapturedOnWhereverTheyMove) {
  Captured captured(fabric, GetParam());
  fabric.on_switch([](ShardHost&, Time) { runtime::test::count_allocations_here(true); });
  const std::uint64_t before = runtime::test::allocations_counted();
  for (std::uint32_t turn = 0; moves < 300; ++turn) {
    send_some();
    captured.read();
    if (!under_way) move_some(turn);
  }
  fabric.until([&] { return !under_way && all_arrived(); });
  EXPECT_EQ(runtime::test::allocations_counted(), before);
  fabric.on_switch([](ShardHost&, Time) { runtime::test::count_allocations_here(false); });
  captured.end();
  EXPECT_EQ(captured.missed(), 0u);
  std::uint64_t all = 0;
  for (const std::uint32_t n : sent) all += n;
  EXPECT_EQ(captured.data, 2 * all);  // each came in at one port and left by another
  const std::uint64_t frames = captured.frames;
  send_some();
  fabric.until([&] { return all_arrived(); });
  captured.read();
  captured.read();
  EXPECT_EQ(captured.frames, frames);
}

INSTANTIATE_TEST_SUITE_P(Shards, NodeHostMoves, testing::Values(2, 3));

/// Three workers, of which one stands still at a step of its own: what the others may do then.
class NodeHostMovesStepByStep : public testing::Test, protected Moving {
 protected:
  static constexpr PortId kPort1{1};
  static constexpr std::uint32_t kOlder = 300;  // two passes take in 128
  static constexpr std::uint32_t kNewer = 10;
  NodeHostMovesStepByStep() : Moving(Options{.shards = 3, .ports = 3, .cells = 400}) {}

  /// Sends datagrams from 3 to 2, until worker 2 has passed these on to worker 1.
  void pass_on(std::uint32_t count, std::uint32_t first = 1) {
    fabric.send(3, 2, count, first);
    while (fabric.ask(2).counters.passed_out.get() < first - 1 + count) std::this_thread::yield();
  }
  /// Begins what asks every worker first: worker 1 stands still once it has answered, and has not
  /// taken in kOlder datagrams then.
  std::unique_ptr<StandingStill> answers_and_stands(const std::function<void()>& begin) {
    StandingStill before(*fabric.host, 1);
    before.until_it_does();
    begin();
    auto answered = std::make_unique<StandingStill>(*fabric.host, 1);
    before.go_on();
    answered->until_it_does();
    fabric.busy_elsewhere = true;
    pass_on(kOlder);
    fabric.busy_elsewhere = false;
    return answered;
  }
};

TEST_F(NodeHostMovesStepByStep, AWorkerThatDoesNotAnswerHoldsUpTheMoveAlone) {
  StandingStill third(*fabric.host, 2);
  third.until_it_does();
  move({kPort0}, 1);
  fabric.turns({0, 1});
  EXPECT_EQ(fabric.host->owner(kPort0), ShardId(0)) << "nobody was told of it";
  bool done = false;
  fabric.host->post(
      kPort0, [](ShardHost& h, Time) { EXPECT_EQ(h.id(), ShardId(0)); }, [&] { done = true; });
  fabric.turns({0, 1});
  ASSERT_TRUE(done);
  fabric.exchange(1, 2, 100);
  fabric.exchange(2, 1, 100);
  EXPECT_EQ(moves, 0u);
  third.go_on();
  fabric.until([&] { return moves == 1; });
  EXPECT_TRUE(fabric.has(1, kPort0));
  fabric.exchange(3, 1, 100);
}

// Somebody looks every second, for days.
TEST_F(NodeHostMovesStepByStep, ReadingsThatWaitForAWorkerAreNotHeapedUp) {
  StandingStill third(*fabric.host, 2);
  third.until_it_does();
  std::size_t told = 0;
  std::set<const void*> taken;
  const auto look = [&] {
    fabric.host->read([&](const std::vector<ShardReading>& readings) {
      ++told;
      taken.insert(readings.data());
    });
  };
  for (int i = 0; i < 100; ++i) look();
  fabric.turns({0, 1});
  EXPECT_EQ(told, 0u);
  third.go_on();
  fabric.until([&] { return told == 100; });
  EXPECT_LE(taken.size(), 2u);
  look();
  fabric.until([&] { return told == 101; });
}

// Step 1: one that has not seen it may still pass packets to the former owner.
TEST_F(NodeHostMovesStepByStep, ThePortStaysUntilEveryWorkerHasSeenWhereItGoes) {
  move({kPort0}, 1);
  StandingStill third(*fabric.host, 2);  // once it has answered that it is there
  until_begun(kPort0, 1);
  third.until_it_does();
  fabric.turns({0, 1});
  EXPECT_EQ(moves, 0u);
  EXPECT_EQ(fabric.host->owner(kPort0), ShardId(1));
  EXPECT_EQ(fabric.host->holder(kPort0), ShardId(0));
  EXPECT_EQ(fabric.host->holder(kPort1), ShardId(1));
  ASSERT_TRUE(fabric.has(0, kPort0));
  fabric.exchange(1, 2, 10);
  third.go_on();
  fabric.until([&] { return moves == 1; });
  EXPECT_EQ(fabric.host->holder(kPort0), ShardId(1));
}

// Step 2: what the former owner has not yet taken in is ahead of what is passed to the new one.
TEST_F(NodeHostMovesStepByStep, WhatWasPassedToTheFormerOwnerIsAheadOfWhatIsPassedToTheNewOne) {
  const auto answered = answers_and_stands([this] { move({kPort1}, 0); });
  until_begun(kPort1, 0);
  StandingStill seen(*fabric.host, 1);
  fabric.turns({0, 2});
  pass_on(kNewer, kOlder + 1);
  fabric.turns({0, 2});
  answered->go_on();
  seen.until_it_does();
  fabric.turns({0, 2});  // it is asked to let go of the port
  seen.go_on();
  fabric.until([&] { return moves == 1 && fabric.node(2).delivered_count == kOlder + kNewer; });
  EXPECT_EQ(steps_back(2), 0u);
}

// Rings between workers that are replaced: what waits in the former one is ahead of what is passed
// by the next.
TEST_F(NodeHostMovesStepByStep, WhatWaitsInARingThatIsReplacedIsAheadOfWhatFollows) {
  bool done = false;
  const auto answered =
      answers_and_stands([&] { fabric.host->make_room(1U << 20, [&] { done = true; }); });
  fabric.turns({0, 2});  // both pass by the new rings
  pass_on(kNewer, kOlder + 1);
  EXPECT_EQ(fabric.node(2).delivered_count, 0u);
  EXPECT_FALSE(done);
  answered->go_on();
  fabric.until([&] { return done && fabric.node(2).delivered_count == kOlder + kNewer; });
  EXPECT_EQ(steps_back(2), 0u);
}

TEST_F(NodeHostMovesStepByStep, AWorkerThatStopsWhileRingsAreReplacedHoldsUpItsOwnRingsAlone) {
  bool done = false;
  fabric.host->make_room(1U << 20, [&] { done = true; });
  StandingStill third(*fabric.host, 2);  // once it has answered that it is there
  fabric.turns({0, 1});
  third.until_it_does();
  fabric.turns({0, 1});
  fabric.send(1, 2, kNewer);
  fabric.send(2, 1, kNewer);
  bool answered = false;
  fabric.host->post(
      kPort1, [](ShardHost&, Time) {}, [&] { answered = true; });
  fabric.turns({0, 1});
  EXPECT_EQ(fabric.node(2).delivered_count, kNewer);
  EXPECT_EQ(fabric.node(1).delivered_count, kNewer);
  EXPECT_TRUE(answered);
  EXPECT_FALSE(done);
  third.go_on();
  fabric.until([&] { return done; });
  fabric.exchange(3, 1, kNewer);
  fabric.exchange(1, 3, kNewer);
}

// Both wait for a worker that answers at last: what the second is told is so by then.
TEST_F(NodeHostMovesStepByStep, RoomThatIsAskedForTwiceAtOnceIsThereWhenItIsSaid) {
  constexpr std::size_t kMuch = 1U << 20;
  StandingStill third(*fabric.host, 2);
  third.until_it_does();
  int done = 0;
  const auto all_have_it = [&] {
    ++done;
    for (std::size_t from = 0; from < 3; ++from) {
      for (std::size_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        EXPECT_GE(fabric.host->host(from).ring_capacity(ShardId(static_cast<std::uint8_t>(to))),
                  kMuch);
      }
    }
  };
  fabric.host->make_room(kMuch, all_have_it);
  fabric.host->make_room(kMuch / 2, all_have_it);
  fabric.turns({0, 1});
  EXPECT_EQ(done, 0);
  third.go_on();
  fabric.until([&] { return done == 2; });
}

// A move that is asked for while rings are replaced keeps the order of the port's packets as well.
TEST_F(NodeHostMovesStepByStep, APortMovesWhileRingsAreReplaced) {
  bool done = false;
  const auto answered = answers_and_stands([&] {
    fabric.host->make_room(1U << 20, [&] { done = true; });
    move({kPort1}, 0);
  });
  fabric.turns({0, 2});
  pass_on(kNewer, kOlder + 1);
  answered->go_on();
  fabric.until([&] { return moves == 1 && done; });
  fabric.until([&] { return fabric.node(2).delivered_count == kOlder + kNewer; });
  EXPECT_EQ(steps_back(2), 0u);
}

// Step 3: what came in on the port is ahead of what will. Worker 2 takes from 0 before it takes
// from 1.
TEST_F(NodeHostMovesStepByStep, WhatThePortReceivedBeforeIsAheadOfWhatItReceivesAfter) {
  constexpr std::uint32_t kEach = 20;
  move({kPort1}, 0);
  until_begun(kPort1, 0);
  StandingStill third(*fabric.host, 2);  // once it has seen where the port goes
  third.until_it_does();
  fabric.busy_elsewhere = true;
  fabric.send(2, 3, kEach);
  while (fabric.ask(1).counters.passed_out.get() < kEach) std::this_thread::yield();
  fabric.busy_elsewhere = false;
  fabric.turns({0, 1});
  EXPECT_EQ(moves, 0u);
  EXPECT_FALSE(fabric.has(0, kPort1) || fabric.has(1, kPort1));
  fabric.send(2, 3, kEach, kEach + 1);
  fabric.turns({0, 1});
  third.go_on();
  fabric.until([&] { return moves == 1 && fabric.node(3).delivered_count == 2 * kEach; });
  EXPECT_EQ(steps_back(3), 0u);
}

TEST_F(NodeHostMovesStepByStep, L8_DisablingAllReachesAPortThatIsBetweenTwoWorkersToo) {
  move({kPort0}, 1);
  until_begun(kPort0, 1);
  StandingStill third(*fabric.host, 2);
  third.until_it_does();
  fabric.turns({0, 1});
  ASSERT_FALSE(fabric.has(0, kPort0) || fabric.has(1, kPort0));
  fabric.host->disable_all();
  fabric.turns({0, 1});
  EXPECT_EQ(fabric.closes_heard(1), 0u);
  EXPECT_EQ(fabric.closes_heard(2), 1u) << "at once";
  third.go_on();
  fabric.until([&] { return moves == 1; });
  fabric.turns({0, 1, 2});
  for (std::uint16_t id = 1; id <= 3; ++id) EXPECT_EQ(fabric.closes_heard(id), 1u) << id;
}

// The port's frames wait for the control thread then: it does nothing else.
TEST(NodeHostMovesAtOnce, NoDispatchEndsWithThePortBetweenTwoWorkers) {
  Moving moving(Options{.shards = 2, .ports = 2, .hold = std::chrono::hours(1)});
  for (std::uint32_t i = 0; i < 20; ++i) {
    moving.move({kPort0}, (i + 1) % 2);
    while (moving.under_way) {
      moving.fabric.dispatch();
      ASSERT_TRUE(moving.fabric.has(0, kPort0) || moving.fabric.has(1, kPort0));
    }
  }
}

// Nor with a ring that one worker passes by and the other one was not asked to read.
TEST(NodeHostMovesAtOnce, NoDispatchEndsWithPacketsThatWaitForThisThread) {
  Moving moving(Options{.shards = 2, .ports = 2, .hold = std::chrono::hours(1)});
  SwitchAndEndpoints& fabric = moving.fabric;
  for (std::size_t i = 1; i <= 20; ++i) {
    bool done = false;
    fabric.host->make_room(8192 + 1000 * i, [&] { done = true; });
    while (!done) {
      fabric.dispatch();
      fabric.busy_elsewhere = true;
      fabric.exchange(1, 2, 2);
      fabric.exchange(2, 1, 2);
      fabric.busy_elsewhere = false;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, NodeHostOf, testing::Values(1u, 2u));

/// The captures of that switch, as sessions of the control socket ask for them.
class CapturesOfTheNode : public testing::Test, protected Moving {
 protected:
  CapturesOfTheNode() : Moving(Options{.shards = 3, .ports = 3}) {
    plan.name = "sw9";
    plan.node = fabric.host->node().config();
    for (std::uint16_t p = 0; p < 3; ++p) {
      PortPlan& port = plan.ports.emplace_back();
      port.port = PortId(p);
      port.name = "slot" + std::to_string(p);
      port.device = SlotDevice{};
    }
  }

  /// What became of a capture that was asked for.
  struct Asked {
    control::CaptureId id = 0;
    Fd memory;
    bool begun = false;
    std::string refused;
  };
  std::unique_ptr<Asked> ask(const mtlink::control::Capture& request = {}, std::size_t workers = 3,
                             std::uint32_t ring_kib = 1024) {
    mtlink::control::Capture call = request;
    call.set_ring_kib(ring_kib);
    call.set_snap(capture::kMaxSnap);
    auto asked = std::make_unique<Asked>();
    asked->memory = std::move(*capture::Segment::allocate(workers, std::uint64_t{ring_kib} * 1024));
    asked->id =
        captures.start(call, Fd(::dup(asked->memory.get())),
                       [raw = asked.get()](const Result<mtlink::control::CaptureGrant>& grant) {
                         raw->begun = static_cast<bool>(grant);
                         if (!grant) raw->refused = grant.error().message;
                       });
    return asked;
  }
  /// Names of what a capture has.
  static std::vector<std::string> interfaces(const Asked& asked) {
    const auto segment = capture::Segment::attach(asked.memory);
    EXPECT_TRUE(segment);
    std::vector<std::string> out;
    for (std::size_t i = 0; i < (*segment)->interfaces(); ++i) {
      out.push_back((*segment)->interface(i).name);
    }
    return out;
  }
  void answered() {
    fabric.on_switch([](ShardHost&, Time) {});
  }

  Plan plan;
  runtime::Clock clock;
  Log log{LogStyle::kText, LogLevel::kError};
  CaptureHost captures{{plan, *fabric.host, clock, log}};
};

TEST_F(CapturesOfTheNode, OneAtATimeAndTheNextWhenAllHaveLetGo) {
  const auto first = ask();
  fabric.until([&] { return first->begun; });
  EXPECT_EQ(interfaces(*first), (std::vector<std::string>{"slot0", "slot1", "slot2"}));
  const auto second = ask();
  EXPECT_NE(second->refused.find("sw9 is being captured already"), std::string::npos);
  captures.end(second->id);  // of the first one that is no end
  answered();
  EXPECT_NE(ask()->refused, "");
  captures.end(first->id);
  // While it ends two wait: the first of them gets it.
  const auto third = ask();
  const auto fourth = ask();
  fabric.until([&] { return third->begun; });
  EXPECT_NE(fourth->refused, "");
  EXPECT_FALSE(fourth->begun);
  captures.end(third->id);
  answered();
}

TEST_F(CapturesOfTheNode, WhoGoesWhileItWaitsIsNoMore) {
  const auto first = ask();
  fabric.until([&] { return first->begun; });
  captures.end(first->id);
  const auto second = ask();
  captures.end(second->id);
  const auto third = ask();
  fabric.until([&] { return third->begun; });
  EXPECT_FALSE(second->begun);
  captures.end(third->id);
  answered();
}

// A worker hangs, the client gives up, the worker goes on: nobody captures, and the next one may.
TEST_F(CapturesOfTheNode, ACaptureThatCouldNotBeginEndsWithWhoAskedForIt) {
  StandingStill third(*fabric.host, 2);
  third.until_it_does();
  const auto first = ask();
  fabric.turns({0, 1});
  EXPECT_FALSE(first->begun);
  captures.end(first->id);
  const auto second = ask();
  fabric.turns({0, 1});
  EXPECT_EQ(second->refused, "") << "it waits";
  EXPECT_FALSE(second->begun);
  third.go_on();
  fabric.until([&] { return second->begun; });
  EXPECT_FALSE(first->begun);
  captures.end(second->id);
  answered();
}

// Nothing stands still while the page tables of the rings are filled, least of all a port that
// moves.
TEST_F(CapturesOfTheNode, APortMovesWhileACaptureBegins) {
  move({kPort0}, 1);
  const auto capture = ask();
  fabric.until([&] { return capture->begun && moves == 1; });
  fabric.exchange(1, 2, 10);
  captures.end(capture->id);
  move({kPort0}, 2);
  fabric.until([&] { return moves == 2; });
  answered();
  const auto next = ask();
  fabric.until([&] { return next->begun; });
  captures.end(next->id);
  answered();
}

/// Bytes of memory that captures share for which this process has page tables.
std::uint64_t mapped_of_captures() {
  std::ifstream maps("/proc/self/smaps");
  bool of_capture = false;
  std::uint64_t kib = 0;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first;
    std::uint64_t number = 0;
    words >> first;
    if (first.back() != ':') of_capture = line.find("mtlink-capture") != std::string::npos;
    if (of_capture && first == "Rss:" && words >> number) kib += number;
  }
  return kib * 1024;
}

// Of all that memory one part at a time, between which the workers have their turn, and with them
// whatever waits for them.
TEST_F(CapturesOfTheNode, PageTablesAreFilledAPartForEachRoundOfTheWorkers) {
  const auto capture = ask({}, 3, 16 * 1024);
  StandingStill third(*fabric.host, 2);  // once it has answered for the first part
  third.until_it_does();
  fabric.turns({0, 1});
  EXPECT_FALSE(capture->begun);
  EXPECT_GT(mapped_of_captures(), 0u);
  EXPECT_LE(mapped_of_captures(), 2 * capture::Segment::kPopulated) << "of 48 MiB";
  third.go_on();
  fabric.until([&] { return capture->begun; });
  EXPECT_GT(mapped_of_captures(), 3u * 16 * 1024 * 1024);
  captures.end(capture->id);
  answered();
}

// A peer says how many workers there are; what does not fit is not used.
TEST_F(CapturesOfTheNode, MemoryForOtherWorkersIsRefused) {
  const auto capture = ask({}, 2);
  EXPECT_NE(capture->refused.find("bytes instead of"), std::string::npos) << capture->refused;
  const auto next = ask();
  fabric.until([&] { return next->begun; });
  captures.end(next->id);
  answered();
}

// Who asks for a port by its number means that port, not another that gets the number by a reload.
TEST_F(CapturesOfTheNode, APortIsCapturedAsLongAsItHasItsName) {
  mtlink::control::Capture call;
  call.add_ports(1);
  const auto capture = ask(call);
  fabric.until([&] { return capture->begun; });
  EXPECT_EQ(interfaces(*capture), (std::vector<std::string>{"slot1"}));
  plan.ports[1].name = "another";
  captures.ports_changed({PortId(1)});
  answered();
  EXPECT_EQ(interfaces(*capture), (std::vector<std::string>{"slot1"}));
  plan.ports[2].name = "slot1";
  captures.ports_changed({PortId(2)});
  answered();
  EXPECT_EQ(interfaces(*capture), (std::vector<std::string>{"slot1", "slot1"}));
  captures.end(capture->id);
  answered();
}

}  // namespace
}  // namespace mtl::switchd
