#include "tools/mtctl/capture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <optional>
#include <span>
#include <utility>

#include "capture/collector.h"
#include "control/request_check.h"
#include "tools/interrupt.h"
#include "tools/mtctl/capture_files.h"
#include "tools/mtctl/find_port.h"

namespace mtl::tools {
namespace {

using std::chrono::steady_clock;

/// Between two looks at the rings, while these are not full.
constexpr std::chrono::milliseconds kInterval{10};
/// Between two looks at what else may have ended the capture, while the output takes nothing.
constexpr std::chrono::milliseconds kLook{50};
/// For the reader of the output, when the user has asked for the end.
constexpr std::chrono::seconds kGrace{2};
constexpr std::uint64_t kBusyPart = 8;  ///< of a ring: who finds more looks again at once

/// What is captured, in words: a reader of the file ought to know what cannot be in it.
std::string about(const CaptureOptions& options, const mtlink::control::NodeState& node) {
  const auto& call = options.call;
  std::string text = fmt::format("node {} ({}), ", node.node(), node.name());
  text +=
      options.ports.empty() ? "all ports" : fmt::format("ports {}", fmt::join(options.ports, ", "));
  if (call.direction() == mtlink::control::Capture::IN) text += ", incoming only";
  if (call.direction() == mtlink::control::Capture::OUT) text += ", outgoing only";
  if (!call.kinds().empty()) text += fmt::format(", kinds {}", fmt::join(call.kinds(), ", "));
  if (!call.vcs().empty()) text += fmt::format(", VCs {}", fmt::join(call.vcs(), ", "));
  if (call.node() != 0) text += fmt::format(", DATA from or to node {}", call.node());
  if (call.drops_only()) text += ", drops only";
  return text;
}

/// Whoever reads our standard output may end: that is an error to be told, not our end.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before_);
  }
  ~NoBrokenPipe() { ::sigaction(SIGPIPE, &before_, nullptr); }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  struct sigaction before_ {};
};

/// One capture, from its beginning to its end. What ends it (a signal, a limit, the node) is looked
/// for also while the output takes nothing; the node is let go of then at once, and what it has
/// given waits for the output alone.
class Run {
 public:
  Run(control::Client& client, const CaptureOptions& options, capture::Collector collector,
      Duration to_unix)
      : client_(client),
        options_(options),
        collector_(std::move(collector)),
        to_unix_(to_unix),
        end_(steady_clock::now() + options.time) {}

  Result<void> open(std::uint32_t snap, const std::string& about);
  /// An Error, too, leaves files that are whole.
  Result<void> go();
  const CaptureFiles& files() const { return *files_; }
  std::size_t ports_left_out() const { return collector_.left_out(); }
  bool node_gone() const { return gone_; }

 private:
  bool full() const { return options_.frames != 0 && files_->frames() >= options_.frames; }
  bool timed_out() const { return options_.time.count() != 0 && steady_clock::now() >= end_; }
  bool over();
  bool pause(std::chrono::nanoseconds time, std::span<pollfd> others = {});
  bool wait_for_output(int output);
  Result<std::uint64_t> sweep();
  Result<void> sweep_on();
  Time unix_now() const {
    return Time{
        std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch())};
  }

  control::Client& client_;
  const CaptureOptions& options_;
  const NoBrokenPipe no_broken_pipe_;
  const Interrupt interrupt_;
  capture::Collector collector_;
  std::optional<CaptureFiles> files_;
  const Duration to_unix_;
  const steady_clock::time_point end_;
  bool over_ = false;
  bool interrupted_ = false;
  bool gone_ = false;
};

Result<void> Run::open(std::uint32_t snap, const std::string& about) {
  auto files =
      CaptureFiles::open({options_.file, options_.replace, options_.file_bytes, options_.files,
                          snap, about, [this](int output) { return wait_for_output(output); }});
  if (!files) return files.error();
  files_ = std::move(*files);
  return {};
}

/// Whether the capture has ended, for any reason: if so, the node need not work for it any longer.
bool Run::over() {
  if (over_) return true;
  gone_ = client_.gone();
  if (!gone_ && !interrupted_ && !timed_out() && !(files_ && full())) return false;
  collector_.freeze();
  client_.close();
  return over_ = true;
}

/// True: a signal has come meanwhile.
bool Run::pause(std::chrono::nanoseconds time, std::span<pollfd> others) {
  if (!interrupt_.wait(time, others) || !interrupt_.take()) return false;
  interrupted_ = true;
  return true;
}

