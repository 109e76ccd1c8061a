#include "switch/node_target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/random.h"
#include "runtime/settings/link_timers.h"
#include "runtime/settings/rate.h"
#include "switch/config/problems.h"
#include "switch/config/rate_plan.h"
#include "switch/state_message.h"

namespace mtl::switchd {
namespace {

namespace msg = mtlink::control;
using std::chrono::milliseconds;

constexpr Duration kLoadInterval = std::chrono::seconds(1);
constexpr Duration kBalanceInterval = std::chrono::seconds(5);

std::uint32_t ppm(double share) {
  return static_cast<std::uint32_t>(std::lround(std::clamp(share, 0.0, 1.0) * 1e6));
}

int percent(double share) {
  return static_cast<int>(std::lround(share * 100));
}

/// How soon to look again whether the workers have let go of a route table.
constexpr Duration kReclaimInterval = milliseconds(1);

msg::PingResult ping_result(const EchoOutcome& outcome) {
  msg::PingResult out;
  switch (outcome.kind) {
    case EchoOutcome::Kind::kReply:
      out.set_outcome(msg::PingResult::REPLY);
      break;
    case EchoOutcome::Kind::kTimeout:
      out.set_outcome(msg::PingResult::TIMEOUT);
      break;
    case EchoOutcome::Kind::kHopLimitExceeded:
      out.set_outcome(msg::PingResult::HOP_LIMIT_EXCEEDED);
      break;
    case EchoOutcome::Kind::kUnreachable:
      out.set_outcome(msg::PingResult::UNREACHABLE);
      break;
  }
  out.set_from(outcome.from.value());
  out.set_round_trip_ns(static_cast<std::uint64_t>(outcome.round_trip.count()));
  return out;
}

}  // namespace

NodeTarget::NodeTarget(Parts parts)
    : parts_(std::move(parts)),
      capture_({parts_.plan, parts_.host, parts_.clock, parts_.log}),
      echoes_(static_cast<std::uint16_t>(runtime::RandomStock().word())),
      claimed_(parts_.plan.ports.size(), false),
      started_(parts_.clock.now()),
      balanced_(started_) {
  for (const PortPlan& port : parts_.plan.ports) rates_.push_back(port.rate);
  load_.workers.resize(parts_.host.workers());
  load_.ports.resize(parts_.plan.ports.size());
}

Result<PortId> NodeTarget::known_port(std::uint32_t port) const {
  const std::vector<PortPlan>& ports = parts_.plan.ports;
  if (port >= ports.size() || !ports[port].present()) {
    return Error{fmt::format("node {} has no port {}: its ports are {}",
                             parts_.plan.node.node.value(), port, numbers(ports))};
  }
  const PortId id(static_cast<std::uint16_t>(port));
  if (const std::string waits = parts_.leaving(id); !waits.empty()) {
    return Error{fmt::format("port {} {}", port, waits)};
  }
  return id;
}

// --- show ---

PortFacts NodeTarget::facts(PortId port) const {
  const PortPlan& plan = parts_.plan.ports[port.value()];
  const network::PortConfig& config = parts_.host.node().config().ports[port.value()];
  PortFacts out;
  out.name = plan.name;
  if (const phy::Port* medium = parts_.media.port(port)) {
    out.driver = medium->traits().driver;
    out.device = medium->traits().device;
    out.max_frame = medium->traits().max_frame;
  }
  if (const auto* slot = std::get_if<SlotDevice>(&plan.device)) {
    out.slot = true;
    out.endpoint_node = slot->node.value();
    out.claimed = claimed_[port.value()];
  }
  out.edge = config.edge.has_value();
  out.worker = parts_.host.owner(port).value();
  out.fault = parts_.leaving(port);
  if (out.fault.empty()) out.fault = parts_.media.fault(port);
  out.link = &config.link;
  out.device_drops = parts_.media.device_drops(port);
  return out;
}

void NodeTarget::fill_memory(const std::vector<ShardReading>& readings, msg::NodeState& out) const {
  std::uint64_t buffers = 0, free = 0, bytes = 0, links = 0, rings = 0;
  for (const phy::MbufPool* pool : parts_.pools()) {
    buffers += pool->size();
    free += pool->free_buffers();
    bytes += std::uint64_t{pool->size()} * (pool->room() + BufferPlan::kOverhead);
  }
  for (const ShardReading& shard : readings) {
    for (const PortReading& port : shard.ports) links += port.memory;
  }
  for (const PortPlan& port : parts_.plan.ports) {
    const auto* slot = std::get_if<SlotDevice>(&port.device);
    if (slot != nullptr && claimed_[port.port.value()])
      rings += 2 * std::uint64_t{slot->ring_bytes};
  }
  msg::Memory& memory = *out.mutable_memory();
  memory.set_pool_buffers(buffers);
  memory.set_pool_free(free);
  memory.set_buffer_bytes(bytes);
  memory.set_links_bytes(links);
  memory.set_local_rings_bytes(rings);
}

/// In the configuration's order.
void NodeTarget::fill_trunks(const std::vector<ShardReading>& readings, msg::NodeState& out) const {
  const Plan& plan = parts_.plan;
  for (std::size_t i = 0; i < plan.trunks.size(); ++i) {
    for (const ShardReading& shard : readings) {
      if (!shard.trunks[i].here) continue;
      *out.add_trunks() = trunk_state(shard.trunks[i], plan.trunks[i].name);
    }
  }
}

void NodeTarget::fill(const std::vector<ShardReading>& readings, msg::NodeState& out) const {
  const Plan& plan = parts_.plan;
  out.set_node(plan.node.node.value());
  out.set_name(plan.name);
  out.set_version(parts_.version);
  out.set_uptime_ns(static_cast<std::uint64_t>((parts_.clock.now() - started_).count()));
  out.set_pid(static_cast<std::uint32_t>(getpid()));
  std::vector<const PortReading*> ports;
  for (const ShardReading& shard : readings) {
    *out.add_shards() = shard_state(shard);
    for (const PortReading& port : shard.ports) ports.push_back(&port);
  }
  std::sort(ports.begin(), ports.end(),
            [](const auto* a, const auto* b) { return a->port < b->port; });
  for (const PortReading* port : ports) {
    if (!plan.ports[port->port.value()].present()) continue;  // gone since it was read
    *out.add_ports() = port_state(*port, facts(port->port));
  }
  *out.mutable_removed() = removed_state(readings, parts_.media.removed_drops());
  fill_trunks(readings, out);
  out.set_hop_choice(network::name(plan.node.hop_choice));
  out.set_own_limit(plan.node.own_limit);
  add_routes(parts_.host.tables().current(), out);
  out.set_deadlock_check(name(deadlock_check(plan, parts_.host.tables().current().routes())));
  for (std::size_t w = 0; w < parts_.host.workers(); ++w) {
    const int cpu = w < plan.runtime.cpus.size() ? static_cast<int>(plan.runtime.cpus[w]) : -1;
    msg::WorkerState& worker = *out.add_workers();
    worker = worker_state(static_cast<std::uint32_t>(w), cpu, parts_.clock.ticks_hz(),
                          parts_.host.worker_counters(w));
    add_stages(readings[w], worker);
    worker.set_interval_ns(static_cast<std::uint64_t>(load_.interval.count()));
    worker.set_busy_ppm(ppm(load_.workers[w]));
    for (const PortPlan& port : plan.ports) {
      if (parts_.host.owner(port.port).value() == w) worker.add_ports(port.port.value());
    }
  }
  for (const Media::SharedReading& device : parts_.media.shared_devices()) {
    *out.add_shared_devices() = shared_device_state(device);
  }
  fill_memory(readings, out);
}

void NodeTarget::get_node(control::Answer<msg::NodeState> answer) {
  parts_.host.read([this, answer = std::move(answer)](const std::vector<ShardReading>& readings) {
    msg::NodeState state;
    fill(readings, state);
    answer(std::move(state));
  });
}

// --- ping and trace ---

void NodeTarget::send_echo(EchoRequest request, Duration timeout, Send done) {
  const Time now = parts_.clock.now();
  const auto key =
      echoes_.add(request.dst, request.number, now + timeout,
                  [done](const EchoOutcome& outcome) { done(Result<EchoOutcome>(outcome)); });
  if (!key) {
    done(Error{fmt::format("{} echo requests wait for an answer already: try again later",
                           EchoBook::kMaxWaiting)});
    return;
  }
  tell_waiting();
  request.id = key->id;
  echoes_.sent(*key, now);  // until the worker says when
  parts_.rearm();
  struct Flight {
    EchoSubmit submit = EchoSubmit::kSent;
    Time at{};
  };
  const auto flight = std::make_shared<Flight>();
  parts_.host.post(
      ShardId(0),
      [flight, request](ShardHost& host, Time at) {
        flight->at = at;
        flight->submit = host.submit_echo(request, at);
      },
      [this, flight, key = *key, done] {
        if (flight->submit == EchoSubmit::kSent) {
          echoes_.sent(key, flight->at);
          return;
        }
        echoes_.forget(key);
        tell_waiting();
        done(Error{flight->submit == EchoSubmit::kQueueFull
                       ? "the node's own packets fill the queue of the way out (own_limit): try "
                         "again later"
                       : "no buffer is free for a packet of the node's own: try again later"});
      });
}

void NodeTarget::ping(const msg::Ping& call, control::Answer<msg::PingResult> answer) {
  EchoRequest request;
  request.dst = NodeId(static_cast<std::uint16_t>(call.node()));
  request.hop_limit = call.hop_limit() == 0 ? parts_.plan.node.hop_limit
                                            : static_cast<std::uint8_t>(call.hop_limit());
  request.partition = Partition(static_cast<std::uint16_t>(call.partition()));
  request.entropy = static_cast<std::uint16_t>(call.entropy());
  request.bytes = call.bytes();
  send_echo(request, milliseconds(call.timeout_ms()),
            [answer = std::move(answer)](const Result<EchoOutcome>& outcome) {
              if (outcome) {
                answer(ping_result(*outcome));
              } else {
                answer(outcome.error());
              }
            });
}

struct NodeTarget::TraceRun {
  EchoRequest request;
  std::uint32_t max_hops = 0;
  Duration timeout{0};
  control::Answer<msg::TraceHop> answer;
};

void NodeTarget::trace(const msg::Trace& call, control::Answer<msg::TraceHop> answer) {
  const auto run = std::make_shared<TraceRun>();
  run->request.dst = NodeId(static_cast<std::uint16_t>(call.node()));
  run->request.partition = Partition(static_cast<std::uint16_t>(call.partition()));
  run->request.entropy = static_cast<std::uint16_t>(call.entropy());
  run->request.number = 1;
  run->max_hops = call.max_hops();
  run->timeout = milliseconds(call.timeout_ms());
  run->answer = std::move(answer);
  trace_hop(run);
}

void NodeTarget::trace_hop(const std::shared_ptr<TraceRun>& run) {
  // The hop limit is the number too, so that each answer names its hop.
  run->request.hop_limit = static_cast<std::uint8_t>(run->request.number);
  send_echo(run->request, run->timeout, [this, run](const Result<EchoOutcome>& outcome) {
    if (!outcome) {
      run->answer(outcome.error());
      return;
    }
    msg::TraceHop hop;
    hop.set_hop(run->request.number);
    *hop.mutable_result() = ping_result(*outcome);
    const bool end = outcome->kind == EchoOutcome::Kind::kReply ||
                     outcome->kind == EchoOutcome::Kind::kUnreachable ||
                     run->request.number >= run->max_hops;
    hop.set_last(end);
    run->answer(std::move(hop));
    if (end) return;
    ++run->request.number;
    trace_hop(run);
  });
}

void NodeTarget::echo(const Event& event) {
  echoes_.answered(event);
  tell_waiting();
}

void NodeTarget::tick(Time now) {
  ticked_ = now;
  echoes_.expire(now);
  tell_waiting();
  if (retired_ > 0) retired_ = parts_.host.tables().reclaim();
}

Time NodeTarget::next_deadline(Time now) const {
  const Time echo = echoes_.next_deadline();
  return retired_ > 0 ? std::min(echo, std::max(ticked_ + kReclaimInterval, now)) : echo;
}

// --- changes ---

void NodeTarget::set_port(const msg::SetPort& call, control::Answer<void> answer) {
  const auto port = known_port(call.port());
  if (!port) return answer(port.error());
  parts_.log.info(call.up() ? "port up by the operator" : "port down by the operator",
                  {{"port", parts_.plan.ports[port->value()].name}});
  parts_.host.post(
      *port,
      [port = *port, up = call.up()](ShardHost& host, Time now) {
        if (up) {
          host.enable(port, now);
        } else {
          host.disable(port, now);
        }
      },
      [answer = std::move(answer)] { answer(Result<void>()); });
}

/// The ports that move with `port`, itself included: those on its device, and the lanes of its
/// trunk.
std::vector<PortId> NodeTarget::moved_with(PortId port) const {
  std::vector<PortId> out;
  const PortId first = parts_.plan.ports[port.value()].first_of_worker_group;
  for (const PortPlan& other : parts_.plan.ports) {
    // One that is leaving keeps its number, but perhaps not those of its group.
    if (!other.present() || !parts_.leaving(other.port).empty()) continue;
    if (other.first_of_worker_group == first) out.push_back(other.port);
  }
  return out;
}

void NodeTarget::move_port(const msg::MovePort& call, control::Answer<msg::Moved> answer) {
  const auto port = known_port(call.port());
  if (!port) return answer(port.error());
  const std::size_t workers = parts_.host.workers();
  if (call.worker() >= workers) {
    return answer(Error{
        workers == 1 ? std::string("the node has one worker, 0: give runtime.cpus a CPU for each "
                                   "that it is to have")
                     : fmt::format("the node has no worker {}: its workers are 0 to {}",
                                   call.worker(), workers - 1)});
  }
  const ShardId to(static_cast<std::uint8_t>(call.worker()));
  const std::vector<PortId> ports = moved_with(*port);
  parts_.host.move(ports, to, [this, ports, to, answer = std::move(answer)](ShardId from) {
    log_moved(ports, from, to);
    msg::Moved moved;
    for (const PortId one : ports) moved.add_ports(one.value());
    moved.set_from(from.value());
    answer(std::move(moved));
  });
}

/// Of the operator's moves; one to where the ports were is none.
void NodeTarget::log_moved(const std::vector<PortId>& ports, ShardId from, ShardId to) {
  if (from == to) return;
  for (const PortId port : ports) {
    parts_.log.info("port moved by the operator", {{"port", parts_.plan.ports[port.value()].name},
                                                   {"from", from.value()},
                                                   {"to", to.value()}});
  }
}

// --- load ---

/// Read where the workers and media count it: they are asked nothing.
WorkCounts NodeTarget::work_counts(Time now) const {
  WorkCounts out;
  out.at = now;
  for (std::size_t w = 0; w < parts_.host.workers(); ++w) {
    const runtime::Worker& worker = parts_.host.host(w).worker();
    const runtime::WorkerCounters& c = worker.counters();
    out.workers.push_back({c.busy_ticks.get(), c.loops.get(), worker.asleep()});
  }
  for (const PortPlan& port : parts_.plan.ports) {
    WorkCounts::Port& counts = out.ports.emplace_back();
    const phy::Port* const medium = parts_.media.port(port.port);
    if (medium == nullptr) continue;
    const phy::PortCounters& c = medium->counters();
    counts.frames = c.frames_in.get() + c.frames_out.get();
    counts.bytes = c.bytes_in.get() + c.bytes_out.get();
  }
  return out;
}

std::vector<PortGroup> NodeTarget::groups() const {
  std::vector<PortGroup> out;
  for (const PortPlan& port : parts_.plan.ports) {
    if (!port.present() || !parts_.leaving(port.port).empty()) continue;
    std::vector<PortId> ports = moved_with(port.port);
    if (ports.front() == port.port) out.push_back({std::move(ports), parts_.host.owner(port.port)});
  }
  return out;
}

std::vector<std::size_t> NodeTarget::stuck() const {
  std::vector<std::size_t> out;
  for (std::size_t w = 0; w < load_.stuck.size(); ++w) {
    if (load_.stuck[w]) out.push_back(w);
  }
  return out;
}

std::vector<ShardId> NodeTarget::owners() const {
  std::vector<ShardId> out;
  for (const PortPlan& port : parts_.plan.ports) out.push_back(parts_.host.owner(port.port));
  return out;
}

void NodeTarget::sample(Time now) {
  if (!counted_.workers.empty() && now - counted_.at < kLoadInterval) return;
  WorkCounts counts = work_counts(now);
  const std::vector<ShardId> owners_now = owners();
  load_holds_ = owners_now == owners_;
  if (!counted_.workers.empty()) {
    load_ = load_between(counted_, counts, owners_now, parts_.clock.ticks_hz());
  }
  counted_ = std::move(counts);
  owners_ = owners_now;
  if (load_holds_ && parts_.plan.runtime.balance) balance_now(now);
}

/// One port, and then what that came to is looked at first. While a worker does not let the move
/// begin or end there is no other: they would all come at once, by loads of long ago.
void NodeTarget::balance_now(Time now) {
  if (balancing_ || now - balanced_ < kBalanceInterval) return;
  balanced_ = now;
  const std::vector<PortGroup> all = groups();
  const auto move = best_move(load_, all, steady_rule(parts_.plan.runtime.balance_load));
  if (!move) return;
  balancing_ = true;
  const std::vector<PortId> ports = all[move->group].ports;
  parts_.host.move(ports, move->to, [this, ports, move = *move](ShardId from) {
    balancing_ = false;
    if (from == move.to) return;  // the operator was faster
    for (const PortId port : ports) {
      parts_.log.info("port moved to balance the workers",
                      {{"port", parts_.plan.ports[port.value()].name},
                       {"from", from.value()},
                       {"to", move.to.value()},
                       {"busy_percent", percent(move.busiest_before)},
                       {"expected_percent", percent(move.busiest_after)}});
    }
  });
}

void NodeTarget::balance_workers(const msg::BalanceWorkers& call,
                                 control::Answer<msg::Balanced> answer) {
  if (parts_.host.workers() == 1) {
    return answer(
        Error{"the node has one worker: give runtime.cpus a CPU for each that it is to have"});
  }
  if (!load_holds_ || owners() != owners_) {
    return answer(
        Error{"the load has not been measured with the ports where they are now: try again in two "
              "seconds"});
  }
  if (const auto found = stuck(); !found.empty()) {
    return answer(Error{fmt::format(
        "worker {} ended no pass in the last second: nothing moves while a worker does not answer; "
        "look at the devices of its ports",
        found.front())});
  }
  const auto told = std::make_shared<msg::Balanced>();
  told->set_interval_ns(static_cast<std::uint64_t>(load_.interval.count()));
  for (const double busy : load_.workers) told->add_busy_ppm(ppm(busy));
  std::vector<PortGroup> all = groups();
  Load load = load_;
  std::vector<BalanceMove> moves;
  while (moves.size() < all.size()) {
    const auto move = best_move(load, all, kAskedRule);
    if (!move) break;
    apply(*move, all, load);
    moves.push_back(*move);
    msg::Balanced::Move& one = *told->add_moves();
    for (const PortId port : all[move->group].ports) one.add_ports(port.value());
    one.set_from(move->from.value());
    one.set_to(move->to.value());
    one.set_busiest_before_ppm(ppm(move->busiest_before));
    one.set_busiest_after_ppm(ppm(move->busiest_after));
  }
  if (call.dry_run() || moves.empty()) return answer(*told);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const std::vector<PortId>& ports = all[moves[i].group].ports;
    const bool last = i + 1 == moves.size();
    parts_.host.move(ports, moves[i].to,
                     [this, ports, to = moves[i].to, last, told, answer](ShardId from) {
                       log_moved(ports, from, to);
                       if (last) answer(*told);
                     });
  }
}

