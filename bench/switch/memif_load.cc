// Load for testpmd, or OVS, between two memif ports, the counterpart of link_load: two zero-copy
// clients in one pinned thread, frames from each to the other, flat out. Each frame's bytes are
// written anew before it is sent and not looked at when it has come back, as link_load does it.
// Prints frames and time as a line of JSON, then waits for the end of its input: testpmd has to
// leave first, since the memif driver may crash when its peer closes.
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::uint16_t kBurst = 32;
constexpr std::uint16_t kDescriptors = 1024;
constexpr unsigned kMbufs = 8191;
constexpr std::size_t kTemplates = 64;
constexpr double kPatience = 15;
constexpr double kSilence = 0.1;
constexpr unsigned kTryEvery = 10'000;  ///< us

struct Options {
  std::array<std::string, 2> sockets;
  std::uint16_t size = 64;
  std::uint16_t room = 2048;
  std::uint32_t in_flight = 256;
  double warm_up = 0.5;
  double seconds = 3;
  std::uint16_t queues = 1;
  int cpu = 1;
};

void start_eal(const Options& o) {
  std::vector<std::string> words{"memif_load",
                                 "--no-huge",
                                 "--no-pci",
                                 "--no-telemetry",
                                 "--no-shconf",
                                 "--single-file-segments",
                                 "-m",
                                 "512",
                                 "--file-prefix=memif_load",
                                 "-l",
                                 std::to_string(o.cpu)};
  for (std::size_t i = 0; i < o.sockets.size(); ++i) {
    words.push_back("--vdev=net_memif" + std::to_string(i) +
                    ",role=client,id=0,socket=" + o.sockets[i] +
                    ",socket-abstract=no,rsize=10,zero-copy=yes,bsize=" + std::to_string(o.room));
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  if (rte_eal_init(static_cast<int>(argv.size()), argv.data()) < 0) {
    throw std::runtime_error("DPDK does not start");
  }
  if (rte_eth_dev_count_avail() != o.sockets.size()) {
    throw std::runtime_error("DPDK has not made the memif ports: is its memif driver installed?");
  }
}

/// One memif port and what is sent on it.
class End {
 public:
  End(const Options& o, std::uint16_t port, rte_mempool* pool)
      : port_(port), queues_(o.queues), size_(o.size), pool_(pool) {
    const rte_eth_conf conf{};
    bool ok = rte_eth_dev_configure(port, queues_, queues_, &conf) == 0;
    for (std::uint16_t q = 0; ok && q < queues_; ++q) {
      ok = rte_eth_rx_queue_setup(port, q, kDescriptors, 0, nullptr, pool) == 0 &&
           rte_eth_tx_queue_setup(port, q, kDescriptors, 0, nullptr) == 0;
    }
    if (!ok) throw std::runtime_error("a memif port cannot be set up");
    for (std::size_t i = 0; i < kTemplates; ++i) {
      packets_.emplace_back(o.size, static_cast<std::uint8_t>(i));
    }
  }
  /// Connects. A start that has worked is not taken back: that can kill testpmd.
  bool start() { return started_ = started_ || rte_eth_dev_start(port_) == 0; }
  bool up() const {
    rte_eth_link link{};
    rte_eth_link_get_nowait(port_, &link);
    return link.link_status == RTE_ETH_LINK_UP;
  }

  std::uint64_t sent() const { return sent_; }
  std::uint64_t received() const { return received_; }

  bool pass(std::uint32_t limit, std::uint64_t arrived_at_peer) {
    const bool received = receive();
    const std::uint64_t in_flight = sent_ - arrived_at_peer;
    return (in_flight + kBurst <= limit && send()) || received;
  }

 private:
  bool receive() {
    bool any = false;
    for (std::uint16_t q = 0; q < queues_; ++q) any |= receive(q);
    return any;
  }
  bool receive(std::uint16_t queue) {
    std::array<rte_mbuf*, kBurst> frames;
    const std::uint16_t n = rte_eth_rx_burst(port_, queue, frames.data(), kBurst);
    if (n == 0) return false;
    received_ += n;
    rte_pktmbuf_free_bulk(frames.data(), n);
    return true;
  }
  bool send() {
    std::array<rte_mbuf*, kBurst> frames;
    if (rte_pktmbuf_alloc_bulk(pool_, frames.data(), kBurst) != 0) return false;
    for (std::size_t i = 0; i < kBurst; ++i) {
      std::memcpy(rte_pktmbuf_append(frames[i], size_), packets_[i % kTemplates].data(), size_);
    }
    const std::uint16_t n = rte_eth_tx_burst(port_, 0, frames.data(), kBurst);
    sent_ += n;
    if (n < kBurst) rte_pktmbuf_free_bulk(frames.data() + n, kBurst - n);
    return n > 0;
  }

  std::uint16_t port_;
  std::uint16_t queues_;  ///< all are received from, the first is sent on
  std::uint16_t size_;
  rte_mempool* pool_;
  std::vector<std::vector<std::uint8_t>> packets_;
  bool started_ = false;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
};

class Load {
 public:
  Load(const Options& o, rte_mempool* pool) : options_(o), a_(o, 0, pool), b_(o, 1, pool) {
    const std::uint64_t until = now() + cycles(kPatience);
    while (!(a_.start() && b_.start() && a_.up() && b_.up())) {
      if (now() > until) throw std::runtime_error("the memif ports do not connect to testpmd");
      rte_delay_us_sleep(kTryEvery);
    }
  }
  void run(double seconds) {
    const std::uint64_t until = now() + cycles(seconds);
    while (now() < until) pass(options_.in_flight);
  }
  /// Sends nothing new until everything has come or counts as lost (the very last burst may stay in
  /// testpmd).
  void drain() {
    while (a_.sent() != b_.received() + lost_at_b_ || b_.sent() != a_.received() + lost_at_a_) {
      pass(0);
    }
  }
  std::uint64_t lost() const { return lost_at_a_ + lost_at_b_; }
  std::uint64_t received() const { return a_.received() + b_.received(); }
  double idle_share() const {
    return static_cast<double>(idle_) / static_cast<double>(idle_ + busy_);
  }
  void forget() { idle_ = busy_ = 0; }
  static std::uint64_t now() { return rte_get_tsc_cycles(); }

 private:
  static std::uint64_t cycles(double seconds) {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(rte_get_tsc_hz()));
  }
  void pass(std::uint32_t in_flight) {
    const std::uint64_t begin = now();
    const bool at_a = a_.pass(in_flight, b_.received() + lost_at_b_);
    const bool at_b = b_.pass(in_flight, a_.received() + lost_at_a_);
    const std::uint64_t end = now();
    (at_a || at_b ? busy_ : idle_) += end - begin;
    if (at_a || at_b) last_ = end;
    if (end - last_ > cycles(kSilence)) give_up();
  }
  /// testpmd drops what it cannot send: what has not come by now does not come any more.
  void give_up() {
    lost_at_a_ = b_.sent() - a_.received();
    lost_at_b_ = a_.sent() - b_.received();
    last_ = now();
  }

  const Options& options_;
  End a_, b_;
  std::uint64_t lost_at_a_ = 0;  ///< of what was sent to a
  std::uint64_t lost_at_b_ = 0;
  std::uint64_t last_ = now();  ///< when something was last done
  std::uint64_t idle_ = 0;
  std::uint64_t busy_ = 0;
};

