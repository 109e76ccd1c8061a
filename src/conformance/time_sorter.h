#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/time.h"
#include "conformance/capture_reader.h"

namespace mtl::conformance {

/// Puts the records of a capture in the order of their times. Programs that capture on several
/// interfaces write what they read of each at a time, so that frames and what answers them stand
/// the wrong way about. Holds copies of what may still be overtaken: bounded, not for ever.
class TimeSorter {
 public:
  static constexpr Duration kReach = std::chrono::seconds(1);  ///< a record is held so long
  static constexpr std::size_t kMostRecords = 65'536;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  /// Takes a record and gives those that nothing can overtake any more to `on(const
  /// CaptureRecord&)`.
  template <class Sink>
  void push(const CaptureRecord& record, Sink&& on) {
    hold(record);
    while (ripe()) release(on);
  }
  /// Gives all that are held. What comes then may be of any time.
  template <class Sink>
  void finish(Sink&& on) {
    while (!heap_.empty()) release(on);
    newest_ = given_ = Time{Duration::min()};
  }
  /// Bytes that are kept for records, those of records to come included. After push() no more than
  /// kMostBytes, or what the one record held is longer.
  std::size_t memory() const { return bytes_; }
  /// Records that came too late to be put in order.
  std::uint64_t unsorted() const { return unsorted_; }

 private:
  struct Held {
    CaptureRecord record;  ///< its bytes are those of `bytes`
    std::vector<std::byte> bytes;
  };
  static bool later(const Held& a, const Held& b);

  void hold(const CaptureRecord& record);
  bool ripe() const;
  Held take();
  void put_back(Held held);
  template <class Sink>
  void release(Sink&& on) {
    Held held = take();
    on(std::as_const(held.record));
    put_back(std::move(held));
  }

  std::vector<Held> heap_;  ///< the earliest first
  std::vector<std::vector<std::byte>> spare_;
  std::size_t bytes_ = 0;  ///< capacities in heap_ and spare_
  Time newest_{Duration::min()};
  Time given_{Duration::min()};
  std::uint64_t unsorted_ = 0;
};

}  // namespace mtl::conformance
