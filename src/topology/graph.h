#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "mtlink/topology.pb.h"

/// A fabric as a file describes it (proto/mtlink/topology.proto), checked and indexed. Control
/// plane: allocates, any thread, nothing is shared.
namespace mtl::topology {

inline constexpr std::uint32_t kMaxPorts = 4096;     ///< of a node
inline constexpr std::uint64_t kMaxLinks = 262'144;  ///< of a fabric: some hundred MiB in memory
inline constexpr std::uint64_t kMaxRate = 1'000'000'000'000'000;  ///< of a link, bits per second

/// What is wrong with a topology, and with which field ("links[3].a.port"), so that who read it
/// from a file can say the line.
struct Fault {
  std::string path;
  std::string what;
};

/// Nodes and links by index: nodes as in the file, links likewise. Immutable.
class Graph {
 public:
  /// One direction of a link, seen from the node that sends.
  struct Out {
    std::uint32_t to = 0;    ///< index of the node at the far end
    std::uint32_t link = 0;  ///< index of the link
    std::uint32_t back = 0;  ///< index among the outs of `to` of the other direction
    PortId port;
    std::uint64_t bps = 0;
  };
  struct Node {
    NodeId id;
    std::string name;
    bool endpoint = false;  ///< sends and takes packets of its own
    bool transit = false;   ///< forwards packets of others
    std::uint32_t level = 0;
    std::vector<std::uint32_t> at;  ///< place in the shape, as in the file
  };

  /// The graph, or everything that is wrong, each fault naming the element, the arithmetic and the
  /// remedy: ids and names given twice, links to unknown nodes or to itself, ports with two links
  /// or beyond the node's, lanes that do not add up, rates of 0, a node without a link, nodes that
  /// hang on nothing that the first hangs on.
  static std::variant<Graph, std::vector<Fault>> build(const mtlink::topology::Topology& topology);

  std::size_t nodes() const { return nodes_.size(); }
  std::size_t links() const { return links_; }
  const Node& node(std::size_t index) const { return nodes_[index]; }
  /// Outgoing directions of a node's links, by port.
  std::span<const Out> outs(std::size_t node) const {
    return {outs_.data() + first_[node], first_[node + 1] - first_[node]};
  }
  /// Number of the first out of `node` among those of all nodes: outs are numbered 0..directions().
  std::size_t first_out(std::size_t node) const { return first_[node]; }
  std::size_t directions() const { return outs_.size(); }
  /// Index of the node with this id, or nodes().
  std::size_t find(NodeId id) const;
  const std::vector<std::uint32_t>& endpoints() const { return endpoints_; }
  /// As in the file; empty if it was made otherwise.
  const std::string& family() const { return family_; }
  /// "gpu3 port 2 -> leaf1 port 5".
  std::string describe(std::size_t node, const Out& out) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::size_t> first_;
  std::vector<Out> outs_;
  std::size_t links_ = 0;
  std::vector<std::uint32_t> index_;  ///< by node id
  std::vector<std::uint32_t> endpoints_;
  std::string family_;
  friend class GraphBuilder;
};

/// "1.6T", "800G", "2.5G": bits per second, as mtlink-config takes and prints them.
std::string rate_text(std::uint64_t bps);

}  // namespace mtl::topology
