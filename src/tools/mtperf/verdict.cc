#include "tools/mtperf/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "network/packet.h"

namespace mtl::mtperf {
namespace {

using mtlink::perf::DatagramReport;
using mtlink::perf::PeerReport;

/// Who refused, and what that means when nothing arrived although the peer answered: its answers
/// and ours are the shortest packets, so what stops only longer ones is a link's MTU.
std::string cause(const PeerReport& peer, std::uint32_t self) {
  if (peer.refused() == 0) {
    return "nobody has told why: see `mtctl show drops` on the nodes of the path";
  }
  const std::string who =
      peer.refused_by() == self ? "this endpoint" : fmt::format("node {}", peer.refused_by());
  std::string text = fmt::format("{} were refused, at last by {} ({})", peer.refused(), who,
                                 peer.refused_reason());
  if (peer.refused_reason() == "no_route" && peer.refused_by() != self) {
    text += fmt::format(
        ". Short ones do reach it: packets of {} bytes ({} of them payload, on average) are likely "
        "longer than the MTU of a link on the path, see `mtctl show links` there; try a smaller "
        "--size",
        peer.sent_bytes() / peer.sent() + network::kMinPacket, peer.sent_bytes() / peer.sent());
  }
  return text;
}

}  // namespace

std::vector<std::string> complaints(const DatagramReport& report) {
  std::vector<std::string> all;
  for (const PeerReport& peer : report.peers()) {
    // Other content here is other content there, most likely: that is said below.
    if (peer.finished() && peer.sent() != 0 && peer.delivered() == 0 && peer.altered() == 0) {
      all.push_back(fmt::format("none of the {} datagrams to node {} arrived; {}", peer.sent(),
                                peer.node(), cause(peer, report.node())));
    }
    if (peer.finished() && peer.received() == 0 && peer.lost() == 0) {
      all.push_back(fmt::format(
          "node {} got nothing through to here: nothing was received that could be checked",
          peer.node()));
    }
    // What came with other content counts as lost, too, unless it came a second time.
    const std::uint64_t never_came = peer.lost() - std::min(peer.lost(), peer.altered());
    if (never_came != 0) {
      all.push_back(fmt::format(
          "{} datagrams of node {} were lost without a name: they have not come, and it was not "
          "told why. `mtctl show drops` on the nodes of the path tells. A node tells of 1,000 "
          "drops a second at most (N11), so after a burst of them the rest is counted there only; "
          "what a node held that died is counted nowhere",
          never_came, peer.node()));
    }
    if (peer.altered() != 0) {
      all.push_back(
          fmt::format("{} datagrams of node {} have other content than they should have; do both "
                      "ends run with the same --size and --seed?",
                      peer.altered(), peer.node()));
    }
  }
  return all;
}

}  // namespace mtl::mtperf
