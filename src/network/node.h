#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/counter.h"
#include "base/drop.h"
#include "base/ids.h"
#include "base/time.h"
#include "link/link.h"
#include "network/packet.h"
#include "network/port_board.h"
#include "network/route_table.h"
#include "network/trunk.h"

namespace mtl::network {

/// Whom an edge port lets in (N5).
struct Edge {
  std::vector<NodeId> nodes;          ///< allowed sources
  std::vector<Partition> partitions;  ///< allowed partitions, both ways
};

/// One port of a node.
struct PortConfig {
  link::Config link;         ///< link.port is its id and its index
  std::optional<Edge> edge;  ///< absent: not an edge port
  ShardId shard;             ///< which shard owns it at first (Node::owner); kNoShard: no port

  bool present() const { return shard != kNoShard; }
};

/// How one of several usable hops is chosen (N8).
enum class HopChoice : std::uint8_t {
  kHash,           ///< by the flow's hash
  kShortestQueue,  ///< the fewest bytes queued, of equal ones by the hash: not in order within a
                   ///< flow
};
/// Its name in the control API: hash, shortest_queue.
const char* name(HopChoice choice);

struct NodeConfig {
  NodeId node;
  std::uint8_t hop_limit = kDefaultHopLimit;  ///< N6, of packets made here
  std::uint32_t own_limit = 256;              ///< N13: own packets in a link's queue
  std::vector<PortConfig> ports;              ///< port i at index i; some may have no port
  std::size_t shards = 1;
  std::vector<TrunkConfig> trunks;
  HopChoice hop_choice = HopChoice::kHash;
};

/// A port's place in a trunk.
struct LanePlace {
  Trunk* trunk = nullptr;  ///< nullptr: in none
  std::uint8_t lane = 0;
};

/// What belongs to the node and is shared by its shards: the configuration, the port board, the
/// trunks and the budget of echo errors. Outlives its shards. Thread safe, but for the trunks: each
/// is for the shard that owns its lanes.
class Node {
 public:
  explicit Node(NodeConfig config);
  const NodeConfig& config() const { return config_; }
  PortBoard& board() { return board_; }
  /// In the configuration's order.
  std::span<const Trunk> trunks() const { return trunks_; }
  LanePlace place(PortId port) const { return places_[port.value()]; }
  /// Whom the port lets in; nullptr: it is no edge port.
  const Edge* edge(PortId port) const {
    const std::optional<Edge>& edge = config_.ports[port.value()].edge;
    return edge ? &*edge : nullptr;
  }
  const PortBoard& board() const { return board_; }
  /// The shard that owns a port, or is about to; kNoShard: no port has the number.
  ShardId owner(PortId port) const {
    return ShardId(board_[port].owner.load(std::memory_order_relaxed));
  }
  /// The first step of a move (Shard::take_link); one thread.
  void set_owner(PortId port, ShardId shard) {
    board_[port].owner.store(shard.value(), std::memory_order_relaxed);
  }
  /// Gives a number to a port that is added (Shard::make_link), or, without a shard, takes it away
  /// from one whose link is gone. In between others neither queue to it nor give back what came in
  /// on it. One thread, that of set_owner(); what it does afterwards is seen after this.
  void set_port(PortId port, PortConfig config);
  /// N11: takes one of the 1,000 echo errors of the clock's second; false when none is left.
  bool take_error(Time now);

 private:
  NodeConfig config_;
  PortBoard board_;
  std::vector<Trunk> trunks_;
  std::vector<LanePlace> places_;         ///< by port
  std::atomic<std::uint64_t> errors_{0};  ///< second of the clock << 16 | made in it
};

/// Whom a shard serves: the worker, the simulator, the replayer. Called within the shard's calls.
class ShardOwner {
 public:
  /// A packet for this node (N4), from `port` (kNoPort: from the node itself), which the owner
  /// takes and gives to Shard::release() when done with it.
  virtual void delivered(Buffer* packet, PortId port, Vc vc) = 0;
  /// An echo request that the shard answers itself, as it came in (N11); only to look at.
  virtual void answered(const Buffer& request, PortId port, Vc vc) = 0;
  /// A packet with this node's own source address was dropped here, where another node would be
  /// sent an echo error of `type` (N11); only to look at.
  virtual void own_dropped(EchoType type, const Buffer& packet) {
    (void)type;
    (void)packet;
  }
  /// A buffer for another shard of the node: to be queued on its notes' egress, or, if
  /// notes.returning, to be released. The owner carries it to that shard's from_shard(), in order,
  /// and never drops. For the shard itself: a port on its way here is meant, and the owner keeps
  /// the buffer until the next put_link(), when it comes before all else.
  virtual void pass(ShardId to, Buffer* buffer) = 0;
  /// Numbers for a bring-up (L4).
  virtual link::BringUp bring_up(PortId port, std::uint8_t last_epoch) = 0;
  /// A link of this shard changed state, usability or its peer's parameters; for logs.
  virtual void link_changed(PortId port) = 0;

