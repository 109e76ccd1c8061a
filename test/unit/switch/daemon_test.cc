// mtswitchd as a process: what its users and its peers see of it. The endpoints are threads of the
// test.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "control/client.h"
#include "phy/local_port.h"
#include "runtime/worker.h"
#include "test/unit/runtime/wire.h"

namespace mtl::switchd {
namespace {

namespace fs = std::filesystem;
namespace msg = mtlink::control;
using runtime::test::TestNode;

constexpr PortId kPort0{0};
/// So that a machine that does not run a process for a while ends no link and no call.
constexpr const char* kPatience = "timers { dead_interval_us: 3600000000 replay_limit: 1000000 }";
constexpr std::uint32_t kPatienceMs = 60'000;
/// The driver's fanout group is (pid xor interface index), and one for two interfaces of a
/// namespace is refused: indices far apart keep processes that are started together apart.
constexpr const char* kMakeVeth =
    "ip link add va index 1000 type veth peer name vb index 9000 && ip link set va up && "
    "ip link set vb up";
constexpr const char* kMakeVethAgain =
    "ip link add va index 1001 type veth peer name vb index 9001 && ip link set va up && "
    "ip link set vb up";

/// A directory of its own for each test.
class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "mtswitchd-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// The service manager's end of readiness: a datagram socket.
class Readiness {
 public:
  explicit Readiness(const fs::path& path) : path_(path) {
    fs::remove(path);
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~Readiness() { close(fd_); }
  const fs::path& path() const { return path_; }
  /// The next state told; empty when the process at `pidfd_pipe` has ended instead.
  std::string next(int ended_fd) {
    pollfd fds[] = {{fd_, POLLIN, 0}, {ended_fd, POLLIN, 0}};
    while (poll(fds, 2, -1) < 0) {
    }
    char text[64] = {};
    if ((fds[0].revents & POLLIN) == 0) return {};
    const ssize_t n = recv(fd_, text, sizeof text - 1, 0);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
  }

 private:
  fs::path path_;
  int fd_;
};

/// One mtswitchd process; killed with the object.
class Process {
 public:
  Process(const Directory& directory, std::vector<std::string> arguments,
          const std::string& name = "p")
      : log_(directory / (name + ".log")), readiness_(directory / (name + ".notify")) {
    int alive[2];
    EXPECT_EQ(pipe2(alive, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
      dup2(2, 1);
      dup(alive[1]);  // not closed by exec: the pipe ends with the process
      setenv("NOTIFY_SOCKET", readiness_.path().c_str(), 1);
      std::vector<char*> argv{const_cast<char*>("mtswitchd")};
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(std::getenv("MTSWITCHD"), argv.data());
      _exit(127);
    }
    close(alive[1]);
    ended_fd_ = alive[0];
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      wait();
    }
    close(ended_fd_);
  }
  bool ready() { return readiness_.next(ended_fd_) == "READY=1"; }
  std::string told() { return readiness_.next(ended_fd_); }
  void signal(int number) { kill(pid_, number); }
  pid_t pid() const { return pid_; }
  /// Whether it ends, far beyond the time that it may take.
  bool ends() {
    pollfd fd{ended_fd_, POLLIN, 0};
    return poll(&fd, 1, static_cast<int>(kPatienceMs)) == 1;
  }
  /// The exit status, or 1000 and the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  std::string log() const {
    std::ifstream in(log_);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }

 private:
  fs::path log_;
  Readiness readiness_;
  pid_t pid_ = -1;
  int ended_fd_ = -1;
};

/// One thread of a child that stands still, as in a driver's call that does not return, while the
/// others go on. The calling thread's alone.
class StuckThread {
 public:
  StuckThread(const Process& process, const std::string& name) {
    const fs::path tasks = "/proc/" + std::to_string(process.pid()) + "/task";
    for (const auto& task : fs::directory_iterator(tasks)) {
      std::string comm;
      std::getline(std::ifstream(task.path() / "comm"), comm);
      if (comm == name) tid_ = std::stoi(task.path().filename().string());
    }
    if (tid_ < 0 || ptrace(PTRACE_SEIZE, tid_, nullptr, nullptr) != 0) return;
    seized_ = ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) == 0;
    if (seized_) waitpid(tid_, nullptr, __WALL);
  }
  ~StuckThread() {
    if (seized_) ptrace(PTRACE_DETACH, tid_, nullptr, nullptr);
  }
  bool found() const { return tid_ >= 0; }
  bool stuck() const { return seized_; }
  /// After the end of its process, whose status is kept back until this was called.
  void bury() {
    waitpid(tid_, nullptr, __WALL);
    seized_ = false;
  }

