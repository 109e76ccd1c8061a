// What a link costs: two sessions joined by copies of frames, replay and credits on. Beside it what
// cannot be avoided: the same bytes copied as often, between as many buffers, with as many CRCs
// (the packet's once, the header's twice, made and checked). Both run in turn, block by block, so
// that what disturbs the machine disturbs both; told are medians over the blocks, and the
// difference within each pair of blocks.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "base/heap_pool.h"
#include "link/link.h"
#include "network/packet.h"

namespace mtl {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBurst = 32;
constexpr int kBlock = 64;  ///< bursts
constexpr int kBlocks = 101;
constexpr std::uint32_t kBuffers = 2048;
constexpr std::uint32_t kRoom = 9300;

/// One end. It holds what has arrived until the burst is over, as a node does whose own outgoing
/// link has to acknowledge it first.
class Side final : public link::Owner {
 public:
  Side(std::uint16_t node, std::uint32_t nonce) : pool_(kBuffers, kRoom), nonce_(nonce) {
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
  void packets_in(PortId, std::span<Buffer* const> packets) override {
    for (Buffer* packet : packets) held_.push(packet);
  }
  void packets_acked(PortId, std::span<Buffer* const> packets) override { give_back(packets); }
  void packet_back(PortId, Buffer* packet) override { give_back(packet); }
  void link_changed(PortId) override {}
  link::BringUp bring_up(PortId, std::uint8_t) override { return {nonce_, 1}; }

  void consume() {
    while (!held_.empty()) {
      Buffer* packet = held_.pop();
      link_->release(packet->notes.ingress_vc, packet->notes.ingress_cells, now);
      give_back(packet);
      ++received;
    }
  }

  Buffer* take() { return pool_.take(); }
  link::Link& link() { return *link_; }
  Time now{1ms};
  std::uint64_t received = 0;

 private:
  HeapPool pool_;
  BufferQueue held_;
  std::unique_ptr<link::Link> link_;
  std::uint32_t nonce_;
};

/// A packet of a frame of `size` bytes on the wire, header and all.
std::vector<std::byte> packet_for(std::size_t frame_size) {
  std::vector<std::byte> p(std::max<std::size_t>(frame_size, 60) - link::kFrameHeader);
  network::encode(network::Header{.proto = 4, .dst = NodeId{2}, .src = NodeId{1}}, p.data());
  network::seal(p);
  return p;
}

/// Two links in UP. A burst is the sender's and the receiver's work on kBurst DATA frames, with the
/// acks and credits that they bring about.
class LinkPair {
 public:
  explicit LinkPair(std::span<const std::byte> packet) : packet_(packet) {
    for (Side* s : {&a_, &b_}) {
      s->link().set_carrier(true, s->now);
      s->link().enable(s->now);
    }
    while (carry(a_, b_) + carry(b_, a_) > 0) {
    }
  }
  void burst() {
    a_.now += 10us;
    b_.now = a_.now;
    for (std::size_t i = 0; i < kBurst; ++i) {
      Buffer* p = a_.take();
      std::memcpy(p->data, packet_.data(), packet_.size());
      p->length = static_cast<std::uint32_t>(packet_.size());
      a_.link().submit(p, a_.now);
    }
    carry(a_, b_);
    b_.consume();
    carry(b_, a_);
  }
  std::uint64_t received() const { return b_.received; }
  std::size_t memory() { return a_.link().memory(); }

 private:
  /// Carries what `from` has to send; returns the number of frames.
  int carry(Side& from, Side& to) {
    int n = 0;
    while (from.link().next_frame(from.now, frame_)) {
      Buffer* b = to.take();
      b->length = frame_.write(b->data);
      to.link().receive(b, to.now);
      ++n;
    }
    return n;
  }

  std::span<const std::byte> packet_;
  Side a_{1, 1}, b_{2, 2};
  link::FrameOut frame_;
};

/// The same bytes copied as often (into the packet, into the frame), with as many CRCs, from and to
/// as many buffers: a burst's packets are kept until it is over on both sides.
class BarePair {
 public:
  explicit BarePair(std::span<const std::byte> packet) : packet_(packet) {}
  void burst() {
    for (Buffer*& b : from_) {
      b = a_.take();
      std::memcpy(b->data, packet_.data(), packet_.size());
    }
    for (std::size_t i = 0; i < kBurst; ++i) {
      to_[i] = b_.take();
      std::byte* p = to_[i]->data;
      store32(head_.data() + 26, crc32c_short({head_.data() + 14, 12}, {from_[i]->data, 12}));
      std::memcpy(p, head_.data(), head_.size());
      std::memcpy(p + head_.size(), from_[i]->data, packet_.size());
      benchmark::DoNotOptimize(crc32c_short({p + 14, 12}, {p + 30, 12}));
      benchmark::DoNotOptimize(crc32c({p + 32, packet_.size() - 6}));
    }
    for (Buffer* b : to_) give_back(b);
    for (Buffer* b : from_) give_back(b);
  }

 private:
  std::span<const std::byte> packet_;
  HeapPool a_{kBuffers, kRoom}, b_{kBuffers, kRoom};
  std::array<std::byte, link::kFrameHeader> head_{};
  std::array<Buffer*, kBurst> from_{}, to_{};
};

/// Time that this thread has had of a CPU: what others take of it is not the link's cost.
double cpu_nanos() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

/// Nanoseconds per frame of a block of bursts.
template <class Pair>
double block(Pair& pair) {
  const double begin = cpu_nanos();
  for (int i = 0; i < kBlock; ++i) pair.burst();
  return (cpu_nanos() - begin) / (kBlock * static_cast<double>(kBurst));
}

double median(std::vector<double>& of) {
  const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return *middle;
}

/// Argument: bytes of the frame.
void BM_LinkBesideBare(benchmark::State& state) {
  const auto packet = packet_for(static_cast<std::size_t>(state.range(0)));
  LinkPair link(packet);
  BarePair bare(packet);
  block(link);
  block(bare);
  const std::uint64_t before = link.received();
  std::vector<double> links, bares, more;
  for (auto _ : state) {
    links.push_back(block(link));
    bares.push_back(block(bare));
    more.push_back(links.back() - bares.back());
    state.SetIterationTime(links.back() * 1e-9);
  }
  if (link.received() - before !=
      static_cast<std::uint64_t>(state.iterations()) * kBlock * kBurst) {
    state.SkipWithError("packets were not delivered");
    return;
  }
  state.counters["link_ns"] = median(links);
  state.counters["bare_ns"] = median(bares);
  state.counters["more_ns"] = median(more);
  const auto [least, most] = std::minmax_element(more.begin(), more.end());
  state.counters["more_min"] = *least;
  state.counters["more_max"] = *most;
  state.counters["link_bytes"] = static_cast<double>(link.memory());
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

BENCHMARK(BM_LinkBesideBare)
    ->Arg(64)
    ->Arg(1500)
    ->Arg(9000)
    ->Iterations(kBlocks)
    ->UseManualTime()
    ->Unit(benchmark::kNanosecond);
BENCHMARK(BM_EncodeHeader);
BENCHMARK(BM_DecodeHeader);

}  // namespace
}  // namespace mtl

BENCHMARK_MAIN();
