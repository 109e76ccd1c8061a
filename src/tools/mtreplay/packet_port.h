#pragma once

#include <pcap/pcap.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace mtl::tools {

/// Now, by CLOCK_MONOTONIC.
Time steady_now();

/// The Ethernet frames of one EtherType on a Linux interface, tagged ones with their 802.1Q tag, by
/// libpcap: CAP_NET_RAW, and nothing else.
class PacketPort {
 public:
  /// Opens `interface`, which must be up, promiscuously. The Error names the interface and the
  /// remedy.
  static Result<PacketPort> open(const std::string& interface, std::uint16_t ether_type);

  const std::string& interface() const { return interface_; }
  int fd() const { return ::pcap_get_selectable_fd(pcap_.get()); }
  /// The longest frame that the interface takes now, with its Ethernet header.
  Result<std::size_t> longest_frame() const;

  /// The Error: it is down, has no carrier, or, if `kept`, had none since it was last looked at.
  Result<void> check_carrier(bool kept);

  /// Sends a whole frame, without FCS; it has left when this returns.
  Result<void> send(std::span<const std::byte> frame);

  /// Forgets what has come until now, and what was lost.
  Result<void> discard();

  struct Frame {
    Time at;  ///< when the kernel got it, by steady_now()
    std::vector<std::byte> bytes;
  };
  /// The next frame that came in, never one of our own; nullopt: none is there. What the kernel had
  /// no room for since discard() is an Error.
  Result<std::optional<Frame>> receive();

 private:
  struct Close {
    void operator()(pcap_t* pcap) const { ::pcap_close(pcap); }
  };
  PacketPort(pcap_t* pcap, std::string interface, std::uint16_t ether_type)
      : pcap_(pcap), interface_(std::move(interface)), ether_type_(ether_type) {}
  Error fault(const std::string& what) const;
  bool filter();
  unsigned lost() const;

  std::unique_ptr<pcap_t, Close> pcap_;
  std::string interface_;
  std::uint16_t ether_type_;
  std::uint64_t carrier_changes_ = 0;  ///< when it was last looked at
  unsigned lost_ = 0;  ///< frames that the kernel had no room for, told or forgotten
};

}  // namespace mtl::tools
