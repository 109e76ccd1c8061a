// Makes, proves and draws fabrics (docs/mtlink-config.md).
#include <iostream>

#include "tools/mtlink-config/cli.h"
#include "tools/standard_streams.h"

int main(int argc, char** argv) {
  mtl::tools::hold_standard_streams();
  const int status = mtl::tools::run_config(
      {.arguments = {argv + 1, argv + argc}, .out = std::cout, .err = std::cerr});
  return mtl::tools::end_program("mtlink-config", status, 1);
}
