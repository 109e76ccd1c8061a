// What CRC-32C costs a frame, in ns per call with the bytes in the cache, beside a memcpy of the
// same bytes: the least that a port pays for them anyway. As in a frame, the bytes begin off
// alignment by 2.

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"

namespace {

constexpr std::size_t kOffset = 2;

std::vector<std::byte> make_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size + kOffset);
  std::uint32_t value = 1;
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>((value = value * 1664525 + 1013904223) >> 24);
  return bytes;
}

template <std::uint32_t (*kCrc)(std::span<const std::byte>)>
void crc(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const auto bytes = make_bytes(size);
  const auto part = std::span(bytes).subspan(kOffset);
  for (auto _ : state) {
    benchmark::DoNotOptimize(part.data());
    benchmark::DoNotOptimize(kCrc(part));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  const auto from = make_bytes(size);
  std::vector<std::byte> to(size);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data() + kOffset, size);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int size : {28, 64, 256, 1500, 4096, 9000}) bench->Arg(size);
}

BENCHMARK(copy)->Name("memcpy")->Apply(sizes);
BENCHMARK(crc<mtl::crc32c>)->Name("crc32c")->Apply(sizes);
BENCHMARK(crc<mtl::crc32c_short>)->Name("crc32c_short")->Apply(sizes);
BENCHMARK(crc<mtl::crc32c_portable>)->Name("crc32c_portable")->Apply(sizes);

}  // namespace
