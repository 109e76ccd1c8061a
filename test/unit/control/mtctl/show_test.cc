#include "tools/mtctl/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <tuple>
#include <vector>

#include "sample_node.h"
#include "tools/mtctl/json.h"
#include "tools/mtctl/rates.h"

namespace mtl::tools {
namespace {

TEST(Show, Node) {
  EXPECT_EQ(
      "node            11 (sw1)\n"
      "version         0.1.0\n"
      "running for     3 h 12 min\n"
      "process         4242\n"
      "ports           3, 1 of them up\n"
      "routes          to 2 nodes\n"
      "hop choice      by the flow's hash\n"
      "deadlock check  unproved: routes by hand\n"
      "own packets     at most 256 in a queue; beyond, 4 refused, 0 dropped (own_queue_full)\n"
      "workers         1\n",
      show_node(sample_node(), false));
}

TEST(Show, Ports) {
  EXPECT_EQ(
      R"(PORT  NAME    LINK  DRIVER         DEVICE  CARRIER  WORKER  LONGEST  FRAMES IN  FRAMES OUT  BYTES IN  BYTES OUT  FULL  DROPS  NOTE
   0  cable0  up    net_af_packet  veth0   yes           0   1514 B       1200        1100   1.5 MiB      900 B     3     18  impaired: drop 1 %, delay 1.50 ms, seed 7 (12 frames so far)
   1  slot1   down  local          slot1   no            0  61440 B          0           0       0 B        0 B     0      0  free, for node 101; edge
   2  old     off   net_af_packet  eth9    no            0      0 B          0           0       0 B        0 B     0      0  interface eth9 is gone
)",
      show_ports(sample_node(), false));
}

TEST(Show, PortsSayWhatBecameOfTheirRate) {
  auto node = sample_node();
  auto& pace = *node.mutable_ports(1)->mutable_pace();
  pace.mutable_rate()->set_bps(160'000'000);
  pace.set_interval_ns(1'000'000'000);
  const auto note = [&] {
    const std::string all = show_ports(node, false);
    const auto begin = all.find("free, for node 101; edge");
    return all.substr(begin, all.find('\n', begin) - begin);
  };
  EXPECT_EQ("free, for node 101; edge; rate 160.0 Mbit/s: in use 0.0 % of 1.00 s", note());
  pace.set_achieved_bps(159'680'000);
  pace.set_error_ppm(-2000);
  pace.set_utilisation_ppm(931'400);
  pace.mutable_rate()->set_overhead(0);
  EXPECT_EQ(
      "free, for node 101; edge; rate 160.0 Mbit/s with 0 B beside each frame: 159.7 Mbit/s, off "
      "by -0.20 %, in use 93.1 % of 1.00 s",
      note());
}

TEST(Show, Links) {
  EXPECT_EQ(
      R"(PORT  NAME    LINK   PEER            PEER MAC              MTU  ROUND TRIP  PACKETS IN  ACKED  UNACKED  QUEUED  HELD  MARKED  REPLAYS  TIMEOUTS  STALLS  UPS  LAST DOWN
   0  cable0  up     node 12 port 3  02:00:00:00:00:0c  1484 B     84.0 us        1000   1005        5       2     1       3       20         6       0    2  -
   1  slot1   down   -               -                       -           -           0      0        0       0     0       0        0         0       0    0  no_carrier
   2  old     fault  -               -                       -           -           0      0        0       0     0       0        0         0       0    0  disabled
)",
      show_links(sample_node(), false));
}

TEST(Show, Vcs) {
  EXPECT_EQ(
      "PORT  NAME    VC  CAPACITY  OCCUPIED  CREDIT AT PEER  QUEUED  MARKED\n"
      "   0  cable0   0        64         3              60      12       3\n"
      "in cells (a cell is what one credit pays for); marked: packets, CE set here (N12)\n",
      show_vcs(sample_node(), false));
}

TEST(Show, Routes) {
  EXPECT_EQ(
      "NODE  TIER  BY PORT\n"
      "  12     1  0 (cable0)\n"
      "  21     1  0 (cable0) weight 2, 2 (old)\n"
      "  21     2  1 (slot1) raise\n",
      show_routes(sample_node(), false));
  EXPECT_EQ("no routes\n", show_routes({}, false));
}

/// The sample, whose ports 0 and 2 are the lanes of a trunk.
mtlink::control::NodeState with_trunk() {
  auto node = sample_node();
  auto& trunk = *node.add_trunks();
  trunk.set_name("up");
  trunk.set_spread("flow");
  auto& first = *trunk.add_lanes();
  first.set_port(0);
  first.set_usable(true);
  first.set_queued(2);
  first.set_packets(1000);
  first.set_flows(190);
  auto& second = *trunk.add_lanes();
  second.set_port(2);
  second.set_packets(600);
  trunk.set_moves(70);
  trunk.set_forced_moves(64);
  return node;
}

TEST(Show, Trunks) {
  EXPECT_EQ(
      "TRUNK  SPREAD  PORT        LANE    FLOWS  QUEUED  PACKETS  MOVES  FORCED\n"
      "up     flow    0 (cable0)  usable    190       2     1000     70      64\n"
      "               2 (old)     lost        0       0      600\n",
      show_trunks(with_trunk(), false));
  EXPECT_EQ("no trunks\n", show_trunks(sample_node(), false));
}

TEST(Show, RoutesNameATrunkByItsName) {
  auto node = with_trunk();
  node.mutable_routes()->DeleteSubrange(1, 1);
  node.mutable_routes(0)->mutable_tiers(0)->mutable_hops(0)->set_weight(2);
  EXPECT_EQ(
      "NODE  TIER  BY PORT\n"
      "  12     1  trunk up weight 2\n",
      show_routes(node, false));
}

TEST(Show, NodeSaysByWhatHopsAreChosen) {
  auto node = sample_node();
  node.set_hop_choice("shortest_queue");
  EXPECT_NE(std::string::npos, show_node(node, false).find("hop choice      the shortest queue\n"));
}

TEST(Show, Drops) {
  EXPECT_EQ(
      "WHERE            LAYER    REASON          COUNT\n"
      "port 0 (cable0)  link     bad_header_crc      4\n"
      "port 0 (cable0)  link     duplicate           2\n"
      "port 0 (cable0)  phy      impaired           12\n"
      "device eth3      link     foreign             6\n"
      "shard 0          network  no_route            8\n"
      "shard 0          phy      no_buffer           1\n",
      show_drops(sample_node(), false));
  EXPECT_EQ("nothing was dropped\n", show_drops({}, false));
  mtlink::control::NodeState node;
  auto& drop = *node.mutable_removed()->add_drops();
  drop.set_layer("link");
  drop.set_name("duplicate");
  drop.set_count(3);
  EXPECT_EQ(
      "WHERE          LAYER  REASON     COUNT\n"
      "removed ports  link   duplicate      3\n",
      show_drops(node, false));
}

TEST(Show, Workers) {
  // 2e9 and 1e9 cycles at 2 GHz are 1 s and 0.5 s; 1 s of 11,525 s is 0.0 %.
  EXPECT_EQ(
      "WORKER  CPU  LOOPS    BUSY  POLLING IDLE    ASLEEP  SLEEPS  OF UPTIME BUSY  BUSY NOW  "
      "PORTS\n"
      "     0  any   5000  1.00 s      500.0 ms  9000.0 s     777           0.0 %         -  -\n",
      show_workers(sample_node(), false));
  auto node = sample_node();
  auto& worker = *node.mutable_workers(0);
  worker.set_interval_ns(1'000'000'000);
  worker.set_busy_ppm(123'456);
  for (const std::uint32_t port : {0u, 2u}) worker.add_ports(port);
  EXPECT_THAT(show_workers(node, false), testing::EndsWith("12.3 %  0 (cable0), 2 (old)\n"));
}

TEST(Show, WorkersTellWhereTheirCyclesWent) {
  auto node = sample_node();
  auto& worker = *node.mutable_workers(0);
  worker.set_measuring(true);
  const auto after_workers = [&] {
    const std::string all = show_workers(node, false);
    return all.substr(show_workers(sample_node(), false).size());
  };
  EXPECT_EQ("\nworker 0: 0 passes measured so far\n", after_workers());
  worker.set_measured_passes(200);
  for (const auto& [stage, cycles, frames] :
       std::vector<std::tuple<const char*, std::uint64_t, std::uint64_t>>{
           {"device_receive", 250'000, 2'000}, {"timers", 750'000, 0}}) {
    auto& state = *worker.add_stages();
    state.set_stage(stage);
    state.set_cycles(cycles);
    state.set_frames(frames);
  }
  // 250,000 cycles are a quarter of the million, and 125 for each of 2,000 frames.
  EXPECT_EQ(
      "\nworker 0: 200 passes measured so far\n\n"
      "WORKER  STAGE           CYCLES   SHARE  FRAMES  CYCLES/FRAME\n"
      "     0  device_receive  250000  25.0 %    2000         125.0\n"
      "     0  timers          750000  75.0 %       0             -\n",
      after_workers());
  worker.set_measuring(false);
  EXPECT_EQ(0u, after_workers().find("\nworker 0: 200 passes measured\n"));
}

TEST(Show, Memory) {
  EXPECT_EQ(
      "buffers      4096, 4000 of them free, 8.0 MiB in all\n"
      "links        512.0 KiB\n"
      "local ports  2.0 MiB\n",
      show_memory(sample_node(), false));
}

TEST(Show, UsesColoursOnlyIfAsked) {
  EXPECT_NE(std::string::npos, show_links(sample_node(), true).find("\x1b[32mup\x1b[0m"));
  EXPECT_EQ(std::string::npos, show_links(sample_node(), false).find('\x1b'));
}

TEST(Json, AViewHasTheFieldsOfTheSchema) {
  EXPECT_EQ(
      R"({"node":11,"name":"sw1","version":"0.1.0","uptime_ns":11525000000000,"pid":4242,"own_limit":256,"hop_choice":"hash","deadlock_check":"unproved","own_refused":4})",
      boost::json::serialize(view_json("node", sample_node())));
}

TEST(Json, EachViewHasItsPart) {
  const auto node = sample_node();
  const auto ports = view_json("ports", node);
  EXPECT_EQ(1200u, ports.at("ports").at(0).at("frames_in").to_number<std::uint64_t>());
  EXPECT_EQ("up", ports.at("ports").at(0).at("state").as_string());
  EXPECT_FALSE(ports.at("ports").at(0).as_object().contains("link"));
  const auto links = view_json("links", node);
  EXPECT_EQ("cable0", links.at("links").at(0).at("name").as_string());
  EXPECT_EQ(12, links.at("links").at(0).at("peer_node").to_number<int>());
  EXPECT_EQ(
      R"({"vcs":[{"port":0,"name":"cable0","vc":0,"capacity":64,"occupied":3,"credit":60,"queued_cells":12,"marked":3}]})",
      boost::json::serialize(view_json("vcs", node)));
  EXPECT_EQ(21, view_json("routes", node).at("routes").at(1).at("dst").to_number<int>());
  const auto drops = view_json("drops", node).at("drops").as_array();
  EXPECT_EQ(R"({"port":0,"name":"cable0","layer":"link","reason":"bad_header_crc","count":4})",
            boost::json::serialize(drops.at(0)));
  EXPECT_EQ(R"({"device":"eth3","layer":"link","reason":"foreign","count":6})",
            boost::json::serialize(drops.at(3)));
  EXPECT_EQ(R"({"shard":0,"layer":"network","reason":"no_route","count":8})",
            boost::json::serialize(drops.at(4)));
  EXPECT_EQ(777, view_json("workers", node).at("workers").at(0).at("sleeps").to_number<int>());
  EXPECT_EQ(4096, view_json("memory", node).at("memory").at("pool_buffers").to_number<int>());
}

TEST(Rates, AreDifferencesByTheNodesOwnClock) {
  const auto before = sample_node();
  auto now = before;
  now.set_uptime_ns(before.uptime_ns() + 2'000'000'000);  // 2 s later
  auto& port = *now.mutable_ports(0);
  port.set_frames_in(1200 + 20'000);
  port.set_frames_out(1100 + 1);
  port.set_bytes_in(1'572'864 + 25'000'000);
  port.mutable_link()->set_replays(20 + 6);
  port.mutable_drops(0)->set_count(4 + 3);
  const auto all = rates(before, now);
  EXPECT_EQ(
      "PORT  NAME    LINK  FRAMES/s IN  FRAMES/s OUT            IN      OUT  REPLAYS/s  DROPS/s\n"
      "   0  cable0  up          10000           0.5  100.0 Mbit/s  0 bit/s        3.0      1.5\n"
      "   1  slot1   down            0             0       0 bit/s  0 bit/s          0        0\n"
      "   2  old     down            0             0       0 bit/s  0 bit/s          0        0\n",
      rates_text(all, false));
  EXPECT_EQ(1e8, rates_json(all).at("ports").at(0).at("bits_in_per_s").as_double());
}

TEST(Rates, NeedTimeToHavePassed) {
  EXPECT_TRUE(rates(sample_node(), sample_node()).empty());
}

}  // namespace
}  // namespace mtl::tools
