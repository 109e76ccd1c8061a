#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/buffer.h"
#include "base/drop.h"
#include "base/ids.h"
#include "base/time.h"
#include "link/frame_out.h"
#include "network/node.h"
#include "network/route_table.h"
#include "sim/clock_queue.h"
#include "sim/event_log.h"
#include "sim/pool.h"
#include "sim/random.h"
#include "sim/wire.h"

namespace mtl::sim {

class NodeHost;
class ShardHost;

/// The drops of a shard, which are looked through after each of its events.
inline constexpr auto kNetworkDrops = [] {
  constexpr auto is_network = [](const DropInfo& info) {
    return info.layer == DropLayer::kNetwork;
  };
  std::array<Drop, std::count_if(kDropInfo.begin(), kDropInfo.end(), is_network)> drops{};
  std::size_t n = 0;
  for (std::size_t i = 0; i < kDropInfo.size(); ++i) {
    if (is_network(kDropInfo[i])) drops[n++] = static_cast<Drop>(i);
  }
  return drops;
}();

/// Who watches a fabric: the checkers. Called as things happen; must not call back into the fabric.
class FabricWatcher {
 public:
  /// A link made a frame in its `session` (PortSlot).
  virtual void sent(PortRef from, std::uint32_t session, const link::FrameOut& frame) = 0;
  /// A packet reached its node; `answered`: an echo request that the node itself answers.
  virtual void delivered(std::uint32_t node, const Buffer& packet, bool answered) = 0;
  virtual void dropped(std::uint32_t node, Drop reason, const Buffer& packet) = 0;
  /// In a buffer of a node that is being destroyed; what is not a packet is given too.
  virtual void lost(std::uint32_t node, const Buffer& buffer) = 0;
  /// The receiver gave up DATA `seq` (L12).
  virtual void poisoned(PortRef at, Seq seq) = 0;
  virtual void link_changed(PortRef at) = 0;
  /// An event of a shard is over and what it made has left.
  virtual void settled(const ShardHost& shard) = 0;
  /// A node is about to be destroyed: its counters can be read for the last time.
  virtual void retiring(const NodeHost& node) = 0;
  /// Likewise, of a port that is about to be removed.
  virtual void retiring(const NodeHost& node, PortId port) = 0;
  /// A rule of the simulator's own was broken.
  virtual void broken(std::string_view check, std::string text) = 0;

 protected:
  ~FabricWatcher() = default;
};

struct NodePlan {
  network::NodeConfig config;
  std::vector<network::Route> routes;
  bool endpoint = true;
  std::uint32_t own_buffers = 64;       ///< of each shard, for packets made by the node
  std::uint32_t consume_later_ppm = 0;  ///< deliveries that stay in the buffer for a while
  Duration consume_delay{0};            ///< up to so long
  Duration ring_delay{0};               ///< between shards, up to so long
  Duration move_delay{0};               ///< of each step of a move of a port, up to so long
  std::uint32_t leak_ppm = 0;           ///< deliveries never released: for tests of the checkers
};

/// Bytes of the longest packet that a node can make: some more than its longest link takes.
std::uint32_t own_room(const NodePlan& plan);

/// Bytes of all buffers that a node has while it runs.
std::uint64_t buffer_bytes(const NodePlan& plan);

/// What the simulator knows of a port; outlives the node's restarts.
struct PortSlot {
  Wire* wire = nullptr;
  std::size_t direction = 0;  ///< of the frames that leave here
  PortRef peer;
  bool enabled = true;                               ///< as the operator wants it
  std::uint32_t carrier_lost = 0;                    ///< causes for there being no carrier
  std::uint32_t session = 0;                         ///< bring-ups so far, restarts included
  std::deque<std::uint8_t> epochs;                   ///< last ones used
  std::array<std::uint64_t, link::kKinds> pulled{};  ///< frames since the node started, by kind
  std::uint64_t given = 0;                           ///< frames given to the link since then
  /// Damaged DATA ever given to the link, by seq.
  std::unordered_map<std::uint16_t, std::uint32_t> damaged;
};

/// Where the frames go that a port receives: a pool of its own, which moves with it from shard to
/// shard.
class PortPool final : private PoolWatcher {
 public:
  PortPool(NodeHost& node, const link::Config& link);
  CheckedPool& pool() { return pool_; }
  const CheckedPool& pool() const { return pool_; }

 private:
  void given(const Buffer& buffer) override;
  void misgiven(const Buffer& buffer) override;

