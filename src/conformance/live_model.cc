#include "conformance/live_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/byte_order.h"
#include "conformance/describe.h"
#include "link/codec.h"

namespace mtl::conformance {
namespace {

constexpr std::size_t kCrcAt = link::kEthernetHeader + 12;
constexpr std::size_t kTxAt = link::kFrameHeader + 16;

constexpr std::array kTimers{&link::Timers::init_interval,  &link::Timers::keepalive_interval,
                             &link::Timers::dead_interval,  &link::Timers::ack_delay,
                             &link::Timers::replay_timeout, &link::Timers::nack_interval,
                             &link::Timers::hold_down};

/// Into a long window one looks so often at most: what it holds, the device's timers, has few
/// steps.
constexpr std::int64_t kMostSteps = 200;

template <class Change>
void change_timers(Trace& trace, Change change) {
  for (TracePort& port : trace.ports) {
    for (Duration link::Timers::*timer : kTimers) change(port.config.link.timers.*timer);
  }
}

Trace stretch(Trace trace, std::uint64_t time_scale) {
  const auto scale = static_cast<std::int64_t>(time_scale);
  const auto stretched = [&](Time at) { return Time{at.time_since_epoch() * scale}; };
  for (TraceFrame& frame : trace.frames) frame.at = stretched(frame.at);
  for (Stimulus& stimulus : trace.stimuli) stimulus.at = stretched(stimulus.at);
  trace.end = stretched(trace.end);
  // Longer than the longest shows in no trace.
  change_timers(trace, [&](Duration& t) { t = std::min(t, kMaxTraceTimer / scale) * scale; });
  return trace;
}

/// What comes one behind the other whatever the way does: the frames of a port, and stimuli.
std::size_t channel(const Input& input) {
  return input.frame == nullptr ? 0 : 1U + input.frame->port.value();
}

bool comes(const Window& arrival) {
  return arrival.latest != kNever;
}

}  // namespace

std::vector<std::byte> without_clock(std::span<const std::byte> frame) {
  std::vector<std::byte> bytes(frame.begin(), frame.end());
  if (bytes.size() < kTxAt + 8) return bytes;
  const unsigned kind = load8(bytes.data() + link::kEthernetHeader) & 0x0FU;
  if (kind != static_cast<unsigned>(link::Kind::kStatus)) return bytes;
  const bool right = load32(bytes.data() + kCrcAt) == right_header_crc(bytes);
  std::memset(bytes.data() + kTxAt, 0, 8);
  store32(bytes.data() + kCrcAt, right ? 0U : 1U);
  return bytes;
}

Result<LiveModel> LiveModel::make(const Trace& trace, std::uint64_t time_scale, Duration margin,
                                  Duration step) {
  LiveModel model(trace, time_scale, margin, step);
  ReplayOptions options;
  options.end = model.end() + margin;
  options.note_order = true;
  const Outcome outcome = run(*model.stretched_, model.inputs_, options);
  const std::vector<Window> all(model.inputs_.size());
  if (auto why = model.unlike(outcome, all)) {
    return Error{"this implementation does not do itself what the trace says: " + *why};
  }
  for (std::size_t i = 0; i < model.inputs_.size(); ++i) {
    model.inputs_[i].after = outcome.sent_before[i];
  }
  for (std::size_t port = 0; port < outcome.sent.size(); ++port) {
    for (std::size_t i = model.due_[port]; i < outcome.sent[port].size(); ++i) {
      const SentFrame& sent = outcome.sent[port][i];
      model.expected_[port].push_back({sent.at, nullptr, conformance::without_clock(sent.bytes)});
    }
  }
  return model;
}

LiveModel::LiveModel(const Trace& trace, std::uint64_t time_scale, Duration margin, Duration step)
    : trace_(&trace),
      stretched_(std::make_unique<Trace>(stretch(trace, time_scale))),
      margin_(margin),
      step_(step),
      inputs_(inputs_of(*stretched_)),
      expected_(trace.ports.size()) {
  for (const TraceFrame& frame : stretched_->frames) {
    if (frame.received) continue;
    const TraceFrame& of = original(frame);
    expected_[frame.port.value()].push_back({frame.at, &of, conformance::without_clock(of.bytes)});
  }
  for (const auto& frames : expected_) due_.push_back(frames.size());
}

/// Runs the core with input i coming at `at(i)`, or later where it must; to the end or `until`,
/// whichever is later.
Outcome LiveModel::run_at(const Trace& trace, const Times& at, Time until) const {
  std::vector<Input> inputs;
  std::vector<Time> last(expected_.size() + 1);
  Time stimulus{};
  Time newest = std::max(end(), until);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    Input input = inputs_[i];
    Time& before = last[channel(input)];
    input.at = before = std::max({at(i), before, stimulus});
    if (input.at == kNever) break;
    if (input.stimulus != nullptr) stimulus = input.at;
    newest = std::max(newest, input.at - inputs_[i].at + end());
    inputs.push_back(std::move(input));
  }
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const Input& a, const Input& b) { return a.at < b.at; });
  ReplayOptions options;
  options.end = newest + margin_;
  return run(trace, inputs, options);
}

