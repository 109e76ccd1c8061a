#include "phy/dpdk/af_packet.h"

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "link/codec.h"
#include "phy/dpdk/interface.h"

namespace mtl::phy {
namespace {

constexpr std::uint32_t kEthernet = link::kEthernetHeader;
/// Before a received frame, in a frame of the ring, the kernel puts its record: TPACKET2_HDRLEN and
/// at least 16 bytes of link header, rounded up to 16, less the Ethernet header.
constexpr std::uint32_t kReceiveOverhead =
    (TPACKET2_HDRLEN + 16 + TPACKET_ALIGNMENT - 1) / TPACKET_ALIGNMENT * TPACKET_ALIGNMENT -
    kEthernet;
/// What the driver takes for the record when it compares a ring frame with an mbuf.
constexpr std::uint32_t kDriverOverhead = TPACKET2_HDRLEN - sizeof(sockaddr_ll);
static_assert(kReceiveOverhead >= kDriverOverhead);
constexpr std::uint32_t kGrain = 128;            // frame sizes tried
constexpr std::uint32_t kMaxBlock = 256 * 1024;  // larger ones are hard to come by
constexpr std::uint32_t kMinFrames = 16;
constexpr std::uint32_t kMaxFrames = 65536;

Error fault_of(const AfPacketConfig& config, const std::string& what) {
  return interface_error(config.interface, what);
}

/// This process's packet sockets that are bound to an interface.
std::vector<int> packet_sockets(int index) {
  std::vector<int> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename().string();
    int fd = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), fd).ec != std::errc{}) continue;
    sockaddr_ll address{};
    socklen_t size = sizeof address;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        address.sll_family == AF_PACKET && address.sll_ifindex == index)
      found.push_back(fd);
  }
  return found;
}

/// The socket of `now` that is not in `before`, if there is exactly one.
int new_socket(const std::vector<int>& before, const std::vector<int>& now) {
  std::vector<int> made;
  for (const int fd : now)
    if (std::find(before.begin(), before.end(), fd) == before.end()) made.push_back(fd);
  return made.size() == 1 ? made.front() : -1;
}

/// What the socket lets in: frames of our EtherType that came from the wire and are, as a NIC would
/// have it, for this station: a bridge floods those for stations that it does not know.
std::vector<sock_filter> filter(const AfPacketPlan& plan) {
  constexpr std::uint32_t kPacketType = static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE);
  constexpr std::uint32_t kEtherTypeAt = 12;
  constexpr std::uint32_t kWhole = 0x40000;
  const sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, 0);
  // Frames that this host itself sends on the interface did not come from the peer. By filter: the
  // driver puts its socket into a fanout group, which does not know PACKET_IGNORE_OUTGOING.
  std::vector<sock_filter> code{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kPacketType),
                                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1), refuse};
  if (plan.config.ether_type) {
    code.push_back(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kEtherTypeAt));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, *plan.config.ether_type, 1, 0));
    code.push_back(refuse);
  }
  const sock_filter accept = BPF_STMT(BPF_RET | BPF_K, kWhole);
  code.push_back(BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kPacketType));
  code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OTHERHOST, 1, 0));
  code.push_back(accept);
  // By the kernel's notion it is another station's; the interface's address may have changed since
  // the peers learned it, and links may have others.
  std::vector<Mac> ours = plan.config.macs;
  ours.push_back(plan.interface.mac);
  for (const Mac& mac : ours) {
    code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, load32(mac.data()), 0, 3));
    code.push_back(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, load16(mac.data() + 4), 0, 1));
    code.push_back(accept);
  }
  code.push_back(refuse);
  return code;
}

/// Has the calling thread's attempts to change an interface's flags fail, as by a kernel that does
/// not know how: the request, and the socket on which the driver makes it, which may be denied, too
/// (RestrictAddressFamilies). Nothing if the kernel cannot do that.
void refuse_flag_changes() {
  // Arguments are 64 bits wide; the low half stands first.
  static_assert(std::endian::native == std::endian::little);
  constexpr std::uint32_t kNumber = offsetof(seccomp_data, nr);
  constexpr std::uint32_t kFirst = offsetof(seccomp_data, args[0]);
  constexpr std::uint32_t kSecond = offsetof(seccomp_data, args[1]);
  std::array<sock_filter, 9> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_ioctl, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFirst),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 3, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSecond),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SIOCSIFFLAGS, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTSUP),
  }};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

