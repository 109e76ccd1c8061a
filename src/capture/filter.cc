#include "capture/filter.h"

#include "base/byte_order.h"

namespace mtl::capture {
namespace {

constexpr std::size_t kType = 12;  // offsets in a frame
constexpr std::size_t kVcs = link::kEthernetHeader + 8;
constexpr std::size_t kDst = link::kFrameHeader + 4;
constexpr std::size_t kSrc = link::kFrameHeader + 6;

}  // namespace

bool Filter::passes(std::span<const std::byte> head, std::uint16_t ether_type) const {
  const bool data_alone = by_vc || node != NodeId{};
  if (!by_kind && !data_alone) return true;
  if (head.size() < link::kFrameHeader || load16(head.data() + kType) != ether_type) return false;
  const unsigned kind = load8(head.data() + link::kEthernetHeader) & 0x0FU;
  if (by_kind && (kind >= link::kKinds || (kinds >> kind & 1U) == 0)) return false;
  if (!data_alone) return true;
  if (kind != static_cast<unsigned>(link::Kind::kData) || head.size() < kHead) return false;
  const unsigned vc = load8(head.data() + kVcs) >> 4U;
  if (by_vc && (vc >= mtl::kVcs || (vcs >> vc & 1U) == 0)) return false;
  return node == NodeId{} || load16(head.data() + kDst) == node.value() ||
         load16(head.data() + kSrc) == node.value();
}

}  // namespace mtl::capture
