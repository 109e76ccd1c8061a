#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "../local_pair.h"
#include "base/heap_pool.h"
#include "phy/memif/memif_port.h"

namespace mtl::phy::test {

/// Both ends of a memif connection, in one process, without sockets: the client's memory, and the
/// server that was told of it.
struct MemifPair {
  explicit MemifPair(std::uint8_t log2 = 4, std::uint32_t buffer = 2048,
                     std::uint32_t max_frame = 2048, std::uint32_t buffers = 64)
      : server_pool(buffers, max_frame), client_pool(buffers, max_frame) {
    server = must(MemifPort::create({"server", max_frame}, server_pool));
    client = must(MemifPort::create({"client", max_frame}, client_pool));
    join(log2, buffer);
  }
  void join(std::uint8_t log2, std::uint32_t buffer) {
    auto ours = must(MemifSegment::create(log2, buffer));
    layout = must(ours->layout());
    server->install(must(MemifSegment::attach(copy(layout), ringer)));
    client->install(std::move(ours));
  }
  static MemifLayout copy(const MemifLayout& from) {
    MemifLayout out;
    for (const MemifRegion& region : from.regions) {
      out.regions.push_back({Fd(::dup(region.memory.get())), region.size});
    }
    out.to_server = copy(from.to_server);
    out.to_client = copy(from.to_client);
    return out;
  }
  static MemifRing copy(const MemifRing& from) {
    return {from.region, from.offset, from.log2, Fd(::dup(from.interrupt.get()))};
  }

  EventfdRinger ringer = must(EventfdRinger::open());
  HeapPool server_pool, client_pool;
  std::unique_ptr<MemifPort> server, client;
  MemifLayout layout;  ///< as the peer process has it
};

/// The memory as a peer that plays foul has it: mapped once more, written anywhere.
class MemifScribbler {
 public:
  explicit MemifScribbler(const MemifLayout& layout)
      : size_(layout.regions[0].size),
        base_(static_cast<std::byte*>(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED,
                                             layout.regions[0].memory.get(), 0))),
        to_server(base_ + layout.to_server.offset, layout.to_server.log2),
        to_client(base_ + layout.to_client.offset, layout.to_client.log2) {
    if (base_ == MAP_FAILED) throw std::runtime_error("mmap");
  }
  ~MemifScribbler() { ::munmap(base_, size_); }
  MemifScribbler(const MemifScribbler&) = delete;
  MemifScribbler& operator=(const MemifScribbler&) = delete;

  static void set(std::uint16_t* word, unsigned value) {
    __atomic_store_n(word, static_cast<std::uint16_t>(value), __ATOMIC_SEQ_CST);
  }
  static std::uint16_t get(const std::uint16_t* word) {
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
  }
  std::byte* base() { return base_; }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  std::byte* base_;

 public:
  MemifRingView to_server, to_client;
};

}  // namespace mtl::phy::test
