#include "control/server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <set>
#include <vector>

#include "control/session.h"
#include "control/socket_path.h"

namespace mtl::control {
namespace {

using boost::asio::local::stream_protocol;
using boost::system::error_code;

/// Before the next accept() when it failed, out of descriptors most likely.
constexpr std::chrono::milliseconds kAcceptPause{100};

/// The socket's mode keeps others out already; this holds also where somebody widened it.
bool allowed(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(boost::asio::io_context& io, Target& target, ListeningSocket listening,
       const ServerLimits& limits)
      : target_(target),
        limits_(limits),
        listening_(std::move(listening)),
        acceptor_(io, stream_protocol(), listening_.release()),
        pause_(io) {}

  void accept() {
    acceptor_.async_accept([self = shared_from_this()](error_code error, Session::Socket socket) {
      if (self->closed_) return;
      if (error) return self->accept_later();
      self->accepted(std::move(socket));
      self->accept();
    });
  }

  void close() {
    if (std::exchange(closed_, true)) return;
    listening_.remove();
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel(ignored);
    while (!sessions_.empty()) (*sessions_.begin())->close();
  }

  void end_slot(PortId port) {
    const std::vector<std::shared_ptr<Session>> all(sessions_.begin(), sessions_.end());
    for (const auto& session : all) session->end_slot(port);
  }

  std::size_t connections() const { return sessions_.size(); }
  std::size_t queued_bytes() const {
    std::size_t bytes = 0;
    for (const auto& session : sessions_) bytes += session->queued_bytes();
    return bytes;
  }

 private:
  void accept_later() {
    pause_.expires_after(kAcceptPause);
    pause_.async_wait([self = shared_from_this()](error_code error) {
      if (!error && !self->closed_) self->accept();
    });
  }

  void accepted(Session::Socket socket) {
    const bool full = sessions_.size() >= limits_.connections;
    const bool stranger = !allowed(socket.native_handle());
    // One over the limit may stay while its refusal is written; it is closed at once if that
    // blocks.
    auto session =
        std::make_shared<Session>(std::move(socket), target_, limits_,
                                  [weak = weak_from_this()](const std::shared_ptr<Session>& ended) {
                                    if (const auto self = weak.lock()) self->sessions_.erase(ended);
                                  });
    sessions_.insert(session);
    if (full) {
      session->refuse(
          fmt::format("{} connections to mtswitchd are open, no more are taken: close one",
                      limits_.connections));
      session->close();
    } else if (stranger) {
      session->refuse("only the user of mtswitchd and root may use its control socket");
      session->close();
    } else {
      session->start();
    }
  }

  Target& target_;
  ServerLimits limits_;
  ListeningSocket listening_;
  stream_protocol::acceptor acceptor_;
  boost::asio::steady_timer pause_;
  std::set<std::shared_ptr<Session>> sessions_;
  bool closed_ = false;
};

std::unique_ptr<Server> Server::serve(boost::asio::io_context& io, Target& target,
                                      ListeningSocket socket, const ServerLimits& limits) {
  auto impl = std::make_shared<Impl>(io, target, std::move(socket), limits);
  impl->accept();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() {
  close();
}
void Server::close() {
  impl_->close();
}
void Server::end_slot(PortId port) {
  impl_->end_slot(port);
}
std::size_t Server::connections() const {
  return impl_->connections();
}
std::size_t Server::queued_bytes() const {
  return impl_->queued_bytes();
}

}  // namespace mtl::control
