#include "tools/mtperf/operation_command.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdio>

#include "control/file/json_object.h"
#include "tools/mtperf/option_checks.h"

namespace mtl::mtperf {
namespace {

constexpr std::uint64_t kLongestSweep = std::uint64_t{1} << 22;

struct ModeText {
  Mode mode;
  const char* help;
  std::uint64_t size;
  std::uint32_t depth;
};
constexpr std::array kModeTexts{
    ModeText{Mode::kWrite, "puts into the server's memory (RDMA write)", 65536, 128},
    ModeText{Mode::kRead, "gets out of the server's memory (RDMA read)", 65536, 128},
    ModeText{Mode::kSend, "messages to the server", 65536, 128},
    ModeText{Mode::kStore, "small stores, many in a packet", 8, 1024},
    ModeText{Mode::kLoad, "loads, one after the other", 8, 1},
    ModeText{Mode::kAtomic, "fetch-adds of 64 bits, one after the other", 8, 1},
};

const ModeText& text_of(Mode mode) {
  return kModeTexts[static_cast<std::size_t>(mode)];
}

Duration of_seconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}

int fail(const std::string& message, int status = 1) {
  fmt::print(stderr, "mtperf: {}\n", message);
  return status;
}

void add_client(CLI::App& app, OperationArguments& a) {
  app.add_option("-p,--peer", a.peer, "node id at which `mtperf serve` runs")
      ->required()
      ->check(CLI::Range(1, 65534));
  app.add_option("--size", a.sizes, "bytes of each operation, as 64K; several: a row for each")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false));
  app.add_flag("-a,--all", a.all_sizes, "a row for each power of two up to 4 MiB");
  app.add_flag("-l,--latency", a.client.job.latency,
               "to and fro, one at a time (write, send): what one way takes");
  app.add_flag("-b,--bidirectional", a.client.job.both,
               "the server does the same to us (write, read, send)");
  app.add_flag("--verify", a.client.job.verify, "fill and compare contents");
  app.add_option("-d,--depth", a.depth, "operations under way at a time, 1 to 4096")
      ->check(CLI::Range(1U, kMaxDepth));
  app.add_option("-q,--connections", a.client.connections, "connections, each of them with --depth")
      ->check(CLI::Range(1, 32))
      ->capture_default_str();
  app.add_option("-n,--count", a.count, "operations of each connection and row, instead of a time")
      ->check(whole_number(1));
  app.add_option("-t,--time", a.seconds, "seconds of each row")
      ->capture_default_str()
      ->check(seconds_between(0.001, 1e6));
  app.add_option("--partition", a.partition, "partition of the packets")->capture_default_str();
  app.add_option("--seed", a.client.job.seed, "of the contents")
      ->capture_default_str()
      ->check(whole_number(0));
  app.add_option("--patience", a.patience, "seconds to wait for the server")
      ->capture_default_str()
      ->check(seconds_between(0.1, 1e6));
  app.add_flag("--poll", a.client.poll, "never sleep: needs a core of its own");
  CLI::Option* const json = app.add_flag("-j,--json", a.json, "print the report as JSON");
  app.add_flag("--histogram", a.client.histogram, "with --json: all times by size")->needs(json);
}

void add_mtu(CLI::App& app, OperationArguments& a) {
  app.add_option(
         "--mtu", a.mtu,
         "longest packet; default what the endpoint's link carries. The smaller one of both "
         "ends counts, and each link of the way must carry it")
      ->check(CLI::Range(128, 65535));
}

/// Starts the transport of the endpoint that was chosen; the Error: why that cannot be.
Result<OpenedEndpoint> open_with_transport(const OperationArguments& a) {
  auto opened = open_endpoint(a.endpoint);
  if (!opened) return opened;
  const auto started =
      opened->endpoint->start_transport(transport_settings(a.mtu), transport_limits());
  if (!started) return started.error();
  return opened;
}

/// Empty: fine.
std::string complete(OperationArguments& a) {
  const ModeText& mode = text_of(a.mode);
  ClientOptions& client = a.client;
  client.job.mode = a.mode;
  client.peer = NodeId{a.peer};
  client.partition = Partition{a.partition};
  if (client.job.latency && client.connections != 1) return "--latency: of one connection";
  if (a.mode == Mode::kAtomic && client.job.verify && client.connections != 1)
    return "atomic: --verify is of one connection";
  client.job.depth = a.depth != 0 ? a.depth : client.job.latency ? 1 : mode.depth;
  client.sizes = a.sizes;
  if (a.all_sizes) {
    if (!a.sizes.empty()) return "--all: not with --size";
    for (std::uint64_t size = 1; size <= kLongestSweep; size *= 2) client.sizes.push_back(size);
  }
  if (client.sizes.empty()) client.sizes.push_back(client.job.latency ? 8 : mode.size);
  for (const std::uint64_t size : client.sizes) {
    Job job = client.job;
    job.size = size;
    if (const char* why = fault(job)) return why;
  }
  if (a.count) client.operations = a.count;
  client.time = of_seconds(a.seconds);
  client.patience = of_seconds(a.patience);
  return {};
}