 private:
  pid_t tid_ = -1;
  bool seized_ = false;
};

/// A process's part: claims a slot and runs a node of one port on a thread.
class Endpoint {
 public:
  Endpoint(const fs::path& socket, const std::string& slot) {
    auto client = control::Client::connect(socket.string());
    if (!client) {
      error = client.error().message;
      return;
    }
    client_ = std::make_unique<control::Client>(std::move(*client));
    msg::ClaimSlot claim;
    claim.set_name(slot);
    auto lease = client_->claim_slot(claim);
    if (!lease) {
      error = lease.error().message;
      return;
    }
    grant = lease->grant;
    node = std::make_unique<TestNode>(node_config(), default_route());
    phy::LocalPortFds fds{Fd(lease->memory.release()), Fd(lease->doorbell.release())};
    auto port = phy::LocalPort::attach(std::move(fds), slot, node->pool);
    if (!port) {
      error = port.error().message;
      return;
    }
    port_ = std::move(*port);
    worker_ = std::make_unique<runtime::Worker>(runtime::IdleConfig{}, node->loop, clock_);
    worker_->post([this](Time now) {
      node->loop.attach(kPort0, *port_, now);
      node->shard.enable(kPort0, now);
    });
    thread_ = std::thread([this] { worker_->run(); });
  }
  ~Endpoint() {
    if (worker_ != nullptr) worker_->stop();
    if (thread_.joinable()) thread_.join();
  }

  void on_thread(const std::function<void(TestNode&, Time)>& f) {
    std::atomic<bool> ran{false};
    worker_->post([&](Time now) {
      f(*node, now);
      ran = true;
    });
    while (!ran) std::this_thread::yield();
  }
  bool usable() {
    bool out = false;
    on_thread([&](TestNode& n, Time) { out = n.shard.link(kPort0)->usable(); });
    return out;
  }
  void come_up() {
    while (!usable()) std::this_thread::yield();
  }
  std::uint64_t downs(link::DownReason reason) {
    std::uint64_t out = 0;
    on_thread([&](TestNode& n, Time) {
      out = n.shard.link(kPort0)->counters().downs[static_cast<std::size_t>(reason)].get();
    });
    return out;
  }
  void send(std::uint16_t to, std::uint32_t count) {
    std::uint32_t sent = 0;
    while (sent < count) {
      on_thread([&](TestNode& n, Time now) {
        while (sent < count && n.send(to, sent + 1, 200, now)) ++sent;
      });
      std::this_thread::yield();
    }
  }
  void until_delivered(std::uint64_t count) {
    while (node->delivered_count < count) std::this_thread::yield();
  }

  std::string error;
  msg::SlotGrant grant;
  std::unique_ptr<TestNode> node;

 private:
  network::NodeConfig node_config() const {
    auto config = runtime::test::node_config(static_cast<std::uint16_t>(grant.node()), 1);
    link::Config& link = config.ports[0].link;
    link.mtu = static_cast<std::uint16_t>(grant.mtu());
    link.cell = static_cast<std::uint16_t>(grant.cell());
    link.timers = link::lab_timers();
    link.timers.dead_interval = std::chrono::hours(1);
    link.timers.replay_limit = 1'000'000;
    return config;
  }
  static network::RouteTable default_route() {
    const std::vector<network::Tier> tiers{{network::NextHop{kPort0, 0}}};
    return std::move(*network::RouteTable::build({}, 1, &tiers));
  }

