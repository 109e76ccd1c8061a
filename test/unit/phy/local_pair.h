#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/heap_pool.h"
#include "phy/local_port.h"

namespace mtl::phy::test {

/// The value of a result that a test cannot do without.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// A copy of the endpoint's descriptors: as the peer process has them.
inline LocalPortFds copy_of(const LocalPortFds& fds) {
  return {Fd(::dup(fds.memory.get())), Fd(::dup(fds.doorbell.get()))};
}

/// Both ends of a local port, in one process.
struct LocalPair {
  explicit LocalPair(LocalPortConfig config = {"slot0", 65536, 2048}, std::uint32_t buffers = 64)
      : switch_pool(buffers, config.max_frame),
        endpoint_pool(buffers, config.max_frame),
        switch_end(must(LocalPort::create(config, switch_pool))),
        fds(must(switch_end->claim())),
        endpoint(must(LocalPort::attach(copy_of(fds), "endpoint", endpoint_pool))) {}

  HeapPool switch_pool;
  HeapPool endpoint_pool;
  std::unique_ptr<LocalPort> switch_end;
  LocalPortFds fds;
  std::unique_ptr<LocalPort> endpoint;
};

/// What has arrived, at most `most` frames, as bytes; the buffers go back.
inline std::vector<std::vector<std::byte>> take(Port& port, std::size_t most = 64) {
  std::vector<Buffer*> burst(most);
  burst.resize(port.receive(burst));
  std::vector<std::vector<std::byte>> frames;
  for (Buffer* frame : burst) {
    frames.emplace_back(frame->data, frame->data + frame->length);
    give_back(frame);
  }
  return frames;
}

}  // namespace mtl::phy::test
