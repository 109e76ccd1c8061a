#include "conformance/live.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/byte_order.h"
#include "conformance/describe.h"
#include "link/codec.h"

namespace mtl::conformance {
namespace {

/// No timer is shorter than so many tolerances: else a wrong one would not show.
constexpr std::int64_t kTimerGap = 2;
/// What is done may reach the device late by this part of a tolerance without changing what it
/// does: that is planned for. How late it is done is known; its way takes half of that at most.
constexpr std::int64_t kPlanned = 2;
constexpr std::int64_t kTransit = 4;
/// Behind the end of a trace, so many tolerances are looked at.
constexpr std::int64_t kMargin = 20;
/// After so many tolerances a frame does not come any more.
constexpr std::int64_t kPatience = 2;
/// A stall of this part of a tolerance may change what the device does.
constexpr std::int64_t kStalled = 4;
constexpr std::size_t kTxAt = link::kFrameHeader + 16;

/// The shortest timer that may run in a trace. Without DATA nothing is acknowledged and nothing is
/// missing.
Duration shortest_timer(const Trace& trace) {
  const bool data = std::any_of(trace.frames.begin(), trace.frames.end(), [](const TraceFrame& f) {
    return kind_of(f) == link::Kind::kData;
  });
  Duration shortest = Duration::max();
  for (const TracePort& port : trace.ports) {
    const link::Timers& t = port.config.link.timers;
    shortest = std::min({shortest, t.init_interval, t.keepalive_interval, t.dead_interval,
                         t.replay_timeout, t.hold_down});
    if (data) shortest = std::min({shortest, t.ack_delay, t.nack_interval});
  }
  return shortest;
}

/// The scale behind `scale` of 1, 2, 5, 10, 20 ...
std::uint64_t next_scale(std::uint64_t scale) {
  for (std::uint64_t step = 1;; step *= 10) {
    for (const std::uint64_t times : {1U, 2U, 5U}) {
      if (step * times > scale) return step * times;
    }
  }
}

/// The device's 32-bit clock goes round within the trace, which a clock of another origin does
/// elsewhere.
bool clock_wraps(const Trace& trace) {
  std::vector<std::uint32_t> last(trace.ports.size());
  for (const TraceFrame& frame : trace.frames) {
    if (frame.received || kind_of(frame) != link::Kind::kStatus) continue;
    if (frame.bytes.size() < kTxAt + 4) continue;
    const std::uint32_t t_tx = load32(frame.bytes.data() + kTxAt);
    if (t_tx < last[frame.port.value()]) return true;
    last[frame.port.value()] = t_tx;
  }
  return false;
}

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

double milliseconds(Duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

/// The plan at one scale; the Error: why what the device does is not sure at it.
Result<LivePlan> plan_at(const Trace& trace, std::uint64_t scale, Duration tolerance) {
  const Duration timer = shortest_timer(trace);
  if (timer < kTimerGap * tolerance / static_cast<std::int64_t>(scale)) {
    return Error{fmt::format("a timer of the device takes {} ns", timer.count())};
  }
  auto model = LiveModel::make(trace, scale, kMargin * tolerance, tolerance / kPlanned);
  if (!model) return model.error();
  std::vector<Window> arrivals;
  for (const Input& input : model->inputs()) {
    arrivals.push_back({input.at, input.at + tolerance / kPlanned});
  }
  auto why = model->doubt(arrivals);
  if (!why) why = model->doubt_of_timers(arrivals, tolerance / kPlanned);
  if (why) return Error{"half a tolerance more or less makes another thing right: " + *why};
  if (!model->windows(arrivals, true)) {
    return Error{"clocks that differ by 200 ppm change what the device does"};
  }
  return LivePlan{scale, trace.end.time_since_epoch() * static_cast<std::int64_t>(scale),
                  std::move(*model)};
}

Lateness lateness(std::vector<Duration> all) {
  if (all.empty()) return {};
  std::sort(all.begin(), all.end());
  return {all.size(), all.front(), all[all.size() / 2], all.back()};
}

/// Whether a frame is wrong in what no order of events and no time can make so.
bool timeless(const Difference& difference) {
  static const std::set<std::string_view> kAlways{"EtherType", "version",     "node", "port",
                                                  "mtu",       "vcs",         "cell", "window",
                                                  "zeros",     "capabilities"};
  const auto differs = [&](std::string_view name) {
    return std::any_of(difference.fields.begin(), difference.fields.end(),
                       [&](const FieldDifference& f) { return f.name == name; });
  };
  if (difference.fields.empty() || differs("kind")) return false;
  return std::any_of(difference.fields.begin(), difference.fields.end(),
                     [&](const FieldDifference& f) {
                       if (kAlways.contains(f.name) || f.name.starts_with("capacity[")) return true;
                       if (f.name == "INIT epoch") return !differs("nonce");
                       if (f.name == "padding" || f.name == "frame bytes")
                         return !differs("length") && !differs("peer_nonce");
                       const bool crc = f.name == "header CRC" || f.name == "packet CRC";
                       return crc && f.got.find("WRONG") != std::string::npos &&
                              f.expected.find("WRONG") == std::string::npos;
                     });
}

}  // namespace

link::Kind kind_of(const TraceFrame& frame) {
  if (frame.bytes.size() <= link::kEthernetHeader) return link::Kind::kData;
  return static_cast<link::Kind>(load8(frame.bytes.data() + link::kEthernetHeader) & 0x0FU);
}

Result<LivePlan> plan_live(const Trace& trace, const LiveOptions& options) {
  if (clock_wraps(trace)) {
    return Error{"the device's 32-bit clock goes round in it: that needs virtual time"};
  }
  std::string why;
  for (std::uint64_t scale = options.time_scale.value_or(1);; scale = next_scale(scale)) {
    const double length = seconds(trace.end.time_since_epoch()) * static_cast<double>(scale);
    if (length > seconds(options.longest)) {
      return Error{fmt::format(
          "would take {:.0f} s at time scale {}{}; the longest allowed is {:g} s", length, scale,
          why.empty() ? "" : ", and less will not do: " + why, seconds(options.longest))};
    }
    auto plan = plan_at(trace, scale, options.tolerance);
    if (plan) return plan;
    why = plan.error().message;
    if (!options.time_scale) continue;
    return Error{
        fmt::format("{}: with a tolerance of {:g} s that needs a greater time scale than {}", why,
                    seconds(options.tolerance), scale)};
  }
}

LiveRun::LiveRun(const Trace& trace, const LivePlan& plan, const LiveOptions& options, Time start)
    : trace_(trace),
      plan_(plan),
      tolerance_(options.tolerance),
      start_(start),
      binding_(trace, options.tolerance, options.ether_type),
      sent_(trace.ports.size()) {}

const Input* LiveRun::next() const {
  const auto& inputs = plan_.model.inputs();
  return done_.size() < inputs.size() ? &inputs[done_.size()] : nullptr;
}

bool LiveRun::ready() const {
  const Input* input = next();
  if (input == nullptr) return false;
  for (std::size_t port = 0; port < sent_.size(); ++port) {
    if (sent_[port].size() < input->after[port]) return false;
  }
  return true;
}

/// When the schedule has a time of the plan.
Time LiveRun::wall(Time at) const {
  return start_ + at.time_since_epoch() + paused_;
}

/// What should have come at a time of the plan does not come any more: all that was late is
/// granted.
Time LiveRun::deadline(Time at, Time now) const {
  return wall(at) + most_late_ + (now - start_) / kClockRate + kPatience * tolerance_;
}

Time LiveRun::due() const {
  const Input* input = next();
  return wall(input == nullptr ? plan_.model.end() : input->at);
}

void LiveRun::done(Time began, Time ended) {
  const bool stimulus = next()->stimulus != nullptr;
  inputs_late_.push_back((stimulus ? began : ended) - due());
  most_late_ = std::max(most_late_, inputs_late_.back());
  done_.push_back({began, ended});
  if (stimulus) paused_ += ended - began;
}

const LiveModel::Expected* LiveRun::expected(std::size_t port, std::size_t index) const {
  const auto& frames = plan_.model.expected()[port];
  return index < frames.size() ? &frames[index] : nullptr;
}

/// The schedule waits for frames of the device, too: what comes later keeps its distance.
void LiveRun::received(PortId port, std::span<const std::byte> frame, Time at) {
  const bool waited = next() != nullptr && !ready();
  take(port, frame, at);
  if (waited && ready()) paused_ += std::max(at - due(), Duration{});
}

void LiveRun::take(PortId port, std::span<const std::byte> frame, Time at) {
  auto& sent = sent_[port.value()];
  const LiveModel::Expected* wanted = expected(port.value(), sent.size());
  const TraceFrame* of = wanted == nullptr ? nullptr : wanted->frame;
  std::vector<std::byte> bytes = binding_.from_device(port, frame, at, of);
  const bool same = of != nullptr
                        ? bytes == of->bytes
                        : wanted != nullptr && without_clock(bytes) == wanted->without_clock;
  differs_ = differs_ || !same;
  const bool but_for_clock =
      wanted != nullptr && !same && without_clock(bytes) == wanted->without_clock;
  const Duration off = but_for_clock ? binding_.clock_off() : Duration{};
  sent.push_back({at, std::move(bytes), same, off});
}

/// A port whose frame, that next() or the end waits for, does not come any more.
std::optional<std::size_t> LiveRun::missing(Time now) const {
  const Input* input = next();
  for (std::size_t port = 0; port < sent_.size(); ++port) {
    const std::size_t needed = input == nullptr ? plan_.model.due(port) : input->after[port];
    const std::size_t index = sent_[port].size();
    if (index < needed && now > deadline(expected(port, index)->at, now)) return port;
  }
  return std::nullopt;
}

bool LiveRun::over(Time now) const {
  if (differs_ || missing(now)) return true;
  return next() == nullptr && now > deadline(plan_.model.end(), now);
}

Outcome LiveRun::outcome() const {
  Outcome outcome;
  outcome.deliveries = trace_.deliveries;
  outcome.port_drops = trace_.port_drops;
  outcome.node_drops = trace_.node_drops;
  return outcome;
}

/// When an input reached the device, by the plan's clock. A stimulus did within the time that its
/// command took; what the device sends at once upon it tells more.
Window LiveRun::arrival(std::size_t input, Duration transit) const {
  const auto plan_time = [&](Time at) { return Time{at - start_}; };
  Window window{plan_time(done_[input].began), plan_time(done_[input].ended)};
  const auto& inputs = plan_.model.inputs();
  const Input& of = inputs[input];
  if (of.stimulus != nullptr) {
    for (std::size_t port = 0; port < sent_.size(); ++port) {
      const std::size_t index = of.after[port];
      const bool later = input + 1 < inputs.size() && inputs[input + 1].after[port] <= index;
      if (later || index >= sent_[port].size() || index >= plan_.model.due(port)) continue;
      if (expected(port, index)->at != of.at) continue;
      const Time came = plan_time(sent_[port][index].at);
      if (came < window.earliest || came > window.latest + tolerance_) continue;
      window.latest = std::min(window.latest, came);
      window.earliest = std::max(window.earliest, window.latest - tolerance_ / kPlanned);
    }
  }
  window.latest += transit;
  return window;
}

/// Of the first `count` inputs; the others do not come.
std::vector<Window> LiveRun::arrivals(std::size_t count, Duration transit) const {
  std::vector<Window> windows(plan_.model.inputs().size(), Window{kNever, kNever});
  for (std::size_t i = 0; i < count; ++i) windows[i] = arrival(i, transit);
  return windows;
}

/// How many inputs came as late as was planned for at most; `why` no more.
std::size_t LiveRun::count_kept(std::string& why) const {
  const Duration planned = tolerance_ / kPlanned;
  for (std::size_t i = 0; i < done_.size(); ++i) {
    if (inputs_late_[i] <= planned) continue;
    why = fmt::format("{} was done {:.1f} ms late", what(i), milliseconds(inputs_late_[i]));
    return i;
  }
  const auto first = first_unlike();
  if (first && next() != nullptr && ready_before(*first) && *first - due() > planned) {
    why = fmt::format("{} was not done {:.1f} ms after its time", what(done_.size()),
                      milliseconds(*first - due()));
  }
  return done_.size();
}

/// How many inputs came so that it is sure what the device does; `why` no more, where there are
/// more.
std::size_t LiveRun::longest_sure(std::string& why) const {
  const std::size_t kept = count_kept(why);
  const auto doubt = [&](std::size_t count) {
    return plan_.model.doubt(arrivals(count, tolerance_ / kTransit));
  };
  const auto all = doubt(kept);
  if (!all) return kept;
  Duration longest{};  // of a stimulus of which nothing tells when it was done
  for (std::size_t i = 0; i < kept; ++i) {
    const Window window = arrival(i, {});
    longest = std::max(longest, window.latest - window.earliest);
  }
  why = fmt::format(
      "at the times at which inputs were done, of which a stimulus took {:.1f} ms, it may do "
      "otherwise: {}",
      milliseconds(longest), *all);
  std::size_t sure = 0;
  for (std::size_t unsure = kept; unsure > sure + 1;) {
    const std::size_t middle = sure + (unsure - sure) / 2;
    (doubt(middle) ? unsure : sure) = middle;
  }
  return sure;
}

/// An input, for a message.
std::string LiveRun::what(std::size_t input) const {
  const Input& of = plan_.model.inputs()[input];
  if (of.frame == nullptr) {
    return fmt::format("\"{}\" on port {}", name(of.stimulus->what), of.stimulus->port.value());
  }
  return fmt::format("frame {}", plan_.model.original(*of.frame).number);
}

std::optional<Time> LiveRun::first_unlike() const {
  std::optional<Time> first;
  for (const auto& sent : sent_) {
    for (const Sent& one : sent) {
      if (!one.same && (!first || one.at < *first)) first = one.at;
    }
  }
  return first;
}

/// Whether next() could have been done before `at`.
bool LiveRun::ready_before(Time at) const {
  for (std::size_t port = 0; port < sent_.size(); ++port) {
    const auto before = std::count_if(sent_[port].begin(), sent_[port].end(),
                                      [&](const Sent& sent) { return sent.at < at && sent.same; });
    if (static_cast<std::size_t>(before) < next()->after[port]) return false;
  }
  return true;
}

/// The first of each port.
std::vector<LiveRun::Fault> LiveRun::find_faults(const Windows& windows, Time now) const {
  std::vector<Fault> faults;
  const bool complete = next() == nullptr && !differs_;
  const auto overdue = missing(now);
  for (std::size_t port = 0; port < sent_.size(); ++port) {
    const PortId id{static_cast<std::uint16_t>(port)};
    const std::size_t before = faults.size();
    for (std::size_t i = 0; i < sent_[port].size() && faults.size() == before; ++i) {
      const Sent& sent = sent_[port][i];
      const bool timed = i < windows[port].size();
      const bool extra = i >= plan_.model.due(port);
      if (!sent.same || (extra && complete && !timed)) {
        faults.push_back({id, i, sent.at, sent.clock_off});
      } else if (timed) {
        const Time at{sent.at - start_};
        const Window& window = windows[port][i];
        const Duration early = at - window.earliest + tolerance_;
        if (early < Duration{}) faults.push_back({id, i, sent.at, early});
        if (window.latest == kNever || extra) continue;
        const Duration late = at - window.latest - tolerance_;
        if (late > Duration{}) faults.push_back({id, i, sent.at - late, late});
      }
    }
    if (faults.size() != before || sent_[port].size() >= plan_.model.due(port)) continue;
    if (complete || overdue == port) faults.push_back({id, sent_[port].size(), now, {}});
  }
  return faults;
}

/// What the ports sent, up to and with what differs; where nothing does, as in the trace.
std::vector<std::vector<SentFrame>> LiveRun::told(const std::vector<Fault>& faults) const {
  std::vector<std::vector<SentFrame>> told(sent_.size());
  for (std::size_t port = 0; port < sent_.size(); ++port) {
    const auto fault = std::find_if(faults.begin(), faults.end(),
                                    [&](const Fault& f) { return f.port.value() == port; });
    const std::size_t right = fault == faults.end() ? plan_.model.due(port) : fault->index;
    for (std::size_t i = 0; i < std::min(right, plan_.model.due(port)); ++i) {
      const TraceFrame& frame = *expected(port, i)->frame;
      told[port].push_back({frame.at, frame.bytes});
    }
    if (fault == faults.end() || fault->index >= sent_[port].size()) continue;
    const Sent& sent = sent_[port][fault->index];
    const auto scale = static_cast<std::int64_t>(plan_.time_scale);
    Time at{std::max((sent.at - start_ - paused_) / scale, Duration{})};
    const LiveModel::Expected* wanted = expected(port, fault->index);
    if (wanted != nullptr && wanted->frame != nullptr) {
      // Late by that beyond the tolerance, too; and told apart however short a step of the trace's
      // time is.
      const bool timed = sent.same && fault->beyond != Duration{};
      const Duration grace = fault->beyond < Duration{} ? -tolerance_ : tolerance_;
      Duration off = timed ? (fault->beyond + grace) / scale : Duration{};
      if (timed && off == Duration{}) off = Duration{fault->beyond < Duration{} ? -1 : 1};
      at = std::max(wanted->frame->at + off, Time{});
    }
    told[port].push_back({at, sent.bytes});
  }
  return told;
}

void LiveRun::measure(const Windows& windows) {
  std::vector<Duration> late;
  for (std::size_t port = 0; port < sent_.size(); ++port) {
    const std::size_t frames =
        std::min({sent_[port].size(), windows[port].size(), plan_.model.due(port)});
    for (std::size_t i = 0; i < frames; ++i) {
      const Window& window = windows[port][i];
      if (window.latest == kNever) continue;
      late.push_back(Time{sent_[port][i].at - start_} - window.latest);
      if (window.latest - window.earliest > tolerance_) ++untimed_;
    }
  }
  frames_late_ = lateness(std::move(late));
}

/// Whether stalls explain what showed at `fault`: they make nothing early, nothing later than they
/// took, no clock further off, and of what is sent only what a right device sends whose timers or
/// inputs were so late.
bool LiveRun::stalled(const Fault& fault, std::span<const Stall> stalls) const {
  Duration all{};
  for (const Stall& stall : stalls) {
    const Duration took = stall.to - stall.from;
    if (stall.from < fault.at && took > tolerance_ / kStalled) all += took;
  }
  if (fault.beyond < Duration{} || all <= fault.beyond) return false;
  const auto& sent = sent_[fault.port.value()];
  const bool content = fault.beyond == Duration{} && fault.index < sent.size();
  return !content || may_be(fault, stalls);
}

/// Whether a right device may send a frame that differs, where what came before a stall may have
/// reached it earlier or later than it seems, by what the stalls took from there to the fault.
bool LiveRun::may_be(const Fault& fault, std::span<const Stall> stalls) const {
  const std::size_t port = fault.port.value();
  const std::vector<std::byte>& bytes = sent_[port][fault.index].bytes;
  const LiveModel::Expected* wanted = expected(port, fault.index);
  // A frame of the trace that is right but for its clock is nobody else's.
  if (wanted != nullptr && wanted->frame != nullptr &&
      wanted->without_clock == without_clock(bytes)) {
    return false;
  }
  std::vector<Window> windows = arrivals(done_.size(), tolerance_ / kTransit);
  for (std::size_t i = 0; i < done_.size(); ++i) {
    Duration by{};
    for (const Stall& stall : stalls) {
      if (stall.to > done_[i].began && stall.from < fault.at) by += stall.to - stall.from;
    }
    windows[i].earliest = std::max(windows[i].earliest - by, Time{});
    windows[i].latest += by;
  }
  return plan_.model.may_send(windows, fault.port, fault.index, bytes,
                              Time{fault.at - start_ + tolerance_});
}

/// Whether a frame is right before the next input, or behind the last one: the schedule stood
/// still, timers of the device did not.
bool LiveRun::overtaken(const Fault& fault) const {
  const std::size_t port = fault.port.value();
  if (fault.index >= sent_[port].size()) return false;
  const bool extra = fault.index >= plan_.model.due(port);
  return (next() != nullptr || extra) && may_be(fault, {});
}

LiveVerdict LiveRun::verdict(const Outcome& outcome, bool deliveries_known,
                             std::span<const Stall> stalls, Time now) {
  LiveVerdict verdict;
  std::string doubt;
  std::size_t sure = longest_sure(doubt);
  untimed_ = 0;
  const auto windows = plan_.model.windows(arrivals(sure, {}), true);
  const auto exact = plan_.model.windows(arrivals(sure, {}), false);
  if (!windows || !exact) {
    verdict.kind = LiveVerdict::Kind::kInconclusive;
    verdict.why = "clocks that differ by 200 ppm change what the device does";
    return verdict;
  }
  measure(*exact);
  const std::vector<Fault> faults = find_faults(*windows, now);
  Trace expected_here = trace_;
  if (!deliveries_known) expected_here.digest.reset();
  Outcome got = outcome;
  got.sent = told(faults);
  verdict.differences = compare(expected_here, got);
  if (!faults.empty()) {  // and so the run was not done to its end, or is not to be counted on
    std::erase_if(verdict.differences, [](const Difference& d) {
      return d.kind == Difference::Kind::kDelivery || d.kind == Difference::Kind::kCounter;
    });
  }
  if (verdict.differences.empty()) {
    if (!doubt.empty()) verdict.kind = LiveVerdict::Kind::kInconclusive;
    verdict.untimed = untimed_;
    verdict.why = std::move(doubt);
    return verdict;
  }
  const std::vector<std::size_t> known = plan_.model.known(arrivals(sure, {}));
  bool excused = false;  // what follows from what is excused is so, too
  for (const Difference& d : verdict.differences) {
    Fault fault{d.port.value_or(PortId{0}), 0, now, {}};
    for (const Fault& f : faults) {
      if (f.port == d.port) fault = f;
    }
    const bool unsure = !doubt.empty() && (d.kind != Difference::Kind::kFrame ||
                                           fault.index >= known[fault.port.value()]);
    if (!timeless(d) && doubt.empty() && overtaken(fault)) {
      doubt = fmt::format(
          "the schedule stood still for {:.1f} ms, for stimuli and frames of the device, whose "
          "timers "
          "did not",
          milliseconds(paused_));
    }
    if (!timeless(d) && doubt.empty() && stalled(fault, stalls)) {
      doubt = "the device was kept from running, which explains it";
    }
    excused = !timeless(d) && !doubt.empty() &&
              (excused || unsure || overtaken(fault) || stalled(fault, stalls));
    if (!excused) {
      verdict.kind = LiveVerdict::Kind::kDiffers;
      return verdict;
    }
  }
  verdict.kind = LiveVerdict::Kind::kInconclusive;
  verdict.why =
      doubt.empty() ? "it was kept from running, or waited for, for longer than its timers" : doubt;
  verdict.why += "; " + verdict.differences.front().what;
  return verdict;
}

Lateness LiveRun::inputs_late() const {
  return lateness(inputs_late_);
}

}  // namespace mtl::conformance
