#include "control/framing.h"

#include <google/protobuf/message_lite.h>

#include "base/byte_order.h"

namespace mtl::control {

Result<std::string> frame(const google::protobuf::MessageLite& message, std::size_t limit) {
  const std::size_t length = message.ByteSizeLong();
  if (length > limit)
    return Error{"the message has " + std::to_string(length) + " bytes, at most " +
                 std::to_string(limit) + " fit into one of the control API: ask for less"};
  std::string bytes(kLengthBytes, '\0');
  store32(reinterpret_cast<std::byte*>(bytes.data()), static_cast<std::uint32_t>(length));
  bytes.reserve(kLengthBytes + length);
  if (!message.AppendToString(&bytes))
    return Error{"a message of the control API could not be written: a text in it is not UTF-8"};
  return bytes;
}

std::size_t frame_length(const char* bytes) {
  return load32(reinterpret_cast<const std::byte*>(bytes));
}

}  // namespace mtl::control
