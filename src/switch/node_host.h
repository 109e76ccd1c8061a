#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/buffer.h"
#include "base/time.h"
#include "network/node.h"
#include "network/route_table.h"
#include "runtime/clock.h"
#include "switch/event.h"
#include "switch/reading.h"
#include "switch/shard_host.h"
#include "switch/table_publisher.h"

namespace mtl::switchd {

/// A node on its workers, as the control thread handles it: what is to happen to a port goes as a
/// command to the shard that owns it, what the workers tell comes back by dispatch(). Knows no
/// event loop and no devices.
///
/// The control thread's alone, but for run().
class NodeHost {
 public:
  static constexpr std::size_t kDispatch = 256;

  struct Config {
    network::NodeConfig node;
    network::RouteTable table;
    runtime::IdleConfig idle;
    std::vector<BufferPool*> pools;  ///< of each shard, for packets made there; outlive the host
    std::size_t buffers = 0;         ///< all buffers there are: what a ring between shards may hold
    /// Makes the control thread call dispatch() soon. Called on workers.
    std::function<void()> notify;
    /// How long dispatch() waits for workers while they have a port or a ring between them.
    Duration hold = std::chrono::milliseconds(2);
  };

  /// `clock` outlives the host.
  NodeHost(Config config, const runtime::Clock& clock);
  NodeHost(const NodeHost&) = delete;
  NodeHost& operator=(const NodeHost&) = delete;

  std::size_t workers() const { return hosts_.size(); }
  /// The body of worker `i`, on the worker's thread; returns after stop().
  void run(std::size_t i) { hosts_[i]->worker().run(); }
  /// Ends all run()s after the commands posted before.
  void stop();

  using Command = std::function<void(ShardHost&, Time now)>;
  using Done = std::function<void()>;
  /// Runs `command` on the worker of port `port`, which the node has; then `done` (may be empty)
  /// here.
  void post(PortId port, Command command, Done done = {});
  /// Runs it on every worker, then `done` once.
  void post_all(Command command, Done done = {});
  using Moved = std::function<void(ShardId from)>;
  /// Moves `ports`, which one worker has, to worker `to`, links, media, impairments and pacers as
  /// they are; then `done` (may be empty), told which worker had them. No packet is lost or
  /// overtaken, for the steps are those that network::Shard asks for.
  ///
  /// Before it begins every worker has answered once more. One that does not holds up this move and
  /// nothing else; what is posted or read until then comes before the move. From its beginning to
  /// its end, some passes of all workers and some turns of this thread later, what is posted, read
  /// or moved waits: a worker that stops answering just then holds up all of it, until it answers.
  ///
  /// Between its two workers nobody serves a port: for a pass of every worker and two turns of this
  /// thread. Its link does not notice as long as that takes less than its dead_interval, and that
  /// of its peer.
  void move(std::vector<PortId> ports, ShardId to, Moved done);
  /// Runs it on worker `shard`.
  void post(ShardId shard, Command command, Done done = {});
  /// Has a place for `buffers` in every ring between workers, then calls `done` (may be empty), no
  /// port being between two of them: to be asked for before more buffers come into being.
  ///
  /// Before it begins every worker has answered once more. One that stops answering after that
  /// holds up `done` and the rings to and from it, nothing else.
  void make_room(std::size_t buffers, Done done);
  /// Gives the node a port of a number that none has: medium, impairment and pacer of `parts`,
  /// whose link is made here. Its owner is config.shard, and it is enabled if `enabled`.
  void add(network::PortConfig config, ShardHost::MovingPort parts, bool enabled, Done done);
  /// Begins to take a port away that no table names any more, which every worker has come to see:
  /// its link is disabled, and says CLOSE without regard to its rate.
  void close(PortId port, Done done);
  /// Ends that: frees a port that is detached and ShardHost::settled(). Nobody has the number then.
  void remove(PortId port, Done done);
  /// The worker that has a port, or is about to get it.
  ShardId owner(PortId port) const { return node_.owner(port); }
  /// The worker that may be in a call of a port's device: the former owner until it is known to
  /// have let go of the port.
  ShardId holder(PortId port) const;
  /// Disables every link (ShardHost::disable_all()): at once those that a worker has, and once more
  /// at the end of the move that is under way, for those between two.
  void disable_all();
  using Read = std::function<void(const std::vector<ShardReading>&)>;
  /// A reading of every shard, in order, taken after this call. Who asks while one is being taken
  /// shares the next: a worker that does not answer makes no heap of them.
  void read(Read done);

  /// See ShardHost::untold().
  std::uint64_t untold(PortId port) const;
  /// See ShardHost::expect_echoes().
  void expect_echoes(std::size_t waiting);

  /// Calls the completions that wait, then `handle` for events: up to kDispatch of links and as
  /// many of echoes from each worker, however fast they come. True: more were there, so call it
  /// again soon, without waiting for notify. While a port is between two workers (move()), or what
  /// one passes to another waits in a new ring (make_room()), frames wait for this thread, so it
  /// waits for the workers first: Config::hold at most, twice in a move.
  bool dispatch(const std::function<void(const Event&)>& handle);

  network::Node& node() { return node_; }
  TablePublisher& tables() { return tables_; }
  ShardHost& host(std::size_t i) { return *hosts_[i]; }
  const runtime::WorkerCounters& worker_counters(std::size_t i) const {
    return hosts_[i]->worker().counters();
  }

 private:
  struct Move;
  struct Replaced;
  bool take(EventRing& ring);
  void post_to(ShardId shard, Command command, Done done);
  void post_to_all(Command command, Done done);
  void settled(Done run);
  // The steps of a move, each when the one before is done.
  void start(const std::shared_ptr<Move>& move);
  void take_away(const std::shared_ptr<Move>& move);
  void put_down(const std::shared_ptr<Move>& move);
  void end(const Done& done);
  void take_reading();
  void collect();
  void hold_on();
  void replace_rings(std::size_t buffers, const Done& done);
  void replace_ring(ShardId from, ShardId to, Done done);

  const runtime::Clock& clock_;
  const Duration hold_;
  network::Node node_;
  TablePublisher tables_;
  std::vector<std::unique_ptr<ShardHost>> hosts_;  ///< by shard
  std::vector<Event> told_;                        ///< of the dispatch() in hand
  bool moving_ = false;                            ///< a port
  std::shared_ptr<Move> under_way_;                ///< none: nullptr
  std::size_t room_;                               ///< of rings, those on their way included
  std::size_t passing_by_ = 0;                     ///< workers that are to use a new ring
  Time held_until_{};                              ///< dispatch() waits for a step until then
  bool reading_ = false;                           ///< workers were asked for one
  std::vector<Read> readers_;                      ///< of the next
  std::vector<Done> waiting_;                      ///< for the end of the move
};

}  // namespace mtl::switchd