  runtime::Clock clock_;
  std::unique_ptr<control::Client> client_;
  std::unique_ptr<phy::LocalPort> port_;
  std::unique_ptr<runtime::Worker> worker_;
  std::thread thread_;
};

/// Waits until a link that is UP has heard its peer, which says something all the time (L23):
/// before that nothing can be sent there (N7).
void until_heard(const std::function<msg::PortState()>& port) {
  const auto heard = [&] {
    const msg::PortState now = port();
    std::uint64_t statuses = 0;
    for (const msg::KindCount& kind : now.link().kinds()) {
      if (kind.kind() == "STATUS") statuses = kind.in();
    }
    return statuses;
  };
  const std::uint64_t before = heard();
  while (heard() == before) std::this_thread::yield();
}

/// A switch, node 1, with the slots a (node 11) and b (node 12).
class Slots : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(directory / "switch.textproto") << config("switch.sock");
    socket = directory / "switch.sock";
  }
  std::string config(const std::string& socket_name) const {
    return "node: 1\nname: \"sw\"\ncontrol { socket: \"" + (directory / socket_name).string() +
           "\" }\n"
           "defaults { mtu: 1500 " +
           kPatience +
           " }\n"
           "slots { port: 0 name: \"a\" node: 11 }\n"
           "slots { port: 1 name: \"b\" node: 12 }\n"
           "routes { dst: 11 tiers { hops { port: 0 } } }\n"
           "routes { dst: 12 tiers { hops { port: 1 } } }\n";
  }
  std::vector<std::string> arguments() const {
    return {"--config", (directory / "switch.textproto").string(), "--log-format", "json"};
  }
  msg::Response call(const msg::Request& request) {
    auto client = control::Client::connect(socket.string());
    if (!client) return error_response(client.error().message);
    auto response = client->call(request);
    return response ? *response : error_response(response.error().message);
  }
  static msg::Response error_response(const std::string& message) {
    msg::Response out;
    out.set_error(message);
    return out;
  }
  msg::NodeState state() {
    msg::Request request;
    request.mutable_get_node();
    return call(request).node();
  }
  /// Usable at both ends (N7).
  void come_up(Endpoint& endpoint) {
    endpoint.come_up();
    const auto port = static_cast<int>(endpoint.grant.switch_port());
    until_heard([&] { return state().ports(port); });
  }
  msg::PingResult ping(std::uint32_t node) {
    msg::Request request;
    request.mutable_ping()->set_node(node);
    request.mutable_ping()->set_bytes(100);
    request.mutable_ping()->set_timeout_ms(kPatienceMs);
    return call(request).ping();
  }
  static void expect_books(const msg::NodeState& node) {
    for (const msg::ShardState& s : node.shards()) {
      EXPECT_EQ(s.accepted() + s.made() + s.passed_in(),
                s.acked() + s.delivered() + s.dropped() + s.passed_out() + s.held());
    }
  }

  Directory directory;
  fs::path socket;
};

TEST_F(Slots, CarryDatagramsAndTheBooksBalance) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  Endpoint a(socket, "a"), b(socket, "b");
  ASSERT_EQ(a.error, "");
  ASSERT_EQ(b.error, "");
  EXPECT_EQ(a.grant.node(), 11u);
  EXPECT_EQ(a.grant.switch_node(), 1u);
  come_up(a);
  come_up(b);
  a.send(12, 3000);
  b.send(11, 1000);
  b.until_delivered(3000);
  a.until_delivered(1000);
  const msg::NodeState node = state();
  ASSERT_EQ(node.shards_size(), 1);
  EXPECT_EQ(node.shards(0).accepted(), 4000u);
  EXPECT_EQ(node.shards(0).dropped(), 0u);
  expect_books(node);
  ASSERT_EQ(node.ports_size(), 2);
  EXPECT_EQ(node.ports(0).link().state(), "up");
  EXPECT_EQ(node.ports(0).link().peer_node(), 11u);
  EXPECT_TRUE(node.ports(1).claimed());
  EXPECT_EQ(node.routes_size(), 2);
}

TEST_F(Slots, N11_PingAndTraceFindTheEndpoint) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  Endpoint a(socket, "a");
  ASSERT_EQ(a.error, "");
  come_up(a);
  const msg::PingResult reply = ping(11);
  EXPECT_EQ(reply.outcome(), msg::PingResult::REPLY);
  EXPECT_EQ(reply.from(), 11u);
  EXPECT_GT(reply.round_trip_ns(), 0u);
  EXPECT_EQ(ping(1).outcome(), msg::PingResult::REPLY) << "itself";
  const msg::PingResult nowhere = ping(99);
  EXPECT_EQ(nowhere.outcome(), msg::PingResult::UNREACHABLE) << "no route here";
  EXPECT_EQ(nowhere.from(), 1u);

  msg::Request request;
  request.mutable_trace()->set_node(11);
  request.mutable_trace()->set_timeout_ms(kPatienceMs);
  const msg::Response hop = call(request);
  EXPECT_EQ(hop.trace().hop(), 1u);
  EXPECT_TRUE(hop.trace().last());
  EXPECT_EQ(hop.trace().result().from(), 11u);
}

