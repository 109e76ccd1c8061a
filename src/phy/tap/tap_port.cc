#include "phy/tap/tap_port.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/byte_order.h"
#include "link/codec.h"
#include "phy/dpdk/interface.h"

namespace mtl::phy {
namespace {

constexpr const char* kDevice = "/dev/net/tun";
constexpr std::uint32_t kEthernet = link::kEthernetHeader;
constexpr std::uint32_t kTag = link::kVlanTag;

Error fault_of(const TapConfig& config, const std::string& what) {
  return interface_error(config.interface, what);
}

ifreq request_for(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

Result<Fd> open_device(const TapConfig& config) {
  Fd fd(::open(kDevice, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (fd) return fd;
  const std::string why = std::string(kDevice) + " (" + std::strerror(errno) + ")";
  if (errno == EACCES || errno == EPERM)
    return fault_of(config, "cannot be opened: no right to use " + why +
                                ": DeviceAllow=/dev/net/tun rw in its unit, or `chmod a+rw`, which "
                                "is the usual");
  return fault_of(config, "cannot be opened: there is no " + why +
                              ": `modprobe tun`, or pass the device to the container");
}

Error refused(const TapConfig& config, int error) {
  switch (error) {
    case EPERM:
    case EACCES:
      return fault_of(
          config,
          "cannot be made without the capability CAP_NET_ADMIN: run as root, or `setcap "
          "cap_net_admin+ep` the program, or AmbientCapabilities=CAP_NET_ADMIN in its "
          "unit; or have it made: `ip tuntap add dev " +
              config.interface + " mode tap user NAME`");
    case EBUSY:
      return fault_of(config, "is used by another program: end that, or take another name");
    case EINVAL:
      return fault_of(config,
                      "exists and is no TAP interface, or one made with multi_queue: take another "
                      "name, or make it without");
    default:
      return fault_of(config,
                      "cannot be made: " + std::string(std::strerror(error)) + "; see `dmesg`");
  }
}

/// Whether this process may make interfaces, and use those of others. The kernel says so when it
/// is asked for one of no kind, which it refuses in any case.
bool may_administer(int fd) {
  ifreq request{};
  request.ifr_flags = static_cast<short>(IFF_NO_PI);
  return ::ioctl(fd, TUNSETIFF, &request) == 0 || (errno != EPERM && errno != EACCES);
}

bool has_group(gid_t group) {
  if (group == ::getegid()) return true;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int n = ::getgroups(static_cast<int>(groups.size()), groups.data());
  if (n < 0) return false;
  groups.resize(static_cast<std::size_t>(n));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

/// Why TUNSETIFF would refuse the interface that is there, by its rules; 0: nothing is known.
int why_refused(const InterfaceState& state, int fd) {
  if (!state.tun || !state.tun->tap || state.tun->multi_queue) return EINVAL;
  const bool ours = (!state.tun->owner || *state.tun->owner == ::geteuid()) &&
                    (!state.tun->group || has_group(*state.tun->group));
  if (!ours && !may_administer(fd)) return EPERM;
  return state.lower_up ? EBUSY : 0;  // it has carrier as long as a program has it open
}

/// Makes the interface, or takes the one that is there.
Result<Fd> attach(const TapConfig& config) {
  auto fd = open_device(config);
  if (!fd) return fd;
  ifreq request = request_for(config.interface);
  // Without the filter that a former user of an operator's interface left on it.
  request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_NOFILTER);
  if (::ioctl(fd->get(), TUNSETIFF, &request) != 0) return refused(config, errno);
  return fd;
}

/// What comes to us of all that the host sends on the interface: our EtherType, without or with a
/// tag, to one of our addresses or to a group. The kernel's own (IPv6, ARP) and what a bridge
/// floods for others stays there.
std::vector<sock_filter> filter(const TapConfig& config) {
  const sock_filter refuse = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_filter accept = BPF_STMT(BPF_RET | BPF_K, 0x40000);
  std::vector<sock_filter> code{
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, config.ether_type, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x8100, 0, 2),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 16),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, config.ether_type, 1, 0),
      refuse,
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1, 0, 1),
      accept,
  };
  for (const Mac& mac : config.macs) {
    code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, load32(mac.data()), 0, 3));
    code.push_back(BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, load16(mac.data() + 4), 0, 1));
    code.push_back(accept);
  }
  code.push_back(refuse);
  return code;
}

/// Sets MTU and state of an interface of our own.
Result<void> configure(const TapConfig& config) {
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = request_for(config.interface);
  request.ifr_mtu = static_cast<int>(config.max_frame - kEthernet);
  if (::ioctl(fd.get(), SIOCSIFMTU, &request) != 0) return refused(config, errno);
  request = request_for(config.interface);
  if (::ioctl(fd.get(), SIOCGIFFLAGS, &request) != 0) return refused(config, errno);
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
  if (::ioctl(fd.get(), SIOCSIFFLAGS, &request) != 0) return refused(config, errno);
  return {};
}

}  // namespace

std::uint32_t TapPlan::pool_room() const {
  return config.max_frame + kTag + 1;
}

