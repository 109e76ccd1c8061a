// Either end of memif's control connection, given any messages with any number of descriptors.

#include <sys/eventfd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "phy/memif/memif_session.h"

namespace {

using mtl::Fd;
using mtl::phy::MemifLayout;
using mtl::phy::MemifSession;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

Fd some_fd() {
  return Fd(::eventfd(0, EFD_CLOEXEC));
}

MemifSession make(bool server) {
  static const MemifSession::Offer open{};
  static const MemifSession::Offer secret{mtl::phy::memif_secret("s"), false};
  static const MemifSession::Offer taken{{}, true};
  if (server) {
    return MemifSession::server("us", [](std::uint32_t id) -> const MemifSession::Offer* {
      return id == 0 ? &open : id == 1 ? &secret : id == 2 ? &taken : nullptr;
    });
  }
  return MemifSession::client("us", {}, [](std::uint8_t log2) -> mtl::Result<MemifLayout> {
    require(log2 >= 1 && log2 <= mtl::phy::kMaxMemifLog2Ring, "rings have a size there can be");
    MemifLayout layout;
    layout.regions.push_back({some_fd(), 1 << 20});
    layout.to_server = {0, 0, log2, some_fd()};
    layout.to_client = {0, 1 << 19, log2, some_fd()};
    return layout;
  });
}

void check(const MemifLayout& layout) {
  for (const auto* ring : {&layout.to_server, &layout.to_client}) {
    require(static_cast<bool>(ring->interrupt), "a ring has its interrupt");
    require(ring->region < layout.regions.size(), "a ring lies in a region");
    require(
        ring->offset + mtl::phy::memif_ring_bytes(ring->log2) <= layout.regions[ring->region].size,
        "and inside it");
  }
}

}  // namespace

// A byte says which end; then each message: a byte for its descriptors, its type, and so many bytes
// of fields as the next byte says; what is left of the message is zeros.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  MemifSession session = make((data[0] & 1) != 0);
  ++data;
  --size;
  while (size >= 3) {
    std::vector<Fd> fds;
    for (unsigned n = data[0] & 3; n > 0; --n) fds.push_back(some_fd());
    std::vector<std::byte> message(mtl::phy::kMemifMessage - (data[0] >> 7));
    message[0] = static_cast<std::byte>(data[1]);
    const std::size_t n = std::min<std::size_t>({data[2], size - 3, message.size() - 2});
    std::memcpy(message.data() + 2, data + 3, n);
    session.receive(message, std::move(fds));
    if (session.ready()) {
      check(session.take_layout());
      session.connected();
    }
    for (unsigned said = 0; session.next(); ++said) require(said < 2, "it says no more than asked");
    data += 3 + n;
    size -= 3 + n;
  }
  return 0;
}
