#include "switch/reload.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include "phy/dpdk/pci_device.h"
#include "switch/start_log.h"

namespace mtl::switchd {
namespace {

namespace msg = mtlink::control;
using std::chrono::milliseconds;

/// CLOSE has left a port by then, or the port cannot send.
constexpr Duration kCloseTime = milliseconds(300);
/// Until then the answer waits for ports that are leaving.
constexpr Duration kAnswerTime = std::chrono::seconds(5);
/// Between two looks at what a worker is to have done, and at whether buffers are back; while
/// nobody waits for an answer, the second.
constexpr Duration kLookAgain = milliseconds(5);
constexpr Duration kLookLater = std::chrono::seconds(1);
/// While an answer is waited for, this thread is seen to run so often; after as long as the second
/// it was away.
constexpr Duration kSeenHere = milliseconds(200);
constexpr Duration kAway = milliseconds(500);
/// When the time is over, for what has been said and not been looked at.
constexpr Duration kLastLook = milliseconds(500);
/// Workers that are as busy as one another to a tenth get ports by turns.
constexpr double kBusyStep = 10;

void add_ports_of(const std::vector<PortId>& ports, const Plan& plan,
                  google::protobuf::RepeatedPtrField<msg::Reloaded::Port>& out) {
  for (const PortId port : ports) {
    msg::Reloaded::Port& one = *out.Add();
    one.set_port(port.value());
    one.set_name(plan.ports[port.value()].name);
  }
}

}  // namespace

/// One reload, from its being found right to its answer.
struct Reload::Run {
  Plan next;
  PlanChange change;
  std::optional<network::RouteTable> table;
  control::Answer<msg::Reloaded> answer;
  msg::Reloaded told;
  bool begun = false;      ///< from then on nothing fails
  bool answered = false;   ///< before it was done
  std::size_t left = 0;    ///< commands that a step waits for
  bool closing = false;    ///< links say CLOSE
  bool asked = false;      ///< whether they have
  bool all_told = true;    ///< what came of asking
  Time close_by = kNever;  ///< then they need not
  Time answer_by = kNever;
  bool last_look = false;  ///< that time was over once
  bool done = false;       ///< but for ports that are leaving

