#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "sim/fabric.h"

namespace mtl::sim {

/// A link's VC that lacks credit for the packet at the head of its queue, because packets in the
/// receive buffer at its far end wait likewise: for the next of a cycle, the last for the first.
struct WaitingVc {
  PortRef from;  ///< the end that lacks credit
  PortRef to;    ///< the end whose buffer is full
  Vc vc{};
  std::uint32_t queued = 0;         ///< cells that wait for it
  std::uint16_t credit = 0;         ///< cells left
  std::uint16_t capacity = 0;       ///< cells of the buffer
  std::vector<NodeId> packets_for;  ///< destinations of what fills it, ascending
};

/// Looks for packets that wait for each other for ever, unless a link dies (N10): VCs whose head
/// lacks credit while all that fills the buffer waits for VCs of the same kind, nothing on its way,
/// unacknowledged, or with an owner who may yet consume it. Never finds what can still go on by
/// itself. Returns a cycle of them, or nothing.
std::vector<WaitingVc> find_waiting_cycle(const Fabric& fabric);

/// The cycle, one VC a line, from the first back to the first.
std::string describe(const std::vector<WaitingVc>& cycle);

}  // namespace mtl::sim
