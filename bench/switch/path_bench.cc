// What a pass of a switch costs for each frame that it forwards, without another core: two local
// ports, a shard and its loop in one thread, loaded by the far ends of the two ports between the
// passes. Everything is in this core's caches, so what is told is the work of the code alone; the
// figures need no quiet machine. Virtual time.
//
//   path_bench [--size BYTES]                cycles per frame: the least, the median, over passes
//   valgrind --tool=callgrind --toggle-collect='mtl::measured_pass*' path_bench
//                                            instructions: those collected, by the frames told
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/switch/link_end.h"
#include "network/node.h"
#include "phy/dpdk/eal.h"
#include "phy/dpdk/mbuf_pool.h"
#include "phy/local_port.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "runtime/shard_loop.h"

namespace mtl {

using namespace std::chrono_literals;

constexpr std::uint32_t kRoom = 9216;
constexpr std::uint32_t kRing = 1U << 20;
constexpr std::uint16_t kInFlight = 256;
constexpr NodeId kSwitch{1000};
constexpr Duration kRound = 5us;

/// The only function whose instructions are to be counted.
__attribute__((noinline)) bool measured_pass(runtime::ShardLoop& loop, Time now) {
  return loop.pass(now);
}

namespace {

struct Options {
  std::uint32_t size = 64;
  std::uint32_t passes = 20'000;
  std::uint32_t idle_ports = 0;
};

template <class T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

link::Config link_config(NodeId node, std::uint16_t port) {
  link::Config c;
  c.node = node;
  c.port = PortId{port};
  c.mac = {std::byte{2},
           std::byte{0},
           std::byte{0},
           std::byte{static_cast<std::uint8_t>(node.value() >> 8)},
           std::byte{static_cast<std::uint8_t>(node.value())},
           std::byte{static_cast<std::uint8_t>(port)}};
  c.mtu = 9000;
  c.cell = c.mtu;
  c.window = kInFlight;
  c.capacity = {kInFlight};
  c.timers = link::lab_timers();
  return c;
}

/// Ports 0 and 1 carry the traffic of nodes 1 and 2; behind the others nobody is.
network::NodeConfig node_config(std::uint32_t ports) {
  network::NodeConfig config;
  config.node = kSwitch;
  for (std::uint32_t p = 0; p < ports; ++p) {
    network::PortConfig port;
    port.link = link_config(kSwitch, static_cast<std::uint16_t>(p));
    port.edge = network::Edge{{NodeId(static_cast<std::uint16_t>(p + 1))}, {Partition{0}}};
    config.ports.push_back(port);
  }
  return config;
}

network::RouteTable two_routes(std::uint32_t ports) {
  std::vector<network::Route> routes;
  for (std::uint16_t p = 0; p < 2; ++p) {
    routes.push_back({NodeId(static_cast<std::uint16_t>(p + 1)), {{{PortId{p}, 0}}}});
  }
  return value(network::RouteTable::build(routes, ports));
}

/// The switch, as far as frames are concerned.
class Path final : public network::ShardOwner {
 public:
  explicit Path(const Options& options)
      : node_(node_config(options.idle_ports + 2)),
        table_(two_routes(options.idle_ports + 2)),
        pool_(value(phy::MbufPool::create({.count = 4096, .room = kRoom}))),
        shard_(node_, ShardId{0}, *pool_, *this),
        loop_(shard_) {
    shard_.set_table(&table_);
    for (const PortId port : shard_.ports()) {
      auto& local = ports_.emplace_back(value(phy::LocalPort::create(
          {.name = "slot", .ring_bytes = kRing, .max_frame = 9030}, *pool_)));
      loop_.attach(port, *local, now_);
      shard_.enable(port, now_);
    }
    for (std::uint16_t i = 0; i < 2; ++i) {
      auto segment = value(phy::LocalSegment::attach(value(ports_[i]->claim())));
      const NodeId node{static_cast<std::uint16_t>(i + 1)};
      ends_[i] =
          std::make_unique<End>(link_config(node, 0), SlotRings(std::move(segment)), options.size);
      ends_[i]->make_packets(NodeId{static_cast<std::uint16_t>(2 - i)}, 1);
      ends_[i]->enable(now_);
    }
  }

  /// Everything that both ends have to send goes into the rings.
  void load() {
    now_ += kRound;
    ends_[0]->pass(kInFlight, ends_[1]->received(), now_);
    ends_[1]->pass(kInFlight, ends_[0]->received(), now_);
  }
  /// What the pass took; `forwarded`: packets in it.
  std::uint64_t pass(std::uint64_t& forwarded) {
    const std::uint64_t before = shard_.counters().forwarded.get();
    const std::uint64_t began = clock_.ticks();
    measured_pass(loop_, now_);
    const std::uint64_t took = clock_.ticks() - began;
    forwarded = shard_.counters().forwarded.get() - before;
    return took;
  }

 private:
  using End = LinkEnd<SlotRings>;
  void delivered(Buffer* packet, PortId, Vc) override { give_back(packet); }
  void answered(const Buffer&, PortId, Vc) override {}
  void pass(ShardId, Buffer*) override {}
  link::BringUp bring_up(PortId, std::uint8_t last_epoch) override {
    return random_.bring_up(last_epoch);
  }
  void link_changed(PortId) override {}

  Time now_{1ms};
  runtime::Clock clock_;
  runtime::RandomStock random_;
  network::Node node_;
  network::RouteTable table_;
  std::unique_ptr<phy::MbufPool> pool_;
  std::vector<std::unique_ptr<phy::LocalPort>> ports_;
  std::array<std::unique_ptr<End>, 2> ends_;
  network::Shard shard_;
  runtime::ShardLoop loop_;
};

void measure(const Options& options) {
  Path path(options);
  std::vector<double> costs;
  std::uint64_t frames = 0;
  for (std::uint32_t i = 0; i < options.passes; ++i) {
    path.load();
    std::uint64_t forwarded = 0;
    const std::uint64_t took = path.pass(forwarded);
    frames += forwarded;
    // Full passes alone: a burst from each end.
    if (forwarded == 2 * runtime::ShardLoop::kBurst) {
      costs.push_back(static_cast<double>(took) / static_cast<double>(forwarded));
    }
  }
  if (costs.size() < options.passes / 2) throw std::runtime_error("too few passes were full");
  std::sort(costs.begin(), costs.end());
  std::printf("%u B: %.1f cycles per frame at least, median %.1f, in %zu passes; %" PRIu64
              " frames in all\n",
              options.size, costs.front(), costs[costs.size() / 2], costs.size(), frames);
}

}  // namespace
}  // namespace mtl

int main(int argc, char** argv) {
  mtl::Options o;
  CLI::App app{"measures what a switch's pass costs for each frame, on one core"};
  app.add_option("--size", o.size, "bytes of a frame, Ethernet header included")
      ->check(CLI::Range(60, 9030));
  app.add_option("--passes", o.passes, "passes measured")->check(CLI::Range(100, 100'000'000));
  app.add_option("--idle-ports", o.idle_ports, "further ports, with nobody behind them")
      ->check(CLI::Range(0, 254));
  CLI11_PARSE(app, argc, argv);
  try {
    mtl::phy::EalConfig config;
    config.memory_mib = 256;
    const auto eal = mtl::value(mtl::phy::Eal::start(config));
    mtl::measure(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "path_bench: %s\n", e.what());
    return 1;
  }
  return 0;
}