void NodeTarget::set_impairment(const msg::SetImpairment& call, control::Answer<void> answer) {
  const auto port = known_port(call.port());
  if (!port) return answer(port.error());
  const auto config = plan_impairment(call.impairment());
  if (!config) return answer(config.error());
  // Made and freed here; the worker only exchanges pointers.
  const auto impairment = std::make_shared<std::unique_ptr<phy::Impairment>>();
  if (config->active()) {
    *impairment = std::make_unique<phy::Impairment>(
        *config, parts_.plan.ports[port->value()].impairment_depth);
  }
  parts_.log.info(config->active() ? "impairment set" : "impairment ended",
                  {{"port", parts_.plan.ports[port->value()].name},
                   {"drop_ppm", config->drop_ppm},
                   {"corrupt_packet_ppm", config->corrupt_packet_ppm}});
  parts_.host.post(
      *port,
      [impairment, port = *port](ShardHost& host, Time now) {
        *impairment = host.impair(port, std::move(*impairment), now);
      },
      [answer = std::move(answer)] { answer(Result<void>()); });
}

void NodeTarget::set_rate(const msg::SetRate& call, control::Answer<void> answer) {
  const auto port = known_port(call.port());
  if (!port) return answer(port.error());
  auto& rate = rates_[port->value()];
  rate.reset();
  if (call.has_rate()) {
    const control::Locations nowhere;
    Problems problems(nowhere);
    const link::Config& link = parts_.host.node().config().ports[port->value()].link;
    rate = plan_rate(call.rate(), "rate", link, problems);
    if (!rate) return answer(problems.error());
    for (const std::string& warning : problems.warnings()) parts_.log.warning(warning);
  }
  // Made and freed here; the worker only exchanges pointers.
  const auto pacer = std::make_shared<std::unique_ptr<phy::Pacer>>();
  if (rate) *pacer = std::make_unique<phy::Pacer>(*rate, parts_.clock.now());
  parts_.log.info(rate ? "rate set" : "rate ended",
                  {{"port", parts_.plan.ports[port->value()].name}, {"bps", call.rate().bps()}});
  parts_.host.post(
      *port,
      [pacer, port = *port](ShardHost& host, Time) { *pacer = host.pace(port, std::move(*pacer)); },
      [answer = std::move(answer)] { answer(Result<void>()); });
}

