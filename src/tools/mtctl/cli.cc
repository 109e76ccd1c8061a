#include "tools/mtctl/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>

#include "base/ids.h"
#include "control/file/message_file.h"
#include "control/request_check.h"
#include "tools/mtctl/capture.h"
#include "tools/mtctl/commands.h"
#include "tools/mtctl/quantity.h"
#include "tools/mtctl/show.h"
#include "tools/mtctl/socket_choice.h"
#include "tools/standard_streams.h"

namespace mtl::tools {
namespace {

using control::Client;
using Command = std::function<Result<int>(Client&, const Output&)>;

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr std::uint64_t kMostTimes = 1'000'000'000;
constexpr std::uint32_t kDefaultPingBytes = 56;

/// Everything that the command line can say, and the command that it chose.
struct Line {
  std::string socket;
  bool json = false;
  Command command;
  PingOptions ping;
  mtlink::control::Trace trace;
  std::chrono::microseconds watch_interval{1'000'000};
  std::uint64_t updates = 0;
  bool check = false;
  bool on = false;
  bool dry_run = false;
  std::string port;
  std::uint32_t worker = 0;
  std::string file;
  mtlink::config::Impairment impairment;
  mtlink::config::Rate rate;  // bps 0: off
  CaptureOptions capture;
};

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& help, Line& line,
                      Command command) {
  auto* sub = app.add_subcommand(name, help);
  sub->fallthrough();  // so that -s and -j may stand behind the command, too
  if (command) sub->callback([&line, command] { line.command = command; });
  return sub;
}

/// An option with one of our quantities: what its parser says against a value is wrong usage.
template <class T>
CLI::Option* add_quantity(CLI::App* app, const std::string& name, const std::string& help,
                          const std::string& type, Result<T> (*parse)(const std::string&),
                          std::function<void(T)> set) {
  const auto take = [parse, set](const CLI::results_t& texts) {
    const auto value = parse(texts.front());
    if (!value) throw CLI::ValidationError(value.error().message);
    set(*value);
    return true;
  };
  return app->add_option(name, take, help)->type_name(type)->type_size(1);
}

/// An option that sets a number of a message.
CLI::Option* add_number(CLI::App* app, const std::string& name, const std::string& help,
                        std::uint32_t low, std::uint32_t high,
                        std::function<void(std::uint32_t)> set) {
  return app->add_option_function<std::uint32_t>(name, set, help)->check(CLI::Range(low, high));
}

void add_show(CLI::App& app, Line& line) {
  auto* sub = add_command(app, "show", "Show the state of the node; alone: node, links and drops",
                          line, {});
  sub->require_subcommand(0, 1);
  sub->callback([sub, &line] {  // after that of a view, if one was named
    if (sub->get_subcommands().empty()) line.command = show_summary;
  });
  for (const auto& view : views())
    add_command(*sub, view.name, view.help, line,
                [name = std::string(view.name)](Client& client, const Output& output) {
                  return show(client, name, output);
                });
}

void add_watch(CLI::App& app, Line& line) {
  auto* sub = add_command(
      app, "watch", "Show the rates of all ports, again and again", line,
      [&line](Client& client, const Output& output) {
        return watch(client, std::chrono::ceil<std::chrono::milliseconds>(line.watch_interval),
                     line.updates, output);
      });
  const std::function<void(std::chrono::microseconds)> set = [&line](auto time) {
    using std::chrono::milliseconds;
    if (time < milliseconds(control::kMinWatchMs) || time > milliseconds(control::kMaxWatchMs))
      throw CLI::ValidationError("INTERVAL must be from 50ms to an hour");
    line.watch_interval = time;
  };
  add_quantity(sub, "INTERVAL", "Time between two readings, 50ms to 3600s (default 1s)", "TIME",
               parse_time, set);
  sub->add_option("-c,--count", line.updates, "End after so many tables (default: never)")
      ->check(CLI::Range(std::uint64_t{1}, kMostTimes));
}

void add_ping(CLI::App& app, Line& line) {
  auto& call = line.ping.call;
  call.set_bytes(kDefaultPingBytes);
  call.set_timeout_ms(control::kDefaultTimeoutMs);
  auto* sub = add_command(
      app, "ping", "Send echo requests from the node to another; status 1 if one is lost", line,
      [&line](Client& client, const Output& output) { return ping(client, line.ping, output); });
  add_number(sub, "NODE", "Node id", kMinNode, kMaxNode, [&call](auto n) {
    call.set_node(n);
  })->required();
  sub->add_option("-c,--count", line.ping.count, "How many (default: until interrupted)")
      ->check(CLI::Range(std::uint64_t{1}, kMostTimes));
  const std::function<void(std::chrono::microseconds)> set = [&line](auto time) {
    line.ping.interval = time;
  };
  add_quantity(sub, "-i,--interval", "Time between two requests (default 1s)", "TIME", parse_time,
               set);
  add_number(sub, "-s,--size", "Bytes of data, 0 to 1400 (default 56)", 0, control::kMaxPingBytes,
             [&call](auto n) { call.set_bytes(n); });
  const std::function<void(std::chrono::microseconds)> wait = [&call](auto time) {
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    if (ms < 1 || ms > control::kMaxTimeoutMs)
      throw CLI::ValidationError("--timeout must be from 1ms to 60s");
    call.set_timeout_ms(static_cast<std::uint32_t>(ms));
  };
  add_quantity(sub, "-W,--timeout", "How long a reply is waited for (default 1s)", "TIME",
               parse_time, wait);
  add_number(sub, "--partition", "Partition (default 0)", 0, 0xFFFF,
             [&call](auto n) { call.set_partition(n); });
  add_number(sub, "--entropy", "Picks among equal paths (default 0)", 0, 0xFFFF,
             [&call](auto n) { call.set_entropy(n); });
  add_number(sub, "--hop-limit", "Hops (default: the node's)", 1, control::kMaxHops,
             [&call](auto n) { call.set_hop_limit(n); });
}

void add_trace(CLI::App& app, Line& line) {
  auto& call = line.trace;
  call.set_timeout_ms(control::kDefaultTimeoutMs);
  call.set_max_hops(control::kDefaultTraceHops);
  auto* sub = add_command(
      app, "trace", "Show the path from the node to another; status 1 if it is not reached", line,
      [&line](Client& client, const Output& output) { return trace(client, line.trace, output); });
  add_number(sub, "NODE", "Node id", kMinNode, kMaxNode, [&call](auto n) {
    call.set_node(n);
  })->required();
  add_number(sub, "-m,--max-hops", "Hops at most (default 16)", 1, control::kMaxHops,
             [&call](auto n) { call.set_max_hops(n); });
  add_number(sub, "--partition", "Partition (default 0)", 0, 0xFFFF,
             [&call](auto n) { call.set_partition(n); });
  add_number(sub, "--entropy", "Picks among equal paths (default 0)", 0, 0xFFFF,
             [&call](auto n) { call.set_entropy(n); });
}

void add_stats(CLI::App& app, Line& line) {
  auto* sub = add_command(
      app, "stats", "Show the books of the node", line,
      [&line](Client& client, const Output& output) { return stats(client, line.check, output); });
  sub->add_flag("--check", line.check, "Show only what does not balance, with status 1");
}

void add_port(CLI::App& app, Line& line) {
  auto* sub = add_command(app, "port", "Enable, disable or move a port", line, {});
  sub->require_subcommand(1);
  for (const bool up : {true, false}) {
    auto* way = add_command(*sub, up ? "up" : "down",
                            up ? "Enable a port" : "Disable a port: its link closes", line,
                            [&line, up](Client& client, const Output& output) {
                              return set_port(client, line.port, up, output);
                            });
    way->add_option("PORT", line.port, "Number or name")->required();
  }
  auto* move = add_command(*sub, "move", "Move a port to another worker: its link stays up", line,
                           [&line](Client& client, const Output& output) {
                             return move_port(client, line.port, line.worker, output);
                           });
  move->add_option("PORT", line.port, "Number or name")->required();
  add_number(move, "WORKER", "Number of the worker, from 0", 0, control::kMaxWorker,
             [&line](auto n) { line.worker = n; })
      ->required();
}

void add_impair(CLI::App& app, Line& line) {
  auto& impairment = line.impairment;
  auto* sub = add_command(app, "impair",
                          "Impair the frames that arrive at a port; replaces what was set before",
                          line, {});
  sub->add_option("PORT", line.port, "Number or name")->required();
  auto* faults = sub->add_option_group("faults", "What to do to frames");
  const auto add_rate = [&](const char* name, const char* help,
                            void (mtlink::config::Impairment::*set)(std::uint32_t)) {
    const std::function<void(std::uint32_t)> take = [&impairment, set](auto ppm) {
      (impairment.*set)(ppm);
    };
    return add_quantity(faults, name, help, "PERCENT", parse_percent, take);
  };
  const auto add_time = [&](CLI::App* to, const char* name, const char* help,
                            void (mtlink::config::Impairment::*set)(std::uint64_t)) {
    const std::function<void(std::chrono::microseconds)> take = [&impairment, set](auto time) {
      (impairment.*set)(static_cast<std::uint64_t>(time.count()));
    };
    return add_quantity(to, name, help, "TIME", parse_time, take);
  };
  using I = mtlink::config::Impairment;
  add_rate("--drop", "Frames dropped", &I::set_drop_ppm);
  add_rate("--corrupt-header", "Frames with a bit of the link header flipped",
           &I::set_corrupt_header_ppm);
  add_rate("--corrupt", "Frames with a bit of the packet flipped", &I::set_corrupt_packet_ppm);
  add_rate("--duplicate", "Frames that arrive twice", &I::set_duplicate_ppm);
  add_rate("--reorder", "Frames held back", &I::set_reorder_ppm);
  add_time(faults, "--delay", "Delay of every frame", &I::set_delay_us);
  add_time(faults, "--jitter", "Up to so much more, at random", &I::set_jitter_us);
  auto* clear = sub->add_flag("--clear")->description("End the impairment");
  add_time(sub, "--reorder-delay", "For how long frames are held back (default 100us)",
           &I::set_reorder_delay_us);
  sub->add_option_function<std::uint64_t>(
         "--seed", [&impairment](std::uint64_t seed) { impairment.set_seed(seed); },
         "Seed of the faults (default 1)")
      ->check(CLI::Range(std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max()));
  sub->callback([&line, faults, clear] {
    const bool asked = faults->count_all() > 0;
    if (asked == (clear->count() > 0))
      throw CLI::ValidationError(asked ? "--clear goes with no other fault"
                                       : "say what to do, like --drop 1, or --clear");
    line.command = [&line](Client& client, const Output& output) {
      return impair(client, line.port, line.impairment, output);
    };
  });
}

void add_rate_of_port(CLI::App& app, Line& line) {
  auto& rate = line.rate;
  auto* sub = add_command(app, "rate", "Set how fast a port sends, or end it", line, {});
  sub->add_option("PORT", line.port, "Number or name")->required();
  const auto parse = [](const std::string& text) -> Result<std::uint64_t> {
    return text == "off" ? std::uint64_t{0} : parse_bit_rate(text);
  };
  const std::function<void(std::uint64_t)> set = [&rate](auto bps) { rate.set_bps(bps); };
  add_quantity<std::uint64_t>(sub, "RATE",
                              "Bits per second, like 160M or 1.6T/10000 (k, M, G, T: powers of "
                              "1,000; from 1k to 1T), or off",
                              "RATE", parse, set)
      ->required();
  auto* overhead =
      add_number(sub, "--overhead",
                 "Bytes that count beside each frame (default 24: Ethernet's preamble, FCS, gap)",
                 0, control::kMaxRateOverhead, [&rate](auto bytes) { rate.set_overhead(bytes); });
  sub->callback([&line, overhead] {
    const bool off = line.rate.bps() == 0;
    if (off && overhead->count() > 0)
      throw CLI::ValidationError("--overhead goes with a rate, not with off");
    line.command = [&line, off](Client& client, const Output& output) {
      return set_rate(client, line.port, off ? std::nullopt : std::optional(line.rate), output);
    };
  });
}

void add_workers(CLI::App& app, Line& line) {
  auto* sub =
      add_command(app, "workers", "Measure what workers do, spread ports over them", line, {});
  sub->require_subcommand(1);
  auto* balance = add_command(*sub, "balance", "Move ports from busy workers to others, once", line,
                              [&line](Client& client, const Output& output) {
                                return balance_workers(client, line.dry_run, output);
                              });
  balance->add_flag("--dry-run", line.dry_run, "Say what would be moved, and move nothing");
  auto* measure = add_command(*sub, "measure",
                              "Measure, for show workers, where the cycles of passes go, or end it",
                              line, [&line](Client& client, const Output& output) {
                                return measure_workers(client, line.on, output);
                              });
  measure
      ->add_option_function<std::string>(
          "STATE", [&line](const std::string& state) { line.on = state == "on"; },
          "on (from nothing) or off")
      ->check(CLI::IsMember({"on", "off"}))
      ->required();
}

/// Which frames.
void add_capture_filters(CLI::App* sub, Line& line) {
  auto& call = line.capture.call;
  sub->add_option("PORT", line.capture.ports, "Numbers or names (default: all, also later ones)");
  sub->add_option_function<std::string>(
         "--direction",
         [&call](const std::string& way) {
           call.set_direction(way == "in" ? mtlink::control::Capture::IN
                                          : mtlink::control::Capture::OUT);
         },
         "in or out (default: both)")
      ->check(CLI::IsMember({"in", "out"}));
  sub->add_option_function<std::vector<std::string>>(
         "--kind",
         [&call](const auto& kinds) {
           for (const auto& kind : kinds) call.add_kinds(kind);
         },
         "DATA, STATUS, NACK, INIT, CLOSE, several by commas (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows is a port
      ->check(CLI::IsMember({"DATA", "STATUS", "NACK", "INIT", "CLOSE"}));
  sub->add_option_function<std::vector<std::uint32_t>>(
         "--vc",
         [&call](const auto& vcs) {
           for (const auto vc : vcs) call.add_vcs(vc);
         },
         "DATA on these VCs, 0 to 7, alone")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows is a port
      ->check(CLI::Range(0U, static_cast<unsigned>(kVcs) - 1));
  add_number(sub, "--node", "DATA from or to this node alone", kMinNode, kMaxNode,
             [&call](auto n) { call.set_node(n); });
  sub->add_flag_callback(
      "--drops", [&call] { call.set_drops_only(true); },
      "What was dropped alone, at the port or by the node behind it");
  add_number(sub, "--snap", "Bytes of each frame that are kept (default: all)", 1,
             control::kMaxCaptureSnap, [&call](auto n) { call.set_snap(n); });
}

/// Into which files, and how long.
void add_capture_files(CLI::App* sub, Line& line) {
  CaptureOptions& options = line.capture;
  sub->add_option("-w,--write", options.file, "File to write (pcapng); -: standard output")
      ->required();
  sub->add_flag("--overwrite", options.replace, "Replace files that are there");
  const std::function<void(std::uint64_t)> set = [&options](auto bytes) {
    options.file_bytes = bytes;
  };
  auto* size = add_quantity(sub, "--file-size",
                            "Go on in a new file after so many bytes, like 10M: NAME_00001.pcapng, "
                            "NAME_00002.pcapng, ...",
                            "SIZE", parse_size, set);
  sub->add_option("--files", options.files, "Keep only so many files, the newest (default: all)")
      ->check(CLI::PositiveNumber)
      ->needs(size);
  sub->add_option("-c,--count", options.frames, "End after so many frames (default: never)")
      ->check(CLI::PositiveNumber);
  const std::function<void(std::chrono::microseconds)> end = [&options](auto time) {
    if (time.count() == 0) throw CLI::ValidationError("--time must be more than nothing");
    options.time = time;
  };
  add_quantity(sub, "--time", "End after so long, up to an hour (default: never)", "TIME",
               parse_time, end);
  const auto kib = [&options](std::uint32_t mib) {
    options.call.set_ring_kib(std::bit_ceil(mib) * 1024);
  };
  add_number(sub, "--buffer",
             "MiB of memory for each worker, rounded up to a power of two (default 16)", 1,
             control::kMaxCaptureRingKib / 1024, kib);
}

void add_capture(CLI::App& app, Line& line) {
  auto* sub =
      add_command(app, "capture", "Capture frames of the node's ports, each with what became of it",
                  line, [&line](Client& client, const Output& output) {
                    return capture(client, line.capture, output);
                  });
  add_capture_filters(sub, line);
  add_capture_files(sub, line);
}

/// Of options that do not go together; empty: they do.
std::string capture_fault(const Line& line, bool terminal) {
  if (line.capture.file != "-") return {};
  if (line.capture.file_bytes != 0)
    return "--file-size needs a file to write (-w), not standard output";
  if (line.json) return "-j and -w - would both write to standard output";
  if (terminal) {
    return "standard output is a terminal: write to a file (-w), or to a program, as in mtctl "
           "capture -w - | tshark -r -";
  }
  return {};
}

void add_reload(CLI::App& app, Line& line) {
  auto* sub = add_command(
      app, "reload", "Read the configuration file anew: add and remove ports, replace the routes",
      line, [&line](Client& client, const Output& output) {
        return reload(client, line.dry_run, output);
      });
  sub->add_flag("--dry-run", line.dry_run, "Say what would be done, and do nothing");
}

void add_routes(CLI::App& app, Line& line) {
  auto* sub = add_command(app, "routes", "Replace the routes", line, {});
  sub->require_subcommand(1);
  auto* set = add_command(*sub, "set", "Replace all routes by those of a file (config.Routes)",
                          line, [&line](Client& client, const Output& output) {
                            return set_routes(client, line.file, output);
                          });
  set->add_option("FILE", line.file, "File to read")->required();
}

int usage(const Invocation& invocation, const std::string& what) {
  std::string line = what;
  std::replace(line.begin(), line.end(), '\n', ' ');
  invocation.err << "mtctl: " << line << "; see mtctl --help\n";
  return kUsage;
}

/// What is wrong with a line that CLI11 refused: where a word stands for a command and is none,
/// that word, rather than that a command is missing.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* at = &app;
  std::string of;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    of += " " + at->get_name();
  }
  std::vector<std::string> known;
  for (const auto* sub : at->get_subcommands([](const CLI::App*) { return true; })) {
    if (!sub->get_name().empty()) known.push_back(sub->get_name());
  }
  const auto words = app.remaining(true);
  const auto word = std::find_if(words.begin(), words.end(),
                                 [](const std::string& w) { return !w.starts_with('-'); });
  if (known.empty() || word == words.end()) return error.what();
  std::string text = "mtctl" + of + " has no command \"" + *word + "\"";
  const std::string_view meant = control::nearest(*word, known);
  if (!meant.empty()) return text + "; did you mean \"" + std::string(meant) + "\"?";
  text += "; it has: ";
  for (const auto& name : known) text += name + (&name == &known.back() ? "" : ", ");
  return text;
}

