#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/buffer.h"
#include "base/counter.h"
#include "base/drop.h"
#include "link/frame_out.h"

namespace mtl::phy {

/// What a port's medium is known to do, shown to the operator at start.
struct PortTraits {
  std::string driver;           ///< "local", "net_af_packet", ...
  std::string device;           ///< interface or slot
  std::uint32_t max_frame = 0;  ///< longest untagged Ethernet frame that passes, bytes
  bool lossy = true;            ///< frames may vanish without a count
  bool knows_carrier = false;   ///< carrier() follows the medium
  int wake_fd = -1;             ///< readable when a frame may be waiting after arm(); -1: poll
};

struct PortCounters {
  Counter frames_in, frames_out, bytes_in, bytes_out;
  Counter send_full;   ///< times that the medium had no room
  DropCounters drops;  ///< DropLayer::kPhy only
};

/// Where the frames of one link enter and leave. Not thread safe: one worker, except where said.
///
/// A link's frames are given and taken untagged; a port on an 802.1Q VLAN is one of those that
/// share a device (SharedDevice), which adds and strips the tag.
class Port {
 public:
  virtual ~Port() = default;

  /// Takes up to out.size() frames that have arrived, data at the Ethernet header; the caller owns
  /// them. Never waits.
  virtual unsigned receive(std::span<Buffer*> out) = 0;

  /// Said shortly before receive(): fetches into this core's cache what that looks at first, where
  /// another core writes it. Changes nothing.
  virtual void prefetch() const {}

  /// Frames that send() will take now, at least; 0: no room. Lets the link make a frame only when
  /// it can leave (L26).
  virtual unsigned room() = 0;

  /// Sends one frame; only after room() said so. The port copies or references frame.packet before
  /// it returns. False: the medium refused it after all, counted (the link repairs that as a loss).
  virtual bool send(const link::FrameOut& frame) = 0;

  /// Pushes out what send() gathered. Called once a burst.
  virtual void flush() = 0;

  /// Whether the medium has carrier. Cheap; may be called each burst.
  virtual bool carrier() = 0;

  /// Before the worker sleeps: asks for wake_fd to become readable when a frame arrives. False if
  /// frames are waiting already (do not sleep). After waking, disarm().
  virtual bool arm() { return true; }
  virtual void disarm() {}

  const PortTraits& traits() const { return traits_; }
  const PortCounters& counters() const { return counters_; }
  /// Where it is counted why send() refused a frame; of a port that shares its device: there.
  virtual const DropCounters& refusals() const { return counters_.drops; }

 protected:
  PortTraits traits_;
  PortCounters counters_;
};

}  // namespace mtl::phy
