// What /sys says of a PCI device, in a directory made like it.
#include "phy/dpdk/pci_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace mtl::phy {
namespace {

namespace fs = std::filesystem;

class PciDevice : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(device()); }
  void TearDown() override { fs::remove_all(root_); }

  fs::path device() const { return root_ / "devices" / "0000:03:00.1"; }
  void bind(const std::string& driver) {
    fs::create_directories(root_ / "drivers" / driver);
    fs::remove(device() / "driver");
    fs::create_directory_symlink(root_ / "drivers" / driver, device() / "driver");
  }
  std::string said(const std::string& devargs) const {
    const auto checked = check_pci_device(devargs, (root_ / "devices").string());
    return checked ? "" : checked.error().message;
  }
  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  fs::path root_ = fs::temp_directory_path() / ("mtl-pci-" + std::to_string(::getpid()));
};

TEST_F(PciDevice, OnlyAddressesAreLookedAt) {
  for (const char* devargs :
       {"net_null0", "net_bonding0,slave=0000:09:00.0", "0000:03", "x:03:00.1"}) {
    EXPECT_FALSE(is_pci_device(devargs)) << devargs;
    EXPECT_EQ(said(devargs), "") << devargs;
  }
  for (const char* devargs :
       {"0000:03:00.1", "03:00.1", "0000:03:00.1,option=1", "pci:0000:03:00.1"}) {
    EXPECT_TRUE(is_pci_device(devargs)) << devargs;
    expect_in("PCI device 0000:03:00.1 is bound to no driver", said(devargs));
  }
}

TEST_F(PciDevice, OneThatIsNotThere) {
  expect_in("PCI device 0000:0a:00.0 does not exist: `lspci -D`", said("0000:0A:00.0"));
}

TEST_F(PciDevice, TheKernelsDriverIsNamedWithTheRemedy) {
  bind("ixgbe");
  expect_in("bound to the kernel's driver ixgbe", said("03:00.1"));
  expect_in("`dpdk-devbind.py --bind=vfio-pci 0000:03:00.1`", said("03:00.1"));
}

TEST_F(PciDevice, DriversThatShareTheDeviceOrGiveItAwayWillDo) {
  for (const char* driver : {"mlx5_core", "uio_pci_generic", "igb_uio", "vfio-pci"}) {
    bind(driver);
    EXPECT_EQ(said("0000:03:00.1"), "") << driver;
  }
}

TEST_F(PciDevice, AGroupThatCannotBeOpened) {
  bind("vfio-pci");
  // No machine has as many groups.
  fs::create_directories(root_ / "iommu_groups" / "987654321");
  fs::create_directory_symlink(root_ / "iommu_groups" / "987654321", device() / "iommu_group");
  expect_in("/dev/vfio/987654321", said("0000:03:00.1"));
}

}  // namespace
}  // namespace mtl::phy
