#include "switch/state_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/mac_text.h"
#include "runtime/settings/rate.h"

namespace mtl::switchd {
namespace {

namespace msg = mtlink::control;

std::uint64_t ns(Duration d) {
  return static_cast<std::uint64_t>(d.count());
}
std::uint64_t us(Duration d) {
  return ns(d) / 1000;
}
std::uint64_t ns_or_zero(const std::optional<Time>& t) {
  return t ? static_cast<std::uint64_t>(nanos(*t)) : 0;
}

template <class Message>
void add_drops(const DropReading& drops, Message& out) {
  for (std::size_t i = 0; i < drops.size(); ++i) {
    if (drops[i] == 0) continue;
    const DropInfo& drop = kDropInfo[i];
    msg::DropCount* count = out.add_drops();
    switch (drop.layer) {
      case DropLayer::kPhy:
        count->set_layer("phy");
        break;
      case DropLayer::kLink:
        count->set_layer("link");
        break;
      case DropLayer::kNetwork:
        count->set_layer("network");
        break;
      case DropLayer::kTransport:
        count->set_layer("transport");
        break;
    }
    count->set_name(std::string(drop.name));
    count->set_count(drops[i]);
  }
}

void add_kinds(const PortReading& r, msg::LinkState& out) {
  for (std::size_t k = 0; k < link::kKinds; ++k) {
    msg::KindCount* kind = out.add_kinds();
    kind->set_kind(link::name(static_cast<link::Kind>(k)));
    kind->set_in(r.counters.frames_in[k].get());
    kind->set_out(r.counters.frames_out[k].get());
  }
}

void add_downs(const PortReading& r, msg::LinkState& out) {
  for (std::size_t i = 0; i < r.counters.downs.size(); ++i) {
    const std::uint64_t count = r.counters.downs[i].get();
    if (count == 0) continue;
    msg::DropCount* down = out.add_downs();
    down->set_layer("link");
    down->set_name(link::name(static_cast<link::DownReason>(i)));
    down->set_count(count);
  }
}

void add_vcs(const PortReading& r, const link::Config& config, msg::LinkState& out) {
  for (std::size_t v = 0; v < kVcs; ++v) {
    msg::VcState* vc = out.add_vcs();
    vc->set_vc(static_cast<std::uint32_t>(v));
    vc->set_capacity(config.capacity[v]);
    vc->set_occupied(r.vcs[v].occupied);
    vc->set_credit(r.vcs[v].credit);
    vc->set_queued_cells(r.vcs[v].queued_cells);
    vc->set_marked(r.vcs[v].marked);
  }
}

double ratio(Duration part, Duration whole) {
  return static_cast<double>(part.count()) / static_cast<double>(whole.count());
}

msg::PaceState pace_state(const PaceReading& r) {
  constexpr double kPpm = 1e6;
  msg::PaceState out;
  *out.mutable_rate() = runtime::rate_message(r.config);
  out.set_bytes(r.total.bytes);
  out.set_backlogged_ns(ns(r.total.backlogged));
  out.set_interval_ns(ns(r.last.time));
  if (r.last.time > Duration::zero()) {
    out.set_utilisation_ppm(
        static_cast<std::uint32_t>(std::llround(ratio(r.last.busy, r.last.time) * kPpm)));
  }
  if (r.last.backlogged > Duration::zero()) {
    const double achieved = ratio(r.last.busy, r.last.backlogged);
    out.set_achieved_bps(static_cast<std::uint64_t>(
        std::llround(achieved * static_cast<double>(r.config.bits_per_second))));
    out.set_error_ppm(static_cast<std::int32_t>(std::llround((achieved - 1) * kPpm)));
  }
  return out;
}

void set_link_counts(const PortReading& r, msg::LinkState& out) {
  const link::Counters& c = r.counters;
  out.set_unacknowledged(r.unacknowledged);
  out.set_queued(r.queued);
  out.set_held(r.held);
  out.set_packets_in(c.packets_in.get());
  out.set_packets_acked(c.packets_acked.get());
  out.set_packets_back(c.packets_back.get());
  out.set_held_discarded(c.held_discarded.get());
  out.set_replays(c.replays.get());
  out.set_replay_timeouts(c.replay_timeouts.get());
  out.set_polls(c.polls.get());
  out.set_credit_stalls(c.credit_stalls.get());
  out.set_ups(c.ups.get());
  out.set_frames_seen(c.frames_seen.get());
  out.set_memory_bytes(r.memory);
}

void set_link(const PortReading& r, const link::Config& config, msg::LinkState& out) {
  out.set_state(link::name(r.state));
  if (r.down_reason != link::DownReason::kNone) out.set_down_reason(link::name(r.down_reason));
  if (r.peer) {
    out.set_peer_node(r.peer->node.value());
    out.set_peer_port(r.peer->port.value());
  }
  if (r.peer_mac) out.set_peer_mac(mac_text(*r.peer_mac));
  out.set_mac(mac_text(config.mac));
  out.set_mtu(r.link_mtu);
  out.set_round_trip_ns(ns(r.round_trip));
  out.set_replay_timeout_ns(ns(r.replay_timeout));
  out.set_nack_interval_ns(ns(r.nack_interval));
  set_link_counts(r, out);
  add_kinds(r, out);
  add_downs(r, out);
  add_vcs(r, config, out);
  out.set_last_up_ns(ns_or_zero(r.last_up));
  out.set_last_down_ns(ns_or_zero(r.last_down));
  out.set_reroute_ns(ns(r.reroute));
}

}  // namespace

mtlink::config::Impairment impairment_message(const phy::ImpairmentConfig& config) {
  mtlink::config::Impairment out;
  out.set_drop_ppm(config.drop_ppm);
  out.set_corrupt_header_ppm(config.corrupt_header_ppm);
  out.set_corrupt_packet_ppm(config.corrupt_packet_ppm);
  out.set_duplicate_ppm(config.duplicate_ppm);
  out.set_reorder_ppm(config.reorder_ppm);
  out.set_reorder_delay_us(us(config.reorder_delay));
  out.set_delay_us(us(config.delay));
  out.set_jitter_us(us(config.jitter));
  out.set_seed(config.seed);
  return out;
}

msg::PortState port_state(const PortReading& r, const PortFacts& facts) {
  msg::PortState out;
  out.set_port(r.port.value());
  out.set_name(facts.name);
  out.set_driver(facts.driver);
  out.set_device(facts.device);
  out.set_slot(facts.slot);
  out.set_endpoint_node(facts.endpoint_node);
  out.set_claimed(facts.claimed);
  out.set_max_frame(facts.max_frame);
  out.set_enabled(r.enabled);
  out.set_carrier(r.carrier);
  out.set_worker(facts.worker);
  out.set_frames_in(r.medium.frames_in);
  out.set_frames_out(r.medium.frames_out);
  out.set_bytes_in(r.medium.bytes_in);
  out.set_bytes_out(r.medium.bytes_out);
  out.set_send_full(r.medium.send_full);
  DropReading drops =
      read(r.counters.drops);  // link layer here, PHY below: no reason belongs to both
  for (std::size_t i = 0; i < drops.size(); ++i) {
    drops[i] += r.medium.drops[i] + facts.device_drops[i];
  }
  drops[static_cast<std::size_t>(Drop::kImpaired)] += r.impaired_dropped;
  add_drops(drops, out);
  set_link(r, *facts.link, *out.mutable_link());
  if (r.impairment) *out.mutable_impairment() = impairment_message(*r.impairment);
  out.set_impaired(r.impaired);
  if (r.pace) *out.mutable_pace() = pace_state(*r.pace);
  out.set_edge(facts.edge);
  out.set_fault(facts.fault);
  return out;
}

msg::RemovedPorts removed_state(const std::vector<ShardReading>& readings,
                                const DropReading& device_drops) {
  msg::RemovedPorts out;
  DropReading drops = device_drops;
  for (const ShardReading& shard : readings) {
    const RemovedReading& r = shard.removed;
    out.set_ports(out.ports() + r.ports);
    out.set_packets_in(out.packets_in() + r.packets_in);
    out.set_packets_acked(out.packets_acked() + r.packets_acked);
    out.set_packets_back(out.packets_back() + r.packets_back);
    out.set_frames_in(out.frames_in() + r.medium.frames_in);
    out.set_frames_out(out.frames_out() + r.medium.frames_out);
    out.set_bytes_in(out.bytes_in() + r.medium.bytes_in);
    out.set_bytes_out(out.bytes_out() + r.medium.bytes_out);
    for (std::size_t i = 0; i < drops.size(); ++i) drops[i] += r.medium.drops[i] + r.link_drops[i];
  }
  add_drops(drops, out);
  return out;
}

msg::SharedDeviceState shared_device_state(const Media::SharedReading& r) {
  msg::SharedDeviceState out;
  out.set_name(r.name);
  for (const PortId port : r.ports) out.add_ports(port.value());
  add_drops(r.drops, out);
  return out;
}

msg::TrunkState trunk_state(const TrunkReading& r, const std::string& name) {
  msg::TrunkState out;
  out.set_name(name);
  out.set_spread(network::name(r.spread));
  for (const LaneReading& reading : r.lanes) {
    msg::LaneState* lane = out.add_lanes();
    lane->set_port(reading.port.value());
    lane->set_usable(reading.usable);
    lane->set_queued(reading.queued);
    lane->set_packets(reading.packets);
    lane->set_flows(reading.flows);
  }
  out.set_moves(r.moves);
  out.set_forced_moves(r.forced_moves);
  return out;
}

msg::ShardState shard_state(const ShardReading& r) {
  msg::ShardState out;
  const network::ShardCounters& c = r.counters;
  const DropReading drops = read(c.drops);
  out.set_shard(r.shard.value());
  out.set_accepted(c.accepted.get());
  out.set_made(c.made.get());
  out.set_passed_in(c.passed_in.get());
  out.set_acked(c.acked.get());
  out.set_delivered(c.delivered.get());
  std::uint64_t dropped = 0;
  for (const std::uint64_t n : drops) dropped += n;
  // no_buffer is an error that was never made: no packet of the books.
  out.set_dropped(dropped - drops[static_cast<std::size_t>(Drop::kNoBuffer)]);
  out.set_passed_out(c.passed_out.get());
  out.set_held(r.held);
  add_drops(drops, out);
  out.set_forwarded(c.forwarded.get());
  out.set_rerouted(c.rerouted.get());
  out.set_marked(c.marked.get());
  out.set_replies(c.replies.get());
  out.set_errors(c.errors.get());
  out.set_refused(c.refused.get());
  return out;
}

msg::WorkerState worker_state(std::uint32_t worker, int cpu, std::uint64_t ticks_hz,
                              const runtime::WorkerCounters& counters) {
  msg::WorkerState out;
  out.set_worker(worker);
  out.set_cpu(cpu);
  out.set_loops(counters.loops.get());
  out.set_busy_cycles(counters.busy_ticks.get());
  out.set_idle_cycles(counters.idle_ticks.get());
  out.set_sleep_ns(counters.sleep_ns.get());
  out.set_sleeps(counters.sleeps.get());
  out.set_cycles_hz(ticks_hz);
  return out;
}

void add_stages(const ShardReading& r, msg::WorkerState& out) {
  out.set_measuring(r.measuring);
  out.set_measured_passes(r.stages.passes.get());
  if (r.stages.passes.get() == 0) return;
  for (std::size_t i = 0; i < runtime::kStages; ++i) {
    msg::StageState* stage = out.add_stages();
    stage->set_stage(runtime::name(static_cast<runtime::Stage>(i)));
    stage->set_cycles(r.stages.ticks[i].get());
    stage->set_frames(r.stages.frames[i].get());
  }
}

void add_routes(const network::RouteTable& table, msg::NodeState& out) {
  for (const network::Route& route : table.routes()) {
    mtlink::config::Route* to = out.add_routes();
    to->set_dst(route.dst.value());
    for (const network::Tier& tier : route.tiers) {
      mtlink::config::Tier* hops = to->add_tiers();
      network::Tier told;
      for (const network::NextHop& hop : tier) {
        if (std::find(told.begin(), told.end(), hop) != told.end()) continue;
        told.push_back(hop);
        const auto weight = std::count(tier.begin(), tier.end(), hop);
        mtlink::config::NextHop* one = hops->add_hops();
        one->set_port(hop.port.value());
        one->set_raise(hop.raise);
        if (weight > 1) one->set_weight(static_cast<std::uint32_t>(weight));
      }
    }
  }
}

}  // namespace mtl::switchd
