#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "tools/mtctl/cli.h"

int main(int argc, char** argv) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");
  return mtl::tools::run({.arguments = {argv + 1, argv + argc},
                          .out = std::cout,
                          .err = std::cerr,
                          .terminal = terminal,
                          .colour = terminal && (no_colour == nullptr || *no_colour == '\0')});
}
