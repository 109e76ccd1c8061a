#pragma once

#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/ids.h"
#include "base/result.h"

namespace mtl::phy {

/// The program that the kernel runs on each frame that an interface receives: those of our
/// EtherType, without or with one 802.1Q tag, that are for this station (or for a group) go to the
/// AF_XDP socket of queue 0; every other frame goes on to the host, as if the program were not
/// there.
///
/// The kernel takes it off the interface when the object goes, or the process, however that ends.
/// Control thread.
class XdpProgram {
 public:
  /// Hands the program to the kernel, on no interface yet. Errors: missing capabilities (they are
  /// named), a kernel that refuses.
  static Result<XdpProgram> load(std::uint16_t ether_type, const std::vector<Mac>& macs);

  /// Puts it on an interface. The error is an errno: EBUSY: another program is there.
  int attach(int interface_index);

  /// The XSKMAP in which a socket is put under its queue's number.
  int map() const { return map_.get(); }

 private:
  Fd map_;
  Fd program_;
  Fd link_;
};

/// What AF_XDP needs, for messages: "the capabilities CAP_NET_RAW, ...".
extern const char* const kAfXdpCapabilities;

}  // namespace mtl::phy
