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
/// Between two looks at what a worker is to have done.
constexpr Duration kLookAgain = milliseconds(5);
/// Likewise, at whether buffers are back.
constexpr Duration kPoolInterval = std::chrono::seconds(1);
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
  std::size_t left = 0;    ///< commands that a step waits for
  bool closing = false;    ///< links say CLOSE
  bool asked = false;      ///< whether they have
  bool all_told = true;    ///< what came of asking
  Time close_by = kNever;  ///< then they need not
  Time answer_by = kNever;
  bool done = false;  ///< but for ports that are leaving
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

Result<phy::MbufPool*> Reload::make_pool(const Plan& next, const std::vector<PortId>& ports,
                                         std::uint32_t room) {
  const auto workers = static_cast<std::uint32_t>(parts_.host.workers());
  phy::MbufPoolConfig config;
  config.count = BufferPlan::kCache * workers;
  config.room = std::max(room, room_for(next, ports));
  config.threads = workers;
  config.apart = !next.runtime.huge_pages;
  for (const PortId port : ports) config.count += next.ports[port.value()].buffers;
  auto pool = phy::MbufPool::create(config);
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
  std::erase_if(pools_, [](const Pool& pool) { return pool.ports.empty() && pool.pool->whole(); });
}

// --- the steps ---

void Reload::reload(const msg::Reload& call, control::Answer<msg::Reloaded> answer) {
  if (run_ != nullptr) return answer(Error{"a reload is under way: try again when it has ended"});
  const auto refuse = [&](const Error& error) {
    parts_.log.warning("reload refused", {{"error", error.message}});
    answer(error);
  };
  const auto run = std::make_shared<Run>();
  auto next = parts_.load();
  if (!next) return refuse(next.error());
  auto change = plan_change(parts_.plan, *next, parts_.host.tables().current().routes());
  if (!change) return refuse(change.error());
  if (auto free = check_leaving(*next, *change); !free) return refuse(free.error());
  run->next = std::move(*next);
  run->change = std::move(*change);
  add_numbers(run->next, parts_.plan.ports.size());
  auto table = network::RouteTable::build(run->next.routes, run->next.ports.size());
  if (!table) return refuse(table.error());
  run->told.set_routes(static_cast<std::uint32_t>(run->next.routes.size()));
  for (const std::string& warning : run->next.warnings) run->told.add_warnings(warning);
  add_ports_of(run->change.added, run->next, *run->told.mutable_added());
  add_ports_of(run->change.removed, parts_.plan, *run->told.mutable_removed());
  if (call.dry_run()) return answer(run->told);
  if (auto opened = open(*run); !opened) return refuse(opened.error());

  run->table.emplace(std::move(*table));
  run->answer = std::move(answer);
  run_ = run;
  take_over(*run);
  parts_.host.make_room(buffers(), [this, run] { add_ports(run); });
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
    parts_.log.info("port removed",
                    {{"port", plan.ports[id.value()].name}, {"number", id.value()}});
  }
  for (const std::string& warning : run.next.warnings) parts_.log.warning(warning);
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
  const Time now = parts_.clock.now();
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
  const Time now = parts_.clock.now();
  run->answer_by = now + kAnswerTime;
  run->left = run->change.removed.size();
  if (run->left == 0) {
    run->done = true;
    return end_if_done(now);
  }
  for (const PortId id : run->change.removed) {
    parts_.host.close(id, [this, run] {
      if (--run->left > 0) return;
      run->closing = true;
      run->close_by = parts_.clock.now() + kCloseTime;
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
          if (run->all_told || parts_.clock.now() >= run->close_by) return detach(run);
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

void Reload::close_devices(const std::shared_ptr<Run>& run) {
  parts_.media.remove(run->change.removed);
  for (const PortId id : run->change.removed) parts_.end_slot(id);
  const auto& removed = run->change.removed;
  for (Leaving& going : leaving_) {
    if (std::find(removed.begin(), removed.end(), going.port) != removed.end()) going.closed = true;
  }
  run->done = true;
  look_whether_settled();
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
  PortPlan none;
  none.port = none.first_on_device = none.first_of_worker_group = id;
  parts_.plan.ports[id.value()] = std::move(none);
  parts_.plan.node.ports[id.value()] = {};
  parts_.plan.node.ports[id.value()].shard = kNoShard;
  forget_pools({id});
  parts_.ports_changed({id});
  end_if_done(parts_.clock.now());
  parts_.rearm();
}

void Reload::end_if_done(Time now) {
  if (run_ == nullptr || !run_->done) return;
  if (!leaving_.empty() && now < run_->answer_by) return;
  const std::shared_ptr<Run> run = std::exchange(run_, nullptr);
  std::vector<PortId> still;
  for (const Leaving& going : leaving_) still.push_back(going.port);
  add_ports_of(still, parts_.plan, *run->told.mutable_leaving());
  run->answer(std::move(run->told));
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

void Reload::tick(Time now) {
  looked_ = now;
  if (run_ != nullptr && run_->closing) wait_for_close(run_);
  look_whether_settled();
  forget_pools({});
  end_if_done(now);
}

Time Reload::next_deadline(Time now) const {
  Time next = kNever;
  if (run_ != nullptr && run_->closing && !run_->asked) next = looked_ + kLookAgain;
  for (const Leaving& going : leaving_) {
    if (going.closed && !going.asked) next = std::min(next, looked_ + kLookAgain);
  }
  for (const Pool& pool : pools_) {
    if (pool.ports.empty()) next = std::min(next, looked_ + kPoolInterval);
  }
  if (run_ != nullptr && run_->done) next = std::min(next, run_->answer_by);
  return std::max(next, now);
}

}  // namespace mtl::switchd
