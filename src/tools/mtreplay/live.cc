#include "tools/mtreplay/live.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "conformance/trace_writer.h"
#include "tools/interrupt.h"
#include "tools/mtreplay/live_session.h"
#include "tools/mtreplay/output.h"
#include "tools/mtreplay/packet_port.h"
#include "tools/mtreplay/report.h"
#include "tools/mtreplay/stimulus_command.h"
#include "tools/printable.h"

namespace mtl::tools {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using conformance::Trace;

using Interfaces = std::map<std::size_t, std::string>;

Result<Interfaces> read_interfaces(const std::vector<std::string>& options) {
  Interfaces interfaces;
  std::set<std::string> used;
  std::set<unsigned> indexes;
  for (const std::string& option : options) {
    std::size_t port = 0;
    const char* end = option.data() + option.size();
    const auto [at, error] = std::from_chars(option.data(), end, port);
    if (error != std::errc{} || at == end || *at != '=' || at + 1 == end ||
        port >= conformance::kMaxTracePorts) {
      return Error{fmt::format("--interface {}: must be PORT=INTERFACE, as 0=eth1", option)};
    }
    const std::string name(at + 1, end);
    // One may have several names.
    const unsigned index = ::if_nametoindex(name.c_str());
    const bool again = index != 0 && !indexes.insert(index).second;
    if (!interfaces.emplace(port, name).second || !used.insert(name).second || again) {
      return Error{
          fmt::format("--interface {}: a port or an interface that was named before", option)};
    }
  }
  return interfaces;
}

/// What leads to the device, by port.
using Ports = std::map<std::size_t, PacketPort>;

Result<Ports> open_ports(const Interfaces& interfaces, std::uint16_t ether_type) {
  Ports ports;
  for (const auto& [number, interface] : interfaces) {
    auto port = PacketPort::open(interface, ether_type);
    if (!port) return port.error();
    ports.emplace(number, std::move(*port));
  }
  return ports;
}

constexpr std::string_view kCounters = "counters";
constexpr std::string_view kDelivered = "delivered";

/// What the stimulus command must be able to do: stimuli by name, and to tell counters where the
/// trace shows by them.
std::set<std::string> needs_of(const Trace& trace) {
  std::set<std::string> needs;
  for (const conformance::Stimulus& stimulus : trace.stimuli) needs.emplace(name(stimulus.what));
  const bool counts =
      !trace.node_drops.empty() || std::any_of(trace.port_drops.begin(), trace.port_drops.end(),
                                               [](const auto& drops) { return !drops.empty(); });
  if (counts) needs.emplace(kCounters);
  return needs;
}

/// Whether packets come in, so that it tells something what of them is delivered, be it nothing.
bool delivers(const Trace& trace) {
  return std::any_of(trace.frames.begin(), trace.frames.end(), [](const auto& frame) {
    return frame.received && conformance::kind_of(frame) == link::Kind::kData;
  });
}

/// One trace against the device.
class LiveTrace {
 public:
  LiveTrace(const LiveCommandOptions& options, Ports& ports, const Interrupt& interrupt,
            const Trace& trace, TraceResult& result)
      : options_(options), ports_(ports), interrupt_(interrupt), trace_(trace), result_(result) {}

  /// Why it was not run, or nothing: then the result says how it went.
  std::optional<std::string> run();
  /// The stimulus command hung.
  bool hung() const { return hung_; }

 private:
  std::optional<std::string> choose_ports();
  std::optional<std::string> configure(StimulusCommand& command, std::uint64_t time_scale);
  std::optional<std::string> ask_results(StimulusCommand& command, conformance::Outcome& outcome);
  void judge(LiveSession& session, StimulusCommand* command, std::optional<std::string> failed);
  void differs(std::vector<conformance::Difference> differences);
  void inconclusive(std::string why);

