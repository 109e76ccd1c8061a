#include "phy/dpdk/pci_device.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>
#include <string_view>

namespace mtl::phy {
namespace {

/// The kernel's drivers whose devices DPDK uses beside them (bifurcated).
constexpr std::array<std::string_view, 3> kBeside{"mlx5_core", "mlx4_core", "mana"};
/// Those that hand a device out.
constexpr std::array<std::string_view, 3> kHandedOut{"vfio-pci", "uio_pci_generic", "igb_uio"};

/// The full address; empty if devargs name no PCI device.
std::string address_of(const std::string& devargs) {
  static const std::regex kAddress(
      R"(^(?:pci:)?(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])(?:,.*)?$)");
  std::smatch match;
  if (!std::regex_match(devargs, match, kAddress)) return {};
  std::string address = (match[1].matched ? match[1].str() : "0000") + ":" + match[2].str();
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return address;
}

/// The last part of what a link in /sys leads to; empty if there is none.
std::string target_of(const std::filesystem::path& link) {
  std::error_code none;
  return std::filesystem::read_symlink(link, none).filename().string();
}

template <class List>
bool among(const List& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

bool is_pci_device(const std::string& devargs) {
  return !address_of(devargs).empty();
}

Result<void> check_pci_device(const std::string& devargs, const std::string& pci) {
  const std::string address = address_of(devargs);
  if (address.empty()) return {};
  const auto wrong = [&address](const std::string& what) {
    return Error{"PCI device " + address + " " + what};
  };
  const std::filesystem::path device = std::filesystem::path(pci) / address;
  std::error_code ignored;
  if (!std::filesystem::exists(device, ignored))
    return wrong("does not exist: `lspci -D` lists those that do");
  const std::string driver = target_of(device / "driver");
  if (among(kBeside, driver)) return {};
  const std::string bind = "`dpdk-devbind.py --bind=vfio-pci " + address + "`";
  if (driver.empty())
    return wrong("is bound to no driver: " + bind + " gives it to DPDK (docs/devices/nic.md)");
  if (!among(kHandedOut, driver))
    return wrong("is bound to the kernel's driver " + driver + ": " + bind +
                 " gives it to DPDK, and takes its interface from the host "
                 "(docs/devices/nic.md)");
  const std::string group = target_of(device / "iommu_group");
  if (driver != "vfio-pci" || group.empty()) return {};
  const std::string file = "/dev/vfio/" + group;
  if (::access(file.c_str(), R_OK | W_OK) == 0) return {};
  return wrong("cannot be used: " + file + " (" + std::strerror(errno) +
               "): give it to this user (`chown`, or a udev rule), or run as root");
}

}  // namespace mtl::phy