 protected:
  ~ShardOwner() = default;
};

/// Packets of one shard. The books balance at any time between events:
/// accepted + made + passed_in = acked + delivered + dropped + passed_out + held.
struct ShardCounters {
  /// Of the network layer: `dropped` of the books. Also kNoBuffer, which counts errors that could
  /// not be made and stands in no book.
  DropCounters drops;
  Counter accepted;    ///< packets accepted from links (L13)
  Counter made;        ///< submits accepted for routing, replies, errors
  Counter refused;     ///< submits that were not (N13), and stand in no book
  Counter acked;       ///< acknowledged by the next hop
  Counter delivered;   ///< taken by this node, answered requests included
  Counter passed_in;   ///< packets to be queued, from other shards, and those in links put here
  Counter passed_out;  ///< packets to be queued, to other shards, and those in links taken away
  Counter rerouted;    ///< handed back by a link and queued again (N9)
  Counter forwarded;   ///< packets from links queued on a link or passed to another shard
  Counter marked;      ///< CE set (N12)
  Counter replies;     ///< echo replies made
  Counter errors;      ///< echo errors made
};

enum class Submit : std::uint8_t { kTaken, kQueueFull };

/// The ports of a node that one worker owns, and the forwarding between them and to the ports of
/// other shards (protocol page, section 4). Sans I/O, like Link. One thread.
class Shard final : private link::Owner, private LaneQueues {
 public:
  /// Makes the links of the node's ports that belong to shard `id`. `pool` gives buffers for echo
  /// errors; `node`, `owner`, `pool` outlive the shard.
  Shard(Node& node, ShardId id, BufferPool& pool, ShardOwner& owner);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  /// Replaces the routes; `table` stays valid until the next set_table() has returned.
  void set_table(const RouteTable* table) { table_ = table; }

  // Events. Each may make frames on several ports of this shard, to be pulled after it.
  void enable(PortId port, Time now);
  void disable(PortId port, Time now);
  void set_carrier(PortId port, bool carrier, Time now);
  void receive(PortId port, std::span<Buffer* const> frames, Time now);
  void receive(PortId port, Buffer* frame, Time now) { receive(port, {&frame, 1}, now); }
  /// A packet of this node, complete with CRC (N2), of at least kMinPacket bytes; dst may be the
  /// node itself. kTaken: the shard has the buffer (and may have dropped and counted it);
  /// kQueueFull: the caller keeps it (N13).
  Submit submit(Buffer* packet, Time now);
  /// The owner is done with a delivered packet.
  void release(Buffer* packet, Time now);
  /// What another shard passed (ShardOwner::pass).
  void from_shard(Buffer* buffer, Time now);

  // A port is added in these steps: Node::set_port(); make_link(); put_link() at its shard. It is
  // removed in these: no table names it any more, and every shard has come to see that; disable();
  // settled() says that nothing of it is left in the node; take_link(); Node::set_port().

  /// The link of a port that is added, for put_link() here. Any thread.
  std::unique_ptr<link::Link> make_link(const link::Config& config);
  /// Whether no packet waits in the link and all that came in on it have been released, so that its
  /// number may become another port's. Of a port of this shard.
  bool settled(PortId port) const;

  // A port moves from shard A to shard B with its link, which stays as it is, packets in it
  // included. So that packets keep their order, whoever moves it takes these steps, one after the
  // other:
  //   1. Node::set_owner(port, B). What others pass from now on goes to B and is kept there
  //      (ShardOwner::pass).
  //   2. Every shard has come to see that, and A has taken in (from_shard) what was passed to it
  //      before: A.take_link(). What came to A later would be passed on, but late.
  //   3. Every shard has taken in what A had passed to it: B.put_link(), and what B's owner kept
  //      goes to from_shard().

