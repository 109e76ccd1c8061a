#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/byte_order.h"
#include "conformance/describe.h"
#include "conformance/live.h"
#include "conformance/replay.h"
#include "conformance/trace.h"

namespace mtl::conformance {

/// What lies between a tester and a device, and how both keep time.
struct Wire {
  Duration latency = std::chrono::microseconds(100);  ///< each way
  Duration jitter{};                                  ///< beyond it, at most, each way
  std::int64_t drift_ppm = 0;                         ///< of the device's clock and timers
  Duration stimulus = std::chrono::microseconds(50);  ///< what one takes
  int obeyed = 25;                       ///< done when so much of it, in percent, is over
  std::map<std::size_t, Duration> late;  ///< so much later input i is done
  /// Whether the device waits to be run, from, for how long: what it sends then comes after it.
  std::optional<Stall> stall;
  std::uint32_t seed = 1;
};

/// A frame that the device sends.
struct LiveFrame {
  PortId port;
  std::size_t index = 0;  ///< among those of the port
  std::vector<std::byte> bytes;
};

/// What a wrong device does to what a right one sends; true: the frame is not sent.
using Wrong = std::function<bool(LiveFrame&)>;

/// A live device: the core in virtual time, with a MAC, nonces, epochs and a clock of its own. It
/// is run anew, from the beginning, with each thing that is done to it.
class LiveDevice {
 public:
  static constexpr Time kClock{std::chrono::seconds(4)};  ///< at time 0: soon goes round in 32 bits
  static Mac mac(PortId port) {
    return {std::byte{0x02},
            std::byte{0xAB},
            {},
            {},
            static_cast<std::byte>(port.value() >> 8),
            static_cast<std::byte>(port.value())};
  }
  static std::uint32_t nonce(std::uint32_t of) { return of ^ 0x5A5A5A5A; }
  static std::uint8_t epoch(std::uint8_t of) { return static_cast<std::uint8_t>(of % 255 + 1); }

  LiveDevice(const Trace& trace, std::uint64_t time_scale, Time start, Wire wire,
             std::uint16_t ether_type)
      : trace_(trace),
        start_(start),
        wire_(std::move(wire)),
        random_(wire_.seed),
        last_to_(trace.ports.size()),
        last_from_(trace.ports.size()),
        came_(trace.ports.size()) {
    const auto scale = static_cast<std::int64_t>(time_scale);
    for (TracePort& port : trace_.ports) {
      port.config.link.ether_type = ether_type;
      port.config.link.mac = mac(port.config.link.port);
      for (link::BringUp& b : port.bring_ups) b = {nonce(b.nonce), epoch(b.epoch)};
      link::Timers& t = port.config.link.timers;
      for (Duration* timer : {&t.init_interval, &t.keepalive_interval, &t.dead_interval,
                              &t.ack_delay, &t.replay_timeout, &t.nack_interval, &t.hold_down}) {
        *timer = std::min(*timer, kMaxTraceTimer / scale) * scale;
      }
    }
    horizon_ = kClock + 2 * (trace.end.time_since_epoch() * scale) + std::chrono::seconds(1) +
               static_cast<std::int64_t>(trace.stimuli.size()) * wire_.stimulus;
  }

  Wrong wrong;
  /// Its configuration, to make it wrong before anything is done to it.
  Trace& configuration() { return trace_; }

  void receive(PortId port, std::vector<std::byte> bytes, Time now) {
    Time& last = last_to_[port.value()];
    last = std::max(last, now + delay());
    frames_.push_back({device_time(last), std::move(bytes), port, true, 0});
    inputs_.push_back({frames_.back().at, &frames_.back(), nullptr, {}});
    run_again();
  }
  /// Its owner does something.
  void apply(Stimulus stimulus, Time now) {
    stimulus.at = device_time(now + wire_.stimulus * wire_.obeyed / 100);
    stimuli_.push_back(std::move(stimulus));
    inputs_.push_back({stimuli_.back().at, nullptr, &stimuli_.back(), {}});
    run_again();
  }

  /// The next frame that comes from it: port and when.
  std::optional<std::pair<PortId, Time>> next() {
    std::optional<std::pair<PortId, Time>> first;
    for (std::size_t port = 0; port < came_.size(); ++port) {
      const auto at = arrival(port);
      if (at && (!first || *at < first->second)) {
        first = {PortId{static_cast<std::uint16_t>(port)}, *at};
      }
    }
    return first;
  }
  /// Takes it; nullopt: it was not sent.
  std::optional<std::vector<std::byte>> take(PortId port, Time at) {
    const std::size_t index = came_[port.value()]++;
    last_from_[port.value()] = at;
    delays_.erase({port.value(), index});
    LiveFrame frame{port, index, outcome_.sent[port.value()][index].bytes};
    if (wrong) {
      if (wrong(frame)) return std::nullopt;
      if (frame.bytes.size() >= 30) store32(frame.bytes.data() + 26, right_header_crc(frame.bytes));
    }
    return std::move(frame.bytes);
  }

 private:
  Duration delay() {
    std::uniform_int_distribution<std::int64_t> draw(0, wire_.jitter.count());
    return wire_.latency + Duration{draw(random_)};
  }
  Time device_time(Time wall) const {
    const Duration d = wall - start_;
    return kClock + d + d * wire_.drift_ppm / 1'000'000;
  }
  Time wall_time(Time device) const {
    const Duration d = device - kClock;
    return start_ + d - d * wire_.drift_ppm / 1'000'000;
  }
  std::optional<Time> arrival(std::size_t port) {
    const std::size_t index = came_[port];
    if (outcome_.sent.empty() || index >= outcome_.sent[port].size()) return std::nullopt;
    auto [drawn, fresh] = delays_.try_emplace({port, index});
    if (fresh) drawn->second = delay();
    Time sent = wall_time(outcome_.sent[port][index].at);
    if (wire_.stall && sent >= wire_.stall->from) sent = std::max(sent, wire_.stall->to);
    return std::max(last_from_[port], sent + drawn->second);
  }
  std::vector<Input> sorted() const {
    std::vector<Input> inputs = inputs_;
    std::stable_sort(inputs.begin(), inputs.end(),
                     [](const Input& a, const Input& b) { return a.at < b.at; });
    return inputs;
  }
  void run_again() {
    ReplayOptions options;
    options.end = horizon_;
    outcome_ = run(trace_, sorted(), options);
  }

  Trace trace_;
  Time start_;
  Wire wire_;
  std::mt19937 random_;
  std::vector<Time> last_to_;
  std::vector<Time> last_from_;
  std::vector<std::size_t> came_;  ///< frames taken, by port
  std::map<std::pair<std::size_t, std::size_t>, Duration> delays_;
  std::deque<TraceFrame> frames_;
  std::deque<Stimulus> stimuli_;
  std::vector<Input> inputs_;
  Time horizon_;
  Outcome outcome_;
};

}  // namespace mtl::conformance
