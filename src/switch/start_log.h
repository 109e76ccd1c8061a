#pragma once

#include "link/config.h"
#include "phy/dpdk/eal.h"
#include "phy/port.h"
#include "switch/config/node_config.h"
#include "switch/log.h"
#include "switch/node_host.h"

/// What a daemon says of itself at start and at the end.
namespace mtl::switchd {

/// What was decided: node, workers and CPUs, memory, EAL's arguments.
void log_start(const Plan& plan, const phy::EalConfig& eal, Log& log);
/// One port: its device and what the link on it was given.
void log_port(const Plan& plan, const link::Config& link, const PortPlan& port,
              const phy::PortTraits& traits, Log& log);
/// The counters at the end, when the workers have stopped.
void log_final(const Plan& plan, NodeHost& host, Time now, Log& log);

}  // namespace mtl::switchd
