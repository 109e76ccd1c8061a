#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace mtl::tools {

/// What mtlink-config was called with, and where it writes.
struct ConfigCall {
  std::vector<std::string> arguments;  ///< without the program's name
  std::ostream& out;
  std::ostream& err;
};

/// Runs mtlink-config. 0: done, and the fabric is as good as was asked; 1: the fabric is refused
/// (`check`), or something could not be read, made or written; 2: wrong usage.
int run_config(const ConfigCall& call);

}  // namespace mtl::tools
