#include "sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "sim/checkers.h"
#include "sim/deadlock.h"
#include "sim/draw.h"

namespace mtl::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::uint64_t kFaultBegins = std::uint64_t{1} << 32;
constexpr std::uint64_t kFaultEnds = std::uint64_t{2} << 32;
constexpr std::uint64_t kSource = std::uint64_t{3} << 32;
constexpr std::uint64_t kMove = std::uint64_t{4} << 32;
constexpr std::uint64_t kReplace = std::uint64_t{5} << 32;
constexpr std::uint64_t kFlow = std::uint64_t{6} << 32;
constexpr std::uint64_t kSend = std::uint64_t{7} << 32;
// Between two looks at whether packets wait for each other.
constexpr Duration kLook = milliseconds(1);
// A node that did not take a packet is asked again after so long, then after twice as long, up to
// the second; one that is down, after the third.
constexpr Duration kRetry = nanoseconds(100);
constexpr Duration kRetryMost = 512 * kRetry;
constexpr Duration kRetryDown = microseconds(100);
// Packets of a flow in one event: what its node drops at once, it takes without end, and virtual
// time must go on. One without a rate waits for a while then; one with a rate goes on in the next
// nanosecond, so that whatever its rate it makes up for what was not taken in time.
constexpr std::uint32_t kFlowBurst = 16;
constexpr Duration kFlowGap = microseconds(1);
constexpr std::uint32_t kRatedBurst = 1024;

PacketPlan packet_of(const Flow& flow) {
  PacketPlan plan;
  plan.at = flow.from;
  plan.length = flow.length;
  plan.header = {.hop_limit = 255,  // no fabric is too wide
                 .packet_class = flow.packet_class,
                 .proto = static_cast<std::uint8_t>(flow.echo ? network::Proto::kEcho
                                                              : network::Proto::kDatagram),
                 .dst = node_id(flow.to),
                 .src = node_id(flow.from),
                 .entropy = flow.entropy,
                 .partition = kGoodPartition};
  return plan;
}

class Run final : private EventTarget {
 public:
  Run(Schedule schedule, EventLog& log, const ScenarioOptions& options)
      : random_(schedule.seed),
        draw_(std::move(schedule)),
        traffic_random_(random_.stream("packets")),
        log_(log),
        options_(options),
        checkers_(draw_.seed, log),
        settle_(settling_time(draw_)),
        wait_(longest_wait(draw_)),
        left_(draw_.traffic.packets),
        flows_(draw_.flows.size()) {
    if (options.defect == ScenarioOptions::Defect::kLeak) draw_.plan.nodes[0].leak_ppm = 100'000;
    fabric_ =
        std::make_unique<Fabric>(draw_.plan, queue_, random_.stream("fabric"), checkers_, log);
    checkers_.watch(*fabric_, draw_.plan);
    checkers_.ledger().expect(draw_.order);
    if (options.defect == ScenarioOptions::Defect::kForge) fabric_->wire(0).forge(true);
    for (std::size_t w = 0; w < fabric_->wires(); ++w) fabric_->wire(w).tap(options.tap, w);
    for (const std::uint32_t packets : left_) unsent_ += packets != 0 ? 1 : 0;
    make_chains();
    unsent_ += draw_.flows.size() + chains_.size();
    to_begin_ = draw_.moves.size() + draw_.replacements.size();
  }

  RunResult run();

 private:
  void on_event(Time now, std::uint64_t what) override;
  void begin(const Fault& fault);
  void end(const Fault& fault);
  void end_all_faults();
  void move(std::uint32_t index, Time now);
  void replace(std::uint32_t index, Time now);
  void note_undone(std::string_view what, std::uint32_t index, std::uint32_t node,
                   const std::string& why, Time now);
  void note_overlap(const NodeHost& node);
  void send_burst(std::uint32_t node, Time now);
  void run_flow(std::uint32_t index, Time now);
  void make_chains();
  void run_chain(std::uint32_t index, Time now);
  enum class Sent { kYes, kRefused, kNotNow };
  static Time again(Duration& wait, Sent sent, Time now);
  Sent send(const PacketPlan& plan, Time now);
  PacketPlan draw_packet(std::uint32_t node);
  void make_odd(PacketPlan& plan);
  std::uint32_t draw_length();
  void schedule(Time at, std::uint64_t what) { queue_.at(at, *this, what); }
  void schedule_all();
  bool advance(Time until);
  void look_for_deadlock();
  void look_at_rest();
  void pause_all(bool pause);
  bool at_rest() const;
  bool still() const;
  std::uint64_t packets_taken() const;
  std::uint64_t steps_done();
  void finish();
  void note(std::string_view text, const Fault& fault);

