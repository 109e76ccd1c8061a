#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/result.h"

/// Quantities that the operator types. Errors show what was typed and what is expected.
namespace mtl::tools {

/// A time with its unit, "250us", "1.5ms", "2s": a number without one could mean anything. From 0
/// to an hour; parts of a microsecond are an error.
Result<std::chrono::microseconds> parse_time(const std::string& text);

/// A rate in percent, "1", "0.1", "0.1%", as parts per million. From 0 to 100; finer than 0.0001 %
/// is an error, never rounded.
Result<std::uint32_t> parse_percent(const std::string& text);

/// Bits per second, "160M", "2.5G", "1600000": k, M, G and T are powers of 1,000. With a divisor
/// ("1.6T/10000") the rate of a link scaled down. Less than a bit, and what the divisor leaves
/// over, is an error, never rounded. From kMinRateBps to kMaxRateBps after division.
Result<std::uint64_t> parse_bit_rate(const std::string& text);

/// Bytes, "1500000", "10M", "2.5G": k, M, G are powers of 1,000. From 1k to 1T; parts of a byte are
/// an error.
Result<std::uint64_t> parse_size(const std::string& text);

}  // namespace mtl::tools
