#pragma once

#include <cstddef>
#include <optional>

#include "base/ids.h"
#include "conformance/judge/finding.h"
#include "conformance/judge/frame.h"
#include "link/codec.h"

/// What a frame shows by itself, whatever came before. Its header CRC is right, so that what that
/// covers is as its side made it: what is wrong there is certain. MACs, padding and the frame's
/// length are covered by the FCS alone, of which a capture says nothing, and what stands between
/// the side and the tap (a bridge, a tap with a trailer of its own) may alter them.
namespace mtl::conformance::judge {

/// Whether version, kind and length are legal, without a word about it.
bool legal_shape(const LinkFrame& frame);

/// Whether kind and length are legal (L3), so that the frame can be judged further; a finding
/// otherwise.
bool judge_shape(const LinkFrame& frame, std::size_t side, Reporter& reporter);

/// Header fields, padding and what the kind's body says of itself (P2, P4, L2, L8, L15, L24). The
/// shape is legal. False: a later judgement would rest on nonsense.
bool judge_form(const LinkFrame& frame, std::size_t side, Reporter& reporter);

/// The INIT that a frame of that kind and legal shape carries.
link::Init read_init(const LinkFrame& frame);
/// Whether every receiver must refuse it (L6); then a finding.
bool judge_init(const link::Init& init, const LinkFrame& frame, std::size_t side,
                Reporter& reporter);

/// Network header and echo (N1, N3, N6, N11) of a DATA with right packet CRC. `node` is the sending
/// side's, if known: what a packet's source did wrong is its finding only where it is that node.
void judge_packet(const LinkFrame& frame, std::size_t side, std::optional<NodeId> node,
                  Reporter& reporter);
/// Whether such a DATA is an echo error made by `node` (N11 bounds their rate).
bool is_own_error(const LinkFrame& frame, std::optional<NodeId> node);

}  // namespace mtl::conformance::judge