  ClockQueue queue_;
  Random random_;
  Schedule draw_;
  Random traffic_random_;
  EventLog& log_;
  const ScenarioOptions& options_;
  Checkers checkers_;
  const Duration settle_;  ///< after the last event until all is told
  const Duration wait_;    ///< that a fabric may take to do anything at all
  std::unique_ptr<Fabric> fabric_;
  struct FlowState {
    std::uint64_t sent = 0;  ///< packets
    Duration wait = kRetry;  ///< when its node takes none
  };
  /// Single packets of one shard of a node, in the order of their times: one that is refused holds
  /// up those behind it, so that few are ever asked for.
  struct Chain {
    std::vector<std::uint32_t> sends;  ///< indices
    std::size_t next = 0;
    Duration wait = kRetry;
  };
  std::vector<std::uint32_t> left_;  ///< packets to be sent at random, by node
  std::vector<FlowState> flows_;
  std::vector<Chain> chains_;
  std::uint64_t unsent_ = 0;    ///< sources that have not finished
  std::uint64_t taken_ = 0;     ///< packets_taken() when last looked
  std::uint64_t to_begin_ = 0;  ///< moves and replacements whose time has not come
  std::vector<std::string> undone_;
  bool sources_wait_ = false;
};

void Run::schedule_all() {
  for (std::size_t i = 0; i < draw_.faults.size(); ++i) {
    schedule(draw_.faults[i].at, kFaultBegins | i);
    schedule(draw_.faults[i].at + draw_.faults[i].lasts, kFaultEnds | i);
  }
  for (std::size_t i = 0; i < draw_.moves.size(); ++i) schedule(draw_.moves[i].at, kMove | i);
  for (std::size_t i = 0; i < draw_.replacements.size(); ++i) {
    schedule(draw_.replacements[i].at, kReplace | i);
  }
  for (std::uint32_t n = 0; n < left_.size(); ++n) {
    if (left_[n] != 0) schedule(draw_.traffic.start, kSource | n);
  }
  for (std::size_t i = 0; i < draw_.flows.size(); ++i) schedule(draw_.flows[i].start, kFlow | i);
  for (std::size_t i = 0; i < chains_.size(); ++i) {
    schedule(draw_.sends[chains_[i].sends.front()].at, kSend | i);
  }
}

void Run::make_chains() {
  std::vector<std::uint32_t> order(draw_.sends.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
    return draw_.sends[a].at < draw_.sends[b].at;
  });
  std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> chains;  // by node and shard
  for (const std::uint32_t i : order) {
    const PacketPlan& packet = draw_.sends[i].packet;
    const std::size_t shards = draw_.plan.nodes[packet.at].config.shards;
    const auto [found, fresh] =
        chains.try_emplace({packet.at, packet.header.entropy % shards}, chains_.size());
    if (fresh) chains_.emplace_back();
    chains_[found->second].sends.push_back(i);
  }
}

RunResult Run::run() {
  schedule_all();
  for (std::size_t w = 0; w < fabric_->wires(); ++w) {
    for (std::size_t d = 0; d < 2; ++d) fabric_->wire(w).impair(d, draw_.background);
  }
  fabric_->start();
  advance(draw_.faults_end);
  end_all_faults();
  if (draw_.pause > Duration(0)) look_at_rest();
  finish();

  RunResult result;
  Summary& summary = checkers_.summary();
  for (std::size_t w = 0; w < fabric_->wires(); ++w) {
    summary.late_frames += fabric_->wire(w).counters().late;
    summary.too_late += fabric_->wire(w).counters().too_late;
  }
  fabric_.reset();  // destroys the nodes: what they hold must go back to their pools
  summary.runs = 1;
  summary.events = queue_.executed();
  summary.virtual_ns = nanos(queue_.now());
  result.summary = summary;
  result.violations = checkers_.violations();
  result.about = draw_.about;
  result.ended = queue_.now();
  result.undone = std::move(undone_);
  return result;
}

