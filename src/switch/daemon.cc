#include "switch/daemon.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "control/server.h"
#include "control/socket_path.h"
#include "phy/dpdk/eal.h"
#include "phy/dpdk/pci_device.h"
#include "runtime/clock.h"
#include "switch/event_log.h"
#include "switch/media/media.h"
#include "switch/node_host.h"
#include "switch/node_target.h"
#include "switch/reload.h"
#include "switch/sd_notify.h"
#include "switch/start_log.h"

namespace mtl::switchd {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kSampleInterval{1000};
/// Where carrier comes from the driver it is asked so often.
constexpr milliseconds kCarrierInterval{100};
/// CLOSE has left every port by then, or the port cannot send.
constexpr milliseconds kCloseTime{300};
/// Workers that were told to end have ended by then, or are in a device's call that does not
/// return.
constexpr milliseconds kEndTime{600};
/// Between two looks at whether workers have done what they were asked.
constexpr milliseconds kLookAgain{1};
constexpr std::uint64_t kMebibyte = 1 << 20;

/// An eventfd by which workers call the control thread.
class Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Bell() {
    if (fd_ >= 0) ::close(fd_);
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  int fd() const { return fd_; }
  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(fd_, &one, sizeof one);
  }
  void take() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(fd_, &count, sizeof count);
  }

 private:
  int fd_;
};

/// What is made for a number is made at start: tables that workers read do not grow.
Plan with_all_numbers(Plan plan) {
  add_numbers(plan, kMaxPorts);
  return plan;
}

}  // namespace

/// Members in the order of their making; taken apart in the reverse order by stop().
class Daemon::Impl {
 public:
  Impl(Plan plan, std::string version, Log& log, Reload::Load load)
      : plan_(with_all_numbers(std::move(plan))),
        version_(std::move(version)),
        log_(log),
        load_(std::move(load)),
        event_log_(plan_, log) {}
  ~Impl() { stop(); }

  Result<void> start();
  void run();
  void stop();

 private:
  Result<void> start_eal();
  Result<void> make_pools();
  Result<void> build_node();
  void start_workers();
  void prepare_port(const PortPlan& port);
  Result<void> listen();

  void wait_for_workers();
  void wait_for_interfaces();
  void wait_for_signal();
  void sample_later();
  void tell_lost_events();
  void rearm();
  void dispatch();
  void handle(const Event& event);
  void reopen(const std::vector<PortId>& ports);
  void hand_over(PortId port, std::unique_ptr<phy::MemifSegment> memory);
  void close_links();
  void end_workers();
  [[noreturn]] void leave_without(const std::vector<unsigned>& stuck);
  void make_target(std::size_t buffers);
  std::vector<phy::MbufPool*> all_pools() const;
  phy::MbufPoolConfig receive_pool_config() const;

  Plan plan_;  ///< a place for every number, most without a port
  std::string version_;
  Log& log_;
  Reload::Load load_;
  EventLog event_log_;
  Bell bell_;
  runtime::Clock clock_;
  std::unique_ptr<phy::Eal> eal_;
  std::unique_ptr<phy::MbufPool> receive_pool_;
  std::vector<std::unique_ptr<phy::MbufPool>> own_pools_;  ///< by worker
  std::unique_ptr<Media> media_;
  std::unique_ptr<NodeHost> host_;
  std::unique_ptr<Reload> reload_;  ///< has pools, too
  std::unique_ptr<NodeTarget> target_;
  bool working_ = false;

  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  asio::posix::stream_descriptor workers_{io_};
  asio::posix::stream_descriptor interfaces_{io_};
  asio::steady_timer deadline_{io_};
  asio::steady_timer sampling_{io_};
  std::optional<control::ListeningSocket> socket_;  ///< until it is served
  std::unique_ptr<control::Server> server_;
  std::chrono::steady_clock::time_point revive_at_{};
  std::uint64_t events_lost_ = 0;
  std::uint64_t echoes_lost_ = 0;
  bool stopping_ = false;
};

// --- start ---

