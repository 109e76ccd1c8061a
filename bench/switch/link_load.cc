// Load for a switch under test: claims pairs of slots of an mtswitchd, or is the client of pairs of
// its memif ports, and sends DATA from each of a pair to the other, flat out, from one pinned
// thread. Prints, as a line of JSON, what the daemon itself counted meanwhile: packets forwarded,
// and the worker's cycles.
//
// What it sends is taken from a few packets made beforehand and copied into the ring, so that the
// switch finds each frame's bytes in another core's cache, as in life. The link protocol is the
// real one, by link::Link (link_end.h). It rings no doorbell: the daemon has to poll.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/heap_pool.h"
#include "bench/switch/link_end.h"
#include "control/client.h"
#include "phy/local_segment.h"
#include "phy/memif/memif_hub.h"
#include "runtime/clock.h"
#include "runtime/settings/link_timers.h"

namespace mtl {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = 5s;
constexpr Duration kSettle = 100ms;

struct Options {
  std::string socket;
  std::vector<std::string> slots{"a", "b"};  ///< each two are a pair
  std::vector<std::string> memif;            ///< sockets, likewise; instead of slots if any
  std::uint16_t mtu = 2018;                  ///< of the links over memif; slots tell theirs
  std::size_t busy_pairs = 0;                ///< pairs that send; 0: all
  std::uint16_t destinations = 1;            ///< nodes that each slot sends to
  std::uint32_t size = 64;
  std::uint16_t in_flight = 256;
  double warm_up = 0.5;
  double seconds = 3;
  int cpu = 1;
};

template <class T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

link::Config config_of(NodeId node) {
  link::Config c;
  c.node = node;
  c.port = PortId{0};
  c.mac = {std::byte{2}, std::byte{0}, std::byte{0},
           std::byte{0}, std::byte{0}, static_cast<std::byte>(node.value())};
  return c;
}

link::Config config_of(const mtlink::control::SlotGrant& grant) {
  link::Config c = config_of(NodeId{static_cast<std::uint16_t>(grant.node())});
  c.mtu = static_cast<std::uint16_t>(grant.mtu());
  c.cell = static_cast<std::uint16_t>(grant.cell());
  c.window = static_cast<std::uint16_t>(grant.window());
  for (std::size_t v = 0; v < kVcs; ++v) {
    c.capacity[v] = static_cast<std::uint16_t>(grant.capacity(static_cast<int>(v)));
  }
  const auto timers = runtime::link_timers(grant.timers());
  if (!timers) throw std::runtime_error(timers.error().message);
  c.timers = *timers;
  return c;
}

template <class Rings>
std::unique_ptr<LinkEnd<Rings>> make_end(const link::Config& config, Rings rings,
                                         const Options& options) {
  if (const char* why = link::fault(config)) throw std::runtime_error(why);
  return std::make_unique<LinkEnd<Rings>>(config, std::move(rings), options.size);
}

/// A slot of the daemon: claimed as long as this lives.
struct ClaimedSlot {
  using End = LinkEnd<SlotRings>;
  static const std::vector<std::string>& names(const Options& options) { return options.slots; }

  ClaimedSlot(const Options& options, std::size_t which)
      : client(value(control::Client::connect(options.socket))) {
    mtlink::control::ClaimSlot claim;
    claim.set_name(options.slots[which]);
    auto lease = value(client.claim_slot(claim));
    auto segment = value(
        phy::LocalSegment::attach({Fd(lease.memory.release()), Fd(lease.doorbell.release())}));
    end = make_end(config_of(lease.grant), SlotRings(std::move(segment)), options);
  }
  control::Client client;
  std::unique_ptr<End> end;
};

/// A client of a memif port of the daemon: node 1 on the first socket, and so on. Connected as long
/// as this lives.
struct MemifClient {
  using End = LinkEnd<MemifRings>;
  static const std::vector<std::string>& names(const Options& options) { return options.memif; }