// Runs to `until`, or to the first violation; false then.
bool Run::advance(Time until) {
  while (queue_.now() < until) {
    const Time next = until - queue_.now() > kLook ? queue_.now() + kLook : until;
    while (!checkers_.violations().any() && queue_.step(next)) {
      if (queue_.executed() <= options_.most_events) continue;
      checkers_.broken("events", fmt::format("more than {}", options_.most_events));
    }
    if (checkers_.violations().any()) return false;
    look_for_deadlock();
  }
  return !checkers_.violations().any();
}

// Only where no link has taken a packet since the last look, and some are in the fabric.
void Run::look_for_deadlock() {
  const std::uint64_t taken = packets_taken();
  if (std::exchange(taken_, taken) != taken || fabric_->in_use() == 0) return;
  const auto cycle = find_waiting_cycle(*fabric_);
  if (!cycle.empty()) checkers_.broken("deadlock", describe(cycle));
}

void Run::on_event(Time now, std::uint64_t what) {
  const auto index = static_cast<std::uint32_t>(what);
  switch (what & ~std::uint64_t{0xFFFFFFFF}) {
    case kFaultBegins:
      begin(draw_.faults[index]);
      break;
    case kFaultEnds:
      end(draw_.faults[index]);
      break;
    case kMove:
      move(index, now);
      break;
    case kReplace:
      replace(index, now);
      break;
    case kFlow:
      run_flow(index, now);
      break;
    case kSend:
      run_chain(index, now);
      break;
    default:
      send_burst(index, now);
  }
}

void Run::note(std::string_view text, const Fault& fault) {
  if (!log_.on()) return;
  constexpr std::string_view kNames[] = {"impairment", "length limit", "silence",
                                         "cut",        "disabling",    "halt"};
  std::string where = fmt::format("node {}", fault.port.node);
  if (fault.what != Fault::What::kHalt) where += fmt::format(" port {}", fault.port.port.value());
  if (fault.what < Fault::What::kDisable) {
    where = fmt::format("wire {} direction {} ({})", fault.wire, fault.direction, where);
  }
  log_.line(queue_.now(),
            fmt::format("{} {}: {}{}{}", kNames[static_cast<std::size_t>(fault.what)], text, where,
                        fault.carrier ? " noticed" : "", fault.late ? " late" : ""));
}

void Run::begin(const Fault& fault) {
  note("begins", fault);
  Wire& wire = fabric_->wire(fault.wire);
  Summary& summary = checkers_.summary();
  phy::ImpairmentConfig silence;
  silence.drop_ppm = 1'000'000;
  switch (fault.what) {
    case Fault::What::kImpair:
      wire.impair(fault.direction, fault.impairment);
      break;
    case Fault::What::kLimit:
      // Control frames pass, so that only the replay timer can notice.
      wire.limit_length(fault.direction, static_cast<std::uint32_t>(link::kMinFrame + 18));
      break;
    case Fault::What::kSilence:
      wire.impair(fault.direction, silence);
      break;
    case Fault::What::kCut:
      ++(fault.carrier ? summary.cuts : summary.silent_cuts);
      wire.cut(fault.carrier, fault.late);
      break;
    case Fault::What::kDisable:
      fabric_->set_enabled(fault.port, false);
      break;
    default:
      ++summary.node_restarts;
      fabric_->halt_node(fault.port.node, fault.carrier);
  }
}

// Faults may overlap; the first end of any of one kind ends them all, which is as good a schedule.
void Run::end(const Fault& fault) {
  note("ends", fault);
  Wire& wire = fabric_->wire(fault.wire);
  switch (fault.what) {
    case Fault::What::kImpair:
    case Fault::What::kSilence:
      wire.impair(fault.direction, draw_.background);
      break;
    case Fault::What::kLimit:
      wire.limit_length(fault.direction, std::nullopt);
      break;
    case Fault::What::kCut:
      if (options_.defect != ScenarioOptions::Defect::kStaysCut) wire.restore();
      break;
    case Fault::What::kDisable:
      fabric_->set_enabled(fault.port, true);
      break;
    default:
      fabric_->boot_node(fault.port.node);
  }
}

