#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mtlink/topology.pb.h"

namespace mtl::topology {

/// Puts a topology together: numbers nodes from 1 and the ports of each from 0.
class FabricBuilder {
 public:
  using Node = std::uint32_t;  ///< index

  Node endpoint(const std::string& name, bool transit = false);
  Node switch_node(const std::string& name, std::uint32_t level, std::uint32_t radix = 0);
  /// One link of `lanes` lanes of `lane` bits per second each.
  void join(Node a, Node b, std::uint32_t lanes, std::uint64_t lane);
  void place(Node node, const std::vector<std::uint32_t>& at);
  /// Lanes that the node has altogether, used or not.
  void lanes(Node node, std::uint32_t lanes);
  void group(const std::string& name, const std::vector<Node>& members);
  void parameter(const std::string& name, const std::string& value);
  void show(const std::string& arithmetic);
  void cite(const std::string& says, const std::string& where);
  std::uint32_t id(Node node) const { return topology_.nodes(static_cast<int>(node)).node(); }

  mtlink::topology::Topology& topology() { return topology_; }

 private:
  mtlink::topology::Node& node(Node index) {
    return *topology_.mutable_nodes(static_cast<int>(index));
  }
  mtlink::topology::Topology topology_;
  std::vector<std::uint32_t> next_port_;
};

}  // namespace mtl::topology
