#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "tools/mtctl/cli.h"
#include "tools/standard_streams.h"

int main(int argc, char** argv) {
  mtl::tools::hold_standard_streams();
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");
  return mtl::tools::run({.arguments = {argv + 1, argv + argc},
                          .out = std::cout,
                          .err = std::cerr,
                          .terminal = terminal,
                          .colour = terminal && (no_colour == nullptr || *no_colour == '\0')});
}