TEST_F(Slots, AClaimThatEndsFreesTheSlotAtOnceAndHarmsNobody) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  Endpoint b(socket, "b");
  ASSERT_EQ(b.error, "");
  come_up(b);
  for (int round = 0; round < 5; ++round) {
    Endpoint a(socket, "a");
    ASSERT_EQ(a.error, "") << round;
    Endpoint late(socket, "a");
    EXPECT_NE(late.error.find("claimed already"), std::string::npos) << late.error;
    come_up(a);
    a.send(12, 200);  // and ends in the middle of it, without a word
  }
  Endpoint a(socket, "a");
  ASSERT_EQ(a.error, "");
  come_up(a);
  const std::uint64_t before = b.node->delivered_count;
  a.send(12, 500);
  b.until_delivered(before + 500);
  expect_books(state());
  EXPECT_EQ(b.downs(link::DownReason::kDead), 0u);
}

TEST_F(Slots, L8_SigtermSendsCloseToEveryPeerAndRemovesTheSocket) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  Endpoint a(socket, "a"), b(socket, "b");
  ASSERT_EQ(a.error, "");
  ASSERT_EQ(b.error, "");
  come_up(a);
  come_up(b);
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.told(), "STOPPING=1");
  EXPECT_EQ(daemon.wait(), 0) << daemon.log();
  while (a.downs(link::DownReason::kPeerClose) == 0) std::this_thread::yield();
  while (b.downs(link::DownReason::kPeerClose) == 0) std::this_thread::yield();
  EXPECT_FALSE(fs::exists(socket));
}

constexpr const char* kNoPtrace = "no thread may be stopped here: ptrace is refused";

/// Ends `daemon` while the thread of DPDK's lcore `lcore` is stuck, and after `meanwhile`; what its
/// log says of that. Empty: the thread could not be stopped, or the test has failed.
std::vector<boost::json::object> end_with_stuck_worker(
    Process& daemon, const std::string& lcore, const std::function<void()>& meanwhile = [] {}) {
  StuckThread worker(daemon, "rte-worker-" + lcore);
  EXPECT_TRUE(worker.found());
  if (!worker.stuck()) return {};
  meanwhile();
  daemon.signal(SIGTERM);
  EXPECT_TRUE(daemon.ends()) << "it waits for a worker that never answers: " << daemon.log();
  if (testing::Test::HasFailure()) return {};
  worker.bury();
  EXPECT_EQ(daemon.wait(), 3) << daemon.log();
  std::vector<boost::json::object> out;
  std::istringstream lines(daemon.log());
  for (std::string line; std::getline(lines, line);) {
    const auto object = boost::json::parse(line).as_object();
    if (object.at("level").as_string() == "error") out.push_back(object);
  }
  EXPECT_EQ(out.size(), 1u) << daemon.log();
  return out;
}

TEST_F(Slots, SigtermEndsItWhateverAWorkerDoes) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  const auto said = end_with_stuck_worker(daemon, "1");
  if (said.empty()) GTEST_SKIP() << kNoPtrace;
  EXPECT_EQ(said.front().at("worker").as_int64(), 0);
  EXPECT_EQ(said.front().at("ports").as_string(), "a,b");
  EXPECT_FALSE(fs::exists(socket));
}