int fail(const Invocation& invocation, const Error& error) {
  invocation.err << "mtctl: " << error.message << '\n';
  return kFailed;
}

/// What nobody could read is no success.
int end(const Invocation& invocation, int status) {
  const auto fault = end_output(invocation.out);
  return fault ? fail(invocation, Error{*fault}) : status;
}

int connect_and_run(const Line& line, const Invocation& invocation) {
  const auto path = choose_socket(line.socket, std::getenv("MTLINK_SOCKET"));
  if (!path) return fail(invocation, path.error());
  auto client = Client::connect(*path);
  if (!client) return fail(invocation, client.error());
  const Output output{invocation.out, invocation.err, line.json, invocation.terminal,
                      invocation.colour};
  const auto status = line.command(*client, output);
  if (!status) return fail(invocation, status.error());
  return end(invocation, *status);
}

}  // namespace

int run(const Invocation& invocation) {
  Line line;
  CLI::App app("Control a running mtswitchd.", "mtctl");
  app.set_version_flag("--version", "mtctl " MTLINK_VERSION);
  app.add_option("-s,--socket", line.socket,
                 "Control socket (default: $MTLINK_SOCKET, or the only one in /run/mtlink)")
      ->type_name("PATH");
  app.add_flag("-j,--json", line.json, "JSON instead of text, one object per line");
  app.require_subcommand(1);
  add_show(app, line);
  add_watch(app, line);
  add_ping(app, line);
  add_trace(app, line);
  add_stats(app, line);
  add_port(app, line);
  add_impair(app, line);
  add_rate_of_port(app, line);
  add_workers(app, line);
  add_routes(app, line);
  add_reload(app, line);
  add_capture(app, line);
  try {
    app.parse(std::vector<std::string>(invocation.arguments.rbegin(), invocation.arguments.rend()));
  } catch (const CLI::Success& asked) {  // --help, --version
    return end(invocation, app.exit(asked, invocation.out, invocation.err));
  } catch (const CLI::ParseError& error) {
    return usage(invocation, explain(app, error));
  }
  if (const std::string fault = capture_fault(line, invocation.terminal); !fault.empty()) {
    return usage(invocation, fault);
  }
  return connect_and_run(line, invocation);
}

}  // namespace mtl::tools
