// Two ports on the ends of a veth pair, in a network namespace of the process's own.
#include "phy/dpdk/af_packet.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "support.h"

namespace mtl::phy {
namespace {

using test::content;
using test::frame_of;
using test::noise;
using test::packet_of;
using test::run;
using test::wire;

constexpr std::uint32_t kMtu = 3000;
constexpr std::uint16_t kEtherType = 0x88B5;

class AfPacketPair : public ::testing::Test {
 protected:
  void SetUp() override {
    run("ip link add mtla type veth peer name mtlb");
    // Without IPv6 the kernel sends nothing of its own on them.
    run("sysctl -qw net.ipv6.conf.mtla.disable_ipv6=1 net.ipv6.conf.mtlb.disable_ipv6=1");
    run("ip link set mtla mtu " + std::to_string(kMtu) + " up; ip link set mtlb mtu " +
        std::to_string(kMtu) + " up");
    auto pool = MbufPool::create({.count = 600, .room = 4096});
    ASSERT_TRUE(pool) << pool.error().message;
    pool_ = std::move(*pool);
    a_ = open({.interface = "mtla", .frames = 64, .ether_type = kEtherType});
    b_ = open({.interface = "mtlb", .frames = 64, .ether_type = kEtherType});
    ASSERT_NE(a_, nullptr);
    ASSERT_NE(b_, nullptr);
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    if (pool_ != nullptr) {
      EXPECT_EQ(pool_->free_buffers(), pool_->size()) << "buffers leaked";
    }
    pool_.reset();
    (void)!std::system("ip link del mtla 2>/dev/null");
  }

  std::unique_ptr<AfPacketPort> open(const AfPacketConfig& config) {
    const auto plan = plan_af_packet(config);
    EXPECT_TRUE(plan) << plan.error().message;
    if (!plan) return nullptr;
    auto port = AfPacketPort::open(*plan, *pool_);
    EXPECT_TRUE(port) << port.error().message;
    return port ? std::move(*port) : nullptr;
  }

