#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mtlink/control.pb.h"

/// The books of a node (docs/mtctl.md): what came in must be what went out and what is still there.
namespace mtl::tools {

struct Term {
  std::string name;
  std::uint64_t value = 0;
};

/// One equation: the left terms' sum is that of the right terms, or exceeds it by at most the slack
/// terms' sum: things that are counted, but not apart by the kind that this book is about.
struct Book {
  std::string place;  ///< "shard 0", "port 1 (cable0)", "node"
  std::string about;  ///< "packets", "frames in", ...
  std::vector<Term> left;
  std::vector<Term> right;
  std::vector<Term> slack;

  /// How far the left is above (or, negative, below) what the right and the slack allow; 0:
  /// balanced.
  std::int64_t difference() const;
};

/// All books of a node, shards first, then the node, then its ports.
std::vector<Book> books(const mtlink::control::NodeState& node);

/// "shard 0, packets: accepted 5 + made 1 = acked 6 (balanced)" in one line.
std::string describe(const Book& book);

}  // namespace mtl::tools
