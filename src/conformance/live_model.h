#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "conformance/replay.h"
#include "conformance/trace.h"

/// What the device of a trace does when times are not kept to the nanosecond: the core itself is
/// asked, in virtual time. No I/O, no clock.
namespace mtl::conformance {

/// Not before, and not after. Of an input that does not come both are kNever.
struct Window {
  Time earliest;
  Time latest;
};

/// Two clocks may differ in rate by so much: one part of so many.
inline constexpr std::int64_t kClockRate = 5000;

/// A frame of a device without what its clock says: t_tx and t_echo of a STATUS, and its CRC.
std::vector<std::byte> without_clock(std::span<const std::byte> frame);

class LiveModel {
 public:
  /// `trace`, its times and timers being `time_scale` times as long; it is kept by reference. Up to
  /// `margin` behind its end frames of the device are known, too. Windows are looked into at steps
  /// of `step`. The Error: the core does not do what the trace says.
  static Result<LiveModel> make(const Trace& trace, std::uint64_t time_scale, Duration margin,
                                Duration step);

  /// All times, here and of inputs(), are stretched.
  Time end() const { return stretched_->end; }
  /// In the order of C2; each waits for what the device sends before it.
  const std::vector<Input>& inputs() const { return inputs_; }
  /// What the trace has in the place of a frame of inputs().
  const TraceFrame& original(const TraceFrame& frame) const {
    return trace_->frames[static_cast<std::size_t>(&frame - stretched_->frames.data())];
  }

  /// A frame that the device sends.
  struct Expected {
    Time at;                            ///< stretched
    const TraceFrame* frame = nullptr;  ///< of the trace, unstretched; nullptr: behind its end
    std::vector<std::byte> without_clock;
  };
  /// By port: the trace's frames, and behind them those that come up to the margin behind its end.
  const std::vector<std::vector<Expected>>& expected() const { return expected_; }
  /// Of these, the trace's.
  std::size_t due(std::size_t port) const { return due_[port]; }

  /// Why it is not sure what the device does if each input reaches it at any time within its
  /// window: it would be another thing at some. nullopt: it is what the trace says. Inputs come in
  /// order on one port, and behind each stimulus before them; none comes before what it waits for.
  std::optional<std::string> doubt(std::span<const Window> arrivals) const;
  /// The same, each timer being longer by `by` besides, one kind after the other.
  std::optional<std::string> doubt_of_timers(std::span<const Window> arrivals, Duration by) const;

  /// When the frames of expected() come if inputs arrive so, by port; where inputs do not come,
  /// those before them. `rate`: clocks may differ by kClockRate. nullopt: it is not sure what
  /// comes.
  std::optional<std::vector<std::vector<Window>>> windows(std::span<const Window> arrivals,
                                                          bool rate) const;

  /// Whether the device, if inputs arrive so, may send `bytes` as its frame `index` of a port, its
  /// clock aside, by `until`: at some of the times that doubt() tries.
  bool may_send(std::span<const Window> arrivals, PortId port, std::size_t index,
                std::span<const std::byte> bytes, Time until) const;

  /// By port: how many frames of expected() the device sends before the first input that does not
  /// come.
  std::vector<std::size_t> known(std::span<const Window> arrivals) const;

 private:
  using Times = std::function<Time(std::size_t)>;
  bool any_of(std::span<const Window> arrivals, Time until,
              const std::function<bool(const Outcome&)>& is) const;
  LiveModel(const Trace& trace, std::uint64_t time_scale, Duration margin, Duration step);
  Outcome run_at(const Trace& trace, const Times& at, Time until = {}) const;
  std::optional<std::string> unlike(const Outcome& outcome, std::span<const Window> arrivals) const;
  std::optional<std::string> unlike_frames(const Outcome& outcome,
                                           std::span<const Window> arrivals) const;

  const Trace* trace_;
  std::unique_ptr<Trace> stretched_;
  Duration margin_;
  Duration step_;
  std::vector<Input> inputs_;
  std::vector<std::vector<Expected>> expected_;
  std::vector<std::size_t> due_;
};

}  // namespace mtl::conformance
