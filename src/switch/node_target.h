#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/target.h"
#include "phy/dpdk/mbuf_pool.h"
#include "runtime/clock.h"
#include "switch/balance.h"
#include "switch/capture_host.h"
#include "switch/config/node_config.h"
#include "switch/echo_book.h"
#include "switch/log.h"
#include "switch/media/media.h"
#include "switch/node_host.h"
#include "switch/state_message.h"

namespace mtl::switchd {

/// What the control API does to a running node. On the control thread; asks the workers by commands
/// and answers when they have replied. Knows no event loop: whoever owns it calls tick() when due.
class NodeTarget final : public control::Target {
 public:
  struct Parts {
    const Plan& plan;
    std::string version;
    NodeHost& host;
    Media& media;
    const runtime::Clock& clock;
    std::function<std::vector<phy::MbufPool*>()> pools;  ///< all of the node, for showing
    /// Of a port that is being removed, what it waits for; empty: it is not.
    std::function<std::string(PortId)> leaving;
    /// Whether ports or routes of a new configuration are being put in place.
    std::function<bool()> reloading;
    /// Reads the configuration file anew.
    std::function<void(const mtlink::control::Reload&, control::Answer<mtlink::control::Reloaded>)>
        reload;
    Log& log;
    /// next_deadline() may have come nearer.
    std::function<void()> rearm;
  };

  /// What the parts refer to outlives the target.
  explicit NodeTarget(Parts parts);

  // control::Target
  void get_node(control::Answer<mtlink::control::NodeState> answer) override;
  void ping(const mtlink::control::Ping& call,
            control::Answer<mtlink::control::PingResult> answer) override;
  void trace(const mtlink::control::Trace& call,
             control::Answer<mtlink::control::TraceHop> answer) override;
  void set_port(const mtlink::control::SetPort& call, control::Answer<void> answer) override;
  void move_port(const mtlink::control::MovePort& call,
                 control::Answer<mtlink::control::Moved> answer) override;
  void balance_workers(const mtlink::control::BalanceWorkers& call,
                       control::Answer<mtlink::control::Balanced> answer) override;
  void set_impairment(const mtlink::control::SetImpairment& call,
                      control::Answer<void> answer) override;
  void set_rate(const mtlink::control::SetRate& call, control::Answer<void> answer) override;
  void set_measuring(const mtlink::control::SetMeasuring& call,
                     control::Answer<void> answer) override;
  void set_routes(const mtlink::control::SetRoutes& call, control::Answer<void> answer) override;
  void reload(const mtlink::control::Reload& call,
              control::Answer<mtlink::control::Reloaded> answer) override;
  void claim_slot(const mtlink::control::ClaimSlot& call,
                  control::Answer<control::SlotClaim> answer) override;
  void slot_released(PortId port) override;
  control::CaptureId capture(const mtlink::control::Capture& call, Fd memory,
                             control::Answer<mtlink::control::CaptureGrant> answer) override;
  void capture_ended(control::CaptureId capture) override { capture_.end(capture); }

  /// Which share of the last interval a worker was busy.
  double busy(std::size_t worker) const { return load_.workers[worker]; }
  /// Workers that ended no pass in that interval and did not sleep.
  std::vector<std::size_t> stuck() const;
  /// Replaces the routes; `done` when all workers go by them.
  void publish(network::RouteTable table, std::function<void()> done);
  /// The plan has other ports now: nothing is known of the former ones of these numbers.
  void ports_changed(const std::vector<PortId>& ports);

  /// To be called once a second or oftener: measures how busy the workers are, and, if the
  /// configuration says so, moves a port now and then.
  void sample(Time now);
  /// A worker told of an echo for this node.
  void echo(const Event& event);
  /// Ends what is overdue and frees what is free.
  void tick(Time now);
  /// When tick() has something to do; kNever: never.
  Time next_deadline(Time now) const;

 private:
  struct TraceRun;
  using Send = std::function<void(const Result<EchoOutcome>&)>;

  void tell_waiting() { parts_.host.expect_echoes(echoes_.waiting()); }
  void send_echo(EchoRequest request, Duration timeout, Send done);
  void trace_hop(const std::shared_ptr<TraceRun>& run);
  void fill(const std::vector<ShardReading>& readings, mtlink::control::NodeState& out) const;
  void fill_memory(const std::vector<ShardReading>& readings,
                   mtlink::control::NodeState& out) const;
  void fill_trunks(const std::vector<ShardReading>& readings,
                   mtlink::control::NodeState& out) const;
  PortFacts facts(PortId port) const;
  std::vector<PortId> moved_with(PortId port) const;
  std::vector<PortGroup> groups() const;
  std::vector<ShardId> owners() const;
  WorkCounts work_counts(Time now) const;
  void balance_now(Time now);
  void log_moved(const std::vector<PortId>& ports, ShardId from, ShardId to);
  Result<void> check_hops(const std::vector<network::Route>& routes) const;
  Result<PortId> known_port(std::uint32_t port) const;
  Result<PortId> free_slot(const mtlink::control::ClaimSlot& call) const;
  mtlink::control::SlotGrant grant(PortId port) const;

  Parts parts_;
  CaptureHost capture_;
  EchoBook echoes_;
  std::vector<bool> claimed_;                           ///< by port
  std::vector<std::optional<phy::PacerConfig>> rates_;  ///< by port, as last set
  std::size_t retired_ = 0;                             ///< route tables that wait to be freed
  Time ticked_{};                                       ///< at the last tick()
  Time started_;
  WorkCounts counted_;           ///< at the last sample
  std::vector<ShardId> owners_;  ///< by port, then
  Load load_;                    ///< between the last two
  bool load_holds_ = false;      ///< no port moved between them
  Time balanced_;                ///< when it was last looked whether a port is to move
  bool balancing_ = false;       ///< such a move is not over
};

}  // namespace mtl::switchd
