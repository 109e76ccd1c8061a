#include "switch/event_log.h"

#include <array>

namespace mtl::switchd {
namespace {

constexpr Duration kInterval = std::chrono::seconds(10);

}  // namespace

EventLog::EventLog(const Plan& plan, Log& log)
    : plan_(plan),
      log_(log),
      limits_(plan.ports.size(), LogLimit(kBurst, kInterval)),
      last_held_(plan.ports.size()),
      held_(plan.ports.size(), false),
      untold_(plan.ports.size()),
      untold_said_(plan.ports.size()) {}

void EventLog::link(const Event& event) {
  const bool up = event.state == link::State::kUp;
  const bool down = event.before == link::State::kUp;
  if (!up && !down) return;  // DOWN to INIT and back says nothing that the next UP does not
  const std::size_t port = event.port.value();
  if (!limits_[port].allow(event.at)) {
    last_held_[port] = event;
    held_[port] = true;
    return;
  }
  held_[port] = false;
  write(event, limits_[port].take_suppressed());
}

void EventLog::untold(PortId port, std::uint64_t count) {
  untold_[port.value()] = count;
}

void EventLog::forget(PortId port, std::uint64_t count) {
  const std::size_t p = port.value();
  untold(port, count);
  if (untold_[p] != untold_said_[p]) say_untold(p);
  if (held_[p]) write(last_held_[p], limits_[p].take_suppressed() - 1);
  held_[p] = false;
  limits_[p] = LogLimit(kBurst, kInterval);
}

void EventLog::say_untold(std::size_t port) {
  log_.warning("link changes too often to tell each; mtctl show links tells how it is",
               {{"port", plan_.ports[port].name},
                {"number", port},
                {"left_out", untold_[port] - untold_said_[port]}});
  untold_said_[port] = untold_[port];
}

void EventLog::flush(Time now) {
  for (std::size_t port = 0; port < limits_.size(); ++port) {
    if (untold_[port] != untold_said_[port] && limits_[port].open(now)) {
      limits_[port].allow(now);
      say_untold(port);
    }
    if (!held_[port] || !limits_[port].open(now)) continue;
    limits_[port].allow(now);
    held_[port] = false;
    // The last one was held back too, and is written now.
    write(last_held_[port], limits_[port].take_suppressed() - 1);
  }
}

void EventLog::write(const Event& event, std::uint64_t suppressed) {
  const bool up = event.state == link::State::kUp;
  std::vector<LogField> fields{{"port", plan_.ports[event.port.value()].name},
                               {"number", event.port.value()}};
  if (up) {
    fields.emplace_back("peer_node", event.peer_node.value());
    fields.emplace_back("peer_port", event.peer_port.value());
  } else {
    fields.emplace_back("reason", link::name(event.reason));
  }
  if (suppressed > 0) fields.emplace_back("left_out", suppressed);
  log_.write(
      up || event.reason == link::DownReason::kDisabled ? LogLevel::kInfo : LogLevel::kWarning,
      up ? "link up" : "link down", fields);
}

}  // namespace mtl::switchd
