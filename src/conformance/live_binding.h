#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "conformance/trace.h"
#include "link/codec.h"

namespace mtl::conformance {

/// What a device that lives by a clock of its own chooses for itself, bound to what stands in a
/// trace in its place: MAC, port number, nonces and epochs (of bring-up i those of the trace's
/// bring-up i), its clock, and the links' EtherType. By that, frames of the trace are put into the
/// device's terms, and frames of the device into the trace's. CRCs stay as right or as wrong as
/// they were. Nothing is taken from an INIT that L6 refuses; what else an INIT tells is configured,
/// and stands as it is. No I/O, no clock.
class LiveBinding {
 public:
  /// `slack`: how far times told by the device's STATUS may be off.
  LiveBinding(const Trace& trace, Duration slack, std::uint16_t ether_type);

  /// A frame that the device of the trace receives, as the live one is to get it at `now`: to its
  /// MAC, with its nonces, epochs and port, t_tx as far off the clock as in the trace, t_echo by
  /// what the device told last. What is not bound yet stays.
  std::vector<std::byte> to_device(const TraceFrame& frame, Time now);

  /// A frame that came from the device at `at`, in the trace's terms; `expected` is the one that
  /// the trace has in its place (nullptr: none). Of an INIT what is new is bound. What cannot be
  /// what the trace has (an old nonce where a fresh one is due, an epoch again, a t_tx or t_echo
  /// that is no time of the past) stands there as another value.
  std::vector<std::byte> from_device(PortId port, std::span<const std::byte> frame, Time at,
                                     const TraceFrame* expected);
  /// By how much a clock of the last frame from the device, t_tx or t_echo, was off at most; 0:
  /// within the slack.
  Duration clock_off() const { return clock_off_; }

 private:
  struct Clock {
    Time at;
    std::uint32_t t_tx = 0;
  };
  struct Port {
    std::optional<Mac> mac;
    std::optional<PortId> number;     ///< by its first INIT
    std::vector<link::BringUp> seen;  ///< bring-ups of the live device, in order
    std::optional<Clock> first;       ///< its first STATUS
    std::optional<Clock> last;        ///< its last one
  };

  void take_init(PortId port, const link::Init& init);
  std::uint32_t nonce_to_device(const Port& port, const TracePort& trace,
                                std::uint32_t nonce) const;
  std::uint8_t epoch_to_device(const Port& port, const TracePort& trace, std::uint8_t epoch) const;
  void init_from_device(PortId port, std::byte* body) const;
  void status_from_device(Port& port, std::byte* header, Time at, const TraceFrame* expected);

  const Trace& trace_;
  Duration slack_;
  std::uint16_t ether_type_;
  std::vector<Port> ports_;
  Duration clock_off_{};
};

}  // namespace mtl::conformance
