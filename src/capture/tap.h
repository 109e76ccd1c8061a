#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "capture/filter.h"
#include "capture/segment.h"
#include "capture/verdict.h"
#include "link/frame_out.h"

namespace mtl::capture {

/// Not an interface: the port is not captured.
inline constexpr std::uint16_t kNoInterface = 0xFFFF;

/// What a worker puts into its ring of a capture: copies of the frames that the filter wants. Never
/// waits, allocates nothing after construction, makes no system call. Where the ring has no room a
/// frame is missed, and counted. One thread, but for the constructor and what lies in the segment.
class Tap {
 public:
  /// Writes ring `ring` of `segment`, which outlives the tap. `ports`: as many as there may be.
  Tap(Segment& segment, std::size_t ring, const Filter& filter, std::size_t ports);
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  /// Under which interface the frames of a port are put down; kNoInterface: not at all.
  void set_interface(PortId port, std::uint16_t interface) { by_port_[port.value()] = interface; }
  std::uint16_t interface(PortId port) const { return by_port_[port.value()]; }

  /// Whether anything is wanted that goes this way.
  bool wants(Direction direction) const { return filter_.wants(direction); }
  /// A frame that has come in is copied before the link, whose EtherType is `ether_type`, takes it,
  /// and put down, or forgotten, when it is known what became of it: take(), then told(). False: it
  /// is not wanted, whatever becomes of it, and told() does nothing.
  bool take(std::span<const std::byte> frame, std::uint16_t ether_type);
  void told(std::uint16_t interface, Time at, const Verdict& verdict);
  /// The same for a frame that may go before it is known what of: keep() lays it aside, where
  /// take() and told() of others may come, then kept_told().
  void keep(std::span<const std::byte> frame);
  void kept_told(std::uint16_t interface, std::uint16_t ether_type, Time at,
                 const Verdict& verdict);
  /// A frame that was given to the port's medium.
  void sent(std::uint16_t interface, Time at, const link::FrameOut& frame, const Verdict& verdict);

 private:
  enum class Taken : std::uint8_t { kUnwanted, kNoRoom, kCopied };

  static void copy(const link::FrameOut& frame, std::span<std::byte> out);
  std::byte* place(std::uint32_t captured);
  void put_down(std::uint16_t interface, Direction direction, Time at, const Verdict& verdict);

  Segment& segment_;
  const std::size_t ring_;
  const Filter filter_;
  std::vector<std::uint16_t> by_port_;
  std::byte* const base_;  ///< of the ring
  const std::uint64_t size_;
  std::uint64_t head_ = 0;       ///< ours; the shared one is only written
  std::uint64_t tail_seen_ = 0;  ///< as the reader said last
  std::array<std::uint64_t, Segment::kMaxInterfaces> missed_{};
  // Of the frame taken: where its record begins, and how long frame and copy are.
  Taken taken_ = Taken::kUnwanted;
  std::uint64_t record_ = 0;
  std::uint32_t length_ = 0;
  std::uint32_t captured_ = 0;
  std::vector<std::byte> kept_;  ///< of kMaxSnap
  std::uint32_t kept_length_ = 0;
};

}  // namespace mtl::capture
