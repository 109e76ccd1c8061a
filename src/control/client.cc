#include "control/client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "control/passed_fds.h"
#include "control/socket_address.h"

namespace mtl::control {

using mtlink::control::Request;
using mtlink::control::Response;

namespace {

Error connect_error(const std::string& path, int error) {
  switch (error) {
    case ENOENT:
      return Error{fmt::format("no mtswitchd at {}: start it, or name its socket", path)};
    case ECONNREFUSED:
      return Error{
          fmt::format("nobody listens on {}: start mtswitchd again, or name its socket", path)};
    case EACCES:
    case EPERM:
      return Error{fmt::format("not allowed to use {}: be the user of mtswitchd, or root", path)};
    case EAGAIN:
      return Error{
          fmt::format("mtswitchd at {} does not take connections: see whether it hangs", path)};
    default:
      return Error{fmt::format("cannot connect to {}: {}; see whether mtswitchd listens there",
                               path, std::strerror(error))};
  }
}

}  // namespace

Result<Client> Client::connect(const std::string& path, Milliseconds timeout) {
  const auto address = socket_address(path);
  if (!address) return address.error();
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return connect_error(path, errno);
  // connect() waits while the daemon's backlog is full, for so long (many endpoints may start at
  // once).
  const timeval limit{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0)
    return connect_error(path, errno);
  return Client(path, std::move(fd));
}

Result<Response> Client::call(const Request& request, Milliseconds timeout) {
  return call_with({}, request, timeout);
}

Result<Response> Client::call_with(std::span<const Fd> fds, const Request& request,
                                   Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto bytes = frame(request, kMaxRequest);
  if (!bytes) return bytes.error();
  received_.clear();
  if (const auto sent = send_all(*bytes, fds, deadline); !sent) {
    // A server that refuses the connection says why before it closes.
    if (fd_ && gone())
      if (auto why = receive_until(deadline); !why) return why.error();
    return broken(sent.error().message);
  }
  return receive_until(deadline);
}

Result<Response> Client::receive(Milliseconds timeout) {
  received_.clear();
  return receive_until(std::chrono::steady_clock::now() + timeout);
}

Result<Response> Client::receive_until(Deadline deadline) {
  std::array<char, kLengthBytes> header{};
  if (const auto read = read_exactly(header.data(), header.size(), deadline); !read)
    return broken(read.error().message);
  const std::size_t length = frame_length(header.data());
  if (length > kMaxResponse)
    return broken(
        fmt::format("mtswitchd at {} announces an answer of {} bytes, at most {} are taken: is it "
                    "an mtswitchd?",
                    path_, length, kMaxResponse));
  std::string body(length, '\0');
  if (const auto read = read_exactly(body.data(), body.size(), deadline); !read)
    return broken(read.error().message);
  Response response;
  if (!response.ParseFromString(body))
    return broken(
        fmt::format("the answer of mtswitchd at {} cannot be read: is it of our version?", path_));
  if (!response.error().empty()) return Error{response.error()};
  return response;
}

Result<SlotLease> Client::claim_slot(const mtlink::control::ClaimSlot& claim,
                                     Milliseconds timeout) {
  Request request;
  *request.mutable_claim_slot() = claim;
  auto response = call(request, timeout);
  if (!response) return response.error();
  auto fds = std::exchange(received_, {});
  if (!response->has_slot() || fds.size() != kGrantFds)
    return broken(fmt::format(
        "mtswitchd at {} granted a slot with {} descriptors instead of {}: is it of our "
        "version?",
        path_, fds.size(), kGrantFds));
  return SlotLease{std::move(*response->mutable_slot()), std::move(fds[0]), std::move(fds[1])};
}

Result<mtlink::control::CaptureGrant> Client::capture(const mtlink::control::Capture& call,
                                                      const Fd& memory, Milliseconds timeout) {
  Request request;
  *request.mutable_capture() = call;
  auto response = call_with({&memory, 1}, request, timeout);
  if (!response) return response.error();
  if (!response->has_capture())
    return broken(fmt::format(
        "the answer of mtswitchd at {} grants no capture: is it of our version?", path_));
  return std::move(*response->mutable_capture());
}

bool Client::gone() const {
  if (!fd_) return true;
  pollfd entry{fd_.get(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Error Client::broken(const std::string& what) {
  fd_.reset();
  received_.clear();
  return Error{what};
}

Result<void> Client::wait(short events, Deadline deadline) {
  if (!fd_)
    return Error{fmt::format("the connection to mtswitchd at {} has ended: connect again", path_)};
  for (;;) {
    const auto left =
        std::chrono::ceil<Milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0)
      return Error{fmt::format(
          "mtswitchd at {} did not answer in time: see its log, and whether it hangs", path_)};
    pollfd entry{fd_.get(), events, 0};
    const int most = std::numeric_limits<int>::max();
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<decltype(left)>(left, most)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR)
      return Error{fmt::format("cannot wait for mtswitchd at {}: {}", path_, std::strerror(errno))};
  }
}

Result<void> Client::send_all(const std::string& bytes, std::span<const Fd> fds,
                              Deadline deadline) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    if (const auto ready = wait(POLLOUT, deadline); !ready) return ready;
    const ssize_t n = send_with_fds(fd_.get(), std::span(bytes).subspan(sent),
                                    sent == 0 ? fds : std::span<const Fd>());
    if (n > 0) sent += static_cast<std::size_t>(n);
    if (n < 0 && errno != EAGAIN)
      return Error{
          fmt::format("mtswitchd at {} went away: {}; see its log", path_, std::strerror(errno))};
  }
  return {};
}

Result<void> Client::read_exactly(char* to, std::size_t count, Deadline deadline) {
  for (std::size_t got = 0; got < count;) {
    if (const auto ready = wait(POLLIN, deadline); !ready) return ready;
    const ssize_t n = receive_with_fds(fd_.get(), {to + got, count - got}, received_);
    if (n < 0 && errno == EAGAIN) continue;
    if (n <= 0)
      return Error{fmt::format("mtswitchd at {} ended the connection{}{}; see its log", path_,
                               n < 0 ? ": " : "", n < 0 ? std::strerror(errno) : "")};
    got += static_cast<std::size_t>(n);
  }
  return {};
}

}  // namespace mtl::control
