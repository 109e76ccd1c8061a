#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "network/route_table.h"
#include "topology/routes.h"

namespace mtl::topology {

/// SHA-256. What makes one fails if libcrypto does, by its configuration or for want of memory.
using Digest = std::array<std::byte, 32>;
std::string hex(const Digest& digest);

/// What a node's routes are, whatever order they are listed in: SHA-256 over
///   "mtlink routes 1", node u16, then for each group of destinations that have the same tiers, in
///   order of their lowest: their count u16 and themselves u16 ascending; tiers u8, for each tier:
///   hops u8, for each hop: port u16, raise u8
/// in big endian. Both the tool that proves a fabric and the node that runs its part can make it.
Result<Digest> node_digest(NodeId node, std::span<const network::Route> routes);

/// The proof's stamp: SHA-256 over "mtlink fabric 1" and, in order of node ids, node u16 and its
/// digest. Who has the digests of all nodes can make it, without their tables.
Result<Digest> fabric_digest(std::span<const std::pair<NodeId, Digest>> nodes);

/// The digests of all nodes of a fabric, in order of their ids.
Result<std::vector<std::pair<NodeId, Digest>>> node_digests(const Routes& routes);

}  // namespace mtl::topology
