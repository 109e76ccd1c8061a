// mtreplay: proves that an implementation of MTLink keeps the protocol (docs/mtreplay.md).

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <string>

#include "tools/mtreplay/judge.h"
#include "tools/mtreplay/live.h"
#include "tools/mtreplay/record.h"
#include "tools/mtreplay/run.h"
#include "tools/standard_streams.h"

namespace {

using mtl::tools::JudgeOptions;
using mtl::tools::LiveCommandOptions;
using mtl::tools::RecordOptions;
using mtl::tools::ReportFormat;
using mtl::tools::ReportOptions;
using mtl::tools::RunOptions;

void add_report(CLI::App& command, ReportOptions& options) {
  const std::map<std::string, ReportFormat> formats{
      {"junit", ReportFormat::kJunit}, {"tap", ReportFormat::kTap}, {"json", ReportFormat::kJson}};
  CLI::Option* report = command.add_option_function<std::string>(
      "--report",
      [&options, formats](const std::string& name) { options.report = formats.at(name); },
      "A report for machines, instead of the text: junit, tap or json");
  report->check(CLI::IsMember({"junit", "tap", "json"}));
  command
      .add_option("-o,--output", options.output, "Write the report to this file, beside the text")
      ->needs(report);
}

CLI::App* add_run(CLI::App& app, RunOptions& options) {
  CLI::App* run = app.add_subcommand("run", "Replay traces against this implementation");
  run->add_option("TRACE", options.traces, "NAME, NAME.json, NAME.pcap, or a folder of traces")
      ->required();
  run->add_option("--shards", options.shards, "Spread the ports over so many shards")
      ->check(CLI::Range(1, 255))
      ->capture_default_str();
  run->add_option("--dump", options.dump,
                  "Write what was received and sent to NAME.pcap in this folder")
      ->check(CLI::ExistingDirectory);
  add_report(*run, options);
  run->add_option("-j,--jobs", options.jobs, "Threads; each replays traces of its own")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  return run;
}

CLI::App* add_live(CLI::App& app, LiveCommandOptions& options) {
  CLI::App* live =
      app.add_subcommand("live", "Replay traces against a device on real ports, in real time");
  live->add_option("TRACE", options.traces, "NAME, NAME.json, NAME.pcap, or a folder of traces")
      ->required();
  live->add_option("--interface", options.interfaces,
                   "PORT=INTERFACE: the Linux interface that leads to that port of the device; "
                   "once for each port")
      ->allow_extra_args(false)
      ->required();
  live->add_option("--stimulus-cmd", options.stimulus_command,
                   "Command that configures the device and does what its owner does; it gets JSON "
                   "lines on standard input, and answers each by one");
  live->add_option_function<unsigned>(
          "--patience", [&options](unsigned s) { options.patience = std::chrono::seconds(s); },
          "Seconds that the command has for each answer; one that takes longer ends the run; "
          "default 60")
      ->check(CLI::Range(1, 86'400));
  live->add_option_function<unsigned>(
          "--tolerance",
          [&options](unsigned ms) { options.live.tolerance = std::chrono::milliseconds(ms); },
          "Milliseconds by which frames of the device may be late or early; default 10")
      ->check(CLI::Range(1, 10'000));
  live->add_option("--time-scale", options.live.time_scale,
                   "Stretches the trace's times, the device's timers too; default: as little as "
                   "keeps the order of events")
      ->check(CLI::Range(1, 10'000'000));
  live->add_option_function<unsigned>(
          "--longest", [&options](unsigned s) { options.live.longest = std::chrono::seconds(s); },
          "Seconds; traces that take longer are not run; default 120")
      ->check(CLI::Range(1, 86'400));
  live->add_option("--attempts", options.attempts,
                   "A trace that is inconclusive is run again, so often in all; default 3")
      ->check(CLI::Range(1, 100));
  live->add_option("--ether-type", options.live.ether_type, "EtherType of the links (P1)")
      ->check(CLI::Range(0x0600, 0xFFFF));
  add_report(*live, options);
  return live;
}

CLI::App* add_record(CLI::App& app, RecordOptions& options) {
  CLI::App* record = app.add_subcommand("record", "Make a trace from a scenario or a live link");
  record
      ->add_option("SCENARIO", options.scenario,
                   "NAME.json of a trace, \"delivered\" and \"counters\" left out")
      ->required();
  CLI::Option* frames = record->add_option("--frames", options.frames,
                                           "Capture of the frames that the device receives");
  record
      ->add_option("--live", options.live_capture,
                   "Capture of a live link, both ways: frames, nonces, epochs and stimuli are its")
      ->excludes(frames);
  record->add_option("-o,--output", options.output, "NAME: NAME.json and NAME.pcap are written")
      ->required();
  record->add_flag("--digest", options.digest,
                   "The digest of what is delivered, instead of the packets");
  return record;
}

CLI::App* add_judge(CLI::App& app, JudgeOptions& options) {
  CLI::App* judge =
      app.add_subcommand("judge", "Judge both sides of each link in a capture, whoever made them");
  judge->add_option("CAPTURE", options.capture, "A pcap or pcapng file; -: standard input")
      ->required();
  judge->add_flag(
      "--complete", options.complete,
      "The capture has every frame of each link, once, in the order, at the time and with "
      "the bytes sent: what holds only then is a finding, too");
  judge
      ->add_option("--only", options.only,
                   "MAC; findings of this side alone count. May be given again")
      ->allow_extra_args(false);
  judge->add_option("--ether-type", options.ether_type, "EtherType of the links (P1)")
      ->check(CLI::Range(0x0600, 0xFFFF));
  CLI::Option* report =
      judge->add_flag("--json", options.json, "A report as JSON, instead of the text");
  judge->add_option("-o,--output", options.output, "Write the JSON to this file, beside the text")
      ->needs(report);
  return judge;
}

}  // namespace

int main(int argc, char** argv) {
  mtl::tools::hold_standard_streams();
  CLI::App app{"mtreplay: proves that an implementation of MTLink keeps the protocol"};
  app.set_version_flag("--version", std::string("mtreplay ") + MTLINK_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 all is well, 1 something is not, 2 an argument or a file cannot be used, or "
      "nothing could be judged or was run, 3 what was run live says nothing sure.");
  RunOptions run_options;
  LiveCommandOptions live_options;
  JudgeOptions judge_options;
  add_run(app, run_options);
  const CLI::App* live = add_live(app, live_options);
  RecordOptions record_options;
  const CLI::App* record = add_record(app, record_options);
  const CLI::App* judge = add_judge(app, judge_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error) == 0 ? 0 : mtl::tools::kUnusable;
    return mtl::tools::end_program("mtreplay", status, mtl::tools::kUnusable);
  }
  try {
    if (judge->parsed()) return mtl::tools::judge_capture(judge_options, std::cout, std::cerr);
    if (record->parsed()) return mtl::tools::record_trace(record_options, std::cout, std::cerr);
    if (live->parsed()) return mtl::tools::run_live(live_options, std::cout, std::cerr);
    return mtl::tools::run_traces(run_options, std::cout, std::cerr);
  } catch (const std::exception& error) {
    fmt::print(stderr, "mtreplay: {}\n", error.what());
    return mtl::tools::kUnusable;
  }
}
