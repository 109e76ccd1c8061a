#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/counter.h"

/// Where the cycles of a worker go: the parts of a pass, and what each of them took.
namespace mtl::runtime {

/// The parts of a pass of a ShardLoop, in their order. Frames are sent after those that timers
/// made, too.
enum class Stage : std::uint8_t {
  kWorker,         ///< between two passes: clock, commands, route table, the next deadline
  kDeviceReceive,  ///< carrier, and frames out of the device
  kLinkReceive,    ///< the links' checks, and the choice of the hop up to the next link's queue
  kRings,          ///< buffers from other shards
  kTimers,         ///< looking for timers that are due, and handling them
  kOwner,          ///< what the shard's owner does in each pass
  kLinkSend,       ///< making frames, and looking for links that have some to send
  kDeviceSend,     ///< frames into the device
  kFlush,          ///< pushing them out
  kCount,
};
inline constexpr std::size_t kStages = static_cast<std::size_t>(Stage::kCount);
const char* name(Stage stage);

/// Of passes that were measured and did something. One writer: the loop's thread.
struct StageCounters {
  Counter passes;
  std::array<Counter, kStages> ticks;
  /// Frames, of kRings buffers, that the stage handled; none are counted for kWorker, kTimers,
  /// kOwner.
  std::array<Counter, kStages> frames;
};

/// A counter of ticks that only grows, such as Clock::ticks().
using TickSource = std::function<std::uint64_t()>;

/// Stops the time of one pass, stage by stage: each tick between `began` and the last lap belongs
/// to just one stage.
class StageWatch {
 public:
  StageWatch(const TickSource& source, std::uint64_t began) : source_(source), last_(began) {}
  /// The time since the last lap was `stage`'s, in which it handled `frames`.
  void lap(Stage stage, unsigned frames = 0) {
    const std::uint64_t now = source_();
    ticks_[static_cast<std::size_t>(stage)] += now - last_;
    frames_[static_cast<std::size_t>(stage)] += frames;
    last_ = now;
  }
  /// Frames that were handled in the laps of several ports.
  void count(Stage stage, unsigned frames) { frames_[static_cast<std::size_t>(stage)] += frames; }
  unsigned frames(Stage stage) const { return frames_[static_cast<std::size_t>(stage)]; }
  void add_to(StageCounters& counters) const;

 private:
  const TickSource& source_;
  std::uint64_t last_;
  std::array<std::uint64_t, kStages> ticks_{};
  std::array<unsigned, kStages> frames_{};
};

/// In place of it when nothing is measured: costs nothing.
struct NoWatch {
  static void lap(Stage, unsigned = 0) {}
  static void count(Stage, unsigned) {}
  static unsigned frames(Stage) { return 0; }
};

}  // namespace mtl::runtime
