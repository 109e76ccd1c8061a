#include "tools/mtlink-config/cli.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "control/file/write_whole.h"
#include "tools/mtlink-config/fabric_file.h"
#include "tools/mtlink-config/report.h"
#include "tools/mtlink-config/scenario.h"
#include "tools/printable.h"
#include "topology/draw.h"
#include "topology/shapes.h"

namespace mtl::tools {

namespace pb = mtlink::topology;

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

/// Everything that the command line can say, and the command that it chose.
struct Line {
  topology::Wanted wanted;
  std::string file;
  std::string output;
  std::string engine = "auto";
  std::string as = "tables";
  std::string node;
  CheckOptions check;
  bool no_load = false;
  bool one_layer = false;
  ScenarioWish scenario;
  std::function<Result<int>()> command;
};

template <class T>
CLI::Option* add(CLI::App* app, const std::string& name, std::optional<T>& to,
                 const std::string& help) {
  return app->add_option_function<T>(
      name, [&to](const T& value) { to = value; }, help);
}

/// A value with a parser of its own: what that says against it is wrong usage.
template <class T>
CLI::Option* add_parsed(CLI::App* app, const std::string& name, const std::string& type,
                        Result<T> (*parse)(const std::string&), std::function<void(T)> set,
                        const std::string& help) {
  const auto take = [parse, set](const CLI::results_t& texts) {
    const auto value = parse(texts.front());
    if (!value) throw CLI::ValidationError(value.error().message);
    set(*value);
    return true;
  };
  return app->add_option(name, take, help)->type_name(type)->type_size(1);
}

Result<void> give(const ConfigCall& call, const std::string& output, const std::string& text) {
  if (output.empty()) {
    call.out << text;
    return {};
  }
  return control::write_whole(output, text);
}

/// The fabric of the file with routes.
Result<topology::Routes> routed(const Line& line, std::shared_ptr<const topology::Graph> graph) {
  const auto which = topology::engine_of(line.engine);
  if (!which) return which.error();
  auto routes = topology::make_routes(std::move(graph), *which);
  if (!routes) return Error{line.file + ": " + routes.error().message};
  if (line.one_layer) routes->lower();
  return routes;
}

Result<int> do_generate(const ConfigCall& call, const Line& line) {
  auto made = topology::generate(line.wanted);
  if (!made) return made.error();
  // What is made is held to the same rules as what is written by hand.
  const auto built = topology::Graph::build(*made);
  if (const auto* faults = std::get_if<std::vector<topology::Fault>>(&built)) {
    return Error{fmt::format("{} {}", faults->front().path, faults->front().what)};
  }
  const auto text = message_text(*made, line.output);
  if (!text) return text.error();
  if (auto ok = give(call, line.output, *text); !ok) return ok.error();
  // Beside a file on standard output they would be in its way.
  std::ostream& say = line.output.empty() ? call.err : call.out;
  for (const std::string& sum : made->origin().arithmetic()) fmt::print(say, "{}\n", sum);
  for (const pb::Source& source : made->origin().sources()) {
    fmt::print(say, "source: {}: {}\n", source.where(), source.says());
  }
  return 0;
}

Result<int> do_check(const ConfigCall& call, const Line& line) {
  const auto fabric = read_fabric(line.file);
  if (!fabric) return fabric.error();
  const auto routes = routed(line, fabric->graph);
  if (!routes) return routes.error();
  CheckOptions options = line.check;
  options.load = !line.no_load;
  return report_check(*routes, options, call.out) ? 0 : kFailed;
}

Result<int> do_show(const ConfigCall& call, const Line& line) {
  const auto fabric = read_fabric(line.file);
  if (!fabric) return fabric.error();
  const topology::Graph& graph = *fabric->graph;
  if (line.as == "dot") {
    if (auto ok = give(call, line.output, topology::to_dot(graph, fabric->topology)); !ok)
      return ok.error();
  } else if (line.as == "mermaid") {
    if (auto ok = give(call, line.output, topology::to_mermaid(graph)); !ok) return ok.error();
  } else if (line.as == "svg") {
    if (auto ok = give(call, line.output, topology::to_svg(graph)); !ok) return ok.error();
  } else {
    std::size_t node = graph.nodes();
    for (std::size_t n = 0; n < graph.nodes() && !line.node.empty(); ++n) {
      if (graph.node(n).name == line.node ||
          std::to_string(graph.node(n).id.value()) == line.node) {
        node = n;
      }
    }
    if (!line.node.empty() && node == graph.nodes()) {
      return Error{fmt::format("{}: no node has the name or id \"{}\"", line.file, line.node)};
    }
    const auto routes = routed(line, fabric->graph);
    if (!routes) return routes.error();
    std::ostringstream text;
    report_tables(*routes, node, text);
    if (auto ok = give(call, line.output, text.str()); !ok) return ok.error();
  }
  return 0;
}

Result<int> do_scenario(const ConfigCall& call, const Line& line) {
  const auto fabric = read_fabric(line.file);
  if (!fabric) return fabric.error();
  const auto routes = routed(line, fabric->graph);
  if (!routes) return routes.error();
  const auto scenario = scenario_of(*routes, line.scenario);
  if (!scenario) return scenario.error();
  const auto text = message_text(*scenario, line.output);
  if (!text) return text.error();
  if (auto ok = give(call, line.output, *text); !ok) return ok.error();
  return 0;
}

std::string topology_help() {
  std::string help = "Topologies, for --topology:\n";
  for (const auto& choice : topology::families()) {
    help += fmt::format("  {:15} {}\n", choice.name, choice.about);
  }
  help += "Presets, with their published numbers:\n";
  for (const auto& choice : topology::presets()) {
    help += fmt::format("  {:15} {}\n", choice.name, choice.about);
  }
  return help;
}

void add_generate(CLI::App& app, const ConfigCall& call, Line& line) {
  auto* sub = app.add_subcommand("generate", "Writes the file of a fabric");
  topology::Wanted& w = line.wanted;
  sub->add_option("-t,--topology", w.topology, "Which one; see below")->required();
  add(sub, "-n,--gpu-count", w.gpu_count, "Accelerators");
  add_parsed<std::uint64_t>(
      sub, "-b,--bandwidth", "RATE", topology::parse_rate,
      [&w](std::uint64_t v) { w.bandwidth = v; },
      "Of an accelerator, each way, as 1.6T (the default) or 800G");
  add_parsed<std::uint64_t>(
      sub, "--lane", "RATE", topology::parse_rate, [&w](std::uint64_t v) { w.lane = v; },
      "Of a lane (200G)");
  add(sub, "--radix", w.radix, "Ports of a switch");
  add(sub, "--levels", w.levels, "Of a clos (2) or fat-tree (3)");
  add(sub, "--oversubscription", w.oversubscription, "Ports down for each port up of a leaf (1)");
  add(sub, "--planes", w.planes, "Of a flat fabric (1)");
  add(sub, "--rails", w.rails, "Accelerators of a host (8)");
  add_parsed<std::vector<std::uint32_t>>(
      sub, "--size", "AxBxC", topology::parse_size,
      [&w](std::vector<std::uint32_t> v) { w.size = std::move(v); }, "Of a torus or mesh-nd");
  add(sub, "--groups", w.groups, "Of a dragonfly");
  add(sub, "--routers", w.routers, "Of a dragonfly's group (twice --hosts)");
  add(sub, "--hosts", w.hosts, "Accelerators at a dragonfly's router");
  add(sub, "--global", w.global, "Links of a dragonfly's router to other groups (--hosts)");
  sub->add_option("--delay-ns", w.delay_ns, "Of every link, one way, in ns (0)");
  add(sub, "--mtu", w.mtu, "Longest packet of every link, in bytes");
  sub->add_option("--name", w.name, "Of the fabric");
  sub->add_option("-o,--output", line.output,
                  "File to write, .textproto or .json; else standard output");
  sub->footer(topology_help());
  sub->callback([&] { line.command = [&] { return do_generate(call, line); }; });
}

void add_file(CLI::App* sub, Line& line) {
  sub->add_option("file", line.file, "The fabric")->required();
  sub->add_option("--engine", line.engine,
                  "auto, full-mesh, ring, levels, grid, dragonfly or general: how to route");
  sub->add_flag("--one-layer", line.one_layer, "No hop raises: shows what the layers are for");
}

void add_others(CLI::App& app, const ConfigCall& call, Line& line) {
  auto* check = app.add_subcommand("check", "Routes a fabric, proves and measures it");
  add_file(check, line);
  check->add_option("--failures", line.check.failures,
                    "Most links whose failure is tried (2048); 0: none");
  check->add_option("--seed", line.check.seed, "Draws the experts of the MoE traffic (1)");
  check->add_flag("--no-load", line.no_load, "Leaves the loads out");
  check->add_flag("--digests", line.check.digests,
                  "Prints the digest of each node's table as well");
  check->callback([&] { line.command = [&] { return do_check(call, line); }; });

  auto* show = app.add_subcommand("show", "Prints tables, or draws a fabric");
  add_file(show, line);
  show->add_option("--as", line.as, "tables (the default), dot, mermaid or svg")
      ->check(CLI::IsMember(std::set<std::string>{"tables", "dot", "mermaid", "svg"}));
  show->add_option("--node", line.node, "Of tables: only this node's, by name or id");
  show->add_option("-o,--output", line.output, "File to write; else standard output");
  show->callback([&] { line.command = [&] { return do_show(call, line); }; });
}

void add_scenario(CLI::App& app, const ConfigCall& call, Line& line) {
  auto* sub =
      app.add_subcommand("scenario", "Writes the fabric for the simulator, all to all (mtsim)");
  add_file(sub, line);
  ScenarioWish& wish = line.scenario;
  sub->add_option("--scale", wish.scale, "Divides all rates (1000)")->check(CLI::PositiveNumber);
  sub->add_option("--bytes", wish.bytes, "Of a packet (512)")->check(CLI::Range(20, 4096));
  sub->add_option("--count", wish.count, "Packets from each endpoint to each other (20)")
      ->check(CLI::Range(1, 1'000'000));
  add(sub, "--cut", wish.cut, "A link, as counted in the file from 0, to be cut for 2 ms");
  sub->add_option("-o,--output", line.output, "File to write; else standard output");
  sub->callback([&] { line.command = [&] { return do_scenario(call, line); }; });
}

}  // namespace

int run_config(const ConfigCall& call) {
  CLI::App app{"Makes, proves and draws fabrics. docs/mtlink-config.md tells more."};
  app.name("mtlink-config");
  app.set_version_flag("--version", std::string("mtlink-config ") + MTLINK_VERSION);
  app.require_subcommand(1);
  Line line;
  add_generate(app, call, line);
  add_others(app, call, line);
  add_scenario(app, call, line);
  try {
    // CLI11 takes them last first.
    app.parse(std::vector<std::string>(call.arguments.rbegin(), call.arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return app.exit(error, call.out, call.err) == 0 ? 0 : kUsage;
  }
  const auto status = line.command();
  if (status) return *status;
  // Names out of files stand in it, whoever wrote them.
  fmt::print(call.err, "mtlink-config: {}\n", printable(status.error().message, "\n"));
  return kFailed;
}

}  // namespace mtl::tools
