#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "phy/impairment.h"
#include "sim/fabric.h"
#include "sim/ledger.h"
#include "sim/random.h"
#include "sim/shape.h"

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
  std::uint32_t wire = 0;
  std::uint32_t direction = 0;
  PortRef port;          ///< kDisable; kHalt: its node
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

/// What the sources of a run send.
struct Traffic {
  std::vector<std::uint32_t> packets;  ///< by node
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

/// Everything that a seed decides before a run begins.
struct Draw {
  Kind kind = Kind::kPair;
  Shape shape;
  FabricPlan plan;
  Traffic traffic;
  std::vector<Fault> faults;
  std::vector<Move> moves;
  std::vector<Replacement> replacements;
  phy::ImpairmentConfig background;  ///< of all wires, both ways, while the faults last
  Time faults_end{};
  Order order = Order::kUnchangedPaths;
  bool pause = false;   ///< look at credits while nobody consumes
  Duration settle{0};   ///< after the last event until all is told
  Duration slowest{0};  ///< the longest timer
  std::string about;
};

/// `faults`: whether there are any.
Draw draw_run(Kind kind, const Random& seed, bool faults);

}  // namespace mtl::sim
