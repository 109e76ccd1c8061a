#include "tools/mtreplay/live_session.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <fstream>

#include "conformance/trace_writer.h"
#include "tools/mtreplay/run_delay.h"
#include "tools/printable.h"

namespace mtl::tools {
namespace {

namespace json = boost::json;
using conformance::Input;

/// Between the device's configuration and the trace's time 0.
constexpr Duration kLead = std::chrono::milliseconds(20);
/// What a link may take until it has carrier.
constexpr Duration kTraining = std::chrono::seconds(10);
constexpr std::int64_t kLooks = 2;  // at the device, in a tolerance
/// Less is no stall.
constexpr Duration kNoStall = std::chrono::microseconds(200);

}  // namespace

Result<json::object> ask_ok(StimulusCommand& command, const json::object& line) {
  auto answer = command.ask(line);
  if (!answer) return answer;
  const json::value* ok = answer->if_contains("ok");
  if (ok != nullptr && ok->is_bool() && ok->get_bool()) return answer;
  const json::value* why = answer->if_contains("why");
  const std::string reason =
      why != nullptr && why->is_string() ? std::string(why->get_string()) : "it does not say why";
  return Error{fmt::format("--stimulus-cmd cannot {}: {}", std::string(line.at("do").as_string()),
                           printable(reason))};
}

void take(const conformance::Told& told, const conformance::Trace& trace,
          conformance::Outcome& outcome) {
  if (told.port_drops) {
    outcome.port_drops = *told.port_drops;
    outcome.node_drops = told.node_drops;
  }
  if (!told.deliveries) return;
  outcome.deliveries = *told.deliveries;
  for (std::size_t i = 0; i < outcome.deliveries.size(); ++i) {
    outcome.deliveries[i].at = i < trace.deliveries.size() ? trace.deliveries[i].at : trace.end;
  }
}

bool alive(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(stat, text);
  const std::size_t at = text.rfind(") ");  // behind the name, which may hold anything
  return at != std::string::npos && text[at + 2] != 'Z' && text[at + 2] != 'X';
}

/// A port whose carrier the trace's owner takes away is not looked at.
Result<void> LiveSession::check_carrier() {
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    const auto of_port = [&](const conformance::Stimulus& s) {
      using Do = conformance::Stimulus::Do;
      return s.port.value() == port && (s.what == Do::kCarrierDown || s.what == Do::kCarrierUp);
    };
    if (run_ != nullptr && std::any_of(trace_.stimuli.begin(), trace_.stimuli.end(), of_port)) {
      continue;
    }
    if (auto running = ports_[port]->check_carrier(run_ != nullptr); !running) {
      medium_failed_ = true;
      return running;
    }
  }
  return {};
}

/// A real one may train for some seconds once the device is configured.
Result<void> LiveSession::wait_for_carrier() {
  const Time end = steady_now() + kTraining;
  for (;;) {
    auto carrier = check_carrier();
    if (carrier || steady_now() > end) return carrier;
    medium_failed_ = false;
    if (interrupt_.wait(std::chrono::milliseconds(20))) return Error{"interrupted"};
  }
}

Result<void> LiveSession::play(StimulusCommand* command) {
  if (auto carrier = wait_for_carrier(); !carrier) return carrier;
  for (PacketPort* port : ports_) {
    if (auto discarded = port->discard(); !discarded) return discarded;
  }
  looked_ = steady_now();
  delay_ = pid_ == 0 ? Duration{} : run_delay(pid_);
  run_ = std::make_unique<conformance::LiveRun>(trace_, plan_, options_, looked_ + kLead);
  auto played = play_on(command);
  if (!played) ended_ = steady_now();
  look_at_device();
  return played;
}

Result<void> LiveSession::play_on(StimulusCommand* command) {
  for (;;) {
    ended_ = steady_now();
    if (auto drained = drain(); !drained) return drained;
    look_at_device();
    if (auto carrier = check_carrier(); !carrier) return carrier;
    if (run_->over(ended_)) return {};
    if (run_->ready() && steady_now() >= run_->due()) {
      if (auto acted = act(command); !acted) return acted;
    } else if (!wait()) {
      return Error{"interrupted"};
    }
  }
}

/// Gives the run all frames that have come.
Result<void> LiveSession::drain() {
  for (std::size_t port = 0; port < ports_.size(); ++port) {
    for (;;) {
      auto frame = ports_[port]->receive();
      if (!frame) return frame.error();
      if (!*frame) break;
      run_->received(PortId{static_cast<std::uint16_t>(port)}, (*frame)->bytes, (*frame)->at);
    }
  }
  return {};
}

Result<void> LiveSession::act(StimulusCommand* command) {
  const Input& input = *run_->next();
  const Time began = steady_now();
  if (input.frame != nullptr) {
    auto sent = ports_[input.frame->port.value()]->send(run_->frame(began));
    if (!sent) return sent;
  } else {
    conformance::Stimulus stimulus = *input.stimulus;
    stimulus.at =
        Time{stimulus.at.time_since_epoch() / static_cast<std::int64_t>(plan_.time_scale)};
    const auto answer = ask_ok(*command, stimulus_object(stimulus));
    if (!answer) return answer.error();
  }
  run_->done(began, steady_now());
  return {};
}

/// Until something comes, the next thing is due, or the device is to be looked at; false: we are
/// interrupted.
bool LiveSession::wait() {
  const Time now = steady_now();
  Duration left = options_.tolerance / kLooks;
  if (run_->ready()) left = std::clamp(run_->due() - now, Duration{}, left);
  std::vector<pollfd> ready;
  for (const PacketPort* port : ports_) ready.push_back({port->fd(), POLLIN, 0});
  if (interrupt_.wait(std::min<Duration>(left, std::chrono::milliseconds(500)), ready))
    return false;
  // A host that does not run this program when it is time may not run the device either.
  const Time ended = steady_now();
  if (pid_ != 0 && ended - now - left > kNoStall) stalls_.push_back({now + left, ended});
  return true;
}

void LiveSession::look_at_device() {
  if (pid_ == 0) return;
  const Duration delay = run_delay(pid_);
  if (delay - delay_ > kNoStall) stalls_.push_back({looked_, looked_ + (delay - delay_)});
  looked_ = steady_now();
  delay_ = delay;
}

}  // namespace mtl::tools
