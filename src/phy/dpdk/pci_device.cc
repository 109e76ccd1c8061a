#include "phy/dpdk/pci_device.h"

#include <rte_pci.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace mtl::phy {
namespace {

/// The kernel's drivers whose devices DPDK uses beside them (bifurcated).
constexpr std::array<std::string_view, 3> kBeside{"mlx5_core", "mlx4_core", "mana"};
/// Those that hand a device out.
constexpr std::array<std::string_view, 3> kHandedOut{"vfio-pci", "uio_pci_generic", "igb_uio"};

/// The full address; empty if devargs name no PCI device.
std::string address_of(const std::string& devargs) {
  constexpr std::string_view kBus = "pci:";
  const std::size_t from = devargs.starts_with(kBus) ? kBus.size() : 0;
  const std::string name = devargs.substr(from, devargs.find(',') - from);
  rte_pci_addr address{};
  if (rte_pci_addr_parse(name.c_str(), &address) != 0) return {};
  std::array<char, PCI_PRI_STR_SIZE> text{};
  rte_pci_device_name(&address, text.data(), text.size());
  return text.data();
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