  NodeHost& node_;
  PortId port_;
  CheckedPool pool_;
};

/// A shard with all that a worker would give it: buffers, time, the ports' wires, rings to the
/// other shards, an owner that takes deliveries.
class ShardHost final : private network::ShardOwner, private EventTarget, private PoolWatcher {
 public:
  ShardHost(NodeHost& node, ShardId id, Random random);

  void boot(Time now);
  /// What was delivered here and is not free yet.
  bool was_delivered(const Buffer& buffer) const;
  /// Destroys the shard. Its pool stays, so that in_use() tells what leaked.
  void halt();
  bool running() const { return shard_ != nullptr; }

  void set_table(const network::RouteTable* table) { shard_->set_table(table); }
  void enable(PortId port, Time now);
  void disable(PortId port, Time now);
  void set_carrier(PortId port, bool carrier, Time now);
  void frames_in(PortId port, std::span<Buffer* const> frames, Time now);
  /// The wire of a port has room again.
  void room_again(Time now);
  /// Takes in everything that other shards have passed.
  void take_in(Time now);
  /// The steps of a move (network::Shard).
  std::vector<std::unique_ptr<link::Link>> take_links(std::span<const PortId> ports, Time now);
  void put_links(std::vector<std::unique_ptr<link::Link>> links, Time now);
  std::unique_ptr<link::Link> make_link(const link::Config& config) {
    return shard_->make_link(config);
  }
  /// A buffer for submit(); nullptr when none is left.
  Buffer* take_own() { return own_pool_->take(); }
  /// As Shard::submit(); on kQueueFull the buffer goes back to the pool.
  network::Submit submit(Buffer* packet, Time now);
  /// A drop that was counted and not told of is that of `buffer`, which the shard lets go.
  void attribute(const Buffer& buffer);
  /// Deliveries wait until resume().
  void pause() { paused_ = true; }
  void resume(Time now);

  const network::Shard& shard() const { return *shard_; }
  const NodeHost& node() const { return node_; }
  ShardId id() const { return id_; }
  const CheckedPool& own_pool() const { return *own_pool_; }
  /// Buffers of the node's own out of the shard's pool.
  std::uint32_t in_use() const { return own_pool_->in_use(); }
  /// Delivered and not yet consumed.
  std::uint32_t waiting() const { return waiting_count_; }

 private:
  struct Passed {
    Time due;
    Buffer* buffer;
  };
  struct Ring {
    std::deque<Passed> queue;
    Time last{};
  };

  // network::ShardOwner
  void delivered(Buffer* packet, PortId port, Vc vc) override;
  void answered(const Buffer& request, PortId port, Vc vc) override;
  void pass(ShardId to, Buffer* buffer) override;
  link::BringUp bring_up(PortId port, std::uint8_t last_epoch) override;
  void link_changed(PortId port) override;
  // EventTarget
  void on_event(Time now, std::uint64_t what) override;
  // PoolWatcher
  void given(const Buffer& buffer) override;
  void misgiven(const Buffer& buffer) override;

  void burst_in(PortId port, std::span<Buffer* const> burst, Time now);
  void begin(Time now);
  void end();
  void pull(PortId port, Time now);
  void run_timers(Time now);
  void run_rings(Time now);
  Time run_ring(Ring& ring, Time until, Time now);
  void consume(std::uint64_t what, Time now);
  void settle(Time now);
  std::optional<Drop> new_drop();

  NodeHost& node_;
  ShardId id_;
  Random random_;
  std::unique_ptr<CheckedPool> own_pool_;
  std::unique_ptr<network::Shard> shard_;
  std::vector<Ring> from_;        ///< by shard that passes
  BufferQueue kept_;              ///< for a port that is on its way here
  std::vector<Buffer*> burst_;    ///< received, on their way to the link
  std::deque<Buffer*> at_once_;   ///< delivered, to be released in this event
  std::vector<Buffer*> waiting_;  ///< delivered, to be released later; nullptr: a free slot
  std::vector<std::uint32_t> free_slots_;
  std::uint32_t waiting_count_ = 0;
  std::uint32_t life_ = 0;  ///< counts boots: tells events of an earlier life
  std::array<std::uint64_t, kNetworkDrops.size()> attributed_{};
  link::FrameOut out_;
  Alarm timers_;
  Alarm rings_;
  Time now_{};
  bool paused_ = false;
};

/// What the hosts of one fabric share.
struct FabricContext {
  ClockQueue& queue;
  FabricWatcher& watcher;
  EventLog& log;
};

/// A node of the fabric through all its lives.
class NodeHost final : private EventTarget {
 public:
  NodeHost(std::uint32_t index, NodePlan plan, FabricContext context, Random random);

