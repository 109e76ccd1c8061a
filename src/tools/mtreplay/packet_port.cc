#include "tools/mtreplay/packet_port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>

#include "base/byte_order.h"
#include "base/fd.h"
#include "link/codec.h"

namespace mtl::tools {
namespace {

constexpr int kReceiveBuffer = 8 << 20;
constexpr std::uint16_t kTag = 0x8100;         // 802.1Q
constexpr std::uint16_t kServiceTag = 0x88A8;  // 802.1ad
constexpr std::size_t kTagBytes = 4;
constexpr std::size_t kTags = 2;  ///< that one sees the frame behind

Time clock_now(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return Time{std::chrono::seconds(now.tv_sec) + Duration{now.tv_nsec}};
}

/// The kernel's time of a frame, which is by the host's calendar, by the steady clock. The
/// microseconds are nanoseconds, as asked for.
Time kernel_time(const timeval& at) {
  return Time{std::chrono::seconds(at.tv_sec) + Duration{at.tv_usec}} -
         (clock_now(CLOCK_REALTIME) - clock_now(CLOCK_MONOTONIC));
}

/// Behind any tags: a tagged frame is no frame of the link, but is one of the device.
bool has_type(std::span<const std::byte> frame, std::uint16_t ether_type) {
  for (std::size_t at = 2 * sizeof(Mac); frame.size() >= at + 2; at += kTagBytes) {
    const std::uint16_t type = load16(frame.data() + at);
    if (type == ether_type) return true;
    if (type != kTag && type != kServiceTag) return false;
  }
  return false;
}

}  // namespace

Time steady_now() {
  return clock_now(CLOCK_MONOTONIC);
}

Error PacketPort::fault(const std::string& what) const {
  return Error{fmt::format("interface {}: {}", interface_, what)};
}

Result<PacketPort> PacketPort::open(const std::string& interface, std::uint16_t ether_type) {
  if (::if_nametoindex(interface.c_str()) == 0) {
    return Error{fmt::format("interface {}: there is none; see `ip link`", interface)};
  }
  std::array<char, PCAP_ERRBUF_SIZE> why{};
  PacketPort port{::pcap_create(interface.c_str(), why.data()), interface, ether_type};
  if (!port.pcap_) return port.fault(why.data());
  pcap_t* pcap = port.pcap_.get();
  // The ring has a place of that many bytes for each frame.
  const auto longest = port.longest_frame();
  if (!longest) return longest.error();
  ::pcap_set_snaplen(pcap, static_cast<int>(*longest + kTags * kTagBytes));
  ::pcap_set_promisc(pcap, 1);
  ::pcap_set_immediate_mode(pcap, 1);
  ::pcap_set_buffer_size(pcap, kReceiveBuffer);
  const bool nanoseconds = ::pcap_set_tstamp_precision(pcap, PCAP_TSTAMP_PRECISION_NANO) == 0;
  const int active = ::pcap_activate(pcap);  // above 0: a warning
  if (active == PCAP_ERROR_PERM_DENIED) {
    return port.fault(
        "a raw socket needs CAP_NET_RAW: run as root, or `setcap cap_net_raw=ep` on mtreplay");
  }
  if (active == PCAP_ERROR_IFACE_NOT_UP) {
    return port.fault(fmt::format("is down; `ip link set dev {} up`", interface));
  }
  if (active < 0) {
    return port.fault(fmt::format("{}: {}", ::pcap_statustostr(active), ::pcap_geterr(pcap)));
  }
  if (::pcap_datalink(pcap) != DLT_EN10MB) return port.fault("is no Ethernet");
  if (!nanoseconds || ::pcap_setdirection(pcap, PCAP_D_IN) != 0 ||
      ::pcap_setnonblock(pcap, 1, why.data()) != 0 || port.fd() < 0 || !port.filter()) {
    return port.fault("cannot be listened to as needed: another libpcap, or no Linux interface");
  }
  // What the stimulus command starts may outlive us, and must not keep the interface.
  ::fcntl(port.fd(), F_SETFD, FD_CLOEXEC);
  return port;
}

/// Other traffic does not take the ring's places.
bool PacketPort::filter() {
  bpf_program program{};
  const std::string text = fmt::format("ether proto {} or vlan", ether_type_);
  if (::pcap_compile(pcap_.get(), &program, text.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
    return false;
  }
  const bool set = ::pcap_setfilter(pcap_.get(), &program) == 0;
  ::pcap_freecode(&program);
  return set;
}

Result<std::size_t> PacketPort::longest_frame() const {
  const Fd any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  interface_.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(any.get(), SIOCGIFMTU, &request) != 0) return fault(std::strerror(errno));
  return static_cast<std::size_t>(request.ifr_mtu) + link::kEthernetHeader;
}

Result<void> PacketPort::check_carrier(bool kept) {
  std::uint64_t changes = 0;
  std::ifstream(fmt::format("/sys/class/net/{}/carrier_changes", interface_)) >> changes;
  const bool changed = std::exchange(carrier_changes_, changes) != changes;
  const Fd any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  interface_.copy(request.ifr_name, IFNAMSIZ - 1);
  if (::ioctl(any.get(), SIOCGIFFLAGS, &request) != 0) return fault(std::strerror(errno));
  if ((request.ifr_flags & IFF_UP) == 0) {
    return fault(fmt::format("is down; `ip link set dev {} up`", interface_));
  }
  if ((request.ifr_flags & IFF_RUNNING) == 0) {
    return fault("has no carrier: is the cable in, and the device's side up?");
  }
  if (kept && changed) return fault("lost its carrier for a while");
  return {};
}

Result<void> PacketPort::send(std::span<const std::byte> frame) {
  if (::pcap_inject(pcap_.get(), frame.data(), frame.size()) == static_cast<int>(frame.size())) {
    return {};
  }
  return fault(fmt::format("a frame of {} bytes cannot be sent: {}", frame.size(),
                           ::pcap_geterr(pcap_.get())));
}

unsigned PacketPort::lost() const {
  pcap_stat stat{};
  return ::pcap_stats(pcap_.get(), &stat) == 0 ? stat.ps_drop : lost_;
}

Result<void> PacketPort::discard() {
  const Time now = steady_now();
  for (;;) {
    lost_ = lost();
    const auto frame = receive();
    if (!frame) return frame.error();
    if (!*frame || (*frame)->at > now) return {};
  }
}

Result<std::optional<PacketPort::Frame>> PacketPort::receive() {
  for (;;) {
    pcap_pkthdr* header = nullptr;
    const u_char* bytes = nullptr;
    const int came = ::pcap_next_ex(pcap_.get(), &header, &bytes);
    if (came < 0) return fault(::pcap_geterr(pcap_.get()));
    if (const unsigned more = lost() - lost_; more != 0) {
      return fault(fmt::format("the kernel had no room for {} frames that came in", more));
    }
    if (came == 0) return std::optional<Frame>{};
    const auto frame = std::as_bytes(std::span(bytes, header->caplen));
    if (!has_type(frame, ether_type_)) continue;
    return std::optional<Frame>{{kernel_time(header->ts), {frame.begin(), frame.end()}}};
  }
}

}  // namespace mtl::tools
