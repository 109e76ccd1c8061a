#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "control/file/message_file.h"
#include "mtlink/config.pb.h"
#include "switch/config/node_config.h"
#include "switch/daemon.h"
#include "switch/log.h"
#include "tools/standard_streams.h"

namespace {

using mtl::Result;
using mtl::switchd::LogLevel;
using mtl::switchd::LogStyle;

/// Exit statuses, as docs/mtswitchd.md tells them.
constexpr int kOk = 0;
constexpr int kFailed = 1;     // it could not start
constexpr int kBadConfig = 2;  // the configuration is wrong
// Daemon::kStuck, 3: a worker did not end

struct Options {
  std::string config;
  bool check = false;
  std::string log_format;
  std::string log_level = "info";
};

int fail(int status, const std::string& message) {
  fmt::print(stderr, "mtswitchd: {}\n", message);
  return status;
}

Result<mtl::switchd::Plan> plan(const Options& options, const mtl::switchd::Host& host) {
  const auto file = mtl::control::load<mtlink::config::NodeConfig>(options.config);
  if (!file) return file.error();
  return mtl::switchd::plan_node(*file, host);
}

LogStyle style(const Options& options, const mtl::switchd::Plan& plan) {
  const bool json = options.log_format.empty() ? plan.log_format == mtl::switchd::LogFormat::kJson
                                               : options.log_format == "json";
  return json ? LogStyle::kJson : LogStyle::kText;
}

int run(const Options& options) {
  const auto level = mtl::switchd::parse_log_level(options.log_level);
  if (!level) return fail(kBadConfig, level.error().message);
  auto planned = plan(options, mtl::switchd::this_host());
  if (!planned) return fail(kBadConfig, planned.error().message);
  if (options.check) {
    fmt::print("{}", mtl::switchd::describe(*planned));
    for (const std::string& warning : planned->warnings)
      fmt::print(stderr, "warning: {}\n", warning);
    return kOk;
  }
  mtl::switchd::Log log(style(options, *planned), *level);
  auto daemon = mtl::switchd::Daemon::start(
      std::move(*planned), MTLINK_VERSION, log,
      [&options](const mtl::switchd::Host& host) { return plan(options, host); });
  if (!daemon) {
    log.error(daemon.error().message);
    return kFailed;
  }
  (*daemon)->run();
  log.info("stopped");
  return kOk;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{
      "The MTLink software switch: forwards packets between links on Ethernet devices and\n"
      "slots of processes on this host. Runs until SIGTERM or SIGINT."};
  Options options;
  app.add_option("-c,--config", options.config,
                 "Configuration of the node (.textproto or .json; schema mtlink/config.proto)")
      ->required()
      ->type_name("FILE");
  app.add_flag("--check", options.check, "Check the configuration, print what would run, and end");
  app.add_option("--log-format", options.log_format,
                 "text or json (one object a line); default as configured, else text")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_option("--log-level", options.log_level, "Least level that is written")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  app.set_version_flag("--version", std::string("mtswitchd " MTLINK_VERSION));
  app.footer(
      "Exit status: 0 ended by a signal or check passed, 1 could not start, 2 wrong\n"
      "configuration or usage, 3 ended by a signal although a worker was stuck in a driver.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kBadConfig;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    return fail(kFailed, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  mtl::tools::hold_standard_streams();
  return mtl::tools::end_program("mtswitchd", parse_and_run(argc, argv), kFailed);
}
