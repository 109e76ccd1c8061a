#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/ids.h"
#include "link/frame_out.h"
#include "phy/port.h"

namespace mtl::phy {

/// One of the ports on a device: whose frames are its own (P3).
struct Share {
  std::optional<VlanId> vlan;  ///< frames with this tag; none: frames without
  std::optional<Mac> peer;     ///< frames from this source; none: from any

  /// "vlan 5, peer 02:00:00:00:00:01"; empty for what takes every frame without a tag.
  std::string text() const;
  /// Whether some frame would belong to both.
  bool meets(const Share& other) const;
};

/// Several ports on one Ethernet device (P3): sorts the frames that arrive by VLAN and source, and
/// adds and strips 802.1Q tags. A frame of our EtherType that is no port's is dropped, `foreign`,
/// in counters().
///
/// All ports belong to one worker and are attached and detached together. The first of them does
/// for the device what is done once a pass: in a pass it must come before the others (ShardLoop
/// goes by number). So many frames wait here at most: two bursts, whatever the number of ports.
class SharedDevice {
 public:
  /// `device` outlives it; no two of `shares` meet.
  SharedDevice(Port& device, std::uint16_t ether_type, const std::vector<Share>& shares);
  /// Gives back the frames that wait. No worker uses the ports any more.
  ~SharedDevice();
  SharedDevice(const SharedDevice&) = delete;
  SharedDevice& operator=(const SharedDevice&) = delete;

  /// The port of shares[i]; its counters are of its own frames.
  Port& port(std::size_t i);
  std::size_t size() const { return ports_.size(); }
  /// Drops alone: what no port has counted. Any thread may read it.
  const PortCounters& counters() const { return counters_; }

  static constexpr unsigned kBurst = 32;

 private:
  class SharePort;
  struct Key {
    std::uint64_t value;
    SharePort* port;
  };
  static constexpr std::uint64_t kAnySource = 0;  // no frame's: it is no address

  static std::uint64_t key(std::uint16_t vlan, std::uint64_t source);
  SharePort* find(std::uint64_t key) const;
  void take_in();
  void sort(Buffer* frame);

  Port& device_;
  std::uint16_t ether_type_;
  std::vector<std::unique_ptr<SharePort>> ports_;
  std::vector<Key> keys_;  ///< ascending
  unsigned waiting_ = 0;   ///< frames in the ports' queues
  PortCounters counters_;
  link::FrameOut tagged_;
};

}  // namespace mtl::phy
