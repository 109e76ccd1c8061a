#include "control/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "base/ids.h"
#include "mtlink/control.pb.h"

namespace mtl::control {
namespace {

using mtlink::control::Request;

/// Gathers the first fault of a request.
class Ranges {
 public:
  explicit Ranges(const char* call) : call_(call) {}

  Ranges& in(const char* field, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
    if (fault_.empty() && (value < low || value > high))
      fault_ = fmt::format("{}.{} is {}, it must be from {} to {}", call_, field, value, low, high);
    return *this;
  }
  Result<void> result() const {
    if (fault_.empty()) return {};
    return Error{fault_};
  }

 private:
  const char* call_;
  std::string fault_;
};

constexpr std::uint64_t kU16 = 0xFFFF;
constexpr std::uint64_t kPpm = 1'000'000;
/// As the protocol page names them.
constexpr std::array<std::string_view, 5> kKinds{"DATA", "STATUS", "NACK", "INIT", "CLOSE"};

std::uint32_t or_default(std::uint32_t value, std::uint32_t otherwise) {
  return value == 0 ? otherwise : value;
}

Result<void> check(mtlink::control::Ping& ping) {
  ping.set_timeout_ms(or_default(ping.timeout_ms(), kDefaultTimeoutMs));
  return Ranges("ping")
      .in("node", ping.node(), kMinNode, kMaxNode)
      .in("bytes", ping.bytes(), 0, kMaxPingBytes)
      .in("timeout_ms", ping.timeout_ms(), 1, kMaxTimeoutMs)
      .in("partition", ping.partition(), 0, kU16)
      .in("entropy", ping.entropy(), 0, kU16)
      .in("hop_limit", ping.hop_limit(), 0, kMaxHops)
      .result();
}

Result<void> check(mtlink::control::Trace& trace) {
  trace.set_timeout_ms(or_default(trace.timeout_ms(), kDefaultTimeoutMs));
  trace.set_max_hops(or_default(trace.max_hops(), kDefaultTraceHops));
  return Ranges("trace")
      .in("node", trace.node(), kMinNode, kMaxNode)
      .in("max_hops", trace.max_hops(), 1, kMaxHops)
      .in("timeout_ms", trace.timeout_ms(), 1, kMaxTimeoutMs)
      .in("partition", trace.partition(), 0, kU16)
      .in("entropy", trace.entropy(), 0, kU16)
      .result();
}

Result<void> check(const mtlink::control::SetImpairment& set) {
  const auto& impairment = set.impairment();
  return Ranges("set_impairment")
      .in("port", set.port(), 0, kNoPort.value() - 1)
      .in("impairment.drop_ppm", impairment.drop_ppm(), 0, kPpm)
      .in("impairment.corrupt_header_ppm", impairment.corrupt_header_ppm(), 0, kPpm)
      .in("impairment.corrupt_packet_ppm", impairment.corrupt_packet_ppm(), 0, kPpm)
      .in("impairment.duplicate_ppm", impairment.duplicate_ppm(), 0, kPpm)
      .in("impairment.reorder_ppm", impairment.reorder_ppm(), 0, kPpm)
      .in("impairment.reorder_delay_us", impairment.reorder_delay_us(), 0, kMaxDelayUs)
      .in("impairment.delay_us", impairment.delay_us(), 0, kMaxDelayUs)
      .in("impairment.jitter_us", impairment.jitter_us(), 0, kMaxDelayUs)
      .result();
}

Result<void> check(const mtlink::control::SetRate& set) {
  Ranges ranges("set_rate");
  ranges.in("port", set.port(), 0, kNoPort.value() - 1);
  if (set.has_rate()) {
    ranges.in("rate.bps", set.rate().bps(), kMinRateBps, kMaxRateBps)
        .in("rate.overhead", set.rate().overhead(), 0, kMaxRateOverhead);
  }
  return ranges.result();
}

Result<void> check(mtlink::control::Capture& capture) {
  using mtlink::control::Capture;
  capture.set_snap(or_default(capture.snap(), kMaxCaptureSnap));
  capture.set_ring_kib(or_default(capture.ring_kib(), kDefaultCaptureRingKib));
  if (!Capture::Direction_IsValid(capture.direction())) {
    return Error{fmt::format("capture.direction is {}, which means nothing", +capture.direction())};
  }
  if (!std::has_single_bit(capture.ring_kib())) {
    return Error{fmt::format("capture.ring_kib is {}, it must be a power of two from {} to {}",
                             capture.ring_kib(), kMinCaptureRingKib, kMaxCaptureRingKib)};
  }
  for (const std::string& kind : capture.kinds()) {
    if (std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end()) continue;
    return Error{
        fmt::format("capture.kinds has \"{}\", it may have {}", kind, fmt::join(kKinds, ", "))};
  }
  const bool data_alone = std::all_of(capture.kinds().begin(), capture.kinds().end(),
                                      [](const std::string& kind) { return kind == "DATA"; });
  if (!data_alone && (!capture.vcs().empty() || capture.node() != 0)) {
    return Error{
        fmt::format("capture.kinds has {}, but DATA alone has a VC and a node: name no other kind, "
                    "or neither VC nor node",
                    fmt::join(capture.kinds(), ", "))};
  }
  Ranges ranges("capture");
  ranges.in("node", capture.node(), 0, kMaxNode)
      .in("snap", capture.snap(), 1, kMaxCaptureSnap)
      .in("ring_kib", capture.ring_kib(), kMinCaptureRingKib, kMaxCaptureRingKib);
  for (const std::uint32_t port : capture.ports()) ranges.in("ports", port, 0, kNoPort.value() - 1);
  for (const std::uint32_t vc : capture.vcs()) ranges.in("vcs", vc, 0, kVcs - 1);
  return ranges.result();
}

Result<void> check(mtlink::control::Watch& watch) {
  watch.set_interval_ms(or_default(watch.interval_ms(), kDefaultWatchMs));
  return Ranges("watch").in("interval_ms", watch.interval_ms(), kMinWatchMs, kMaxWatchMs).result();
}

}  // namespace

Result<void> check_request(Request& request) {
  switch (request.call_case()) {
    case Request::kGetNode:
      return {};
    case Request::kWatch:
      return check(*request.mutable_watch());
    case Request::kPing:
      return check(*request.mutable_ping());
    case Request::kTrace:
      return check(*request.mutable_trace());
    case Request::kSetPort:
      return Ranges("set_port")
          .in("port", request.set_port().port(), 0, kNoPort.value() - 1)
          .result();
    case Request::kMovePort:
      return Ranges("move_port")
          .in("port", request.move_port().port(), 0, kNoPort.value() - 1)
          .in("worker", request.move_port().worker(), 0, kMaxWorker)
          .result();
    case Request::kSetImpairment:
      return check(request.set_impairment());
    case Request::kSetRate:
      return check(request.set_rate());
    case Request::kSetMeasuring:
    case Request::kSetRoutes:
    case Request::kBalanceWorkers:
    case Request::kReload:
      return {};
    case Request::kCapture:
      return check(*request.mutable_capture());
    case Request::kClaimSlot:
      return Ranges("claim_slot").in("node", request.claim_slot().node(), 0, kMaxNode).result();
    case Request::CALL_NOT_SET:
      break;
  }
  return Error{"the request has no call that this mtswitchd knows: use an mtctl of its version"};
}

}  // namespace mtl::control