Result<void> Daemon::Impl::start() {
  if (bell_.fd() < 0) return Error{std::string("cannot make an eventfd: ") + strerror(errno)};
  // First of all: what follows would disturb one that runs here already and has these ports.
  auto socket = control::ListeningSocket::open(plan_.socket);
  if (!socket) return socket.error();
  socket_.emplace(std::move(*socket));
  auto media = Media::check(plan_, log_);  // what is missing is named before anything starts
  if (!media) return media.error();
  media_ = std::move(*media);
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads the log may leave
  // Before EAL and the workers make their threads: a signal is the control thread's to take.
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  for (const auto step : {&Impl::start_eal, &Impl::make_pools, &Impl::build_node}) {
    if (auto done = (this->*step)(); !done) return done;
  }
  start_workers();
  return listen();
}

Result<void> Daemon::Impl::start_eal() {
  phy::EalConfig config;
  config.huge_pages = plan_.runtime.huge_pages;
  std::uint64_t bytes = phy::MbufPool::memory(receive_pool_config());
  for (std::size_t w = 0; w < plan_.runtime.workers; ++w) {
    config.workers.push_back(plan_.runtime.cpus.empty() ? phy::CpuList{}
                                                        : phy::CpuList{plan_.runtime.cpus[w]});
    bytes += phy::MbufPool::memory({BufferPlan::kOwn, media_->room(), 1});
  }
  const auto needed = static_cast<std::uint32_t>((bytes + kMebibyte - 1) / kMebibyte);
  config.memory_mib = std::max(plan_.runtime.memory_mib, needed);
  for (const PortPlan& port : plan_.ports) {
    const auto* ethdev = std::get_if<EthdevDevice>(&port.device);
    if (ethdev != nullptr && phy::is_pci_device(ethdev->devargs)) config.pci = true;
  }
  config.args = plan_.runtime.eal_args;
  config.log = [&log = log_](std::string_view line) { log.debug("dpdk", {{"line", line}}); };
  log_start(plan_, config, log_);
  auto eal = phy::Eal::start(config);
  if (!eal) return eal.error();
  eal_ = std::move(*eal);
  return {};
}

Result<void> Daemon::Impl::make_pools() {
  auto receive = phy::MbufPool::create(receive_pool_config());
  if (!receive) return receive.error();
  receive_pool_ = std::move(*receive);
  for (std::size_t w = 0; w < plan_.runtime.workers; ++w) {
    auto own = phy::MbufPool::create({BufferPlan::kOwn, media_->room(), 1});
    if (!own) return own.error();
    own_pools_.push_back(std::move(*own));
  }
  return {};
}

/// One for all workers: a port takes its buffers along when it moves to another.
phy::MbufPoolConfig Daemon::Impl::receive_pool_config() const {
  return {plan_.buffers.receive, media_->room(), static_cast<std::uint32_t>(plan_.runtime.workers)};
}

std::vector<phy::MbufPool*> Daemon::Impl::all_pools() const {
  std::vector<phy::MbufPool*> out{receive_pool_.get()};
  for (const auto& pool : own_pools_) out.push_back(pool.get());
  if (reload_ == nullptr) return out;
  for (phy::MbufPool* pool : reload_->pools()) out.push_back(pool);
  return out;
}

Result<void> Daemon::Impl::build_node() {
  if (auto opened = media_->open(plan_, *receive_pool_); !opened) return opened;
  auto table = network::RouteTable::build(plan_.routes, plan_.ports.size());
  if (!table) return table.error();

  NodeHost::Config config;
  config.node = plan_.node;
  config.node.shards = plan_.runtime.workers;
  for (network::PortConfig& port : config.node.ports) {
    if (!port.present()) continue;
    const PortId id = port.link.port;
    if (plan_.ports[id.value()].mac) continue;
    if (const auto mac = media_->device_mac(id)) port.link.mac = *mac;
  }
  config.table = std::move(*table);
  config.idle.always_poll = plan_.runtime.poll;
  for (const auto& pool : own_pools_) config.pools.push_back(pool.get());
  for (const phy::MbufPool* pool : all_pools()) config.buffers += pool->size();
  config.notify = [this] { bell_.ring(); };
  const std::size_t buffers = config.buffers;
  host_ = std::make_unique<NodeHost>(std::move(config), clock_);
  make_target(buffers);
  media_->on_reopen([this](const std::vector<PortId>& ports) { reopen(ports); });
  media_->let_memif_peers_in([this](PortId port, std::unique_ptr<phy::MemifSegment> memory) {
    hand_over(port, std::move(memory));
  });
  return {};
}

