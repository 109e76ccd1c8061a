// Traces are checked field by field: an error names the file and the field.

#include "conformance/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "conformance/hex.h"

namespace mtl::conformance {
namespace {

constexpr const char* kPort =
    R"("port": 0, "mac": "02:00:00:00:dd:00", "peer_mac": "02:00:00:00:ee:00",
  "fixed_peer_mac": false, "mtu": 4096, "cell": 256, "window": 64, "capacity": [1, 2, 3, 4, 5, 6, 7, 8],
  "nonces": [5, 6], "epochs": [17, 18], "timers": {"init_interval": 1, "keepalive_interval": 2,
  "dead_interval": 3, "ack_every": 4, "ack_delay": 5, "replay_timeout": 6, "replay_limit": 7,
  "nack_interval": 8, "hold_down": 9})";

/// A good trace, in the words of section 6.
std::string good() {
  return std::string(R"({"about": "a test", "rules": ["L13"], "dut": {"node": 7, "ports": [{)") +
         kPort +
         R"(, "expect_node": 9, "expect_port": 3, "other_macs": ["02:00:00:00:ee:01"],
             "edge": {"nodes": [9], "partitions": [1]}}],
           "routes": [{"dst": 9, "tiers": [[{"port": 0, "raise": 1}]]}], "consume": false},
          "stimuli": [{"at": 1000, "do": "enable", "port": 0},
                      {"at": 2000, "do": "submit", "packet": "000102030405060708090a0b0c0d0e0f"},
                      {"at": 2000, "do": "release", "count": 3}],
          "end": 5000,
          "delivered": [{"at": 3000, "port": null, "vc": 4, "packet": "000102030405060708090a0b0c0d0e0f"}],
          "counters": {"0": {"duplicate": 2}, "node": {"no_route": 1}}})";
}

CapturedFrame frame(std::int64_t at, const std::string& source) {
  return {Time{Duration{at}}, *from_hex("02000000ffff" + source + "88b5")};
}

class TraceFile : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::path(testing::TempDir()) / ("mtl_trace_" + std::string(info->name()));
    std::filesystem::create_directories(folder_);
    frames_ = {frame(1000, "02000000dd00"), frame(1500, "02000000ee00"),
               frame(1500, "02000000ee01")};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result<Trace> load(const std::string& json) {
    std::ofstream(folder_ / "t.json") << json;
    EXPECT_TRUE(write_capture(folder_ / "t.pcap", frames_));
    return load_trace(folder_ / "t.json");
  }
  std::string error(const std::string& json) {
    const auto trace = load(json);
    return trace ? "loaded" : trace.error().message;
  }
  /// The good trace with `from`, which must be in it, made `to`; the message when it is loaded.
  std::string changed(const std::string& from, const std::string& to) {
    std::string json = good();
    const auto at = json.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) json.replace(at, from.size(), to);
    return error(json);
  }
  void expect(const std::string& from, const std::string& to, const std::string& told) {
    const std::string message = changed(from, to);
    EXPECT_NE(message.find("t.json: " + told), std::string::npos) << message;
  }

  std::filesystem::path folder_;
  std::vector<CapturedFrame> frames_;
};

TEST_F(TraceFile, ReadsEveryField) {
  const auto trace = load(good());
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->name, "t");
  EXPECT_EQ(trace->about, "a test");
  EXPECT_EQ(trace->rules, std::vector<std::string>{"L13"});
  EXPECT_EQ(trace->node, NodeId{7});
  EXPECT_FALSE(trace->consume);
  EXPECT_EQ(nanos(trace->end), 5000);
  ASSERT_EQ(trace->routes.size(), 1U);
  EXPECT_EQ(trace->routes[0].dst, NodeId{9});
  EXPECT_EQ(trace->routes[0].tiers, (std::vector<network::Tier>{{{PortId{0}, 1}}}));
  EXPECT_EQ(trace->port_drops, (std::vector<DropCounts>{{{Drop::kDuplicate, 2}}}));
  EXPECT_EQ(trace->node_drops, (DropCounts{{Drop::kNoRoute, 1}}));
  const Delivery delivery{Time{Duration{3000}}, kNoPort, Vc{4},
                          *from_hex("000102030405060708090a0b0c0d0e0f")};
  EXPECT_EQ(trace->deliveries, std::vector<Delivery>{delivery});
  EXPECT_FALSE(trace->digest);
}

