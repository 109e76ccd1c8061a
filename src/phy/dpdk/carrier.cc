#include "phy/dpdk/carrier.h"

#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

namespace mtl::phy {
namespace {

constexpr std::size_t kMessageRoom = 65536;  // a link with many virtual functions fills a lot
constexpr unsigned kLowerUp = 0x10000;       // IFF_LOWER_UP, which net/if.h does not have
constexpr int kMaxDumps = 8;                 // in one call of process()
constexpr int kAnswerTimeout = 1000;         // ms

Error netlink_error(const std::string& what, int error) {
  return Error{
      what + " over rtnetlink failed: " + std::strerror(error) +
      "; the kernel must offer AF_NETLINK to this process (sandbox, RestrictAddressFamilies)"};
}

Result<int> open_socket(unsigned groups) {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) return netlink_error("asking for interfaces", errno);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = groups;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    return netlink_error("asking for interfaces", error);
  }
  return fd;
}

struct Request {
  nlmsghdr header{};
  ifinfomsg link{};
  rtattr attribute{};
  char name[IFNAMSIZ]{};
};
static_assert(sizeof(Request) ==
              NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(ifinfomsg)) + RTA_LENGTH(IFNAMSIZ));

template <class T>
std::optional<T> value_of(const rtattr& attribute) {
  if (RTA_PAYLOAD(&attribute) != sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, RTA_DATA(&attribute), sizeof value);
  return value;
}

/// Calls `each` for the attributes in another one.
template <class Each>
void for_each_in(const rtattr& nest, const Each& each) {
  auto left = static_cast<int>(RTA_PAYLOAD(&nest));
  for (const auto* a = static_cast<const rtattr*>(RTA_DATA(&nest)); RTA_OK(a, left);
       a = RTA_NEXT(a, left)) {
    each(*a);
  }
}

/// IFLA_LINKINFO; nullopt: of another kind of interface, or by a kernel older than 4.20.
std::optional<TunState> parse_tun(const rtattr& link_info) {
  bool is_tun = false;
  const rtattr* data = nullptr;
  for_each_in(link_info, [&](const rtattr& a) {
    const auto* text = static_cast<const char*>(RTA_DATA(&a));
    if (a.rta_type == IFLA_INFO_KIND) {
      is_tun = std::string_view(text, ::strnlen(text, RTA_PAYLOAD(&a))) == "tun";
    }
    if (a.rta_type == IFLA_INFO_DATA) data = &a;
  });
  if (!is_tun || data == nullptr) return std::nullopt;
  TunState state;
  for_each_in(*data, [&](const rtattr& a) {
    if (a.rta_type == IFLA_TUN_TYPE) state.tap = value_of<std::uint8_t>(a) == IFF_TAP;
    if (a.rta_type == IFLA_TUN_MULTI_QUEUE) state.multi_queue = value_of<std::uint8_t>(a) == 1;
    if (a.rta_type == IFLA_TUN_OWNER) state.owner = value_of<std::uint32_t>(a);
    if (a.rta_type == IFLA_TUN_GROUP) state.group = value_of<std::uint32_t>(a);
  });
  return state;
}