TEST_F(Slots, L8_TheOtherWorkersPeersGetTheirCloseAllTheSame) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::string cpus;
  for (unsigned cpu = 0, n = 0; cpu < CPU_SETSIZE && n < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus += (n++ == 0 ? "" : ", ") + std::to_string(cpu);
  }
  if (cpus.find(',') == std::string::npos) {
    GTEST_SKIP() << "this process may use one CPU only: there cannot be two workers";
  }
  std::ofstream(directory / "switch.textproto", std::ios::app)
      << "runtime { cpus: [" << cpus << "] }\n";
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  ASSERT_EQ(state().ports(1).worker(), 1u);
  Endpoint a(socket, "a"), b(socket, "b");
  ASSERT_EQ(a.error, "");
  ASSERT_EQ(b.error, "");
  come_up(a);
  come_up(b);
  // A move away from it waits, and nothing else does.
  const auto move_b_and_use_a = [&] {
    msg::Request move;
    move.mutable_move_port()->set_port(1);
    move.mutable_move_port()->set_worker(0);
    auto client = control::Client::connect(socket.string());
    ASSERT_TRUE(client);
    EXPECT_FALSE(client->call(move, std::chrono::milliseconds(300))) << "by whom?";
    msg::Request up;
    up.mutable_set_port()->set_port(0);
    up.mutable_set_port()->set_up(true);
    EXPECT_EQ(call(up).error(), "");
  };
  const auto said = end_with_stuck_worker(daemon, "2", move_b_and_use_a);
  if (said.empty()) GTEST_SKIP() << kNoPtrace;
  EXPECT_EQ(said.front().at("worker").as_int64(), 1);
  EXPECT_EQ(said.front().at("ports").as_string(), "b");
  while (a.usable()) std::this_thread::yield();
  EXPECT_EQ(a.downs(link::DownReason::kPeerClose), 1u);
  EXPECT_EQ(b.downs(link::DownReason::kPeerClose), 0u);
}

TEST_F(Slots, StartAgainAfterKill) {
  {
    Process daemon(directory, arguments());
    ASSERT_TRUE(daemon.ready()) << daemon.log();
    Endpoint a(socket, "a");
    come_up(a);
    daemon.signal(SIGKILL);
    EXPECT_EQ(daemon.wait(), 1000 + SIGKILL);
  }
  EXPECT_TRUE(fs::exists(socket)) << "the stale socket is what this is about";
  Process daemon(directory, arguments(), "again");
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  Endpoint a(socket, "a");
  ASSERT_EQ(a.error, "");
  come_up(a);
}

TEST_F(Slots, RoutesAreReplacedAllOrNothing) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  Endpoint a(socket, "a");
  ASSERT_EQ(a.error, "");
  come_up(a);
  msg::Request request;
  auto* route = request.mutable_set_routes()->mutable_routes()->add_routes();
  route->set_dst(12);
  route->add_tiers()->add_hops()->set_port(1);
  EXPECT_EQ(call(request).error(), "");
  EXPECT_EQ(ping(11).outcome(), msg::PingResult::UNREACHABLE) << "its route is gone";
  route->mutable_tiers(0)->mutable_hops(0)->set_port(7);
  EXPECT_NE(call(request).error().find("7"), std::string::npos);
  route->mutable_tiers(0)->mutable_hops(0)->set_port(1);
  auto* back = request.mutable_set_routes()->mutable_routes()->add_routes();
  back->set_dst(11);
  back->add_tiers()->add_hops()->set_port(0);
  EXPECT_EQ(call(request).error(), "");
  EXPECT_EQ(ping(11).outcome(), msg::PingResult::REPLY);
  EXPECT_EQ(state().routes_size(), 2);
  EXPECT_EQ(state().deadlock_check(), "not_needed");
  back->set_dst(50);  // beyond the neighbours, and there is no fabric
  EXPECT_EQ(call(request).error(), "");
  EXPECT_EQ(state().deadlock_check(), "unproved");
  EXPECT_NE(daemon.log().find("N10"), std::string::npos) << daemon.log();
}

