#include "tools/mtctl/find_port.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "tools/mtctl/show.h"

namespace mtl::tools {

using mtlink::control::NodeState;

Error wrong_answer() {
  return Error{"mtswitchd answered something else than asked: is it of our version?"};
}

Result<NodeState> get_node(control::Client& client) {
  mtlink::control::Request request;
  request.mutable_get_node();
  auto response = client.call(request);
  if (!response) return response.error();
  if (!response->has_node()) return wrong_answer();
  return std::move(*response->mutable_node());
}

Result<std::uint32_t> find_port(const NodeState& node, const std::string& wanted) {
  const bool number =
      !wanted.empty() && wanted.find_first_not_of("0123456789") == std::string::npos;
  std::vector<std::string> known;
  for (const auto& port : node.ports()) {
    if (number ? std::to_string(port.port()) == wanted : port.name() == wanted) return port.port();
    known.push_back(port_label(port));
  }
  return Error{fmt::format("node {} has no port {}: it has {}", node.node(), wanted,
                           fmt::join(known, ", "))};
}

Result<std::uint32_t> find_port(control::Client& client, const std::string& wanted) {
  const auto node = get_node(client);
  if (!node) return node.error();
  return find_port(*node, wanted);
}

}  // namespace mtl::tools