  /// The next frame that arrives, waiting as a worker does; nullptr when none comes.
  static Buffer* arrived(AfPacketPort& port, int patience_ms = 10'000) {
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
  static std::vector<std::byte> pass(AfPacketPort& from, AfPacketPort& to,
                                     const link::FrameOut& frame) {
    EXPECT_TRUE(from.send(frame));
    from.flush();
    Buffer* buffer = arrived(to);
    if (buffer == nullptr) return {};
    auto bytes = content(*buffer);
    give_back(buffer);
    return bytes;
  }

  std::unique_ptr<MbufPool> pool_;
  std::unique_ptr<AfPacketPort> a_, b_;
};

TEST_F(AfPacketPair, TellsWhatItIs) {
  EXPECT_EQ(a_->traits().driver, "net_af_packet");
  EXPECT_EQ(a_->traits().device, "mtla");
  EXPECT_EQ(a_->traits().max_frame, kMtu + 14);
  EXPECT_TRUE(a_->traits().lossy);
  EXPECT_TRUE(a_->traits().knows_carrier);
  EXPECT_GE(a_->traits().wake_fd, 0);
  EXPECT_TRUE(a_->carrier());
  EXPECT_EQ(a_->fault(), "");
  EXPECT_EQ(a_->mac(), query_interface("mtla")->mac);
}

TEST_F(AfPacketPair, EveryLengthPassesIntactBothWays) {
  for (std::uint32_t length = 60; length <= kMtu + 14; length += (length < 140 ? 1 : 97)) {
    if (length + 97 > kMtu + 14) length = kMtu + 14;
    const auto body = noise(length - link::kFrameHeader, length);
    Buffer* packet = packet_of(*pool_, body);
    const auto frame = frame_of(packet, 0x21);
    ASSERT_EQ(pass(*a_, *b_, frame), wire(frame, body)) << length;
    ASSERT_EQ(pass(*b_, *a_, frame), wire(frame, body)) << length;
    ASSERT_EQ(content(*packet), body) << length;
    give_back(packet);
  }
  EXPECT_EQ(a_->counters().frames_out.get(), b_->counters().frames_in.get());
  EXPECT_EQ(a_->counters().bytes_out.get(), b_->counters().bytes_in.get());
}

TEST_F(AfPacketPair, ShortFramesArePaddedWithZeros) {
  const auto body = noise(16, 3);
  Buffer* packet = packet_of(*pool_, body);
  std::memset(packet->data + packet->length, 0xEE, 100);
  const auto frame = frame_of(packet, 0x22);
  const auto bytes = pass(*a_, *b_, frame);
  EXPECT_EQ(bytes.size(), 60u);
  EXPECT_EQ(bytes, wire(frame, body));
  give_back(packet);
}

TEST_F(AfPacketPair, LongerThanMtuAnd14IsRefusedAndCounted) {
  const auto body = noise(kMtu + 15 - link::kFrameHeader, 4);
  Buffer* packet = packet_of(*pool_, body);
  EXPECT_FALSE(a_->send(frame_of(packet, 0x23)));
  EXPECT_EQ(a_->counters().drops.get(Drop::kTooLong), 1u);
  give_back(packet);
  // The interface's MTU is what it was: set_mtu of the driver would have made it 1500.
  EXPECT_EQ(query_interface("mtla")->mtu, kMtu);
}

TEST_F(AfPacketPair, SentAgainBeforeTheDeviceIsDoneGoesOutAsACopy) {
  const auto body = noise(300, 5);
  Buffer* packet = packet_of(*pool_, body);
  const auto first = frame_of(packet, 0x31);
  const auto again = frame_of(packet, 0x32);
  ASSERT_TRUE(a_->send(first));
  EXPECT_FALSE(pool_->exclusive(*packet));
  ASSERT_TRUE(a_->send(again));
  a_->flush();
  EXPECT_TRUE(pool_->exclusive(*packet));
  for (const auto* frame : {&first, &again}) {
    Buffer* buffer = arrived(*b_);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(content(*buffer), wire(*frame, body));
    give_back(buffer);
  }
  // Alone again: sent from where it lies.
  const auto free = pool_->free_buffers();
  ASSERT_TRUE(a_->send(first));
  EXPECT_EQ(pool_->free_buffers(), free);
  a_->flush();
  give_back(arrived(*b_));
  give_back(packet);
}

TEST_F(AfPacketPair, ReceivedFrameIsForwardedFromWhereItLies) {
  const auto body = noise(16, 6);
  Buffer* packet = packet_of(*pool_, body);
  ASSERT_TRUE(a_->send(frame_of(packet, 0x41)));
  a_->flush();
  give_back(packet);
  Buffer* buffer = arrived(*b_);
  ASSERT_NE(buffer, nullptr);
  buffer->pull(link::kFrameHeader);
  buffer->trim(16);
  const auto frame = frame_of(buffer, 0x42);
  EXPECT_EQ(pass(*b_, *a_, frame), wire(frame, body));
  give_back(buffer);
}

TEST_F(AfPacketPair, OtherEtherTypesStayInTheKernel) {
  auto other = frame_of(nullptr, 0x51);
  other.head[12] = std::byte{0x86};
  other.head[13] = std::byte{0xDD};
  ASSERT_TRUE(a_->send(other));
  const auto ours = frame_of(nullptr, 0x52);
  EXPECT_EQ(pass(*a_, *b_, ours), wire(ours, {}));
  EXPECT_EQ(b_->counters().frames_in.get(), 1u);
}

// A bridge floods frames for stations that it does not know; a NIC would not hand them on.
TEST_F(AfPacketPair, FramesForOtherStationsStayInTheKernel) {
  b_.reset();
  const Mac second{std::byte{2}, {}, {}, {}, {}, std::byte{0x77}};
  b_ = open({.interface = "mtlb", .frames = 64, .ether_type = kEtherType, .macs = {second}});
  ASSERT_NE(b_, nullptr);
  const auto to = [](const Mac& mac) {
    auto frame = frame_of(nullptr, 0x51);
    std::copy(mac.begin(), mac.end(), frame.head.begin());
    return frame;
  };
  const Mac own = b_->mac();
  const Mac stranger{std::byte{2}, {}, {}, {}, {}, std::byte{0x78}};
  const Mac half = {own[0], own[1], own[2], own[3], std::byte{1}, std::byte{2}};
  ASSERT_TRUE(a_->send(to(stranger)));
  ASSERT_TRUE(a_->send(to(half)));
  EXPECT_EQ(pass(*a_, *b_, to(own)), wire(to(own), {}));
  EXPECT_EQ(pass(*a_, *b_, to(second)), wire(to(second), {}));
  EXPECT_EQ(pass(*a_, *b_, to(link::kUnknownPeer)), wire(to(link::kUnknownPeer), {}));
  // The peers go on using the address that they learned.
  run("ip link set mtlb address 02:00:00:00:00:99");
  EXPECT_EQ(pass(*a_, *b_, to(own)), wire(to(own), {}));
  EXPECT_EQ(b_->counters().frames_in.get(), 4u);
}

// The kernel takes the tag off, and the driver puts it back: the frame is as it was on the wire.
TEST_F(AfPacketPair, P3_TagsComeThroughAndLongestFramesWithThem) {
  a_.reset();
  b_.reset();
  a_ = open({.interface = "mtla", .frames = 64, .ether_type = kEtherType, .tagged = true});
  b_ = open({.interface = "mtlb", .frames = 64, .ether_type = kEtherType, .tagged = true});
  ASSERT_NE(a_, nullptr);
  ASSERT_NE(b_, nullptr);
  Buffer* packet = pool_->take();
  ASSERT_NE(packet, nullptr);
  packet->length = kMtu + 14 - link::kFrameHeader;
  packet->tailroom -= packet->length;
  std::fill_n(packet->data, packet->length, std::byte{0x5A});
  link::FrameOut tagged;
  tagged.set_tagged(frame_of(packet, 0x53), VlanId(5));
  ASSERT_EQ(tagged.length(), kMtu + 14 + 4);
  const auto got = pass(*a_, *b_, tagged);
  EXPECT_EQ(got, wire(tagged, {packet->data, packet->data + packet->length}));
  ASSERT_GE(got.size(), 18u);
  EXPECT_EQ(load32(got.data() + 12), 0x81000005u);
  give_back(packet);
}

// As another daemon's driver does it, whose process number and interface index come to the same.
TEST_F(AfPacketPair, AFanoutGroupThatIsTakenIsNamedWithTheRemedy) {
  a_.reset();
  const int group = (::getpid() ^ static_cast<int>(::if_nametoindex("mtla"))) & 0xFFFF;
  const int fd = ::socket(AF_PACKET, SOCK_RAW, 0);
  ASSERT_GE(fd, 0);
  sockaddr_ll other{};
  other.sll_family = AF_PACKET;
  other.sll_protocol = htons(ETH_P_ALL);
  other.sll_ifindex = static_cast<int>(::if_nametoindex("mtlb"));
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&other), sizeof other), 0);
  const int fanout = group | PACKET_FANOUT_HASH << 16;
  ASSERT_EQ(::setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &fanout, sizeof fanout), 0);

  const auto plan = plan_af_packet({.interface = "mtla", .frames = 64});
  ASSERT_TRUE(plan);
  const auto refused = AfPacketPort::open(*plan, *pool_);
  ASSERT_FALSE(refused);
  const std::string& message = refused.error().message;
  const std::string number = "fanout group " + std::to_string(group) + " ";
  for (const std::string& part :
       std::vector<std::string>{"interface mtla", number, "start again", "other indices"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
  ::close(fd);
  EXPECT_NE(open({.interface = "mtla", .frames = 64}), nullptr) << "the group is free again";
}

TEST_F(AfPacketPair, WhatTheHostSendsOnTheInterfaceIsNotReceived) {
  // By another socket of this host, on the very interface that port a reads.
  const int fd = ::socket(AF_PACKET, SOCK_RAW, 0);
  ASSERT_GE(fd, 0);
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(::if_nametoindex("mtla"));
  const auto frame = wire(frame_of(nullptr, 0x53), {});
  ASSERT_EQ(
      ::sendto(fd, frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&to), sizeof to),
      static_cast<ssize_t>(frame.size()));
  ::close(fd);
  Buffer* buffer = arrived(*b_);  // it is out on the wire
  ASSERT_NE(buffer, nullptr);
  give_back(buffer);
  std::array<Buffer*, 1> out{};
  EXPECT_EQ(a_->receive(out), 0u);
}

