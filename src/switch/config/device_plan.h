#pragma once

#include <cstdint>
#include <string>

#include "mtlink/config.pb.h"
#include "switch/config/node_config.h"
#include "switch/config/problems.h"

namespace mtl::switchd {

/// Where the device of a port is told.
struct DeviceSource {
  const mtlink::config::Port& port;
  std::string path;  ///< "ports[1]"
  const mtlink::config::LinkDefaults& defaults;
  const Host& host;
};

/// Checks the device of a port and fills `out`. Returns the longest frame that it carries,
/// untagged, as far as that is known before it is opened; something usual if it is wrong.
std::uint32_t plan_device(const DeviceSource& source, Problems& problems, Device& out);

/// What of a memif client's memory goes by the link's `mtu`: ring_size and buffer_size. A server
/// has none of these, its client makes the memory.
void plan_memif_sizes(const mtlink::config::Memif& from, const std::string& path, std::uint32_t mtu,
                      Problems& problems, MemifDevice& out);

/// The field of Port that the kind of device has: "af_packet".
const char* kind_of(const Device& device);
/// What carries the link, for sentences: "interface va", "the device".
std::string carrier_of(const Device& device);
/// What two ports on one device have in common: "interface va"; empty for what is never shared, and
/// if it is missing.
std::string shared_name(const Device& device);
/// Frames of its kernel rings; 0 for what has no say in that.
std::uint32_t rings(const Device& device);
/// Whether the device has no address that a link could use: the port is given one.
bool needs_mac(const Device& device);

}  // namespace mtl::switchd
