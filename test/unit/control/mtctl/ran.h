#pragma once

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/mtctl/cli.h"

namespace mtl::tools {

/// What became of a run of mtctl.
struct Ran {
  int status = -1;
  std::string out;
  std::string err;
};

/// Runs mtctl within the test; `terminal`: standard output is one, with colours.
inline Ran mtctl(std::vector<std::string> arguments, bool terminal = false) {
  std::ostringstream out;
  std::ostringstream err;
  Ran ran;
  ran.status = run({.arguments = std::move(arguments),
                    .out = out,
                    .err = err,
                    .terminal = terminal,
                    .colour = terminal});
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

}  // namespace mtl::tools
