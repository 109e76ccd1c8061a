// What a link costs: two sessions joined by copies of frames, replay and credits on, both
// directions' frames counted. Beside it, in the same run, what cannot be avoided: the copy of the
// same bytes, the packet's CRC once and the header's CRC twice (made and checked).
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "base/heap_pool.h"
#include "link/link.h"
#include "network/packet.h"

namespace mtl {
namespace {

using namespace std::chrono_literals;

constexpr int kBurst = 32;

class Side final : public link::Owner {
 public:
  Side(std::uint16_t node, std::uint32_t nonce) : pool_(2048, 9300), nonce_(nonce) {
    link::Config c;
    c.node = NodeId{node};
    c.port = PortId{0};
    c.mac = {std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{7}};
    c.mtu = 9200;
    c.window = 256;
    c.capacity.fill(4000);
    c.timers.dead_interval = 1000s;
    c.timers.keepalive_interval = 999s;
    link_ = std::make_unique<link::Link>(c, *this);
  }
  void packet_in(PortId, Buffer* packet) override {
    link_->release(packet->notes.ingress_vc, packet->notes.ingress_cells, now);
    give_back(packet);
    ++received;
  }
  void packet_acked(PortId, Buffer* packet) override { give_back(packet); }
  void packet_back(PortId, Buffer* packet) override { give_back(packet); }
  void link_changed(PortId) override {}
  link::BringUp bring_up(PortId, std::uint8_t) override { return {nonce_, 1}; }

  Buffer* take() { return pool_.take(); }
  link::Link& link() { return *link_; }
  Time now{1ms};
  std::uint64_t received = 0;

 private:
  HeapPool pool_;
  std::unique_ptr<link::Link> link_;
  std::uint32_t nonce_;
};

/// Carries what `from` has to send; returns the number of frames.
int carry(Side& from, Side& to, link::FrameOut& frame) {
  int n = 0;
  while (from.link().next_frame(from.now, frame)) {
    Buffer* b = to.take();
    b->length = frame.write(b->data);
    to.link().receive(b, to.now);
    ++n;
  }
  return n;
}

/// A packet of a frame of `size` bytes on the wire, header and all.
std::vector<std::byte> packet_for(std::size_t frame_size) {
  std::vector<std::byte> p(std::max<std::size_t>(frame_size, 60) - link::kFrameHeader);
  network::encode(network::Header{.proto = 4, .dst = NodeId{2}, .src = NodeId{1}}, p.data());
  network::seal(p);
  return p;
}

/// One way: the sender's and the receiver's work on a DATA frame, with the acks and credits that it
/// brings about.
void BM_LinkBothEnds(benchmark::State& state) {
  Side a(1, 1), b(2, 2);
  link::FrameOut frame;
  for (Side* s : {&a, &b}) {
    s->link().set_carrier(true, s->now);
    s->link().enable(s->now);
  }
  while (carry(a, b, frame) + carry(b, a, frame) > 0) {
  }
  const auto packet = packet_for(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    a.now += 10us;
    b.now = a.now;
    for (int i = 0; i < kBurst; ++i) {
      Buffer* p = a.take();
      std::memcpy(p->data, packet.data(), packet.size());
      p->length = static_cast<std::uint32_t>(packet.size());
      a.link().submit(p, a.now);
    }
    carry(a, b, frame);
    carry(b, a, frame);
  }
  if (b.received != static_cast<std::uint64_t>(state.iterations()) * kBurst) {
    state.SkipWithError("packets were not delivered");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(b.received));
  state.counters["ns/frame"] =
      benchmark::Counter(static_cast<double>(b.received) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

/// The same bytes copied as often (into the packet, into the frame) and with as many CRCs.
void BM_BareCopyAndCrc(benchmark::State& state) {
  const auto packet = packet_for(static_cast<std::size_t>(state.range(0)));
  HeapPool pool(2048, 9300);
  std::array<std::byte, link::kFrameHeader> head{};
  std::array<Buffer*, kBurst> from, to;
  std::uint64_t frames = 0;
  for (auto _ : state) {
    for (int i = 0; i < kBurst; ++i) {
      const auto n = static_cast<std::size_t>(i);
      from[n] = pool.take();
      std::memcpy(from[n]->data, packet.data(), packet.size());
    }
    for (int i = 0; i < kBurst; ++i) {
      const auto n = static_cast<std::size_t>(i);
      to[n] = pool.take();
      store32(head.data() + 26, crc32c_short({head.data() + 14, 12}, {from[n]->data, 12}));
      std::memcpy(to[n]->data, head.data(), head.size());
      std::memcpy(to[n]->data + head.size(), from[n]->data, packet.size());
      const std::byte* p = to[n]->data;
      benchmark::DoNotOptimize(crc32c_short({p + 14, 12}, {p + 30, 12}));
      benchmark::DoNotOptimize(crc32c({p + 32, packet.size() - 6}));
    }
    for (Buffer* b : from) pool.give(b);
    for (Buffer* b : to) pool.give(b);
    frames += kBurst;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(frames));
  state.counters["ns/frame"] =
      benchmark::Counter(static_cast<double>(frames) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_EncodeHeader(benchmark::State& state) {
  std::array<std::byte, 64> out{};
  std::array<std::byte, 16> body{};
  link::Header h{.kind = link::Kind::kData, .length = 16};
  for (auto _ : state) {
    h.seq += 1;
    link::encode(h, body, out.data());
    benchmark::DoNotOptimize(out);
  }
}

void BM_DecodeHeader(benchmark::State& state) {
  std::array<std::byte, 64> frame{};
  link::encode({.kind = link::Kind::kData, .length = 16}, std::span(frame).subspan(30, 16),
               frame.data() + 14);
  for (auto _ : state) {
    benchmark::DoNotOptimize(frame);
    benchmark::DoNotOptimize(link::decode(frame, 4096));
  }
}

BENCHMARK(BM_LinkBothEnds)->Arg(64)->Arg(1500)->Arg(9000);
BENCHMARK(BM_BareCopyAndCrc)->Arg(64)->Arg(1500)->Arg(9000);
BENCHMARK(BM_EncodeHeader);
BENCHMARK(BM_DecodeHeader);

}  // namespace
}  // namespace mtl

BENCHMARK_MAIN();
