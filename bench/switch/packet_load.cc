// Load for what forwards between two Ethernet interfaces, by AF_PACKET sockets on both, from one
// pinned thread: raw frames for a bridge, or DATA of the link protocol for an mtswitchd with a port
// at the far end of each. Both directions, bursts of 32, a bounded number of frames on their way.
// Prints, as a line of JSON, what arrived.
//
// Frames are sent past the queueing discipline (PACKET_QDISC_BYPASS) by sendmmsg and taken by
// recvmmsg: two system calls for a burst.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "base/fd.h"
#include "base/heap_pool.h"
#include "link/link.h"
#include "network/packet.h"
#include "runtime/clock.h"
#include "runtime/random.h"

namespace mtl {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kBurst = 32;
constexpr std::uint32_t kRoom = 2048;
constexpr std::uint32_t kLongestFrame = 1514;
constexpr std::size_t kTemplates = 64;
constexpr int kSocketBytes = 8 << 20;
constexpr Duration kPatience = 5s;
/// Nothing has arrived for so long: what is on its way is lost.
constexpr Duration kLost = 50ms;

struct Options {
  std::array<std::string, 2> interfaces;
  bool raw = false;
  std::uint32_t size = 64;
  std::uint32_t in_flight = 256;
  double warm_up = 0.5;
  double seconds = 2;
  int cpu = 1;
};

void must(bool ok, const std::string& what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), what);
}

