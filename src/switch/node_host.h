#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/buffer.h"
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
  /// Moves `ports`, which one worker has, to worker `to`, links, media, impairments and pacers as
  /// they are; then `done` (may be empty). No link notices and no packet is lost or overtaken, for
  /// the steps are those that network::Shard asks for. What is posted, read or moved meanwhile
  /// waits until the move is over, some passes of all workers later.
  void move(std::vector<PortId> ports, ShardId to, Done done);
  /// The worker that has a port, or is about to get it.
  ShardId owner(PortId port) const { return node_.owner(port); }
  /// A reading of every shard, in order.
  void read(std::function<void(const std::vector<ShardReading>&)> done);

  /// See ShardHost::untold().
  std::uint64_t untold(PortId port) const;
  /// See ShardHost::expect_echoes().
  void expect_echoes(std::size_t waiting);

  /// Calls the completions that wait, then `handle` for events: up to kDispatch of links and as
  /// many of echoes from each worker, however fast they come. True: more were there, so call it
  /// again soon, without waiting for notify.
  bool dispatch(const std::function<void(const Event&)>& handle);

  network::Node& node() { return node_; }
  TablePublisher& tables() { return tables_; }
  ShardHost& host(std::size_t i) { return *hosts_[i]; }
  const runtime::WorkerCounters& worker_counters(std::size_t i) const {
    return hosts_[i]->worker().counters();
  }

 private:
  struct Move;
  bool take(EventRing& ring);
  void post_to(ShardId shard, Command command, Done done);
  void post_to_all(Command command, Done done);
  void settled(Done run);
  void start(const std::shared_ptr<Move>& move);
  void end(const std::shared_ptr<Move>& move);

  network::Node node_;
  TablePublisher tables_;
  std::vector<std::unique_ptr<ShardHost>> hosts_;  ///< by shard
  std::vector<Event> told_;                        ///< of the dispatch() in hand
  bool moving_ = false;
  std::vector<Done> waiting_;  ///< for the end of the move
};

}  // namespace mtl::switchd
