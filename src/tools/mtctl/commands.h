#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "base/result.h"
#include "control/client.h"
#include "mtlink/control.pb.h"

/// The commands of mtctl. Each writes to Output::out and gives the exit status, 0 or 1; an Error is
/// status 1 too, its text the caller's to print.
namespace mtl::tools {

/// Where and how a command writes.
struct Output {
  std::ostream& out;
  std::ostream& err;      ///< what is told beside, for people
  bool json = false;      ///< -j: one JSON object per line
  bool terminal = false;  ///< out is a terminal: watch redraws in place
  bool colour = false;
};

struct PingOptions {
  mtlink::control::Ping call;
  std::uint64_t count = 0;  ///< 0: until interrupted
  std::chrono::microseconds interval{1'000'000};
};

Result<int> show(control::Client& client, const std::string& view, const Output& output);
/// What to look at first: node, links and drops.
Result<int> show_summary(control::Client& client, const Output& output);
/// `updates` 0: until interrupted or the node goes away.
Result<int> watch(control::Client& client, std::chrono::milliseconds interval,
                  std::uint64_t updates, const Output& output);
/// Status 1 if a ping was not answered.
Result<int> ping(control::Client& client, const PingOptions& options, const Output& output);
/// Status 1 if the node was not reached.
Result<int> trace(control::Client& client, const mtlink::control::Trace& call,
                  const Output& output);
/// All books; with `check` only those that do not balance, and status 1 if there are any.
Result<int> stats(control::Client& client, bool check, const Output& output);
/// `port` is a number or a name.
Result<int> set_port(control::Client& client, const std::string& port, bool up,
                     const Output& output);
/// Says which ports went with it.
Result<int> move_port(control::Client& client, const std::string& port, std::uint32_t worker,
                      const Output& output);
/// Moves ports from busy workers to others and says which; with `dry_run` only that.
Result<int> balance_workers(control::Client& client, bool dry_run, const Output& output);
/// Has the daemon read its configuration file anew, and says which ports came and went; with
/// `dry_run` which would.
Result<int> reload(control::Client& client, bool dry_run, const Output& output);
Result<int> impair(control::Client& client, const std::string& port,
                   const mtlink::config::Impairment& impairment, const Output& output);
/// `rate` nullopt: as fast as it can.
Result<int> set_rate(control::Client& client, const std::string& port,
                     const std::optional<mtlink::config::Rate>& rate, const Output& output);
Result<int> measure_workers(control::Client& client, bool on, const Output& output);
Result<int> set_routes(control::Client& client, const std::string& file, const Output& output);

}  // namespace mtl::tools