  /// A fresh node: nothing of an earlier life is known to it.
  void boot(Time now);
  /// The node is gone, with everything in it.
  void halt();
  bool running() const { return node_ != nullptr; }

  /// Moves the ports that are where the first is to another shard, with the other lanes of their
  /// trunks, as a daemon does, in steps with some time between, for each shard another. Ports that
  /// are being replaced stay, and do not count. Does nothing unless the node runs, no move is under
  /// way, and the first port is elsewhere. `undone` gets what was not done and why, nothing if all
  /// was. Whether any port moves.
  bool move(std::vector<PortId> ports, ShardId to, Time now, std::string& undone);

  /// Removes a port as a daemon does: it leaves the routes, its link is disabled, and when it is
  /// settled it goes; `rest` later there is another one of its number, at shard `shard`. Other
  /// ports may move meanwhile; it then goes, and comes back, between two moves. Does nothing unless
  /// the node runs, no port is being replaced, and the port neither moves nor is a lane of a trunk.
  /// Why it does nothing; empty: it does.
  std::string replace(PortId port, ShardId shard, Duration rest, Time now);

  /// Whether a port moves while another is being replaced.
  bool moves_and_replaces() const { return !moving_.empty() && replaced_.has_value(); }
  /// Whether no port moves, and none is being replaced.
  bool ports_rest() const { return moving_.empty() && !replaced_; }

  /// Replaces the routes of the running node.
  void set_routes(const std::vector<network::Route>& routes);

  std::uint32_t index() const { return index_; }
  const NodePlan& plan() const { return plan_; }
  FabricContext& context() { return context_; }
  network::Node& node() { return *node_; }
  const network::Node& node() const { return *node_; }
  std::span<const std::unique_ptr<ShardHost>> shards() const { return shards_; }
  /// The shard that has the port; nullptr while it is between two, or there is none.
  ShardHost* shard_of(PortId port);
  /// What happens to a port of the running node; while it is between two shards, it waits.
  void enable(PortId port, bool enabled, Time now);
  void set_carrier(PortId port, bool carrier, Time now);
  void frames_in(PortId port, std::span<Buffer* const> frames, Time now);
  void room_again(PortId port, Time now);
  CheckedPool& pool(PortId port) { return pools_[port.value()]->pool(); }
  const CheckedPool& pool(PortId port) const { return pools_[port.value()]->pool(); }
  /// Buffers out of all pools: received, and the node's own.
  std::uint32_t in_use() const;
  std::span<PortSlot> slots() { return slots_; }
  std::span<const PortSlot> slots() const { return slots_; }
  PortSlot& slot(PortId port) { return slots_[port.value()]; }
  const PortSlot& slot(PortId port) const { return slots_[port.value()]; }
  /// The shard that is in a call, or nullptr: pools are for their own shard alone.
  ShardHost* active() const { return active_; }
  void set_active(ShardHost* shard) { active_ = shard; }
  /// The link of a port while the node runs and has the port, else nullptr.
  const link::Link* link(PortId port) const;

 private:
  // EventTarget: the next step of the move, or of the replacement
  void on_event(Time now, std::uint64_t what) override;
  void add_lanes(std::vector<PortId>& ports) const;
  void step_later(std::uint64_t step, ShardId shard, Time now);
  void report_lost(const CheckedPool& pool);
  void take(Time now);
  void put(Time now);
  void publish_routes();
  void look_whether_settled(Time now);
  void add_again(Time now);

  std::uint32_t index_;
  NodePlan plan_;
  FabricContext context_;
  Random random_;
  std::vector<PortSlot> slots_;
  std::vector<std::unique_ptr<PortPool>> pools_;  ///< by port
  ShardHost* active_ = nullptr;

  // The move under way.
  struct Between {
    std::unique_ptr<link::Link> link;
    std::deque<std::vector<std::byte>> frames;  ///< came in meanwhile
  };
  std::vector<PortId> moving_;  ///< empty: none
  ShardId from_;
  ShardId to_;
  std::vector<Between> between_;  ///< by port
  std::size_t to_take_in_ = 0;    ///< shards that have not yet taken in what was passed to them
  std::uint32_t life_ = 0;        ///< counts ends: tells steps of an earlier life

  // The port that is being replaced.
  struct Replaced {
    PortId port;
    ShardId shard;
    Duration rest{0};
  };
  std::optional<Replaced> replaced_;
  std::vector<network::Route> routes_;  ///< as wanted, the replaced port's included
  std::unique_ptr<network::RouteTable> table_;
  std::unique_ptr<network::Node> node_;
  std::vector<std::unique_ptr<ShardHost>> shards_;
};

}  // namespace mtl::sim
