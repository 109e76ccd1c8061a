#include "control/session.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <cerrno>
#include <utility>

#include "control/passed_fds.h"
#include "control/request_check.h"

namespace mtl::control {

using boost::system::error_code;
using mtlink::control::Request;
using mtlink::control::Response;

Session::Session(Socket socket, Target& target, const ServerLimits& limits,
                 std::function<void(const std::shared_ptr<Session>&)> ended)
    : socket_(std::move(socket)),
      target_(target),
      limits_(limits),
      ended_(std::move(ended)),
      deadline_(socket_.get_executor()),
      tick_(socket_.get_executor()) {}

void Session::start() {
  wait_for_request();
}

void Session::refuse(const std::string& message) {
  close_when_drained_ = true;
  answer_error(message);
}

void Session::close() {
  if (closed_) return;
  closed_ = true;
  const auto self = shared_from_this();  // `ended_` lets go of us
  error_code ignored;
  deadline_.cancel(ignored);
  tick_.cancel(ignored);
  socket_.close(ignored);
  out_.clear();
  for (const PortId port : std::exchange(slots_, {})) target_.slot_released(port);
  if (const auto capture = std::exchange(capture_, std::nullopt)) target_.capture_ended(*capture);
  std::exchange(ended_, nullptr)(self);
}

void Session::end_slot(PortId port) {
  if (std::erase(slots_, port) == 0) return;
  target_.slot_released(port);
  if (slots_.empty()) close();
}

std::size_t Session::queued_bytes() const {
  std::size_t bytes = 0;
  for (const auto& out : out_) bytes += out.bytes.size() - out.sent;
  return bytes;
}

// ---- reading

void Session::wait_for_request() {
  // Who holds a slot may be silent for as long as it lives.
  if (slots_.empty()) arm(limits_.idle_time);
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code error) {
    if (error || self->closed_) return self->close();
    self->arm(self->limits_.message_time);
    self->read(self->length_,
               [raw = self.get()] { raw->read_body(frame_length(raw->length_.data())); });
  });
}

/// Fills `to`, then goes on with `then`, of which we outlive the call. Not by Asio, which would
/// lose the descriptors.
void Session::read(std::span<char> to, std::function<void()> then) {
  while (!to.empty()) {
    const ssize_t n = receive_with_fds(socket_.native_handle(), to, fds_);
    if (n > 0) {
      to = to.subspan(static_cast<std::size_t>(n));
      continue;
    }
    if (n == 0 || errno != EAGAIN) return close();
    return socket_.async_wait(Socket::wait_read, [self = shared_from_this(), to,
                                                  then = std::move(then)](error_code error) {
      if (error || self->closed_) return self->close();
      self->read(to, then);
    });
  }
  then();
}

void Session::read_body(std::size_t length) {
  if (length > kMaxRequest)
    return refuse(fmt::format("a request of {} bytes was announced, at most {} are taken", length,
                              kMaxRequest));
  body_.resize(length);
  read(body_, [this] {
    disarm();
    handle();
  });
}

void Session::handle() {
  Request request;
  bool parsed = false;
  {
    const google::protobuf::LogSilencer silent;  // what a peer sends wrong is answered, not logged
    parsed = request.ParseFromString(body_);
  }
  body_ = {};
  std::vector<Fd> fds = std::exchange(fds_, {});
  if (!parsed) return refuse("the request is not a control.Request: use an mtctl of this version");
  ++call_;
  call_open_ = true;
  if (const auto checked = check_request(request); !checked)
    return answer_error(checked.error().message);
  if (const std::size_t due = request.has_capture() ? kCaptureFds : 0; fds.size() != due)
    return answer_error(fmt::format(
        "the request came with {} descriptors instead of {}: use an mtctl of this version",
        fds.size(), due));
  dispatch(request, std::move(fds));
  if (call_open_ && !closed_) watch_for_hangup();
}

