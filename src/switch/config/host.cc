#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "link/codec.h"
#include "switch/config/node_config.h"

namespace mtl::switchd {

namespace {

// Asked of a socket, not of /sys: that shows the network namespace it was mounted in, which need
// not be ours.
Result<std::uint32_t> longest_frame(const std::string& interface) {
  ifreq request{};
  const Error missing{"there is no interface \"" + interface +
                      "\" here; `ip link` lists those of this network namespace"};
  if (interface.size() >= sizeof request.ifr_name) return missing;
  std::memcpy(request.ifr_name, interface.data(), interface.size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool known = fd >= 0 && ::ioctl(fd, SIOCGIFMTU, &request) == 0;
  if (fd >= 0) ::close(fd);
  if (!known) return missing;
  const auto mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  // The loopback's 65536 and the like: no frame of ours is longer than kMaxMtu needs.
  return std::min(mtu, kMaxMtu + 16) + static_cast<std::uint32_t>(link::kEthernetHeader);
}

}  // namespace

Host this_host() {
  Host host;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) host.cpus.push_back(cpu);
    }
  }
  struct sysinfo system {};
  if (::sysinfo(&system) == 0) {
    host.memory_mib = (std::uint64_t{system.totalram} * system.mem_unit) >> 20;
  }
  host.longest_frame = longest_frame;
  return host;
}

}  // namespace mtl::switchd
