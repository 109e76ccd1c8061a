#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/mtperf/client.h"
#include "tools/mtperf/open_endpoint.h"
#include "tools/mtperf/serve.h"

namespace mtl::mtperf {

/// Options of `mtperf serve`, and of `mtperf write` and its like, as they are given.
struct OperationArguments {
  EndpointChoice endpoint;
  Mode mode = Mode::kWrite;
  std::uint16_t peer = 0;
  std::uint16_t partition = 0;
  std::uint16_t mtu = 65535;
  std::vector<std::uint64_t> sizes;
  bool all_sizes = false;
  std::uint32_t depth = 0;             ///< 0: the mode's
  std::optional<std::uint64_t> count;  ///< 0: by time
  double seconds = 1;
  double patience = 10;
  bool json = false;
  ClientOptions client;
  ServeOptions serve;
};

/// Adds `serve` and a command for each Mode; one that is chosen calls `run` when all is parsed.
void add_operation_commands(CLI::App& app, OperationArguments& arguments,
                            const std::function<void(CLI::App&, EndpointChoice&)>& add_endpoint,
                            std::function<int()>& run, const Stops& stops);

/// Does it; the exit status.
int run_client(OperationArguments& arguments, const Stops& stops);
int run_server(OperationArguments& arguments, const Stops& stops);

}  // namespace mtl::mtperf
