#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "phy/impairment.h"
#include "sim/fabric.h"
#include "sim/ledger.h"

namespace mtl::sim {

/// One fault of a schedule.
struct Fault {
  enum class What : std::uint8_t {
    kImpair,   ///< wire, one direction
    kLimit,    ///< wire, one direction: long frames are lost
    kSilence,  ///< wire, one direction: everything is lost
    kCut,      ///< wire
    kDisable,  ///< port
    kHalt,     ///< node
    kCount,
  } what = What::kImpair;
  Time at{};
  Duration lasts{0};
  std::uint32_t wire = 0;       ///< not of kHalt
  std::uint32_t direction = 0;  ///< likewise
  PortRef port;          ///< where `direction` of `wire` begins; kHalt: its node alone counts
  bool carrier = false;  ///< kCut, kHalt: others notice
  bool late = false;     ///< kCut: frames in flight arrive after it
  phy::ImpairmentConfig impairment;
};

/// A port that is removed from its node, and another one of its number added a while later.
struct Replacement {
  Time at{};
  std::uint32_t node = 0;
  PortId port;
  ShardId shard;
  Duration rest{0};
};

/// Ports that are moved to another shard of their node: no fault, and nobody is to notice.
struct Move {
  Time at{};
  std::uint32_t node = 0;
  std::vector<PortId> ports;
  ShardId to;
};

/// Packets alike, one after the other.
struct Flow {
  std::uint32_t from = 0;  ///< index of a node
  std::uint32_t to = 0;
  std::uint8_t packet_class = network::kClassRequest;
  std::uint16_t entropy = 0;
  std::uint32_t length = 64;  ///< bytes of a packet, header and CRC included
  bool echo = false;          ///< requests that their destination answers (N11)
  std::uint64_t count = 0;    ///< packets; 0: as many as go out before `end`
  std::uint64_t rate = 0;     ///< bits of packets a second; 0: as fast as the node takes them
  Time start{};
  Time end = kNever;
};

/// How long a packet of a flow with a rate takes at it, rounded down.
Duration interval(const Flow& flow);

/// One packet. If its node cannot take it, it is tried again, and those behind it for the same
/// shard of the node wait.
struct Send {
  Time at{};
  PacketPlan packet;
};

/// What the sources of a run send at random.
struct Traffic {
  std::vector<std::uint32_t> packets;  ///< by node; empty: none
  Duration gap{0};                     ///< between bursts, on average
  std::uint32_t burst = 1;
  std::uint32_t shortest = 16;
  std::uint32_t longest = 64;    ///< that every port takes
  std::uint32_t beyond_ppm = 0;  ///< longer than that
  std::uint32_t odd_ppm =
      0;  ///< wrong class, alien partition, false source, few hops, no such node
  std::uint32_t bad_crc_ppm = 0;
  std::uint32_t echo_ppm = 0;
  Time start{};
};

/// Everything that is decided before a run begins: by a seed (draw.h) or by a file.
struct Schedule {
  std::uint64_t seed = 1;  ///< of what wires and nodes do at random, and of the packets' content
  FabricPlan plan;
  Traffic traffic;
  std::vector<Flow> flows;
  std::vector<Send> sends;
  std::vector<Fault> faults;
  std::vector<Move> moves;
  std::vector<Replacement> replacements;
  phy::ImpairmentConfig background;  ///< of all wires, both ways, while the faults last
  Time faults_end{};
  Order order = Order::kUnchangedPaths;
  Duration pause{0};  ///< after the faults nobody consumes for so long, then credits are compared
  std::string about;
};

/// Numbers and addresses that follow from where a node, a port and a wire stand in the plan: ids
/// (node_id), MACs, whom a port expects and lets in (N5, if it has an edge), where it has that.
void assign_addresses(FabricPlan& plan);

/// When all is told after the last event, by the plan's timers, delays and rates, and by whether
/// faults may have kept something from being told.
Duration settling_time(const Schedule& schedule);

/// When the last thing begins that the schedule plans: packet, flow (or its end, if it has one),
/// move, replacement, or when the last fault ends.
Time last_planned(const Schedule& schedule);

/// So long nothing may come of what is left to do before a fabric without faults stands still: many
/// times what its timers, wires and nodes, the slowest of each, can take for one step.
Duration longest_wait(const Schedule& schedule);

/// The trunk of the node that the port is a lane of, or nullptr.
const network::TrunkConfig* trunk_of(const network::NodeConfig& node, PortId port);

/// Whether the node has a route to the node of index `to`.
bool has_route(const NodePlan& node, std::uint32_t to);

/// The schedule without some nodes and wires: of what is left the numbers move up, and what speaks
/// of what is gone is gone, routes and traffic included. A wire goes with its nodes, a node with
/// its last wire, a flow with its source's route.
Schedule without(const Schedule& schedule, const std::vector<std::uint32_t>& nodes,
                 const std::vector<std::uint32_t>& wires);

}  // namespace mtl::sim
