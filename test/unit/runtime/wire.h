#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "base/heap_pool.h"
#include "network/node.h"
#include "network/packet.h"
#include "phy/port.h"
#include "runtime/random.h"
#include "runtime/shard_loop.h"

/// Small fabrics for the tests of what makes the core live: ports joined by wires in memory, and
/// nodes of one shard that are driven pass by pass.
namespace mtl::runtime::test {

struct WireFrame {
  std::uint32_t length = 0;
  std::array<std::byte, 2048> bytes;
};
using WireRing = SpscRing<WireFrame>;

/// One end of a wire: frames go into one ring and come from another. The two ends may be on two
/// threads; carrier and limit are the test's to set.
class WirePort final : public phy::Port {
 public:
  WirePort(WireRing& out, WireRing& in, BufferPool& pool) : out_(out), in_(in), pool_(pool) {
    traits_.driver = "wire";
    traits_.max_frame = 2048;
  }
  unsigned receive(std::span<Buffer*> out) override {
    ++looks;
    unsigned n = 0;
    while (n < out.size() && in_.pop(frame_)) {
      Buffer* buffer = pool_.take();
      if (buffer == nullptr) {
        counters_.drops.add(Drop::kNoBuffer);
        continue;
      }
      std::copy_n(frame_.bytes.begin(), frame_.length, buffer->data);
      buffer->length = frame_.length;
      buffer->tailroom -= frame_.length;
      counters_.frames_in.add();
      out[n++] = buffer;
    }
    return n;
  }
  unsigned room() override {
    ++rooms_asked;
    const unsigned most = common != nullptr ? std::min(limit.load(), *common) : limit.load();
    return std::min(most, static_cast<unsigned>(out_.capacity() - out_.size()));
  }
  bool send(const link::FrameOut& frame) override {
    sent_.length = frame.write(sent_.bytes.data());
    last_kind = frame.kind;
    counters_.frames_out.add();
    counters_.bytes_out.add(sent_.length);
    if (common != nullptr) --*common;
    return out_.push(sent_);
  }
  void flush() override { ++flushes; }
  bool carrier() override { return up.load(); }

  /// From its attachment on a loop takes it for a port whose frames ring: for tests that wait for
  /// nothing.
  void pretend_bell() { traits_.wake_fd = 0; }
  /// Likewise for one that keeps what comes until it is taken.
  void pretend_to_keep() { traits_.lossy = false; }

  std::atomic<bool> up{true};
  std::atomic<unsigned> limit{1024};
  unsigned* common = nullptr;  ///< room that ports have together, as those on one device
  unsigned rooms_asked = 0;
  unsigned flushes = 0;
  unsigned looks = 0;  ///< times that receive() was called
  link::Kind last_kind = link::Kind::kData;

 private:
  WireRing& out_;
  WireRing& in_;
  BufferPool& pool_;
  WireFrame frame_;
  WireFrame sent_;
};

/// A cable: two rings.
struct Wire {
  WireRing a_to_b{256};
  WireRing b_to_a{256};
};

inline network::PortConfig port_config(std::uint16_t node, std::uint16_t port,
                                       std::uint8_t shard = 0) {
  network::PortConfig config;
  config.link.node = NodeId(node);
  config.link.port = PortId(port);
  config.link.mac = {std::byte{2}, std::byte{0},
                     std::byte{0}, std::byte{static_cast<std::uint8_t>(node)},
                     std::byte{0}, std::byte{static_cast<std::uint8_t>(port)}};
  config.link.mtu = 1500;
  config.shard = ShardId(shard);
  return config;
}

inline network::NodeConfig node_config(std::uint16_t node, std::uint16_t ports,
                                       std::size_t shards = 1) {
  network::NodeConfig config;
  config.node = NodeId(node);
  config.shards = shards;
  for (std::uint16_t p = 0; p < ports; ++p) {
    config.ports.push_back(port_config(node, p, static_cast<std::uint8_t>(p % shards)));
  }
  return config;
}

/// For links between threads: a thread that the machine does not run for a while ends no link.
inline network::NodeConfig patient(network::NodeConfig config) {
  for (network::PortConfig& port : config.ports) {
    port.link.timers = link::lab_timers();
    port.link.timers.dead_interval = std::chrono::hours(1);
    port.link.timers.replay_limit = 1'000'000;
  }
  return config;
}

/// A route for each of `dsts` through the port of the same place in `ports`.
inline network::RouteTable routes(std::vector<std::pair<std::uint16_t, std::uint16_t>> dst_port,
                                  std::size_t ports) {
  std::vector<network::Route> list;
  for (const auto& [dst, port] : dst_port) {
    list.push_back({NodeId(dst), {{network::NextHop{PortId(port), 0}}}});
  }
  return std::move(*network::RouteTable::build(list, ports));
}

/// A node of one shard and its owner: takes what is delivered, answers nothing else.
class TestNode final : public network::ShardOwner, public LoopOwner {
 public:
  TestNode(network::NodeConfig config, network::RouteTable table, std::uint8_t shard_id = 0,
           network::Node* shared = nullptr)
      : own_(shared == nullptr ? std::make_unique<network::Node>(config) : nullptr),
        node(shared == nullptr ? *own_ : *shared),
        table_(std::move(table)),
        pool(1024, 2048),
        shard(node, ShardId(shard_id), pool, *this),
        loop(shard, this) {
    shard.set_table(&table_);
  }

  /// A datagram of `length` bytes to `dst`, taken from this node's pool; false if it was refused.
  bool send(std::uint16_t dst, std::uint32_t number, std::size_t length, Time now) {
    Buffer* packet = pool.take();
    if (packet == nullptr) return false;
    network::Header header;
    header.proto = static_cast<std::uint8_t>(network::Proto::kDatagram);
    header.src = node.config().node;
    header.dst = NodeId(dst);
    std::array<std::byte, 1400> payload{};
    store32(payload.data(), number);
    network::make_packet(*packet, header, std::span(payload).first(length));
    if (shard.submit(packet, now) == network::Submit::kTaken) return true;
    give_back(packet);
    return false;
  }

  void delivered(Buffer* packet, PortId, Vc) override {
    const std::uint32_t before = last_number;
    last_number = packet->length >= 20 ? load32(packet->data + network::kHeader) : 0;
    if (last_number <= before) ++steps_back;
    delivered_count.fetch_add(1);
    done_.push(packet);
  }
  void answered(const Buffer&, PortId, Vc) override {}
  void pass(ShardId to, Buffer* buffer) override { ring_to[to.value()]->push(buffer); }
  link::BringUp bring_up(PortId, std::uint8_t last) override { return random_.bring_up(last); }
  void link_changed(PortId) override { ++changes; }
  bool work(Time now) override {
    ++works;
    const bool busy = !done_.empty();
    while (!done_.empty()) shard.release(done_.pop(), now);
    return busy;
  }

 private:
  std::unique_ptr<network::Node> own_;

 public:
  network::Node& node;

 private:
  network::RouteTable table_;
  RandomStock random_;
  BufferQueue done_;

 public:
  HeapPool pool;
  network::Shard shard;
  ShardLoop loop;
  std::array<BufferRing*, 4> ring_to{};
  std::atomic<std::uint64_t> delivered_count{0};
  std::uint32_t last_number = 0;
  std::uint32_t steps_back = 0;  ///< deliveries whose number is not above the one before
  int changes = 0;
  int works = 0;
};

}  // namespace mtl::runtime::test