TEST_F(AfPacketPair, LossInTheReceiversRingIsCounted) {
  // 64 frames and more fit the ring; nobody takes any.
  constexpr unsigned kSent = 400;
  for (unsigned i = 0; i < kSent; ++i) {
    ASSERT_GE(a_->room(), 1u);
    ASSERT_TRUE(a_->send(frame_of(nullptr, 0x61)));
  }
  a_->flush();
  EXPECT_EQ(a_->counters().frames_out.get(), kSent);
  // The kernel may still be delivering the last of them.
  std::uint64_t got = 0;
  std::array<Buffer*, 32> out{};
  const auto lost = [&] { return b_->device_counters().drops.get(Drop::kNotReceived); };
  for (int i = 0; i < 1000 && got + lost() < kSent; ++i) {
    while (const unsigned n = b_->receive(out)) {
      for (unsigned k = 0; k < n; ++k) give_back(out[k]);
      got += n;
    }
    b_->sample();
    pollfd wait{b_->traits().wake_fd, POLLIN, 0};
    if (got + lost() < kSent) ::poll(&wait, 1, 10);
  }
  EXPECT_GT(lost(), 0u);
  EXPECT_EQ(got + lost(), kSent);
}

TEST_F(AfPacketPair, ArmSaysWhetherFramesWait) {
  EXPECT_TRUE(b_->arm());
  ASSERT_TRUE(a_->send(frame_of(nullptr, 0x71)));
  a_->flush();
  pollfd wait{b_->traits().wake_fd, POLLIN, 0};
  ASSERT_EQ(::poll(&wait, 1, 10'000), 1);
  EXPECT_FALSE(b_->arm());
  give_back(arrived(*b_));
  EXPECT_TRUE(b_->arm());
}

TEST_F(AfPacketPair, ArmForbidsSleepWhileFramesAreGathered) {
  ASSERT_TRUE(a_->send(frame_of(nullptr, 0x72)));
  EXPECT_FALSE(a_->arm());
  a_->flush();
  EXPECT_TRUE(a_->arm());
  give_back(arrived(*b_));
}

TEST_F(AfPacketPair, CarrierFollowsTheInterfaceAndNothingIsSentWithoutIt) {
  run("ip link set mtlb down");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_FALSE(a_->carrier());
  EXPECT_EQ(a_->room(), 0u);
  EXPECT_EQ(a_->fault(), "");
  run("ip link set mtlb up");
  a_->follow_interface(*query_interface("mtla"));
  b_->follow_interface(*query_interface("mtlb"));
  EXPECT_TRUE(a_->carrier());
  const auto frame = frame_of(nullptr, 0x81);
  EXPECT_EQ(pass(*a_, *b_, frame), wire(frame, {})) << "port b works again after its own down";
}

TEST_F(AfPacketPair, InterfaceThatWentDownDoesNotWakeTheWorkerForEver) {
  run("ip link set mtlb down");
  (void)b_->arm();
  pollfd wait{b_->traits().wake_fd, POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 0), 0);
}

TEST_F(AfPacketPair, ShrunkMtuLowersTheLimitAndIsNamed) {
  run("ip link set mtla mtu 2000");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_EQ(a_->frame_limit(), 2014u);
  EXPECT_NE(a_->fault().find("`ip link set mtla mtu 3000`"), std::string::npos) << a_->fault();
  Buffer* packet = packet_of(*pool_, noise(2015 - link::kFrameHeader, 8));
  EXPECT_FALSE(a_->send(frame_of(packet, 1)));
  EXPECT_EQ(a_->counters().drops.get(Drop::kTooLong), 1u);
  give_back(packet);
  run("ip link set mtla mtu 9000");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_EQ(a_->frame_limit(), kMtu + 14) << "the rings are what they were";
  EXPECT_EQ(a_->fault(), "");
}

TEST_F(AfPacketPair, DeletedInterfaceIsGoneForThisPortAlsoWhenItsNameComesBack) {
  ASSERT_TRUE(a_->send(frame_of(nullptr, 1)));
  run("ip link del mtla");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_FALSE(a_->carrier());
  EXPECT_NE(a_->fault().find("interface mtla is gone"), std::string::npos) << a_->fault();
  a_->flush();
  EXPECT_EQ(a_->counters().drops.get(Drop::kNotSent), 1u);
  std::array<Buffer*, 1> out{};
  EXPECT_EQ(a_->receive(out), 0u);
  a_->sample();

  run("ip link add mtla mtu 3000 type veth peer name mtlb; ip link set mtla up; ip link set mtlb "
      "up");
  a_->follow_interface(*query_interface("mtla"));
  EXPECT_FALSE(a_->carrier());
  EXPECT_NE(a_->fault(), "");
  // Opened anew, while the old one is still there.
  const auto anew = open({.interface = "mtla", .frames = 64});
  ASSERT_NE(anew, nullptr);
  EXPECT_TRUE(anew->carrier());
  EXPECT_EQ(anew->fault(), "");
}

TEST_F(AfPacketPair, PoolThatIsTooSmallIsNamed) {
  a_.reset();
  const auto small = MbufPool::create({.count = 100, .room = 1500});
  ASSERT_TRUE(small);
  const auto plan = plan_af_packet({.interface = "mtla"});
  ASSERT_TRUE(plan);
  const auto port = AfPacketPort::open(*plan, **small);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().message.find(std::to_string(plan->rings.pool_room())), std::string::npos)
      << port.error().message;
}