void Daemon::Impl::make_target(std::size_t buffers) {
  reload_ = std::make_unique<Reload>(Reload::Parts{
      plan_, load_, *host_, *media_, [this] { return clock_.now(); }, log_,
      [this](network::RouteTable table, std::function<void()> done) {
        target_->publish(std::move(table), std::move(done));
      },
      [this](std::size_t worker) { return target_->busy(worker); },
      [this] { return target_->stuck(); },
      [this](const std::vector<PortId>& ports) { target_->ports_changed(ports); },
      [this](PortId port) { event_log_.forget(port, host_->untold(port)); },
      [this](PortId port) { server_->end_slot(port); }, [this] { rearm(); }, buffers});
  target_ = std::make_unique<NodeTarget>(
      NodeTarget::Parts{plan_, version_, *host_, *media_, clock_, [this] { return all_pools(); },
                        [this](PortId port) { return reload_->leaving(port); },
                        [this] { return reload_->under_way(); },
                        [this](const mtlink::control::Reload& call,
                               control::Answer<mtlink::control::Reloaded> answer) {
                          reload_->reload(call, std::move(answer));
                        },
                        log_, [this] { rearm(); }});
}

void Daemon::Impl::prepare_port(const PortPlan& port) {
  const auto impairment = std::make_shared<std::unique_ptr<phy::Impairment>>();
  if (port.impairment.active()) {
    *impairment = std::make_unique<phy::Impairment>(port.impairment, port.impairment_depth);
  }
  const auto pacer = std::make_shared<std::unique_ptr<phy::Pacer>>();
  if (port.rate) *pacer = std::make_unique<phy::Pacer>(*port.rate, clock_.now());
  phy::Port* const medium = media_->port(port.port);
  host_->post(port.port, [impairment, pacer, medium, id = port.port, enabled = port.enabled](
                             ShardHost& host, Time now) {
    if (*impairment != nullptr) host.impair(id, std::move(*impairment), now);
    if (*pacer != nullptr) host.pace(id, std::move(*pacer));
    host.attach(id, *medium, now);
    if (enabled) host.enable(id, now);
  });
}

void Daemon::Impl::start_workers() {
  for (const PortPlan& port : plan_.ports) {
    if (!port.present()) continue;
    log_port(plan_, host_->node().config().ports[port.port.value()].link, port,
             media_->port(port.port)->traits(), log_);
    prepare_port(port);
  }
  for (std::size_t w = 0; w < host_->workers(); ++w) {
    eal_->launch(static_cast<unsigned>(w), [host = host_.get(), w] { host->run(w); });
  }
  working_ = true;
}

Result<void> Daemon::Impl::listen() {
  control::ServerLimits limits;
  limits.connections += kMaxPorts;  // all may be slots in time
  server_ = control::Server::serve(io_, *target_, std::move(*socket_), limits);
  socket_.reset();
  workers_.assign(::dup(bell_.fd()));
  interfaces_.assign(::dup(media_->monitor_fd()));
  wait_for_workers();
  wait_for_interfaces();
  wait_for_signal();
  sample_later();
  return {};
}

// --- run ---

void Daemon::Impl::run() {
  log_.info("ready", {{"node", plan_.node.node.value()}, {"socket", plan_.socket}});
  if (auto told = sd_notify("READY=1"); !told) {
    log_.warning("readiness not told", {{"error", told.error().message}});
  }
  io_.run();
  stop();
}

void Daemon::Impl::wait_for_signal() {
  signals_.async_wait([this](const error_code& error, int signal) {
    if (error) return;
    log_.info("stopping", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
    io_.stop();
  });
}

void Daemon::Impl::wait_for_workers() {
  workers_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const error_code& error) {
    if (error) return;
    dispatch();
    wait_for_workers();
  });
}

void Daemon::Impl::wait_for_interfaces() {
  interfaces_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](const error_code& error) {
                           if (error) return;
                           media_->watch();
                           wait_for_interfaces();
                         });
}

