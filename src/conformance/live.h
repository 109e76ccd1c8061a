#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/time.h"
#include "conformance/live_binding.h"
#include "conformance/live_model.h"
#include "conformance/replay.h"
#include "conformance/trace.h"

/// A trace against a device that lives in real time: what is to be done when, what the device did,
/// in the trace's terms, and what that says about it. No I/O, no clock: the caller passes times,
/// sends and receives.
namespace mtl::conformance {

struct LiveOptions {
  /// A frame of the device may come so much before or after its time; what is done to the device
  /// may reach it half of that later.
  Duration tolerance = std::chrono::milliseconds(10);
  /// The trace's times, the device's timers too, are stretched by this; absent: the least of 1, 2,
  /// 5, 10, 20 ... at which what the device does does not hang on the tolerance.
  std::optional<std::uint64_t> time_scale;
  /// Traces that take longer are not run.
  Duration longest = std::chrono::minutes(2);
  std::uint16_t ether_type = link::kDefaultEtherType;  ///< of the device's links (P1)
};

struct LivePlan {
  std::uint64_t time_scale = 1;
  Duration length{};  ///< of the whole run, without what stimuli take
  LiveModel model;
};

/// How the trace, which is kept by reference, is to be run, or why it cannot be: it would take too
/// long, what the device does hangs on the tolerance at this scale, or on the exact value of the
/// device's clock.
Result<LivePlan> plan_live(const Trace& trace, const LiveOptions& options);

/// That of its link header; kData if it is too short for one.
link::Kind kind_of(const TraceFrame& frame);

/// By how much things came late (below 0: early).
struct Lateness {
  std::size_t count = 0;
  Duration least{};
  Duration median{};
  Duration most{};
};

/// A time in which the device did not run although it could have, through no fault of its own.
struct Stall {
  Time from;
  Time to;
};

struct LiveVerdict {
  enum class Kind : std::uint8_t { kConforms, kDiffers, kInconclusive };
  Kind kind = Kind::kConforms;
  std::string why;                      ///< of kInconclusive
  std::vector<Difference> differences;  ///< the earliest first
  /// Of kConforms: frames that were due at any time within more than a tolerance, because a
  /// stimulus took so long.
  std::size_t untimed = 0;
};

/// One run of a trace. Times are those of one steady clock.
class LiveRun {
 public:
  /// `trace` and `plan` are kept by reference. The trace's time 0 is at `start`.
  LiveRun(const Trace& trace, const LivePlan& plan, const LiveOptions& options, Time start);

  /// What is to be done next; nullptr: nothing more.
  const Input* next() const;
  /// When next() is due; without one, when the run is over.
  Time due() const;
  /// Whether the frames of the device that come before next() have come.
  bool ready() const;
  /// Bytes of next(), a frame, as the device is to get it at `now`.
  std::vector<std::byte> frame(Time now) {
    return binding_.to_device(plan_.model.original(*next()->frame), now);
  }
  /// next() was done, from `began` to `ended`. For as long as a stimulus took the schedule stands
  /// still; the device's timers do not, which the verdict takes into account.
  void done(Time began, Time ended);

  /// A frame came from the device.
  void received(PortId port, std::span<const std::byte> frame, Time at);

  /// Whether there is nothing more to wait for: the end has come, or what the device did differs.
  /// Every frame that came before `now` has been given to received().
  bool over(Time now) const;

  /// What the device did. Deliveries and counters are the trace's, as if equal: the caller puts in
  /// what it knows.
  Outcome outcome() const;
  /// What that says of the device. The core is run with the times at which the inputs were really
  /// done: so each frame is expected where the event that starts its timer puts it. "Differs" only
  /// if no input that came late and no stall explains the difference. `deliveries_known`: those of
  /// the outcome are what the device told, also where the trace has their digest alone.
  /// `now`: that of the call of over() that ended it.
  LiveVerdict verdict(const Outcome& outcome, bool deliveries_known, std::span<const Stall> stalls,
                      Time now);

  Lateness inputs_late() const;                                 ///< behind the schedule
  const Lateness& frames_late() const { return frames_late_; }  ///< after verdict(): by the model

 private:
  struct Done {
    Time began;
    Time ended;
  };
  struct Sent {
    Time at;
    std::vector<std::byte> bytes;  ///< in the trace's terms
    bool same = false;             ///< as expected
    Duration clock_off{};          ///< of one that is not: its clock alone, by so much
  };
  /// A frame that differs; `beyond`: by how much it came too late, below 0 too early.
  struct Fault {
    PortId port;
    std::size_t index = 0;
    Time at;  ///< when it showed
    Duration beyond{};
  };
  using Windows = std::vector<std::vector<Window>>;

  void take(PortId port, std::span<const std::byte> frame, Time at);
  Time wall(Time at) const;
  Time deadline(Time at, Time now) const;
  const LiveModel::Expected* expected(std::size_t port, std::size_t index) const;
  std::optional<std::size_t> missing(Time now) const;

  Window arrival(std::size_t input, Duration transit) const;
  std::vector<Window> arrivals(std::size_t count, Duration transit) const;
  std::size_t count_kept(std::string& why) const;
  std::size_t longest_sure(std::string& why) const;
  std::string what(std::size_t input) const;
  std::optional<Time> first_unlike() const;
  bool ready_before(Time at) const;
  std::vector<Fault> find_faults(const Windows& windows, Time now) const;
  std::vector<std::vector<SentFrame>> told(const std::vector<Fault>& faults) const;
  void measure(const Windows& windows);
  bool may_be(const Fault& fault, std::span<const Stall> stalls) const;
  bool overtaken(const Fault& fault) const;
  bool stalled(const Fault& fault, std::span<const Stall> stalls) const;

  const Trace& trace_;
  const LivePlan& plan_;
  Duration tolerance_;
  Time start_;
  LiveBinding binding_;
  std::vector<std::vector<Sent>> sent_;  ///< by port
  std::vector<Done> done_;
  std::vector<Duration> inputs_late_;
  Duration most_late_{};
  Duration paused_{};  ///< by stimuli, and by waiting for the device
  Lateness frames_late_;
  std::size_t untimed_ = 0;
  bool differs_ = false;
};

}  // namespace mtl::conformance
