#include "phy/dpdk/interface.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "link/codec.h"

namespace mtl::phy {
namespace {

constexpr std::uint32_t kEthernet = link::kEthernetHeader;
/// The shortest "longest frame" with which a link can be brought up (L6).
constexpr std::uint32_t kLeastFrame = link::kFrameHeader + link::kMinMtu;

std::string existing_interfaces() {
  std::string names;
  struct if_nameindex* list = ::if_nameindex();
  for (const struct if_nameindex* i = list; i != nullptr && i->if_index != 0; ++i)
    names += (names.empty() ? "" : ", ") + std::string(i->if_name);
  if (list != nullptr) ::if_freenameindex(list);
  return names;
}

/// Whether the name can stand in devargs, where these characters have a meaning; % has one for the
/// kernel, which would make a name of its own.
bool nameable(const std::string& name) {
  return !name.empty() && name.size() < IFNAMSIZ &&
         name.find_first_of(",=[]()/%\"' \t\n") == std::string::npos;
}

}  // namespace

Error interface_error(const std::string& name, const std::string& what) {
  return Error{"interface " + name + " " + what};
}

Result<void> usable_name(const std::string& name) {
  if (nameable(name)) return {};
  return interface_error(name,
                         "is not a name that can be used: 1 to 15 characters, none of ,=[]()/%\"'");
}

Result<InterfaceState> usable_interface(const std::string& name, std::uint32_t max_frame) {
  if (auto named = usable_name(name); !named) return named.error();
  const auto state = query_interface(name);
  if (!state) return state.error();
  if (!state->exists)
    return interface_error(name,
                           "does not exist in this network namespace: create it, or name one of " +
                               existing_interfaces());
  if (!state->ethernet) return interface_error(name, "is no Ethernet interface: name one that is");
  if (!state->admin_up) return interface_error(name, "is down: `ip link set " + name + " up`");
  const std::uint32_t needed = std::max(max_frame, kLeastFrame);
  if (state->mtu + kEthernet < needed)
    return interface_error(name, "has an MTU of " + std::to_string(state->mtu) +
                                     ", which is too small: " + std::to_string(needed - kEthernet) +
                                     " is needed: `ip link set " + name + " mtu " +
                                     std::to_string(needed - kEthernet) +
                                     "` at both ends, or a smaller link mtu");
  return *state;
}

Result<Fd> packet_socket(const std::string& interface) {
  // Protocol 0: it receives nothing.
  Fd fd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (fd) return fd;
  if (errno == EPERM || errno == EACCES)
    return interface_error(
        interface,
        "cannot be opened without the capability CAP_NET_RAW: run as root, or `setcap "
        "cap_net_raw+ep` the program, or AmbientCapabilities=CAP_NET_RAW in its unit");
  return interface_error(interface,
                         "cannot be opened: AF_PACKET: " + std::string(std::strerror(errno)) +
                             "; does the kernel have CONFIG_PACKET?");
}

Result<Fd> listen_to(const InterfaceState& interface, const std::vector<Mac>& macs) {
  auto fd = packet_socket(interface.name);
  if (!fd) return fd;
  const auto add = [&](unsigned short type, const Mac& address) {
    packet_mreq request{};
    request.mr_ifindex = interface.index;
    request.mr_type = type;
    request.mr_alen = static_cast<unsigned short>(address.size());
    std::memcpy(request.mr_address, address.data(), address.size());
    return ::setsockopt(fd->get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request) ==
           0;
  };
  bool added = add(PACKET_MR_MULTICAST, link::kUnknownPeer);
  for (const Mac& mac : macs)
    added = added && (mac == interface.mac || add(PACKET_MR_UNICAST, mac));
  if (added) return fd;
  return interface_error(interface.name, "refuses a further address to listen to (" +
                                             std::string(std::strerror(errno)) +
                                             "): use its own MAC, or another interface");
}

}  // namespace mtl::phy
