#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "link/frame_out.h"
#include "phy/dpdk/eal.h"

namespace mtl::phy::test {

/// A network namespace of the test process's own: what is made in it goes with the process.
inline void enter_own_namespace() {
  if (::unshare(CLONE_NEWNET) != 0) {
    std::perror("this test needs root for a network namespace: unshare");
    std::exit(1);
  }
}

inline void run(const std::string& command) {
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

/// EAL for all tests of one program; once in a process.
class EalEnvironment : public ::testing::Environment {
 public:
  explicit EalEnvironment(EalConfig config = {}) : config_(std::move(config)) {}
  void SetUp() override {
    auto eal = Eal::start(config_);
    ASSERT_TRUE(eal) << eal.error().message;
    eal_ = std::move(*eal);
  }
  void TearDown() override { eal_.reset(); }
  Eal& eal() { return *eal_; }

 private:
  EalConfig config_;
  std::unique_ptr<Eal> eal_;
};

inline std::vector<std::byte> noise(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

inline Buffer* packet_of(BufferPool& pool, const std::vector<std::byte>& bytes) {
  Buffer* buffer = pool.take();
  if (buffer == nullptr || buffer->tailroom < bytes.size()) return nullptr;
  std::copy(bytes.begin(), bytes.end(), buffer->data);
  buffer->length = static_cast<std::uint32_t>(bytes.size());
  buffer->tailroom -= buffer->length;
  return buffer;
}

/// Header bytes that a test can tell apart by `mark`; EtherType 0x88B5, broadcast.
inline link::FrameOut frame_of(Buffer* packet, std::uint8_t mark) {
  link::FrameOut frame;
  frame.head_length = link::kFrameHeader;
  for (std::size_t i = 0; i < link::kFrameHeader; ++i) frame.head[i] = std::byte{mark};
  for (std::size_t i = 0; i < 6; ++i) frame.head[i] = std::byte{0xFF};
  frame.head[6] = std::byte{0x02};  // the source is a unicast address
  frame.head[12] = std::byte{0x88};
  frame.head[13] = std::byte{0xB5};
  frame.packet = packet;
  return frame;
}

/// The bytes that the wire must show: head, packet, zeros.
inline std::vector<std::byte> wire(const link::FrameOut& frame,
                                   const std::vector<std::byte>& body) {
  std::vector<std::byte> bytes(frame.head.begin(), frame.head.begin() + frame.head_length);
  bytes.insert(bytes.end(), body.begin(), body.end());
  if (bytes.size() < frame.min_length) bytes.resize(frame.min_length);
  return bytes;
}

inline std::vector<std::byte> content(const Buffer& buffer) {
  return {buffer.data, buffer.data + buffer.length};
}

}  // namespace mtl::phy::test
