#include <sched.h>

#include <algorithm>
#include <fstream>

#include "link/codec.h"
#include "switch/config/node_config.h"

namespace mtl::switchd {

namespace {

Result<std::uint32_t> longest_frame(const std::string& interface) {
  std::ifstream in("/sys/class/net/" + interface + "/mtu");
  std::uint32_t mtu = 0;
  if (!(in >> mtu)) {
    return Error{"there is no interface \"" + interface +
                 "\" here; `ip link` lists those of this network namespace"};
  }
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
  host.longest_frame = longest_frame;
  return host;
}

}  // namespace mtl::switchd