std::string devargs(const AfPacketPlan& plan) {
  static std::atomic<unsigned> serial{0};
  return "net_af_packet" + std::to_string(serial++) + ",iface=" + plan.interface.name +
         ",qdisc_bypass=1,blocksz=" + std::to_string(plan.rings.block_size) +
         ",framesz=" + std::to_string(plan.rings.frame_size) +
         ",framecnt=" + std::to_string(plan.rings.frames);
}

/// What can be behind an attach() that failed, where plan_af_packet() found nothing.
Error refused(const AfPacketPlan& plan) {
  // As net_af_packet numbers the fanout group that it puts its sockets into. The kernel lets no
  // group span two interfaces; other processes' groups in the namespace count.
  const int group = (::getpid() ^ plan.interface.index) & 0xFFFF;
  return fault_of(plan.config,
                  "was refused by net_af_packet: either fanout group " + std::to_string(group) +
                      " (process number xor interface index) is another interface's already, as "
                      "can be when two programs start together: start again, or give the "
                      "interfaces other indices (`ip link add ... index N`); or the kernel lacks "
                      "memory for rings of " +
                      std::to_string(plan.rings.memory() >> 10) + " KiB: configure fewer frames");
}

}  // namespace

std::uint32_t RingPlan::pool_room() const {
  return frame_size - kDriverOverhead;
}

std::uint64_t RingPlan::memory() const {
  const std::uint64_t blocks = frames / (block_size / frame_size);
  return 2 * blocks * std::bit_ceil(block_size);
}

RingPlan plan_rings(std::uint32_t max_frame, std::uint32_t frames) {
  const auto page = static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));
  const std::uint32_t least = (max_frame + kReceiveOverhead + kGrain - 1) / kGrain * kGrain;
  RingPlan best;
  double best_cost = 0;
  for (std::uint32_t size = least; size < least + page; size += kGrain) {
    for (std::uint32_t n = 1; n * size <= std::max(kMaxBlock, least + page); ++n) {
      if (n * size % page != 0 || n > frames) continue;
      const double cost = std::bit_ceil(n * size) / static_cast<double>(n);
      if (best.frame_size != 0 && cost >= best_cost) continue;
      best = {size, n * size, (frames + n - 1) / n * n};
      best_cost = cost;
    }
  }
  return best;
}

Result<AfPacketPlan> plan_af_packet(const AfPacketConfig& config) {
  if (config.frames < kMinFrames || config.frames > kMaxFrames)
    return fault_of(config, "cannot have rings of " + std::to_string(config.frames) +
                                " frames: from " + std::to_string(kMinFrames) + " to " +
                                std::to_string(kMaxFrames));
  const auto state = usable_interface(config.interface, config.max_frame);
  if (!state) return state.error();
  if (const auto probe = packet_socket(config.interface); !probe) return probe.error();
  AfPacketPlan plan;
  plan.config = config;
  plan.interface = *state;
  plan.max_frame = config.max_frame != 0 ? config.max_frame : state->mtu + kEthernet;
  const auto tag = static_cast<std::uint32_t>(config.tagged ? link::kVlanTag : 0);
  plan.rings = plan_rings(plan.max_frame + tag, config.frames);
  if (plan.rings.pool_room() > kMaxMbufRoom)
    return fault_of(config, "carries frames of " + std::to_string(plan.max_frame) +
                                " bytes, more than a buffer holds: set the link's mtu");
  return plan;
}

