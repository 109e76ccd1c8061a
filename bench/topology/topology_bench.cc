// How long a fabric takes from nothing to a proof: generation, routes, search for deadlock,
// digests; and what the tables take. One thread.
#include <benchmark/benchmark.h>

#include <memory>

#include "topology/cycle.h"
#include "topology/routes.h"
#include "topology/shapes.h"
#include "topology/stamp.h"

namespace {

using mtl::topology::fabric_digest;
using mtl::topology::find_cycle;
using mtl::topology::generate;
using mtl::topology::Graph;
using mtl::topology::make_routes;
using mtl::topology::node_digests;
using mtl::topology::Wanted;

void prove(benchmark::State& state, const Wanted& wanted) {
  for (auto _ : state) {
    const auto made = generate(wanted);
    if (!made) return state.SkipWithError(made.error().message.c_str());
    auto built = Graph::build(*made);
    const auto graph = std::make_shared<const Graph>(std::get<Graph>(std::move(built)));
    const auto routes = make_routes(graph);
    if (!routes) return state.SkipWithError(routes.error().message.c_str());
    if (find_cycle(routes->tables())) return state.SkipWithError("a cycle");
    benchmark::DoNotOptimize(*fabric_digest(*node_digests(*routes)));
    state.counters["endpoints"] = static_cast<double>(graph->endpoints().size());
    state.counters["nodes"] = static_cast<double>(graph->nodes());
    state.counters["table_MiB"] = static_cast<double>(routes->tables().bytes()) / (1 << 20);
  }
}

void preset(benchmark::State& state, const char* name) {
  Wanted wanted;
  wanted.topology = name;
  prove(state, wanted);
}
BENCHMARK_CAPTURE(preset, fc8, "fc8")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(preset, nvl72, "nvl72")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(preset, cloudmatrix384, "cloudmatrix384")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(preset, tpu_v4_cube, "tpu-v4-cube")->Unit(benchmark::kMillisecond);

/// Three levels of switches of 64 ports.
void fat_tree(benchmark::State& state) {
  Wanted wanted;
  wanted.topology = "fat-tree";
  wanted.gpu_count = static_cast<std::uint32_t>(state.range(0));
  wanted.radix = 64;
  prove(state, wanted);
}
BENCHMARK(fat_tree)->RangeMultiplier(2)->Range(1024, 16384)->Unit(benchmark::kMillisecond);

void torus(benchmark::State& state, std::vector<std::uint32_t> size) {
  Wanted wanted;
  wanted.topology = "torus";
  wanted.size = std::move(size);
  prove(state, wanted);
}
BENCHMARK_CAPTURE(torus, 8x8x16, {8, 8, 16})->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(torus, 16x16x16, {16, 16, 16})->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK_CAPTURE(torus, 32x32x16, {32, 32, 16})->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
