#pragma once

#include <cstdint>

namespace mtl::transport {

/// Tells whether the pieces of a range cover it, each byte once, in whatever order they come (T29,
/// T34), by a sum instead of a list of them. A piece adds a mark of its end, and takes away that of
/// its beginning; the sum is that of the whole range only if every other end has a beginning, so if
/// no byte is lacking and none came twice. The marks follow from a key that no peer knows: it
/// cannot choose pieces whose marks cancel out otherwise.
class CoverageMarks {
 public:
  /// `key`: a random word.
  explicit CoverageMarks(std::uint64_t key) : key_(key) {}

  /// What the bytes from `begin` on, before `end`, add; modulo 2^64.
  std::uint64_t of(std::uint64_t begin, std::uint64_t end) const { return mark(end) - mark(begin); }

 private:
  /// The mixing step of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
  /// generators, OOPSLA 2014).
  std::uint64_t mark(std::uint64_t at) const {
    std::uint64_t z = key_ + at * 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }

  std::uint64_t key_;
};

}  // namespace mtl::transport
