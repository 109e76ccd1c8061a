#include "switch/capture_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "capture/segment.h"
#include "capture/tap.h"

namespace mtl::switchd {
namespace {

namespace msg = mtlink::control;

constexpr std::uint64_t kKib = 1024;

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

capture::Filter filter_of(const msg::Capture& call) {
  capture::Filter filter;
  filter.in = call.direction() != msg::Capture::OUT;
  filter.out = call.direction() != msg::Capture::IN;
  filter.by_kind = !call.kinds().empty();
  for (const std::string& kind : call.kinds()) {
    for (unsigned k = 0; k < link::kKinds; ++k) {
      if (kind == name(static_cast<link::Kind>(k))) {
        filter.kinds = static_cast<std::uint8_t>(filter.kinds | 1U << k);
      }
    }
  }
  filter.by_vc = !call.vcs().empty();
  for (const std::uint32_t vc : call.vcs()) {
    filter.vcs = static_cast<std::uint8_t>(filter.vcs | 1U << vc);
  }
  filter.node = NodeId(static_cast<std::uint16_t>(call.node()));
  filter.drops_only = call.drops_only();
  filter.snap = call.snap();
  return filter;
}

struct CaptureHost::Run {
  control::CaptureId id = kNone;
  capture::Filter filter;
  std::set<std::string> ports;  ///< names of those asked for; none: all
  std::unique_ptr<capture::Segment> segment;
  control::Answer<msg::CaptureGrant> answer;
  std::vector<std::unique_ptr<capture::Tap>> taps;  ///< by worker; none: it has not begun
};

/// The interface of a port, a new one; kNoInterface: the port is not captured. By its name, as the
/// number of one that was removed may be another's by now.
std::uint16_t CaptureHost::interface_of(Run& run, const PortPlan& port) const {
  const bool wanted = run.ports.empty() || run.ports.count(port.name) > 0;
  if (!port.present() || !wanted) return capture::kNoInterface;
  // Of a port that is being added only the plan knows.
  const network::PortConfig& running = parts_.host.node().config().ports[port.port.value()];
  const link::Config& link =
      running.present() ? running.link : parts_.plan.node.ports[port.port.value()].link;
  capture::Interface interface;
  interface.name = port.name;
  interface.about = fmt::format("port {} of node {} ({}), {}", port.port.value(),
                                parts_.plan.node.node.value(), parts_.plan.name, text(port.device));
  interface.port = port.port;
  interface.vlan = port.vlan.value_or(VlanId{});
  interface.mac = link.mac;
  const auto added = run.segment->add_interface(interface);
  if (!added) {
    parts_.log.warning(
        "port not captured: too many ports came since the capture began; begin another one",
        {{"port", port.name}});
  }
  return added.value_or(capture::kNoInterface);
}

control::CaptureId CaptureHost::start(const msg::Capture& call, Fd memory,
                                      control::Answer<msg::CaptureGrant> answer) {
  Waiting start{++last_, call, std::move(memory), std::move(answer)};
  const control::CaptureId id = start.id;
  if (ending_) {
    waiting_.push_back(std::move(start));
  } else {
    prepare(std::move(start));
  }
  return id;
}

void CaptureHost::prepare(Waiting start) {
  if (run_ != nullptr) {
    return start.answer(Error{parts_.plan.name +
                              " is being captured already, and one capture at a time is all: end "
                              "the mtctl that does it"});
  }
  auto segment =
      capture::Segment::adopt(start.memory, parts_.host.workers(), start.call.ring_kib() * kKib);
  if (!segment) return start.answer(segment.error());
  const auto run = run_ = std::make_shared<Run>();
  run->id = start.id;
  run->filter = filter_of(start.call);
  for (const std::uint32_t port : start.call.ports()) {
    run->ports.insert(parts_.plan.ports[port].name);
  }
  run->segment = std::move(*segment);
  run->answer = std::move(start.answer);
  populate(run);
}

/// A part at a time, and the workers asked for nothing in between: what else waits for them and for
/// this thread, like a port between two workers, goes on.
void CaptureHost::populate(const std::shared_ptr<Run>& run) {
  parts_.host.post_all([](ShardHost&, Time) {},
                       [this, run] {
                         if (run != run_ || ending_) return;  // nobody waits for it any more
                         if (run->segment->populate()) return populate(run);
                         begin(run);
                       });
}

void CaptureHost::begin(const std::shared_ptr<Run>& run) {
  const std::vector<PortPlan>& ports = parts_.plan.ports;
  for (std::size_t w = 0; w < parts_.host.workers(); ++w) {
    run->taps.push_back(
        std::make_unique<capture::Tap>(*run->segment, w, run->filter, ports.size()));
  }
  for (const PortPlan& port : ports) {
    const std::uint16_t interface = interface_of(*run, port);
    for (const auto& tap : run->taps) tap->set_interface(port.port, interface);
  }
  parts_.log.info("capture begins", {{"interfaces", run->segment->interfaces()}});
  parts_.host.post_all(
      [run](ShardHost& host, Time) { host.set_tap(run->taps[host.id().value()].get()); },
      [this, run] {
        msg::CaptureGrant grant;
        grant.set_node(parts_.plan.node.node.value());
        grant.set_name(parts_.plan.name);
        grant.set_clock_ns(nanos(parts_.clock.now()));
        grant.set_unix_ns(unix_now());
        std::exchange(run->answer, nullptr)(std::move(grant));
      });
}

void CaptureHost::end(control::CaptureId capture) {
  std::erase_if(waiting_, [capture](const Waiting& start) { return start.id == capture; });
  if (run_ == nullptr || run_->id != capture || std::exchange(ending_, true)) return;
  // The command holds the memory until the last worker has run it.
  parts_.host.post_all([run = run_](ShardHost& host, Time) { host.set_tap(nullptr); },
                       [this] {
                         run_.reset();
                         ending_ = false;
                         parts_.log.info("capture ended");
                         for (Waiting& start : std::exchange(waiting_, {})) {
                           prepare(std::move(start));
                         }
                       });
}

void CaptureHost::ports_changed(const std::vector<PortId>& ports) {
  if (run_ == nullptr || ending_ || run_->taps.empty()) return;
  std::vector<std::pair<PortId, std::uint16_t>> changes;
  changes.reserve(ports.size());
  for (const PortId port : ports) {
    changes.emplace_back(port, interface_of(*run_, parts_.plan.ports[port.value()]));
  }
  parts_.host.post_all([run = run_, changes](ShardHost& host, Time) {
    for (const auto& [port, interface] : changes) {
      run->taps[host.id().value()]->set_interface(port, interface);
    }
    host.look_at_tap();
  });
}

}  // namespace mtl::switchd