TEST_F(TraceFile, ReadsEveryFieldOfAPort) {
  const auto trace = load(good());
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->ports.size(), 1U);
  const TracePort& port = trace->ports[0];
  const link::Config& link = port.config.link;
  EXPECT_EQ(link.node, NodeId{7});
  EXPECT_EQ(link.port, PortId{0});
  EXPECT_EQ(to_text(link.mac), "02:00:00:00:dd:00");
  EXPECT_EQ(to_text(port.peer_mac), "02:00:00:00:ee:00");
  EXPECT_FALSE(link.peer_mac);
  EXPECT_EQ(link.expect_node, NodeId{9});
  EXPECT_EQ(link.expect_port, PortId{3});
  EXPECT_EQ(link.mtu, 4096);
  EXPECT_EQ(link.cell, 256);
  EXPECT_EQ(link.window, 64);
  const std::array<std::uint16_t, kVcs> capacity{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(link.capacity, capacity);
  ASSERT_EQ(port.bring_ups.size(), 2U);
  EXPECT_EQ(port.bring_ups[1].nonce, 6U);
  EXPECT_EQ(port.bring_ups[1].epoch, 18);
  ASSERT_TRUE(port.config.edge);
  EXPECT_EQ(port.config.edge->nodes, std::vector<NodeId>{NodeId{9}});
  EXPECT_EQ(port.config.edge->partitions, std::vector<Partition>{Partition{1}});
  const link::Timers& t = link.timers;
  EXPECT_EQ(t.init_interval.count(), 1);
  EXPECT_EQ(t.keepalive_interval.count(), 2);
  EXPECT_EQ(t.dead_interval.count(), 3);
  EXPECT_EQ(t.ack_every, 4);
  EXPECT_EQ(t.ack_delay.count(), 5);
  EXPECT_EQ(t.replay_timeout.count(), 6);
  EXPECT_EQ(t.replay_limit, 7U);
  EXPECT_EQ(t.nack_interval.count(), 8);
  EXPECT_EQ(t.hold_down.count(), 9);
  EXPECT_FALSE(t.adaptive);  // L27
}

TEST_F(TraceFile, C3_SourceMacTellsPortAndDirection) {
  const auto trace = load(good());
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->frames.size(), 3U);
  EXPECT_FALSE(trace->frames[0].received);
  EXPECT_TRUE(trace->frames[1].received);
  EXPECT_TRUE(trace->frames[2].received);  // of other_macs
  EXPECT_EQ(trace->frames[2].number, 3U);
  frames_.push_back(frame(2000, "020000000001"));
  const std::string message = error(good());
  EXPECT_NE(message.find("t.pcap: frame 4: source 02:00:00:00:00:01"), std::string::npos)
      << message;
}

TEST_F(TraceFile, FixedPeerMacIsConfigured) {
  std::string json = good();
  json.replace(json.find("\"fixed_peer_mac\": false"), 23, "\"fixed_peer_mac\": true ");
  const auto trace = load(json);
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_TRUE(trace->ports[0].config.link.peer_mac);
  EXPECT_EQ(to_text(*trace->ports[0].config.link.peer_mac), "02:00:00:00:ee:00");
}

TEST_F(TraceFile, C4_DigestInsteadOfDeliveries) {
  std::string json = good();
  const auto at = json.find("[{\"at\": 3000");
  json.replace(at, json.find("],\n", at) + 1 - at,
               R"({"delivered_count": 2, "delivered_sha256": ")" + std::string(64, 'a') + "\"}");
  const auto trace = load(json);
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_TRUE(trace->digest);
  EXPECT_EQ(trace->digest->count, 2U);
  EXPECT_EQ(to_hex(trace->digest->sha256), std::string(64, 'a'));
}

