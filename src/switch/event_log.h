#pragma once

#include <vector>

#include "switch/config/node_config.h"
#include "switch/event.h"
#include "switch/log.h"

namespace mtl::switchd {

/// Log lines of what the workers told about links: up with the peer, down with the reason. A port
/// that flaps is held back after ten lines, to one each ten seconds with the number of those left
/// out.
class EventLog {
 public:
  /// `plan` and `log` outlive it.
  EventLog(const Plan& plan, Log& log);
  void link(const Event& event);
  /// The link of `port` has changed `count` times in all without an event about it.
  void untold(PortId port, std::uint64_t count);
  /// The port goes, its number and name with it: what was held back is told now. `count` as for
  /// untold().
  void forget(PortId port, std::uint64_t count);
  /// Tells of ports whose lines were held back and that are quiet now. About once a second.
  void flush(Time now);

 private:
  static constexpr std::uint32_t kBurst = 10;

  void write(const Event& event, std::uint64_t suppressed);
  void say_untold(std::size_t port);

  const Plan& plan_;
  Log& log_;
  std::vector<LogLimit> limits_;  ///< by port
  std::vector<Event> last_held_;  ///< by port: the newest line that was held back
  std::vector<bool> held_;
  std::vector<std::uint64_t> untold_;       ///< by port, in all
  std::vector<std::uint64_t> untold_said_;  ///< of those, said in a line
};

}  // namespace mtl::switchd
