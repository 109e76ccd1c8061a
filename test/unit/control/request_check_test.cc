#include "control/request_check.h"

#include <gtest/gtest.h>

#include <functional>

#include "mtlink/control.pb.h"

namespace mtl::control {
namespace {

using mtlink::control::Request;

struct Case {
  const char* what;
  std::function<void(Request&)> fill;
  const char* error;  ///< nullptr: accepted
};

// The ranges are those of control.proto, of N3 and of section 4's field widths.
const Case kCases[] = {
    {"lowest node", [](Request& r) { r.mutable_ping()->set_node(1); }, nullptr},
    {"highest node", [](Request& r) { r.mutable_ping()->set_node(65534); }, nullptr},
    {"no node", [](Request& r) { r.mutable_ping()->set_bytes(1); },
     "ping.node is 0, it must be from 1 to 65534"},
    {"longest ping",
     [](Request& r) {
       r.mutable_ping()->set_node(1);
       r.mutable_ping()->set_bytes(1400);
     },
     nullptr},
    {"too long a ping",
     [](Request& r) {
       r.mutable_ping()->set_node(1);
       r.mutable_ping()->set_bytes(1401);
     },
     "ping.bytes is 1401, it must be from 0 to 1400"},
    {"partition",
     [](Request& r) {
       r.mutable_ping()->set_node(1);
       r.mutable_ping()->set_partition(65536);
     },
     "ping.partition is 65536, it must be from 0 to 65535"},
    {"entropy",
     [](Request& r) {
       r.mutable_trace()->set_node(1);
       r.mutable_trace()->set_entropy(65536);
     },
     "trace.entropy is 65536, it must be from 0 to 65535"},
    {"hop limit",
     [](Request& r) {
       r.mutable_ping()->set_node(1);
       r.mutable_ping()->set_hop_limit(256);
     },
     "ping.hop_limit is 256, it must be from 0 to 255"},
    {"timeout",
     [](Request& r) {
       r.mutable_ping()->set_node(1);
       r.mutable_ping()->set_timeout_ms(60'001);
     },
     "ping.timeout_ms is 60001, it must be from 1 to 60000"},
    {"hops",
     [](Request& r) {
       r.mutable_trace()->set_node(1);
       r.mutable_trace()->set_max_hops(256);
     },
     "trace.max_hops is 256, it must be from 1 to 255"},
    {"trace to no node", [](Request& r) { r.mutable_trace(); },
     "trace.node is 0, it must be from 1 to 65534"},
    {"highest port", [](Request& r) { r.mutable_set_port()->set_port(65534); }, nullptr},
    {"no port", [](Request& r) { r.mutable_set_port()->set_port(65535); },
     "set_port.port is 65535, it must be from 0 to 65534"},
    {"last worker", [](Request& r) { r.mutable_move_port()->set_worker(63); }, nullptr},
    {"worker beyond all", [](Request& r) { r.mutable_move_port()->set_worker(64); },
     "move_port.worker is 64, it must be from 0 to 63"},
    {"no port to move", [](Request& r) { r.mutable_move_port()->set_port(65535); },
     "move_port.port is 65535, it must be from 0 to 65534"},
    {"all dropped",
     [](Request& r) { r.mutable_set_impairment()->mutable_impairment()->set_drop_ppm(1'000'000); },
     nullptr},
    {"more than all",
     [](Request& r) {
       r.mutable_set_impairment()->mutable_impairment()->set_reorder_ppm(1'000'001);
     },
     "set_impairment.impairment.reorder_ppm is 1000001, it must be from 0 to 1000000"},
    {"huge delay",
     [](Request& r) { r.mutable_set_impairment()->mutable_impairment()->set_delay_us(60'000'001); },
     "set_impairment.impairment.delay_us is 60000001, it must be from 0 to 60000000"},
    {"slowest rate", [](Request& r) { r.mutable_set_rate()->mutable_rate()->set_bps(1'000); },
     nullptr},
    {"fastest rate",
     [](Request& r) {
       r.mutable_set_rate()->mutable_rate()->set_bps(1'000'000'000'000);
       r.mutable_set_rate()->mutable_rate()->set_overhead(255);
     },
     nullptr},
    {"measuring", [](Request& r) { r.mutable_set_measuring()->set_on(true); }, nullptr},
    {"end of a rate", [](Request& r) { r.mutable_set_rate()->set_port(0); }, nullptr},
    {"rate of nothing", [](Request& r) { r.mutable_set_rate()->mutable_rate(); },
     "set_rate.rate.bps is 0, it must be from 1000 to 1000000000000"},
    {"too fast a rate",
     [](Request& r) { r.mutable_set_rate()->mutable_rate()->set_bps(1'000'000'000'001); },
     "set_rate.rate.bps is 1000000000001, it must be from 1000 to 1000000000000"},
    {"huge overhead",
     [](Request& r) {
       r.mutable_set_rate()->mutable_rate()->set_bps(1'000);
       r.mutable_set_rate()->mutable_rate()->set_overhead(256);
     },
     "set_rate.rate.overhead is 256, it must be from 0 to 255"},
    {"too fast a watch", [](Request& r) { r.mutable_watch()->set_interval_ms(49); },
     "watch.interval_ms is 49, it must be from 50 to 3600000"},
    {"slot of no node's id", [](Request& r) { r.mutable_claim_slot()->set_node(65535); },
     "claim_slot.node is 65535, it must be from 0 to 65534"},
    {"a capture of all", [](Request& r) { r.mutable_capture(); }, nullptr},
    {"a capture of some",
     [](Request& r) {
       auto& capture = *r.mutable_capture();
       capture.add_ports(255);
       capture.add_kinds("DATA");
       capture.add_vcs(7);
       capture.set_node(65534);
       capture.set_snap(1);
       capture.set_ring_kib(1 << 20);
     },
     nullptr},
    {"capture of no kind", [](Request& r) { r.mutable_capture()->add_kinds("data"); },
     "capture.kinds has \"data\", it may have DATA, STATUS, NACK, INIT, CLOSE"},
    {"capture of no VC", [](Request& r) { r.mutable_capture()->add_vcs(8); },
     "capture.vcs is 8, it must be from 0 to 7"},
    {"capture of no port", [](Request& r) { r.mutable_capture()->add_ports(65535); },
     "capture.ports is 65535, it must be from 0 to 65534"},
    {"capture of no node", [](Request& r) { r.mutable_capture()->set_node(65535); },
     "capture.node is 65535, it must be from 0 to 65534"},
    {"capture of too much", [](Request& r) { r.mutable_capture()->set_snap(65537); },
     "capture.snap is 65537, it must be from 1 to 65536"},
    {"capture of a kind without VC by VC",
     [](Request& r) {
       r.mutable_capture()->add_kinds("DATA");
       r.mutable_capture()->add_kinds("STATUS");
       r.mutable_capture()->add_vcs(4);
     },
     "capture.kinds has DATA, STATUS, but DATA alone has a VC and a node: name no other kind, or "
     "neither VC nor node"},
    {"capture of a kind without node by node",
     [](Request& r) {
       r.mutable_capture()->add_kinds("INIT");
       r.mutable_capture()->set_node(4);
     },
     "capture.kinds has INIT, but DATA alone has a VC and a node: name no other kind, or neither "
     "VC "
     "nor node"},
    {"capture by an odd ring", [](Request& r) { r.mutable_capture()->set_ring_kib(1000); },
     "capture.ring_kib is 1000, it must be a power of two from 256 to 1048576"},
    {"capture by a small ring", [](Request& r) { r.mutable_capture()->set_ring_kib(128); },
     "capture.ring_kib is 128, it must be from 256 to 1048576"},
    {"capture of no direction",
     [](Request& r) {
       r.mutable_capture()->set_direction(static_cast<mtlink::control::Capture::Direction>(3));
     },
     "capture.direction is 3, which means nothing"},
    {"any slot", [](Request& r) { r.mutable_claim_slot(); }, nullptr},
    {"no call", [](Request&) {},
     "the request has no call that this mtswitchd knows: use an mtctl of its version"},
};

TEST(RequestCheck, AcceptsTheRangesOfTheSchemaAndNothingElse) {
  for (const auto& c : kCases) {
    Request request;
    c.fill(request);
    const auto result = check_request(request);
    EXPECT_EQ(c.error == nullptr, bool(result)) << c.what;
    if (!result) {
      EXPECT_EQ(c.error, result.error().message) << c.what;
    }
  }
}

TEST(RequestCheck, FillsInTheDefaultsOfTheSchema) {
  Request request;
  request.mutable_watch();
  ASSERT_TRUE(check_request(request));
  EXPECT_EQ(1000u, request.watch().interval_ms());
  request.mutable_trace()->set_node(1);
  ASSERT_TRUE(check_request(request));
  EXPECT_EQ(16u, request.trace().max_hops());
  EXPECT_EQ(1000u, request.trace().timeout_ms());
}

}  // namespace
}  // namespace mtl::control
