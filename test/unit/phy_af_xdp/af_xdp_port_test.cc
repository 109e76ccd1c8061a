// Two ports on the ends of a veth pair, in a network namespace of the process's own.
#include "phy/af_xdp/af_xdp_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/heap_pool.h"
#include "support.h"

namespace mtl::phy {
namespace {

using test::content;
using test::frame_of;
using test::noise;
using test::packet_of;
using test::run;
using test::wire;

constexpr std::uint32_t kMtu = 3400;
constexpr std::uint16_t kEtherType = 0x88B5;

class AfXdpPair : public ::testing::Test {
 protected:
  void SetUp() override {
    plug();
    a_ = open(config("mtla"));
    b_ = open(config("mtlb"));
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    EXPECT_EQ(pool_.available(), kBuffers) << "buffers leaked";
    (void)!std::system("ip link del mtla 2>/dev/null");
  }

  static void plug() {
    run("ip link add mtla type veth peer name mtlb");
    // Without IPv6 the kernel sends nothing of its own on them.
    run("sysctl -qw net.ipv6.conf.mtla.disable_ipv6=1 net.ipv6.conf.mtlb.disable_ipv6=1");
    run("ip link set mtla mtu " + std::to_string(kMtu) + " up; ip link set mtlb mtu " +
        std::to_string(kMtu) + " up");
  }

  static AfXdpConfig config(const std::string& interface) {
    AfXdpConfig out;
    out.interface = interface;
    out.frames = 64;
    out.ether_type = kEtherType;
    return out;
  }

  std::unique_ptr<AfXdpPort> open(const AfXdpConfig& config) {
    const auto plan = plan_af_xdp(config);
    EXPECT_TRUE(plan) << plan.error().message;
    if (!plan) return nullptr;
    auto port = AfXdpPort::open(*plan, pool_);
    EXPECT_TRUE(port) << port.error().message;
    return port ? std::move(*port) : nullptr;
  }

  /// Why the port cannot be opened.
  std::string refusal(const AfXdpConfig& config) {
    const auto plan = plan_af_xdp(config);
    if (!plan) return plan.error().message;
    const auto port = AfXdpPort::open(*plan, pool_);
    return port ? "" : port.error().message;
  }

  /// The next frame that arrives, waiting as a worker does; nullptr when none comes.
  static Buffer* arrived(AfXdpPort& port, int patience_ms = 10'000) {
    for (;;) {
      std::array<Buffer*, 1> out{};
      if (port.receive(out) == 1) return out[0];
      if (!port.arm()) continue;
      pollfd wait{port.traits().wake_fd, POLLIN, 0};
      if (::poll(&wait, 1, patience_ms) != 1) return nullptr;
      port.disarm();
    }
  }

  /// What arrives at `to` when `frame` is sent from `from`.
  static std::vector<std::byte> pass(AfXdpPort& from, AfXdpPort& to, const link::FrameOut& frame) {
    EXPECT_TRUE(from.send(frame));
    from.flush();
    Buffer* buffer = arrived(to);
    if (buffer == nullptr) return {};
    auto bytes = content(*buffer);
    give_back(buffer);
    return bytes;
  }

