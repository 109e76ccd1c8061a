#include "conformance/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <unordered_set>
#include <utility>

#include "base/buffer.h"
#include "base/heap_pool.h"
#include "link/frame_out.h"
#include "network/node.h"

namespace mtl::conformance {
namespace {

/// Timers that may fire at one instant before a replay is given up.
constexpr std::size_t kTimersAtOnce = 100'000;
/// Memory for the buffers of a shard, bytes: what needs more is no trace to replay here.
constexpr std::size_t kMaxPool = std::size_t{1} << 30;
/// What the node's own replies and errors need at least.
constexpr std::size_t kMinRoom = 256;

std::uint32_t room_for(const Trace& trace) {
  std::size_t room = kMinRoom;
  for (const TraceFrame& frame : trace.frames) room = std::max(room, frame.bytes.size());
  for (const Stimulus& stimulus : trace.stimuli) room = std::max(room, stimulus.packet.size());
  return static_cast<std::uint32_t>(room);
}

/// A buffer for every packet that comes in or is made here, and one for an echo error about each.
std::uint32_t buffers_for(const Trace& trace) {
  const std::size_t packets = trace.frames.size() + trace.stimuli.size();
  return static_cast<std::uint32_t>(
      std::min(2 * packets + 16, kMaxPool / (room_for(trace) + kHeadroom)));
}

network::NodeConfig config_for(const Trace& trace, std::size_t shards) {
  network::NodeConfig config;
  config.node = trace.node;
  config.shards = shards;
  // C4: the bound of N13 is never reached in traces.
  config.own_limit = static_cast<std::uint32_t>(trace.frames.size() + trace.stimuli.size() + 1);
  for (std::size_t i = 0; i < trace.ports.size(); ++i) {
    config.ports.push_back(trace.ports[i].config);
    config.ports.back().shard = ShardId{static_cast<std::uint8_t>(i % shards)};
  }
  return config;
}

DropCounts counts(const DropCounters& drops, DropLayer layer) {
  DropCounts result;
  for (std::size_t i = 0; i < kDropInfo.size(); ++i) {
    const auto reason = static_cast<Drop>(i);
    if (kDropInfo[i].layer == layer && drops.get(reason) != 0) result[reason] = drops.get(reason);
  }
  return result;
}

std::uint64_t total(const DropCounts& drops) {
  std::uint64_t sum = 0;
  for (const auto& [reason, count] : drops) sum += count;
  return sum;
}

/// A node in virtual time, its ports joined to a trace.
class Bench {
 public:
  Bench(const Trace& trace, const std::vector<Input>& inputs, const ReplayOptions& options);
  Outcome run();

 private:
  /// A shard's own pool: buffers must come back to it on the shard's own thread, which here is:
  /// while that shard is being called.
  class Pool final : public BufferPool {
   public:
    Pool(Bench& bench, ShardId shard)
        : bench_(bench), shard_(shard), heap_(buffers_for(bench.trace_), room_for(bench.trace_)) {}
    Buffer* take() override {
      Buffer* buffer = heap_.take();
      if (buffer == nullptr) return nullptr;
      buffer->pool = this;
      taken_.insert(buffer);
      return buffer;
    }
    void give(Buffer* buffer) override {
      if (bench_.called_ != shard_) {
        complain(fmt::format("shard {} gives a buffer of shard {} back to its pool itself",
                             bench_.called_.value(), shard_.value()));
      }
      if (taken_.erase(buffer) == 0) {
        return complain(fmt::format("a buffer of shard {} is given back twice", shard_.value()));
      }
      buffer->pool = &heap_;
      heap_.give(buffer);
    }
    bool exclusive(const Buffer&) const override { return true; }
    std::uint32_t room() const override { return heap_.room(); }
    std::uint32_t available() const override { return heap_.available(); }
    std::size_t taken() const { return taken_.size(); }

   private:
    void complain(std::string what) {
      if (!complained_) bench_.fault(std::move(what));
      complained_ = true;
    }

    Bench& bench_;
    ShardId shard_;
    HeapPool heap_;
    std::unordered_set<Buffer*> taken_;
    bool complained_ = false;  ///< once is enough
  };

