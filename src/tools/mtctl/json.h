#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "mtlink/control.pb.h"

namespace mtl::tools {

/// The part of a node's state that `show VIEW` is about, as one object.
boost::json::object view_json(const std::string& view, const mtlink::control::NodeState& node);

}  // namespace mtl::tools
