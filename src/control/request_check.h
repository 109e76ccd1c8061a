#pragma once

#include <cstdint>

#include "base/result.h"

namespace mtlink::control {
class Request;
}

namespace mtl::control {

inline constexpr std::uint32_t kMaxPingBytes = 1400;
inline constexpr std::uint32_t kMaxTimeoutMs = 60'000;
inline constexpr std::uint32_t kDefaultTimeoutMs = 1'000;
inline constexpr std::uint32_t kDefaultTraceHops = 16;
inline constexpr std::uint32_t kMaxHops = 255;
inline constexpr std::uint32_t kMaxWorker = 63;
inline constexpr std::uint32_t kDefaultWatchMs = 1'000;
inline constexpr std::uint32_t kMinWatchMs = 50;
inline constexpr std::uint32_t kMaxWatchMs = 3'600'000;
inline constexpr std::uint64_t kMaxDelayUs = 60'000'000;
inline constexpr std::uint64_t kMinRateBps = 1'000;
inline constexpr std::uint64_t kMaxRateBps = 1'000'000'000'000;
inline constexpr std::uint32_t kMaxRateOverhead = 255;
inline constexpr std::uint32_t kMaxCaptureSnap = 65'536;
inline constexpr std::uint32_t kMinCaptureRingKib = 256;
inline constexpr std::uint32_t kMaxCaptureRingKib = 1U << 20;
inline constexpr std::uint32_t kDefaultCaptureRingKib = 16'384;

/// Checks a request's values against the ranges of control.proto and puts defaults where a field is
/// 0 and has one, so that a Target sees neither. What depends on the node (whether a port exists,
/// whether routes are sound) stays the Target's. Error: names the field, its value and the range.
Result<void> check_request(mtlink::control::Request& request);

}  // namespace mtl::control
