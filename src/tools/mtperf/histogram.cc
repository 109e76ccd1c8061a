#include "tools/mtperf/histogram.h"

#include <algorithm>
#include <cmath>

namespace mtl::mtperf {

/// Below kParts each value has a bucket; from there on each power of two has kParts.
std::size_t Histogram::index_of(std::uint64_t ns) {
  if (ns < kParts) return static_cast<std::size_t>(ns);
  const unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - kBits - 1;
  return (std::size_t{shift} << kBits) + static_cast<std::size_t>(ns >> shift);
}

Duration Histogram::most_of(std::size_t index) {
  if (index < kParts) return Duration{static_cast<std::int64_t>(index)};
  const std::size_t shift = (index >> kBits) - 1;
  const std::uint64_t first = static_cast<std::uint64_t>(index - (shift << kBits)) << shift;
  return Duration{static_cast<std::int64_t>(first + (std::uint64_t{1} << shift) - 1)};
}

void Histogram::add(Duration value) {
  const Duration at_least_0 = std::max(value, Duration{0});
  const auto ns = static_cast<std::uint64_t>(at_least_0.count());
  ++counts_[index_of(ns)];
  least_ = count_ == 0 ? at_least_0 : std::min(least_, at_least_0);
  most_ = std::max(most_, at_least_0);
  sum_ += static_cast<double>(ns);
  ++count_;
}

void Histogram::add(const Histogram& other) {
  if (other.count_ == 0) return;
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  least_ = count_ == 0 ? other.least_ : std::min(least_, other.least_);
  most_ = std::max(most_, other.most_);
  sum_ += other.sum_;
  count_ += other.count_;
}

Duration Histogram::mean() const {
  if (count_ == 0) return Duration{0};
  return Duration{static_cast<std::int64_t>(sum_ / static_cast<double>(count_))};
}

Duration Histogram::quantile(double part) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (counts_[i] != 0 && seen >= wanted) return std::min(most_of(i), most_);
  }
  return Duration{0};
}

}  // namespace mtl::mtperf