// ---- calls

template <class T, class Fill>
Answer<T> Session::answer_with(Fill fill) {
  return [weak = weak_from_this(), call = call_, fill](Result<T> result) {
    const auto self = weak.lock();
    if (!self || self->closed_ || !self->call_open_ || self->call_ != call) return;
    if (!result) return self->answer_error(result.error().message);
    Response response;
    const More more = fill(response, *result);
    self->send(response, {}, more);
  };
}

Answer<void> Session::answer_done() {
  return [weak = weak_from_this(), call = call_](const Result<void>& result) {
    const auto self = weak.lock();
    if (!self || self->closed_ || !self->call_open_ || self->call_ != call) return;
    if (!result) return self->answer_error(result.error().message);
    Response response;
    response.mutable_done();
    self->send(response, {}, More::kNo);
  };
}

void Session::dispatch(const Request& request, std::vector<Fd> fds) {
  using namespace mtlink::control;
  switch (request.call_case()) {
    case Request::kGetNode:
      return target_.get_node(answer_with<NodeState>([](Response& response, NodeState& state) {
        *response.mutable_node() = std::move(state);
        return More::kNo;
      }));
    case Request::kWatch:
      watch_interval_ = std::chrono::milliseconds(request.watch().interval_ms());
      return watch_tick();
    case Request::kPing:
      return target_.ping(request.ping(),
                          answer_with<PingResult>([](Response& response, PingResult& result) {
                            *response.mutable_ping() = std::move(result);
                            return More::kNo;
                          }));
    case Request::kTrace:
      return target_.trace(request.trace(),
                           answer_with<TraceHop>([](Response& response, TraceHop& hop) {
                             *response.mutable_trace() = std::move(hop);
                             return response.trace().last() ? More::kNo : More::kYes;
                           }));
    case Request::kSetPort:
      return target_.set_port(request.set_port(), answer_done());
    case Request::kMovePort:
      return target_.move_port(request.move_port(),
                               answer_with<Moved>([](Response& response, Moved& moved) {
                                 *response.mutable_moved() = std::move(moved);
                                 return More::kNo;
                               }));
    case Request::kBalanceWorkers:
      return target_.balance_workers(request.balance_workers(),
                                     answer_with<Balanced>([](Response& response, Balanced& all) {
                                       *response.mutable_balanced() = std::move(all);
                                       return More::kNo;
                                     }));
    case Request::kSetImpairment:
      return target_.set_impairment(request.set_impairment(), answer_done());
    case Request::kSetRate:
      return target_.set_rate(request.set_rate(), answer_done());
    case Request::kSetMeasuring:
      return target_.set_measuring(request.set_measuring(), answer_done());
    case Request::kSetRoutes:
      return target_.set_routes(request.set_routes(), answer_done());
    case Request::kReload:
      return target_.reload(request.reload(),
                            answer_with<Reloaded>([](Response& response, Reloaded& done) {
                              *response.mutable_reloaded() = std::move(done);
                              return More::kNo;
                            }));
    case Request::kClaimSlot:
      return claim(request.claim_slot());
    case Request::kCapture:
      return capture(request.capture(), std::move(fds.front()));
    case Request::CALL_NOT_SET:
      break;  // check_request() has refused it
  }
}

void Session::claim(const mtlink::control::ClaimSlot& call) {
  target_.claim_slot(
      call, [weak = weak_from_this(), number = call_, &target = target_](Result<SlotClaim> result) {
        const auto self = weak.lock();
        const bool wanted = self && !self->closed_ && self->call_open_ && self->call_ == number;
        if (!result) {
          if (wanted) self->answer_error(result.error().message);
          return;
        }
        if (!wanted) return target.slot_released(result->port);  // nobody is left to hold it
        self->slots_.push_back(result->port);
        Response response;
        *response.mutable_slot() = std::move(result->grant);
        self->send(response, std::move(result->fds), More::kNo);
      });
}