/// A message RTM_NEWLINK, checked for its lengths; nullopt if it is not about an interface itself.
std::optional<InterfaceState> parse_link(const nlmsghdr& message) {
  if (message.nlmsg_len < NLMSG_LENGTH(sizeof(ifinfomsg))) return std::nullopt;
  const auto* link = static_cast<const ifinfomsg*>(NLMSG_DATA(&message));
  // A bridge tells of its members by messages of its own family: not of the interface's life.
  if (link->ifi_family != AF_UNSPEC) return std::nullopt;
  InterfaceState state;
  state.exists = message.nlmsg_type == RTM_NEWLINK;
  state.index = link->ifi_index;
  state.ethernet = link->ifi_type == ARPHRD_ETHER;
  state.admin_up = (link->ifi_flags & IFF_UP) != 0;
  state.lower_up = (link->ifi_flags & kLowerUp) != 0;
  auto left = static_cast<int>(message.nlmsg_len - NLMSG_LENGTH(sizeof(ifinfomsg)));
  for (const rtattr* a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
    const auto* payload = static_cast<const char*>(RTA_DATA(a));
    const std::size_t size = RTA_PAYLOAD(a);
    if (a->rta_type == IFLA_IFNAME) {
      state.name.assign(payload, ::strnlen(payload, size));
    } else if (a->rta_type == IFLA_MTU && size == sizeof state.mtu) {
      std::memcpy(&state.mtu, payload, size);
    } else if (a->rta_type == IFLA_ADDRESS && size == state.mac.size()) {
      std::memcpy(state.mac.data(), payload, size);
    } else if (a->rta_type == IFLA_LINKINFO) {
      state.tun = parse_tun(*a);
    }
  }
  return state;
}

}  // namespace

Result<InterfaceState> query_interface(const std::string& name) {
  InterfaceState state;
  state.name = name;
  if (name.empty() || name.size() >= IFNAMSIZ) return state;
  const auto fd = open_socket(0);
  if (!fd) return fd.error();
  Request request;
  request.header = {sizeof request, RTM_GETLINK, NLM_F_REQUEST, 0, 0};
  request.attribute = {RTA_LENGTH(IFNAMSIZ), IFLA_IFNAME};
  name.copy(request.name, IFNAMSIZ - 1);
  std::vector<std::byte> buffer(kMessageRoom);
  ssize_t got = ::send(*fd, &request, sizeof request, 0);
  pollfd wait{*fd, POLLIN, 0};
  if (got >= 0 && ::poll(&wait, 1, kAnswerTimeout) == 1) {
    got = ::recv(*fd, buffer.data(), buffer.size(), 0);
  } else if (got >= 0) {
    got = -1;
    errno = ETIMEDOUT;
  }
  const int error = errno;
  ::close(*fd);
  if (got < static_cast<ssize_t>(sizeof(nlmsghdr)))
    return netlink_error("asking for interface " + name, got < 0 ? error : EBADMSG);
  const auto* message = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (!NLMSG_OK(message, static_cast<std::size_t>(got)))
    return netlink_error("asking for interface " + name, EBADMSG);
  if (message->nlmsg_type == NLMSG_ERROR) {
    const int code = -static_cast<const nlmsgerr*>(NLMSG_DATA(message))->error;
    if (code == ENODEV) return state;
    return netlink_error("asking for interface " + name, code);
  }
  const auto parsed = parse_link(*message);
  if (!parsed) return netlink_error("asking for interface " + name, EBADMSG);
  // The kernel also answers to alternative names; a port is opened, and followed, by the name
  // proper.
  return parsed->name == name ? *parsed : state;
}

CarrierMonitor::CarrierMonitor(int fd, Handler handler)
    : fd_(fd), handler_(std::move(handler)), buffer_(kMessageRoom) {}

CarrierMonitor::~CarrierMonitor() {
  ::close(fd_);
}

