#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "capture/filter.h"
#include "capture/segment.h"
#include "capture/verdict.h"

namespace mtl::capture {

/// A frame of a capture.
struct Captured {
  std::size_t interface = 0;
  Direction direction = Direction::kIn;
  Verdict verdict;
  Time at{};                         ///< the node's clock
  std::uint64_t missed = 0;          ///< frames of the interface missed since the one before
  std::size_t length = 0;            ///< on the wire, its 802.1Q tag included
  std::span<const std::byte> bytes;  ///< as far as captured; until the sink returns
};

/// The reader's side of a capture: takes the workers' frames out of their rings, and gives them in
/// the order of their times.
///
/// The frames of a port come in the order in which it had them, also where it moved from one worker
/// to another meanwhile: what a sweep finds is given by the next one, when what came before it has
/// been found in whichever ring. Not thread safe; nothing that stands in the memory is believed.
class Collector {
 public:
  explicit Collector(std::unique_ptr<Segment> segment);

  /// Takes out what there is, and gives to `on(const Captured&)` what the sweep before has found,
  /// and of this one what belongs before that. Tells how many bytes of records it found. Error: the
  /// memory was written wrong; what was found before was given, and nothing more can be read.
  template <class Sink>
  Result<std::uint64_t> sweep(Sink&& on) {
    auto found = gather();
    const std::size_t ripe = sort();
    const std::size_t given = found ? ripe : held_.size();  // what comes before them, nobody tells
    for (std::size_t i = 0; i < given; ++i) on(frame(held_[i]));
    forget(given);
    return found;
  }

  /// The capture ends here: what the workers put down and miss from now on is neither given nor
  /// counted. The second sweep from here gives the last of what they had by then.
  void freeze();

  std::size_t interfaces() const { return segment_->interfaces(); }
  Interface interface(std::size_t index) const { return segment_->interface(index); }
  /// Frames of an interface that were missed so far, or until freeze(), for want of room in a ring.
  std::uint64_t missed(std::size_t interface) const;
  /// Ports that found no place among the interfaces.
  std::size_t left_out() const { return segment_->left_out(); }
  /// Bytes of the smallest ring: what a sweep finds at most in each.
  std::uint64_t ring_bytes() const { return segment_->ring_bytes(); }

 private:
  struct Held {
    Record record;
    std::size_t at = 0;       ///< of its bytes in the store
    std::uint64_t delta = 0;  ///< frames missed before it
    std::uint8_t store = 0;
    bool old = false;  ///< of a sweep before
  };

  Result<std::uint64_t> gather();
  Result<std::uint64_t> gather(std::size_t ring);
  std::size_t sort();
  Captured frame(const Held& held);
  void forget(std::size_t given);

  std::unique_ptr<Segment> segment_;
  std::vector<std::uint64_t> tails_;                ///< by ring; ours, the shared are only written
  std::vector<std::vector<std::uint64_t>> missed_;  ///< by ring and interface, as told last
  struct End {
    std::uint64_t head = 0;
    std::vector<std::uint64_t> missed;  ///< by interface
  };
  std::vector<End> ends_;  ///< by ring; none before freeze()
  std::vector<Interface> known_;
  std::vector<Held> held_;
  std::array<std::vector<std::byte>, 2> stores_;  ///< of the sweep before and of this one, by turns
  std::uint8_t store_ = 0;
  std::vector<std::byte> tagged_;
};

/// The untagged `frame` with an 802.1Q tag, as it stood on the wire, into `out`: its `length`,
/// which may be more than was captured, becomes that of the tagged one. Padding that a frame on its
/// way out would not have with a tag is left out (P4).
void add_tag(std::span<const std::byte> frame, VlanId vlan, Direction direction,
             std::vector<std::byte>& out, std::size_t& length);

}  // namespace mtl::capture
