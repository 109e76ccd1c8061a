#include "link/frame_out.h"

#include <cstring>

#include "base/byte_order.h"

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

void FrameOut::set_tagged(const FrameOut& untagged, VlanId vlan) {
  constexpr std::size_t kAddresses = 12;
  const std::byte* const from = untagged.head.data();
  std::memcpy(head.data(), from, kAddresses);
  store16(head.data() + kAddresses, kVlanEtherType);
  store16(head.data() + kAddresses + 2, vlan.value());
  std::memcpy(head.data() + kAddresses + kVlanTag, from + kAddresses,
              untagged.head_length - kAddresses);
  head_length = untagged.head_length + kVlanTag;
  tag_length = kVlanTag;
  packet = untagged.packet;
  // More than the least: it is what the longest DATA takes, which gets the tag, too.
  min_length = untagged.min_length > kMinFrame ? untagged.min_length + kVlanTag : kMinFrame;
  kind = untagged.kind;
  replay = untagged.replay;
}

}  // namespace mtl::link
