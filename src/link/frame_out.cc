#include "link/frame_out.h"

#include <cstring>

namespace mtl::link {

std::uint32_t FrameOut::write(std::byte* out) const {
  std::memcpy(out, head.data(), head_length);
  std::uint32_t n = head_length;
  if (packet != nullptr) {
    std::memcpy(out + n, packet->data, packet->length);
    n += packet->length;
  }
  if (n >= min_length) return n;
  std::memset(out + n, 0, min_length - n);
  return min_length;
}

}  // namespace mtl::link
