#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "control/framing.h"
#include "mtlink/control.pb.h"

namespace mtl::control {

/// What a claimed slot gives the process; the slot is held while the client's connection lives.
struct SlotLease {
  mtlink::control::SlotGrant grant;
  Fd memory;    ///< memfd with both rings
  Fd doorbell;  ///< the process's end of the doorbell (a socket pair)
};

/// A blocking client of the control API, for mtctl and for endpoints: plain socket calls, no
/// thread, no Asio. Not thread safe. After an Error that broke the framing (a timeout, the daemon
/// gone) the connection is closed and every further call fails; an error answer of the daemon
/// leaves it usable.
class Client {
 public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds kDefaultTimeout{10'000};

  /// Errors: no daemon at `path`, a stale socket, not allowed, `timeout` over before the daemon
  /// took it.
  static Result<Client> connect(const std::string& path, Milliseconds timeout = kDefaultTimeout);

  /// Sends a request and waits for its (first) answer. An answer with `error` comes as an Error.
  Result<mtlink::control::Response> call(const mtlink::control::Request& request,
                                         Milliseconds timeout = kDefaultTimeout);
  /// The next answer of a Trace or a Watch.
  Result<mtlink::control::Response> receive(Milliseconds timeout = kDefaultTimeout);
  /// Claims a slot; descriptors included. Error also if the daemon sent not just two descriptors.
  Result<SlotLease> claim_slot(const mtlink::control::ClaimSlot& claim,
                               Milliseconds timeout = kDefaultTimeout);
  /// Begins a capture into `memory`, a capture::Segment; it ends with the connection, which is then
  /// in use.
  Result<mtlink::control::CaptureGrant> capture(const mtlink::control::Capture& call,
                                                const Fd& memory,
                                                Milliseconds timeout = kDefaultTimeout);

  /// For poll(): POLLIN or POLLHUP when the daemon went away (or an answer came). -1 once closed.
  int fd() const { return fd_.get(); }
  /// Whether the daemon has ended the connection. Never waits; to be asked between calls.
  bool gone() const;
  /// Ends the connection, and with it what was had by it.
  void close() { fd_.reset(); }

 private:
  Client(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  using Deadline = std::chrono::steady_clock::time_point;

  Result<mtlink::control::Response> call_with(std::span<const Fd> fds,
                                              const mtlink::control::Request& request,
                                              Milliseconds timeout);
  Result<void> send_all(const std::string& bytes, std::span<const Fd> fds, Deadline deadline);
  Result<void> read_exactly(char* to, std::size_t count, Deadline deadline);
  Result<void> wait(short events, Deadline deadline);
  Result<mtlink::control::Response> receive_until(Deadline deadline);
  Error broken(const std::string& what);

  std::string path_;
  Fd fd_;
  std::vector<Fd> received_;  ///< descriptors that came with the answer being read
};

}  // namespace mtl::control