  /// A shard and its owner, which knows which shard calls.
  class Seat final : public network::ShardOwner {
   public:
    Seat(Bench& bench, ShardId id)
        : pool(bench, id),
          shard(std::make_unique<network::Shard>(bench.node_, id, pool, *this)),
          bench_(bench),
          id_(id) {}
    void delivered(Buffer* packet, PortId port, Vc vc) override {
      bench_.note_delivery(*packet, port, vc);
      bench_.delivered_.push_back({packet, id_});
    }
    void answered(const Buffer& request, PortId port, Vc vc) override {
      bench_.note_delivery(request, port, vc);
    }
    void pass(ShardId to, Buffer* buffer) override { bench_.passing_.push_back({buffer, to}); }
    link::BringUp bring_up(PortId port, std::uint8_t last_epoch) override {
      return bench_.next_bring_up(port, last_epoch);
    }
    void link_changed(PortId) override {}

    Pool pool;
    std::unique_ptr<network::Shard> shard;

   private:
    Bench& bench_;
    ShardId id_;
  };

  /// A buffer, and the shard that gave it or shall get it.
  struct Parcel {
    Buffer* buffer;
    ShardId shard;
  };

  ShardId owner_of(PortId port) const {
    return ShardId{static_cast<std::uint8_t>(port.value() % seats_.size())};
  }
  /// The shard, to be called: from here on it is the one that runs.
  network::Shard& call(ShardId id) {
    called_ = id;
    return *seats_[id.value()]->shard;
  }
  network::Shard& call(PortId port) { return call(owner_of(port)); }
  const network::Shard& view(PortId port) const { return *seats_[owner_of(port).value()]->shard; }

  // Events (C2). After each, what it makes is carried between the shards and its frames leave.
  void receive(const TraceFrame& frame);
  void apply(const Stimulus& stimulus);
  void submit(const std::vector<std::byte>& packet);
  void release(std::size_t count);
  bool expire();
  void finish_event();
  void settle();
  void pull();
  void check_books();

  bool ready(const Input& input) const;
  std::optional<std::size_t> next_input() const;
  void act(std::size_t input);
  void step_to(Time now);
  Time next_time() const;
  void close();
  void check_empty();

  // What the seats hear.
  void note_delivery(const Buffer& packet, PortId port, Vc vc);
  link::BringUp next_bring_up(PortId port, std::uint8_t last_epoch);

  Buffer* fill(ShardId shard, std::span<const std::byte> bytes);
  void fault(std::string what, std::optional<PortId> port = std::nullopt);

  const Trace& trace_;
  const std::size_t frames_beyond_;
  const Time end_;
  const bool note_order_;
  Outcome outcome_;
  Time now_{};
  bool given_up_ = false;
  bool recording_ = true;  ///< false once the trace has ended
  bool books_wrong_ = false;
  const std::vector<Input>& inputs_;
  std::vector<bool> done_;  ///< by input
  std::size_t undone_ = 0;  ///< the first input that is not done
  std::size_t submits_ = 0;
  std::vector<std::size_t> bring_ups_;  ///< done, by port
  std::vector<std::size_t> allowed_;  ///< frames that a port may send before the replay is given up
  std::deque<Parcel> passing_;        ///< on their way between shards
  std::deque<Parcel> delivered_;      ///< taken by the owner and not released, oldest first