void print_report(const mtlink::perf::OperationReport& r) {
  fmt::print("{}{}{}, node {} to node {}, {} connection{}, depth {}{}\n", r.mode(),
             r.to_and_fro() ? ", to and fro" : "", r.both() ? ", both ways" : "", r.node(),
             r.peer(), r.connections(), r.connections() == 1 ? "" : "s", r.depth(),
             r.verified() ? ", contents compared" : "");
  if (r.rows_size() != 0) {
    fmt::print("{:>9} {:>11} {:>11} {:>10} {:>9} | us: {:>8} {:>9} {:>9} {:>9} {:>9}\n", "bytes",
               "operations", "op/s", "MB/s", "Gbit/s", "min", "median", "p99", "p99.9", "max");
  }
  for (const auto& row : r.rows()) {
    const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
    fmt::print("{:>9} {:>11} {:>11.0f} {:>10.2f} {:>9.3f} |", row.size(), row.operations(),
               row.operations_per_second(), row.bytes_per_second() / 1e6,
               row.bytes_per_second() * 8 / 1e9);
    const auto& t = row.time();
    if (t.count() == 0) {
      fmt::print("\n");
      continue;
    }
    fmt::print("     {:>8.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f}\n", us(t.least_ns()),
               us(t.median_ns()), us(t.p99_ns()), us(t.p999_ns()), us(t.most_ns()));
  }
  for (const auto& fault : r.faults()) fmt::print("FAILED: {}\n", fault);
  if (r.ok())
    fmt::print("ok: every operation complete{}\n", r.verified() ? ", contents right" : "");
}

}  // namespace

int run_client(OperationArguments& a, const Stops& stops) {
  if (const std::string why = complete(a); !why.empty()) return fail(why, 2);
  auto opened = open_with_transport(a);
  if (!opened) return fail(opened.error().message);
  if (a.client.peer == opened->endpoint->node()) {
    return fail(fmt::format("--peer {}: that is this endpoint itself", a.peer), 2);
  }
  const auto report = Client(*opened->endpoint, a.client).run(stops);
  if (a.json) {
    fmt::print("{}\n", boost::json::serialize(control::to_json(report)));
  } else {
    print_report(report);
  }
  return report.ok() ? 0 : 1;
}

int run_server(OperationArguments& a, const Stops& stops) {
  auto opened = open_with_transport(a);
  if (!opened) return fail(opened.error().message);
  auto server = Server::open(*opened->endpoint, a.serve);
  if (!server) return fail(server.error().message);
  fmt::print("node {} serves; {} bytes for each connection at most\n",
             opened->endpoint->node().value(), a.serve.memory);
  std::fflush(stdout);
  (*server)->run(stops);
  const std::uint64_t clients = (*server)->accepted();
  fmt::print("{} connection{} served\n", clients, clients == 1 ? "" : "s");
  return 0;
}

void add_operation_commands(CLI::App& app, OperationArguments& a,
                            const std::function<void(CLI::App&, EndpointChoice&)>& add_endpoint,
                            std::function<int()>& run, const Stops& stops) {
  CLI::App* serve = app.add_subcommand(
      "serve", "does what write, read, send, store, load and atomic of other nodes ask for");
  add_endpoint(*serve, a.endpoint);
  add_mtu(*serve, a);
  serve->add_option("-m,--memory", a.serve.memory, "bytes for each connection at most")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  serve
      ->add_option("--clients", a.serve.clients,
                   "end when so many connections have come and gone; 0: never")
      ->capture_default_str()
      ->check(whole_number(0));
  serve->add_flag("--poll", a.serve.poll, "never sleep: needs a core of its own");
  serve->callback([&] { run = [&] { return run_server(a, stops); }; });
  for (const ModeText& text : kModeTexts) {
    CLI::App* command = app.add_subcommand(name(text.mode), text.help);
    add_endpoint(*command, a.endpoint);
    add_mtu(*command, a);
    add_client(*command, a);
    command->callback([&, mode = text.mode] {
      a.mode = mode;
      run = [&] { return run_client(a, stops); };
    });
  }
}

}  // namespace mtl::mtperf
