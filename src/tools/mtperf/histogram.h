#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace mtl::mtperf {

/// Durations by size: exact below 64 ns, else to one part in 64. Never allocates.
class Histogram {
 public:
  void add(Duration value);
  void add(const Histogram& other);

  std::uint64_t count() const { return count_; }
  Duration least() const { return least_; }  ///< 0 of none
  Duration most() const { return most_; }
  Duration mean() const;
  /// The least duration that at least `part` (0 to 1) of them do not exceed, rounded up to what is
  /// told apart; 0 of none.
  Duration quantile(double part) const;

  struct Bucket {
    Duration most;  ///< of those in it
    std::uint64_t count;
  };
  /// Calls `visit` with each bucket that is not empty, ascending.
  template <class Visit>
  void each(Visit visit) const {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      if (counts_[i] != 0) visit(Bucket{most_of(i), counts_[i]});
    }
  }

 private:
  static constexpr unsigned kBits = 6;  ///< parts of each power of two: 64
  static constexpr std::size_t kParts = std::size_t{1} << kBits;
  static constexpr std::size_t kBuckets = (64 - kBits) * kParts;

  static std::size_t index_of(std::uint64_t ns);
  static Duration most_of(std::size_t index);

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  double sum_ = 0;
  Duration least_{};
  Duration most_{};
};

}  // namespace mtl::mtperf