std::vector<std::size_t> LiveModel::known(std::span<const Window> arrivals) const {
  const auto first = std::find_if_not(arrivals.begin(), arrivals.end(), comes);
  if (first != arrivals.end()) {
    return inputs_[static_cast<std::size_t>(first - arrivals.begin())].after;
  }
  std::vector<std::size_t> all;
  for (const auto& frames : expected_) all.push_back(frames.size());
  return all;
}

/// Where frames differ from those expected, as far as they are known.
std::optional<std::string> LiveModel::unlike_frames(const Outcome& outcome,
                                                    std::span<const Window> arrivals) const {
  const std::vector<std::size_t> known_here = known(arrivals);
  for (std::size_t port = 0; port < expected_.size(); ++port) {
    const auto& sent = outcome.sent[port];
    for (std::size_t i = 0; i < std::min(known_here[port], due_[port]); ++i) {
      const Expected& expected = expected_[port][i];
      if (i < sent.size() && conformance::without_clock(sent[i].bytes) == expected.without_clock) {
        continue;
      }
      return fmt::format("port {}: {} in the place of frame {}, {}", port,
                         i < sent.size() ? summary(sent[i].bytes) : "nothing",
                         expected.frame->number, summary(expected.frame->bytes));
    }
  }
  return std::nullopt;
}

std::optional<std::string> LiveModel::unlike(const Outcome& outcome,
                                             std::span<const Window> arrivals) const {
  if (auto why = unlike_frames(outcome, arrivals)) return why;
  if (!std::all_of(arrivals.begin(), arrivals.end(), comes)) return std::nullopt;
  for (std::size_t port = 0; port < expected_.size(); ++port) {
    if (outcome.sent[port].size() > due_[port] && outcome.sent[port][due_[port]].at <= end()) {
      return fmt::format("port {}: one frame more, {}", port,
                         summary(outcome.sent[port][due_[port]].bytes));
    }
  }
  for (const Difference& fault : outcome.faults) {
    if (fault.at <= end()) return fault.what;
  }
  const auto same = [](const Delivery& a, const Delivery& b) {
    return a.port == b.port && a.vc == b.vc && a.packet == b.packet;
  };
  const auto& got = outcome.deliveries;
  const auto& told = trace_->deliveries;
  const bool delivered =
      trace_->digest ? got.size() == trace_->digest->count && digest(got) == trace_->digest->sha256
                     : std::equal(got.begin(), got.end(), told.begin(), told.end(), same);
  if (!delivered) return "other packets are delivered, or in another order";
  if (outcome.port_drops != trace_->port_drops || outcome.node_drops != trace_->node_drops) {
    return "other counters";
  }
  return std::nullopt;
}