TEST_F(Slots, PortsGoDownAndUpAndAreImpaired) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  Endpoint a(socket, "a");
  ASSERT_EQ(a.error, "");
  come_up(a);
  msg::Request request;
  request.mutable_set_port()->set_port(0);
  request.mutable_set_port()->set_up(false);
  EXPECT_EQ(call(request).error(), "");
  EXPECT_EQ(state().ports(0).link().down_reason(), "disabled");
  while (a.usable()) std::this_thread::yield();
  request.mutable_set_port()->set_up(true);
  EXPECT_EQ(call(request).error(), "");
  come_up(a);

  msg::Request impair;
  impair.mutable_set_impairment()->set_port(0);
  impair.mutable_set_impairment()->mutable_impairment()->set_drop_ppm(200'000);
  EXPECT_EQ(call(impair).error(), "");
  a.send(1, 300);  // to the switch itself; what is dropped is sent again (L17)
  while (state().shards(0).delivered() < 300) std::this_thread::yield();
  const msg::NodeState node = state();
  EXPECT_EQ(node.shards(0).delivered(), 300u);
  EXPECT_EQ(node.ports(0).impairment().drop_ppm(), 200'000u);
  EXPECT_GT(node.ports(0).impaired(), 0u);
  impair.mutable_set_impairment()->mutable_impairment()->set_drop_ppm(0);
  EXPECT_EQ(call(impair).error(), "");
  EXPECT_FALSE(state().ports(0).has_impairment());

  request.mutable_set_port()->set_port(9);
  EXPECT_NE(call(request).error().find("no port 9"), std::string::npos);
}

TEST_F(Slots, ARateIsSetAndShownAndGrantedAndEnded) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  EXPECT_FALSE(state().ports(0).has_pace());
  msg::Request request;
  request.mutable_set_rate()->set_port(0);
  request.mutable_set_rate()->mutable_rate()->set_bps(50'000'000);
  EXPECT_EQ(call(request).error(), "");
  {
    Endpoint a(socket, "a");
    ASSERT_EQ(a.error, "");
    EXPECT_EQ(a.grant.rate().bps(), 50'000'000u);
    EXPECT_EQ(a.grant.rate().overhead(), 24u);
    a.come_up();
    EXPECT_EQ(ping(11).outcome(), msg::PingResult::REPLY);
    const msg::PortState port = state().ports(0);
    EXPECT_EQ(port.pace().rate().bps(), 50'000'000u);
    // The port was paced from its first frame on.
    EXPECT_EQ(port.pace().bytes(), port.bytes_out() + 24 * port.frames_out());
    EXPECT_GT(port.pace().backlogged_ns(), 0u);
    EXPECT_FALSE(state().ports(1).has_pace());

    request.mutable_set_rate()->clear_rate();
    EXPECT_EQ(call(request).error(), "");
    EXPECT_FALSE(state().ports(0).has_pace());
    EXPECT_EQ(ping(11).outcome(), msg::PingResult::REPLY);
  }
  Endpoint b(socket, "b");
  EXPECT_FALSE(b.grant.has_rate());
  request.mutable_set_rate()->mutable_rate()->set_bps(1);
  EXPECT_NE(call(request).error().find("rate.bps is 1"), std::string::npos);
}

TEST_F(Slots, WorkersMeasureTheirStagesFromWhenTheyAreToldTo) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  Endpoint a(socket, "a");
  ASSERT_EQ(a.error, "");
  a.come_up();
  EXPECT_FALSE(state().workers(0).measuring());
  EXPECT_EQ(state().workers(0).measured_passes(), 0u);
  EXPECT_EQ(state().workers(0).stages_size(), 0);

  msg::Request request;
  request.mutable_set_measuring()->set_on(true);
  const std::uint64_t busy_before = state().workers(0).busy_cycles();
  EXPECT_EQ(call(request).error(), "");
  EXPECT_EQ(ping(11).outcome(), msg::PingResult::REPLY);
  const msg::WorkerState worker = state().workers(0);
  EXPECT_TRUE(worker.measuring());
  EXPECT_GT(worker.measured_passes(), 0u);
  std::uint64_t cycles = 0;
  std::vector<std::string> names;
  for (const msg::StageState& stage : worker.stages()) {
    cycles += stage.cycles();
    names.push_back(stage.stage());
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"worker", "device_receive", "link_receive", "rings", "timers",
                                      "owner", "link_send", "device_send", "flush"}));
  EXPECT_GT(cycles, 0u);
  EXPECT_LE(cycles, worker.busy_cycles() - busy_before) << "they are parts of the busy ones";
  EXPECT_GE(worker.stages(1).frames(), 1u) << "the reply came in, and the request went out";
  EXPECT_GE(worker.stages(7).frames(), 1u);

  request.mutable_set_measuring()->set_on(false);
  EXPECT_EQ(call(request).error(), "");
  const msg::WorkerState ended = state().workers(0);
  EXPECT_FALSE(ended.measuring());
  EXPECT_EQ(ping(11).outcome(), msg::PingResult::REPLY);
  EXPECT_EQ(state().workers(0).measured_passes(), ended.measured_passes());
}

