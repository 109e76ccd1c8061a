#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/serial.h"

namespace mtl::transport {

/// One end of connections in a node (T1).
using EndpointId = Id<struct EndpointTag, std::uint16_t>;
/// What one side calls a connection (T2); 0 names none.
using ConnectionId = Id<struct ConnectionTag, std::uint32_t>;
inline constexpr ConnectionId kNoConnection{0};
/// What its owner gave for a piece of memory (T37).
using Key = Id<struct KeyTag, std::uint64_t>;

/// Packet sequence number of a DATA on its flow (T1).
using Psn = Serial<struct PsnTag, std::uint32_t>;
/// DATA that arrived with CE (T21).
using Marks = Serial<struct MarksTag, std::uint16_t>;
/// Number of a READ, or of an ATOMIC with FETCH (T29).
using RequestId = Serial<struct RequestTag, std::uint32_t>;
/// Number of a message on its flow (T31), and the limit of credit (T33).
using MessageId = Serial<struct MessageTag, std::uint32_t>;

/// The two kinds of flow that each direction of a connection has (T1).
enum class Flow : std::uint8_t { kRequest = 0, kResponse = 1 };
inline constexpr std::size_t kFlows = 2;

}  // namespace mtl::transport
