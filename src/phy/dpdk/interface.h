#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/ids.h"
#include "base/result.h"
#include "phy/dpdk/carrier.h"

/// What ports on Linux interfaces have in common: the checks before one is opened, and the
/// addresses that it must let in.
namespace mtl::phy {

/// "interface eth0 <what>".
Error interface_error(const std::string& name, const std::string& what);

/// Error: no interface can be called so, or not one that is named to a driver.
Result<void> usable_name(const std::string& name);

/// An interface that can carry a link whose longest frame has `max_frame` bytes (0: any link).
/// Errors, each with the remedy: a name that cannot be used, no such interface in the calling
/// thread's network namespace, no Ethernet, down, an MTU that is too small.
Result<InterfaceState> usable_interface(const std::string& name, std::uint32_t max_frame);

/// A socket that has the interface let in what it would filter out: frames to us before the peer
/// knows us (P2), and to those of `macs` that are not the interface's own. It receives nothing; the
/// kernel takes the addresses back when it is closed. Error: no CAP_NET_RAW, too many addresses.
Result<Fd> listen_to(const InterfaceState& interface, const std::vector<Mac>& macs);

/// A packet socket that receives nothing. Error: no CAP_NET_RAW, or a kernel without AF_PACKET.
Result<Fd> packet_socket(const std::string& interface);

}  // namespace mtl::phy
