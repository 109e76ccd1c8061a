// An endpoint with nothing to do: claims any free slot, says so, and sleeps until something is due,
// until it is ended. What it costs is measured from outside (bench/switch/idle).
#include <chrono>
#include <cstdio>

#include "endpoint/endpoint.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CONTROL-SOCKET\n", argv[0]);
    return 2;
  }
  auto endpoint =
      mtl::endpoint::Endpoint::claim({.control_socket = argv[1], .name = {}, .node = {}});
  if (!endpoint) {
    std::fprintf(stderr, "%s\n", endpoint.error().message.c_str());
    return 1;
  }
  bool told = false;
  for (;;) {
    while ((*endpoint)->progress()) {
    }
    if (!told && (*endpoint)->usable()) {
      told = true;
      std::puts("up");
      std::fflush(stdout);
    }
    (*endpoint)->wait(std::chrono::seconds(1));
  }
}
