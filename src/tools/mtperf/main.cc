#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "control/file/json_object.h"
#include "tools/mtperf/datagram_run.h"
#include "tools/mtperf/open_endpoint.h"
#include "tools/mtperf/operation_command.h"
#include "tools/mtperf/option_checks.h"
#include "tools/standard_streams.h"

// mtperf: what the fabric delivers, measured from its edge. `datagram` numbers what it sends, and
// checks that each arrives once and unaltered; the others measure operations of the transport.
namespace {

using mtl::mtperf::DatagramOptions;

volatile std::sig_atomic_t g_stop = 0;
void on_signal(int) {
  g_stop = g_stop + 1;
}

struct Arguments {
  mtl::mtperf::EndpointChoice endpoint;
  std::vector<std::uint16_t> peers;
  std::string size = "1024";
  double seconds = 5;
  double patience = 10;
  std::uint16_t partition = 0;
  bool json = false;
  DatagramOptions run;
};

int fail(const std::string& message, int status = 1) {
  fmt::print(stderr, "mtperf: {}\n", message);
  return status;
}

void add_endpoint(CLI::App& app, mtl::mtperf::EndpointChoice& choice) {
  auto* from = app.add_option_group("endpoint", "which endpoint this is");
  from->add_option("-s,--socket", choice.slot.control_socket,
                   "control socket of the local mtswitchd, whose slot is claimed")
      ->envname("MTLINK_SOCKET");
  from->add_option("--slot", choice.slot.name, "name of the slot; default: any free one");
  from->add_option("-i,--interface", choice.interface,
                   "open this Linux interface by AF_PACKET instead of claiming a slot");
  from->add_option("--node", choice.node, "node id, with --interface; or the slot's")
      ->check(CLI::Range(1, 65534));
}

void add_options(CLI::App& app, Arguments& a) {
  add_endpoint(app, a.endpoint);
  app.add_option("-p,--peer", a.peers, "node ids to exchange datagrams with; each runs mtperf, too")
      ->required()
      ->delimiter(',')
      ->check(CLI::Range(1, 65534));
  app.add_option("--size", a.size, "bytes of payload, or LEAST-MOST (32 and up)")
      ->capture_default_str();
  app.add_option("-r,--rate", a.run.rate, "datagrams a second in all; 0: as fast as it goes")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("-n,--count", a.run.count, "datagrams to each peer, instead of a duration")
      ->check(mtl::mtperf::whole_number(0));
  app.add_option("-t,--time", a.seconds, "seconds of sending")
      ->capture_default_str()
      ->check(mtl::mtperf::seconds_between(0.001, 1e6));
  app.add_option("--patience", a.patience, "seconds to wait for a peer before it is a fault")
      ->capture_default_str()
      ->check(mtl::mtperf::seconds_between(0.1, 1e6));
  app.add_option("--seed", a.run.seed, "of the content and the sizes")
      ->capture_default_str()
      ->check(mtl::mtperf::whole_number(0));
  app.add_option("--partition", a.partition, "partition of the datagrams")->capture_default_str();
  app.add_option("--flows", a.run.flows, "entropy values taken in turn for each peer; 1: one path")
      ->capture_default_str()
      ->check(CLI::Range(1, 65535));
  app.add_flag("-j,--json", a.json, "print the report as JSON");
}

/// "N" or "N-M"; empty: fine.
std::string parse_size(const std::string& text, DatagramOptions& run) {
  std::size_t least = 0;
  std::size_t most = 0;
  char rest = 0;
  const int n = std::sscanf(text.c_str(), "%zu-%zu%c", &least, &most, &rest);
  const bool one = n == 1 && text.find_first_not_of("0123456789") == std::string::npos;
  if (one) most = least;
  if ((n != 2 && !one) || least < mtl::mtperf::kHeaderBytes || most < least || most > 65000) {
    return fmt::format("--size {}: give one size or LEAST-MOST, from {} bytes up", text,
                       mtl::mtperf::kHeaderBytes);
  }
  run.size_least = least;
  run.size_most = most;
  return {};
}

void print_row(const std::string& name, const mtlink::perf::PeerReport& p, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(p.sent()) / seconds : 0;
  fmt::print("{:>8} {:>11} {:>12.0f} {:>8} {:>11} {:>6} {:>8} {:>7} {:>10} {:>8} {:>7} {:>13.1f}\n",
             name, p.sent(), rate, p.refused(), p.received(), p.lost(), p.altered(), p.copies(),
             p.out_of_order(), p.out_of_order_in_flow(), p.marked(),
             static_cast<double>(p.longest_gap_us()) / 1000);
}

void print_report(const mtlink::perf::DatagramReport& r) {
  fmt::print("node {}, {:.3f} s of sending, seed {}\n", r.node(), r.seconds(), r.seed());
  fmt::print("{:>8} {:>11} {:>12} {:>8} {:>11} {:>6} {:>8} {:>7} {:>10} {:>8} {:>7} {:>13}\n",
             "peer", "sent", "sent/s", "refused", "received", "lost", "altered", "copies",
             "out of ord", "in flow", "marked", "longest gap ms");
  for (const auto& p : r.peers()) print_row(std::to_string(p.node()), p, r.seconds());
  print_row("total", r.total(), r.seconds());
  if (r.link_packets_back() != 0) {
    fmt::print("this endpoint's link died: {} packets handed back, {} dropped here (no_route)\n",
               r.link_packets_back(), r.dropped_here());
  }
  for (const auto& fault : r.faults()) fmt::print("FAILED: {}\n", fault);
  if (!r.ok()) return;
  if (r.total().refused() != 0 || r.total().missed() != 0) {
    fmt::print(
        "ok: nothing lost without a name, nothing altered; refused: {} sent from here, {} to "
        "here\n",
        r.total().refused(), r.total().missed());
  } else {
    fmt::print("ok: every datagram arrived, unaltered\n");
  }
}

int datagram(Arguments& a) {
  if (const auto why = parse_size(a.size, a.run); !why.empty()) return fail(why, 2);
  for (const std::uint16_t peer : a.peers) a.run.peers.emplace_back(peer);
  a.run.duration = std::chrono::nanoseconds(static_cast<std::int64_t>(a.seconds * 1e9));
  a.run.patience = std::chrono::nanoseconds(static_cast<std::int64_t>(a.patience * 1e9));
  a.run.partition = mtl::Partition{a.partition};
  auto opened = mtl::mtperf::open_endpoint(a.endpoint);
  if (!opened) return fail(opened.error().message);
  mtl::endpoint::Endpoint& endpoint = *opened->endpoint;
  const std::size_t most = endpoint.link().config().mtu - mtl::network::kMinPacket;
  if (a.run.size_most > most) {
    return fail(
        fmt::format("--size {}: the endpoint carries at most {} bytes of payload", a.size, most),
        2);
  }
  for (const mtl::NodeId peer : a.run.peers) {
    if (peer == endpoint.node()) {
      return fail(fmt::format("--peer {}: that is this endpoint itself", peer.value()), 2);
    }
  }
  const auto report = mtl::mtperf::DatagramRun(endpoint, a.run).run(g_stop);
  if (a.json) {
    fmt::print("{}\n", boost::json::serialize(mtl::control::to_json(report)));
  } else {
    print_report(report);
  }
  return report.ok() ? 0 : 1;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"mtperf: measures what an MTLink fabric delivers"};
  app.set_version_flag("--version", std::string("mtperf ") + MTLINK_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  auto* command = app.add_subcommand(
      "datagram", "sends numbered datagrams to peers that do the same, and checks what arrives");
  add_options(*command, arguments);
  std::function<int()> run = [&] { return datagram(arguments); };
  mtl::mtperf::OperationArguments operation;
  const mtl::mtperf::Stops stops = [] { return static_cast<int>(g_stop); };
  mtl::mtperf::add_operation_commands(app, operation, add_endpoint, run, stops);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  try {
    return run();
  } catch (const std::exception& e) {
    return fail(e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  mtl::tools::hold_standard_streams();
  return mtl::tools::end_program("mtperf", parse_and_run(argc, argv), 1);
}
