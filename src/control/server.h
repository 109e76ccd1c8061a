#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/ids.h"
#include "base/result.h"
#include "control/socket_path.h"
#include "control/target.h"

namespace boost::asio {
class io_context;
}

namespace mtl::control {

/// Bounds on what the users of the control socket can make the server hold.
struct ServerLimits {
  /// Connections open at once; a slot that is claimed holds one, so give a daemon 64 plus its
  /// slots.
  std::size_t connections = 64;
  /// A request that has begun must be complete after so long.
  std::chrono::milliseconds message_time{10'000};
  /// A connection that holds no slot and asks nothing for so long is closed.
  std::chrono::milliseconds idle_time{600'000};
  /// A peer that reads nothing for so long while an answer waits is closed.
  std::chrono::milliseconds write_time{10'000};
};

/// The control API (proto/mtlink/control.proto) on a Unix stream socket that its owner and root
/// alone can open. Requests of a connection are answered one after the other; nothing a connection
/// does harms another or the daemon: what is malformed is answered with an error and ends that
/// connection.
///
/// Memory is bounded: per connection one request and its answers. A watch whose reader is slow
/// misses readings, which are never queued behind one another. One thread: that of the io_context.
class Server {
 public:
  /// Serves whoever connects to `socket`, also those who have done so already. `io` and `target`
  /// outlive the server.
  static std::unique_ptr<Server> serve(boost::asio::io_context& io, Target& target,
                                       ListeningSocket socket, const ServerLimits& limits = {});
  /// As close().
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Removes the socket, ends every connection, releases their slots. Answers of the Target that
  /// come later do nothing, but a slot granted later is released at once.
  void close();
  /// The slot is no more: releases it, and ends the connection that held it and no other.
  void end_slot(PortId port);
  /// Connections open now.
  std::size_t connections() const;
  /// Bytes of answers that wait for their readers, over all connections.
  std::size_t queued_bytes() const;

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace mtl::control
