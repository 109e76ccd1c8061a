#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mtlink/control.pb.h"

/// What `mtctl show` prints, from one reading of a node.
namespace mtl::tools {

/// "1 (cable0)", or "1" of a port without a name.
std::string port_label(const mtlink::control::PortState& port);

std::string show_node(const mtlink::control::NodeState& node, bool colour);
std::string show_ports(const mtlink::control::NodeState& node, bool colour);
std::string show_links(const mtlink::control::NodeState& node, bool colour);
std::string show_vcs(const mtlink::control::NodeState& node, bool colour);
std::string show_routes(const mtlink::control::NodeState& node, bool colour);
std::string show_trunks(const mtlink::control::NodeState& node, bool colour);
std::string show_drops(const mtlink::control::NodeState& node, bool colour);
std::string show_workers(const mtlink::control::NodeState& node, bool colour);
std::string show_memory(const mtlink::control::NodeState& node, bool colour);

/// One thing that `show` can show.
struct View {
  const char* name;
  const char* help;
  std::string (*text)(const mtlink::control::NodeState&, bool colour);
};
const std::vector<View>& views();

/// "drop 1 %, delay 5.00 ms, seed 7"; "" of none.
std::string describe(const mtlink::config::Impairment& impairment);
/// "160.0 Mbit/s", and the overhead if it is not Ethernet's.
std::string describe(const mtlink::config::Rate& rate);

}  // namespace mtl::tools
