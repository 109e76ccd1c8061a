// The interface monitor against the kernel, in a network namespace of its own.
#include "phy/dpdk/carrier.h"

#include <gtest/gtest.h>
#include <poll.h>

#include "support.h"

namespace mtl::phy {
namespace {

using test::run;

class CarrierMonitorTest : public ::testing::Test {
 protected:
  void SetUp() override { open(0); }
  void TearDown() override {
    monitor_.reset();
    (void)!std::system("ip link del mtla 2>/dev/null; ip link del mtlren 2>/dev/null");
  }

  void open(int receive_buffer) {
    auto monitor = CarrierMonitor::open(
        [this](const InterfaceState& state) { reports_.push_back(state); }, receive_buffer);
    ASSERT_TRUE(monitor) << monitor.error().message;
    monitor_ = std::move(*monitor);
  }

  /// Drives the monitor as an event loop does until `done` or nothing comes for long.
  template <class Condition>
  bool until(Condition done) {
    while (!done()) {
      pollfd wait{monitor_->fd(), POLLIN, 0};
      if (::poll(&wait, 1, 10'000) != 1) return false;
      const auto processed = monitor_->process();
      EXPECT_TRUE(processed) << processed.error().message;
    }
    return true;
  }
  const InterfaceState& last() const { return reports_.back(); }

  std::vector<InterfaceState> reports_;
  std::unique_ptr<CarrierMonitor> monitor_;
};

TEST_F(CarrierMonitorTest, TellsFirstWhatIsThere) {
  run("ip link add mtla address 02:00:00:00:00:0a mtu 3000 type veth peer name mtlb");
  run("ip link set mtla up");
  open(0);  // what was told until now is not its source
  monitor_->watch("mtla");
  monitor_->watch("mtlnone");
  ASSERT_TRUE(until([&] { return reports_.size() >= 2; }));
  EXPECT_EQ(reports_[0].name, "mtla");
  EXPECT_TRUE(reports_[0].exists);
  EXPECT_TRUE(reports_[0].ethernet);
  EXPECT_TRUE(reports_[0].admin_up);
  EXPECT_FALSE(reports_[0].lower_up) << "the other end is down";
  EXPECT_EQ(reports_[0].mtu, 3000u);
  EXPECT_EQ(reports_[0].mac, (Mac{std::byte{2}, {}, {}, {}, {}, std::byte{10}}));
  EXPECT_EQ(reports_[1].name, "mtlnone");
  EXPECT_FALSE(reports_[1].exists);
  EXPECT_FALSE(reports_[1].carrier());
}

TEST_F(CarrierMonitorTest, SeesCarrierMtuAndAdminChanges) {
  run("ip link add mtla type veth peer name mtlb");
  monitor_->watch("mtla");
  ASSERT_TRUE(until([&] { return !reports_.empty(); }));
  EXPECT_FALSE(last().admin_up);
  run("ip link set mtla up; ip link set mtlb up");
  ASSERT_TRUE(until([&] { return last().carrier(); }));
  run("ip link set mtlb down");
  ASSERT_TRUE(until([&] { return !last().carrier(); }));
  EXPECT_TRUE(last().admin_up);
  run("ip link set mtlb up");
  ASSERT_TRUE(until([&] { return last().carrier(); }));
  run("ip link set mtla mtu 9000");
  ASSERT_TRUE(until([&] { return last().mtu == 9000; }));
  run("ip link set mtla down");
  ASSERT_TRUE(until([&] { return !last().admin_up; }));
  EXPECT_FALSE(last().carrier());
  EXPECT_TRUE(last().exists);
}

TEST_F(CarrierMonitorTest, SeesDeletionAndAnotherInterfaceOfTheSameName) {
  run("ip link add mtla type veth peer name mtlb");
  monitor_->watch("mtla");
  ASSERT_TRUE(until([&] { return !reports_.empty(); }));
  const int index = last().index;
  run("ip link del mtla");
  ASSERT_TRUE(until([&] { return !last().exists; }));
  EXPECT_EQ(last().name, "mtla");
  run("ip link add mtla type veth peer name mtlb");
  ASSERT_TRUE(until([&] { return last().exists; }));
  EXPECT_NE(last().index, index);
}

TEST_F(CarrierMonitorTest, InterfaceThatIsRenamedAwayNoLongerExists) {
  run("ip link add mtla type veth peer name mtlb");
  monitor_->watch("mtla");
  ASSERT_TRUE(until([&] { return !reports_.empty(); }));
  run("ip link set mtla name mtlren");
  ASSERT_TRUE(until([&] { return !last().exists; }));
  EXPECT_EQ(last().name, "mtla");
}

TEST_F(CarrierMonitorTest, LeavingABridgeIsNotDeletion) {
  run("ip link add mtla type veth peer name mtlb; ip link add mtlbr type bridge");
  run("ip link set mtla up; ip link set mtlb up");
  monitor_->watch("mtla");
  ASSERT_TRUE(until([&] { return !reports_.empty() && last().carrier(); }));
  reports_.clear();
  run("ip link set mtla master mtlbr; ip link set mtla nomaster; ip link del mtlbr");
  run("ip link set mtla mtu 1400");  // marks the end
  ASSERT_TRUE(until([&] { return !reports_.empty() && last().mtu == 1400; }));
  for (const auto& state : reports_) EXPECT_TRUE(state.exists);
}

TEST_F(CarrierMonitorTest, ChangesOfOthersAreNotReported) {
  run("ip link add mtla type veth peer name mtlb");
  monitor_->watch("mtla");
  ASSERT_TRUE(until([&] { return !reports_.empty(); }));
  const auto before = reports_.size();
  run("ip link set mtlb mtu 1300; ip link set mtlb mtu 1200; ip link set mtla mtu 1000");
  ASSERT_TRUE(until([&] { return last().mtu == 1000; }));
  EXPECT_EQ(reports_.size(), before + 1);
}

TEST_F(CarrierMonitorTest, AsksAgainWhenTheKernelHadToDropMessages) {
  run("ip link add mtla mtu 1500 type veth peer name mtlb");
  open(1);  // the kernel makes this its smallest buffer
  monitor_->watch("mtla");
  ASSERT_TRUE(until([&] { return !reports_.empty(); }));
  run("for i in $(seq 60); do echo link set mtla mtu $((1000 + i)); done | ip -batch -");
  run("ip link del mtla");
  ASSERT_TRUE(until([&] { return !last().exists; }));
  EXPECT_GE(monitor_->overflows(), 1u);
}

TEST_F(CarrierMonitorTest, UnwatchedInterfacesAreForgotten) {
  run("ip link add mtla type veth peer name mtlb");
  monitor_->watch("mtla");
  monitor_->watch("mtlb");
  ASSERT_TRUE(until([&] { return reports_.size() >= 2; }));
  monitor_->unwatch("mtla");
  reports_.clear();
  run("ip link set mtla mtu 1000; ip link set mtlb mtu 1000");
  ASSERT_TRUE(until([&] { return !reports_.empty(); }));
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(last().name, "mtlb");
}

TEST_F(CarrierMonitorTest, QueryAnswersAtOnce) {
  run("ip link add mtla mtu 2222 address 02:00:00:00:00:0b type veth peer name mtlb");
  const auto there = query_interface("mtla");
  ASSERT_TRUE(there) << there.error().message;
  EXPECT_TRUE(there->exists);
  EXPECT_FALSE(there->admin_up);
  EXPECT_EQ(there->mtu, 2222u);
  EXPECT_EQ(there->mac[5], std::byte{11});
  for (const char* name : {"mtlnone", "", "a-name-longer-than-the-kernel-allows"}) {
    const auto missing = query_interface(name);
    ASSERT_TRUE(missing) << missing.error().message;
    EXPECT_FALSE(missing->exists) << name;
  }
  const auto loopback = query_interface("lo");
  ASSERT_TRUE(loopback);
  EXPECT_FALSE(loopback->ethernet);
}

}  // namespace
}  // namespace mtl::phy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mtl::phy::test::enter_own_namespace();
  return RUN_ALL_TESTS();
}
