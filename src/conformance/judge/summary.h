#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/ids.h"
#include "base/time.h"
#include "link/codec.h"

namespace mtl::conformance::judge {

/// Durations that were measured.
struct Spread {
  std::uint64_t samples = 0;
  Duration least{0};
  Duration most{0};
  Duration sum{0};
  void add(Duration sample);
  Duration mean() const;
};

/// What one side of a link sent, as seen at the tap.
struct SideSummary {
  Mac mac{};
  std::optional<NodeId> node;  ///< as its INITs say
  std::optional<PortId> port;
  std::array<std::uint64_t, link::kKinds> frames{};  ///< with a right header CRC, by kind
  std::uint64_t judged = 0;            ///< frames with a right header CRC, of any kind
  std::uint64_t bytes = 0;             ///< of all its frames, on the wire
  std::uint64_t packets = 0;           ///< DATA sent for the first time
  std::uint64_t packet_bytes = 0;      ///< their bodies
  std::uint64_t replays = 0;           ///< DATA with REPLAY
  std::uint64_t replays_by_timer = 0;  ///< of these, those that no NACK asked for
  std::uint64_t nacked = 0;            ///< seqs that this side listed as missing, each once
  std::uint64_t acked = 0;             ///< DATA of this side that the other acknowledged
  std::uint64_t polls = 0;             ///< STATUS with POLL: credit stalls (L21)
  std::uint64_t exhausted = 0;         ///< DATA that used the last credit told for its VC
  std::uint64_t bring_ups = 0;         ///< nonces seen in its INITs
  std::uint64_t closes = 0;
  std::uint64_t damaged = 0;          ///< frames with a wrong header CRC
  std::uint64_t damaged_packets = 0;  ///< DATA with a wrong packet CRC
  std::uint64_t cut = 0;              ///< captured too short to be judged
  std::uint64_t missed = 0;           ///< DATA sent that the capture does not have
  std::uint64_t copies = 0;           ///< frames that came twice
  std::uint64_t late = 0;             ///< frames that came behind later ones
  std::uint64_t strangers = 0;        ///< frames of a session that is not known
  std::uint64_t elsewhere = 0;        ///< frames seen on another interface of the capture, too
  Duration longest_silence{0};        ///< between two frames of one session
  Time first{};
  Time last{};
  /// From the tap to this side and back (L19): half of a round trip, of which the halves of both
  /// sides make the link's.
  Spread turn;
  Spread init_apart;    ///< INITs that repeat the one before (init_interval)
  Spread timer_replay;  ///< from a DATA to the next of the same seq that no NACK asked for
                        ///< (replay_timeout)
};

}  // namespace mtl::conformance::judge