void Run::end_all_faults() {
  draw_.background = {};
  for (const Fault& fault : draw_.faults) end(fault);
  for (std::size_t w = 0; w < fabric_->wires(); ++w) {
    for (std::size_t d = 0; d < 2; ++d) fabric_->wire(w).impair(d, {});
  }
}

void Run::move(std::uint32_t index, Time now) {
  const Move& move = draw_.moves[index];
  NodeHost& node = fabric_->node(move.node);
  std::string undone;
  --to_begin_;
  if (node.move(move.ports, move.to, now, undone)) {
    ++checkers_.summary().moves;
    note_overlap(node);
  }
  if (!undone.empty()) note_undone("moves", index, move.node, undone, now);
}

void Run::replace(std::uint32_t index, Time now) {
  const Replacement& r = draw_.replacements[index];
  NodeHost& node = fabric_->node(r.node);
  --to_begin_;
  const std::string why = node.replace(r.port, r.shard, r.rest, now);
  if (why.empty()) {
    note_overlap(node);
  } else {
    note_undone("replacements", index, r.node, why, now);
  }
}

void Run::note_undone(std::string_view what, std::uint32_t index, std::uint32_t node,
                      const std::string& why, Time now) {
  undone_.push_back(
      fmt::format("{}[{}] at {} ns, node {}: {}", what, index, nanos(now), node, why));
  if (log_.on()) log_.line(now, "not done: " + undone_.back());
}

void Run::note_overlap(const NodeHost& node) {
  if (node.moves_and_replaces()) ++checkers_.summary().moves_beside_replaced;
}