/// An AF_PACKET socket on an interface, which sends and receives in bursts.
class PacketSocket {
 public:
  explicit PacketSocket(const std::string& interface)
      : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(link::kDefaultEtherType))) {
    must(static_cast<bool>(socket_), "AF_PACKET socket (needs CAP_NET_RAW)");
    ifreq request{};
    std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface.c_str());
    must(::ioctl(socket_.get(), SIOCGIFHWADDR, &request) == 0, interface);
    std::memcpy(mac_.data(), request.ifr_hwaddr.sa_data, mac_.size());
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(link::kDefaultEtherType);
    address.sll_ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
    must(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
         interface);
    const int on = 1;
    must(::setsockopt(socket_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) == 0,
         "PACKET_QDISC_BYPASS");
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBytes, sizeof kSocketBytes);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSocketBytes, sizeof kSocketBytes);
    for (unsigned i = 0; i < kBurst; ++i) in_[i] = pool_.take();
  }
  ~PacketSocket() {
    for (Buffer* buffer : in_) give_back(buffer);
  }
  PacketSocket(const PacketSocket&) = delete;
  PacketSocket& operator=(const PacketSocket&) = delete;

  const Mac& mac() const { return mac_; }
  unsigned room() const { return kBurst - waiting_; }
  /// Where the next frame is to be written, of kRoom bytes.
  std::byte* next() { return out_[waiting_].data(); }
  void queue(std::uint32_t length) {
    parts_[waiting_] = {next(), length};
    ++waiting_;
  }
  /// Sends what was queued; what does not go is lost. Returns how many went.
  unsigned flush() {
    if (waiting_ == 0) return 0;
    for (unsigned i = 0; i < waiting_; ++i) {
      messages_[i] = {};
      messages_[i].msg_hdr.msg_iov = &parts_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
    const int sent = ::sendmmsg(socket_.get(), messages_.data(), waiting_, 0);
    waiting_ = 0;
    return sent > 0 ? static_cast<unsigned>(sent) : 0;
  }
  /// Hands each frame that has come to `take`, which owns the buffer.
  template <class Take>
  unsigned receive(Take take) {
    for (unsigned i = 0; i < kBurst; ++i) {
      parts_in_[i] = {in_[i]->data, kRoom};
      messages_[i] = {};
      messages_[i].msg_hdr.msg_iov = &parts_in_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
    const int got = ::recvmmsg(socket_.get(), messages_.data(), kBurst, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < got; ++i) {
      Buffer*& place = in_[static_cast<std::size_t>(i)];
      Buffer* frame = std::exchange(place, pool_.take());
      if (place == nullptr) throw std::runtime_error("out of buffers");
      frame->length = messages_[static_cast<std::size_t>(i)].msg_len;
      frame->tailroom -= frame->length;
      take(frame);
    }
    return got > 0 ? static_cast<unsigned>(got) : 0;
  }

 private:
  Fd socket_;
  Mac mac_{};
  HeapPool pool_{4096, kRoom};
  std::array<Buffer*, kBurst> in_{};
  std::array<std::array<std::byte, kRoom>, kBurst> out_{};
  std::array<iovec, kBurst> parts_{}, parts_in_{};
  std::array<mmsghdr, kBurst> messages_{};
  unsigned waiting_ = 0;
};

/// One end of the load.
class End {
 public:
  virtual ~End() = default;
  virtual void pass(bool send, std::uint64_t on_their_way, Time now) = 0;
  virtual bool ready() const = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
};

/// Frames for a bridge, which learns where both ends are.
class RawEnd final : public End {
 public:
  RawEnd(const Options& options, PacketSocket& socket, const Mac& peer)
      : options_(options), socket_(socket), frame_(options.size) {
    link::encode_ethernet(peer, socket.mac(), link::kDefaultEtherType, frame_.data());
  }
  bool ready() const override { return true; }
  void pass(bool send, std::uint64_t on_their_way, Time) override {
    socket_.receive([this](Buffer* frame) {
      ++received;
      give_back(frame);
    });
    if (!send || on_their_way + kBurst > options_.in_flight) return;
    while (socket_.room() > 0) {
      std::memcpy(socket_.next(), frame_.data(), frame_.size());
      socket_.queue(options_.size);
    }
    sent += socket_.flush();
  }

 private:
  const Options& options_;
  PacketSocket& socket_;
  std::vector<std::byte> frame_;
};

/// One end of a link to an mtswitchd. The links are of nodes 1 and 2.
class LinkEnd final : public End, private link::Owner {
 public:
  LinkEnd(const Options& options, PacketSocket& socket, std::uint16_t node, Time now)
      : options_(options), socket_(socket), node_(node), link_(config(node, socket.mac()), *this) {
    for (std::size_t i = 0; i < kTemplates; ++i) {
      auto& packet = packets_.emplace_back(options.size - link::kFrameHeader);
      network::encode(network::Header{.proto = static_cast<std::uint8_t>(network::Proto::kDatagram),
                                      .dst = NodeId{static_cast<std::uint16_t>(3 - node)},
                                      .src = NodeId{node},
                                      .entropy = static_cast<std::uint16_t>(i)},
                      packet.data());
      network::seal(packet);
    }
    link_.set_carrier(true, now);
    link_.enable(now);
  }
  bool ready() const override { return link_.usable(); }
  std::uint64_t replays() const { return link_.counters().replays.get(); }

  void pass(bool send, std::uint64_t on_their_way, Time now) override {
    now_ = now;
    socket_.receive([this](Buffer* frame) { link_.receive(frame, now_); });
    if (send && link_.queued() == 0 && on_their_way + kBurst <= options_.in_flight) submit();
    pull();
    while (link_.next_deadline() <= now_ && link_.expire(now_)) pull();
    socket_.flush();
  }

 private:
  link::Config config(std::uint16_t node, const Mac& mac) const {
    link::Config c;
    c.node = NodeId{node};
    c.port = PortId{0};
    c.mac = mac;
    c.mtu = static_cast<std::uint16_t>(kLongestFrame - link::kFrameHeader);
    c.cell = c.mtu;
    c.window = static_cast<std::uint16_t>(2 * options_.in_flight);
    c.capacity = {static_cast<std::uint16_t>(options_.in_flight)};
    c.timers = link::lab_timers();
    return c;
  }
  void submit() {
    for (unsigned i = 0; i < kBurst; ++i) {
      const auto& packet = packets_[sent++ % kTemplates];
      Buffer* buffer = pool_.take();
      if (buffer == nullptr) throw std::runtime_error("out of buffers");
      std::memcpy(buffer->data, packet.data(), packet.size());
      buffer->length = static_cast<std::uint32_t>(packet.size());
      link_.submit(buffer, now_);
    }
  }
  void pull() {
    while (link_.wants_to_send()) {
      if (socket_.room() == 0) socket_.flush();
      if (!link_.next_frame(now_, frame_)) return;
      socket_.queue(frame_.write(socket_.next()));
    }
  }

  // link::Owner
  void packets_in(PortId, std::span<Buffer* const> packets) override {
    received += packets.size();
    for (const Buffer* packet : packets) {
      link_.release(packet->notes.ingress_vc, packet->notes.ingress_cells, now_);
    }
    give_back(packets);
  }
  void packets_acked(PortId, std::span<Buffer* const> packets) override { give_back(packets); }
  void packet_back(PortId, Buffer* packet) override {
    give_back(packet);
    died_ = true;
  }
  void link_changed(PortId) override {}
  link::BringUp bring_up(PortId, std::uint8_t last_epoch) override {
    if (died_) throw std::runtime_error("a link died under load");
    return random_.bring_up(last_epoch);
  }

  const Options& options_;
  PacketSocket& socket_;
  std::uint16_t node_;
  HeapPool pool_{4096, kRoom};
  runtime::RandomStock random_;
  bool died_ = false;
  Time now_{};
  link::Link link_;
  std::vector<std::vector<std::byte>> packets_;
  link::FrameOut frame_;
};

/// Both ends and the time.
class Load {
 public:
  explicit Load(const Options& options)
      : options_(options), a_(options.interfaces[0]), b_(options.interfaces[1]) {
    if (options.raw) {
      ends_[0] = std::make_unique<RawEnd>(options, a_, b_.mac());
      ends_[1] = std::make_unique<RawEnd>(options, b_, a_.mac());
      return;
    }
    const Time now = clock_.now();
    ends_[0] = std::make_unique<LinkEnd>(options, a_, std::uint16_t{1}, now);
    ends_[1] = std::make_unique<LinkEnd>(options, b_, std::uint16_t{2}, now);
  }
  void bring_up() {
    const Time until = clock_.now() + kPatience;
    while (!ends_[0]->ready() || !ends_[1]->ready()) {
      if (clock_.now() > until) throw std::runtime_error("the links do not come up");
      pass(false);
    }
  }
  /// Returns how long it was.
  double run(double seconds) {
    const Time began = clock_.now();
    const Time until =
        began + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    while (clock_.now() < until) pass(true);
    return std::chrono::duration<double>(clock_.now() - began).count();
  }
  std::uint64_t received() const { return ends_[0]->received + ends_[1]->received; }
  std::uint64_t lost() const { return lost_[0] + lost_[1]; }
  std::uint64_t replays() const {
    std::uint64_t sum = 0;
    for (const auto& end : ends_) {
      if (const auto* link = dynamic_cast<const LinkEnd*>(end.get())) sum += link->replays();
    }
    return sum;
  }

 private:
  void pass(bool send) {
    const Time now = clock_.now();
    for (std::size_t i = 0; i < 2; ++i) {
      const std::uint64_t before = ends_[i]->received;
      // What counts as lost may come late.
      lost_[i] = std::min(lost_[i], ends_[i]->sent - ends_[1 - i]->received);
      ends_[i]->pass(send, ends_[i]->sent - ends_[1 - i]->received - lost_[i], now);
      if (ends_[i]->received != before) last_arrival_[i] = now;
    }
    if (options_.raw) forget_lost(now);
  }
  /// A bridge may drop, and nobody says so.
  void forget_lost(Time now) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (now - last_arrival_[1 - i] < kLost) continue;
      lost_[i] = ends_[i]->sent - ends_[1 - i]->received;
      last_arrival_[1 - i] = now;
    }
  }

  const Options& options_;
  runtime::Clock clock_;
  PacketSocket a_, b_;
  std::array<std::unique_ptr<End>, 2> ends_;
  std::array<std::uint64_t, 2> lost_{};
  std::array<Time, 2> last_arrival_{};
};