void NodeTarget::set_measuring(const msg::SetMeasuring& call, control::Answer<void> answer) {
  parts_.log.info(call.on() ? "measuring of workers begins" : "measuring of workers ends");
  parts_.host.post_all([on = call.on()](ShardHost& host, Time) { host.worker().measure(on); },
                       [answer = std::move(answer)] { answer(Result<void>()); });
}

/// Routes by a port that is being removed would keep its number from the next one.
Result<void> NodeTarget::check_hops(const std::vector<network::Route>& routes) const {
  for (const network::Route& route : routes) {
    for (const network::Tier& tier : route.tiers) {
      for (const network::NextHop& hop : tier) {
        const std::string waits = parts_.leaving(hop.port);
        if (waits.empty()) continue;
        return Error{fmt::format("the route to node {} goes by port {}, which {}; leave it out",
                                 route.dst.value(), hop.port.value(), waits)};
      }
    }
  }
  return {};
}

void NodeTarget::set_routes(const msg::SetRoutes& call, control::Answer<void> answer) {
  if (parts_.reloading()) {
    return answer(
        Error{"a reload is under way, whose routes take the place of these: try again when it has "
              "ended"});
  }
  const auto routes =
      plan_routes(call.routes(), parts_.plan, parts_.host.tables().current().routes());
  if (!routes) return answer(routes.error());
  if (auto checked = check_hops(*routes); !checked) return answer(checked.error());
  auto table = network::RouteTable::build(*routes, parts_.plan.ports.size());
  if (!table) return answer(table.error());
  const DeadlockCheck check = deadlock_check(parts_.plan, *routes);
  parts_.log.info("routes replaced", {{"routes", routes->size()}, {"deadlock_check", name(check)}});
  if (check == DeadlockCheck::kUnproved) {
    parts_.log.warning(std::string("routes ") + kUnprovedRoutes);
  }
  publish(std::move(*table), [answer = std::move(answer)] { answer(Result<void>()); });
}

