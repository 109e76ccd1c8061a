#include "tools/mtlink-config/report.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>

#include "base/ids.h"
#include "topology/load.h"
#include "topology/reach.h"
#include "topology/stamp.h"
#include "topology/survey.h"

namespace mtl::tools {

using topology::Graph;
using topology::Routes;

namespace {

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string ways_text(double ways) {
  return ways < 1e9 ? fmt::format("{:.0f}", ways) : fmt::format("{:.2e}", ways);
}

/// Who a column's packets are for: the first few names.
std::string destinations(const Routes& routes, const std::vector<std::size_t>& columns) {
  constexpr std::size_t kShown = 4;
  std::string out;
  std::size_t count = 0;
  for (std::size_t node = 0; node < routes.graph().nodes(); ++node) {
    if (!std::binary_search(columns.begin(), columns.end(), routes.column(node))) continue;
    if (count++ < kShown) out += (count == 1 ? "" : ", ") + routes.graph().node(node).name;
  }
  if (count > kShown) out += fmt::format(" and {} more", count - kShown);
  return out;
}

void report_load(const Routes& routes, std::uint64_t seed, std::ostream& out) {
  using topology::Traffic;
  for (const Traffic traffic :
       {Traffic::kUniform, Traffic::kRing, Traffic::kAllToAll, Traffic::kMoe}) {
    const auto load = topology::measure_load(routes, traffic, seed);
    fmt::print(out,
               "load, {}: carries {} of what endpoints can send; worst link {} ({}), mean {}\n",
               topology::name(traffic), percent(load.throughput), percent(load.worst),
               load.worst_link, percent(load.mean));
  }
}

void report_survey(const Routes& routes, std::size_t most, std::ostream& out) {
  const auto survey = topology::survey_failures(routes, most);
  fmt::print(out, "single failures: {} of {} links tried\n",
             survey.inner.tried + survey.outer.tried, survey.links);
  const auto tell = [&](const char* what, const topology::Survey::Count& count) {
    if (count.tried == 0) return;
    fmt::print(out,
               "  {}: {} tried, {} survived by tiers alone, {} need new tables, {} cut an endpoint "
               "off\n",
               what, count.tried, count.survived, count.new_tables, count.cut_off);
  };
  tell("between nodes that forward", survey.inner);
  tell("of endpoints", survey.outer);
  for (const std::string& link : survey.examples) fmt::print(out, "  new tables for: {}\n", link);
}

bool report_stamp(const Routes& routes, bool each, std::ostream& out) {
  const Graph& graph = routes.graph();
  const auto digests = topology::node_digests(routes);
  const Result<topology::Digest> stamp =
      digests ? topology::fabric_digest(*digests) : digests.error();
  if (!stamp) {
    fmt::print(out, "stamp: {}\nrefused\n", stamp.error().message);
    return false;
  }
  fmt::print(out, "stamp: {}\n", topology::hex(*stamp));
  if (!each) return true;
  for (const auto& [id, digest] : *digests) {
    fmt::print(out, "digest of node {} ({}): {}\n", id.value(), graph.node(graph.find(id)).name,
               topology::hex(digest));
  }
  return true;
}

}  // namespace

std::string describe_cycle(const Routes& routes, const topology::Cycle& cycle) {
  const auto& tables = routes.tables();
  std::string out;
  for (std::size_t i = 0; i < cycle.channels.size(); ++i) {
    const std::size_t link = cycle.channels[i] / kLayers;
    std::size_t router = 0;
    while (link >= tables.first_link(router) + tables.links(router).size()) ++router;
    const std::uint32_t node = routes.core().node[router];
    const std::uint32_t port = routes.core().outs[router][link - tables.first_link(router)];
    out += fmt::format("{}, layer {}: packets for {} wait for{}\n",
                       routes.graph().describe(node, routes.graph().outs(node)[port]),
                       cycle.channels[i] % kLayers, destinations(routes, cycle.columns[i]),
                       i + 1 == cycle.channels.size() ? " the first" : "");
  }
  return out;
}

bool report_check(const Routes& routes, const CheckOptions& options, std::ostream& out) {
  const Graph& graph = routes.graph();
  fmt::print(out, "{} nodes ({} endpoints), {} links\n", graph.nodes(), graph.endpoints().size(),
             graph.links());
  for (const std::string& reason : routes.reasons()) fmt::print(out, "{}\n", reason);
  fmt::print(out,
             "tables: {} nodes that forward x {} columns, {} different lists of tiers, {} KiB\n",
             routes.core().size(), routes.tables().columns(), routes.tables().lists() - 1,
             routes.tables().bytes() / 1024);
  if (const auto cycle = topology::find_cycle(routes.tables())) {
    fmt::print(out, "deadlock (N10): packets can wait for each other in a circle:\n{}refused\n",
               describe_cycle(routes, *cycle));
    return false;
  }
  fmt::print(out, "deadlock (N10): none, over all links, layers, tiers and both classes\n");
  const auto reach = topology::measure_reach(routes);
  if (reach.lost != 0) {
    fmt::print(out, "reach: {} ways may end nowhere, as {}\nrefused\n", reach.lost, reach.example);
    return false;
  }
  fmt::print(out,
             "reach: every endpoint every other, {:.2f} links on average, {} at most (diameter)\n",
             reach.mean, reach.diameter);
  fmt::print(out,
             "ways: {} to {} between two endpoints by the first tiers; {} links at most by any\n",
             ways_text(reach.fewest_ways), ways_text(reach.most_ways), reach.longest);
  if (reach.hop_limit() > 255) {
    fmt::print(out, "hop limit (N6): twice {} links is above 255; divide the fabric\nrefused\n",
               reach.longest);
    return false;
  }
  fmt::print(out, "hop limit (N6): {}\n", reach.hop_limit());
  fmt::print(out, "bisection: {} each way, endpoints halved in order of their ids\n",
             topology::rate_text(topology::bisection(graph)));
  if (options.load) report_load(routes, options.seed, out);
  if (options.failures != 0) report_survey(routes, options.failures, out);
  return report_stamp(routes, options.digests, out);
}

void report_tables(const Routes& routes, std::size_t node, std::ostream& out) {
  const Graph& graph = routes.graph();
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    if (node != graph.nodes() && node != n) continue;
    fmt::print(out, "{} (node {})\n", graph.node(n).name, graph.node(n).id.value());
    for (const network::Route& route : routes.of(n)) {
      fmt::print(out, "  to {}:", graph.node(graph.find(route.dst)).name);
      for (std::size_t t = 0; t < route.tiers.size(); ++t) {
        fmt::print(out, "{}", t == 0 ? "" : " else");
        for (const network::NextHop& hop : route.tiers[t]) {
          fmt::print(out, " {}{}", hop.port.value(), hop.raise != 0 ? "^" : "");
        }
      }
      fmt::print(out, "\n");
    }
  }
}

}  // namespace mtl::tools