Result<TapPlan> plan_tap(const TapConfig& config) {
  TapPlan plan;
  plan.config = config;
  const auto state = query_interface(config.interface);
  if (!state) return state.error();
  plan.ours = !state->exists;
  if (!plan.ours) {
    const auto usable = usable_interface(config.interface, config.max_frame);
    if (!usable) return usable.error();
  } else if (auto named = usable_name(config.interface); !named) {
    return named.error();
  }
  // Not by trying: an interface that is there for a moment only is noticed by others.
  const auto fd = open_device(config);
  if (!fd) return fd.error();
  const int why =
      plan.ours ? (may_administer(fd->get()) ? 0 : EPERM) : why_refused(*state, fd->get());
  if (why != 0) return refused(config, why);
  return plan;
}

Result<std::unique_ptr<TapPort>> TapPort::open(const TapPlan& plan, BufferPool& pool) {
  const std::uint32_t needed = plan.pool_room();
  if (pool.room() < needed)
    return fault_of(plan.config, "needs buffers of " + std::to_string(needed) +
                                     " bytes and the pool's have " + std::to_string(pool.room()) +
                                     ": make them larger, or the link's mtu smaller");
  auto fd = attach(plan.config);
  if (!fd) return fd.error();
  std::unique_ptr<TapPort> port(new TapPort(plan, pool, std::move(*fd)));
  if (auto set = port->set_up(); !set) return set.error();
  return port;
}

TapPort::TapPort(const TapPlan& plan, BufferPool& pool, Fd fd)
    : plan_(plan), pool_(pool), fd_(std::move(fd)), frame_(plan.config.max_frame + kTag) {
  traits_.driver = "tap";
  traits_.device = plan.config.interface;
  traits_.max_frame = plan.config.max_frame;
  traits_.knows_carrier = true;
  traits_.wake_fd = fd_.get();
}

TapPort::~TapPort() {
  // An operator's interface would hand its filter on to its next user.
  sock_fprog none{};
  ::ioctl(fd_.get(), TUNDETACHFILTER, &none);
}

Result<void> TapPort::set_up() {
  const TapConfig& config = plan_.config;
  std::vector<sock_filter> code = filter(config);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (::ioctl(fd_.get(), TUNATTACHFILTER, &program) != 0) return refused(config, errno);
  if (plan_.ours) {
    if (auto done = configure(config); !done) return done;
  }
  const auto state = query_interface(config.interface);
  if (!state) return state.error();
  index_ = state->index;
  limit_ = config.max_frame;
  follow_interface(*state);
  return {};
}

unsigned TapPort::receive(std::span<Buffer*> out) {
  unsigned taken = 0;
  std::uint64_t bytes = 0;
  const std::size_t want = std::min<std::size_t>(out.size(), kBurst);
  while (taken < want) {
    Buffer* buffer = pool_.take();
    if (buffer == nullptr) break;  // the frames wait in the interface's queue
    // One byte more than a frame may have, so that a longer one shows.
    const std::size_t most = std::min<std::size_t>(buffer->tailroom, limit_ + kTag + 1);
    const ssize_t got = ::read(fd_.get(), buffer->data, most);
    if (got <= 0) {
      pool_.give(buffer);
      break;
    }
    if (static_cast<std::size_t>(got) == most) {
      counters_.drops.add(Drop::kTooLong);
      pool_.give(buffer);
      break;
    }
    buffer->length = static_cast<std::uint32_t>(got);
    buffer->tailroom -= buffer->length;
    bytes += buffer->length;
    out[taken++] = buffer;
  }
  counters_.frames_in.add(taken);
  counters_.bytes_in.add(bytes);
  return taken;
}

bool TapPort::send(const link::FrameOut& frame) {
  const std::uint32_t length = frame.length();
  if (length - frame.tag_length > limit_.load(std::memory_order_relaxed)) {
    counters_.drops.add(Drop::kTooLong);
    return false;
  }
  frame.write(frame_.data());
  if (::write(fd_.get(), frame_.data(), length) != static_cast<ssize_t>(length)) {
    counters_.drops.add(Drop::kNotSent);
    return false;
  }
  counters_.frames_out.add();
  counters_.bytes_out.add(length);
  return true;
}

bool TapPort::arm() {
  pollfd poll_in{fd_.get(), POLLIN, 0};
  return ::poll(&poll_in, 1, 0) <= 0 || (poll_in.revents & POLLIN) == 0;
}

void TapPort::follow_interface(const InterfaceState& state) {
  if (!state.exists || state.index != index_) gone_ = true;
  if (gone_) {
    carrier_ = false;
    return;
  }
  limit_ = std::min(plan_.config.max_frame, state.mtu + kEthernet);
  carrier_ = state.carrier();
}

std::string TapPort::fault() const {
  const std::string& name = plan_.config.interface;
  if (gone_) return "TAP interface " + name + " is gone (deleted, renamed or moved)";
  const std::uint32_t limit = limit_.load(std::memory_order_relaxed);
  if (limit < plan_.config.max_frame)
    return "the MTU of interface " + name + " shrank to " + std::to_string(limit - kEthernet) +
           ", so that longer frames are refused: `ip link set " + name + " mtu " +
           std::to_string(plan_.config.max_frame - kEthernet) + "`";
  return {};
}

}  // namespace mtl::phy
