#include "transport/settings.h"

#include "transport/codec.h"
#include "transport/operation_limits.h"

namespace mtl::transport {
namespace {

constexpr std::uint32_t kMaxItems = 0x7FFFFFFF;

const char* fault(const Timers& t) {
  constexpr Duration kZero{0};
  if (t.open_interval <= kZero || t.open_interval_max < t.open_interval) {
    return "open_interval is not above 0 and at most open_interval_max";
  }
  if (t.open_timeout <= kZero) return "open_timeout is not above 0";
  if (t.ack_every == 0) return "ack_every is 0";
  if (t.ack_delay < kZero) return "ack_delay is below 0";
  if (t.rto_min <= kZero || t.rto_max < t.rto_min || t.rto_first <= kZero) {
    return "rto_first and rto_min are not above 0, or rto_max is below rto_min";
  }
  if (t.idle_interval <= kZero) return "idle_interval is not above 0";
  if (t.peer_timeout <= t.idle_interval) return "peer_timeout is not above idle_interval";
  if (t.rtt_target < kZero) return "rtt_target is below 0";
  return nullptr;
}

}  // namespace

const char* fault(const Settings& s) {
  if (s.node.value() < kMinNode || s.node.value() > kMaxNode) return "node is not 1..65534";
  if (s.mtu < kMinMtu) return "mtu is below 128";
  if (s.window > kMaxWindow) return "window is above 10";
  if (s.send_window > kMaxWindow) return "send_window is above 10";
  if (s.reads == 0) return "reads is 0";
  if (s.cwnd_first == 0) return "cwnd_first is 0";
  if (s.spray == 0 || s.spray > 0xFFFF) return "spray is not 1..65535";
  if (s.connections == 0 || s.connections > 0xFFFF) return "connections is not 1..65535";
  if (s.request_packets == 0) return "request_packets is 0";
  if (s.response_packets == 0) return "response_packets is 0";
  return fault(s.timers);
}

const char* fault(const Limits& l, const Settings& s) {
  if (l.operations == 0) return "operations is 0";
  if (l.receive_pools == 0) return "receive_pools is 0";
  if (l.receives > kMaxItems) return "receives is above 2^31 - 1";
  if (l.message_records > kMaxItems) return "message_records is above 2^31 - 1";
  if (s.messages != 0 && l.message_records < s.connections) {
    return "message_records is below connections: each needs one (or messages is 0)";
  }
  return nullptr;
}

}  // namespace mtl::transport
