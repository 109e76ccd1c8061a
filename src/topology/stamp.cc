#include "topology/stamp.h"

#include <openssl/evp.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace mtl::topology {

namespace {

/// What a digest is made of.
class Sha256 {
 public:
  explicit Sha256(std::string_view about) { add(std::as_bytes(std::span(about))); }
  void u8(std::size_t value) { bytes_.push_back(static_cast<std::byte>(value & 0xFF)); }
  void u16(std::size_t value) {
    u8(value >> 8);
    u8(value);
  }
  void add(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  Result<Digest> end() const {
    Digest out;
    unsigned int length = 0;
    if (EVP_Digest(bytes_.data(), bytes_.size(), reinterpret_cast<unsigned char*>(out.data()),
                   &length, EVP_sha256(), nullptr) == 1 &&
        length == out.size()) {
      return out;
    }
    return Error{
        "libcrypto makes no SHA-256, so the routes have no digest; look into the configuration of "
        "OpenSSL, or free memory"};
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::string hex(const Digest& digest) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte b : digest) {
    out += kDigits[std::to_integer<std::size_t>(b) >> 4];
    out += kDigits[std::to_integer<std::size_t>(b) & 15];
  }
  return out;
}

namespace {

/// Destinations that have the same tiers, by these.
class Groups {
 public:
  /// The number of the group with these tiers.
  std::size_t group(const std::vector<network::Tier>& tiers) {
    const auto [place, fresh] = number_.emplace(encode(tiers), groups_.size());
    if (fresh) groups_.push_back({place->first, {}});
    return place->second;
  }
  void add(std::size_t group, NodeId dst) { groups_[group].dsts.push_back(dst.value()); }
  Result<Digest> digest(NodeId node) {
    std::erase_if(groups_, [](const Group& group) { return group.dsts.empty(); });
    for (Group& group : groups_) {
      if (!std::is_sorted(group.dsts.begin(), group.dsts.end())) {
        std::sort(group.dsts.begin(), group.dsts.end());
      }
    }
    std::sort(groups_.begin(), groups_.end(),
              [](const Group& a, const Group& b) { return a.dsts.front() < b.dsts.front(); });
    Sha256 sha("mtlink routes 1");
    sha.u16(node.value());
    for (const Group& group : groups_) {
      sha.u16(group.dsts.size());
      for (const std::uint16_t dst : group.dsts) sha.u16(dst);
      sha.add(std::as_bytes(std::span(group.tiers)));
    }
    return sha.end();
  }

 private:
  struct Group {
    std::string tiers;
    std::vector<std::uint16_t> dsts;
  };
  static std::string encode(const std::vector<network::Tier>& tiers) {
    std::string out;
    const auto u8 = [&](std::size_t value) { out += static_cast<char>(value & 0xFF); };
    u8(tiers.size());
    for (const network::Tier& tier : tiers) {
      u8(tier.size());
      for (const network::NextHop& hop : tier) {
        u8(hop.port.value() >> 8);
        u8(hop.port.value());
        u8(hop.raise);
      }
    }
    return out;
  }
  std::map<std::string, std::size_t> number_;
  std::vector<Group> groups_;
};

/// node_digest() of Routes::of(node), without listing tiers again for each destination of a column.
Result<Digest> digest_of(const Routes& routes, std::size_t node) {
  constexpr std::size_t kNew = static_cast<std::size_t>(-1);
  const Graph& graph = routes.graph();
  std::vector<bool> own(graph.nodes());  // routed to otherwise than their columns
  for (const Graph::Out& out : graph.outs(node)) own[out.to] = true;
  Groups groups;
  std::vector<std::size_t> of_column(routes.tables().columns(), kNew);
  for (std::size_t dst = 0; dst < graph.nodes(); ++dst) {
    if (dst == node) continue;
    if (own[dst]) {
      groups.add(groups.group(routes.route(node, dst).tiers), graph.node(dst).id);
      continue;
    }
    std::size_t& group = of_column[routes.column(dst)];
    if (group == kNew) {
      const network::Route route = routes.route(node, dst);
      group = route.tiers.empty() ? kNew - 1 : groups.group(route.tiers);
    }
    if (group != kNew - 1) groups.add(group, graph.node(dst).id);
  }
  return groups.digest(graph.node(node).id);
}

}  // namespace

Result<Digest> node_digest(NodeId node, std::span<const network::Route> routes) {
  Groups groups;
  for (const network::Route& route : routes) groups.add(groups.group(route.tiers), route.dst);
  return groups.digest(node);
}

Result<Digest> fabric_digest(std::span<const std::pair<NodeId, Digest>> nodes) {
  std::vector<std::pair<NodeId, Digest>> sorted(nodes.begin(), nodes.end());
  std::sort(sorted.begin(), sorted.end());
  Sha256 sha("mtlink fabric 1");
  for (const auto& [node, digest] : sorted) {
    sha.u16(node.value());
    sha.add(digest);
  }
  return sha.end();
}

Result<std::vector<std::pair<NodeId, Digest>>> node_digests(const Routes& routes) {
  std::vector<std::pair<NodeId, Digest>> out;
  for (std::size_t n = 0; n < routes.graph().nodes(); ++n) {
    const auto digest = digest_of(routes, n);
    if (!digest) return digest.error();
    out.emplace_back(routes.graph().node(n).id, *digest);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace mtl::topology