Result<std::unique_ptr<CarrierMonitor>> CarrierMonitor::open(Handler handler, int receive_buffer) {
  const auto fd = open_socket(RTMGRP_LINK);
  if (!fd) return fd.error();
  std::unique_ptr<CarrierMonitor> monitor(new CarrierMonitor(*fd, std::move(handler)));
  if (receive_buffer > 0)
    ::setsockopt(*fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  return monitor;
}

void CarrierMonitor::watch(const std::string& name) {
  unwatch(name);
  Watched watched;
  watched.state.name = name;
  watched_.push_back(watched);
  // A running dump may be past this interface already: another one follows it.
  dump_again_ = true;
  if (!dumping_) (void)request_dump();  // a broken socket shows in process()
}

void CarrierMonitor::unwatch(std::string_view name) {
  std::erase_if(watched_, [&](const Watched& w) { return w.state.name == name; });
}

Result<void> CarrierMonitor::request_dump() {
  Request request;
  request.header = {NLMSG_LENGTH(sizeof(ifinfomsg)), RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 0, 0};
  if (::send(fd_, &request, request.header.nlmsg_len, 0) < 0)
    return netlink_error("asking for all interfaces", errno);
  dumping_ = true;
  dump_again_ = false;
  for (Watched& watched : watched_) watched.seen = false;
  return {};
}

void CarrierMonitor::finish_dump() {
  dumping_ = false;
  if (dump_again_) return;  // something is missing in this one
  for (Watched& watched : watched_) {
    if (watched.seen) continue;
    InterfaceState gone;
    gone.name = watched.state.name;
    report(watched, gone);
  }
}

void CarrierMonitor::report(Watched& watched, const InterfaceState& now) {
  watched.seen = true;
  if (watched.known && watched.state == now) return;
  watched.known = true;
  watched.state = now;
  changes_.push_back(now);
}

void CarrierMonitor::link_is(const InterfaceState& now) {
  for (Watched& watched : watched_) {
    if (watched.state.name == now.name) {
      report(watched, now);
    } else if (watched.state.exists && watched.state.index == now.index) {
      InterfaceState renamed_away;
      renamed_away.name = watched.state.name;
      report(watched, renamed_away);
    }
  }
}

void CarrierMonitor::link_gone(int index) {
  for (Watched& watched : watched_) {
    if (!watched.state.exists || watched.state.index != index) continue;
    InterfaceState gone;
    gone.name = watched.state.name;
    report(watched, gone);
  }
}

void CarrierMonitor::handle(const nlmsghdr& message) {
  // The interfaces changed while the kernel listed them: some may be missing.
  if ((message.nlmsg_flags & NLM_F_DUMP_INTR) != 0) dump_again_ = true;
  switch (message.nlmsg_type) {
    case NLMSG_DONE:
      finish_dump();
      break;
    case NLMSG_ERROR:
      // The kernel could not list them now (no memory, or another list is still running).
      dumping_ = false;
      dump_again_ = true;
      break;
    case RTM_NEWLINK:
      if (const auto state = parse_link(message)) link_is(*state);
      break;
    case RTM_DELLINK:
      if (const auto state = parse_link(message)) link_gone(state->index);
      break;
    default:
      break;
  }
}

void CarrierMonitor::report_changes() {
  std::vector<InterfaceState> changes;
  changes.swap(changes_);
  for (const InterfaceState& state : changes) handler_(state);
}

ssize_t CarrierMonitor::next_datagram() {
  sockaddr_nl from{};
  iovec piece{buffer_.data(), buffer_.size()};
  msghdr message{};
  message.msg_name = &from;
  message.msg_namelen = sizeof from;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  ssize_t got = 0;
  do {
    got = ::recvmsg(fd_, &message, 0);
  } while (got < 0 && errno == EINTR);
  if ((got < 0 && errno == ENOBUFS) || (got >= 0 && (message.msg_flags & MSG_TRUNC) != 0)) {
    ++overflows_;
    dump_again_ = true;
    return 0;
  }
  return got > 0 && from.nl_pid != 0 ? 0 : got;  // only what the kernel says counts
}

Result<void> CarrierMonitor::process() {
  Result<void> result;
  for (int dumps = 0;;) {
    const ssize_t got = next_datagram();
    if (got >= 0) {
      auto left = static_cast<std::size_t>(got);
      for (const auto* m = reinterpret_cast<const nlmsghdr*>(buffer_.data()); NLMSG_OK(m, left);
           m = NLMSG_NEXT(m, left))
        handle(*m);
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      result = netlink_error("following the interfaces", errno);
      break;
    }
    // Only now that the queue is empty does the kernel have room for a list.
    if (!dump_again_ || dumping_ || ++dumps > kMaxDumps) break;
    if (result = request_dump(); !result) break;
  }
  report_changes();
  return result;
}

}  // namespace mtl::phy
