#pragma once

#include "switch/config/node_config.h"

namespace mtl::switchd {

/// Counts buffers and memory of a plan whose ports and workers are decided: PortPlan::buffers,
/// Plan::buffers, Plan::memory (formula: BufferPlan).
void plan_buffers(Plan& plan);

}  // namespace mtl::switchd
