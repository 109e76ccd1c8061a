#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "base/time.h"

namespace mtl::sim {

/// One line for each event of a run, on demand: a failing seed is run again with the log on.
/// Whoever writes asks on() first, so that nothing is formatted in vain.
class EventLog {
 public:
  EventLog() = default;  ///< off
  /// Keeps the last `keep` lines.
  explicit EventLog(std::size_t keep) : keep_(keep) {}

  bool on() const { return keep_ != 0; }
  void line(Time now, std::string text);
  const std::deque<std::string>& lines() const { return lines_; }
  /// Lines written, and a hash of all of them, also of those no longer kept.
  std::uint64_t count() const { return count_; }
  std::uint64_t digest() const { return digest_; }

 private:
  std::size_t keep_ = 0;
  std::deque<std::string> lines_;
  std::uint64_t count_ = 0;
  std::uint64_t digest_ = 0xCBF29CE484222325u;
};

}  // namespace mtl::sim