TEST_F(TraceFile, DigestIsSha256OfThePacketsOneAfterAnother) {
  // FIPS 180-4's example "abc", in two pieces.
  std::vector<Delivery> deliveries(2);
  deliveries[0].packet = *from_hex("61");
  deliveries[1].packet = *from_hex("6263");
  EXPECT_EQ(to_hex(digest(deliveries)),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(TraceFile, NamesSyntaxErrorsByPlace) {
  EXPECT_NE(error("{\n  \"about\": oops}").find("t.json: line 2, column"), std::string::npos);
  EXPECT_NE(error("").find("not JSON"), std::string::npos);
  EXPECT_NE(error("{} {}").find("not JSON"), std::string::npos);
  EXPECT_NE(error("[]").find("must be an object"), std::string::npos);
}

TEST_F(TraceFile, NamesUnknownAndMissingFields) {
  expect("\"about\"", "\"abuot\"", "abuot: unknown field");
  expect("\"about\": \"a test\", ", "", "about: is missing");
  expect("\"consume\": false", "\"consume\": false, \"x\": 1", "dut.x: unknown field");
  expect("\"mtu\": 4096, ", "", "dut.ports[0].mtu: is missing");
  expect("\"window\"", "\"windwo\"", "dut.ports[0].windwo: unknown field");
  expect("\"ack_every\": 4, ", "", "dut.ports[0].timers.ack_every: is missing");
  expect("\"hold_down\": 9", "\"hold_down\": 9, \"y\": 1", "dut.ports[0].timers.y: unknown field");
  expect("\"raise\": 1", "\"raise\": 1, \"z\": 0", "dut.routes[0].tiers[0][0].z: unknown field");
  expect("\"partitions\": [1]", "\"partitions\": [1], \"z\": 0",
         "dut.ports[0].edge.z: unknown field");
  expect("\"vc\": 4", "\"vc\": 4, \"z\": 0", "delivered[0].z: unknown field");
  expect("\"count\": 3", "\"count\": 3, \"port\": 0", "stimuli[2].port: unknown field");
}

TEST_F(TraceFile, NamesWrongValues) {
  expect("\"a test\"", "1", "about: must be a string");
  expect("[\"L13\"]", "\"L13\"", "rules: must be a list");
  expect("\"node\": 7", "\"node\": 0", "dut.node: must be an integer from 1 to 65534");
  expect("\"node\": 7", "\"node\": 7.5", "dut.node: must be an integer");
  expect("\"node\": 7", "\"node\": -7", "dut.node: must be an integer");
  expect("\"port\": 0, \"mac\"", "\"port\": 1, \"mac\"",
         "dut.ports[0].port: must be an integer from 0 to 0");
  expect("\"02:00:00:00:dd:00\"", "\"02-00-00-00-dd-00\"", "dut.ports[0].mac: must be a MAC");
  expect("\"fixed_peer_mac\": false", "\"fixed_peer_mac\": 0",
         "dut.ports[0].fixed_peer_mac: must be true");
  expect("\"mtu\": 4096", "\"mtu\": 63", "dut.ports[0].mtu: must be an integer from 64 to 65535");
  expect("\"cell\": 256", "\"cell\": 0", "dut.ports[0].cell: must be");
  expect("\"window\": 64", "\"window\": 16385", "dut.ports[0].window: must be");
  expect("7, 8]", "7]", "dut.ports[0].capacity: must list 8 VCs");
  expect("7, 8]", "7, 32768]", "dut.ports[0].capacity[7]: must be");
  expect("7, 8]", "32767, 8]", "dut.ports[0]: ");  // the sum, by link::fault()
  expect("\"nonces\": [5, 6]", "\"nonces\": [5]", "dut.ports[0].epochs: must be as many");
  expect("\"nonces\": [5, 6]", "\"nonces\": [5, 0]", "dut.ports[0].nonces[1]: must be");
  expect("\"epochs\": [17, 18]", "\"epochs\": [17, 17]", "dut.ports[0].epochs[1]: must differ");
  expect("\"nack_interval\": 8", "\"nack_interval\": 0",
         "dut.ports[0].timers.nack_interval: must be");
  expect("\"dst\": 9", "\"dst\": 65535", "dut.routes[0].dst: must be");
  expect("\"port\": 0, \"raise\"", "\"port\": 1, \"raise\"",
         "dut.routes[0].tiers[0][0].port: must be");
  expect("\"consume\": false", "\"consume\": 0", "dut.consume: must be true or false");
}

TEST_F(TraceFile, NamesWrongStimuliDeliveriesAndCounters) {
  expect("\"enable\"", "\"enabel\"", "stimuli[0].do: must be enable");
  expect("\"enable\", \"port\": 0", "\"enable\", \"port\": 1", "stimuli[0].port: must be");
  expect("\"at\": 1000", "\"at\": 2001", "stimuli[1].at: must not be before");
  expect("\"end\": 5000", "\"end\": 1999", "stimuli[1].at: must not be after");
  expect("\"submit\", \"packet\": \"00", "\"submit\", \"packet\": \"0",
         "stimuli[1].packet: must be an even");
  expect("\"submit\", \"packet\": \"00", "\"submit\", \"packet\": \"",
         "stimuli[1].packet: a packet has 16");
  expect("\"count\": 3", "\"count\": 0", "stimuli[2].count: must be");
  expect("\"vc\": 4", "\"vc\": 8", "delivered[0].vc: must be");
  expect("\"port\": null", "\"port\": 1", "delivered[0].port: must be");
  expect("\"duplicate\": 2", "\"no_route\": 2",
         "counters.0.no_route: is no drop counter of a port");
  expect("\"duplicate\": 2", "\"duplicate\": 0", "counters.0.duplicate: must be an integer from 1");
  expect("\"no_route\": 1", "\"stale\": 1", "counters.node.stale: is no drop counter of the node");
  expect("{\"0\": {", "{\"1\": {", "counters.1: must be a port of the trace");
}

TEST_F(TraceFile, RefusesAMacThatIsUsedTwice) {
  expect("[\"02:00:00:00:ee:01\"]", "[\"02:00:00:00:dd:00\"]", "dut.ports[0]: a MAC is used twice");
}

TEST_F(TraceFile, ChecksTheTimesOfFrames) {
  frames_ = {frame(2000, "02000000dd00"), frame(1000, "02000000dd00")};
  EXPECT_NE(error(good()).find("t.pcap: frame 2: is before"), std::string::npos);
  frames_ = {frame(5001, "02000000dd00")};
  EXPECT_NE(error(good()).find("t.pcap: frame 1: is after \"end\""), std::string::npos);
  frames_ = {{Time{}, std::vector<std::byte>(13)}};
  EXPECT_NE(error(good()).find("t.pcap: frame 1: has no whole Ethernet header"), std::string::npos);
}

TEST_F(TraceFile, FindsPairsAndNeverNothing) {
  EXPECT_FALSE(find_traces(folder_));
  EXPECT_FALSE(find_traces(folder_ / "none"));
  std::ofstream(folder_ / "vectors.json") << "{}";
  std::ofstream(folder_ / "transport-vectors.json") << "{}";
  EXPECT_FALSE(find_traces(folder_)) << "vectors are no trace";
  for (const char* file : {"b.json", "b.pcap", "a.json", "a.pcap", "note.md"}) {
    std::ofstream(folder_ / file) << "";
  }
  const auto found = find_traces(folder_);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, (std::vector<std::filesystem::path>{folder_ / "a.json", folder_ / "b.json"}));
  std::filesystem::remove(folder_ / "a.pcap");
  const auto half = find_traces(folder_);
  ASSERT_FALSE(half);
  EXPECT_NE(half.error().message.find("a.pcap: missing"), std::string::npos);
}

}  // namespace
}  // namespace mtl::conformance
