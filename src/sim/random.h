#pragma once

#include <cstdint>
#include <string_view>

namespace mtl::sim {

/// A seeded generator (xoshiro256** seeded by SplitMix64) that gives the same numbers on every
/// platform and with every standard library: a failing seed reproduces anywhere. Integers only.
class Random {
 public:
  explicit Random(std::uint64_t seed);

  /// An independent generator for one purpose (and one index of it), derived from the seed of this
  /// one, not from its state: one more draw for one purpose does not disturb the others.
  Random stream(std::string_view purpose, std::uint64_t index = 0) const;

  std::uint64_t next();
  /// Uniform in [0, n); n is not 0.
  std::uint64_t below(std::uint64_t n);
  /// Uniform in [low, high].
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + below(high - low + 1);
  }
  /// In [low, high], small values as likely as large ones by order of magnitude; low is not 0.
  std::uint64_t log_between(std::uint64_t low, std::uint64_t high);
  /// True in `ppm` of a million cases.
  bool chance(std::uint32_t ppm) { return below(1'000'000) < ppm; }
  std::uint64_t seed() const { return seed_; }

 private:
  std::uint64_t seed_;
  std::uint64_t state_[4];
};

}  // namespace mtl::sim
