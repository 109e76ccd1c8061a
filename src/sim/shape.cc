#include "sim/shape.h"

#include <map>
#include <utility>

namespace mtl::sim {
namespace {

using network::NextHop;
using network::Tier;

class Builder {
 public:
  explicit Builder(std::uint32_t nodes) { shape_.nodes.resize(nodes); }

  void join(std::uint32_t a, std::uint32_t b, std::uint32_t lanes, bool edge_at_a = false) {
    for (std::uint32_t i = 0; i < lanes; ++i) {
      const PortRef at_a{a, add_port(a, edge_at_a)};
      const PortRef at_b{b, add_port(b, false)};
      shape_.wires.push_back({at_a, at_b});
      ports_[{a, b}].push_back(at_a.port);
      ports_[{b, a}].push_back(at_b.port);
    }
  }

  // All lanes from `from` to the neighbour `to`, as one tier's next hops.
  Tier hops(std::uint32_t from, std::uint32_t to, std::uint8_t raise) const {
    Tier tier;
    for (const PortId port : ports_.at({from, to})) tier.push_back({port, raise});
    return tier;
  }

  void route(std::uint32_t at, std::uint32_t dst, std::vector<Tier> tiers) {
    shape_.nodes[at].routes.push_back({node_id(dst), std::move(tiers)});
  }

  Shape& shape() { return shape_; }

 private:
  PortId add_port(std::uint32_t node, bool edge) {
    auto& edges = shape_.nodes[node].edge;
    edges.push_back(edge);
    return PortId(static_cast<std::uint16_t>(edges.size() - 1));
  }

  Shape shape_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<PortId>> ports_;
};

}  // namespace

std::string_view name(Kind kind) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(Kind::kCount)> kNames{
      "pair", "ring", "line", "star", "mesh"};
  return kNames[static_cast<std::size_t>(kind)];
}

Shape make_pair(std::uint32_t lanes, bool spread) {
  Builder builder(2);
  builder.join(0, 1, lanes);
  for (std::uint32_t at = 0; at < 2; ++at) {
    const Tier all = builder.hops(at, 1 - at, 0);
    std::vector<Tier> tiers;
    if (spread) tiers.push_back(all);
    for (std::size_t i = 0; !spread && i < all.size(); ++i) tiers.push_back({all[i]});
    builder.route(at, 1 - at, std::move(tiers));
  }
  return std::move(builder.shape());
}

Shape make_line(std::uint32_t n, std::uint32_t lanes) {
  Builder builder(n);
  for (std::uint32_t i = 0; i + 1 < n; ++i) builder.join(i, i + 1, lanes);
  for (std::uint32_t at = 0; at < n; ++at) {
    for (std::uint32_t dst = 0; dst < n; ++dst) {
      if (dst != at) builder.route(at, dst, {builder.hops(at, dst > at ? at + 1 : at - 1, 0)});
    }
  }
  return std::move(builder.shape());
}

Shape make_ring(std::uint32_t n, std::uint32_t lanes) {
  Builder builder(n);
  for (std::uint32_t i = 0; i < n; ++i) builder.join(i, (i + 1) % n, lanes);
  for (std::uint32_t at = 0; at < n; ++at) {
    for (std::uint32_t dst = 0; dst < n; ++dst) {
      if (dst == at) continue;
      const bool up = (dst + n - at) % n <= n / 2;
      const std::uint32_t to = up ? (at + 1) % n : (at + n - 1) % n;
      const bool dateline = up ? at == n - 1 : at == 0;
      builder.route(at, dst, {builder.hops(at, to, dateline ? 1 : 0)});
    }
  }
  return std::move(builder.shape());
}

Shape make_star(std::uint32_t leaves, std::uint32_t lanes) {
  Builder builder(leaves + 1);
  builder.shape().nodes[0].endpoint = false;
  for (std::uint32_t i = 1; i <= leaves; ++i) builder.join(0, i, lanes, true);
  for (std::uint32_t dst = 1; dst <= leaves; ++dst) {
    builder.route(0, dst, {builder.hops(0, dst, 0)});
    for (std::uint32_t at = 1; at <= leaves; ++at) {
      if (at != dst) builder.route(at, dst, {builder.hops(at, 0, 0)});
    }
  }
  // The switch itself can be spoken to (echo errors come from it).
  for (std::uint32_t at = 1; at <= leaves; ++at) builder.route(at, 0, {builder.hops(at, 0, 0)});
  return std::move(builder.shape());
}

Shape make_mesh(std::uint32_t switches, std::uint32_t endpoints, std::uint32_t lanes) {
  const std::uint32_t total = switches * (1 + endpoints);
  const auto home = [&](std::uint32_t node) {
    return node < switches ? node : (node - switches) / endpoints;
  };
  Builder builder(total);
  for (std::uint32_t i = 0; i < switches; ++i) {
    builder.shape().nodes[i].endpoint = false;
    for (std::uint32_t j = i + 1; j < switches; ++j) builder.join(i, j, lanes);
  }
  for (std::uint32_t e = switches; e < total; ++e) builder.join(home(e), e, 1, true);
  for (std::uint32_t at = 0; at < total; ++at) {
    for (std::uint32_t dst = 0; dst < total; ++dst) {
      if (dst == at) continue;
      if (at >= switches) {
        builder.route(at, dst, {builder.hops(at, home(at), 0)});
      } else if (home(dst) == at) {
        builder.route(at, dst, {builder.hops(at, dst, 0)});
      } else {
        std::vector<Tier> tiers{builder.hops(at, home(dst), 1), {}};
        for (std::uint32_t via = 0; via < switches; ++via) {
          if (via == at || via == home(dst)) continue;
          for (const NextHop& hop : builder.hops(at, via, 1)) tiers[1].push_back(hop);
        }
        if (tiers[1].empty()) tiers.pop_back();
        builder.route(at, dst, std::move(tiers));
      }
    }
  }
  return std::move(builder.shape());
}

}  // namespace mtl::sim
