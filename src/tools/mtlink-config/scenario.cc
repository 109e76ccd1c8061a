#include "tools/mtlink-config/scenario.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtl::tools {

namespace pb = mtlink::sim;
using topology::Graph;

namespace {

constexpr std::size_t kMaxNodes = 2048;  // of a scenario, as its definition says
constexpr std::size_t kMaxWires = 16'384;
constexpr std::size_t kMaxFlows = 300'000;  // what a file of 16 MiB holds
constexpr std::uint64_t kLeastRate = 1000;
constexpr std::uint64_t kMostRate = 1'000'000'000'000;
constexpr std::uint64_t kStart = 1'000'000;  // ns: links are up by then

std::uint32_t out_of(const Graph& graph, std::size_t node, PortId port) {
  const auto outs = graph.outs(node);
  const auto found = std::find_if(outs.begin(), outs.end(),
                                  [&](const Graph::Out& out) { return out.port == port; });
  return static_cast<std::uint32_t>(found - outs.begin());
}

void add_node(const topology::Routes& routes, std::size_t n, pb::Scenario& out) {
  const Graph& graph = routes.graph();
  pb::Node& node = *out.add_nodes();
  for (std::size_t p = 0; p < graph.outs(n).size(); ++p) node.add_ports();
  for (const network::Route& route : routes.of(n)) {
    pb::Route& to = *node.add_routes();
    to.set_to(static_cast<std::uint32_t>(graph.find(route.dst)));
    for (const network::Tier& tier : route.tiers) {
      auto& hops = *to.add_tiers()->mutable_hops();
      for (const network::NextHop& hop : tier) {
        const std::uint32_t port = out_of(graph, n, hop.port);
        if (!hops.empty() && hops.rbegin()->port() == port && hops.rbegin()->raise() == hop.raise) {
          hops.rbegin()->set_weight((hops.rbegin()->has_weight() ? hops.rbegin()->weight() : 1) +
                                    1);
          continue;
        }
        auto& next = *hops.Add();
        next.set_port(port);
        next.set_raise(hop.raise);
      }
    }
  }
}

/// Wires in the order of links.
void add_wires(const Graph& graph, std::uint64_t scale, pb::Scenario& out) {
  std::vector<pb::Wire> wires(graph.links());
  for (std::size_t n = 0; n < graph.nodes(); ++n) {
    const auto outs = graph.outs(n);
    for (std::uint32_t p = 0; p < outs.size(); ++p) {
      if (outs[p].to < n) continue;
      pb::Wire& wire = wires[outs[p].link];
      wire.mutable_a()->set_node(static_cast<std::uint32_t>(n));
      wire.mutable_a()->set_port(p);
      wire.mutable_b()->set_node(outs[p].to);
      wire.mutable_b()->set_port(outs[p].back);
      wire.set_bps(std::clamp(outs[p].bps / scale, kLeastRate, kMostRate));
    }
  }
  for (pb::Wire& wire : wires) *out.add_wires() = std::move(wire);
}

}  // namespace

Result<pb::Scenario> scenario_of(const topology::Routes& routes, const ScenarioWish& wish) {
  const Graph& graph = routes.graph();
  const std::size_t ends = graph.endpoints().size();
  if (graph.nodes() > kMaxNodes || graph.links() > kMaxWires || ends * ends > kMaxFlows) {
    return Error{
        fmt::format("{} nodes, {} links and {} x {} flows are more than a scenario holds: {}, "
                    "{} and {}; take a smaller fabric of the same shape",
                    graph.nodes(), graph.links(), ends, ends, kMaxNodes, kMaxWires, kMaxFlows)};
  }
  if (wish.cut && *wish.cut >= graph.links()) {
    return Error{fmt::format("--cut is {}, but the fabric has {} links, counted from 0", *wish.cut,
                             graph.links())};
  }
  pb::Scenario out;
  out.set_about(fmt::format("{} nodes, engine {}, all to all", graph.nodes(),
                            topology::name(routes.engine())));
  for (std::size_t n = 0; n < graph.nodes(); ++n) add_node(routes, n, out);
  add_wires(graph, wish.scale, out);
  for (const std::uint32_t from : graph.endpoints()) {
    for (const std::uint32_t to : graph.endpoints()) {
      if (from == to) continue;
      pb::Flow& flow = *out.add_flows();
      flow.set_from(from);
      flow.set_to(to);
      flow.set_packet_class((from + to) % 2);
      flow.set_entropy((from * 31 + to) % 0x7FFF);
      flow.set_bytes(wish.bytes);
      flow.set_count(wish.count);
      flow.set_start_ns(kStart);
    }
  }
  if (wish.cut) {
    pb::Fault& cut = *out.add_faults();
    cut.set_what(pb::Fault::CUT);
    cut.set_wire(*wish.cut);
    cut.set_carrier(true);
    cut.set_at_ns(kStart + kStart / 2);
    cut.set_lasts_ns(2 * kStart);
  }
  return out;
}

}  // namespace mtl::tools
