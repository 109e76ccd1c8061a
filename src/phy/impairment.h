#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "base/buffer.h"
#include "base/counter.h"
#include "base/time.h"

namespace mtl::phy {

/// What is done to the frames that arrive at a port. Probabilities in parts per million.
struct ImpairmentConfig {
  std::uint32_t drop_ppm = 0;
  std::uint32_t corrupt_header_ppm = 0;  ///< flips a bit that the header CRC covers
  std::uint32_t corrupt_packet_ppm =
      0;  ///< flips a bit of a DATA's packet that only the packet CRC covers
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;  ///< held back until reorder_delay later
  Duration reorder_delay = std::chrono::microseconds(100);
  Duration delay{0};   ///< of every frame
  Duration jitter{0};  ///< up to so much more, uniform (may reorder)
  std::uint64_t seed = 1;

  bool active() const;
};

/// What is wrong with `config` (a rate above 1,000,000 ppm, a negative or huge delay), or nullptr.
const char* fault(const ImpairmentConfig& config);

struct ImpairmentCounters {
  Counter dropped, header_corrupted, packet_corrupted, duplicated, reordered, delayed;
  Counter overflow;  ///< let through at once because the delay queue was full
};

/// Impairs frames between a medium and its link, the same in a running port and in the simulator:
/// the same seed and frames give the same faults. Sans I/O, one thread; nothing is allocated after
/// construction.
class Impairment {
 public:
  /// Holds at most `depth` delayed frames.
  Impairment(const ImpairmentConfig& config, std::uint32_t depth);
  ~Impairment();  ///< gives back what it holds

  /// A frame has arrived; takes it. What may go on at once, in order, is given to `on`.
  void push(Buffer* frame, Time now, const std::function<void(Buffer*)>& on);
  /// Delayed frames whose time has come.
  void pop_due(Time now, const std::function<void(Buffer*)>& on);
  Time next_deadline() const;

  const ImpairmentConfig& config() const { return config_; }
  const ImpairmentCounters& counters() const { return counters_; }

 private:
  ImpairmentConfig config_;
  ImpairmentCounters counters_;
};

}  // namespace mtl::phy
