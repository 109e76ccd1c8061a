#pragma once

#include <cstdint>
#include <string>

#include "link/config.h"
#include "mtlink/config.pb.h"
#include "switch/config/problems.h"

namespace mtl::switchd {

/// Where the parameters of a port's link come from, first to last: the port, the node's defaults,
/// the built-in defaults.
struct LinkSource {
  const mtlink::config::LinkDefaults& own;
  std::string own_path;  ///< "ports[1].link"
  const mtlink::config::LinkDefaults& node;
  std::string port_path;        ///< "ports[1]"
  std::uint32_t longest_frame;  ///< of the device
  std::string device;           ///< for sentences: "interface va"
};

/// Fills mtu, cell, windows, capacities, marking and timers of `config`.
void plan_link(const LinkSource& source, Problems& problems, link::Config& config);

}  // namespace mtl::switchd
