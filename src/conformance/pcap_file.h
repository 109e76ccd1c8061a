#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/time.h"

/// Capture files, read and written whole, by libpcap.
namespace mtl::conformance {

/// Bounds of a capture that is read whole: what exceeds them is refused, not cut.
inline constexpr std::size_t kMaxCaptureFrames = 4'000'000;
inline constexpr std::size_t kMaxCaptureBytes = std::size_t{1} << 30;  ///< of all frames together

/// One frame of a capture, with its whole content.
struct CapturedFrame {
  Time at;                       ///< nanoseconds since the capture's epoch
  std::vector<std::byte> bytes;  ///< from the Ethernet header on, without FCS
  friend bool operator==(const CapturedFrame&, const CapturedFrame&) = default;
};

/// Every frame of the capture `path`, in the file's order; none for a file of the header alone.
/// Files of microseconds are read too, as multiples of 1,000 ns. Refused, with file and frame
/// number (from 1, as Wireshark counts): what libpcap cannot read, another link type than Ethernet,
/// a file that ends within a frame, a frame that was cut by the snap length, nanoseconds beyond a
/// second, and what exceeds the bounds above.
Result<std::vector<CapturedFrame>> read_capture(const std::filesystem::path& path);

/// Writes `frames` as a classic capture with nanosecond times, replacing `path`. A frame longer
/// than 65,535 bytes or a time before 0 or beyond 2^32 s is an error. On an error the file may be
/// left incomplete.
Result<void> write_capture(const std::filesystem::path& path,
                           std::span<const CapturedFrame> frames);

}  // namespace mtl::conformance
