#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/heap_pool.h"
#include "endpoint/endpoint.h"
#include "phy/local_port.h"

namespace mtl::endpoint {

using namespace std::chrono_literals;

inline Settings settings(std::uint16_t node, std::uint16_t mtu = 1024) {
  Settings s;
  s.link.node = NodeId{node};
  s.link.port = PortId{0};
  s.link.mac = {std::byte{2}, std::byte{0}, std::byte{0},
                std::byte{0}, std::byte{0}, std::byte{static_cast<std::uint8_t>(node)}};
  s.link.mtu = mtu;
  s.link.cell = 64;
  s.link.capacity.fill(64);
  s.link.timers = link::lab_timers();
  return s;
}

/// A port that can lose its carrier.
class Cuttable final : public phy::Port {
 public:
  explicit Cuttable(std::unique_ptr<phy::Port> port) : port_(std::move(port)) {
    traits_ = port_->traits();
  }
  unsigned receive(std::span<Buffer*> out) override { return port_->receive(out); }
  unsigned room() override { return port_->room(); }
  bool send(const link::FrameOut& frame) override { return port_->send(frame); }
  void flush() override { port_->flush(); }
  bool carrier() override { return !cut && port_->carrier(); }
  bool arm() override { return port_->arm(); }
  void disarm() override { port_->disarm(); }

  bool cut = false;

 private:
  std::unique_ptr<phy::Port> port_;
};

/// Two endpoints joined by a local port, driven by hand.
class Pair : public testing::Test {
 protected:
  explicit Pair(std::optional<phy::PacerConfig> rate_of_a = {}) {
    auto pool_a = std::make_unique<HeapPool>(2000, 1100);
    auto pool_b = std::make_unique<HeapPool>(2000, 1100);
    auto port_a = phy::LocalPort::create({.name = "a", .max_frame = 1100}, *pool_a);
    EXPECT_TRUE(port_a);
    auto fds = (*port_a)->claim();
    EXPECT_TRUE(fds);
    auto port_b = phy::LocalPort::attach(std::move(*fds), "b", *pool_b);
    EXPECT_TRUE(port_b);
    Settings of_a = settings(1);
    of_a.hop_limit = 15;  // odd: what goes to and fro ends at b
    of_a.rate = rate_of_a;
    a = std::move(*Endpoint::open(of_a, std::move(pool_a), std::move(*port_a)));
    auto cuttable = std::make_unique<Cuttable>(std::move(*port_b));
    wire = cuttable.get();
    b = std::move(*Endpoint::open(settings(2, 512), std::move(pool_b), std::move(cuttable)));
    b->on_datagram([this](const Datagram& d) {
      got.push_back({d.payload.begin(), d.payload.end()});
      last = d;
    });
  }
  /// Lets both work until `done`; false: nothing moved any more for a long time.
  bool run(const std::function<bool()>& done) {
    const Time until = a->clock().now() + 20s;
    while (!done()) {
      if (a->clock().now() > until) return false;
      const bool a_moved = a->progress();
      const bool b_moved = b->progress();
      if (!a_moved && !b_moved) a->wait(1ms);
    }
    return true;
  }
  bool up() {
    return run([&] { return a->usable() && b->usable(); });
  }
  static std::vector<std::byte> bytes(std::size_t n, std::uint8_t seed) {
    std::vector<std::byte> v(n);
    for (std::size_t i = 0; i < n; ++i) v[i] = std::byte(static_cast<std::uint8_t>(seed + i));
    return v;
  }

  std::unique_ptr<Endpoint> a, b;
  Cuttable* wire = nullptr;  ///< b's port
  std::vector<std::vector<std::byte>> got;
  Datagram last;
};

}  // namespace mtl::endpoint
