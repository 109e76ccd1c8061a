#include "switch/media/memif_media.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>
#include <variant>

namespace mtl::switchd {
namespace {

constexpr int kBacklog = 16;

const control::SocketKind kMemifSocket{SOCK_SEQPACKET, "memif socket", "memif.socket",
                                       "another program listens there"};

/// A name in the abstract namespace goes with its process, and no file is in its way.
Result<Fd> listen_abstract(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      ::listen(fd.get(), kBacklog) == 0) {
    return fd;
  }
  return Error{"cannot listen at the memif socket " + name + ": " + std::strerror(errno) +
               "; stop the program that has the name, or set memif.socket to another one"};
}

}  // namespace

Result<std::unique_ptr<MemifCenter>> MemifCenter::open(const std::string& name) {
  std::unique_ptr<MemifCenter> center(new MemifCenter);
  auto hub = phy::MemifHub::open(
      "mtswitchd " + name, [raw = center.get()](const std::string& at) { return raw->listen(at); },
      [raw = center.get()](const std::string& at) { raw->unlisten(at); });
  if (!hub) return hub.error();
  center->hub_ = std::move(*hub);
  return center;
}

Result<Fd> MemifCenter::listen(const std::string& socket) {
  if (socket.front() == '@') return listen_abstract(socket);
  auto made = control::ListeningSocket::open(socket, kMemifSocket);
  if (!made) return made.error();
  Fd fd(made->release());
  sockets_.push_back(std::move(*made));
  return fd;
}

void MemifCenter::unlisten(const std::string& socket) {
  std::erase_if(sockets_, [&](const auto& made) { return made.path() == socket; });
}

MemifMedia::MemifMedia(const Plan& plan, PortId first, phy::MemifHub& hub)
    : hub_(hub),
      max_frame_(plan.ports[first.value()].max_frame),
      mac_(plan.ports[first.value()].mac.value_or(Mac{})) {
  const auto& device = std::get<MemifDevice>(plan.ports[first.value()].device);
  name_ = device.socket + " id " + std::to_string(device.id);
  config_.role = device.client ? phy::MemifRole::kClient : phy::MemifRole::kServer;
  config_.socket = device.socket;
  config_.id = device.id;
  config_.secret = phy::memif_secret(device.secret);
  config_.log2_ring = static_cast<std::uint8_t>(std::countr_zero(device.ring_size));
  config_.buffer_bytes = device.buffer_size;
  config_.max_region_mib = device.max_region_mib;
}

Result<void> MemifMedia::open(phy::MbufPool& pool) {
  auto port = phy::MemifPort::create({name_, max_frame_}, pool);
  if (!port) return port.error();
  port_ = std::move(*port);
  const auto end = hub_.add(config_, *port_);
  if (!end) {
    port_.reset();
    return end.error();
  }
  end_ = *end;
  return {};
}

void MemifMedia::close() {
  if (port_ == nullptr) return;
  hub_.remove(end_);
  port_.reset();
}

}  // namespace mtl::switchd
