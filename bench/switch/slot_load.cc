// Load for a switch under test: claims two slots of an mtswitchd and sends DATA from each to the
// other, flat out, from one pinned thread. Prints, as a line of JSON, what the daemon itself
// counted meanwhile: packets forwarded, and the worker's cycles.
//
// To cost less than the switch that it loads, it reads frames where they lie in the rings, does not
// look at their payload, and takes what it sends from a few packets made beforehand (copied into
// the ring, so that the switch finds each frame's bytes in another core's cache, as in life). The
// link protocol is the real one, by link::Link. It rings no doorbell: the daemon has to poll.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "control/client.h"
#include "link/link.h"
#include "network/packet.h"
#include "phy/local_segment.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "runtime/settings/link_timers.h"

namespace mtl {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kBurst = 32;
constexpr std::size_t kTemplates = 64;
constexpr std::uint32_t kViews = 4096;
constexpr Duration kPatience = 5s;

struct Options {
  std::string socket;
  std::array<std::string, 2> slots{"a", "b"};
  std::uint32_t size = 64;
  std::uint32_t in_flight = 256;
  double warm_up = 0.5;
  double seconds = 3;
  int cpu = 1;
};

template <class T>
T value(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// Buffers without memory of their own: they show bytes that lie elsewhere.
class Views final : public BufferPool {
 public:
  Views() : views_(kViews) {
    for (Buffer& view : views_) free_.push_back(&view);
  }
  /// The packet CRC counts as checked, so that the link does not read the payload.
  Buffer* show(std::byte* data, std::uint32_t length) {
    if (free_.empty()) throw std::runtime_error("out of views: frames do not come in order");
    Buffer* view = take();
    view->data = data;
    view->length = length;
    view->notes.crc = CrcState::kGood;
    return view;
  }
  Buffer* take() override {
    Buffer* view = free_.back();
    free_.pop_back();
    *view = Buffer{};
    view->pool = this;
    return view;
  }
  void give(Buffer* buffer) override { free_.push_back(buffer); }
  bool exclusive(const Buffer&) const override { return false; }
  std::uint32_t room() const override { return 0; }
  std::uint32_t available() const override { return static_cast<std::uint32_t>(free_.size()); }

 private:
  std::vector<Buffer> views_;
  std::vector<Buffer*> free_;
};

/// One slot's end: its segment, its link, and what it sends. Goes with the daemon's claim.
class End final : public link::Owner {
 public:
  End(const Options& options, std::size_t which)
      : options_(options), client_(value(control::Client::connect(options.socket))) {
    mtlink::control::ClaimSlot claim;
    claim.set_name(options.slots[which]);
    auto lease = value(client_.claim_slot(claim));
    segment_ = value(
        phy::LocalSegment::attach({Fd(lease.memory.release()), Fd(lease.doorbell.release())}));
    mask_ = segment_->ring_bytes() - 1;
    link_ = std::make_unique<link::Link>(config_of(lease.grant), *this);
    if (options.size > link::kFrameHeader + link_->config().mtu) {
      throw std::runtime_error("frames are longer than the slot's mtu");
    }
  }

  /// Makes the packets to `peer`; their entropy differs, so that they are of several flows.
  void make_packets(NodeId peer) {
    const std::size_t length = options_.size - link::kFrameHeader;
    for (std::size_t i = 0; i < kTemplates; ++i) {
      auto& packet = packets_.emplace_back(length, static_cast<std::byte>(i));
      network::encode(network::Header{.proto = static_cast<std::uint8_t>(network::Proto::kDatagram),
                                      .dst = peer,
                                      .src = node(),
                                      .entropy = static_cast<std::uint16_t>(i)},
                      packet.data());
      network::seal(packet);
    }
  }
  void enable(Time now) {
    link_->set_carrier(true, now);
    link_->enable(now);
  }
  NodeId node() const { return link_->config().node; }
  bool usable() const { return link_->usable(); }
  std::uint64_t sent() const { return sent_; }
  std::uint64_t received() const { return received_; }
  std::uint64_t replays() const { return link_->counters().replays.get(); }

  /// Takes what has come, queues a burst of packets if `in_flight` of ours may be on their way, and
  /// sends what the link has to send. Returns whether any of it was anything.
  bool pass(std::uint32_t in_flight, std::uint64_t arrived_at_peer, Time now) {
    now_ = now;
    const bool received = receive();
    const bool submitted = usable() && submit(in_flight, sent_ - arrived_at_peer);
    const std::uint64_t before = head_;
    pull();
    while (link_->next_deadline() <= now_ && link_->expire(now_)) pull();
    segment_->own().head.store(head_, std::memory_order_release);
    return received || submitted || head_ != before;
  }

 private:
  static constexpr std::uint64_t kRecordHeader = 8;

  static link::Config config_of(const mtlink::control::SlotGrant& grant) {
    link::Config c;
    c.node = NodeId{static_cast<std::uint16_t>(grant.node())};
    c.port = PortId{0};
    c.mac = {std::byte{2}, std::byte{0}, std::byte{0},
             std::byte{0}, std::byte{0}, static_cast<std::byte>(grant.node())};
    c.mtu = static_cast<std::uint16_t>(grant.mtu());
    c.cell = static_cast<std::uint16_t>(grant.cell());
    c.window = static_cast<std::uint16_t>(grant.window());
    for (std::size_t v = 0; v < kVcs; ++v) {
      c.capacity[v] = static_cast<std::uint16_t>(grant.capacity(static_cast<int>(v)));
    }
    const auto timers = runtime::link_timers(grant.timers());
    if (!timers) throw std::runtime_error(timers.error().message);
    c.timers = *timers;
    if (const char* why = link::fault(c)) throw std::runtime_error(why);
    return c;
  }

  bool receive() {
    const std::uint64_t head = segment_->peer().head.load(std::memory_order_acquire);
    unsigned count = 0;
    for (; tail_ != head && count < kBurst; ++count) {
      // The ring is mapped writable; the link only moves the view's bounds.
      auto* record = const_cast<std::byte*>(segment_->in_ring() + (tail_ & mask_));
      std::uint32_t length = 0;
      std::memcpy(&length, record, sizeof length);
      link_->receive(views_.show(record + kRecordHeader, length), now_);
      tail_ += phy::local_record(length);
    }
    if (count > 0) segment_->own().tail.store(tail_, std::memory_order_release);
    return count > 0;
  }

  bool submit(std::uint32_t limit, std::uint64_t in_flight) {
    if (in_flight + kBurst > limit || link_->queued() != 0) return false;
    for (unsigned i = 0; i < kBurst; ++i) {
      auto& packet = packets_[sent_++ % kTemplates];
      link_->submit(views_.show(packet.data(), static_cast<std::uint32_t>(packet.size())), now_);
    }
    return true;
  }

  void pull() {
    const std::uint64_t used = head_ - segment_->peer().tail.load(std::memory_order_acquire);
    std::uint64_t free = segment_->ring_bytes() - used;
    const std::uint64_t longest = phy::local_record(segment_->max_frame());
    while (free >= longest && link_->next_frame(now_, frame_)) {
      std::byte* record = segment_->out_ring() + (head_ & mask_);
      const std::uint64_t length = frame_.write(record + kRecordHeader);
      std::memcpy(record, &length, sizeof length);
      const std::uint64_t bytes = phy::local_record(static_cast<std::uint32_t>(length));
      head_ += bytes;
      free -= bytes;
    }
  }

  // link::Owner
  void packet_in(PortId, Buffer* packet) override {
    ++received_;
    link_->release(packet->notes.ingress_vc, packet->notes.ingress_cells, now_);
    give_back(packet);
  }
  void packet_acked(PortId, Buffer* packet) override { give_back(packet); }
  void packet_back(PortId, Buffer* packet) override {
    give_back(packet);
    died_ = true;
  }
  void link_changed(PortId) override {}
  link::BringUp bring_up(PortId, std::uint8_t last_epoch) override {
    if (died_) throw std::runtime_error("a link died under load");
    return random_.bring_up(last_epoch);
  }

  const Options& options_;
  control::Client client_;  ///< holds the slot
  std::unique_ptr<phy::LocalSegment> segment_;
  std::uint64_t mask_ = 0;
  Views views_;  ///< before link_, which gives back what it holds
  runtime::RandomStock random_;
  std::unique_ptr<link::Link> link_;
  std::vector<std::vector<std::byte>> packets_;
  link::FrameOut frame_;
  Time now_{};
  bool died_ = false;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

/// What the daemon says of itself, in one reading.
struct Reading {
  std::uint64_t uptime_ns = 0;
  std::uint64_t forwarded = 0;
  std::uint64_t busy = 0;
  std::uint64_t idle = 0;
  std::uint64_t hz = 0;
  std::uint64_t drops = 0;
};

Reading read(control::Client& client) {
  mtlink::control::Request request;
  request.mutable_get_node();
  const auto node = value(client.call(request)).node();
  if (node.workers_size() != 1) throw std::runtime_error("the daemon must have one worker");
  Reading r{.uptime_ns = node.uptime_ns(),
            .busy = node.workers(0).busy_cycles(),
            .idle = node.workers(0).idle_cycles(),
            .hz = node.workers(0).cycles_hz()};
  for (const auto& shard : node.shards()) {
    r.forwarded += shard.forwarded();
    for (const auto& drop : shard.drops()) r.drops += drop.count();
  }
  for (const auto& port : node.ports()) {
    for (const auto& drop : port.drops()) r.drops += drop.count();
  }
  return r;
}

/// Both ends and the time.
class Load {
 public:
  explicit Load(const Options& options) : options_(options), a_(options, 0), b_(options, 1) {
    a_.make_packets(b_.node());
    b_.make_packets(a_.node());
    a_.enable(clock_.now());
    b_.enable(clock_.now());
  }
  void bring_up() {
    const Time until = clock_.now() + kPatience;
    while (!a_.usable() || !b_.usable()) {
      if (clock_.now() > until) throw std::runtime_error("the links do not come up");
      pass(0);
    }
  }
  void run(double seconds) {
    const std::uint64_t until = clock_.ticks() + ticks(seconds);
    while (clock_.ticks() < until) pass(options_.in_flight);
  }
  /// Sends nothing new until everything has arrived.
  void drain() {
    const Time until = clock_.now() + kPatience;
    while (a_.sent() != b_.received() || b_.sent() != a_.received()) {
      if (clock_.now() > until) throw std::runtime_error("packets are missing");
      pass(0);
    }
  }
  std::uint64_t replays() const { return a_.replays() + b_.replays(); }
  /// Share of the passes' time in which there was nothing to do: the load waited for the switch.
  double idle_share() const {
    return static_cast<double>(idle_) / static_cast<double>(idle_ + busy_);
  }
  void forget() { idle_ = busy_ = 0; }

 private:
  std::uint64_t ticks(double seconds) const {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(clock_.ticks_hz()));
  }
  void pass(std::uint32_t in_flight) {
    const std::uint64_t begin = clock_.ticks();
    const Time now = clock_.at(begin);
    const bool at_a = a_.pass(in_flight, b_.received(), now);
    const bool at_b = b_.pass(in_flight, a_.received(), now);
    (at_a || at_b ? busy_ : idle_) += clock_.ticks() - begin;
  }

  const Options& options_;
  runtime::Clock clock_;
  End a_, b_;
  std::uint64_t idle_ = 0;
  std::uint64_t busy_ = 0;
};

void measure(const Options& options) {
  auto monitor = value(control::Client::connect(options.socket));
  Load load(options);
  load.bring_up();
  load.run(options.warm_up);
  load.forget();
  const Reading before = read(monitor);
  load.run(options.seconds);
  const Reading after = read(monitor);
  const double idle_share = load.idle_share();
  load.drain();
  std::printf("{\"frames\": %" PRIu64 ", \"seconds\": %.6f, \"busy_cycles\": %" PRIu64
              ", \"idle_cycles\": %" PRIu64 ", \"hz\": %" PRIu64 ", \"drops\": %" PRIu64
              ", \"replays\": %" PRIu64 ", \"load_idle\": %.3f}\n",
              after.forwarded - before.forwarded,
              static_cast<double>(after.uptime_ns - before.uptime_ns) * 1e-9,
              after.busy - before.busy, after.idle - before.idle, after.hz,
              after.drops - before.drops, load.replays(), idle_share);
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    throw std::runtime_error("cannot run on CPU " + std::to_string(cpu));
  }
}

}  // namespace
}  // namespace mtl

int main(int argc, char** argv) {
  mtl::Options o;
  CLI::App app{"loads an mtswitchd between two of its slots and prints what it forwarded, as JSON"};
  app.add_option("--socket", o.socket, "control socket of the mtswitchd")->required();
  app.add_option("--slots", o.slots, "names of the two slots");
  app.add_option("--size", o.size, "bytes of a frame, Ethernet header included")
      ->check(CLI::Range(60, 61440));
  app.add_option("--in-flight", o.in_flight, "frames on their way, each way, at most");
  app.add_option("--seconds", o.seconds, "time measured");
  app.add_option("--cpu", o.cpu, "CPU to run on");
  CLI11_PARSE(app, argc, argv);
  try {
    mtl::pin(o.cpu);
    mtl::measure(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "slot_load: %s\n", e.what());
    return 1;
  }
  return 0;
}
