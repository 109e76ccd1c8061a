#include "phy/pacer.h"

namespace mtl::phy {
namespace {

/// Bits times this, divided by the rate, are nanoseconds. The longest frame (2^16 bytes and
/// overhead) and the largest rest keep the product far within 64 bits.
constexpr std::uint64_t kNanosPerSecond = 1'000'000'000;

std::uint64_t scaled_bits(const PacerConfig& config, std::uint32_t length) {
  return (std::uint64_t{length} + config.overhead) * 8 * kNanosPerSecond;
}

Duration nanoseconds(std::uint64_t n) {
  return Duration(static_cast<std::int64_t>(n));
}

}  // namespace

const char* fault(const PacerConfig& config) {
  if (config.bits_per_second < kMinRate) return "the rate is below 1000 bit/s";
  if (config.bits_per_second > kMaxRate) return "the rate is above 10^12 bit/s";
  if (config.overhead > kMaxOverhead) return "the overhead is above 255 bytes";
  return nullptr;
}

Duration wire_time(const PacerConfig& config, std::uint32_t length) {
  return nanoseconds(scaled_bits(config, length) / config.bits_per_second);
}

Pacer::Pacer(const PacerConfig& config, Time now) : config_(config), begun_(now), free_(now) {}

void Pacer::take_over(const Pacer& former) {
  if (former.free_ <= free_) return;
  const auto left = static_cast<double>((former.free_ - free_).count());
  const double scale = static_cast<double>(former.config_.bits_per_second) /
                       static_cast<double>(config_.bits_per_second);
  free_ += Duration(static_cast<std::int64_t>(left * scale));
}

void Pacer::charge(std::uint32_t length, Time now) {
  const Time earliest = waits_ ? now - kCatchUp : now;
  if (next() < earliest) {
    if (waits_) lost_ += earliest - free_;
    free_ = earliest;
  }
  const std::uint64_t scaled = rest_ + scaled_bits(config_, length);
  const Duration took = nanoseconds(scaled / config_.bits_per_second);
  rest_ = scaled % config_.bits_per_second;
  free_ += took;
  wire_ += took;
  bytes_ += std::uint64_t{length} + config_.overhead;
}

void Pacer::looked(bool waits, Time now) {
  if (waits_ != waits && free_ < now) {
    // Whoever sent late has nothing left to catch up with, and idle time is not saved up.
    if (waits_) lost_ += now - free_;
    free_ = now;
  }
  waits_ = waits;
  if (now - begun_ - mark_.time < kInterval) return;
  const PacerUse use = total(now);
  last_ = {use.time - mark_.time, use.busy - mark_.busy, use.backlogged - mark_.backlogged,
           use.bytes - mark_.bytes};
  mark_ = use;
}

PacerUse Pacer::total(Time now) const {
  now = std::max(now, begun_);  // made by a thread whose clock was read later
  const Duration ahead = std::max(free_ - now, Duration::zero());
  Duration lost = lost_;
  if (waits_) lost += std::max(now - kCatchUp - free_, Duration::zero());
  return {now - begun_, wire_ - ahead, wire_ - ahead + lost, bytes_};
}

}  // namespace mtl::phy
