#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/ids.h"
#include "base/time.h"
#include "link/frame_out.h"
#include "phy/impairment.h"
#include "phy/pacer.h"
#include "sim/clock_queue.h"
#include "sim/frame_age.h"
#include "sim/pool.h"
#include "sim/random.h"

namespace mtl::sim {

/// One end of a wire: a port of a node, the node by its index in the fabric.
struct PortRef {
  std::uint32_t node = 0;
  PortId port;
  friend bool operator==(const PortRef&, const PortRef&) = default;
};

struct WirePlan {
  std::array<PortRef, 2> ends;
  Duration delay{0};
  std::optional<phy::PacerConfig> rate{};  ///< nullopt: sends in no time
};

/// What a wire's ends are told.
class WireEnd {
 public:
  /// Frames have arrived at `end` at one instant, as a device gives them in a burst. They are the
  /// wire's: only to be looked at.
  virtual void frames_in(PortRef end, std::span<Buffer* const> frames, Time now) = 0;
  /// `end` may send again.
  virtual void room_again(PortRef end, Time now) = 0;
  virtual void carrier_changed(PortRef end, bool carrier, Time now) = 0;

 protected:
  ~WireEnd() = default;
};

/// Who listens on wires. `direction` as of Wire; the bytes hold during the call.
class WireTap {
 public:
  /// A frame enters, as its link made it; whether it will arrive nobody knows yet.
  virtual void sent(std::size_t wire, std::size_t direction, std::span<const std::byte> frame,
                    Time now) = 0;
  /// What is given to an end, as impairments left it.
  virtual void arrived(std::size_t wire, std::size_t direction, std::span<const std::byte> frame,
                       Time now) = 0;

 protected:
  ~WireTap() = default;
};

struct WireCounters {
  std::uint64_t sent = 0;      ///< frames that entered
  std::uint64_t arrived = 0;   ///< frames given to an end
  std::uint64_t cut = 0;       ///< lost because the wire was cut
  std::uint64_t late = 0;      ///< in flight at a cut, and arrived after the restoration
  std::uint64_t too_long = 0;  ///< lost by a limit of length
  std::uint64_t too_late = 0;  ///< lost because they came later than FrameAge allows
};

/// A wire between two ports, with delay, bandwidth and faults, each way apart. Direction i goes
/// from ends[i] to ends[1 - i]. Frames are copied in and out, as by a device.
class Wire final : private EventTarget {
 public:
  Wire(const WirePlan& plan, ClockQueue& queue, WirePool& pool, WireEnd& owner, Random random);

  /// Whether a frame may enter now. If not, room_again() will come for that end.
  bool room(std::size_t direction, Time now);
  void send(std::size_t direction, const link::FrameOut& frame, Time now);

  // Faults.
  /// What direction i does to frames from now on, until the next call.
  void impair(std::size_t direction, const phy::ImpairmentConfig& config);
  /// Frames longer than this are lost (a path that shrank); nullopt: none.
  void limit_length(std::size_t direction, std::optional<std::uint32_t> bytes);
  /// Alters a byte of DATA after the fact and mends the packet CRC: what no link can notice. For
  /// tests of the checkers.
  void forge(bool on) { forge_ = on; }
  /// Frames in flight are lost, each or, if `late`, kept to arrive some time after restore(). With
  /// `carrier` both ends notice.
  void cut(bool carrier, bool late);
  void restore();

  /// `tap` hears of all frames from now on, this wire being its `index`; nullptr: nobody does.
  void tap(WireTap* tap, std::size_t index) {
    tap_ = tap;
    index_ = index;
  }

  bool is_cut() const { return cut_; }
  /// Nothing is on its way (late frames aside).
  bool idle() const;
  const WirePlan& plan() const { return plan_; }
  const WireCounters& counters() const { return counters_; }
  const phy::ImpairmentCounters& impaired(std::size_t direction) const {
    return lanes_[direction].impairment->counters();
  }

 private:
  struct InFlight {
    Time due;
    Buffer* frame;
  };
  struct Lane {
    std::deque<InFlight> flying;
    std::unique_ptr<phy::Impairment> impairment;
    std::optional<std::uint32_t> limit;
    std::optional<phy::Pacer> pacer;
    std::optional<Alarm> alarm;  ///< arrivals and delayed frames
    FrameAge age;
    bool wants_room = false;
  };
  struct Late {
    std::size_t direction;
    Buffer* frame;
  };

  void on_event(Time now, std::uint64_t what) override;
  void run_lane(std::size_t direction, Time now);
  void hand_over(std::size_t direction, std::span<Buffer* const> frames, Time now);
  void set_alarm(std::size_t direction);
  /// Whether the frame comes too late, which is counted.
  bool too_late(std::size_t direction, const Buffer& frame);

  WirePlan plan_;
  ClockQueue& queue_;
  WirePool& pool_;
  WireEnd& owner_;
  Random random_;
  std::array<Lane, 2> lanes_;
  std::vector<Buffer*> burst_;  ///< what arrives at this instant
  std::deque<Late> late_;
  std::uint64_t late_due_ = 0;  ///< of late_, those for which an event is on its way
  WireCounters counters_;
  bool cut_ = false;
  bool carrier_ = true;
  bool forge_ = false;
  WireTap* tap_ = nullptr;
  std::size_t index_ = 0;  ///< for tap_
};

}  // namespace mtl::sim
