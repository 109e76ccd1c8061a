#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/counter.h"
#include "base/ids.h"
#include "network/node.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "runtime/shard_loop.h"
#include "runtime/worker.h"
#include "switch/event.h"
#include "switch/reading.h"
#include "switch/table_publisher.h"

namespace mtl::switchd {

/// An echo request to be made (N11).
struct EchoRequest {
  static constexpr std::uint32_t kMaxBytes = 1400;
  NodeId dst;
  std::uint8_t hop_limit = network::kDefaultHopLimit;
  Partition partition;
  std::uint16_t entropy = 0;
  std::uint16_t id = 0;
  std::uint16_t number = 0;
  std::uint32_t bytes = 0;  ///< of data, up to kMaxBytes
};

enum class EchoSubmit : std::uint8_t { kSent, kNoBuffer, kQueueFull };

/// One shard of the switch's node with everything that it runs on: the loop over its ports, the
/// worker, random numbers, the rings to the other shards and to the control thread, and its hold on
/// the route table. The control thread builds it before the worker starts and takes it apart after
/// it has ended; in between it uses worker().post() and the rings alone. What is marked "worker"
/// happens on the worker's thread.
class ShardHost final : public network::ShardOwner,
                        public runtime::LoopOwner,
                        public runtime::Gate {
  static constexpr Time kLongAgo = Time{} - std::chrono::hours(1);
  struct PortWatch {
    link::State state = link::State::kDown;
    std::optional<Time> last_up;
    std::optional<Time> last_down;
    Duration reroute{0};
    Time told_from = kLongAgo;  ///< beginning of the second that `told` counts
    std::uint32_t told = 0;
    MediumReading former;        ///< counts of media that were taken away
    std::uint64_t impaired = 0;  ///< likewise, of impairments
    std::uint64_t impaired_dropped = 0;
  };

 public:
  static constexpr std::size_t kEvents = 1024;
  /// Changes of one link that are told in a second: a peer that keeps leaving and coming back is
  /// not to take the place of what others have to tell.
  static constexpr std::uint32_t kLinkEvents = 16;

  /// A port on its way to the host of another shard, with what was noted of it here.
  struct MovingPort {
    runtime::ShardLoop::MovingPort port;
    PortWatch watch;
  };

  struct Config {
    ShardId id;
    runtime::IdleConfig idle;
    /// Called on the worker when events or completions wait: cheap, once until renotify().
    std::function<void()> notify;
  };

  /// All references outlive the host. The worker is reader `id` of `tables`.
  ShardHost(Config config, network::Node& node, BufferPool& pool, const runtime::Clock& clock,
            TablePublisher& tables);
  ~ShardHost();

  /// Joins two shards of a node, both ways; `buffers`: as many as there are in all.
  static void join(ShardHost& a, ShardHost& b, std::size_t buffers);

  runtime::Worker& worker() { return worker_; }
  const runtime::Worker& worker() const { return worker_; }
  /// See network::Shard. Any thread.
  std::unique_ptr<link::Link> make_link(const link::Config& config) {
    return shard_.make_link(config);
  }
  ShardId id() const { return shard_.id(); }

  // The control thread.

  /// What the worker told of links. Call renotify() before draining it.
  EventRing& events() { return events_; }
  /// What it told of echoes: apart, since other nodes decide how many come. Likewise.
  EventRing& echoes() { return echoes_; }
  /// Changes of the link of `port` beyond kLinkEvents: no event tells of them.
  std::uint64_t untold(PortId port) const { return untold_[port.value()].get(); }
  /// Events that found their ring full.
  std::uint64_t events_lost() const { return events_lost_.get(); }
  std::uint64_t echoes_lost() const { return echoes_lost_.get(); }
  /// How many echo requests of the node wait for an answer: while none does, the worker tells of no
  /// echo that comes in. To be set before the request is posted.
  void expect_echoes(std::size_t waiting) {
    echoes_expected_.store(waiting, std::memory_order_relaxed);
  }
  /// From now on notify is called again. A read-modify-write like the worker's: either this one
  /// comes later and what was told is seen by the drain that follows, or the worker's does and it
  /// notifies. A plain store could be overtaken by the drain's loads, and both sides would wait.
  void renotify() { notified_.exchange(false, std::memory_order_acq_rel); }
  /// A reading with room for all ports of the node, to be filled by read().
  ShardReading blank_reading() const;

  // Worker: in commands.
  void enable(PortId port, Time now) { shard_.enable(port, now); }
  void disable(PortId port, Time now) { shard_.disable(port, now); }
  void attach(PortId port, phy::Port& medium, Time now) { loop_.attach(port, medium, now); }
  void cut(PortId port, Time now) { loop_.cut(port, now); }
  /// Takes the medium away and keeps its counts.
  void detach(PortId port, Time now);
  /// Puts `impairment` in the place of the former one, which is returned.
  std::unique_ptr<phy::Impairment> impair(PortId port, std::unique_ptr<phy::Impairment> impairment,
                                          Time now);
  /// Puts `pacer` in the place of the former one, which is returned.
  std::unique_ptr<phy::Pacer> pace(PortId port, std::unique_ptr<phy::Pacer> pacer) {
    return loop_.set_pacer(port, std::move(pacer));
  }
  /// See runtime::ShardLoop.
  void set_tap(capture::Tap* tap) { loop_.set_tap(tap); }
  void look_at_tap() { loop_.look_at_tap(); }
  /// Takes a port away, and puts it down again; NodeHost::move() tells the order.
  void take(PortId port, MovingPort& out);
  void put(std::span<MovingPort> ports, Time now);
  /// See runtime::ShardLoop.
  void take_in(Time now) { loop_.take_in(now); }
  /// Whether the link of a port has told what it had to tell.
  bool told(PortId port) const { return !shard_.link(port)->wants_to_send(); }
  /// See network::Shard.
  bool settled(PortId port) const { return shard_.settled(port); }
  /// Takes a port away for good, detached and settled(); what it counted stays in read().
  void remove(PortId port, MovingPort& out);
  /// Two steps by which another ring takes the place of that from one shard to another. At the
  /// first: what is passed from now on goes into `ring`, which gets the former one. Then, at the
  /// other: what waits in `former` is taken in, and `ring` is read.
  void pass_by(ShardId to, std::unique_ptr<runtime::BufferRing>& ring) {
    std::swap(outlets_[to.value()].ring, ring);
  }
  void read_from(runtime::BufferRing& former, runtime::BufferRing& ring, Time now) {
    loop_.replace_ring(former, ring, now);
  }
  std::size_t ring_capacity(ShardId to) const { return outlets_[to.value()].ring->capacity(); }
  EchoSubmit submit_echo(const EchoRequest& request, Time now);
  /// Disables every link: CLOSE to each peer (L8). drained() once every link has told what it had
  /// to say. Once more does no harm.
  void disable_all(Time now);
  bool drained() const { return !loop_.wants_to_send(); }
  /// Allocates nothing if `out` is a blank_reading().
  void read(ShardReading& out, Time now) const;

 private:
  struct Reroute {
    PortId port;
    Time since{};
    std::uint64_t rerouted = 0;  ///< the shard's count when the link left UP
  };
  struct Outlet {
    std::unique_ptr<runtime::BufferRing> ring;
    ShardHost* to = nullptr;
    bool used = false;  ///< something was put in since its owner was rung
  };

  // network::ShardOwner, worker
  void delivered(Buffer* packet, PortId port, Vc vc) override;
  void answered(const Buffer&, PortId, Vc) override {}
  void own_dropped(network::EchoType type, const Buffer& packet) override;
  void pass(ShardId to, Buffer* buffer) override;
  link::BringUp bring_up(PortId port, std::uint8_t last_epoch) override;
  void link_changed(PortId port) override;
  // runtime::LoopOwner, worker
  bool work(Time now) override;
  // runtime::Gate, worker
  void enter() override;
  void rest() override;
  void awake() override;

  static bool may_tell(PortWatch& watch, Time now);
  void tell(const Event& event, EventRing& ring, Counter& lost);
  void tell_echo(const Buffer& packet);
  void settle_reroute();
  void ring_others();

  network::Node& node_;
  BufferPool& pool_;
  const runtime::Clock& clock_;
  TablePublisher& tables_;
  std::function<void()> notify_;
  std::atomic<bool> notified_{false};
  runtime::RandomStock random_;
  std::vector<PortWatch> watches_;                    ///< by port
  std::vector<Counter> untold_;                       ///< by port
  std::vector<std::unique_ptr<phy::Pacer>> retired_;  ///< by port, at the end
  std::vector<Outlet> outlets_;                       ///< by shard
  EventRing events_{kEvents};
  EventRing echoes_{kEvents};
  Counter events_lost_;
  Counter echoes_lost_;
  std::atomic<std::size_t> echoes_expected_{0};
  BufferQueue done_;     ///< delivered, to be released
  BufferQueue waiting_;  ///< for a port on its way here
  std::optional<Reroute> reroute_;
  RemovedReading removed_;
  network::Shard shard_;
  runtime::ShardLoop loop_;
  runtime::Worker worker_;
};

}  // namespace mtl::switchd
