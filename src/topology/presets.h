#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "mtlink/topology.pb.h"
#include "topology/shapes.h"

namespace mtl::topology {

/// The preset of this name (lower case), with the sources of its numbers; nullopt if there is none.
/// `wanted` may give a name, delay and mtu; another number than the preset's is an error, and so is
/// any of `numbers`, the options of shapes that are given.
std::optional<Result<mtlink::topology::Topology>> make_preset(const std::string& name,
                                                              const Wanted& wanted,
                                                              const std::string& numbers);

}  // namespace mtl::topology