  MemifClient(const Options& options, std::size_t which)
      : port(value(phy::MemifPort::create({options.memif[which], kUnused}, pool))),
        hub(value(phy::MemifHub::open("link_load", {}))) {
    phy::MemifEndConfig config;
    config.role = phy::MemifRole::kClient;
    config.socket = options.memif[which];
    config.buffer_bytes = (options.mtu + std::uint32_t{link::kFrameHeader} + 63) / 64 * 64;
    value(hub->add(config, *port));
    std::unique_ptr<phy::MemifSegment> segment;
    hub->start([&segment](std::size_t, std::unique_ptr<phy::MemifSegment> made) {
      segment = std::move(made);
    });
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (segment == nullptr) {
      if (std::chrono::steady_clock::now() > until) throw std::runtime_error(hub->fault(0));
      hub->process();
    }
    link::Config c = config_of(NodeId{static_cast<std::uint16_t>(which + 1)});
    c.mtu = c.cell = options.mtu;
    c.window = options.in_flight;
    c.capacity = {options.in_flight};
    c.timers = value(runtime::link_timers({}));
    end = make_end(c, MemifRings(std::move(segment)), options);
  }
  static constexpr std::uint32_t kUnused = 64;  ///< the hub wants a port; frames go past it
  HeapPool pool{1, kUnused};
  std::unique_ptr<phy::MemifPort> port;
  std::unique_ptr<phy::MemifHub> hub;
  std::unique_ptr<End> end;
};

/// What the daemon says of itself, in one reading.
struct Reading {
  std::uint64_t uptime_ns = 0;
  std::uint64_t forwarded = 0;
  std::uint64_t busy = 0;
  std::uint64_t idle = 0;
  std::uint64_t hz = 0;
  std::uint64_t drops = 0;
};

Reading read(control::Client& client) {
  mtlink::control::Request request;
  request.mutable_get_node();
  const auto node = value(client.call(request)).node();
  if (node.workers_size() != 1) throw std::runtime_error("the daemon must have one worker");
  Reading r{.uptime_ns = node.uptime_ns(),
            .busy = node.workers(0).busy_cycles(),
            .idle = node.workers(0).idle_cycles(),
            .hz = node.workers(0).cycles_hz()};
  for (const auto& shard : node.shards()) {
    r.forwarded += shard.forwarded();
    for (const auto& drop : shard.drops()) r.drops += drop.count();
  }
  for (const auto& port : node.ports()) {
    for (const auto& drop : port.drops()) r.drops += drop.count();
  }
  return r;
}

/// All ends and the time. `Port`: ClaimedSlot or MemifClient.
template <class Port>
class Load {
 public:
  using End = typename Port::End;
  explicit Load(const Options& options)
      : options_(options),
        busy_ends_(options.busy_pairs == 0 ? Port::names(options).size() : 2 * options.busy_pairs) {
    const std::size_t ports = Port::names(options).size();
    if (ports % 2 != 0 || busy_ends_ > ports) {
      throw std::runtime_error("ports come in pairs, and --busy-pairs is no more than there are");
    }
    for (std::size_t i = 0; i < ports; ++i) {
      ports_.emplace_back(options, i);
      ends_.push_back(ports_.back().end.get());
    }
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      ends_[i]->make_packets(peer(i).node(), options.destinations);
      ends_[i]->enable(clock_.now());
    }
  }
  void bring_up() {
    const Time until = clock_.now() + kPatience;
    while (!std::all_of(ends_.begin(), ends_.end(), [](const End* end) { return end->usable(); })) {
      if (clock_.now() > until) throw std::runtime_error("the links do not come up");
      pass(0);
    }
    // The daemon may not have heard of all of them yet, and would have no route (N7).
    const Time settled = clock_.now() + kSettle;
    while (clock_.now() < settled) pass(0);
  }
  void run(double seconds) {
    const std::uint64_t until = clock_.ticks() + ticks(seconds);
    while (clock_.ticks() < until) pass(options_.in_flight);
  }
  /// Sends nothing new until everything has arrived.
  void drain() {
    const Time until = clock_.now() + kPatience;
    for (std::size_t i = 0; i < ends_.size();) {
      if (ends_[i]->sent() == peer(i).received()) {
        ++i;
        continue;
      }
      if (clock_.now() > until) throw std::runtime_error(missing(i));
      pass(0);
    }
  }
  std::uint64_t replays() const {
    std::uint64_t sum = 0;
    for (const End* end : ends_) sum += end->replays();
    return sum;
  }
  /// Share of the passes' time in which there was nothing to do: the load waited for the switch.
  double idle_share() const {
    return static_cast<double>(idle_) / static_cast<double>(idle_ + busy_);
  }
  void forget() { idle_ = busy_ = 0; }

