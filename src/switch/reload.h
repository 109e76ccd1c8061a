#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "control/target.h"
#include "network/route_table.h"
#include "phy/dpdk/mbuf_pool.h"
#include "switch/config/change_plan.h"
#include "switch/config/node_config.h"
#include "switch/log.h"
#include "switch/media/media.h"
#include "switch/node_host.h"

namespace mtl::switchd {

/// Gives a running node the ports and routes that its configuration file has now (`mtctl reload`).
///
/// First everything that can fail: the file is checked whole and compared with what runs; every
/// worker answers once; then, with no port between two workers, buffers for the new ports are made
/// and their devices opened. An error leaves the node as it was, and so does a worker that does not
/// answer. Then the ports are added, the routes published, and, when every worker goes by these,
/// the links of the ports that go are closed, their devices with them. What came in on such a port
/// may still wait on other links: until it is gone the port is leaving, its number nobody else's,
/// its buffers kept.
///
/// A port that is added has a pool of its own, so that credits stand for buffers that exist; the
/// pool goes with the port. Those from the start share one, which stays.
///
/// On the control thread; knows no event loop: whoever owns it calls tick() when due.
class Reload {
 public:
  /// The file is read by this.
  using Load = std::function<Result<Plan>(const Host&)>;
  struct Parts {
    Plan& plan;  ///< of the running node, with a place for each number that a port may get
    Load load;
    NodeHost& host;
    Media& media;
    std::function<Time()> now;
    Log& log;
    /// Puts a route table in force; the function is called when all workers go by it.
    std::function<void(network::RouteTable, std::function<void()>)> publish;
    /// Which share of its time a worker is busy.
    std::function<double(std::size_t)> busy;
    /// Workers that end no pass.
    std::function<std::vector<std::size_t>()> stuck;
    /// The plan has other ports of these numbers.
    std::function<void(const std::vector<PortId>&)> ports_changed;
    /// A port is no more; the plan still has its name.
    std::function<void(PortId)> port_gone;
    /// A slot is no more: whoever holds it is told.
    std::function<void(PortId)> end_slot;
    /// next_deadline() may have come nearer.
    std::function<void()> rearm;
    std::size_t buffers = 0;  ///< of the node's pools, without those of ports that were added
  };

  /// What the parts refer to outlives it, but for the destructor, which is to come last: then all
  /// buffers are back.
  explicit Reload(Parts parts) : parts_(std::move(parts)) {}
  Reload(const Reload&) = delete;
  Reload& operator=(const Reload&) = delete;

  void reload(const mtlink::control::Reload& call,
              control::Answer<mtlink::control::Reloaded> answer);
  /// Whether one is under way.
  bool under_way() const { return run_ != nullptr; }
  /// None begins any more, nor does one that waits for workers.
  void stop();
  /// What a port waits for that is being removed; empty: it is not.
  std::string leaving(PortId port) const;
  /// The pools of ports that were added.
  std::vector<phy::MbufPool*> pools() const;

  /// Time that passes between two of these is time that workers had to answer in, unless it is so
  /// much that this thread was away.
  void tick(Time now);
  /// kNever: never.
  Time next_deadline(Time now) const;

 private:
  /// Ports that share a pool, or had it.
  struct Pool {
    std::vector<PortId> ports;  ///< empty: it goes when all buffers are back
    std::unique_ptr<phy::MbufPool> pool;
  };
  struct Count;
  /// A port on its way out.
  struct Leaving {
    PortId port;
    bool closed = false;  ///< its device is closed
    bool asked = false;   ///< a worker has been asked whether it is settled
  };
  struct Run;

  Result<void> prepare(Run& run);
  Result<void> check_leaving(const Plan& next, const PlanChange& change) const;
  phy::MbufPoolConfig pool_config(const Plan& next, const std::vector<PortId>& ports,
                                  std::uint32_t room) const;
  std::size_t most_buffers(const Run& run) const;
  void begin(const std::shared_ptr<Run>& run);
  void refuse(Run& run, const Error& error);
  Result<void> open(Run& run);
  Result<phy::MbufPool*> make_pool(const Plan& next, const std::vector<PortId>& ports,
                                   std::uint32_t room);
  void forget_pools(const std::vector<PortId>& ports);
  void free_pools();
  void free_whole(const Count& count);
  void take_over(Run& run);
  void add_ports(const std::shared_ptr<Run>& run);
  void publish(const std::shared_ptr<Run>& run);
  void close_links(const std::shared_ptr<Run>& run);
  void wait_for_close(const std::shared_ptr<Run>& run);
  void detach(const std::shared_ptr<Run>& run);
  void close_devices(const std::shared_ptr<Run>& run);
  void closed(Run& run);
  void look_whether_settled();
  void gone(PortId port);
  void end_if_done(Time now);
  void allow_for_absence(Time now);
  void give_up_waiting(Time now);
  Error busy() const;
  std::string silent_workers() const;
  std::size_t buffers() const;
  Duration interval() const;

  Parts parts_;
  std::vector<Pool> pools_;
  std::vector<Leaving> leaving_;
  std::shared_ptr<Run> run_;  ///< under way
  bool stopped_ = false;
  bool counting_ = false;  ///< of free buffers, by all workers
  Time looked_{};          ///< at what may have changed: however often it is asked when it is due
  Time here_{};            ///< when this thread was last seen to run, while one is under way
};

}  // namespace mtl::switchd
