#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "mtlink/control.pb.h"

/// What `mtctl watch` shows: how fast a node's counters grow.
namespace mtl::tools {

struct PortRates {
  std::uint32_t port = 0;
  std::string name;
  std::string state;
  double frames_in = 0, frames_out = 0;  ///< per second
  double bits_in = 0, bits_out = 0;      ///< per second, Ethernet headers and padding included
  double replays = 0, drops = 0;         ///< per second; drops of phy and link
};

/// Rates between two readings of a node, by its own clock; ports that only `now` has are left out.
/// Empty if no time has passed.
std::vector<PortRates> rates(const mtlink::control::NodeState& before,
                             const mtlink::control::NodeState& now);

std::string rates_text(const std::vector<PortRates>& rates, bool colour);
boost::json::object rates_json(const std::vector<PortRates>& rates);

}  // namespace mtl::tools
