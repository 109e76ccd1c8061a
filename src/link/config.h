#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "link/codec.h"

namespace mtl::link {

/// Section 3's table. `fast` is the protocol page's defaults.
struct Timers {
  Duration init_interval = std::chrono::milliseconds(10);
  Duration keepalive_interval = std::chrono::milliseconds(10);
  Duration dead_interval = std::chrono::milliseconds(50);
  std::uint16_t ack_every = 8;
  Duration ack_delay = std::chrono::microseconds(50);
  Duration replay_timeout = std::chrono::microseconds(500);
  std::uint32_t replay_limit = 100;
  Duration nack_interval = std::chrono::microseconds(250);
  Duration hold_down = std::chrono::milliseconds(100);
  /// L27: replay_timeout and nack_interval follow the measured round trip (twice it, plus its
  /// variation) between adaptive_min and adaptive_max; the values above then serve until the first
  /// sample. Off in traces.
  bool adaptive = false;
  Duration adaptive_min = std::chrono::milliseconds(1);
  Duration adaptive_max = std::chrono::milliseconds(20);
};

/// For peers that share CPUs and lose theirs for milliseconds: the default of the programs.
constexpr Timers lab_timers() {
  Timers t;
  t.init_interval = std::chrono::milliseconds(50);
  t.keepalive_interval = std::chrono::milliseconds(200);
  t.dead_interval = std::chrono::seconds(2);
  t.ack_delay = std::chrono::microseconds(200);
  t.replay_timeout = std::chrono::milliseconds(5);
  t.nack_interval = std::chrono::milliseconds(2);
  // Timeouts may be as short as 1 ms (L27): so many of them that dead_interval ends the link first.
  // A peer that has no CPU for a while is not to lose its links.
  t.replay_limit = 2000;
  t.adaptive = true;
  return t;
}

/// One end of a link as its owner configures it. What INIT tells (mtu, cell, window, capacity) must
/// keep L6's bounds: valid() says whether it does.
struct Config {
  NodeId node;
  PortId port;
  Mac mac{};
  std::optional<Mac> peer_mac;        ///< configured (P2), else learned
  std::optional<NodeId> expect_node;  ///< L6, `wrong_peer`
  std::optional<PortId> expect_port;
  std::uint16_t ether_type = kDefaultEtherType;
  std::uint16_t mtu = 4096;   ///< longest body, bytes, 64 and up
  std::uint16_t cell = 256;   ///< bytes that one credit pays for, not 0
  std::uint16_t window = 64;  ///< 1..16384 DATA frames unacknowledged towards us
  /// DATA frames that this side lets be unacknowledged, whatever more the peer's window allows:
  /// sizes the replay ring, 1..16384.
  std::uint16_t send_window = 1024;
  std::array<std::uint16_t, kVcs> capacity{16, 16, 16, 16,
                                           16, 16, 16, 16};  ///< cells; sum <= 32767
  /// N12: CE behind more cells of the peer's than so many bytes take; 0: never.
  std::uint32_t mark_bytes = 0;
  Timers timers;
};

/// What is wrong with `config`, or nullptr: names the field and its range.
const char* fault(const Config& config);

}  // namespace mtl::link