void Run::send_burst(std::uint32_t node, Time now) {
  Sent sent = Sent::kNotNow;
  if (!sources_wait_) {
    for (std::uint32_t i = 0; i < draw_.traffic.burst && left_[node] != 0; ++i) {
      if (!fabric_->node(node).running()) break;
      sent = send(draw_packet(node), now);
      if (sent != Sent::kYes) break;
      if (--left_[node] == 0) --unsent_;
    }
  }
  if (left_[node] == 0) return;
  const auto gap = static_cast<std::uint64_t>(draw_.traffic.gap.count());
  // One that is refused tries again soon, but not in no time: virtual time must go on.
  const std::uint64_t wait = sent == Sent::kYes ? traffic_random_.between(1, 2 * gap)
                                                : traffic_random_.between(1'000, 20'000) +
                                                      (fabric_->node(node).running() ? 0 : 100'000);
  schedule(now + Duration(static_cast<std::int64_t>(wait)), kSource | node);
}

// With a rate, packet k is due when the k before it have taken their time: what a node did not take
// in time follows as soon as it takes it.
void Run::run_flow(std::uint32_t index, Time now) {
  const Flow& flow = draw_.flows[index];
  FlowState& state = flows_[index];
  const auto over = [&] {
    return now >= flow.end || (flow.count != 0 && state.sent >= flow.count);
  };
  const PacketPlan plan = packet_of(flow);
  Sent outcome = sources_wait_ ? Sent::kNotNow : Sent::kYes;
  Time due = now;
  const std::uint32_t burst = flow.rate == 0 ? kFlowBurst : kRatedBurst;
  for (std::uint32_t i = 0; i < burst && due <= now && !over(); ++i) {
    if (outcome == Sent::kYes) outcome = send(plan, now);
    if (outcome != Sent::kYes) break;
    state.wait = kRetry;
    ++state.sent;
    if (flow.rate == 0) continue;
    const auto bits = static_cast<unsigned __int128>(state.sent) * flow.length * 8;
    due = flow.start + Duration(static_cast<std::int64_t>(bits * 1'000'000'000 / flow.rate));
  }
  if (over()) {
    --unsent_;
    return;
  }
  if (outcome != Sent::kYes) {
    due = again(state.wait, outcome, now);
  } else if (due <= now) {
    due = now + (flow.rate == 0 ? kFlowGap : Duration(1));
  }
  schedule(std::min(due, flow.end), kFlow | index);
}

Time Run::again(Duration& wait, Sent sent, Time now) {
  if (sent == Sent::kNotNow) return now + kRetryDown;
  return now + std::exchange(wait, std::min(2 * wait, kRetryMost));
}

void Run::run_chain(std::uint32_t index, Time now) {
  Chain& chain = chains_[index];
  Sent outcome = sources_wait_ ? Sent::kNotNow : Sent::kYes;
  Time due = now;
  while (due <= now) {
    if (outcome == Sent::kYes) outcome = send(draw_.sends[chain.sends[chain.next]].packet, now);
    if (outcome != Sent::kYes) {
      schedule(again(chain.wait, outcome, now), kSend | index);
      return;
    }
    chain.wait = kRetry;
    if (++chain.next == chain.sends.size()) {
      --unsent_;
      return;
    }
    due = draw_.sends[chain.sends[chain.next]].at;
  }
  schedule(due, kSend | index);
}

Run::Sent Run::send(const PacketPlan& plan, Time now) {
  NodeHost& host = fabric_->node(plan.at);
  if (!host.running()) return Sent::kNotNow;
  // A flow stays with one shard, as with one thread of an application.
  ShardHost& shard = *host.shards()[plan.header.entropy % host.shards().size()];
  Buffer* buffer = shard.take_own();
  if (buffer == nullptr) return Sent::kRefused;
  const PacketNumber number = checkers_.ledger().make(plan, *buffer, checkers_.epoch());
  if (shard.submit(buffer, now) == network::Submit::kQueueFull) {
    checkers_.ledger().withdraw();
    ++checkers_.summary().refused;
    return Sent::kRefused;
  }
  if (log_.on()) log_.line(now, "sent " + checkers_.ledger().describe(number));
  if (plan.bad_crc) ++checkers_.summary().bad_at_source;
  if (options_.record != nullptr) options_.record->push_back({now, plan});
  return Sent::kYes;
}

std::uint32_t Run::draw_length() {
  const Traffic& traffic = draw_.traffic;
  if (traffic_random_.chance(traffic.beyond_ppm)) {
    return traffic.longest + static_cast<std::uint32_t>(traffic_random_.between(1, 200));
  }
  const std::uint64_t which = traffic_random_.below(4);
  if (which == 0) return traffic.longest;
  const std::uint32_t longest = which == 1 ? std::min(traffic.longest, 64u) : traffic.longest;
  return static_cast<std::uint32_t>(traffic_random_.between(traffic.shortest, longest));
}

PacketPlan Run::draw_packet(std::uint32_t node) {
  constexpr std::uint32_t kEchoLeast = 28;  // headers, number and CRC
  const Traffic& traffic = draw_.traffic;
  PacketPlan plan;
  plan.at = node;
  plan.length = draw_length();
  if (plan.length < 20 && !checkers_.ledger().tiny_left()) plan.length = 20;
  plan.header.proto = static_cast<std::uint8_t>(network::Proto::kDatagram);
  plan.header.packet_class = static_cast<std::uint8_t>(traffic_random_.below(2));
  plan.header.src = node_id(node);
  plan.header.entropy = static_cast<std::uint16_t>(traffic_random_.below(4));
  plan.header.partition = kGoodPartition;
  std::uint32_t dst = node;
  do {
    dst = static_cast<std::uint32_t>(traffic_random_.below(draw_.plan.nodes.size()));
  } while (dst == node || !draw_.plan.nodes[dst].endpoint);
  plan.header.dst = node_id(dst);
  if (traffic_random_.chance(traffic.echo_ppm)) {
    plan.header.proto = static_cast<std::uint8_t>(network::Proto::kEcho);
    plan.header.packet_class = network::kClassRequest;
    plan.length = std::max(plan.length, kEchoLeast);
  } else if (traffic_random_.chance(traffic.odd_ppm)) {
    make_odd(plan);
  }
  plan.bad_crc = plan.header.dst != plan.header.src && traffic_random_.chance(traffic.bad_crc_ppm);
  return plan;
}

void Run::make_odd(PacketPlan& plan) {
  switch (traffic_random_.below(6)) {
    case 0:
      plan.header.packet_class = static_cast<std::uint8_t>(traffic_random_.between(2, 15));
      break;
    case 1:
      plan.header.partition = Partition(kGoodPartition.value() + 1);
      break;
    case 2:
      plan.header.src =
          node_id(static_cast<std::uint32_t>(traffic_random_.below(draw_.plan.nodes.size())));
      break;
    case 3:
      plan.header.hop_limit = static_cast<std::uint8_t>(traffic_random_.between(0, 2));
      break;
    case 4:
      plan.header.dst = node_id(static_cast<std::uint32_t>(draw_.plan.nodes.size() + 3));
      break;
    default:
      plan.header.dst = plan.header.src;
  }
}

bool Run::at_rest() const {
  if (unsent_ != 0 || to_begin_ != 0 || fabric_->in_use() != 0 || !fabric_->all_usable()) {
    return false;
  }
  for (std::uint32_t n = 0; n < fabric_->nodes(); ++n) {
    if (!fabric_->node(n).ports_rest()) return false;
  }
  return true;
}

// By links in order: what moves between two moments, at both of which nothing was under way.
std::uint64_t Run::packets_taken() const {
  std::uint64_t n = 0;
  for (std::uint32_t i = 0; i < fabric_->nodes(); ++i) {
    const NodeHost& node = fabric_->node(i);
    for (std::size_t p = 0; p < node.slots().size(); ++p) {
      const link::Link* link = node.link(PortId(static_cast<std::uint16_t>(p)));
      if (link != nullptr) n += link->counters().packets_in.get();
    }
  }
  return n;
}

// Packets made, packets ended, sources finished: bounded in all.
std::uint64_t Run::steps_done() {
  const Ledger& ledger = checkers_.ledger();
  return std::uint64_t{2} * ledger.size() - ledger.open() - unsent_;
}

// Nothing unacknowledged, nothing on a wire: only what lacks credit or is not consumed stays.
bool Run::still() const {
  if (!fabric_->all_usable()) return false;
  for (std::uint32_t n = 0; n < fabric_->nodes(); ++n) {
    const NodeHost& node = fabric_->node(n);
    for (std::size_t p = 0; p < node.slots().size(); ++p) {
      const link::Link& link = *node.link(PortId(static_cast<std::uint16_t>(p)));
      if (link.unacknowledged() != 0 || link.held() != 0) return false;
    }
  }
  return true;
}

void Run::pause_all(bool pause) {
  for (std::uint32_t n = 0; n < fabric_->nodes(); ++n) {
    for (const auto& shard : fabric_->node(n).shards()) {
      if (pause) {
        shard->pause();
      } else {
        shard->resume(queue_.now());
      }
    }
  }
}

// Nobody consumes and nobody sends for a while: the fabric fills as far as its credits go. Then no
// credit may be missing, although none has come back.
void Run::look_at_rest() {
  pause_all(true);
  if (!advance(queue_.now() + draw_.pause)) return;
  sources_wait_ = true;
  const Time patience = queue_.now() + wait_ / 10;
  while (queue_.now() < patience) {
    if (!advance(queue_.now() + milliseconds(1) + settle_)) return;
    if (!still()) continue;
    const std::uint64_t epoch = checkers_.epoch(), taken = packets_taken();
    if (!advance(queue_.now() + settle_)) return;
    if (!still() || epoch != checkers_.epoch() || taken != packets_taken()) continue;
    checkers_.check_credits();
    break;
  }
  sources_wait_ = false;
  pause_all(false);
}

void Run::finish() {
  // What is planned for later has its time; then something must come of it again and again, but
  // copies of packets, which a link that dies over and over may make for ever.
  Time patience = std::max(queue_.now(), last_planned(draw_)) + wait_;
  std::uint64_t done = steps_done();
  while (!at_rest()) {
    if (!advance(queue_.now() + microseconds(500))) return;
    if (std::exchange(done, steps_done()) != done) {
      patience = std::max(patience, queue_.now() + wait_);
    }
    if (queue_.now() < patience) continue;
    checkers_.broken("stall",
                     fmt::format("{} packets without an end, {} buffers out:\n{}",
                                 checkers_.ledger().open(), fabric_->in_use(), fabric_->dump()));
    return;
  }
  if (!advance(queue_.now() + settle_)) return;
  if (at_rest()) checkers_.check_end();
}

}  // namespace

RunResult run_schedule(Schedule schedule, EventLog& log, const ScenarioOptions& options) {
  return Run(std::move(schedule), log, options).run();
}

RunResult run_scenario(Kind kind, std::uint64_t seed, EventLog& log,
                       const ScenarioOptions& options) {
  return run_schedule(draw_run(kind, seed, options.faults), log, options);
}

}  // namespace mtl::sim
