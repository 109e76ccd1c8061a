#include "link/frame_out.h"

#include <cstring>

#include "base/byte_order.h"
#include "base/copy.h"

namespace mtl::link {

/// The header of an untagged DATA goes by the pieces in which a link has just written it
/// (Link::finish, encode): a CPU hands a store on to a load that it covers, but makes a load of
/// several stores wait.
void FrameOut::copy_header(std::byte* out) const {
  static_assert(kEthernetHeader == 14 && kFrameHeader == 30);
  const std::byte* const from = head.data();
  std::memcpy(out, from, 8);
  std::memcpy(out + 8, from + 8, 4);
  std::memcpy(out + 12, from + 12, 2);
  std::memcpy(out + 14, from + 14, 8);
  std::memcpy(out + 22, from + 22, 8);
}

std::uint32_t FrameOut::write(std::byte* out) const {
  if (head_length == kFrameHeader) {
    copy_header(out);
  } else {
    std::memcpy(out, head.data(), head_length);
  }
  std::uint32_t n = head_length;
  if (packet != nullptr) {
    copy_short(out + n, packet->data, packet->length);
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