void NodeTarget::publish(network::RouteTable table, std::function<void()> done) {
  parts_.host.tables().publish(std::move(table), std::move(done));
  ++retired_;
  // Workers that are busy take the table with their next pass; sleepers hold none.
  parts_.rearm();
}

void NodeTarget::reload(const msg::Reload& call, control::Answer<msg::Reloaded> answer) {
  parts_.reload(call, std::move(answer));
}

void NodeTarget::ports_changed(const std::vector<PortId>& ports) {
  for (const PortId port : ports) {
    claimed_[port.value()] = false;
    rates_[port.value()] = parts_.plan.ports[port.value()].rate;
  }
  capture_.ports_changed(ports);
}

control::CaptureId NodeTarget::capture(const msg::Capture& call, Fd memory,
                                       control::Answer<msg::CaptureGrant> answer) {
  for (const std::uint32_t number : call.ports()) {
    if (const auto port = known_port(number); !port) {
      answer(port.error());
      return CaptureHost::kNone;
    }
  }
  return capture_.start(call, std::move(memory), std::move(answer));
}

// --- slots ---

Result<PortId> NodeTarget::free_slot(const msg::ClaimSlot& call) const {
  bool there = false;
  for (const PortPlan& port : parts_.plan.ports) {
    const auto* slot = std::get_if<SlotDevice>(&port.device);
    if (slot == nullptr || !parts_.leaving(port.port).empty()) continue;
    if (!call.name().empty() && call.name() != port.name) continue;
    if (call.node() != 0 && call.node() != slot->node.value()) continue;
    there = true;
    if (!claimed_[port.port.value()]) return port.port;
  }
  const std::string wanted = call.name().empty() && call.node() == 0 ? "a slot"
                             : call.name().empty() ? fmt::format("the slot of node {}", call.node())
                                                   : fmt::format("slot \"{}\"", call.name());
  if (there) {
    return Error{
        fmt::format("{} of {} is claimed already: end the process that holds it, or "
                    "configure another one",
                    wanted, parts_.plan.name)};
  }
  return Error{fmt::format("{} does not exist on {}: add it to `slots` of its configuration",
                           wanted, parts_.plan.name)};
}

