#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace mtl::tools {

/// What mtctl gets from its process.
struct Invocation {
  std::vector<std::string> arguments;  ///< without the program's name
  std::ostream& out;
  std::ostream& err;
  bool terminal = false;  ///< out is a terminal
  bool colour = false;
};

/// Runs mtctl. The exit status: 0, 1 for a failed command (one line on `err`), 2 for wrong usage.
int run(const Invocation& invocation);

}  // namespace mtl::tools
