#include "sim/random.h"

#include <algorithm>
#include <bit>

namespace mtl::sim {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

}  // namespace

Random::Random(std::uint64_t seed) : seed_(seed) {
  std::uint64_t counter = seed;
  for (std::uint64_t& word : state_) word = mix(counter += kGolden);
}

Random Random::stream(std::string_view purpose, std::uint64_t index) const {
  std::uint64_t hash = seed_;
  for (const char c : purpose) hash = mix((hash ^ static_cast<unsigned char>(c)) + kGolden);
  return Random(mix(hash + mix(index + kGolden)));
}

std::uint64_t Random::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Random::below(std::uint64_t n) {
  // The bias of the multiplication is under n / 2^64: nothing here counts that finely.
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(next()) * n) >> 64);
}

std::uint64_t Random::log_between(std::uint64_t low, std::uint64_t high) {
  const auto first = static_cast<std::uint64_t>(std::bit_width(low));
  const auto last = static_cast<std::uint64_t>(std::bit_width(high));
  const std::uint64_t bits = between(first, last);
  const std::uint64_t from = std::max(low, std::uint64_t{1} << (bits - 1));
  const std::uint64_t to = std::min(high, ((std::uint64_t{1} << (bits - 1)) << 1) - 1);
  return between(from, std::max(from, to));
}

}  // namespace mtl::sim
