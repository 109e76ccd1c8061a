#pragma once

#include <string>

#include "base/result.h"

namespace mtl::phy {

/// If `devargs` name a device by its PCI address ("0000:03:00.0", "03:00.0,opt=1"): whether DPDK
/// can have it. Errors, each with the remedy: no such device, bound to a driver of the kernel's or
/// to none, a VFIO group that this user may not open. `pci`: where the kernel shows its devices.
Result<void> check_pci_device(const std::string& devargs,
                              const std::string& pci = "/sys/bus/pci/devices");

/// Whether it is a PCI address that names the device.
bool is_pci_device(const std::string& devargs);

}  // namespace mtl::phy