TEST_F(Slots, LogsAreJsonLinesThatSayWhatWasDecided) {
  Process daemon(directory, arguments());
  ASSERT_TRUE(daemon.ready()) << daemon.log();
  {
    Endpoint a(socket, "a");
    come_up(a);
  }
  daemon.signal(SIGINT);
  EXPECT_EQ(daemon.wait(), 0);
  std::istringstream lines(daemon.log());
  bool port = false, up = false, down = false, final = false;
  for (std::string line; std::getline(lines, line);) {
    boost::system::error_code error;
    const boost::json::value value = boost::json::parse(line, error);
    ASSERT_FALSE(error) << line;
    const auto& object = value.as_object();
    ASSERT_TRUE(object.contains("ts") && object.contains("level")) << line;
    const auto message = object.at("msg").as_string();
    port = port || (message == "port" && object.at("driver").as_string() == "local" &&
                    object.at("mtu").as_int64() == 1500);
    up = up || (message == "link up" && object.at("peer_node").as_int64() == 11);
    down = down || (message == "link down" && object.at("port").as_string() == "a");
    final = final || message == "final";
  }
  EXPECT_TRUE(port && up && down && final) << daemon.log();
}

TEST_F(Slots, CheckPrintsWhatWouldRunAndRunsNothing) {
  auto args = arguments();
  args.push_back("--check");
  Process check(directory, args);
  EXPECT_EQ(check.wait(), 0) << check.log();
  EXPECT_NE(check.log().find("slot"), std::string::npos);
  EXPECT_FALSE(fs::exists(socket));
}

TEST_F(Slots, AWrongConfigurationIsNamedWithItsPlace) {
  std::ofstream(directory / "switch.textproto") << "node: 1\nslots { port: 0 node: 99999 }\n";
  Process daemon(directory, arguments());
  EXPECT_EQ(daemon.wait(), 2);
  EXPECT_NE(daemon.log().find("switch.textproto:2:"), std::string::npos) << daemon.log();
}

TEST_F(Slots, AMissingInterfaceIsNamedBeforeAnythingStarts) {
  std::ofstream(directory / "switch.textproto")
      << "node: 1\nports { port: 0 af_packet { interface: \"nosuch0\" } }\n";
  Process daemon(directory, arguments());
  EXPECT_NE(daemon.wait(), 0);
  EXPECT_NE(daemon.log().find("nosuch0"), std::string::npos) << daemon.log();
}

/// Two switches, nodes 1 and 2, over a veth pair in a network namespace of the test's own.
class Trunk : public testing::Test {
 protected:
  static bool private_namespace() {
    static const bool made = unshare(CLONE_NEWNET) == 0 && std::system(kMakeVeth) == 0;
    return made;
  }
  void SetUp() override {
    write("one", 1, 2, "va");
    write("two", 2, 1, "vb");
  }
  void write(const std::string& name, int node, int peer, const std::string& interface) {
    std::ofstream(directory / (name + ".textproto"))
        << "node: " << node << "\ncontrol { socket: \"" << (directory / (name + ".sock")).string()
        << "\" }\nports { port: 0 af_packet { interface: \""
        << interface << "\" } peer_node: " << peer << " }\nroutes { dst: " << peer
        << " tiers { hops { port: 0 } } }\ndefaults { " << kPatience << " }\n";
  }
  std::vector<std::string> arguments(const std::string& name) const {
    return {"--config", (directory / (name + ".textproto")).string()};
  }
  msg::NodeState state(const std::string& name) {
    auto client = control::Client::connect((directory / (name + ".sock")).string());
    if (!client) return {};
    msg::Request request;
    request.mutable_get_node();
    auto response = client->call(request);
    return response ? response->node() : msg::NodeState();
  }
  bool up(const std::string& name) {
    const msg::NodeState node = state(name);
    return node.ports_size() > 0 && node.ports(0).link().state() == "up";
  }
  msg::PingResult ping(const std::string& from, std::uint32_t node) {
    auto client = control::Client::connect((directory / (from + ".sock")).string());
    if (!client) return {};
    msg::Request request;
    request.mutable_ping()->set_node(node);
    request.mutable_ping()->set_timeout_ms(kPatienceMs);
    auto response = client->call(request);
    return response ? response->ping() : msg::PingResult();
  }
  void until_up() {
    while (!up("one") || !up("two")) std::this_thread::yield();
    for (const auto* name : {"one", "two"}) {
      until_heard([&] { return state(name).ports(0); });
    }
  }