void Daemon::Impl::sample_later() {
  sampling_.expires_after(media_->samples_carrier() ? kCarrierInterval : kSampleInterval);
  sampling_.async_wait([this](const error_code& error) {
    if (error) return;
    media_->sample();
    const auto wall = std::chrono::steady_clock::now();
    if (wall >= revive_at_) {
      revive_at_ = wall + kSampleInterval;
      media_->revive();
    }
    target_->sample(clock_.now());
    for (const PortPlan& port : plan_.ports) {
      event_log_.untold(port.port, host_->untold(port.port));
    }
    event_log_.flush(clock_.now());
    tell_lost_events();
    sample_later();
  });
}

/// Workers do not wait for the control thread: what finds its ring full is lost, and said here.
void Daemon::Impl::tell_lost_events() {
  std::uint64_t events = 0, echoes = 0;
  for (std::size_t w = 0; w < host_->workers(); ++w) {
    events += host_->host(w).events_lost();
    echoes += host_->host(w).echoes_lost();
  }
  const std::uint64_t lost_events = events - std::exchange(events_lost_, events);
  const std::uint64_t lost_echoes = echoes - std::exchange(echoes_lost_, echoes);
  if (lost_events > 0) {
    log_.warning("changes of links lost: their lines are missing", {{"count", lost_events}});
  }
  if (lost_echoes > 0) {
    log_.warning("echo replies lost: more came in than could be looked at while a ping waited",
                 {{"count", lost_echoes}});
  }
}

void Daemon::Impl::handle(const Event& event) {
  if (event.kind == Event::Kind::kLink) {
    event_log_.link(event);
  } else {
    target_->echo(event);
  }
}

void Daemon::Impl::dispatch() {
  bell_.take();
  const bool more = host_->dispatch([this](const Event& event) { handle(event); });
  if (more) bell_.ring();  // after whatever else waits for this thread
  rearm();
}

/// Has tick() called when the target wants it.
void Daemon::Impl::rearm() {
  if (stopping_) return;
  const Time now = clock_.now();
  const Time next = std::min(target_->next_deadline(now), reload_->next_deadline(now));
  if (next == kNever) {
    deadline_.cancel();
    return;
  }
  deadline_.expires_after(std::max(next - now, Duration::zero()));
  deadline_.async_wait([this](const error_code& error) {
    if (error) return;
    target_->tick(clock_.now());
    reload_->tick(clock_.now());
    rearm();
  });
}

/// A device was lost and may be there again, as an interface under the name of one that was
/// deleted: the worker lets go of the old one, it is closed, and the new one takes its place. All
/// ports on it have one worker. What is tried again and again in vain is said once.
void Daemon::Impl::reopen(const std::vector<PortId>& ports) {
  const PortId first = ports.front();
  if (!reload_->leaving(first).empty()) return;
  const auto detach = [ports](ShardHost& host, Time now) {
    for (const PortId port : ports) host.detach(port, now);
  };
  host_->post(first, detach, [this, ports, first] {
    if (stopping_ || !reload_->leaving(first).empty()) return;
    const std::string before = media_->fault(first);
    const bool opened = media_->reopen(first);
    const std::string fault = media_->fault(first);
    std::vector<phy::Port*> media;
    for (const PortId port : ports) {
      const std::string& name = plan_.ports[port.value()].name;
      media.push_back(media_->port(port));
      if (opened) {
        log_.info("port opened again", {{"port", name}});
      } else if (fault != before) {
        log_.warning("port cannot be opened again", {{"port", name}, {"fault", fault}});
      }
    }
    if (!opened) return;
    host_->post(first, [ports, media](ShardHost& host, Time now) {
      for (std::size_t i = 0; i < ports.size(); ++i) host.attach(ports[i], *media[i], now);
    });
  });
}

/// A memif peer came, or left (no memory): the worker takes the one connection's memory and gives
/// the former one's back, which is unmapped here, off the worker.
void Daemon::Impl::hand_over(PortId port, std::unique_ptr<phy::MemifSegment> memory) {
  if (!reload_->leaving(port).empty()) return;  // the memory that it has goes with it
  phy::MemifPort* const memif = media_->memif(port);
  const auto held = std::make_shared<std::unique_ptr<phy::MemifSegment>>(std::move(memory));
  host_->post(port, [held, memif, port](ShardHost& host, Time now) {
    host.cut(port, now);  // a former peer may have left since the last pass
    *held = memif->install(std::move(*held));
  });
}

