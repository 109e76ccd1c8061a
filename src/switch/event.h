#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/time.h"
#include "link/link.h"
#include "network/packet.h"
#include "runtime/spsc_ring.h"

namespace mtl::switchd {

/// What a worker tells the control thread, by a ring: it writes no log line and answers no caller.
struct Event {
  enum class Kind : std::uint8_t {
    kLink,       ///< a link changed its state
    kEchoReply,  ///< a reply for this node: from, id, number
    kEchoError,  ///< an error for this node about an echo request of ours: from, echo, id, number
  };
  Kind kind = Kind::kLink;
  Time at{};

  // kLink
  PortId port;
  link::State state = link::State::kDown;
  link::State before = link::State::kDown;
  link::DownReason reason = link::DownReason::kNone;
  NodeId peer_node;
  PortId peer_port;

  // kEchoReply, kEchoError
  network::EchoType echo = network::EchoType::kReply;
  NodeId from;
  std::uint16_t id = 0;      ///< of the request
  std::uint16_t number = 0;  ///< of the request
};

using EventRing = runtime::SpscRing<Event>;

}  // namespace mtl::switchd
