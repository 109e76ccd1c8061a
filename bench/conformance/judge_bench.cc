// What the judge costs a frame: frames from memory, and frames read from a capture, in frames a
// second on one core. The session is endless: each DATA is acknowledged by a STATUS, and after
// 65,536 of them all numbers stand where they began.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "conformance/capture_reader.h"
#include "conformance/judge/judge.h"
#include "conformance/pcap_file.h"
#include "link/codec.h"

namespace {

using namespace mtl;
using namespace mtl::conformance;

constexpr std::uint32_t kRound = 65536;
const Mac kA{std::byte{2}, {}, {}, {}, {}, std::byte{1}};
const Mac kB{std::byte{2}, {}, {}, {}, {}, std::byte{2}};

class Silent final : public judge::FindingSink {
 public:
  void found(const judge::Finding& finding) override {
    std::abort();  // the session is right
    (void)finding;
  }
};

CapturedFrame frame(const Mac& from, const Mac& to, const link::Header& header,
                    std::vector<std::byte> body) {
  CapturedFrame made;
  made.bytes.resize(link::kFrameHeader);
  link::encode_ethernet(to, from, link::kDefaultEtherType, made.bytes.data());
  link::encode(header, body, made.bytes.data() + link::kEthernetHeader);
  made.bytes.insert(made.bytes.end(), body.begin(), body.end());
  if (made.bytes.size() < link::kMinFrame) made.bytes.resize(link::kMinFrame);
  return made;
}

CapturedFrame init(const Mac& from, const Mac& to, std::uint32_t nonce, std::uint32_t peer) {
  link::Init init;
  init.nonce = nonce;
  init.peer_nonce = peer;
  init.node = NodeId{1};
  init.mtu = 9000;
  init.epoch = static_cast<std::uint8_t>(nonce);
  init.cell = 16384;
  init.window = 64;
  init.capacity.fill(16);
  std::vector<std::byte> body(link::kInitBody);
  link::encode(init, body.data());
  CapturedFrame made =
      frame(from, to, {.kind = link::Kind::kInit, .length = link::kInitBody}, body);
  if (peer != 0) made.bytes.resize(link::kFrameHeader + init.mtu);
  return made;
}

std::vector<CapturedFrame> bring_up() {
  return {init(kA, kB, 10, 0), init(kB, kA, 11, 10), init(kA, kB, 10, 11)};
}

CapturedFrame status(const Mac& from, const Mac& to, std::uint8_t epoch, std::uint16_t ack,
                     std::uint16_t allocation) {
  link::Status told;
  told.allocation.fill(CellCount{16});
  told.allocation[0] = CellCount{allocation};
  std::vector<std::byte> body(link::kStatusBody);
  link::encode(told, body.data());
  return frame(
      from, to,
      {.kind = link::Kind::kStatus, .epoch = epoch, .length = link::kStatusBody, .ack = Seq{ack}},
      body);
}

/// One round of numbers, a microsecond apart.
std::vector<CapturedFrame> round_of(std::size_t length) {
  std::vector<CapturedFrame> frames;
  for (std::uint32_t i = 0; i < kRound; ++i) {
    std::vector<std::byte> packet(length, std::byte{7});
    store16(&packet[2], 0x0400);
    store16(&packet[4], 2);
    store16(&packet[6], 1);
    store32(&packet[length - 4], link::packet_crc(packet));
    frames.push_back(frame(kA, kB,
                           {.kind = link::Kind::kData,
                            .epoch = 11,
                            .length = static_cast<std::uint16_t>(length),
                            .seq = Seq{static_cast<std::uint16_t>(i)}},
                           packet));
    frames.push_back(
        status(kB, kA, 10, static_cast<std::uint16_t>(i + 1), static_cast<std::uint16_t>(i + 17)));
  }
  return frames;
}

class Feeder {
 public:
  Feeder() : judge_({}, sink_) {
    for (const CapturedFrame& f : bring_up()) give(f.bytes, f.bytes.size());
    for (const auto& f : {status(kA, kB, 11, 0, 16), status(kB, kA, 10, 0, 16)}) {
      give(f.bytes, f.bytes.size());
    }
  }
  void give(std::span<const std::byte> bytes, std::size_t length) {
    now_ += std::chrono::microseconds(1);
    judge_.frame({++number_, 0, now_, bytes, length});
  }

 private:
  Silent sink_;
  judge::Judge judge_;
  std::uint64_t number_ = 0;
  Time now_{};
};

void from_memory(benchmark::State& state) {
  const auto frames = round_of(static_cast<std::size_t>(state.range(0)));
  Feeder feeder;
  for (auto _ : state) {
    for (const CapturedFrame& f : frames) feeder.give(f.bytes, f.bytes.size());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(frames.size()));
}

void from_a_capture(benchmark::State& state) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("judge_bench_" + std::to_string(getpid()) + ".pcap");
  const auto frames = round_of(static_cast<std::size_t>(state.range(0)));
  if (!write_capture(path, frames)) return state.SkipWithError("the capture cannot be written");
  Feeder feeder;
  for (auto _ : state) {
    auto reader = CaptureReader::open(path);
    CaptureRecord record;
    while (*reader->next(record)) feeder.give(record.bytes, record.length);
  }
  std::filesystem::remove(path);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(frames.size()));
}

BENCHMARK(from_memory)->Arg(64)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);
BENCHMARK(from_a_capture)->Arg(64)->Arg(1024)->Arg(4096)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
