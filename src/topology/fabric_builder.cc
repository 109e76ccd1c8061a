#include "topology/fabric_builder.h"

namespace mtl::topology {

namespace pb = mtlink::topology;

FabricBuilder::Node FabricBuilder::endpoint(const std::string& name, bool transit) {
  const auto index = static_cast<Node>(topology_.nodes_size());
  pb::Node& node = *topology_.add_nodes();
  node.set_node(index + 1);
  node.set_name(name);
  node.set_role(pb::Node::ENDPOINT);
  if (transit) node.set_transit(true);
  next_port_.push_back(0);
  return index;
}

FabricBuilder::Node FabricBuilder::switch_node(const std::string& name, std::uint32_t level,
                                               std::uint32_t radix) {
  const Node index = endpoint(name);
  node(index).set_role(pb::Node::SWITCH);
  node(index).set_level(level);
  if (radix != 0) node(index).set_ports(radix);
  return index;
}

void FabricBuilder::join(Node a, Node b, std::uint32_t lanes, std::uint64_t lane) {
  pb::Link& link = *topology_.add_links();
  link.mutable_a()->set_node(id(a));
  link.mutable_a()->set_port(next_port_[a]++);
  link.mutable_b()->set_node(id(b));
  link.mutable_b()->set_port(next_port_[b]++);
  link.set_bps(lanes * lane);
  if (lanes != 1) link.set_lanes(lanes);
}

void FabricBuilder::place(Node index, const std::vector<std::uint32_t>& at) {
  for (const std::uint32_t coordinate : at) node(index).add_at(coordinate);
}

void FabricBuilder::lanes(Node index, std::uint32_t lanes) {
  node(index).set_lanes(lanes);
}

void FabricBuilder::group(const std::string& name, const std::vector<Node>& members) {
  pb::Group& group = *topology_.add_groups();
  group.set_name(name);
  for (const Node member : members) group.add_nodes(id(member));
}

void FabricBuilder::parameter(const std::string& name, const std::string& value) {
  pb::Parameter& parameter = *topology_.mutable_origin()->add_parameters();
  parameter.set_name(name);
  parameter.set_value(value);
}

void FabricBuilder::show(const std::string& arithmetic) {
  topology_.mutable_origin()->add_arithmetic(arithmetic);
}

void FabricBuilder::cite(const std::string& says, const std::string& where) {
  pb::Source& source = *topology_.mutable_origin()->add_sources();
  source.set_says(says);
  source.set_where(where);
}

}  // namespace mtl::topology
