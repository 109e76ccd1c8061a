#include "tools/mtctl/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <csignal>
#include <fstream>

#include "../fake_daemon.h"
#include "control/socket_path.h"
#include "ran.h"
#include "sample_node.h"
#include "tools/mtctl/quantity.h"
#include "tools/mtctl/socket_choice.h"

namespace mtl::tools {
namespace {

using control::FakeDaemon;
using control::ScratchDirectory;
using mtlink::control::PingResult;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// mtctl against a daemon that has the sample node.
class Mtctl : public ::testing::Test {
 protected:
  Mtctl() {
    daemon_.on_server([&] { daemon_.target.node = sample_node(); });
  }
  Ran run_it(std::vector<std::string> arguments, bool terminal = false) {
    arguments.insert(arguments.begin(), {"-s", daemon_.path()});
    return mtctl(std::move(arguments), terminal);
  }
  static PingResult answer(PingResult::Outcome outcome, std::uint32_t from = 0,
                           std::uint64_t ns = 0) {
    PingResult result;
    result.set_outcome(outcome);
    result.set_from(from);
    result.set_round_trip_ns(ns);
    return result;
  }
  FakeDaemon daemon_;
};

TEST_F(Mtctl, ShowsWhatItIsAskedFor) {
  for (const auto& [view, begin] :
       std::vector<std::pair<std::string, std::string>>{{"node", "node            11 (sw1)\n"},
                                                        {"ports", "PORT  NAME    LINK  DRIVER"},
                                                        {"links", "PORT  NAME    LINK   PEER"},
                                                        {"vcs", "PORT  NAME    VC"},
                                                        {"routes", "NODE  TIER"},
                                                        {"drops", "WHERE"},
                                                        {"workers", "WORKER"},
                                                        {"memory", "buffers"}}) {
    const auto ran = run_it({"show", view});
    EXPECT_EQ(0, ran.status) << ran.err;
    EXPECT_THAT(ran.out, StartsWith(begin));
    EXPECT_EQ("", ran.err);
  }
}

TEST_F(Mtctl, ShowAloneIsWhatToLookAtFirst) {
  const auto ran = run_it({"show"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_THAT(ran.out, StartsWith("node            11 (sw1)\n"));
  EXPECT_THAT(ran.out, testing::HasSubstr("\n\nPORT  NAME    LINK   PEER"));
  EXPECT_THAT(ran.out, testing::HasSubstr("\n\nWHERE"));
  const auto json = run_it({"show", "-j"});
  EXPECT_EQ(0, json.status);
  EXPECT_THAT(json.out, testing::HasSubstr("\"links\""));
}

TEST_F(Mtctl, TakesGlobalOptionsBehindTheCommandToo) {
  const auto ran = run_it({"show", "memory", "-j"});
  EXPECT_EQ(0, ran.status);
  EXPECT_EQ(
      "{\"memory\":{\"pool_buffers\":4096,\"pool_free\":4000,\"buffer_bytes\":8388608,\"links_"
      "bytes\":"
      "524288,"
      "\"local_rings_bytes\":2097152}}\n",
      ran.out);
}

TEST_F(Mtctl, PingReportsEachAndSumsUp) {
  daemon_.on_server([&] {
    daemon_.target.more_pings = {answer(PingResult::REPLY, 21, 84'000),
                                 answer(PingResult::REPLY, 21, 100'000)};
    daemon_.target.ping_result = answer(PingResult::REPLY, 21, 92'000);
  });
  const auto ran = run_it({"ping", "21", "-c", "3", "-i", "0s", "-s", "64", "--partition", "5"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ(
      "ping to node 21, 64 bytes of data\n"
      "64 bytes from node 21: seq=1 time=0.084 ms\n"
      "64 bytes from node 21: seq=2 time=0.100 ms\n"
      "64 bytes from node 21: seq=3 time=0.092 ms\n"
      "\n"
      "--- node 21 ping statistics ---\n"
      "3 sent, 3 received, 0.0 % lost\n"
      "round trip min/avg/max = 0.084 ms / 0.092 ms / 0.100 ms\n",
      ran.out);
  const auto call = daemon_.target.calls.take().ping();
  EXPECT_EQ(64u, call.bytes());
  EXPECT_EQ(5u, call.partition());
}

TEST_F(Mtctl, PingFailsIfOneIsLost) {
  daemon_.on_server([&] {
    daemon_.target.more_pings = {answer(PingResult::REPLY, 21, 84'000), answer(PingResult::TIMEOUT),
                                 answer(PingResult::HOP_LIMIT_EXCEEDED, 12)};
    daemon_.target.ping_result = answer(PingResult::UNREACHABLE, 11);
  });
  const auto ran = run_it({"ping", "21", "-c", "4", "-i", "0s", "-W", "250ms"});
  EXPECT_EQ(1, ran.status);
  EXPECT_EQ(
      "ping to node 21, 56 bytes of data\n"
      "56 bytes from node 21: seq=1 time=0.084 ms\n"
      "no reply from node 21: seq=2 within 250 ms\n"
      "from node 12: seq=3 hop limit exceeded\n"
      "from node 11: seq=4 node 21 unreachable\n"
      "\n"
      "--- node 21 ping statistics ---\n"
      "4 sent, 1 received, 75.0 % lost\n"
      "round trip min/avg/max = 0.084 ms / 0.084 ms / 0.084 ms\n",
      ran.out);
  EXPECT_EQ("", ran.err);
}

TEST_F(Mtctl, PingInJsonIsOneObjectPerLine) {
  daemon_.on_server([&] { daemon_.target.ping_result = answer(PingResult::REPLY, 21, 5); });
  const auto ran = run_it({"-j", "ping", "21", "-c", "1"});
  EXPECT_EQ(0, ran.status);
  EXPECT_EQ(
      "{\"outcome\":\"reply\",\"from\":21,\"round_trip_ns\":5,\"seq\":1}\n"
      "{\"summary\":{\"sent\":1,\"received\":1,\"lost\":0,\"round_trip_min_ns\":5,\"round_trip_avg_"
      "ns\":5,"
      "\"round_trip_max_ns\":5}}\n",
      ran.out);
}

TEST(MtctlPing, EndsWithItsSummaryWhenInterrupted) {
  sigset_t interrupt;
  sigset_t before;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  ASSERT_EQ(
      0, pthread_sigmask(SIG_BLOCK, &interrupt, &before));  // the server's thread must not take it
  {
    FakeDaemon daemon;
    daemon.on_server([&] {
      daemon.target.ping_result.set_outcome(PingResult::REPLY);
      daemon.target.before_ping = [n = 0]() mutable {
        if (++n == 3) ::kill(::getpid(), SIGINT);
      };
    });
    const auto ran = mtctl({"-s", daemon.path(), "ping", "21", "-i", "0s"});
    EXPECT_EQ(0, ran.status) << ran.err;
    EXPECT_THAT(ran.out, testing::HasSubstr("3 sent, 3 received, 0.0 % lost\n"));
  }
  ASSERT_EQ(0, pthread_sigmask(SIG_SETMASK, &before, nullptr));
}

mtlink::control::TraceHop hop(std::uint32_t number, PingResult result, bool last = false) {
  mtlink::control::TraceHop made;
  made.set_hop(number);
  *made.mutable_result() = std::move(result);
  made.set_last(last);
  return made;
}

TEST_F(Mtctl, TraceShowsThePath) {
  daemon_.on_server([&] {
    daemon_.target.hops = {hop(1, answer(PingResult::HOP_LIMIT_EXCEEDED, 12, 50'000)),
                           hop(2, answer(PingResult::TIMEOUT)),
                           hop(3, answer(PingResult::REPLY, 21, 110'000), true)};
  });
  const auto ran = run_it({"trace", "21"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ(
      "path to node 21, 16 hops at most\n"
      "  1  node 12  0.050 ms\n"
      "  2  *\n"
      "  3  node 21  0.110 ms\n",
      ran.out);
}

TEST_F(Mtctl, TraceFailsIfTheNodeIsNotReached) {
  daemon_.on_server(
      [&] { daemon_.target.hops = {hop(1, answer(PingResult::UNREACHABLE, 12, 50'000), true)}; });
  const auto ran = run_it({"trace", "21"});
  EXPECT_EQ(1, ran.status);
  EXPECT_EQ(
      "path to node 21, 16 hops at most\n"
      "  1  node 12  0.050 ms  unreachable from here\n"
      "node 21 was not reached\n",
      ran.out);
  EXPECT_EQ(
      "{\"node\":21,\"reached\":false,\"hops\":[{\"hop\":1,\"result\":{\"outcome\":\"unreachable\","
      "\"from\":12,"
      "\"round_trip_ns\":50000},\"last\":true}]}\n",
      run_it({"-j", "trace", "21"}).out);
}

TEST_F(Mtctl, StatsShowsEveryBook) {
  const auto ran = run_it({"stats"});
  EXPECT_EQ(0, ran.status);
  EXPECT_THAT(
      ran.out,
      StartsWith(
          "shard 0, packets: accepted 1000 + made 30 + passed_in 0 = acked 1005 + delivered 10 + "
          "dropped 8 + passed_out 0 + held 7 (balanced)\n"
          "shard 0, drops: dropped 8 = no_route 8 (balanced)\n"));
  EXPECT_THAT(ran.out, testing::HasSubstr("\nnode 11: all 14 books balance\n"));
}

TEST_F(Mtctl, StatsCheckSaysWhatDoesNotBalance) {
  EXPECT_EQ("node 11: all 14 books balance\n", run_it({"stats", "--check"}).out);
  daemon_.on_server([&] { daemon_.target.node.mutable_shards(0)->set_delivered(9); });
  const auto ran = run_it({"stats", "--check"});
  EXPECT_EQ(1, ran.status);
  EXPECT_EQ(
      "shard 0, packets: accepted 1000 + made 30 + passed_in 0 = acked 1005 + delivered 9 + "
      "dropped 8 + passed_out 0 + "
      "held 7 (NOT BALANCED: the left is 1 too large)\n"
      "node 11: 1 of 14 books do not balance\n",
      ran.out);
  EXPECT_EQ(0, run_it({"stats"}).status);  // only --check judges
  EXPECT_THAT(run_it({"-j", "stats"}).out, HasSubstr("\"balanced\":false"));
}

TEST_F(Mtctl, EnablesAndDisablesAPortByNameOrNumber) {
  auto ran = run_it({"port", "down", "cable0"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("port cable0 is disabled\n", ran.out);
  auto call = daemon_.target.calls.take().set_port();
  EXPECT_EQ(0u, call.port());
  EXPECT_FALSE(call.up());
  ran = run_it({"port", "up", "2"});
  EXPECT_EQ(0, ran.status) << ran.err;
  call = daemon_.target.calls.take().set_port();
  EXPECT_EQ(2u, call.port());
  EXPECT_TRUE(call.up());
  EXPECT_EQ("{\"done\":true}\n", run_it({"-j", "port", "up", "2"}).out);
}

TEST_F(Mtctl, MovesAPortAndSaysWhatWentWithIt) {
  daemon_.target.moved.add_ports(0);
  auto ran = run_it({"port", "move", "cable0", "1"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("port cable0 moved from worker 0 to worker 1\n", ran.out);
  const auto call = daemon_.target.calls.take().move_port();
  EXPECT_EQ(0u, call.port());
  EXPECT_EQ(1u, call.worker());
  EXPECT_EQ("port cable0 is at worker 0 already\n", run_it({"port", "move", "cable0", "0"}).out);
  daemon_.target.moved.add_ports(2);
  EXPECT_EQ(
      "port cable0 moved from worker 0 to worker 1; with it, of the same device or trunk: 2\n",
      run_it({"port", "move", "cable0", "1"}).out);
  EXPECT_THAT(run_it({"-j", "port", "move", "cable0", "1"}).out, HasSubstr("\"ports\":[0,2]"));
  ran = run_it({"port", "move", "cable0", "64"});
  EXPECT_EQ(2, ran.status);
}

TEST_F(Mtctl, BalancesTheWorkers) {
  auto& told = daemon_.target.balanced;
  told.add_busy_ppm(900'000);
  told.add_busy_ppm(100'000);
  EXPECT_EQ("worker 0: busy 90.0 %\nworker 1: busy 10.0 %\nno move would help much\n",
            run_it({"workers", "balance"}).out);
  EXPECT_FALSE(daemon_.target.calls.take().balance_workers().dry_run());
  auto& move = *told.add_moves();
  move.add_ports(2);
  move.add_ports(5);
  move.set_to(1);
  move.set_busiest_before_ppm(900'000);
  move.set_busiest_after_ppm(520'000);
  EXPECT_EQ(
      "worker 0: busy 90.0 %\nworker 1: busy 10.0 %\n"
      "port 2, 5 would move from worker 0 to worker 1: the busier of them 90.0 % -> 52.0 %\n",
      run_it({"workers", "balance", "--dry-run"}).out);
  EXPECT_TRUE(daemon_.target.calls.take().balance_workers().dry_run());
  EXPECT_THAT(run_it({"workers", "balance"}).out, HasSubstr("port 2, 5 moved from worker 0 to"));
  EXPECT_THAT(run_it({"-j", "workers", "balance"}).out, HasSubstr("\"busiest_after_ppm\":520000"));
}

TEST_F(Mtctl, ReloadSaysWhatCameAndWent) {
  daemon_.target.reloaded.set_routes(4);
  EXPECT_EQ("no port was added or removed in the file\n4 routes are in force\n",
            run_it({"reload"}).out);
  EXPECT_FALSE(daemon_.target.calls.take().reload().dry_run());
  auto& told = daemon_.target.reloaded;
  told.add_warnings("a.textproto:3:1: hop_limit is 3");
  auto& added = *told.add_added();
  added.set_port(7);
  added.set_name("t7");
  auto& removed = *told.add_removed();
  removed.set_port(2);
  removed.set_name("old");
  *told.add_leaving() = removed;
  EXPECT_EQ(
      "warning: a.textproto:3:1: hop_limit is 3\n"
      "port 2 (old) removed\n"
      "port 7 (t7) added\n"
      "port 2 (old) is leaving still: packets that came in on it wait on other links (mtctl show "
      "links)\n"
      "4 routes are in force\n",
      run_it({"reload"}).out);
  daemon_.target.calls.take();
  told.clear_leaving();
  told.clear_warnings();
  EXPECT_EQ(
      "port 2 (old) would be removed\nport 7 (t7) would be added\n4 routes would be in force\n",
      run_it({"reload", "--dry-run"}).out);
  EXPECT_TRUE(daemon_.target.calls.take().reload().dry_run());
  EXPECT_THAT(run_it({"-j", "reload"}).out, HasSubstr("\"added\":[{\"port\":7,\"name\":\"t7\"}]"));
  daemon_.target.fail = "n.textproto:1:1: node is missing";
  const auto ran = run_it({"reload"});
  EXPECT_EQ(1, ran.status);
  EXPECT_THAT(ran.err, HasSubstr("n.textproto:1:1: node is missing"));
}

TEST_F(Mtctl, NamesThePortsThereAre) {
  const auto ran = run_it({"port", "up", "trunk9"});
  EXPECT_EQ(1, ran.status);
  EXPECT_EQ("", ran.out);
  EXPECT_EQ("mtctl: node 11 has no port trunk9: it has 0 (cable0), 1 (slot1), 2 (old)\n", ran.err);
}

TEST_F(Mtctl, ImpairsAPort) {
  const auto ran =
      run_it({"impair",          "cable0", "--drop",      "1",   "--corrupt-header", "0.1",
              "--corrupt",       "0.2%",   "--duplicate", "0.3", "--reorder",        "0.4",
              "--reorder-delay", "200us",  "--delay",     "5ms", "--jitter",         "1.5ms",
              "--seed",          "7"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ(
      "frames that arrive at port cable0 are impaired: drop 1 %, corrupt-header 0.1 %, corrupt 0.2 "
      "%, duplicate 0.3 %, "
      "reorder 0.4 %, delay 5.00 ms, jitter 1.50 ms, seed 7\n",
      ran.out);
  const auto set = daemon_.target.calls.take().set_impairment();
  EXPECT_EQ(
      "drop_ppm: 10000 corrupt_header_ppm: 1000 corrupt_packet_ppm: 2000 duplicate_ppm: 3000 "
      "reorder_ppm: 4000 "
      "reorder_delay_us: 200 delay_us: 5000 jitter_us: 1500 seed: 7",
      set.impairment().ShortDebugString());
}

TEST_F(Mtctl, EndsAnImpairment) {
  const auto ran = run_it({"impair", "0", "--clear"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("port 0 is not impaired any more\n", ran.out);
  const auto set = daemon_.target.calls.take().set_impairment();
  EXPECT_TRUE(set.has_impairment());
  EXPECT_EQ("", set.impairment().ShortDebugString());
}

TEST_F(Mtctl, SetsTheRateOfAPort) {
  auto ran = run_it({"rate", "cable0", "1.6T/10000"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("port cable0 sends 160.0 Mbit/s\n", ran.out);
  auto set = daemon_.target.calls.take().set_rate();
  EXPECT_EQ("rate { bps: 160000000 }", set.ShortDebugString());

  ran = run_it({"rate", "cable0", "2.5G", "--overhead", "0"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("port cable0 sends 2.5 Gbit/s with 0 B beside each frame\n", ran.out);
  set = daemon_.target.calls.take().set_rate();
  EXPECT_EQ("rate { bps: 2500000000 overhead: 0 }", set.ShortDebugString());
}

TEST_F(Mtctl, EndsTheRateOfAPort) {
  const auto ran = run_it({"rate", "1", "off"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("port 1 sends as fast as it can\n", ran.out);
  EXPECT_EQ("port: 1", daemon_.target.calls.take().set_rate().ShortDebugString());
}

TEST_F(Mtctl, HasWorkersMeasureOrNot) {
  auto ran = run_it({"workers", "measure", "on"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("workers measure where their cycles go: see show workers\n", ran.out);
  auto call = daemon_.target.calls.take();
  EXPECT_TRUE(call.has_set_measuring());
  EXPECT_TRUE(call.set_measuring().on());

  ran = run_it({"workers", "measure", "off"});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("workers measure no more; show workers tells what they have\n", ran.out);
  call = daemon_.target.calls.take();
  EXPECT_TRUE(call.has_set_measuring());
  EXPECT_FALSE(call.set_measuring().on());

  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"workers"}, {"workers", "measure"}, {"workers", "measure", "1"}}) {
    EXPECT_EQ(2, run_it(wrong).status) << wrong.back();
  }
}

TEST(BitRate, IsBitsPerSecondWithDecimalUnits) {
  const std::pair<const char*, std::uint64_t> good[] = {
      {"1000", 1'000},           {"1k", 1'000},
      {"100M", 100'000'000},     {"2.5G", 2'500'000'000},
      {"1T", 1'000'000'000'000}, {"1.6T/10000", 160'000'000},
      {"0.001M", 1'000},         {"1000000/1000", 1'000},
  };
  for (const auto& [text, bps] : good) {
    const auto parsed = parse_bit_rate(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(bps, *parsed) << text;
  }
  for (const char* bad : {"",
                          "0",
                          "999",
                          "1.6T",
                          "1000000000001",
                          "100m",
                          "100K",
                          "100Mbit",
                          "M",
                          "1.5",
                          "1.0005k",
                          "-1k",
                          "1k/",
                          "1k/0",
                          "1M/x",
                          "10k/3",
                          "/10",
                          "1M/1001",
                          "1e9",
                          "1 M",
                          "999999999999T",
                          "1000000T/1000000000000000000"}) {
    EXPECT_FALSE(parse_bit_rate(bad)) << bad;
  }
}

TEST_F(Mtctl, SetsRoutesFromAFile) {
  const auto file = daemon_.directory() / "routes.textproto";
  std::ofstream(file) << "routes { dst: 21 tiers { hops { port: 0 raise: 1 } } }\n";
  const auto ran = run_it({"routes", "set", file});
  EXPECT_EQ(0, ran.status) << ran.err;
  EXPECT_EQ("routes to 1 nodes are in force\n", ran.out);
  EXPECT_EQ(1u,
            daemon_.target.calls.take().set_routes().routes().routes(0).tiers(0).hops(0).raise());
}

TEST_F(Mtctl, NamesThePlaceOfAnErrorInARoutesFile) {
  const auto file = daemon_.directory() / "routes.textproto";
  std::ofstream(file) << "routes {\n  dst: 21\n  tier { }\n}\n";
  const auto ran = run_it({"routes", "set", file});
  EXPECT_EQ(1, ran.status);
  EXPECT_THAT(ran.err, StartsWith("mtctl: " + file + ":3:"));
  EXPECT_THAT(ran.err, HasSubstr("tier"));
  EXPECT_EQ(0u, daemon_.target.calls.size());
  EXPECT_THAT(run_it({"routes", "set", daemon_.directory() / "none.textproto"}).err,
              HasSubstr("there is no such file"));
}

TEST_F(Mtctl, NamesThePlaceOfWhatTheDaemonRefusesInARoutesFile) {
  const auto file = daemon_.directory() / "routes.textproto";
  std::ofstream(file) << "routes {\n  dst: 21\n  tiers { hops { port: 9 } }\n}\n";
  daemon_.on_server([&] {
    daemon_.target.fail =
        "routes[0].tiers[0].hops[0].port is 9, but the node has ports 0..2 only\n"
        "routes[0].tiers[1] has no hops\nno field";
  });
  const auto ran = run_it({"routes", "set", file});
  EXPECT_EQ(1, ran.status);
  EXPECT_EQ("mtctl: " + file +
                ":3:18: routes[0].tiers[0].hops[0].port is 9, but the node has ports 0..2 only\n" +
                file + ":3:3: routes[0].tiers[1] has no hops\nno field\n",
            ran.err);
}

TEST_F(Mtctl, WatchShowsRates) {
  daemon_.on_server([&] {
    daemon_.target.before_node = [](mtlink::control::NodeState& node) {
      node.set_uptime_ns(node.uptime_ns() + 1'000'000'000);
      node.mutable_ports(0)->set_frames_in(node.ports(0).frames_in() + 5000);
    };
  });
  const auto ran = run_it({"watch", "50ms", "-c", "2"});
  EXPECT_EQ(0, ran.status) << ran.err;
  const std::string table =
      "node 11 (sw1), every 50 ms\n"
      "PORT  NAME    LINK  FRAMES/s IN  FRAMES/s OUT       IN      OUT  REPLAYS/s  DROPS/s\n"
      "   0  cable0  up           5000             0  0 bit/s  0 bit/s          0        0\n"
      "   1  slot1   down            0             0  0 bit/s  0 bit/s          0        0\n"
      "   2  old     down            0             0  0 bit/s  0 bit/s          0        0\n"
      "\n";
  EXPECT_EQ(table + table, ran.out);
  EXPECT_THAT(run_it({"watch", "50ms", "-c", "1"}, true).out, StartsWith("\x1b[H\x1b[2Jnode 11"));
}

TEST_F(Mtctl, PrintsTheDaemonsErrorOnOneLine) {
  daemon_.on_server([&] { daemon_.target.fail = "worker 1 does not answer: see the log"; });
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"show", "ports"},
                                                                     {"stats"},
                                                                     {"ping", "21", "-c", "1"},
                                                                     {"trace", "21"},
                                                                     {"watch"},
                                                                     {"port", "up", "1"}}) {
    const auto ran = run_it(arguments);
    EXPECT_EQ(1, ran.status);
    EXPECT_EQ("mtctl: worker 1 does not answer: see the log\n", ran.err) << arguments.front();
  }
}

TEST(MtctlUsage, WrongUsageIsStatus2AndOneLine) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"shwo"},
                                             {"show", "port"},
                                             {"ping"},
                                             {"ping", "0"},
                                             {"ping", "65535"},
                                             {"ping", "x"},
                                             {"ping", "1", "-i", "1"},
                                             {"ping", "1", "-s", "1401"},
                                             {"ping", "1", "-c", "0"},
                                             {"ping", "1", "-W", "61s"},
                                             {"trace", "1", "-m", "256"},
                                             {"watch", "49ms"},
                                             {"port", "sideways", "1"},
                                             {"impair", "p"},
                                             {"impair", "p", "--seed", "2"},
                                             {"impair", "p", "--drop", "101"},
                                             {"impair", "p", "--clear", "--drop", "1"},
                                             {"routes", "set"}}) {
    const auto ran = mtctl(arguments);
    std::string shown;
    for (const auto& argument : arguments) shown += argument + " ";
    EXPECT_EQ(2, ran.status) << shown;
    EXPECT_EQ("", ran.out) << shown;
    EXPECT_THAT(ran.err, StartsWith("mtctl: ")) << shown;
    EXPECT_EQ(1, std::count(ran.err.begin(), ran.err.end(), '\n')) << shown << ran.err;
  }
}

TEST(MtctlUsage, NamesAWordThatIsNoCommandAndWhatWasMeant) {
  EXPECT_THAT(mtctl({"shwo"}).err,
              StartsWith("mtctl: mtctl has no command \"shwo\"; did you mean \"show\"?"));
  EXPECT_THAT(mtctl({"show", "port"}).err,
              StartsWith("mtctl: mtctl show has no command \"port\"; did you mean \"ports\"?"));
  EXPECT_THAT(mtctl({"port", "sideways", "p0"}).err,
              StartsWith("mtctl: mtctl port has no command \"sideways\"; it has: up, down"));
  EXPECT_THAT(mtctl({"-s", "x", "port"}).err, HasSubstr("subcommand is required"));
  EXPECT_THAT(mtctl({"port", "up"}).err, HasSubstr("PORT"));
}

TEST(MtctlUsage, HelpAndVersionAreStatus0) {
  EXPECT_EQ("mtctl " MTLINK_VERSION "\n", mtctl({"--version"}).out);
  EXPECT_EQ(0, mtctl({"--version"}).status);
  EXPECT_EQ(0, mtctl({"--help"}).status);
  EXPECT_THAT(mtctl({"impair", "--help"}).out, HasSubstr("--corrupt-header"));
}

TEST(MtctlUsage, SaysThatNoDaemonListens) {
  const ScratchDirectory directory;
  const auto ran = mtctl({"-s", directory / "none.sock", "show", "node"});
  EXPECT_EQ(1, ran.status);
  EXPECT_EQ(
      "mtctl: no mtswitchd at " + directory / "none.sock" + ": start it, or name its socket\n",
      ran.err);
}

TEST(SocketChoice, TakesWhatIsAskedThenTheEnvironment) {
  const ScratchDirectory directory;
  EXPECT_EQ("/a.sock", *choose_socket("/a.sock", "/b.sock", directory.path()));
  EXPECT_EQ("/b.sock", *choose_socket("", "/b.sock", directory.path()));
}

TEST(SocketChoice, TakesTheOnlySocketThereIs) {
  const ScratchDirectory directory;
  std::ofstream(directory / "notes.txt") << "no socket";
  EXPECT_EQ("no mtswitchd runs here, " + directory.path() +
                " has no control socket: start one, or name its socket with -s or MTLINK_SOCKET",
            choose_socket("", nullptr, directory.path()).error().message);
  const auto one = control::ListeningSocket::open(directory / "sw1.sock");
  ASSERT_TRUE(one);
  EXPECT_EQ(directory / "sw1.sock", *choose_socket("", "", directory.path()));
  const auto two = control::ListeningSocket::open(directory / "sw0.sock");
  ASSERT_TRUE(two);
  EXPECT_EQ("several mtswitchd run here: choose one with -s or MTLINK_SOCKET: " +
                directory / "sw0.sock" + ", " + directory / "sw1.sock",
            choose_socket("", nullptr, directory.path()).error().message);
  EXPECT_FALSE(choose_socket("", nullptr, directory / "missing"));
}

}  // namespace
}  // namespace mtl::tools