void measure(const Options& o) {
  start_eal(o);
  rte_mempool* pool = rte_pktmbuf_pool_create(
      "frames", kMbufs, 256, 0, static_cast<std::uint16_t>(o.room + RTE_PKTMBUF_HEADROOM), 0);
  if (pool == nullptr) throw std::runtime_error("no memory for mbufs");
  Load load(o, pool);
  load.run(o.warm_up);
  load.forget();
  const std::uint64_t frames = load.received();
  const std::uint64_t begin = Load::now();
  load.run(o.seconds);
  const double seconds =
      static_cast<double>(Load::now() - begin) / static_cast<double>(rte_get_tsc_hz());
  const std::uint64_t received = load.received() - frames;
  const double idle_share = load.idle_share();
  const std::uint64_t lost = load.lost();
  load.drain();
  std::printf("{\"frames\": %" PRIu64 ", \"seconds\": %.6f, \"lost\": %" PRIu64
              ", \"load_idle\": %.3f}\n",
              received, seconds, lost, idle_share);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"loads a testpmd between two memif ports and prints what came through, as JSON"};
  app.add_option("--sockets", o.sockets, "the two memif sockets")->required();
  app.add_option("--size", o.size, "bytes of a frame, Ethernet header included")
      ->check(CLI::Range(60, 9216));
  app.add_option("--room", o.room, "bytes of a memif buffer");
  app.add_option("--in-flight", o.in_flight, "frames on their way, each way, at most");
  app.add_option("--seconds", o.seconds, "time measured");
  app.add_option("--queues", o.queues, "rings each way: as many as the other side sends on")
      ->check(CLI::Range(1, 8));
  app.add_option("--cpu", o.cpu, "CPU to run on");
  CLI11_PARSE(app, argc, argv);
  try {
    measure(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "memif_load: %s\n", e.what());
    return 1;
  }
  return 0;
}
