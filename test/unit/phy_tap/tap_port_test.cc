// A port at one end of a TAP interface, a raw socket of the host at the other, in a network
// namespace of the process's own.
#include "phy/tap/tap_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
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

constexpr std::uint32_t kMaxFrame = 9030;
constexpr std::uint16_t kEtherType = 0x88B5;
constexpr Mac kOurs{std::byte{0x02}, std::byte{0x4D}, {}, {}, {}, std::byte{0x07}};

/// The host on its side of the interface.
class Host {
 public:
  explicit Host(const std::string& interface)
      : fd_(::socket(AF_PACKET, SOCK_RAW, htons(kEtherType))) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(kEtherType);
    address.sll_ifindex = static_cast<int>(::if_nametoindex(interface.c_str()));
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  void send(const std::vector<std::byte>& bytes) {
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()))
        << std::strerror(errno);
  }
  std::vector<std::byte> receive() {
    std::vector<std::byte> bytes(65536);
    pollfd wait{fd_.get(), POLLIN, 0};
    if (::poll(&wait, 1, 10'000) != 1) return {};
    bytes.resize(static_cast<std::size_t>(
        std::max<ssize_t>(0, ::recv(fd_.get(), bytes.data(), bytes.size(), 0))));
    return bytes;
  }

 private:
  Fd fd_;
};

class Tap : public ::testing::Test {
 protected:
  void SetUp() override { port_ = open(config("mtt")); }
  void TearDown() override {
    port_.reset();
    EXPECT_EQ(pool_.available(), kBuffers) << "buffers leaked";
    EXPECT_FALSE(query_interface("mtt")->exists) << "the interface is left";
  }

  static TapConfig config(const std::string& interface) {
    TapConfig out;
    out.interface = interface;
    out.max_frame = kMaxFrame;
    out.ether_type = kEtherType;
    out.macs = {kOurs};
    return out;
  }
  std::unique_ptr<TapPort> open(const TapConfig& config) {
    const auto plan = plan_tap(config);
    EXPECT_TRUE(plan) << plan.error().message;
    if (!plan) return nullptr;
    auto port = TapPort::open(*plan, pool_);
    EXPECT_TRUE(port) << port.error().message;
    return port ? std::move(*port) : nullptr;
  }
  static std::string refusal(const TapConfig& config) {
    const auto plan = plan_tap(config);
    return plan ? "" : plan.error().message;
  }
  static Buffer* arrived(TapPort& port, int patience_ms = 10'000) {
    for (;;) {
      std::array<Buffer*, 1> out{};
      if (port.receive(out) == 1) return out[0];
      if (!port.arm()) continue;
      pollfd wait{port.traits().wake_fd, POLLIN, 0};
      if (::poll(&wait, 1, patience_ms) != 1) return nullptr;
      port.disarm();
    }
  }
  static std::vector<std::byte> frame_to(const Mac& to, std::vector<std::uint8_t> types,
                                         std::size_t length, unsigned seed) {
    std::vector<std::byte> bytes = noise(length, seed);
    std::memcpy(bytes.data(), to.data(), to.size());
    bytes[6] = std::byte{2};
    for (std::size_t i = 0; i < types.size(); ++i) bytes[12 + i] = std::byte{types[i]};
    return bytes;
  }

  static constexpr std::uint32_t kBuffers = 100;
  HeapPool pool_{kBuffers, 9088};
  std::unique_ptr<TapPort> port_;
};

TEST_F(Tap, MakesAnInterfaceThatIsUpWithTheLinksMtu) {
  ASSERT_NE(port_, nullptr);
  EXPECT_EQ(port_->traits().driver, "tap");
  EXPECT_EQ(port_->traits().device, "mtt");
  EXPECT_EQ(port_->traits().max_frame, kMaxFrame);
  EXPECT_TRUE(port_->carrier());
  EXPECT_EQ(port_->fault(), "");
  const auto state = query_interface("mtt");
  EXPECT_EQ(state->mtu, kMaxFrame - 14);
  EXPECT_TRUE(state->admin_up);
  EXPECT_EQ(std::system("ip link show mtt | grep -q 'BROADCAST,MULTICAST,UP'"), 0)
      << "the host's own protocols need groups";
  EXPECT_NE(state->mac, port_->mac()) << "a bridge would take our frames for its own";
}

TEST_F(Tap, EveryLengthPassesIntactBothWays) {
  Host host("mtt");
  for (std::uint32_t length = 60; length <= kMaxFrame; length += (length < 140 ? 1 : 401)) {
    if (length + 401 > kMaxFrame) length = kMaxFrame;
    const auto body = noise(length - link::kFrameHeader, length);
    Buffer* packet = packet_of(pool_, body);
    const auto frame = frame_of(packet, 0x21);
    ASSERT_TRUE(port_->send(frame));
    port_->flush();
    ASSERT_EQ(host.receive(), wire(frame, body)) << length;
    give_back(packet);
    const auto bytes = frame_to(kOurs, {0x88, 0xB5}, length, length);
    host.send(bytes);
    Buffer* buffer = arrived(*port_);
    ASSERT_NE(buffer, nullptr);
    ASSERT_EQ(content(*buffer), bytes) << length;
    give_back(buffer);
  }
}

TEST_F(Tap, OnlyWhatIsOursComes) {
  Host host("mtt");
  Mac other = kOurs;
  other[5] ^= std::byte{1};
  host.send(frame_to(kOurs, {0x08, 0x00}, 100, 1));
  host.send(frame_to(kOurs, {0x81, 0x00, 0, 5, 0x86, 0xDD}, 100, 2));
  host.send(frame_to(other, {0x88, 0xB5}, 100, 3));
  const auto tagged = frame_to(kOurs, {0x81, 0x00, 0, 5, 0x88, 0xB5}, 100, 4);
  const auto to_all = frame_to(link::kUnknownPeer, {0x88, 0xB5}, 100, 5);
  host.send(tagged);
  host.send(to_all);
  for (const auto& expected : {tagged, to_all}) {
    Buffer* buffer = arrived(*port_);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(content(*buffer), expected);
    give_back(buffer);
  }
  EXPECT_EQ(arrived(*port_, 50), nullptr);
}

TEST_F(Tap, LongerFramesAreRefusedAndCounted) {
  Buffer* packet = packet_of(pool_, noise(kMaxFrame + 1 - link::kFrameHeader, 4));
  EXPECT_FALSE(port_->send(frame_of(packet, 0x23)));
  EXPECT_EQ(port_->counters().drops.get(Drop::kTooLong), 1u);
  give_back(packet);
  run("ip link set mtt mtu 9100");
  Host host("mtt");
  host.send(frame_to(kOurs, {0x88, 0xB5}, kMaxFrame + 5, 1));
  std::array<Buffer*, 1> out{};
  while (port_->counters().drops.get(Drop::kTooLong) < 2) ASSERT_EQ(port_->receive(out), 0u);
}

TEST_F(Tap, CarrierAndMtuFollowTheInterface) {
  run("ip link set mtt down");
  port_->follow_interface(*query_interface("mtt"));
  EXPECT_FALSE(port_->carrier());
  EXPECT_EQ(port_->room(), 0u);
  Buffer* packet = packet_of(pool_, noise(100, 1));
  EXPECT_FALSE(port_->send(frame_of(packet, 1)));
  EXPECT_EQ(port_->counters().drops.get(Drop::kNotSent), 1u);
  give_back(packet);
  run("ip link set mtt up mtu 1400");
  port_->follow_interface(*query_interface("mtt"));
  EXPECT_TRUE(port_->carrier());
  EXPECT_NE(port_->fault().find("ip link set mtt mtu 9016"), std::string::npos) << port_->fault();
}

TEST_F(Tap, ADeletedInterfaceIsGoneAndIsMadeAnew) {
  run("ip link del mtt");
  port_->follow_interface(*query_interface("mtt"));
  EXPECT_TRUE(port_->gone());
  EXPECT_FALSE(port_->carrier());
  EXPECT_NE(port_->fault().find("mtt is gone"), std::string::npos);
  std::array<Buffer*, 1> out{};
  EXPECT_EQ(port_->receive(out), 0u);
  port_.reset();
  port_ = open(config("mtt"));
  ASSERT_NE(port_, nullptr);
  EXPECT_TRUE(port_->carrier());
}

TEST_F(Tap, RefusesByName) {
  EXPECT_NE(refusal(config("mtt")).find("mtt is used by another program"), std::string::npos)
      << refusal(config("mtt"));
  run("ip link add mtv type veth peer name mtw; ip link set mtv up mtu 9016");
  EXPECT_NE(refusal(config("mtv")).find("mtv exists and is no TAP interface"), std::string::npos)
      << refusal(config("mtv"));
  run("ip link del mtv");
  run("ip tuntap add dev mtm mode tap multi_queue; ip link set mtm up mtu 9016");
  EXPECT_NE(refusal(config("mtm")).find("multi_queue"), std::string::npos)
      << refusal(config("mtm"));
  run("ip link del mtm");
  EXPECT_NE(refusal(config("a,b")).find("is not a name that can be used"), std::string::npos);
  EXPECT_NE(refusal(config("mt%d")).find("is not a name that can be used"), std::string::npos);
}

/// What a command says.
std::string said(const std::string& command) {
  std::string out;
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
  ::pclose(pipe);
  return out;
}

// The kernel numbers interfaces one after another, and counts how often one got and lost carrier.
TEST_F(Tap, PlanningOnlyLooks) {
  run("ip tuntap add dev first mode tap");
  EXPECT_EQ(refusal(config("mtnew")), "");
  run("ip tuntap add dev second mode tap");
  EXPECT_EQ(query_interface("second")->index, query_interface("first")->index + 1)
      << "an interface was made in between";
  run("ip tuntap add dev mtp mode tap; ip link set mtp up mtu 9016");
  const std::string changes = "ip -j -s -s link show mtp | grep -o 'carrier_changes\":[0-9]*'";
  const std::string before = said(changes);
  ASSERT_NE(before, "");
  EXPECT_EQ(refusal(config("mtp")), "");
  EXPECT_EQ(said(changes), before);
  run("ip link del mtp; ip link del first; ip link del second");
}

// As a user who may not administer the network: in a process of its own, which has no way back.
TEST_F(Tap, WithoutTheCapabilityOnlyAnInterfaceMadeForTheUserWillDo) {
  run("ip tuntap add dev mta mode tap; ip link set mta up mtu 9016");  // anybody's
  run("ip tuntap add dev mty mode tap user 4711; ip link set mty up mtu 9016");
  run("ip tuntap add dev mtg mode tap group 4712; ip link set mtg up mtu 9016");
  run("ip tuntap add dev mto mode tap user 4713; ip link set mto up mtu 9016");
  const std::string needs = "CAP_NET_ADMIN";
  EXPECT_EXIT(
      {
        const gid_t group = 4712;
        if (::setgroups(1, &group) != 0 || ::setgid(4711) != 0 || ::setuid(4711) != 0) ::_exit(2);
        const bool all = refusal(config("mtnew")).find(needs) != std::string::npos &&
                         refusal(config("mto")).find(needs) != std::string::npos &&
                         refusal(config("mta")).empty() && refusal(config("mty")).empty() &&
                         refusal(config("mtg")).empty();
        ::_exit(all ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  for (const char* name : {"mta", "mty", "mtg", "mto"}) run(std::string("ip link del ") + name);
}

TEST_F(Tap, AnOperatorsInterfaceIsUsedAsItIsAndStays) {
  run("ip tuntap add dev mtp mode tap");
  EXPECT_NE(refusal(config("mtp")).find("mtp is down: `ip link set mtp up`"), std::string::npos);
  run("ip link set mtp up");
  EXPECT_NE(refusal(config("mtp")).find("MTU of 1500, which is too small"), std::string::npos);
  run("ip link set mtp mtu 9016");
  auto port = open(config("mtp"));
  ASSERT_NE(port, nullptr);
  EXPECT_TRUE(port->carrier());
  port.reset();
  EXPECT_TRUE(query_interface("mtp")->exists);
  // Its next user gets what the host sends, also what the port does not take.
  const Fd next(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ifreq request{};
  std::strcpy(request.ifr_name, "mtp");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  ASSERT_EQ(::ioctl(next.get(), TUNSETIFF, &request), 0) << std::strerror(errno);
  run("sysctl -qw net.ipv6.conf.mtp.disable_ipv6=1");
  Host host("mtp");
  const auto ipv4 = frame_to(kOurs, {0x08, 0x00}, 100, 1);
  host.send(ipv4);
  std::vector<std::byte> bytes(200);
  for (;;) {
    pollfd wait{next.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&wait, 1, 10'000), 1) << "a filter is left on it";
    const ssize_t got = ::read(next.get(), bytes.data(), bytes.size());
    if (got == 100 && std::equal(ipv4.begin(), ipv4.end(), bytes.begin())) break;
  }
  run("ip link del mtp");
}

}  // namespace
}  // namespace mtl::phy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mtl::phy::test::enter_own_namespace();
  return RUN_ALL_TESTS();
}
