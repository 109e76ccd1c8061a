#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/framing.h"
#include "control/server.h"
#include "control/target.h"

/// One connection of the control server; private to it.
namespace mtl::control {

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Socket = boost::asio::local::stream_protocol::socket;

  /// `ended` is called once, when the session closes, from within close().
  Session(Socket socket, Target& target, const ServerLimits& limits,
          std::function<void(const std::shared_ptr<Session>&)> ended);

  void start();
  /// Answers `message` as an error and closes once it is written. Instead of start(), or later.
  void refuse(const std::string& message);
  /// Ends the connection and releases its slots. Further calls do nothing.
  void close();
  std::size_t queued_bytes() const;
  /// The slot is no more: releases it if it is held here, and closes if no other one is.
  void end_slot(PortId port);

 private:
  /// An answer on its way out; its descriptors leave with its first byte.
  struct Outgoing {
    std::string bytes;
    std::size_t sent = 0;
    std::vector<Fd> fds;
  };
  enum class More { kNo, kYes };  ///< whether further answers to the same request follow

  void wait_for_request();
  void read(std::span<char> to, std::function<void()> then);
  void read_body(std::size_t length);
  void handle();
  void dispatch(const mtlink::control::Request& request, std::vector<Fd> fds);
  /// The callback for the open call, which fills a Response from a T.
  template <class T, class Fill>
  Answer<T> answer_with(Fill fill);
  Answer<void> answer_done();
  void claim(const mtlink::control::ClaimSlot& call);
  void capture(const mtlink::control::Capture& call, Fd memory);
  void watch_tick();
  void watch_for_hangup();

  void answer_error(const std::string& message);
  void send(const mtlink::control::Response& response, std::vector<Fd> fds, More more);
  void pump();
  bool write_some(Outgoing& out);
  void drained();

  void arm(std::chrono::milliseconds after);
  void disarm();

  Socket socket_;
  Target& target_;
  ServerLimits limits_;
  std::function<void(const std::shared_ptr<Session>&)> ended_;
  boost::asio::steady_timer deadline_;  ///< of reading and writing
  boost::asio::steady_timer tick_;      ///< of a watch
  std::uint64_t armed_ = 0;             ///< which arming of deadline_ is in force
  std::array<char, kLengthBytes> length_{};
  std::string body_;
  std::vector<Fd> fds_;  ///< that came with the request being read
  std::deque<Outgoing> out_;
  std::vector<PortId> slots_;
  std::uint64_t call_ = 0;  ///< number of the call that is open, or was last
  bool call_open_ = false;
  std::optional<CaptureId> capture_;  ///< asked for by the open call
  bool reading_node_ = false;         ///< a watch has asked the target, which has not answered yet
  bool hangup_watched_ = false;
  bool write_waiting_ = false;
  bool close_when_drained_ = false;
  bool closed_ = false;
  std::chrono::milliseconds watch_interval_{0};  ///< not 0: this connection watches
};

}  // namespace mtl::control