/// The call stays open, as the capture does, until the peer hangs up, which it may also do before
/// it is answered.
void Session::capture(const mtlink::control::Capture& call, Fd memory) {
  const CaptureId id =
      target_.capture(call, std::move(memory),
                      answer_with<mtlink::control::CaptureGrant>(
                          [](Response& response, mtlink::control::CaptureGrant& grant) {
                            *response.mutable_capture() = std::move(grant);
                            return More::kYes;
                          }));
  if (closed_) return target_.capture_ended(id);
  if (call_open_) capture_ = id;
}

void Session::watch_tick() {
  // A reading is skipped while the one before it waits for the reader or for the workers.
  if (out_.empty() && !std::exchange(reading_node_, true))
    target_.get_node([weak = weak_from_this()](Result<mtlink::control::NodeState> result) {
      const auto self = weak.lock();
      if (!self || self->closed_ || !self->call_open_ || !self->reading_node_) return;
      self->reading_node_ = false;
      if (!result) return self->refuse(result.error().message);
      Response response;
      *response.mutable_node() = std::move(*result);
      self->send(response, {}, More::kYes);
    });
  if (closed_ || !call_open_) return;
  tick_.expires_after(watch_interval_);
  tick_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && !self->closed_ && self->call_open_) self->watch_tick();
  });
}

/// While a call is open nothing is read, so only this notices that the peer is gone: its slots are
/// released at once, and a watch ends.
void Session::watch_for_hangup() {
  if (std::exchange(hangup_watched_, true)) return;
  socket_.async_wait(Socket::wait_error, [weak = weak_from_this()](error_code error) {
    const auto self = weak.lock();
    if (!self || self->closed_) return;
    self->hangup_watched_ = false;
    if (!error && self->call_open_) self->close();
  });
}

// ---- writing

void Session::answer_error(const std::string& message) {
  Response response;
  response.set_error(message.empty() ? "the call failed" : message);
  send(response, {}, More::kNo);
}

void Session::send(const Response& response, std::vector<Fd> fds, More more) {
  call_open_ = more == More::kYes && !close_when_drained_;
  auto bytes = frame(response, kMaxResponse);
  if (!bytes) return refuse(bytes.error().message);
  out_.push_back({std::move(*bytes), 0, std::move(fds)});
  if (!write_waiting_) pump();
}

void Session::pump() {
  while (!out_.empty()) {
    auto& out = out_.front();
    if (!write_some(out)) {
      if (errno != EAGAIN) return close();
      write_waiting_ = true;
      arm(limits_.write_time);
      socket_.async_wait(Socket::wait_write, [self = shared_from_this()](error_code error) {
        if (error || self->closed_) return self->close();
        self->write_waiting_ = false;
        self->disarm();
        self->pump();
      });
      return;
    }
    if (out.sent == out.bytes.size()) out_.pop_front();
  }
  drained();
}

/// Writes what the socket takes; false, with errno, if it takes nothing.
bool Session::write_some(Outgoing& out) {
  const ssize_t sent = send_with_fds(socket_.native_handle(),
                                     std::span<const char>(out.bytes).subspan(out.sent), out.fds);
  if (sent <= 0) return false;
  out.sent += static_cast<std::size_t>(sent);
  out.fds.clear();  // they left with the first byte
  return true;
}

void Session::drained() {
  if (close_when_drained_) return close();
  if (!call_open_) wait_for_request();
}

// ---- the deadline

void Session::arm(std::chrono::milliseconds after) {
  deadline_.expires_after(after);
  deadline_.async_wait([weak = weak_from_this(), arming = ++armed_](error_code error) {
    const auto self = weak.lock();
    if (!error && self && self->armed_ == arming) self->close();
  });
}

void Session::disarm() {
  ++armed_;
  error_code ignored;
  deadline_.cancel(ignored);
}

}  // namespace mtl::control
