#pragma once

#include "mtlink/config.pb.h"
#include "switch/config/node_config.h"
#include "switch/config/problems.h"

namespace mtl::switchd {

/// Takes the trunks of a configuration into a plan whose ports are decided, and gives the ports of
/// each one worker: PortPlan::first_of_worker_group.
void plan_trunks(const mtlink::config::NodeConfig& config, Plan& plan, Problems& problems);

}  // namespace mtl::switchd
