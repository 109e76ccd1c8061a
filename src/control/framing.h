#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace google::protobuf {
class MessageLite;
}

/// The framing of the control API (proto/mtlink/control.proto): u32 big-endian length, then so many
/// bytes of a protobuf message.
namespace mtl::control {

inline constexpr std::size_t kLengthBytes = 4;
inline constexpr std::size_t kMaxRequest = std::size_t{1} << 20;    ///< bytes of a Request
inline constexpr std::size_t kMaxResponse = std::size_t{16} << 20;  ///< bytes of a Response
/// Descriptors of one message at most: what a slot grant needs (memory, doorbell).
inline constexpr std::size_t kGrantFds = 2;
/// Those of the request for a capture (its memory). No other request has any.
inline constexpr std::size_t kCaptureFds = 1;

/// `message` with its length in front. Error: it is longer than `limit` bytes.
Result<std::string> frame(const google::protobuf::MessageLite& message, std::size_t limit);

/// The length that the first kLengthBytes of `bytes` say.
std::size_t frame_length(const char* bytes);

}  // namespace mtl::control
