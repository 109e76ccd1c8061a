#pragma once

#include <chrono>
#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "network/packet.h"

namespace mtl::transport {

/// Section 5's table, what is local of it. The defaults are the protocol page's.
struct Timers {
  Duration open_interval = std::chrono::milliseconds(10);
  Duration open_interval_max = std::chrono::milliseconds(640);
  Duration open_timeout = std::chrono::seconds(5);
  std::uint32_t ack_every = 8;
  Duration ack_delay = std::chrono::microseconds(50);
  Duration rto_first = std::chrono::milliseconds(10);
  Duration rto_min = std::chrono::milliseconds(1);
  Duration rto_max = std::chrono::milliseconds(100);
  Duration idle_interval = std::chrono::seconds(1);
  Duration peer_timeout = std::chrono::seconds(5);
  Duration rtt_target{0};  ///< T24; 0: off
};

/// What the transport of a node is. Everything that is allocated follows from it.
struct Settings {
  NodeId node;
  std::uint8_t hop_limit = network::kDefaultHopLimit;

  // Told to peers.
  std::uint16_t mtu = 4096;        ///< longest packet that the node can receive, 128 and up
  std::uint8_t window = 8;         ///< log2 of packets, to 10
  std::uint16_t reads = 64;        ///< that a peer may have outstanding
  std::uint32_t messages = 64;     ///< that a peer may send before any is received (T33)
  std::uint32_t eager = 16 << 10;  ///< longest message that comes without being asked for

  // Of our own.
  Timers timers;
  std::uint8_t send_window = 8;  ///< log2 of packets of a flow of ours, whatever more a peer allows
  std::uint32_t cwnd_first = 16;  ///< T22, 1 and up
  std::uint32_t spray =
      1;  ///< values of entropy that the new packets of a flow take in turn, 1 and up
  std::uint32_t connections = 64;         ///< at most, those being opened or closed included
  std::uint32_t request_packets = 1024;   ///< DATA of request flows in the air, of all connections
  std::uint32_t response_packets = 1024;  ///< of response flows
  std::uint32_t packet_blocks = 256;      ///< of either kind with room for many small operations
  std::uint32_t held_packets = 256;       ///< requests held because they came early
};

/// What is wrong with `settings`, or nullptr: names the field and its range.
const char* fault(const Settings& settings);

}  // namespace mtl::transport