/// For as long as the reader of our output likes, but not when the user wants us to end: then it
/// has kGrace to take something, and a second signal ends that, too.
bool Run::wait_for_output(int output) {
  std::optional<steady_clock::time_point> limit;
  for (;;) {
    over();
    if (interrupted_ && !limit) limit = steady_clock::now() + kGrace;
    if (limit && steady_clock::now() >= *limit) return false;
    pollfd room{output, POLLOUT, 0};
    const bool again = interrupted_;
    if (pause(kLook, {&room, 1}) && again) return false;
    if (room.revents != 0) return true;
  }
}

Result<std::uint64_t> Run::sweep() {
  std::optional<Error> fault;
  auto found = collector_.sweep([&](const capture::Captured& frame) {
    if (full() || fault) return;
    if (auto written = files_->write(frame, frame.at + to_unix_, collector_); !written) {
      fault = written.error();
    }
  });
  if (fault) return *fault;
  if (!found) return found;
  if (auto flushed = files_->flush(); !flushed) return flushed.error();
  return found;
}

Result<void> Run::sweep_on() {
  while (!over()) {
    const auto found = sweep();
    if (!found) return found.error();
    const bool busy = *found > collector_.ring_bytes() / kBusyPart;
    if (!over()) pause(busy ? std::chrono::milliseconds(0) : kInterval);
  }
  // What this one finds the next one gives.
  for (int i = 0; i < 2 && !full(); ++i) {
    if (auto found = sweep(); !found) return found.error();
  }
  return {};
}

Result<void> Run::go() {
  const auto swept = sweep_on();
  // If it went wrong, the files can be read all the same, as far as they go.
  const auto closed =
      !swept || full() ? files_->close_early(collector_) : files_->close(collector_, unix_now());
  return swept ? closed : swept;
}

void tell(const Run& run, const CaptureOptions& options, const Output& output) {
  const CaptureFiles& files = run.files();
  const auto names = files.names();
  if (output.json) {
    boost::json::array list(names.begin(), names.end());
    output.out << boost::json::serialize(
                      boost::json::object{{"frames", files.frames()},
                                          {"removed", files.removed()},
                                          {"missed", files.missed()},
                                          {"ports_left_out", run.ports_left_out()},
                                          {"files", std::move(list)}})
               << '\n';
    return;
  }
  output.err << fmt::format("{} frames captured", files.frames());
  if (files.removed() != 0) {
    output.err << fmt::format(", {} of them in files removed since", files.removed());
  }
  if (options.file != "-") {
    output.err << fmt::format("{} in {}", files.removed() != 0 ? "," : "", fmt::join(names, ", "));
  }
  output.err << fmt::format("; {} missed", files.missed());
  if (files.missed() != 0) {
    output.err << ", as they came faster than they were written: see --buffer, --snap and filters";
  }
  if (run.ports_left_out() != 0) {
    output.err << fmt::format("; {} ports that came later are not in it: begin another capture",
                              run.ports_left_out());
  }
  output.err << std::endl;
}

}  // namespace

Result<int> capture(control::Client& client, const CaptureOptions& options, const Output& output) {
  const auto node = get_node(client);
  if (!node) return node.error();
  mtlink::control::Capture call = options.call;
  for (const std::string& wanted : options.ports) {
    const auto port = find_port(*node, wanted);
    if (!port) return port.error();
    call.add_ports(*port);
  }
  if (call.ring_kib() == 0) call.set_ring_kib(control::kDefaultCaptureRingKib);
  const auto memory = capture::Segment::allocate(static_cast<std::size_t>(node->workers_size()),
                                                 std::uint64_t{call.ring_kib()} * 1024);
  if (!memory) return memory.error();
  const auto grant = client.capture(call, *memory);
  if (!grant) return grant.error();
  auto segment = capture::Segment::attach(*memory);
  if (!segment) return segment.error();
  const Duration to_unix{grant->unix_ns() - grant->clock_ns()};
  Run run(client, options, capture::Collector(std::move(*segment)), to_unix);
  // Not before: a capture that is refused neither leaves a file behind nor replaces one.
  if (auto opened = run.open(call.snap(), about(options, *node)); !opened) return opened.error();
  const auto done = run.go();
  tell(run, options, output);
  if (!done) return done.error();
  if (run.node_gone()) {
    return Error{"mtswitchd ended the capture: see its log; what came until then is written"};
  }
  return 0;
}

}  // namespace mtl::tools