TEST_F(AfPacketPair, OpensAgainAndAgainWithoutLeavingAnythingBehind) {
  const auto sockets = [] {
    return std::system("exit $(grep -c . /proc/net/packet)");  // a header and one line for each
  };
  const int before = sockets();
  for (int i = 0; i < 20; ++i) {
    a_.reset();
    a_ = open({.interface = "mtla", .frames = 64, .ether_type = kEtherType});
    ASSERT_NE(a_, nullptr);
  }
  EXPECT_EQ(sockets(), before);
  const auto frame = frame_of(nullptr, 0x91);
  EXPECT_EQ(pass(*a_, *b_, frame), wire(frame, {}));
}

/// Has the kernel refuse the calling thread any further thread.
void allow_no_threads() {
  std::array<sock_filter, 5> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), 0);
}

TEST_F(AfPacketPair, WithoutAThreadItIsNotOpenedAndOpensLater) {
  a_.reset();
  const AfPacketConfig config{.interface = "mtla", .frames = 64};
  const auto plan = plan_af_packet(config);
  ASSERT_TRUE(plan) << plan.error().message;
  std::thread([&] {
    allow_no_threads();
    const auto port = AfPacketPort::open(*plan, *pool_);
    ASSERT_FALSE(port);
    EXPECT_NE(port.error().message.find("mtla cannot be opened: no thread"), std::string::npos)
        << port.error().message;
  }).join();
  a_ = open(config);
  EXPECT_NE(a_, nullptr);
}

