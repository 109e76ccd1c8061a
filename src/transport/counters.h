#pragma once

#include <array>
#include <cstdint>

#include "base/counter.h"
#include "base/drop.h"

namespace mtl::transport {

/// What the transport of a node counts. One writer: its thread. The books balance between events:
/// packets_in = taken + dropped, drops being those of DropLayer::kTransport.
struct Counters {
  static constexpr std::size_t kTypes = 6;  ///< index: Type

  DropCounters drops;
  Counter packets_in;                       ///< given to receive()
  Counter taken;                            ///< that passed their checks
  std::array<Counter, kTypes> packets_out;  ///< by type
  Counter data_again;                       ///< DATA sent again
  Counter data_early;                       ///< DATA that came before its turn and was kept
  Counter time_outs;                        ///< by T19 (b) with nothing acknowledged since (T23)
  Counter ups;                              ///< connections that came UP
  Counter rejects_withheld;                 ///< beyond 1,000 in a second (T9)
  Counter answers_withheld;                 ///< no room for an answer that is not a connection's
};

}  // namespace mtl::transport