msg::SlotGrant NodeTarget::grant(PortId port) const {
  const PortPlan& plan = parts_.plan.ports[port.value()];
  const auto& slot = std::get<SlotDevice>(plan.device);
  const link::Config& link = parts_.host.node().config().ports[port.value()].link;
  msg::SlotGrant out;
  out.set_node(slot.node.value());
  out.set_switch_node(parts_.plan.node.node.value());
  out.set_switch_port(port.value());
  for (const Partition partition : slot.partitions) out.add_partitions(partition.value());
  out.set_mtu(link.mtu);
  out.set_cell(link.cell);
  out.set_window(link.window);
  for (const std::uint16_t cells : link.capacity) out.add_capacity(cells);
  *out.mutable_timers() = runtime::timers_message(link.timers);
  out.set_name(plan.name);
  out.set_hop_limit(parts_.plan.node.hop_limit);
  if (const auto& rate = rates_[port.value()]) *out.mutable_rate() = runtime::rate_message(*rate);
  return out;
}

void NodeTarget::claim_slot(const msg::ClaimSlot& call,
                            control::Answer<control::SlotClaim> answer) {
  const auto found = free_slot(call);
  if (!found) return answer(found.error());
  const PortId port = *found;
  phy::LocalPort* const local = parts_.media.slot(port);
  phy::LocalPortFds fds;
  auto made = local->make_segment(fds);
  if (!made) return answer(made.error());
  claimed_[port.value()] = true;
  // The former memory comes back in its place and is unmapped here, off the worker.
  const auto segment = std::make_shared<std::unique_ptr<phy::LocalSegment>>(std::move(*made));
  const auto claim = std::make_shared<control::SlotClaim>();
  claim->port = port;
  claim->grant = grant(port);
  claim->fds.emplace_back(fds.memory.release());
  claim->fds.emplace_back(fds.doorbell.release());
  parts_.host.post(
      port,
      [segment, local, port](ShardHost& host, Time now) {
        host.cut(port, now);  // a former claim may have ended since the last pass
        *segment = local->install(std::move(*segment));
      },
      [claim, answer = std::move(answer)] { answer(std::move(*claim)); });
}

void NodeTarget::slot_released(PortId port) {
  // Free at once: commands to a worker stay in order, so a new claim comes after this release.
  claimed_[port.value()] = false;
  phy::LocalPort* const local = parts_.media.slot(port);
  if (local == nullptr || !parts_.leaving(port).empty()) return;  // its memory goes with it
  const auto segment = std::make_shared<std::unique_ptr<phy::LocalSegment>>();
  parts_.host.post(port, [segment, local, port](ShardHost& host, Time now) {
    *segment = local->install(nullptr);
    host.cut(port, now);
  });
}

}  // namespace mtl::switchd