TEST_F(AfPacketPair, TheInterfacesFlagsStayWhatTheyWere) {
  // The driver would take its promiscuous mode away, which an operator may have set for another.
  a_.reset();
  run("ip link set mtla promisc on");
  a_ = open({.interface = "mtla", .frames = 64});
  ASSERT_NE(a_, nullptr);
  EXPECT_EQ(std::system("ip link show mtla | grep -q PROMISC"), 0);
  a_.reset();
  EXPECT_EQ(std::system("ip link show mtla | grep -q PROMISC"), 0);
}

TEST_F(AfPacketPair, AddressesToListenToAreThereWhileThePortIsOpen) {
  // P2: the address of unknown peers, and our own where it is not the interface's. veth filters
  // nothing, so what counts is that the kernel would tell a NIC.
  const auto listens = [](const std::string& mac) {
    return std::system(("bridge fdb show dev mtla | grep -q " + mac).c_str()) == 0;
  };
  a_.reset();
  EXPECT_FALSE(listens("03:4d:54:4c:00:01"));
  const Mac mac{std::byte{2}, {}, {}, {}, {}, std::byte{0x77}};
  a_ = open({.interface = "mtla", .frames = 64, .macs = {mac}});
  ASSERT_NE(a_, nullptr);
  EXPECT_TRUE(listens("03:4d:54:4c:00:01"));
  EXPECT_TRUE(listens("02:00:00:00:00:77"));
  // Port b asks for no second address.
  EXPECT_EQ(std::system("ip -d link show mtlb | grep -q 'promiscuity 0'"), 0);
  a_.reset();
  EXPECT_FALSE(listens("02:00:00:00:00:77"));
}

}  // namespace
}  // namespace mtl::phy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mtl::phy::test::enter_own_namespace();
  ::testing::AddGlobalTestEnvironment(new mtl::phy::test::EalEnvironment);
  return RUN_ALL_TESTS();
}