  network::Node node_;
  network::RouteTable table_;
  std::vector<std::unique_ptr<Seat>> seats_;
  ShardId called_{};  ///< the shard that runs
};

/// Of shards there are 1 to 255.
std::size_t shards_of(const ReplayOptions& options) {
  return std::clamp<std::size_t>(options.shards, 1, std::numeric_limits<std::uint8_t>::max());
}

Bench::Bench(const Trace& trace, const std::vector<Input>& inputs, const ReplayOptions& options)
    : trace_(trace),
      frames_beyond_(options.frames_beyond),
      end_(options.end.value_or(trace.end)),
      note_order_(options.note_order),
      inputs_(inputs),
      done_(inputs.size()),
      bring_ups_(trace.ports.size()),
      allowed_(trace.ports.size(), options.frames_beyond),
      node_(config_for(trace, shards_of(options))) {
  outcome_.sent.resize(trace.ports.size());
  outcome_.sent_before.resize(inputs.size());
  for (const TraceFrame& frame : trace.frames) {
    if (!frame.received) ++allowed_[frame.port.value()];
  }
  if (auto table = network::RouteTable::build(trace.routes, trace.ports.size())) {
    table_ = std::move(*table);
  } else {
    fault(table.error().message);
  }
  for (std::size_t i = 0; i < shards_of(options); ++i) {
    seats_.push_back(std::make_unique<Seat>(*this, ShardId{static_cast<std::uint8_t>(i)}));
    seats_.back()->shard->set_table(&table_);
  }
}

Outcome Bench::run() {
  for (const TracePort& port : trace_.ports) {  // C1: carrier from the start
    const PortId id = port.config.link.port;
    call(id).set_carrier(id, true, now_);
    finish_event();
  }
  for (Time at = next_time(); at <= end_ && !given_up_; at = next_time()) step_to(at);
  now_ = end_;
  outcome_.node_drops.clear();
  for (const auto& seat : seats_) {
    for (const auto& [reason, count] : counts(seat->shard->counters().drops, DropLayer::kNetwork)) {
      outcome_.node_drops[reason] += count;
    }
  }
  for (const TracePort& port : trace_.ports) {
    const PortId id = port.config.link.port;
    outcome_.port_drops.push_back(counts(view(id).link(id)->counters().drops, DropLayer::kLink));
  }
  close();
  return std::move(outcome_);
}

/// Whether what it waits for has been sent.
bool Bench::ready(const Input& input) const {
  for (std::size_t port = 0; port < input.after.size(); ++port) {
    if (outcome_.sent[port].size() < input.after[port]) return false;
  }
  return true;
}

std::optional<std::size_t> Bench::next_input() const {
  for (std::size_t i = undone_; i < inputs_.size(); ++i) {
    if (!done_[i] && ready(inputs_[i])) return i;
  }
  return std::nullopt;
}

void Bench::act(std::size_t index) {
  const Input& input = inputs_[index];
  if (note_order_) {
    for (const auto& sent : outcome_.sent) outcome_.sent_before[index].push_back(sent.size());
  }
  done_[index] = true;
  while (undone_ < done_.size() && done_[undone_]) ++undone_;
  if (input.frame != nullptr) {
    receive(*input.frame);
  } else {
    apply(*input.stimulus);
  }
}

Time Bench::next_time() const {
  Time at = kNever;
  if (const auto input = next_input()) at = inputs_[*input].at;
  for (const auto& seat : seats_) at = std::min(at, seat->shard->next_deadline());
  return std::max(at, now_);
}

/// All events of one time, in C2's order.
void Bench::step_to(Time now) {
  now_ = now;
  for (auto input = next_input(); input && inputs_[*input].at <= now; input = next_input()) {
    act(*input);
  }
  std::size_t timers = 0;
  while (!given_up_ && expire()) {
    if (++timers < kTimersAtOnce) continue;
    fault(fmt::format("{} timers fired at one instant", timers));
    given_up_ = true;
  }
  for (const auto& seat : seats_) {
    if (given_up_ || seat->shard->next_deadline() > now) continue;
    fault(fmt::format("shard {} has a deadline at {} ns that expire() does not pass",
                      seat->shard->id().value(), nanos(seat->shard->next_deadline())));
    given_up_ = true;
  }
}

void Bench::receive(const TraceFrame& frame) {
  outcome_.capture.push_back({now_, frame.bytes});
  Buffer* buffer = fill(owner_of(frame.port), frame.bytes);
  if (buffer == nullptr) return;
  call(frame.port).receive(frame.port, buffer, now_);
  finish_event();
}

void Bench::apply(const Stimulus& stimulus) {
  using Do = Stimulus::Do;
  const PortId port = stimulus.port;
  switch (stimulus.what) {
    case Do::kEnable:
      call(port).enable(port, now_);
      break;
    case Do::kDisable:
      call(port).disable(port, now_);
      break;
    case Do::kCarrierDown:
      call(port).set_carrier(port, false, now_);
      break;
    case Do::kCarrierUp:
      call(port).set_carrier(port, true, now_);
      break;
    case Do::kSubmit:
      submit(stimulus.packet);
      break;
    case Do::kRelease:
      release(stimulus.count);
      break;
  }
  finish_event();
}

void Bench::submit(const std::vector<std::byte>& packet) {
  // In turn, so that with several shards some packets are routed where their port is, and some not.
  const ShardId id{static_cast<std::uint8_t>(submits_++ % seats_.size())};
  Buffer* buffer = fill(id, packet);
  if (buffer == nullptr) return;
  if (call(id).submit(buffer, now_) == network::Submit::kTaken) return;
  give_back(buffer);
  fault("a submit was refused (N13), which traces never reach (C4)");
}

/// The oldest `count` delivered packets, or as many as there are: a trace may say "all" by a large
/// number.
void Bench::release(std::size_t count) {
  for (count = std::min(count, delivered_.size()); count > 0; --count) {
    const Parcel parcel = delivered_.front();
    delivered_.pop_front();
    call(parcel.shard).release(parcel.buffer, now_);
  }
}

/// Fires one timer: the first of the lowest port that has one due, whichever shard owns it (C2). A
/// shard that is alone keeps the order of ports itself.
bool Bench::expire() {
  bool fired = false;
  if (seats_.size() == 1) {
    fired = call(ShardId{0}).expire(now_);
  } else {
    fired = std::any_of(trace_.ports.begin(), trace_.ports.end(), [&](const TracePort& port) {
      const PortId id = port.config.link.port;
      return call(id).expire(id, now_);
    });
  }
  if (fired) finish_event();
  return fired;
}

void Bench::finish_event() {
  settle();
  pull();
  check_books();
}

/// Carries what shards pass, and releases what is consumed at once, until nothing moves.
void Bench::settle() {
  while (!passing_.empty() || (trace_.consume && !delivered_.empty())) {
    if (!passing_.empty()) {
      const Parcel parcel = passing_.front();
      passing_.pop_front();
      call(parcel.shard).from_shard(parcel.buffer, now_);
    } else {
      release(1);
    }
  }
}

/// The frames of an event leave at its time (C2): every port until nothing comes.
void Bench::pull() {
  link::FrameOut out;
  for (bool any = true; any && !given_up_;) {
    any = false;
    for (const TracePort& port : trace_.ports) {
      const PortId id = port.config.link.port;
      while (!given_up_ && call(id).next_frame(id, now_, out)) {
        any = true;
        std::vector<std::byte> bytes(out.length());
        out.write(bytes.data());
        auto& sent = outcome_.sent[id.value()];
        if (recording_) {
          outcome_.capture.push_back({now_, bytes});
          sent.push_back({now_, std::move(bytes)});
        }
        if (sent.size() < allowed_[id.value()]) continue;
        fault(fmt::format("sent {} frames more than the trace has; given up", frames_beyond_), id);
        given_up_ = true;
      }
    }
    settle();
  }
}

/// ShardCounters: the books balance between events.
void Bench::check_books() {
  for (const auto& seat : seats_) {
    const network::ShardCounters& c = seat->shard->counters();
    const std::uint64_t dropped = total(counts(c.drops, DropLayer::kNetwork));
    const std::uint64_t in = c.accepted.get() + c.made.get() + c.passed_in.get();
    const std::uint64_t out =
        c.acked.get() + c.delivered.get() + dropped + c.passed_out.get() + seat->shard->held();
    if (in == out || books_wrong_) continue;
    books_wrong_ = true;  // once wrong, they stay so
    fault(fmt::format(
        "the books of shard {} do not balance: accepted {} + made {} + passed in {} = {}, but "
        "acked {} + delivered {} + dropped {} + passed out {} + held {} = {}",
        seat->shard->id().value(), c.accepted.get(), c.made.get(), c.passed_in.get(), in,
        c.acked.get(), c.delivered.get(), dropped, c.passed_out.get(), seat->shard->held(), out));
  }
}

/// Ends the node after the trace, as an owner would, and looks whether anything is lost.
void Bench::close() {
  recording_ = false;
  release(delivered_.size());
  finish_event();
  for (const TracePort& port : trace_.ports) {
    const PortId id = port.config.link.port;
    call(id).disable(id, now_);
    finish_event();
  }
  release(delivered_.size());
  settle();
  if (!given_up_) check_empty();
}

/// Every packet is gone and every link down: no cell is occupied, and every buffer is back.
void Bench::check_empty() {
  for (const TracePort& port : trace_.ports) {
    const PortId id = port.config.link.port;
    const link::Link& link = *view(id).link(id);
    for (std::uint8_t vc = 0; vc < kVcs; ++vc) {
      if (link.occupied(Vc{vc}) == 0) continue;
      fault(fmt::format("{} cells of vc {} are still occupied when every packet is gone",
                        link.occupied(Vc{vc}), vc),
            id);
    }
  }
  for (const auto& seat : seats_) {
    const unsigned id = seat->shard->id().value();
    if (seat->shard->held() != 0) {
      fault(fmt::format("shard {} still holds {} packets when all its links are down", id,
                        seat->shard->held()));
    }
    called_ = seat->shard->id();
    seat->shard.reset();
    if (seat->pool.taken() == 0) continue;
    fault(fmt::format("{} buffers of shard {} were not given back", seat->pool.taken(), id));
  }
}

void Bench::note_delivery(const Buffer& packet, PortId port, Vc vc) {
  if (!recording_) return;
  const auto bytes = packet.bytes();
  outcome_.deliveries.push_back({now_, port, vc, {bytes.begin(), bytes.end()}});
}

link::BringUp Bench::next_bring_up(PortId port, std::uint8_t last_epoch) {
  const auto& listed = trace_.ports[port.value()].bring_ups;
  const std::size_t done = bring_ups_[port.value()]++;
  if (done < listed.size()) return listed[done];
  if (recording_) {
    fault(fmt::format("begins bring-up {}, the trace lists {}", done + 1, listed.size()), port);
  }
  // Any numbers that keep L4: the replay has failed already.
  return {static_cast<std::uint32_t>(done + 1), static_cast<std::uint8_t>(last_epoch == 1 ? 2 : 1)};
}

Buffer* Bench::fill(ShardId shard, std::span<const std::byte> bytes) {
  BufferPool& pool = seats_[shard.value()]->pool;
  Buffer* buffer = pool.take();
  if (buffer == nullptr) {
    if (!given_up_) fault("every buffer is in use: the core keeps some, or the trace is too long");
    given_up_ = true;
    return nullptr;
  }
  std::memcpy(buffer->data, bytes.data(), bytes.size());
  buffer->length = static_cast<std::uint32_t>(bytes.size());
  buffer->tailroom -= buffer->length;
  return buffer;
}

void Bench::fault(std::string what, std::optional<PortId> port) {
  if (port) what = fmt::format("port {}: {}", port->value(), what);
  Difference difference;
  difference.at = now_;
  difference.port = port;
  difference.what = std::move(what);
  outcome_.faults.push_back(std::move(difference));
}

}  // namespace

std::vector<Input> inputs_of(const Trace& trace) {
  std::vector<Input> inputs;
  for (const TraceFrame& frame : trace.frames) {
    if (frame.received) inputs.push_back({frame.at, &frame, nullptr, {}});
  }
  for (const Stimulus& stimulus : trace.stimuli) {
    inputs.push_back({stimulus.at, nullptr, &stimulus, {}});
  }
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const Input& a, const Input& b) { return a.at < b.at; });
  return inputs;
}

Outcome run(const Trace& trace, const std::vector<Input>& inputs, const ReplayOptions& options) {
  return Bench(trace, inputs, options).run();
}

Outcome run(const Trace& trace, const ReplayOptions& options) {
  return run(trace, inputs_of(trace), options);
}

}  // namespace mtl::conformance
