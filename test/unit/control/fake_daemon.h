#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "control/server.h"

/// A control server over a Target that answers what the test says, for tests of server, client and
/// mtctl.
namespace mtl::control {

/// How long a test waits for what must happen: a bound on a hanging test, not a measure.
inline constexpr std::chrono::seconds kPatience{20};

/// A directory of the test's own.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "mtlink-control-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A queue between the server's thread and the test's.
template <class T>
class Mailbox {
 public:
  void put(T item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
  /// The next item; fails the test, with a default one, if none comes.
  T take() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return !items_.empty(); })) {
      ADD_FAILURE() << "nothing came";
      return T{};
    }
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
};

/// Answers at once, from what the test put in; notes the calls. What the test changes while the
/// server runs, it changes through FakeDaemon::on_server().
class FakeTarget : public Target {
 public:
  mtlink::control::NodeState node;
  std::function<void(mtlink::control::NodeState&)> before_node;  ///< moves counters, for a watch
  std::function<void()> before_ping;
  mtlink::control::PingResult ping_result;
  std::vector<mtlink::control::PingResult> more_pings;  ///< come before ping_result
  std::vector<mtlink::control::TraceHop> hops;
  std::string fail;           ///< not empty: every call is answered by this error
  bool keep_answers = false;  ///< pings and claims are not answered; the test calls what is kept
  std::vector<Fd> grant_fds;
  mtlink::control::SlotGrant grant;
  mtlink::control::Moved moved;
  mtlink::control::Balanced balanced;
  mtlink::control::Reloaded reloaded;
  PortId slot{7};

  std::uint64_t node_calls = 0;
  Mailbox<mtlink::control::Request> calls;  ///< what came in, but get_node
  Mailbox<PortId> released;
  mtlink::control::CaptureGrant capture_grant;
  std::function<void(const mtlink::control::Capture&, Fd)> on_capture;
  Mailbox<CaptureId> captures_ended;
  std::vector<Answer<mtlink::control::PingResult>> kept_pings;
  std::vector<Answer<SlotClaim>> kept_claims;
  std::vector<Answer<mtlink::control::CaptureGrant>> kept_captures;

  void get_node(Answer<mtlink::control::NodeState> answer) override {
    ++node_calls;
    if (before_node) before_node(node);
    reply(answer, node);
  }
  void ping(const mtlink::control::Ping& call,
            Answer<mtlink::control::PingResult> answer) override {
    note().mutable_ping()->CopyFrom(call);
    tell();
    if (before_ping) before_ping();
    if (keep_answers) return kept_pings.push_back(std::move(answer));
    if (more_pings.empty()) return reply(answer, ping_result);
    auto next = more_pings.front();
    more_pings.erase(more_pings.begin());
    reply(answer, next);
  }
  void trace(const mtlink::control::Trace& call,
             Answer<mtlink::control::TraceHop> answer) override {
    note().mutable_trace()->CopyFrom(call);
    tell();
    if (hops.empty()) return reply(answer, mtlink::control::TraceHop{});
    for (const auto& hop : hops) reply(answer, hop);
  }
  void set_port(const mtlink::control::SetPort& call, Answer<void> answer) override {
    note().mutable_set_port()->CopyFrom(call);
    done(answer);
  }
  void move_port(const mtlink::control::MovePort& call,
                 Answer<mtlink::control::Moved> answer) override {
    note().mutable_move_port()->CopyFrom(call);
    tell();
    reply(answer, moved);
  }
  void balance_workers(const mtlink::control::BalanceWorkers& call,
                       Answer<mtlink::control::Balanced> answer) override {
    note().mutable_balance_workers()->CopyFrom(call);
    tell();
    reply(answer, balanced);
  }
  void reload(const mtlink::control::Reload& call,
              Answer<mtlink::control::Reloaded> answer) override {
    note().mutable_reload()->CopyFrom(call);
    tell();
    reply(answer, reloaded);
  }
  void set_impairment(const mtlink::control::SetImpairment& call, Answer<void> answer) override {
    note().mutable_set_impairment()->CopyFrom(call);
    done(answer);
  }
  void set_measuring(const mtlink::control::SetMeasuring& call, Answer<void> answer) override {
    note().mutable_set_measuring()->CopyFrom(call);
    done(answer);
  }
  void set_rate(const mtlink::control::SetRate& call, Answer<void> answer) override {
    note().mutable_set_rate()->CopyFrom(call);
    done(answer);
  }
  void set_routes(const mtlink::control::SetRoutes& call, Answer<void> answer) override {
    note().mutable_set_routes()->CopyFrom(call);
    done(answer);
  }
  void claim_slot(const mtlink::control::ClaimSlot& call, Answer<SlotClaim> answer) override {
    note().mutable_claim_slot()->CopyFrom(call);
    tell();
    if (keep_answers) return kept_claims.push_back(std::move(answer));
    if (!fail.empty()) return answer(Error{fail});
    answer(claim());
  }
  void slot_released(PortId port) override { released.put(port); }
  CaptureId capture(const mtlink::control::Capture& call, Fd memory,
                    Answer<mtlink::control::CaptureGrant> answer) override {
    const CaptureId id = ++captures_;
    note().mutable_capture()->CopyFrom(call);
    if (keep_answers) {
      kept_captures.push_back(std::move(answer));
    } else if (!fail.empty()) {
      answer(Error{fail});
    } else {
      if (on_capture) on_capture(call, std::move(memory));
      answer(capture_grant);
    }
    tell();
    return id;
  }
  void capture_ended(CaptureId capture) override { captures_ended.put(capture); }

  SlotClaim claim() { return {slot, grant, std::exchange(grant_fds, {})}; }

 private:
  mtlink::control::Request& note() {
    request_.Clear();
    return request_;
  }
  void tell() { calls.put(request_); }
  template <class T>
  void reply(const Answer<T>& answer, T value) {
    if (fail.empty())
      answer(std::move(value));
    else
      answer(Error{fail});
  }
  void done(const Answer<void>& answer) {
    tell();
    if (fail.empty())
      answer(Result<void>{});
    else
      answer(Error{fail});
  }

  mtlink::control::Request request_;
  CaptureId captures_ = 0;
};

/// A FakeTarget served by a Server on a thread of its own.
class FakeDaemon {
 public:
  explicit FakeDaemon(const ServerLimits& limits = {}) : path_(directory_ / "node.sock") {
    auto socket = ListeningSocket::open(path_);
    if (!socket) {
      ADD_FAILURE() << socket.error().message;
      std::abort();
    }
    server_ = Server::serve(io_, target, std::move(*socket), limits);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~FakeDaemon() {
    on_server([this] { server_->close(); });
    work_.reset();
    thread_.join();
    server_.reset();
  }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  const std::string& path() const { return path_; }
  const ScratchDirectory& directory() const { return directory_; }
  Server& server() { return *server_; }

  /// Runs `task` on the server's thread and gives back what it returns.
  template <class Task>
  std::invoke_result_t<Task> on_server(Task task) {
    std::packaged_task<decltype(task())()> packaged(std::move(task));
    auto result = packaged.get_future();
    boost::asio::post(io_, [&packaged] { packaged(); });
    return result.get();
  }
  /// Whether `condition`, asked on the server's thread again and again, becomes true.
  template <class Condition>
  bool eventually(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end)
      if (on_server(condition)) return true;
    return false;
  }

  FakeTarget target;

 private:
  ScratchDirectory directory_;
  std::string path_;
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      io_.get_executor()};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

}  // namespace mtl::control