void measure(const Options& options) {
  Load load(options);
  load.bring_up();
  std::puts("ready");  // whoever accounts for the other side's time begins after this line
  std::fflush(stdout);
  load.run(options.warm_up);
  const std::uint64_t before = load.received();
  const double seconds = load.run(options.seconds);
  std::printf("{\"frames\": %" PRIu64 ", \"seconds\": %.6f, \"lost\": %" PRIu64
              ", \"replays\": %" PRIu64 "}\n",
              load.received() - before, seconds, load.lost(), load.replays());
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  must(sched_setaffinity(0, sizeof set, &set) == 0, "CPU " + std::to_string(cpu));
}

}  // namespace
}  // namespace mtl

int main(int argc, char** argv) {
  mtl::Options o;
  CLI::App app{"loads what forwards between two interfaces, and prints what arrived, as JSON"};
  app.add_option("--interfaces", o.interfaces, "where the two ends send and receive")->required();
  app.add_flag("--raw", o.raw, "frames without a link, as a bridge forwards them");
  app.add_option("--size", o.size, "bytes of a frame, Ethernet header included")
      ->check(CLI::Range(60U, mtl::kLongestFrame));
  app.add_option("--in-flight", o.in_flight, "frames on their way, each way, at most")
      ->check(CLI::Range(32, 2048));
  app.add_option("--seconds", o.seconds, "time measured");
  app.add_option("--cpu", o.cpu, "CPU to run on");
  CLI11_PARSE(app, argc, argv);
  try {
    mtl::pin(o.cpu);
    mtl::measure(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "packet_load: %s\n", e.what());
    return 1;
  }
  return 0;
}
