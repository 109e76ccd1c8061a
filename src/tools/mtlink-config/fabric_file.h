#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "mtlink/topology.pb.h"
#include "topology/graph.h"

namespace mtl::tools {

/// A fabric read from a file and checked.
struct FabricFile {
  mtlink::topology::Topology topology;
  std::shared_ptr<const topology::Graph> graph;
};

/// Reads a .textproto, .txtpb or .json file. The error lists all faults, one a line, each beginning
/// "file:line:column: ".
Result<FabricFile> read_fabric(const std::string& file);

/// The message as text; --output's name tells the format, textproto without one.
Result<std::string> message_text(const google::protobuf::Message& message,
                                 const std::string& output);

}  // namespace mtl::tools