  /// Takes the link of `port` away, for put_link() at the shard that is the port's owner by now.
  std::unique_ptr<link::Link> take_link(PortId port);
  /// The shard has the port from now on; of a trunk, all lanes have been put before anything else
  /// is asked of it. `now` is not before the link's last event.
  void put_link(std::unique_ptr<link::Link> link, Time now);

  /// Fires the first due timer in C2's order (ports in their order); false if none is due.
  bool expire(Time now);
  /// As expire(), for one port: lets the owner of several shards keep the order of ports (C2).
  bool expire(PortId port, Time now);
  /// When expire() has something to do, or earlier.
  Time next_deadline() const { return deadline_; }
  /// The next frame of `port`, as Link::next_frame().
  bool next_frame(PortId port, Time now, link::FrameOut& out);

  ShardId id() const { return id_; }
  const Node& node() const { return node_; }
  /// The link of a port that this shard owns, else nullptr.
  const link::Link* link(PortId port) const { return links_[port.value()].get(); }
  /// The ports that this shard owns, ascending.
  std::span<const PortId> ports() const { return ports_; }
  const ShardCounters& counters() const { return counters_; }
  /// Packets in this shard's link queues and replay rings: `held` of the books.
  std::uint64_t held() const;
  const RouteTable* table() const { return table_; }

 private:
  // link::Owner
  void packets_in(PortId port, std::span<Buffer* const> packets) override;
  void packets_acked(PortId port, std::span<Buffer* const> packets) override;
  void packet_back(PortId port, Buffer* packet) override;
  void link_changed(PortId port) override;
  link::BringUp bring_up(PortId port, std::uint8_t last_epoch) override;
  // LaneQueues
  std::uint64_t queued_bytes(PortId lane) const override {
    return links_[lane.value()]->queued_bytes();
  }
  void deadline_nearer(Time at) override { deadline_ = std::min(deadline_, at); }

  bool packet_in(PortId port, const Edge* edge, Buffer* packet);

  const NextHop* choose(const Buffer& packet) const;
  const NextHop* choose_in(std::span<const NextHop> tier, const Buffer& packet) const;
  const NextHop* choose_among(std::span<const NextHop> tier, const Buffer& packet) const;
  static Vc vc_by(const NextHop& hop, const Buffer& packet);
  bool is_usable(const NextHop& hop, const Buffer& packet) const;
  bool can_take(PortId port, Vc vc, const Buffer& packet) const;
  std::uint32_t keep_shortest(std::span<const NextHop*> usable) const;
  bool send(Buffer* packet, const NextHop* hop);
  void queue(Buffer* packet, PortId hop, Vc vc);
  PortId take_lane(Trunk& trunk, Buffer& packet);
  bool own_full(PortId port) const;
  void local(Buffer* packet, PortId port, Vc vc);
  void reply(Buffer* request);
  void send_own(Buffer* packet);
  void route_again(Buffer* packet);
  void drop(Drop reason, Buffer* packet);
  void drop_with_error(Drop reason, EchoType type, Buffer* packet);
  void make_error(EchoType type, const Buffer& dropped);
  void finish(Buffer* packet) { finish({&packet, 1}); }
  void finish(std::span<Buffer* const> packets);
  void finish_alike(std::span<Buffer* const> packets, std::uint16_t cells);
  void publish_longest(PortId port);
  void publish_queue(PortId port);
  bool tells_queue(const Buffer& packet) const { return packet.notes.own || by_queue_; }
  void find_deadline();

  Node& node_;
  const NodeId self_;
  const ShardId id_;
  BufferPool& pool_;
  ShardOwner& owner_;
  const RouteTable* table_ = nullptr;
  std::vector<PortId> ports_;
  std::vector<std::unique_ptr<link::Link>> links_;  ///< by port; nullptr: another shard's
  const bool by_queue_;                             ///< N8 looks at queues
  ShardCounters counters_;
  Time now_{};
  Time deadline_ = kNever;  ///< not after any link's: so a node of many ports need not ask each
};

}  // namespace mtl::network
