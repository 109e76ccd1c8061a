#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "control/client.h"
#include "mtlink/control.pb.h"

namespace mtl::tools {

/// Of an answer that is none to what was asked.
Error wrong_answer();
/// The state of the node, in one consistent reading.
Result<mtlink::control::NodeState> get_node(control::Client& client);
/// Finds a port of it by number (digits only) or name.
Result<std::uint32_t> find_port(const mtlink::control::NodeState& node, const std::string& wanted);
Result<std::uint32_t> find_port(control::Client& client, const std::string& wanted);

}  // namespace mtl::tools
