// A client and a server of mtperf on one link without a switch, each in a thread that polls on a
// CPU of its own. The report of mtperf as JSON. bench/operations/run starts it.
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <boost/json/serialize.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "base/heap_pool.h"
#include "control/file/json_object.h"
#include "endpoint/endpoint.h"
#include "phy/local_port.h"
#include "tools/mtperf/client.h"
#include "tools/mtperf/serve.h"

namespace {

using namespace mtl;
using namespace std::chrono_literals;

constexpr std::uint32_t kPackets = 64;  ///< of the longest, that a VC holds

endpoint::Settings settings(std::uint16_t node, std::uint16_t mtu) {
  endpoint::Settings s;
  s.link.node = NodeId{node};
  s.link.port = PortId{0};
  s.link.mac = {std::byte{2}, {}, {}, {}, {}, static_cast<std::byte>(node)};
  s.link.mtu = mtu;
  s.link.cell = mtu;
  s.link.window = 256;
  s.link.capacity.fill(kPackets);
  s.link.timers = link::lab_timers();
  return s;
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

struct Ends {
  std::unique_ptr<endpoint::Endpoint> client;
  std::unique_ptr<endpoint::Endpoint> server;
};

Result<Ends> join(std::uint16_t mtu) {
  const auto frame = static_cast<std::uint32_t>(link::kFrameHeader) + mtu;
  auto near_pool = std::make_unique<HeapPool>(kVcs * kPackets + 1024, frame);
  auto far_pool = std::make_unique<HeapPool>(kVcs * kPackets + 1024, frame);
  auto near = phy::LocalPort::create({.name = "near", .ring_bytes = 8 << 20, .max_frame = frame},
                                     *near_pool);
  if (!near) return near.error();
  auto descriptors = (*near)->claim();
  if (!descriptors) return descriptors.error();
  auto far = phy::LocalPort::attach(std::move(*descriptors), "far", *far_pool);
  if (!far) return far.error();
  auto client = endpoint::Endpoint::open(settings(1, mtu), std::move(near_pool), std::move(*near));
  if (!client) return client.error();
  auto server = endpoint::Endpoint::open(settings(2, mtu), std::move(far_pool), std::move(*far));
  if (!server) return server.error();
  for (auto* end : {client->get(), server->get()}) {
    const auto started =
        end->start_transport(mtperf::transport_settings(), mtperf::transport_limits());
    if (!started) return started.error();
  }
  return Ends{std::move(*client), std::move(*server)};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"direct_link: operations over one link, both ends polling"};
  mtperf::ClientOptions options;
  std::string mode = "write";
  std::uint64_t size = 8;
  std::uint16_t mtu = 9000;
  double seconds = 1;
  app.add_option("--mode", mode)->check(CLI::IsMember({"write", "read", "send", "store"}));
  app.add_flag("--latency", options.job.latency);
  app.add_option("--size", size);
  app.add_option("--depth", options.job.depth);
  app.add_option("--mtu", mtu);
  app.add_option("--seconds", seconds);
  CLI11_PARSE(app, argc, argv);
  for (unsigned m = 0; m < mtperf::kModes; ++m) {
    if (mode == mtperf::name(static_cast<mtperf::Mode>(m)))
      options.job.mode = static_cast<mtperf::Mode>(m);
  }
  options.sizes = {size};
  options.peer = NodeId{2};
  options.time = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
  options.poll = true;
  auto ends = join(mtu);
  if (!ends) {
    fmt::print(stderr, "direct_link: {}\n", ends.error().message);
    return 1;
  }
  std::atomic<int> stop = 0;
  std::thread serving([&] {
    pin(0);
    mtperf::ServeOptions serve;
    serve.poll = true;
    auto server = mtperf::Server::open(*ends->server, serve);
    if (server) (*server)->run([&] { return stop.load(std::memory_order_relaxed); });
  });
  pin(1);
  const auto report = mtperf::Client(*ends->client, options).run([] { return 0; });
  stop = 1;
  serving.join();
  fmt::print("{}\n", boost::json::serialize(control::to_json(report)));
  return report.ok() ? 0 : 1;
}
