#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/counter.h"
#include "base/time.h"

namespace mtl::phy {

/// What is done to the frames that arrive at a port. Probabilities in parts per million.
struct ImpairmentConfig {
  std::uint32_t drop_ppm = 0;
  std::uint32_t corrupt_header_ppm = 0;  ///< flips a bit that the header CRC covers
  /// Flips a bit of a DATA's packet that only the packet CRC covers; other kinds have none.
  std::uint32_t corrupt_packet_ppm = 0;
  std::uint32_t duplicate_ppm = 0;  ///< the copy is not held back with the frame
  std::uint32_t reorder_ppm = 0;    ///< held back until reorder_delay later
  Duration reorder_delay = std::chrono::microseconds(100);
  Duration delay{0};   ///< of every frame
  Duration jitter{0};  ///< up to so much more, uniform (may reorder)
  std::uint64_t seed = 1;

  /// Whether it does anything at all.
  bool active() const;
};

/// Longest delay, jitter and reorder_delay; also keeps times far from overflow.
inline constexpr Duration kMaxImpairmentDelay = std::chrono::seconds(60);

/// What is wrong with `config` (a rate above 1,000,000 ppm, a negative or huge delay), or nullptr.
const char* fault(const ImpairmentConfig& config);

struct ImpairmentCounters {
  Counter dropped, header_corrupted, packet_corrupted, duplicated, reordered, delayed;
  Counter uncopied;  ///< not duplicated: the pool had no (or too small a) buffer for the copy
  Counter overflow;  ///< let through at once because the delay queue was full
};

/// Impairs frames between a medium and its link, the same in a running port and in the simulator:
/// the same seed, frames and times give the same faults, on any platform. Sans I/O, one thread (the
/// counters may be read by any); nothing is allocated after construction.
///
/// Every frame draws the same number of random words, so changing one rate leaves alone which
/// frames the other faults hit.
class Impairment {
 public:
  /// `config` is without fault(). Holds at most `depth` delayed frames; they occupy buffers.
  Impairment(const ImpairmentConfig& config, std::uint32_t depth);
  /// Gives back what it holds.
  ~Impairment();
  Impairment(const Impairment&) = delete;
  Impairment& operator=(const Impairment&) = delete;

  /// A frame has arrived, data at the Ethernet header, untagged; takes it. What may go on at once
  /// is given to `on(Buffer*)`, in order, delayed frames that are due first. `now` never runs back.
  template <class Sink>
  void push(Buffer* frame, Time now, Sink&& on) {
    BufferQueue out;
    collect_due(now, out);
    admit(frame, now, out);
    while (!out.empty()) on(out.pop());
  }

  /// Gives delayed frames whose time has come to `on(Buffer*)`, by time, then by arrival.
  template <class Sink>
  void pop_due(Time now, Sink&& on) {
    BufferQueue out;
    collect_due(now, out);
    while (!out.empty()) on(out.pop());
  }

  /// When pop_due() has something to give; kNever: nothing is held.
  Time next_deadline() const;

  /// New rates and a new random stream from now on; what is held keeps its time.
  void configure(const ImpairmentConfig& config);

  const ImpairmentConfig& config() const { return config_; }
  const ImpairmentCounters& counters() const { return counters_; }

 private:
  struct Held {
    Time due;
    std::uint64_t order;
    Buffer* frame;
  };
  struct Draws;

  static bool later(const Held& a, const Held& b);
  std::uint64_t word();
  Draws draw();
  void admit(Buffer* frame, Time now, BufferQueue& out);
  void collect_due(Time now, BufferQueue& out);
  void corrupt(Buffer& frame, const Draws& draws);
  Buffer* copy(const Buffer& frame);
  void release(Buffer* frame, Time due, Time now, BufferQueue& out);

  ImpairmentConfig config_;
  ImpairmentCounters counters_;
  std::uint64_t state_;
  std::uint64_t order_ = 0;
  std::size_t depth_;
  std::vector<Held> held_;  ///< a heap by (due, order), the earliest first; capacity depth_
};

}  // namespace mtl::phy