  Directory directory;
};

TEST_F(Trunk, APeerThatWasKilledComesUpAgain) {
  if (!private_namespace()) {
    GTEST_SKIP() << "no network namespace can be made here (needs CAP_SYS_ADMIN): nothing is shown";
  }
  Process two(directory, arguments("two"), "two");
  ASSERT_TRUE(two.ready()) << two.log();
  {
    Process one(directory, arguments("one"), "one");
    ASSERT_TRUE(one.ready()) << one.log();
    until_up();
    EXPECT_EQ(ping("one", 2).outcome(), msg::PingResult::REPLY);
    one.signal(SIGKILL);
    one.wait();
  }
  Process one(directory, arguments("one"), "one-again");
  ASSERT_TRUE(one.ready()) << one.log();
  until_up();
  EXPECT_EQ(ping("two", 1).outcome(), msg::PingResult::REPLY);
  EXPECT_EQ(state("two").ports(0).link().ups(), 2u);
}

TEST_F(Trunk, L8_SigtermSendsCloseOverTheWire) {
  if (!private_namespace()) {
    GTEST_SKIP() << "no network namespace can be made here (needs CAP_SYS_ADMIN): nothing is shown";
  }
  Process one(directory, arguments("one"), "one");
  Process two(directory, arguments("two"), "two");
  ASSERT_TRUE(one.ready()) << one.log();
  ASSERT_TRUE(two.ready()) << two.log();
  until_up();
  one.signal(SIGTERM);
  EXPECT_EQ(one.wait(), 0) << one.log();
  const auto closed = [&] {
    const msg::NodeState node = state("two");
    for (const msg::DropCount& down : node.ports(0).link().downs()) {
      if (down.name() == "peer_close") return down.count() == 1;
    }
    return false;
  };
  while (!closed()) std::this_thread::yield();
}

// Carrier is told by rtnetlink, not by the driver: the link goes down at once, not after
// dead_interval.
TEST_F(Trunk, L4_FollowsTheCarrier) {
  if (!private_namespace()) {
    GTEST_SKIP() << "no network namespace can be made here (needs CAP_SYS_ADMIN): nothing is shown";
  }
  Process one(directory, arguments("one"), "one");
  Process two(directory, arguments("two"), "two");
  ASSERT_TRUE(one.ready()) << one.log();
  ASSERT_TRUE(two.ready()) << two.log();
  until_up();
  ASSERT_EQ(std::system("ip link set vb down"), 0);
  while (state("one").ports(0).link().state() != "down") std::this_thread::yield();
  EXPECT_EQ(state("one").ports(0).link().down_reason(), "no_carrier");
  EXPECT_FALSE(state("one").ports(0).carrier());
  ASSERT_EQ(std::system("ip link set vb up"), 0);
  until_up();
}

TEST_F(Trunk, APortWhoseInterfaceIsMadeAnewComesUpAgain) {
  if (!private_namespace()) {
    GTEST_SKIP() << "no network namespace can be made here (needs CAP_SYS_ADMIN): nothing is shown";
  }
  Process one(directory, arguments("one"), "one");
  Process two(directory, arguments("two"), "two");
  ASSERT_TRUE(one.ready()) << one.log();
  ASSERT_TRUE(two.ready()) << two.log();
  until_up();
  ASSERT_EQ(std::system("ip link del va"), 0);
  while (state("one").ports(0).fault().empty()) std::this_thread::yield();
  ASSERT_EQ(std::system(kMakeVethAgain), 0);
  until_up();
  EXPECT_EQ(ping("one", 2).outcome(), msg::PingResult::REPLY);
  EXPECT_EQ(state("one").ports(0).fault(), "");
}

}  // namespace
}  // namespace mtl::switchd
