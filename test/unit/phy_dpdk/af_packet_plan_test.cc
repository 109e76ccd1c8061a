// What is refused before anything starts, and how the rings are sized. No EAL.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>

#include "phy/dpdk/af_packet.h"
#include "support.h"

namespace mtl::phy {
namespace {

using test::run;

TEST(PlanRings, BlocksAreWholePagesAndWholeFrames) {
  for (std::uint32_t max_frame = 60; max_frame < 65000; max_frame += 37) {
    for (const std::uint32_t frames : {16u, 1024u, 65536u}) {
      const RingPlan plan = plan_rings(max_frame, frames);
      // The kernel: TPACKET_ALIGN(frame), PAGE_ALIGN(block), frames = blocks x frames per block.
      // The driver: the ring is one array of frames, so a block is a whole number of them.
      ASSERT_EQ(plan.frame_size % 16, 0u);
      ASSERT_EQ(plan.block_size % 4096, 0u) << max_frame;
      ASSERT_EQ(plan.block_size % plan.frame_size, 0u) << max_frame;
      ASSERT_GE(plan.frames, frames);
      ASSERT_EQ(plan.frames % (plan.block_size / plan.frame_size), 0u);
      // 66 bytes of the kernel's before the frame (if_packet.h, version 2: 32 + 20 + 16 up to 16,
      // less 14), and the frame behind them.
      ASSERT_GE(plan.frame_size, max_frame + 66);
      // The driver wants the ring frame without its 32 bytes in a buffer.
      ASSERT_EQ(plan.pool_room(), plan.frame_size - 32);
      ASSERT_LE(plan.pool_room(), max_frame + 4200);
    }
  }
}

TEST(PlanRings, WastesLittleOfThePowersOfTwoThatTheKernelAllocates) {
  for (const std::uint32_t max_frame : {1514u, 4126u, 9014u, 9030u}) {
    const RingPlan plan = plan_rings(max_frame, 1024);
    const std::uint64_t needed = 2ull * plan.frames * (max_frame + 66);
    EXPECT_LE(plan.memory(), needed * 3 / 2) << max_frame;
  }
}

class Plan : public ::testing::Test {
 protected:
  void SetUp() override {
    run("ip link add mtla type veth peer name mtlb; ip link set mtla up; ip link set mtlb up");
  }
  void TearDown() override { run("ip link del mtla"); }

  static std::string refusal(const AfPacketConfig& config) {
    const auto plan = plan_af_packet(config);
    EXPECT_FALSE(plan);
    return plan ? "" : plan.error().message;
  }
};

TEST_F(Plan, TakesTheLongestFrameFromTheMtu) {
  run("ip link set mtla mtu 4000");
  auto plan = plan_af_packet({.interface = "mtla"});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->max_frame, 4014u);
  plan = plan_af_packet({.interface = "mtla", .max_frame = 1000});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->max_frame, 1000u);
}

TEST_F(Plan, MissingInterfaceIsNamedWithThoseThatExist) {
  const auto text = refusal({.interface = "mtlx"});
  EXPECT_NE(text.find("interface mtlx does not exist"), std::string::npos) << text;
  EXPECT_NE(text.find("mtla"), std::string::npos) << text;
}

TEST_F(Plan, InterfaceThatIsDownIsNamedWithTheCommand) {
  run("ip link set mtla down");
  EXPECT_NE(refusal({.interface = "mtla"}).find("`ip link set mtla up`"), std::string::npos);
}

TEST_F(Plan, MtuTooSmallForTheLinkIsNamedWithTheCommand) {
  const auto text = refusal({.interface = "mtla", .max_frame = 9030});
  EXPECT_NE(text.find("MTU of 1500"), std::string::npos) << text;
  EXPECT_NE(text.find("`ip link set mtla mtu 9016`"), std::string::npos) << text;
  // No link mtu at all fits (L6: at least 64, behind 16 of link header).
  run("ip link set mtla mtu 79");
  EXPECT_NE(refusal({.interface = "mtla"}).find("mtu 80`"), std::string::npos);
  run("ip link set mtla mtu 80");
  EXPECT_TRUE(plan_af_packet({.interface = "mtla"}));
}

TEST_F(Plan, WhatIsNoEthernetIsRefused) {
  run("ip link set lo up");
  EXPECT_NE(refusal({.interface = "lo"}).find("no Ethernet"), std::string::npos);
}

TEST_F(Plan, NamesThatWouldChangeTheDevargsAreRefused) {
  for (const char* name : {"", "a,framecnt=1", "a b", "a-name-of-16-long"})
    EXPECT_NE(refusal({.interface = name}).find("name"), std::string::npos) << name;
}

TEST_F(Plan, RingsOfNoUseAreRefused) {
  EXPECT_NE(refusal({.interface = "mtla", .frames = 15}).find("16"), std::string::npos);
  EXPECT_NE(refusal({.interface = "mtla", .frames = 65537}).find("65536"), std::string::npos);
}

TEST_F(Plan, MissingCapabilityIsNamed) {
  std::array<int, 2> pipe_fds{};
  ASSERT_EQ(::pipe(pipe_fds.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // In the child alone: everything but CAP_NET_RAW.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    ::syscall(SYS_capget, &header, data.data());
    data[0].effective &= ~(1u << CAP_NET_RAW);
    data[0].permitted &= ~(1u << CAP_NET_RAW);
    if (::syscall(SYS_capset, &header, data.data()) != 0) ::_exit(2);
    const auto plan = plan_af_packet({.interface = "mtla"});
    const std::string text = plan ? "opened" : plan.error().message;
    ::_exit(::write(pipe_fds[1], text.data(), text.size()) < 0 ? 3 : 0);
  }
  ::close(pipe_fds[1]);
  std::array<char, 1024> text{};
  const ssize_t got = ::read(pipe_fds[0], text.data(), text.size());
  ::close(pipe_fds[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const std::string message(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  EXPECT_NE(message.find("CAP_NET_RAW"), std::string::npos) << message;
  EXPECT_NE(message.find("setcap"), std::string::npos) << message;
}

}  // namespace
}  // namespace mtl::phy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mtl::phy::test::enter_own_namespace();
  return RUN_ALL_TESTS();
}