 private:
  std::string missing(std::size_t i) const {
    return std::to_string(ends_[i]->sent() - peer(i).received()) + " packets of " +
           std::to_string(ends_[i]->sent()) + " to node " + std::to_string(peer(i).node().value()) +
           " are missing; " + std::to_string(replays()) + " were sent again";
  }
  End& peer(std::size_t i) const { return *ends_[i ^ 1]; }
  std::uint64_t ticks(double seconds) const {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(clock_.ticks_hz()));
  }
  void pass(std::uint32_t in_flight) {
    const std::uint64_t begin = clock_.ticks();
    const Time now = clock_.at(begin);
    bool busy = false;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      busy |= ends_[i]->pass(i < busy_ends_ ? in_flight : 0, peer(i).received(), now);
    }
    (busy ? busy_ : idle_) += clock_.ticks() - begin;
  }

  const Options& options_;
  runtime::Clock clock_;
  const std::size_t busy_ends_;
  std::deque<Port> ports_;
  std::vector<End*> ends_;  ///< of ports_
  std::uint64_t idle_ = 0;
  std::uint64_t busy_ = 0;
};

template <class Port>
void measure(const Options& options) {
  auto monitor = value(control::Client::connect(options.socket));
  Load<Port> load(options);
  load.bring_up();
  load.run(options.warm_up);
  load.forget();
  const Reading before = read(monitor);
  load.run(options.seconds);
  const Reading after = read(monitor);
  const double idle_share = load.idle_share();
  load.drain();
  std::printf("{\"frames\": %" PRIu64 ", \"seconds\": %.6f, \"busy_cycles\": %" PRIu64
              ", \"idle_cycles\": %" PRIu64 ", \"hz\": %" PRIu64 ", \"drops\": %" PRIu64
              ", \"replays\": %" PRIu64 ", \"load_idle\": %.3f}\n",
              after.forwarded - before.forwarded,
              static_cast<double>(after.uptime_ns - before.uptime_ns) * 1e-9,
              after.busy - before.busy, after.idle - before.idle, after.hz,
              after.drops - before.drops, load.replays(), idle_share);
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    throw std::runtime_error("cannot run on CPU " + std::to_string(cpu));
  }
}

}  // namespace
}  // namespace mtl

int main(int argc, char** argv) {
  mtl::Options o;
  CLI::App app{
      "loads an mtswitchd between its slots or memif ports and prints what it forwarded, as JSON"};
  app.add_option("--socket", o.socket, "control socket of the mtswitchd")->required();
  app.add_option("--slots", o.slots, "names of the slots, each two a pair");
  app.add_option("--memif", o.memif,
                 "sockets of memif ports of its, each two a pair, with peer_node 1, 2 and so on; "
                 "instead of slots");
  app.add_option("--mtu", o.mtu, "of the links over memif; as the switch's")
      ->check(CLI::Range(64, 61410));
  app.add_option("--busy-pairs", o.busy_pairs,
                 "pairs that send; the others are just there (0: all)");
  app.add_option("--destinations", o.destinations,
                 "nodes that each port sends to, from its peer's id on: the daemon must route them")
      ->check(CLI::Range(1, 8192));
  app.add_option("--size", o.size, "bytes of a frame, Ethernet header included")
      ->check(CLI::Range(60, 61440));
  app.add_option("--in-flight", o.in_flight, "frames on their way, each way, at most");
  app.add_option("--seconds", o.seconds, "time measured");
  app.add_option("--cpu", o.cpu, "CPU to run on");
  CLI11_PARSE(app, argc, argv);
  try {
    mtl::pin(o.cpu);
    if (o.memif.empty()) {
      mtl::measure<mtl::ClaimedSlot>(o);
    } else {
      mtl::measure<mtl::MemifClient>(o);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "link_load: %s\n", e.what());
    return 1;
  }
  return 0;
}
