// The switch's end of a local port whose peer writes anything anywhere into the shared memory,
// between any two calls.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/heap_pool.h"
#include "phy/local_port.h"

namespace {

using mtl::Buffer;

constexpr std::uint32_t kBuffers = 64;
constexpr std::uint32_t kMaxFrame = 2048;
constexpr std::size_t kMemory = mtl::phy::kLocalRings + 2 * std::size_t{mtl::phy::kMinLocalRing};

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

/// The peer's view of the memory: it maps what the claim gave and writes where it likes.
class Scribbler {
 public:
  explicit Scribbler(int memory)
      : base_(static_cast<std::byte*>(
            mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0))) {
    require(base_ != MAP_FAILED, "the peer can map its memory");
  }
  ~Scribbler() { munmap(base_, kMemory); }
  Scribbler(const Scribbler&) = delete;
  Scribbler& operator=(const Scribbler&) = delete;

  void write(std::size_t at, const std::uint8_t* bytes, std::size_t n) {
    at %= kMemory;
    std::memcpy(base_ + at, bytes, std::min(n, kMemory - at));
  }

 private:
  std::byte* base_;
};

/// Where a write is worth most: each side's words, and the beginning of each ring.
std::size_t target(std::uint8_t choice, std::uint8_t detail) {
  const std::size_t word = (detail & 7) * std::size_t{64};
  switch (choice & 3) {
    case 0:
      return offsetof(mtl::phy::LocalHeader, words) + word;
    case 1:
      return offsetof(mtl::phy::LocalHeader, words) + sizeof(mtl::phy::LocalWords) + word;
    case 2:
      return mtl::phy::kLocalRings + mtl::phy::kMinLocalRing + detail * std::size_t{8};
    default:
      return detail * std::size_t{521};
  }
}

void receive(mtl::phy::LocalPort& port) {
  std::array<Buffer*, 16> burst;
  const unsigned n = port.receive(burst);
  require(n <= burst.size(), "a burst is no longer than asked for");
  for (unsigned i = 0; i < n; ++i) {
    require(burst[i]->length <= kMaxFrame, "no frame is longer than allowed");
    mtl::give_back(burst[i]);
  }
}

void send(mtl::phy::LocalPort& port) {
  const unsigned room = port.room();
  mtl::link::FrameOut frame;
  frame.head.fill(std::byte{0x55});
  frame.head_length = mtl::link::kFrameHeader;
  for (unsigned i = 0; i < std::min(room, 4U); ++i) port.send(frame);
  port.flush();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  mtl::HeapPool pool(kBuffers, kMaxFrame);
  auto port = mtl::phy::LocalPort::create({"fuzz", mtl::phy::kMinLocalRing, kMaxFrame}, pool);
  require(static_cast<bool>(port), "a port can be made");
  {
    auto fds = (*port)->claim();
    require(static_cast<bool>(fds), "it can be claimed");
    Scribbler peer(fds->memory.get());
    while (size >= 4) {
      const std::size_t n = std::min<std::size_t>(data[2] & 63, size - 3);
      peer.write(target(data[0], data[1]), data + 3, n);
      switch (data[0] >> 2 & 3) {
        case 0:
        case 1:
          receive(**port);
          break;
        case 2:
          send(**port);
          break;
        default:
          if ((*port)->arm()) (*port)->disarm();
          (*port)->carrier();
      }
      data += 3 + n;
      size -= 3 + n;
    }
  }
  port->reset();
  require(pool.available() == kBuffers, "every buffer came back");
  return 0;
}