/// Each pair of inputs is tried either way: those late whose number has a bit set, or not, for each
/// bit. Into a long window one looks step by step.
bool LiveModel::any_of(std::span<const Window> arrivals, Time until,
                       const std::function<bool(const Outcome&)>& is) const {
  const auto try_at = [&](const Times& at) { return is(run_at(*stretched_, at, until)); };
  if (try_at([&](std::size_t i) { return arrivals[i].earliest; })) return true;
  if (try_at([&](std::size_t i) { return arrivals[i].latest; })) return true;
  for (std::size_t bit = 1; bit < inputs_.size(); bit *= 2) {
    for (const bool set : {false, true}) {
      const bool found = try_at([&](std::size_t i) {
        return ((i & bit) != 0) == set ? arrivals[i].latest : arrivals[i].earliest;
      });
      if (found) return true;
    }
  }
  for (std::size_t wide = 0; wide < inputs_.size(); ++wide) {
    if (!comes(arrivals[wide])) continue;
    const Window& window = arrivals[wide];
    const Duration step = std::max(step_, (window.latest - window.earliest) / kMostSteps);
    for (Time at = window.earliest + step; at < window.latest; at += step) {
      for (const bool late : {false, true}) {
        const bool found = try_at([&](std::size_t i) {
          if (i == wide) return at;
          return late ? arrivals[i].latest : arrivals[i].earliest;
        });
        if (found) return true;
      }
    }
  }
  return false;
}

std::optional<std::string> LiveModel::doubt(std::span<const Window> arrivals) const {
  std::optional<std::string> why;
  any_of(arrivals, {}, [&](const Outcome& outcome) {
    why = unlike(outcome, arrivals);
    return why.has_value();
  });
  return why;
}

bool LiveModel::may_send(std::span<const Window> arrivals, PortId port, std::size_t index,
                         std::span<const std::byte> bytes, Time until) const {
  const std::vector<std::byte> wanted = conformance::without_clock(bytes);
  return any_of(arrivals, until, [&](const Outcome& outcome) {
    const auto& sent = outcome.sent[port.value()];
    return index < sent.size() && conformance::without_clock(sent[index].bytes) == wanted;
  });
}

std::optional<std::string> LiveModel::doubt_of_timers(std::span<const Window> arrivals,
                                                      Duration by) const {
  for (Duration link::Timers::*timer : kTimers) {
    Trace longer = *stretched_;
    for (TracePort& port : longer.ports) port.config.link.timers.*timer += by;
    const auto outcome = run_at(longer, [&](std::size_t i) { return arrivals[i].earliest; });
    if (auto why = unlike(outcome, arrivals)) return why;
  }
  return std::nullopt;
}

/// The least and the latest time of each frame at all the times that doubt() tries.
std::optional<std::vector<std::vector<Window>>> LiveModel::windows(std::span<const Window> arrivals,
                                                                   bool rate) const {
  const std::vector<std::size_t> known_here = known(arrivals);
  std::vector<std::vector<Window>> windows(expected_.size());
  for (std::size_t port = 0; port < windows.size(); ++port) {
    windows[port].assign(known_here[port], {kNever, Time{}});
  }
  const auto add = [&](const Outcome& outcome) {
    if (unlike_frames(outcome, arrivals)) return true;
    for (std::size_t port = 0; port < windows.size(); ++port) {
      const auto& sent = outcome.sent[port];
      for (std::size_t i = 0; i < windows[port].size(); ++i) {
        Window& window = windows[port][i];
        if (i < sent.size()) window.earliest = std::min(window.earliest, sent[i].at);
        window.latest = i < sent.size() ? std::max(window.latest, sent[i].at) : kNever;
      }
    }
    return false;
  };
  if (any_of(arrivals, {}, add)) return std::nullopt;
  if (rate) {
    Trace fast = *stretched_;
    Trace slow = *stretched_;
    change_timers(fast, [](Duration& t) { t -= t / kClockRate; });
    change_timers(slow, [](Duration& t) { t += t / kClockRate; });
    if (add(run_at(fast, [&](std::size_t i) { return arrivals[i].earliest; })) ||
        add(run_at(slow, [&](std::size_t i) { return arrivals[i].latest; }))) {
      return std::nullopt;
    }
  }
  for (auto& frames : windows) {  // what comes in none of them is not known to come
    const auto none = std::find_if(frames.begin(), frames.end(),
                                   [](const Window& w) { return w.earliest == kNever; });
    frames.erase(none, frames.end());
  }
  return windows;
}

}  // namespace mtl::conformance
