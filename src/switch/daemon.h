#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "switch/config/node_config.h"
#include "switch/log.h"

namespace mtl::switchd {

/// mtswitchd: a node on workers, its devices, and the control API on a socket. One of a process,
/// since DPDK's environment can be started only once. The thread that starts it is the control
/// thread.
class Daemon {
 public:
  /// Exit status of a process that ended although a worker had not.
  static constexpr int kStuck = 3;

  /// Opens everything that `plan` names and starts the workers; the links begin to come up. Errors
  /// say what is missing (interface, capability, memory, driver) and the remedy; nothing is left
  /// behind. `log` outlives the daemon. `version` is told by the control API. `load` reads the
  /// configuration anew, when it is to be taken over while the daemon runs (Reload).
  static Result<std::unique_ptr<Daemon>> start(Plan plan, std::string version, Log& log,
                                               std::function<Result<Plan>(const Host&)> load);
  /// Ends the workers as run() does, if they still run.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  /// Serves until SIGTERM or SIGINT; tells the service manager when it is ready. Then stops: CLOSE
  /// to every peer that is UP. All of that takes less than a second: if a worker has not ended by
  /// then (a call of a device's driver does not return), its ports are named in the log, the
  /// control socket is removed, and the process ends at once with status kStuck.
  void run();

 private:
  class Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mtl::switchd
