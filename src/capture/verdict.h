#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "base/drop.h"
#include "link/link.h"
#include "network/node.h"

namespace mtl::capture {

/// What became of a frame at its port.
enum class Outcome : std::uint8_t {
  kAccepted,   ///< in: the link took it
  kHeld,       ///< in: a DATA that came early; its packet waits for those before it (L13)
  kNotOurs,    ///< in: of another EtherType, which the link ignores (P2)
  kDropped,    ///< not taken, or not sent: the reasons say why
  kSent,       ///< out
  kSentAgain,  ///< out: a DATA with the flag REPLAY
  kCount,
};

/// A bit for each Drop.
using Reasons = std::uint64_t;
static_assert(static_cast<unsigned>(Drop::kCount) <= 64);
constexpr Reasons reason(Drop drop) {
  return Reasons{1} << static_cast<unsigned>(drop);
}

struct Verdict {
  Outcome outcome = Outcome::kAccepted;
  /// Why the frame was dropped, and why the node dropped packets that came in with it, its own or
  /// those that waited for it: the layers tell these apart.
  Reasons reasons = 0;

  bool dropped() const { return reasons != 0 || outcome == Outcome::kDropped; }
};

/// As it stands in a capture: "accepted", "drop: bad_header_crc", "accepted; the node dropped:
/// no_route", "drop: poisoned; the node dropped: no_route", "sent again". What has no name is "?".
std::string describe(const Verdict& verdict);

/// What counters of drops said before something happened.
class DropsBefore {
 public:
  /// `counters` outlive it.
  explicit DropsBefore(const DropCounters& counters);
  /// The reasons of `layer` that count more by now.
  Reasons grown(DropLayer layer) const;

 private:
  const DropCounters& counters_;
  std::array<std::uint64_t, static_cast<std::size_t>(Drop::kCount)> before_;
};

/// What a link and its shard had counted before the link is given a frame: the difference tells
/// what became of it. So a link knows nothing of captures.
class BeforeFrame {
 public:
  /// Both outlive it. `frame` is what the link will be given.
  BeforeFrame(const link::Link& link, const network::ShardCounters& shard,
              std::span<const std::byte> frame);
  /// To be asked when the link has been given that frame and nothing else. Of what the node drops
  /// a DATA alone is the cause, and only if it moves the link on: an INIT or CLOSE gives back
  /// packets that other frames brought, or the node itself, and that then find no route.
  Verdict after() const;

 private:
  const link::Link& link_;
  DropsBefore of_link_;
  DropsBefore of_shard_;
  std::uint64_t seen_;
  std::uint32_t held_;
  bool data_;
};

}  // namespace mtl::capture