  static constexpr std::uint32_t kBuffers = 600;
  HeapPool pool_{kBuffers, 4096};
  std::unique_ptr<AfXdpPort> a_, b_;
};

TEST_F(AfXdpPair, TellsWhatItIs) {
  EXPECT_EQ(a_->traits().driver, "af_xdp");
  EXPECT_EQ(a_->traits().device, "mtla");
  EXPECT_EQ(a_->traits().max_frame, kMtu + 14);
  EXPECT_TRUE(a_->traits().lossy);
  EXPECT_TRUE(a_->traits().knows_carrier);
  EXPECT_GE(a_->traits().wake_fd, 0);
  EXPECT_TRUE(a_->carrier());
  EXPECT_EQ(a_->fault(), "");
  EXPECT_EQ(a_->mac(), query_interface("mtla")->mac);
}

TEST_F(AfXdpPair, EveryLengthPassesIntactBothWays) {
  for (std::uint32_t length = 60; length <= kMtu + 14; length += (length < 140 ? 1 : 97)) {
    if (length + 97 > kMtu + 14) length = kMtu + 14;
    const auto body = noise(length - link::kFrameHeader, length);
    Buffer* packet = packet_of(pool_, body);
    const auto frame = frame_of(packet, 0x21);
    ASSERT_EQ(pass(*a_, *b_, frame), wire(frame, body)) << length;
    ASSERT_EQ(pass(*b_, *a_, frame), wire(frame, body)) << length;
    ASSERT_EQ(content(*packet), body) << length;
    give_back(packet);
  }
  EXPECT_EQ(a_->counters().frames_out.get(), b_->counters().frames_in.get());
  EXPECT_EQ(a_->counters().bytes_out.get(), b_->counters().bytes_in.get());
}

TEST_F(AfXdpPair, ManyMoreFramesThanTheRingsHoldPassInOrder) {
  const auto body = noise(500, 9);
  Buffer* packet = packet_of(pool_, body);
  unsigned sent = 0, seen = 0;
  while (seen < 2000) {
    while (sent < 2000 && sent - seen < 32 && a_->room() > 0) {
      ASSERT_TRUE(a_->send(frame_of(packet, static_cast<std::uint8_t>(sent++))));
    }
    a_->flush();
    Buffer* buffer = arrived(*b_);
    ASSERT_NE(buffer, nullptr) << seen;
    EXPECT_EQ(buffer->data[14], static_cast<std::byte>(seen)) << seen;
    give_back(buffer);
    ++seen;
  }
  give_back(packet);
}

// Without waiting for each other the rings run full, and their places come free in the kernel's
// order, not in ours: frames may be lost then, but none may come twice, out of order or altered.
TEST_F(AfXdpPair, AFloodLosesFramesAtMost) {
  constexpr std::uint32_t kFrames = 300'000;
  constexpr std::uint32_t kLength = 200;
  Buffer* packet = packet_of(pool_, noise(kLength, 1));
  std::atomic<bool> done{false};
  std::thread sender([&] {
    for (std::uint32_t number = 1; number <= kFrames;) {
      if (a_->room() == 0) {
        a_->flush();
        continue;
      }
      for (std::uint32_t at = 0; at < kLength; at += sizeof number)
        std::memcpy(packet->data + at, &number, sizeof number);
      if (a_->send(frame_of(packet, 0x11))) ++number;
    }
    while (!a_->arm()) a_->flush();
    done = true;
  });
  std::uint32_t last = 0;
  unsigned wrong = 0;
  for (bool more = true; more;) {
    const bool sent = done;
    std::array<Buffer*, 32> out{};
    const unsigned got = b_->receive(out);
    for (unsigned i = 0; i < got; ++i) {
      std::vector<std::uint32_t> numbers(kLength / 4);
      std::memcpy(numbers.data(), out[i]->data + link::kFrameHeader, kLength);
      if (numbers[0] <= last || std::count(numbers.begin(), numbers.end(), numbers[0]) !=
                                    static_cast<std::ptrdiff_t>(numbers.size()))
        ++wrong;
      last = numbers[0];
      give_back(out[i]);
    }
    more = got > 0 || !sent;
  }
  sender.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(last, 0u);
  // Nothing of the rings was lost with the frames.
  for (unsigned i = 0; i < 200; ++i) {
    ASSERT_FALSE(pass(*a_, *b_, frame_of(packet, 0x12)).empty()) << i;
  }
  give_back(packet);
}

TEST_F(AfXdpPair, LongerThanMtuAnd14IsRefusedAndCounted) {
  const auto body = noise(kMtu + 15 - link::kFrameHeader, 4);
  Buffer* packet = packet_of(pool_, body);
  EXPECT_FALSE(a_->send(frame_of(packet, 0x23)));
  EXPECT_EQ(a_->counters().drops.get(Drop::kTooLong), 1u);
  give_back(packet);
}

TEST_F(AfXdpPair, WithoutBuffersFramesAreDroppedByName) {
  std::vector<Buffer*> all;
  while (Buffer* buffer = pool_.take()) all.push_back(buffer);
  const auto body = noise(100, 5);
  Buffer* packet = all.back();
  std::copy(body.begin(), body.end(), packet->data);
  packet->length = 100;
  packet->tailroom -= 100;
  ASSERT_TRUE(a_->send(frame_of(packet, 1)));
  a_->flush();
  while (b_->counters().drops.get(Drop::kNoBuffer) == 0) {
    std::array<Buffer*, 4> out{};
    ASSERT_EQ(b_->receive(out), 0u);
  }
  for (Buffer* buffer : all) give_back(buffer);
}

/// A raw socket on an interface, to send any bytes and to see what the host gets.
class Raw {
 public:
  explicit Raw(const std::string& interface)
      : fd_(::socket(AF_PACKET, SOCK_RAW, htons(0x0003 /* ETH_P_ALL */))) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(0x0003);
    address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void send(const std::vector<std::uint8_t>& bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  /// Whether a frame that ends in `mark` came to the host.
  bool saw(std::uint8_t mark, int patience_ms) {
    pollfd wait{fd_.get(), POLLIN, 0};
    while (::poll(&wait, 1, patience_ms) == 1) {
      std::uint8_t bytes[200];
      const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (n > 0 && bytes[n - 1] == mark) return true;
    }
    return false;
  }

 private:
  Fd fd_;
};

std::vector<std::uint8_t> raw_frame(const Mac& to, std::vector<std::uint8_t> types,
                                    std::uint8_t mark) {
  std::vector<std::uint8_t> bytes(100, mark);
  std::memcpy(bytes.data(), to.data(), 6);
  std::memcpy(bytes.data() + 6, "\x02\0\0\0\0\x01", 6);
  std::copy(types.begin(), types.end(), bytes.begin() + 12);
  return bytes;
}

TEST_F(AfXdpPair, TheHostKeepsWhatIsNotOurs) {
  a_.reset();
  Raw from("mtla"), host("mtlb");
  const Mac ours = b_->mac();
  Mac other = ours;
  other[5] ^= std::byte{1};
  from.send(raw_frame(ours, {0x08, 0x00}, 1));              // IPv4
  from.send(raw_frame(ours, {0x81, 0x00, 0, 5, 8, 0}, 2));  // IPv4, tagged
  from.send(raw_frame(other, {0x88, 0xB5}, 3));             // another station's
  for (std::uint8_t mark = 1; mark <= 3; ++mark) EXPECT_TRUE(host.saw(mark, 10'000)) << +mark;
  from.send(raw_frame(ours, {0x88, 0xB5}, 4));
  from.send(raw_frame(ours, {0x81, 0x00, 0, 5, 0x88, 0xB5}, 5));
  from.send(raw_frame(link::kUnknownPeer, {0x88, 0xB5}, 6));
  for (std::uint8_t mark = 4; mark <= 6; ++mark) {
    Buffer* buffer = arrived(*b_);
    ASSERT_NE(buffer, nullptr) << +mark;
    EXPECT_EQ(buffer->data[99], std::byte{mark});
    give_back(buffer);
  }
  for (std::uint8_t mark = 4; mark <= 6; ++mark) EXPECT_FALSE(host.saw(mark, 20)) << +mark;
}

TEST_F(AfXdpPair, AnAddressOfALinkIsOursToo) {
  b_.reset();
  const Mac mac{std::byte{2}, {}, {}, {}, {}, std::byte{0x77}};
  AfXdpConfig with = config("mtlb");
  with.macs = {mac};
  b_ = open(with);
  ASSERT_NE(b_, nullptr);
  a_.reset();
  Raw from("mtla");
  from.send(raw_frame(mac, {0x88, 0xB5}, 7));
  Buffer* buffer = arrived(*b_);
  ASSERT_NE(buffer, nullptr);
  give_back(buffer);
}

TEST_F(AfXdpPair, CarrierAndMtuFollowTheInterface) {
  run("ip link set mtlb down");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_FALSE(a_->carrier());
  EXPECT_EQ(a_->room(), 0u);
  run("ip link set mtlb up");
  run("ip link set mtla mtu 1400");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_TRUE(a_->carrier());
  EXPECT_NE(a_->fault().find("1400"), std::string::npos) << a_->fault();
  EXPECT_NE(a_->fault().find("ip link set mtla mtu 3400"), std::string::npos) << a_->fault();
  Buffer* packet = packet_of(pool_, noise(1415 - link::kFrameHeader, 1));
  EXPECT_FALSE(a_->send(frame_of(packet, 1)));
  give_back(packet);
  run("ip link set mtla mtu 3400");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_EQ(a_->fault(), "");
}

TEST_F(AfXdpPair, QueuesThatAreAddedLaterAreTold) {
  a_.reset();
  b_.reset();
  run("ip link del mtla; ip link add mtla numrxqueues 2 numtxqueues 2 type veth peer name mtlb "
      "numrxqueues 1 numtxqueues 1; "
      "ip link set mtla mtu 3400 up; ip link set mtlb mtu 3400 up");
  const auto set_queues = [](std::uint32_t count) {
    const Fd fd(::socket(AF_UNIX, SOCK_DGRAM, 0));
    ethtool_channels channels{};
    ifreq request{};
    std::strcpy(request.ifr_name, "mtla");
    request.ifr_data = reinterpret_cast<char*>(&channels);
    channels.cmd = ETHTOOL_GCHANNELS;
    ASSERT_EQ(::ioctl(fd.get(), SIOCETHTOOL, &request), 0);
    channels.cmd = ETHTOOL_SCHANNELS;
    channels.rx_count = count;
    ASSERT_EQ(::ioctl(fd.get(), SIOCETHTOOL, &request), 0) << std::strerror(errno);
  };
  set_queues(1);
  a_ = open(config("mtla"));
  ASSERT_NE(a_, nullptr);
  a_->sample();
  EXPECT_EQ(a_->fault(), "");
  set_queues(2);
  a_->sample();
  EXPECT_NE(a_->fault().find("mtla spreads what it receives over 2 queues"), std::string::npos)
      << a_->fault();
  EXPECT_NE(a_->fault().find("ethtool -L mtla combined 1"), std::string::npos) << a_->fault();
  set_queues(1);
  a_->sample();
  EXPECT_EQ(a_->fault(), "");
}

TEST_F(AfXdpPair, ADeletedInterfaceIsGoneAndItsSuccessorIsOpenedAnew) {
  run("ip link del mtla");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_TRUE(a_->gone());
  EXPECT_FALSE(a_->carrier());
  EXPECT_NE(a_->fault().find("mtla is gone"), std::string::npos);
  std::array<Buffer*, 4> out{};
  EXPECT_EQ(a_->receive(out), 0u);
  a_->flush();
  EXPECT_TRUE(a_->arm());
  plug();
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_TRUE(a_->gone()) << "another interface of that name is another one";
  b_.reset();
  a_.reset();
  a_ = open(config("mtla"));
  b_ = open(config("mtlb"));
  ASSERT_NE(a_, nullptr);
  ASSERT_NE(b_, nullptr);
  Buffer* packet = packet_of(pool_, noise(100, 1));
  EXPECT_EQ(pass(*a_, *b_, frame_of(packet, 1)).size(), 130u);
  give_back(packet);
}

TEST_F(AfXdpPair, CanBeClosedAndOpenedAnyNumberOfTimes) {
  for (int i = 0; i < 20; ++i) {
    a_.reset();
    a_ = open(config("mtla"));
    ASSERT_NE(a_, nullptr) << i;
  }
  Buffer* packet = packet_of(pool_, noise(100, 1));
  EXPECT_EQ(pass(*b_, *a_, frame_of(packet, 1)).size(), 130u);
  give_back(packet);
}

TEST_F(AfXdpPair, ASecondPortOnTheInterfaceIsRefusedAndDisturbsNothing) {
  EXPECT_NE(refusal(config("mtla")).find("mtla has an AF_XDP socket on queue 0 already"),
            std::string::npos)
      << refusal(config("mtla"));
  Buffer* packet = packet_of(pool_, noise(100, 1));
  EXPECT_EQ(pass(*b_, *a_, frame_of(packet, 1)).size(), 130u);
  give_back(packet);
}

TEST_F(AfXdpPair, AQueueThatIsBusyIsWaitedForOnlyWhereThatIsAllowed) {
  auto plan = plan_af_xdp(config("mtla"));
  ASSERT_TRUE(plan) << plan.error().message;
  plan->may_wait = false;
  // By what the thread did, not by the clock: it gave up the processor by sleeping, or did not.
  const auto sleeps = [&] {
    rusage before{}, after{};
    ::getrusage(RUSAGE_THREAD, &before);
    const auto port = AfXdpPort::open(*plan, pool_);
    EXPECT_FALSE(port);
    ::getrusage(RUSAGE_THREAD, &after);
    return after.ru_nvcsw - before.ru_nvcsw;
  };
  const long at_once = sleeps();
  plan->may_wait = true;
  EXPECT_GE(sleeps(), at_once + 50);  // 60 turns
  a_.reset();
  plan->may_wait = true;
  auto port = AfXdpPort::open(*plan, pool_);
  ASSERT_TRUE(port) << port.error().message;
  a_ = std::move(*port);
  Buffer* packet = packet_of(pool_, noise(100, 1));
  EXPECT_EQ(pass(*b_, *a_, frame_of(packet, 1)).size(), 130u);
  give_back(packet);
}

TEST_F(AfXdpPair, RefusesByName) {
  a_.reset();
  b_.reset();
  const auto says = [this](const AfXdpConfig& config, const std::string& text) {
    const std::string message = refusal(config);
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  AfXdpConfig bad = config("mtla");
  bad.max_frame = 3841;
  says(bad, "set its mtu to 3810 or less");
  bad = config("mtla");
  bad.frames = 100;
  says(bad, "a power of two from 64 to 16384");
  bad = config("mtla");
  bad.max_frame = kMtu + 15;
  says(bad, "MTU of 3400, which is too small");
  says(config("nowhere"), "does not exist");
  run("ip link set mtla down");
  says(config("mtla"), "is down: `ip link set mtla up`");
  run("ip link set mtla up mtu 9000; ip link set mtlb mtu 9000");
  bad = config("mtla");
  bad.max_frame = 1514;
  says(bad, "takes no XDP program");
  run("ip link add q4 numrxqueues 4 numtxqueues 4 type veth peer name q1; ip link set q4 up; ip "
      "link set q1 up");
  says(config("q4"), "4 queues, and AF_XDP reads one: `ethtool -L q4 combined 1`");
  run("ip link del q4");
}

}  // namespace
}  // namespace mtl::phy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mtl::phy::test::enter_own_namespace();
  return RUN_ALL_TESTS();
}