Result<std::unique_ptr<AfPacketPort>> AfPacketPort::open(const AfPacketPlan& plan, MbufPool& pool) {
  if (pool.room() < plan.rings.pool_room())
    return fault_of(plan.config, "needs buffers of " + std::to_string(plan.rings.pool_room()) +
                                     " bytes and the pool's have " + std::to_string(pool.room()) +
                                     ": make them larger, or the link's mtu smaller");
  auto addresses = listen_to(plan.interface, plan.config.macs);
  if (!addresses) return addresses.error();
  const auto before = packet_sockets(plan.interface.index);
  const auto id = attach(devargs(plan));
  if (!id) return refused(plan);
  EthdevOptions options;
  options.device = plan.interface.name;
  options.max_frame = plan.max_frame;
  options.driver_knows_carrier = false;
  options.all_multicast = false;  // the driver would change the interface for everybody, for good
  std::unique_ptr<AfPacketPort> port(
      new AfPacketPort(*id, pool, options, plan, std::move(*addresses)));
  // When a device starts, DPDK restores what it takes for its promiscuous mode: this driver clears
  // the interface's, for everybody, and fails where that needs a capability that a packet socket
  // does not (CAP_NET_ADMIN). "Not supported" is an answer that DPDK takes, so the start is made by
  // a thread that cannot do it.
  Result<void> started;
  try {
    std::thread([&] {
      refuse_flag_changes();
      started = port->start();
    }).join();
  } catch (const std::system_error& error) {
    return fault_of(plan.config, "cannot be opened: no thread for it (" +
                                     std::string(error.what()) +
                                     "): raise the limit of tasks (ulimit -u, or TasksMax= in its "
                                     "unit)");
  }
  if (!started) return started.error();
  const int fd = new_socket(before, packet_sockets(plan.interface.index));
  if (auto used = port->use_driver_socket(fd); !used) return used.error();
  // What changed since the plan was made; later changes come from the monitor.
  if (const auto now = query_interface(plan.interface.name)) port->follow_interface(*now);
  return port;
}

AfPacketPort::AfPacketPort(std::uint16_t id, MbufPool& pool, const EthdevOptions& options,
                           const AfPacketPlan& plan, Fd addresses)
    : EthdevPort(id, pool, options),
      plan_(plan),
      addresses_(std::move(addresses)),
      mtu_(plan.interface.mtu) {}

Result<void> AfPacketPort::use_driver_socket(int fd) {
  if (fd < 0) return {};
  driver_fd_ = fd;
  traits_.wake_fd = fd;
  std::vector<sock_filter> code = filter(plan_);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0) return {};
  return fault_of(plan_.config, "takes no filter for its frames (" +
                                    std::string(std::strerror(errno)) +
                                    "): with many addresses on one interface raise "
                                    "net.core.optmem_max, or give its ports none of their own");
}

bool AfPacketPort::arm() {
  if (!EthdevPort::arm()) return false;
  if (driver_fd_ < 0) return true;
  pollfd poll_in{driver_fd_, POLLIN, 0};
  if (::poll(&poll_in, 1, 0) <= 0) return true;
  if ((poll_in.revents & POLLERR) != 0) {
    // The interface went down: a pending error would make the socket readable for ever.
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(driver_fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  return (poll_in.revents & POLLIN) == 0;
}

void AfPacketPort::sample() {
  EthdevPort::sample();
  if (driver_fd_ < 0) return;
  // The kernel's count of frames for which the ring had no place; reading sets it back to 0.
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  if (::getsockopt(driver_fd_, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0)
    device_.drops.add(Drop::kNotReceived, stats.tp_drops);
}

void AfPacketPort::follow_interface(const InterfaceState& state) {
  if (!state.exists || state.index != plan_.interface.index) gone_ = true;
  if (gone_) {
    set_carrier(false);
    return;
  }
  mtu_ = state.mtu;
  // The driver blocks for more than a millisecond on a frame that the interface refuses.
  set_frame_limit(std::min(plan_.max_frame, mtu_ + kEthernet));
  set_carrier(state.carrier());
}

std::string AfPacketPort::fault() const {
  const std::string& name = plan_.interface.name;
  if (gone_) return "interface " + name + " is gone (deleted, renamed or moved): create it again";
  if (frame_limit() < plan_.max_frame)
    return "the MTU of interface " + name + " shrank to " + std::to_string(mtu_) +
           ", so that longer frames are refused: `ip link set " + name + " mtu " +
           std::to_string(plan_.max_frame - kEthernet) + "`";
  return {};
}

}  // namespace mtl::phy
