#pragma once

#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "network/route_table.h"
#include "switch/config/node_config.h"

namespace mtl::switchd {

/// Which ports a running node gets and loses when its configuration is read anew.
struct PlanChange {
  std::vector<PortId> added;    ///< ascending
  std::vector<PortId> removed;  ///< likewise
};

/// `host` as a node sees it that runs with `running`: its interfaces carry what they did when it
/// got them, though one be lost or changed by now; that is the business of its port, not of ports
/// that come and go beside it. `running` outlives it.
Host host_of(const Plan& running, Host host);

/// What leads from `running` to `next`. Ports and slots come and go, and with them `routes` and
/// `fabric` change; what else differs is refused, each by a line: "file:line:column: field is such;
/// what to do". A port whose number stays is not changed either, a device that several ports share
/// comes and goes with all of them, and what a port that goes still has, a port that comes does not
/// get at once. `in_force` are the routes of the running node, by which packets are still under way
/// (N10).
Result<PlanChange> plan_change(const Plan& running, const Plan& next,
                               const std::vector<network::Route>& in_force);

}  // namespace mtl::switchd