  const LiveCommandOptions& options_;
  Ports& ports_;
  const Interrupt& interrupt_;
  const Trace& trace_;
  TraceResult& result_;
  const std::set<std::string> needs_ = needs_of(trace_);
  std::vector<PacketPort*> chosen_;  ///< one a port of the trace
  bool hung_ = false;
  bool counters_ = false;  ///< were told
  bool deliveries_ = false;
  pid_t pid_ = 0;  ///< of the device, if it is a process of this host
};

/// Those that the trace needs, which must take its longest frame.
std::optional<std::string> LiveTrace::choose_ports() {
  for (const auto& port : trace_.ports) {
    const unsigned id = port.config.link.port.value();
    const auto found = ports_.find(id);
    if (found == ports_.end()) return fmt::format("no --interface for its port {}", id);
    chosen_.push_back(&found->second);
  }
  for (const conformance::TraceFrame& frame : trace_.frames) {
    const PacketPort& port = *chosen_[frame.port.value()];
    const auto longest = port.longest_frame();
    if (!longest) return longest.error().message;
    if (frame.bytes.size() <= *longest) continue;
    return fmt::format("a frame of {} bytes does not fit interface {}; `ip link set dev {} mtu {}`",
                       frame.bytes.size(), port.interface(), port.interface(),
                       frame.bytes.size() - link::kEthernetHeader);
  }
  return std::nullopt;
}

json::object configure_line(const Trace& trace, const std::set<std::string>& needs,
                            const LiveCommandOptions& options, std::uint64_t time_scale) {
  json::array list;
  for (const std::string& need : needs) list.push_back(json::string(need));
  return {{"do", "configure"},
          {"trace", trace.name},
          {"needs", std::move(list)},
          {"time_scale", time_scale},
          {"ether_type", options.live.ether_type},
          {"dut", dut_object(trace, time_scale)}};
}

std::optional<std::string> LiveTrace::configure(StimulusCommand& command,
                                                std::uint64_t time_scale) {
  const auto answer = ask_ok(command, configure_line(trace_, needs_, options_, time_scale));
  if (!answer) return answer.error().message;
  if (const json::value* pid = answer->if_contains("pid"); pid != nullptr && pid->is_int64()) {
    pid_ = static_cast<pid_t>(
        std::clamp<std::int64_t>(pid->get_int64(), 0, std::numeric_limits<pid_t>::max()));
  }
  if (pid_ != 0 && !alive(pid_)) {
    return fmt::format(
        "--stimulus-cmd: configure: \"pid\": {} is no process that runs on this host; tell that of "
        "the device as it is here, or none",
        pid_);
  }
  return std::nullopt;
}

std::optional<std::string> LiveTrace::run() {
  if (auto why = choose_ports()) return why;
  if (options_.stimulus_command.empty() && !needs_.empty()) {
    return fmt::format("it needs {}: name a --stimulus-cmd", fmt::join(needs_, ", "));
  }
  const auto plan = plan_live(trace_, options_.live);
  if (!plan) return plan.error().message;
  std::optional<StimulusCommand> command;
  if (!options_.stimulus_command.empty()) {
    auto started = StimulusCommand::start(options_.stimulus_command, interrupt_, options_.patience);
    if (!started) return started.error().message;
    command.emplace(std::move(*started));
    if (auto why = configure(*command, plan->time_scale)) {
      hung_ = command->hangs();
      return why;
    }
  }
  // From here on the device is there: what fails is no reason not to be run.
  LiveSession session(trace_, *plan, options_.live, chosen_, interrupt_);
  session.watch(pid_);
  std::optional<std::string> failed;
  StimulusCommand* const asked = command ? &*command : nullptr;
  if (auto played = session.play(asked); !played) failed = played.error().message;
  result_.live.emplace().time_scale = plan->time_scale;
  judge(session, asked, std::move(failed));
  hung_ = asked != nullptr && asked->hangs();
  return std::nullopt;
}

/// Puts what the device tells of itself into the outcome; why it does not tell what it must.
std::optional<std::string> LiveTrace::ask_results(StimulusCommand& command,
                                                  conformance::Outcome& outcome) {
  const auto answer = ask_ok(command, {{"do", "results"}});
  if (!answer) return answer.error().message;
  json::object results;
  for (const std::string_view member : {kCounters, kDelivered}) {
    if (const json::value* value = answer->if_contains({member.data(), member.size()}))
      results[member] = *value;
  }
  const auto told = read_told("--stimulus-cmd, results", results, trace_);
  if (!told) return told.error().message;
  counters_ = told->port_drops.has_value();
  deliveries_ = told->deliveries.has_value();
  take(*told, trace_, outcome);
  if (counters_ || !needs_.contains(std::string(kCounters))) return std::nullopt;
  return "its counters were not told by the stimulus command";
}

/// Frames first: what they say stands whatever failed afterwards.
void LiveTrace::judge(LiveSession& session, StimulusCommand* command,
                      std::optional<std::string> failed) {
  if (session.run() == nullptr || session.medium_failed())
    return inconclusive(failed.value_or("nothing was played"));
  const bool died = pid_ != 0 && !alive(pid_);
  conformance::Outcome outcome = session.run()->outcome();
  if (command != nullptr && !failed) failed = ask_results(*command, outcome);
  conformance::LiveVerdict verdict = session.verdict(outcome, deliveries_);
  LiveFacts& facts = *result_.live;
  facts.inputs = session.run()->inputs_late();
  facts.frames = session.run()->frames_late();
  if (!counters_) facts.not_compared.emplace_back("counters");
  if (!deliveries_ && delivers(trace_)) facts.not_compared.emplace_back("deliveries");
  if (verdict.untimed != 0) {
    facts.not_compared.push_back(fmt::format("times of {} frames", verdict.untimed));
  }
  using Kind = conformance::LiveVerdict::Kind;
  if (verdict.kind == Kind::kDiffers) return differs(std::move(verdict.differences));
  if (died) {
    conformance::Difference end;
    end.at = trace_.end;
    end.what = fmt::format("the device (process {}) ended within the trace", pid_);
    verdict.differences.insert(verdict.differences.begin(), end);
    return differs(std::move(verdict.differences));
  }
  result_.differences = std::move(verdict.differences);
  if (failed) return inconclusive(std::move(*failed));
  if (verdict.kind == Kind::kInconclusive) return inconclusive(std::move(verdict.why));
  result_.status = kConforms;
}

void LiveTrace::differs(std::vector<conformance::Difference> differences) {
  result_.status = kDiffers;
  result_.differences = std::move(differences);
  result_.message = report(trace_, result_.differences);
}

void LiveTrace::inconclusive(std::string why) {
  result_.status = kInconclusive;
  result_.message = std::move(why);
}

/// `hung`: the stimulus command did.
TraceResult live_one(const fs::path& path, const LiveCommandOptions& options, Ports& ports,
                     const Interrupt& interrupt, bool& hung) {
  TraceResult result;
  result.path = path;
  result.name = path.stem().string();
  const auto trace = conformance::load_trace(path);
  if (!trace) {
    result.message = trace.error().message;
    return result;
  }
  for (unsigned attempt = 1;; ++attempt) {
    TraceResult tried = result;
    tried.rules = trace->rules;
    LiveTrace live(options, ports, interrupt, *trace, tried);
    if (auto why = live.run()) {
      tried.status = kNotRun;
      tried.message = std::move(*why);
    }
    hung = live.hung();
    // What was run once stays run, whatever keeps it from being run again.
    if (tried.status == kNotRun && attempt > 1) {
      result.message += fmt::format("; at attempt {}: {}", attempt, tried.message);
      return result;
    }
    if (tried.live) {
      tried.live->attempts = attempt;
      if (result.live) {
        tried.live->earlier = result.live->earlier;
        tried.live->earlier.push_back(result.message);
      }
    }
    result = std::move(tried);
    const bool again = result.status == kInconclusive && attempt < options.attempts && !hung;
    if (!again || interrupt.wait(Duration{0})) return result;
  }
}

std::string sums(const std::vector<TraceResult>& results) {
  const auto count = [&](int status) {
    return std::count_if(results.begin(), results.end(),
                         [&](const TraceResult& r) { return r.status == status; });
  };
  const auto in_part = std::count_if(results.begin(), results.end(), [](const TraceResult& r) {
    return r.status == kConforms && r.live && !r.live->not_compared.empty();
  });
  return fmt::format(
      "{} of {} traces were run: {} conform{}, {} differ, {} inconclusive; {} not run, {} "
      "unusable\n",
      count(kConforms) + count(kDiffers) + count(kInconclusive), results.size(), count(kConforms),
      in_part == 0 ? "" : fmt::format(" ({} in part)", in_part), count(kDiffers),
      count(kInconclusive), count(kNotRun), count(kUnusable));
}

/// Those that were not looked at any more are told, too.
void skip_the_rest(const std::vector<fs::path>& traces, const std::string& why,
                   std::vector<TraceResult>& results) {
  for (std::size_t i = results.size(); i < traces.size(); ++i) {
    TraceResult& result = results.emplace_back();
    result.path = traces[i];
    result.name = traces[i].stem().string();
    result.status = kNotRun;
    result.message = why;
  }
}

int status_of(const std::vector<TraceResult>& results) {
  const auto any = [&](int status) {
    return std::any_of(results.begin(), results.end(),
                       [&](const TraceResult& r) { return r.status == status; });
  };
  for (const int status : {kUnusable, kDiffers, kInconclusive, kConforms}) {
    if (any(status)) return status;
  }
  return kUnusable;
}

}  // namespace

