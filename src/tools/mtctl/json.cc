#include "tools/mtctl/json.h"

#include <boost/json/array.hpp>
#include <utility>

#include "control/file/json_object.h"

namespace mtl::tools {
namespace {

using boost::json::array;
using boost::json::object;
using control::to_json;

/// The ports of `node`, each as `select` makes it, behind its number and name.
template <class Select>
array each_port(const mtlink::control::NodeState& node, Select select) {
  array all;
  for (const auto& port : node.ports()) {
    object entry{{"port", port.port()}, {"name", port.name()}};
    select(port, entry);
    all.push_back(std::move(entry));
  }
  return all;
}

void merge(object& into, object from) {
  for (auto& pair : from) into[pair.key()] = std::move(pair.value());
}

array vcs_json(const mtlink::control::NodeState& node) {
  array all;
  for (const auto& port : node.ports())
    for (const auto& vc : port.link().vcs()) {
      object entry{{"port", port.port()}, {"name", port.name()}};
      merge(entry, to_json(vc));
      all.push_back(std::move(entry));
    }
  return all;
}

array drops_json(const mtlink::control::NodeState& node) {
  array all;
  const auto add = [&](object where, const auto& drops) {
    for (const auto& drop : drops) {
      object entry = where;
      entry["layer"] = drop.layer();
      entry["reason"] = drop.name();
      entry["count"] = drop.count();
      all.push_back(std::move(entry));
    }
  };
  for (const auto& port : node.ports())
    add({{"port", port.port()}, {"name", port.name()}}, port.drops());
  for (const auto& device : node.shared_devices()) add({{"device", device.name()}}, device.drops());
  add({{"removed_ports", node.removed().ports()}}, node.removed().drops());
  for (const auto& shard : node.shards()) add({{"shard", shard.shard()}}, shard.drops());
  return all;
}

}  // namespace

object view_json(const std::string& view, const mtlink::control::NodeState& node) {
  if (view == "ports")
    return {{"ports", each_port(node, [](const auto& port, object& entry) {
               auto copy = port;
               copy.clear_link();
               merge(entry, to_json(copy));
               entry["state"] = port.link().state();
             })}};
  if (view == "links")
    return {{"links", each_port(node, [](const auto& port, object& entry) {
               merge(entry, to_json(port.link()));
               entry.erase("vcs");
             })}};
  if (view == "vcs") return {{"vcs", vcs_json(node)}};
  if (view == "drops") return {{"drops", drops_json(node)}};
  object all = to_json(node);
  if (view == "routes" || view == "workers" || view == "trunks") return {{view, all[view]}};
  if (view == "memory") return {{view, to_json(node.memory())}};
  for (const char* part :
       {"ports", "routes", "trunks", "shards", "workers", "memory", "shared_devices"})
    all.erase(part);
  std::uint64_t refused = 0;
  for (const auto& shard : node.shards()) refused += shard.refused();
  all["own_refused"] = refused;
  return all;
}

}  // namespace mtl::tools