  void wait_from(Time now) {
    answer_by = now + kAnswerTime;
    last_look = false;
  }
};

// --- what can fail ---

Result<void> Reload::check_leaving(const Plan& next, const PlanChange& change) const {
  for (const PortId id : change.added) {
    const PortPlan& port = next.ports[id.value()];
    for (const Leaving& going : leaving_) {
      const PortPlan& former = parts_.plan.ports[going.port.value()];
      if (former.port != id && former.name != port.name) continue;
      return Error{fmt::format(
          "port {} ({}) cannot be added yet: port {} ({}) {}; try again when it has gone, or take "
          "another number and name",
          id.value(), port.name, former.port.value(), former.name, leaving(former.port))};
    }
    const auto* ethdev = std::get_if<EthdevDevice>(&port.device);
    if (ethdev == nullptr || !phy::is_pci_device(ethdev->devargs)) continue;
    return Error{fmt::format(
        "port {} ({}) is on {}, a NIC, and DPDK looks for these at its start alone: restart "
        "mtswitchd",
        id.value(), port.name, ethdev->devargs)};
  }
  return {};
}

Result<void> Reload::open(Run& run) {
  const Plan& next = run.next;
  auto opened = parts_.media.add(next, run.change.added,
                                 [&](const std::vector<PortId>& ports, std::uint32_t room) {
                                   return make_pool(next, ports, room);
                                 });
  if (!opened) forget_pools(run.change.added);
  return opened;
}

phy::MbufPoolConfig Reload::pool_config(const Plan& next, const std::vector<PortId>& ports,
                                        std::uint32_t room) const {
  const auto workers = static_cast<std::uint32_t>(parts_.host.workers());
  phy::MbufPoolConfig config;
  config.count = BufferPlan::kCache * workers;
  config.room = std::max(room, room_for(next, ports));
  config.threads = workers;
  config.apart = !next.runtime.huge_pages;
  for (const PortId port : ports) config.count += next.ports[port.value()].buffers;
  return config;
}

/// As many as there can be with the ports that are added, before their pools are made.
std::size_t Reload::most_buffers(const Run& run) const {
  return std::accumulate(run.change.added.begin(), run.change.added.end(), buffers(),
                         [&](std::size_t sum, PortId port) {
                           return sum + phy::MbufPool::size(pool_config(run.next, {port}, 0));
                         });
}

Result<phy::MbufPool*> Reload::make_pool(const Plan& next, const std::vector<PortId>& ports,
                                         std::uint32_t room) {
  auto pool = phy::MbufPool::create(pool_config(next, ports, room));
  if (!pool) return pool.error();
  pools_.push_back({ports, std::move(*pool)});
  return pools_.back().pool.get();
}

/// The ports are closed, or were never opened.
void Reload::forget_pools(const std::vector<PortId>& ports) {
  for (Pool& pool : pools_) {
    std::erase_if(pool.ports, [&](PortId port) {
      return std::find(ports.begin(), ports.end(), port) != ports.end();
    });
  }
  free_pools();
}

/// What every thread says of its share of the pools, one after another.
struct Reload::Count {
  std::vector<phy::MbufPool*> pools;
  std::vector<std::uint64_t> free;
};

/// Frees the pools whose buffers are all back. A look from here, which may be wrong by what workers
/// are just giving back, tells whether it is worth asking them.
void Reload::free_pools() {
  if (counting_) return;
  const auto count = std::make_shared<Count>();
  for (const Pool& pool : pools_) {
    if (!pool.ports.empty() || pool.pool->free_buffers() < pool.pool->size()) continue;
    count->pools.push_back(pool.pool.get());
    count->free.push_back(pool.pool->in_common() + pool.pool->kept_by_me());
  }
  if (count->pools.empty()) return;
  counting_ = true;
  const auto each = std::make_shared<std::vector<Count>>(parts_.host.workers(), *count);
  parts_.host.post_all(
      [each](ShardHost& host, Time) {
        Count& mine = (*each)[host.id().value()];
        for (std::size_t i = 0; i < mine.pools.size(); ++i) {
          mine.free[i] = mine.pools[i]->kept_by_me();
        }
      },
      [this, count, each] {
        for (const Count& one : *each) {
          for (std::size_t i = 0; i < one.free.size(); ++i) count->free[i] += one.free[i];
        }
        free_whole(*count);
      });
}

void Reload::free_whole(const Count& count) {
  counting_ = false;
  for (std::size_t i = 0; i < count.pools.size(); ++i) {
    if (count.free[i] != count.pools[i]->size()) continue;
    std::erase_if(pools_, [&](const Pool& pool) { return pool.pool.get() == count.pools[i]; });
  }
  parts_.rearm();
}

// --- the steps ---

Result<void> Reload::prepare(Run& run) {
  auto next = parts_.load(host_of(parts_.plan, this_host()));
  if (!next) return next.error();
  auto change = plan_change(parts_.plan, *next, parts_.host.tables().current().routes());
  if (!change) return change.error();
  if (auto free = check_leaving(*next, *change); !free) return free;
  run.next = std::move(*next);
  run.change = std::move(*change);
  add_numbers(run.next, parts_.plan.ports.size());
  auto table = network::RouteTable::build(run.next.routes, run.next.ports.size());
  if (!table) return table.error();
  run.table.emplace(std::move(*table));
  run.told.set_routes(static_cast<std::uint32_t>(run.next.routes.size()));
  for (const std::string& warning : run.next.warnings) run.told.add_warnings(warning);
  add_ports_of(run.change.added, run.next, *run.told.mutable_added());
  add_ports_of(run.change.removed, parts_.plan, *run.told.mutable_removed());
  return Media::check(run.next, run.change.added);
}

void Reload::reload(const msg::Reload& call, control::Answer<msg::Reloaded> answer) {
  if (run_ != nullptr || stopped_) return answer(busy());
  const auto run = std::make_shared<Run>();
  run->answer = std::move(answer);
  auto prepared = prepare(*run);
  if (call.dry_run()) {
    return prepared ? run->answer(std::move(run->told)) : run->answer(prepared.error());
  }
  if (!prepared) return refuse(*run, prepared.error());
  run_ = run;
  here_ = parts_.now();
  run->wait_from(here_);
  // Workers that do not answer are found before anything has changed. For as long as they do not,
  // nothing is kept of what was given up.
  parts_.host.make_room(most_buffers(*run),
                        [this, waits = std::weak_ptr<Run>(run)] { begin(waits.lock()); });
  parts_.rearm();
}

Error Reload::busy() const {
  if (stopped_) return Error{"mtswitchd is stopping: start it again"};
  if (!run_->answered) return Error{"a reload is under way: try again when it has ended"};
  return Error{fmt::format(
      "a reload is under way, and waits for {}: look at the devices of its ports, and try again "
      "when it has ended",
      silent_workers())};
}

void Reload::refuse(Run& run, const Error& error) {
  parts_.log.warning("reload refused", {{"error", error.message}});
  run.answer(error);
}

/// Every worker has answered, and no port is between two of them: what opening devices takes on
/// this thread keeps no link waiting.
void Reload::begin(const std::shared_ptr<Run>& run) {
  if (run == nullptr) return;  // given up
  if (auto opened = open(*run); !opened) {
    run_ = nullptr;
    return refuse(*run, opened.error());
  }
  run->begun = true;
  run->wait_from(parts_.now());
  take_over(*run);
  add_ports(run);
}

void Reload::stop() {
  stopped_ = true;
  if (run_ != nullptr && !run_->begun) run_ = nullptr;
}

/// From here on nothing fails.
void Reload::take_over(Run& run) {
  Plan& plan = parts_.plan;
  std::vector<std::size_t> owned(parts_.host.workers());
  for (const PortPlan& port : plan.ports) {
    if (port.present()) ++owned[parts_.host.owner(port.port).value()];
  }
  std::map<PortId, ShardId> workers;  // by the first of those that have one
  for (const PortId id : run.change.added) {
    const std::size_t i = id.value();
    PortPlan& port = plan.ports[i] = run.next.ports[i];
    network::PortConfig& config = plan.node.ports[i] = run.next.node.ports[i];
    if (!port.mac) config.link.mac = parts_.media.device_mac(id).value_or(config.link.mac);
    if (!port.worker_given) {
      const auto [worker, fresh] = workers.emplace(port.first_of_worker_group, config.shard);
      if (fresh) {
        std::size_t best = 0;
        const auto rank = [&](std::size_t w) {
          return std::pair(static_cast<int>(parts_.busy(w) * kBusyStep), owned[w]);
        };
        for (std::size_t w = 1; w < owned.size(); ++w) {
          if (rank(w) < rank(best)) best = w;
        }
        worker->second = ShardId(static_cast<std::uint8_t>(best));
      }
      config.shard = worker->second;
    }
    ++owned[config.shard.value()];
    log_port(plan, config.link, port, parts_.media.port(id)->traits(), parts_.log);
  }
  for (const PortId id : run.change.removed) {
    leaving_.push_back({id});
    parts_.log.info("port leaves", {{"port", plan.ports[id.value()].name}, {"number", id.value()}});
  }
  for (const std::string& warning : run.next.warnings) parts_.log.warning(warning);
  plan.frames = std::move(run.next.frames);
  plan.file = std::move(run.next.file);
  plan.routes = std::move(run.next.routes);
  plan.peers = std::move(run.next.peers);
  plan.fabric = std::move(run.next.fabric);
  plan.buffers = run.next.buffers;
  plan.memory = run.next.memory;
  plan.warnings = std::move(run.next.warnings);
  parts_.ports_changed(run.change.added);
}

void Reload::add_ports(const std::shared_ptr<Run>& run) {
  run->left = run->change.added.size();
  if (run->left == 0) return publish(run);
  const Time now = parts_.now();
  for (const PortId id : run->change.added) {
    const PortPlan& port = parts_.plan.ports[id.value()];
    ShardHost::MovingPort parts;
    parts.port.medium = parts_.media.port(id);
    if (port.impairment.active()) {
      parts.port.impairment =
          std::make_unique<phy::Impairment>(port.impairment, port.impairment_depth);
    }
    if (port.rate) parts.port.pacer = std::make_unique<phy::Pacer>(*port.rate, now);
    parts_.host.add(parts_.plan.node.ports[id.value()], std::move(parts), port.enabled,
                    [this, run] {
                      if (--run->left == 0) publish(run);
                    });
  }
}

/// The ports are there: whoever reads the new routes sees what they name.
void Reload::publish(const std::shared_ptr<Run>& run) {
  parts_.log.info("routes replaced",
                  {{"routes", run->table->routes().size()},
                   {"deadlock_check", name(deadlock_check(parts_.plan, parts_.plan.routes))}});
  parts_.publish(std::move(*run->table), [this, run] { close_links(run); });
}

/// No table names the ports any more: what is handed back when their links are disabled goes
/// elsewhere.
void Reload::close_links(const std::shared_ptr<Run>& run) {
  const Time now = parts_.now();
  run->wait_from(now);
  run->left = run->change.removed.size();
  if (run->left == 0) {
    run->done = true;
    return end_if_done(now);
  }
  for (const PortId id : run->change.removed) {
    parts_.host.close(id, [this, run] {
      if (--run->left > 0) return;
      run->closing = true;
      run->close_by = parts_.now() + kCloseTime;
      wait_for_close(run);
    });
  }
}

void Reload::wait_for_close(const std::shared_ptr<Run>& run) {
  if (std::exchange(run->asked, true)) return;
  run->left = run->change.removed.size();
  run->all_told = true;
  for (const PortId id : run->change.removed) {
    const auto told = std::make_shared<bool>(false);
    parts_.host.post(
        id, [told, id](ShardHost& host, Time) { *told = host.told(id); },
        [this, run, told] {
          run->all_told = run->all_told && *told;
          if (--run->left > 0) return;
          run->asked = false;
          if (run->all_told || parts_.now() >= run->close_by) return detach(run);
          parts_.rearm();
        });
  }
}

void Reload::detach(const std::shared_ptr<Run>& run) {
  run->closing = false;
  run->left = run->change.removed.size();
  for (const PortId id : run->change.removed) {
    parts_.host.post(
        id, [id](ShardHost& host, Time now) { host.detach(id, now); },
        [this, run] {
          if (--run->left == 0) close_devices(run);
        });
  }
}

/// What other workers passed on for the ports before they saw their links go is taken in before
/// anybody asks whether the ports are settled.
void Reload::close_devices(const std::shared_ptr<Run>& run) {
  parts_.media.remove(run->change.removed);
  for (const PortId id : run->change.removed) parts_.end_slot(id);
  parts_.host.post_all([](ShardHost&, Time) {},
                       [this, run] {
                         parts_.host.post_all([](ShardHost& host, Time now) { host.take_in(now); },
                                              [this, run] { closed(*run); });
                       });
}

void Reload::closed(Run& run) {
  const auto& removed = run.change.removed;
  for (Leaving& going : leaving_) {
    if (std::find(removed.begin(), removed.end(), going.port) != removed.end()) going.closed = true;
  }
  run.done = true;
  look_whether_settled();
  end_if_done(parts_.now());
  parts_.rearm();
}

void Reload::look_whether_settled() {
  for (Leaving& going : leaving_) {
    if (!going.closed || std::exchange(going.asked, true)) continue;
    const auto settled = std::make_shared<bool>(false);
    const PortId id = going.port;
    parts_.host.post(
        id, [settled, id](ShardHost& host, Time) { *settled = host.settled(id); },
        [this, settled, id] {
          if (*settled) return parts_.host.remove(id, [this, id] { gone(id); });
          for (Leaving& other : leaving_) {
            if (other.port == id) other.asked = false;
          }
          parts_.rearm();
        });
  }
}

void Reload::gone(PortId id) {
  std::erase_if(leaving_, [id](const Leaving& going) { return going.port == id; });
  parts_.port_gone(id);
  parts_.log.info("port removed",
                  {{"port", parts_.plan.ports[id.value()].name}, {"number", id.value()}});
  PortPlan none;
  none.port = none.first_on_device = none.first_of_worker_group = id;
  parts_.plan.ports[id.value()] = std::move(none);
  parts_.plan.node.ports[id.value()] = {};
  parts_.plan.node.ports[id.value()].shard = kNoShard;
  forget_pools({id});
  parts_.ports_changed({id});
  end_if_done(parts_.now());
  parts_.rearm();
}

void Reload::end_if_done(Time now) {
  if (run_ == nullptr || !run_->done) return;
  if (!run_->answered && !leaving_.empty() && now < run_->answer_by) return;
  const std::shared_ptr<Run> run = std::exchange(run_, nullptr);
  if (run->answered) return parts_.log.info("reload went on to its end");
  std::vector<PortId> still;
  for (const Leaving& going : leaving_) still.push_back(going.port);
  add_ports_of(still, parts_.plan, *run->told.mutable_leaving());
  run->answer(std::move(run->told));
}

/// While this thread was away the workers may have been, too: all of the process was stopped, or
/// had no CPU.
void Reload::allow_for_absence(Time now) {
  const Duration away = now - std::exchange(here_, now);
  if (run_ != nullptr && away >= kAway) run_->answer_by += away;
}

/// Whoever asked is told what the workers do not do. Not as soon as the time is over: what they
/// have said may wait for this thread, and lead to steps that take them no time.
void Reload::give_up_waiting(Time now) {
  if (run_ == nullptr || run_->done || run_->answered || now < run_->answer_by) return;
  if (!std::exchange(run_->last_look, true)) {
    run_->answer_by = now + kLastLook;
    return;
  }
  run_->answered = true;
  if (run_->begun) {
    const Error error{
        fmt::format("the reload has begun, and waits for {}: it goes on when it answers; look at "
                    "the devices of "
                    "its ports, and mtctl show ports",
                    silent_workers())};
    parts_.log.warning("reload waits", {{"error", error.message}});
    return run_->answer(error);
  }
  const std::shared_ptr<Run> run = std::exchange(run_, nullptr);
  refuse(*run,
         Error{fmt::format("{} did not answer for {} s, so nothing was changed: look at the "
                           "devices of its ports, and try again",
                           silent_workers(),
                           std::chrono::duration_cast<std::chrono::seconds>(kAnswerTime).count())});
}

std::string Reload::silent_workers() const {
  const std::vector<std::size_t> stuck = parts_.stuck();
  if (stuck.empty()) return "a worker";
  return fmt::format("worker{} {}", stuck.size() > 1 ? "s" : "", fmt::join(stuck, ", "));
}

// --- what is known, and time ---

std::string Reload::leaving(PortId port) const {
  for (const Leaving& going : leaving_) {
    if (going.port != port) continue;
    return going.closed ? "is being removed: packets that came in on it wait on other links"
                        : "is being removed: its link closes";
  }
  return {};
}

std::vector<phy::MbufPool*> Reload::pools() const {
  std::vector<phy::MbufPool*> out;
  for (const Pool& pool : pools_) out.push_back(pool.pool.get());
  return out;
}

std::size_t Reload::buffers() const {
  return std::accumulate(pools_.begin(), pools_.end(), parts_.buffers,
                         [](std::size_t sum, const Pool& pool) { return sum + pool.pool->size(); });
}

Duration Reload::interval() const {
  return run_ != nullptr && !run_->answered ? kLookAgain : kLookLater;
}

void Reload::tick(Time now) {
  if (stopped_) return;
  allow_for_absence(now);
  if (now - looked_ >= interval()) {
    looked_ = now;
    if (run_ != nullptr && run_->closing) wait_for_close(run_);
    look_whether_settled();
    free_pools();
  }
  give_up_waiting(now);
  end_if_done(now);
}

Time Reload::next_deadline(Time now) const {
  if (stopped_) return kNever;
  bool looks = run_ != nullptr && run_->closing && !run_->asked;
  for (const Leaving& going : leaving_) looks |= going.closed && !going.asked;
  for (const Pool& pool : pools_) looks |= pool.ports.empty() && !counting_;
  Time next = looks ? looked_ + interval() : kNever;
  if (run_ != nullptr && !run_->answered) {
    next = std::min({next, run_->answer_by, here_ + kSeenHere});
  }
  return std::max(next, now);
}

}  // namespace mtl::switchd
