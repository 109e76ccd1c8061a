// The server's end of memif whose client writes anything anywhere into the shared memory, between
// any two calls.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/heap_pool.h"
#include "phy/memif/memif_port.h"

namespace {

using mtl::Buffer;
using mtl::phy::MemifSegment;

constexpr std::uint32_t kBuffers = 64;
constexpr std::uint32_t kMaxFrame = 2048;
constexpr std::uint8_t kLog2Ring = 4;
constexpr std::uint32_t kBuffer = 256;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

template <class T>
T must(mtl::Result<T> result) {
  require(static_cast<bool>(result), "what the test needs can be made");
  return std::move(*result);
}

/// Where a write is worth most: the words and the descriptors of either ring.
std::size_t target(std::uint8_t choice, std::uint8_t detail) {
  constexpr auto kRing = static_cast<std::size_t>(mtl::phy::memif_ring_bytes(kLog2Ring));
  constexpr std::size_t kDescriptors = 128;
  switch (choice & 3) {
    case 0:
      return (detail & 1) * kRing + (detail >> 1 & 1) * std::size_t{60} + 4;
    case 1:
      return kDescriptors + (detail & 63) * std::size_t{4};
    case 2:
      return kRing + kDescriptors + (detail & 63) * std::size_t{4};
    default:
      return detail * std::size_t{33};
  }
}

void receive(mtl::phy::MemifPort& port) {
  std::array<Buffer*, 16> burst;
  const unsigned n = port.receive(burst);
  require(n <= burst.size(), "a burst is no longer than asked for");
  for (unsigned i = 0; i < n; ++i) {
    require(burst[i]->length <= kMaxFrame, "no frame is longer than allowed");
    mtl::give_back(burst[i]);
  }
}

void send(mtl::phy::MemifPort& port) {
  const unsigned room = port.room();
  mtl::link::FrameOut frame;
  frame.head.fill(std::byte{0x55});
  frame.head_length = mtl::link::kFrameHeader;
  frame.min_length = 600;
  for (unsigned i = 0; i < std::min(room, 4U); ++i) port.send(frame);
  port.flush();
}

void step(mtl::phy::MemifPort& port, unsigned what) {
  switch (what & 3) {
    case 0:
    case 1:
      return receive(port);
    case 2:
      return send(port);
    default:
      if (port.arm()) port.disarm();
      port.carrier();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static mtl::HeapPool pool(kBuffers, kMaxFrame);
  static auto ringer = must(mtl::phy::EventfdRinger::open());
  static const auto port = must(mtl::phy::MemifPort::create({"fuzz", kMaxFrame}, pool));
  const auto client = must(MemifSegment::create(kLog2Ring, kBuffer));
  port->install(must(MemifSegment::attach(must(client->layout()), ringer)));
  const MemifSegment::Region memory = client->regions().front();
  while (size >= 4) {
    const std::size_t n = std::min<std::size_t>(data[2] & 63, size - 3);
    const std::size_t at = target(data[0], data[1]) % memory.size;
    std::memcpy(memory.base + at, data + 3, std::min<std::size_t>(n, memory.size - at));
    step(*port, data[0] >> 2);
    data += 3 + n;
    size -= 3 + n;
  }
  port->install(nullptr);
  require(pool.available() == kBuffers, "every buffer came back");
  return 0;
}