int run_live(const LiveCommandOptions& options, std::ostream& out, std::ostream& err) {
  const auto complain = [&](const std::string& what) {
    err << fmt::format("mtreplay: {}\n", printable(what));
    return kUnusable;
  };
  const auto interfaces = read_interfaces(options.interfaces);
  if (!interfaces) return complain(interfaces.error().message);
  for (const unsigned tag : {0x8100U, 0x88A8U}) {
    if (options.live.ether_type == tag) {
      return complain(fmt::format("--ether-type {:#x}: that is the tag of a VLAN", tag));
    }
  }
  const auto traces = expand_traces(options.traces);
  if (!traces) return complain(traces.error().message);
  if (auto fault = output_fault(options.output, files_of(*traces))) return complain(*fault);
  auto ports = open_ports(*interfaces, options.live.ether_type);
  if (!ports) return complain(ports.error().message);
  const Interrupt interrupt;
  std::vector<TraceResult> results;
  bool hung = false;
  for (const fs::path& path : *traces) {
    results.push_back(guarded(path, [&](const fs::path& one) {
      return live_one(one, options, *ports, interrupt, hung);
    }));
    if (options.text()) out << result_text(results.back()) << std::flush;
    if (results.back().status == kUnusable) complain(results.back().message);
    const bool interrupted = interrupt.wait(Duration{0});
    if (!interrupted && !hung) continue;
    const std::string why = interrupted ? "interrupted" : "the stimulus command hung before";
    skip_the_rest(*traces, why, results);
    finish_report(options, results, sums(results), out);
    return complain(why + ": what was not run is not known of the device");
  }
  if (auto fault = finish_report(options, results, sums(results), out)) return complain(*fault);
  const bool none = std::all_of(results.begin(), results.end(),
                                [](const TraceResult& r) { return r.status == kNotRun; });
  return none ? complain("no trace was run: nothing is known of the device") : status_of(results);
}

}  // namespace mtl::tools