// --- stop ---

/// CLOSE to every peer (L8): the links are disabled, and the workers go on until what that made has
/// left. One that does not answer keeps the others from nothing.
void Daemon::Impl::close_links() {
  struct Asked {
    std::atomic<std::size_t> busy{0};
    bool answered = false;
  };
  const auto end = std::chrono::steady_clock::now() + kCloseTime;
  const auto in_time = [end] { return std::chrono::steady_clock::now() < end; };
  reload_->stop();
  host_->disable_all();
  bool drained = false;
  while (!drained && in_time()) {
    const auto asked = std::make_shared<Asked>();  // an answer may come when nobody waits any more
    host_->post_all(
        [asked](ShardHost& host, Time) {
          if (!host.drained()) asked->busy.fetch_add(1);
        },
        [asked] { asked->answered = true; });
    while (!asked->answered && in_time()) {
      host_->dispatch([this](const Event& event) { handle(event); });
      std::this_thread::sleep_for(kLookAgain);
    }
    drained = asked->answered && asked->busy.load() == 0;
  }
  if (!drained) {
    log_.warning(
        "some peers could not be told: their ports take no frames, or their worker does "
        "not answer");
  }
}

/// Returns when all workers have ended; does not if one will not.
void Daemon::Impl::end_workers() {
  host_->stop();
  const auto end = std::chrono::steady_clock::now() + kEndTime;
  std::vector<unsigned> running(host_->workers());
  std::iota(running.begin(), running.end(), 0u);
  for (;;) {
    std::erase_if(running, [this](unsigned w) { return !eal_->running(w); });
    if (running.empty()) break;
    if (std::chrono::steady_clock::now() >= end) leave_without(running);
    std::this_thread::sleep_for(kLookAgain);
  }
  for (unsigned w = 0; w < host_->workers(); ++w) eal_->join(w);
}

/// No other way out is safe: a thread inside a device's call cannot be ended by another, and when
/// the call returns it goes on with ports, buffers and tables. Whoever returned from here would
/// free them, close devices under it and run destructors of statics; DPDK's own end waits for its
/// threads. Only the kernel ends all threads at once, and it takes back all that the process had.
void Daemon::Impl::leave_without(const std::vector<unsigned>& stuck) {
  for (const unsigned w : stuck) {
    std::string ports;
    for (const PortPlan& port : plan_.ports) {
      if (host_->holder(port.port).value() != w) continue;
      ports += (ports.empty() ? "" : ",") + port.name;
    }
    log_.error("worker does not end: leaving without tidying up; look at its ports' devices",
               {{"worker", w}, {"ports", ports}});
  }
  _exit(kStuck);
}

void Daemon::Impl::stop() {
  if (std::exchange(stopping_, true)) return;
  if (auto told = sd_notify("STOPPING=1"); !told) {
    log_.warning("stop not told", {{"error", told.error().message}});
  }
  io_.stop();
  if (working_) {
    close_links();
    if (server_ != nullptr) server_->close();  // after CLOSE has gone to the holders of slots
    end_workers();
    working_ = false;
    while (host_->dispatch([this](const Event& event) { handle(event); })) {
    }
    log_final(plan_, *host_, clock_.now(), log_);
  }
  error_code ignored;
  workers_.close(ignored);
  interfaces_.close(ignored);
  server_.reset();
  target_.reset();
  host_.reset();
  media_.reset();
  reload_.reset();
  own_pools_.clear();
  receive_pool_.reset();
  eal_.reset();
}

// --- outside ---

Daemon::Daemon(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::start(Plan plan, std::string version, Log& log,
                                              std::function<Result<Plan>(const Host&)> load) {
  auto impl = std::make_unique<Impl>(std::move(plan), std::move(version), log, std::move(load));
  if (auto started = impl->start(); !started) return started.error();
  return std::unique_ptr<Daemon>(new Daemon(std::move(impl)));
}

void Daemon::run() {
  impl_->run();
}

}  // namespace mtl::switchd
