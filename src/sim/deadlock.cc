#include "sim/deadlock.h"

#include <fmt/format.h>

#include <algorithm>

#include "network/packet.h"

namespace mtl::sim {
namespace {

constexpr std::size_t kNone = ~std::size_t{0};

/// What VCs wait for. Channel c is direction c / kVcs of the wires (two each), VC c % kVcs.
class Waits {
 public:
  explicit Waits(const Fabric& fabric) : fabric_(fabric), next_(fabric.wires() * 2 * kVcs) {
    for (std::size_t c = 0; c < next_.size(); ++c) {
      if (lacks_credit(c)) waiting_.push_back(c);
    }
    number_ports();
    for (const std::size_t c : waiting_) look_into_buffer(c);
    drop_those_that_go_on();
  }

  std::vector<WaitingVc> cycle() const {
    if (waiting_.empty()) return {};
    // Each waits for another, so that a walk comes back to where it has been.
    std::vector<std::size_t> way;
    std::size_t at = waiting_.front();
    auto seen = way.begin();
    while ((seen = std::find(way.begin(), way.end(), at)) == way.end()) {
      way.push_back(at);
      at = next_[at].front();
    }
    std::vector<WaitingVc> out;
    for (; seen != way.end(); ++seen) out.push_back(tell(*seen));
    return out;
  }

 private:
  PortRef from(std::size_t c) const { return fabric_.wire(c / kVcs / 2).plan().ends[c / kVcs % 2]; }
  PortRef to(std::size_t c) const {
    return fabric_.wire(c / kVcs / 2).plan().ends[1 - c / kVcs % 2];
  }
  static Vc vc(std::size_t c) { return Vc{static_cast<std::uint8_t>(c % kVcs)}; }
  const link::Link* link(PortRef at) const { return fabric_.node(at.node).link(at.port); }

  /// The head of the queue lacks credit, and no credit is on its way.
  bool lacks_credit(std::size_t c) const {
    const link::Link* const sender = link(from(c));
    const link::Link* const receiver = link(to(c));
    if (sender == nullptr || receiver == nullptr) return false;
    if (!sender->usable() || !receiver->usable()) return false;
    if (sender->queued_cells(vc(c)) == 0 || sender->unacknowledged() != 0) return false;
    if (sender->wants_to_send()) return false;
    const std::uint32_t occupied = receiver->occupied(vc(c));
    return sender->credit(vc(c)) + occupied == receiver->config().capacity[c % kVcs];
  }

  void number_ports() {
    for (std::uint32_t n = 0; n < fabric_.nodes(); ++n) {
      directions_.emplace_back(fabric_.node(n).slots().size(), kNone);
    }
    for (std::size_t d = 0; d < fabric_.wires() * 2; ++d) {
      const PortRef end = from(d * kVcs);
      directions_[end.node][end.port.value()] = d;
    }
  }

  void look_into_buffer(std::size_t c) {
    const PortRef at = to(c);
    const NodeHost& node = fabric_.node(at.node);
    node.pool(at.port).for_each_in_use([&](const Buffer& buffer) {
      const PacketNotes& notes = buffer.notes;
      if (notes.ingress != at.port || notes.ingress_vc != vc(c)) return;
      const bool queued = notes.egress != kNoPort && !notes.returning && !delivered(node, buffer);
      next_[c].push_back(queued ? directions_[at.node][notes.egress.value()] * kVcs +
                                      notes.egress_vc.value()
                                : kNone);
    });
  }

  static bool delivered(const NodeHost& node, const Buffer& buffer) {
    return std::any_of(node.shards().begin(), node.shards().end(),
                       [&](const auto& shard) { return shard->was_delivered(buffer); });
  }

  // One goes on if anything in its buffer may leave it; then so may what waits for that one.
  void drop_those_that_go_on() {
    for (std::vector<std::size_t> before; before.size() != waiting_.size();) {
      before = waiting_;
      std::erase_if(waiting_, [&](std::size_t c) {
        return next_[c].empty() ||
               std::any_of(next_[c].begin(), next_[c].end(), [&](std::size_t next) {
                 return !std::binary_search(before.begin(), before.end(), next);
               });
      });
    }
  }

  WaitingVc tell(std::size_t c) const {
    const link::Link& sender = *link(from(c));
    WaitingVc out{from(c),
                  to(c),
                  vc(c),
                  sender.queued_cells(vc(c)),
                  sender.credit(vc(c)),
                  link(to(c))->config().capacity[c % kVcs],
                  {}};
    fabric_.node(out.to.node).pool(out.to.port).for_each_in_use([&](const Buffer& buffer) {
      if (buffer.notes.ingress != out.to.port || buffer.notes.ingress_vc != out.vc) return;
      out.packets_for.push_back(network::decode(buffer.bytes()).dst);
    });
    std::sort(out.packets_for.begin(), out.packets_for.end());
    out.packets_for.erase(std::unique(out.packets_for.begin(), out.packets_for.end()),
                          out.packets_for.end());
    return out;
  }

  const Fabric& fabric_;
  std::vector<std::size_t> waiting_;                  ///< channels, ascending
  std::vector<std::vector<std::size_t>> next_;        ///< by channel: what its buffer waits for
  std::vector<std::vector<std::size_t>> directions_;  ///< by node, port
};

}  // namespace

std::vector<WaitingVc> find_waiting_cycle(const Fabric& fabric) {
  return Waits(fabric).cycle();
}

std::string describe(const std::vector<WaitingVc>& cycle) {
  std::string text = fmt::format("{} VCs wait for credit of each other:\n", cycle.size());
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const WaitingVc& at = cycle[i];
    std::string ids;
    for (const NodeId id : at.packets_for) ids += fmt::format(" {}", id.value());
    text += fmt::format(
        "node {} port {} vc {}: {} cells wait for credit of node {} port {} ({} of "
        "{} cells left), which packets for id{} fill; they wait for {}\n",
        at.from.node, at.from.port.value(), at.vc.value(), at.queued, at.to.node,
        at.to.port.value(), at.credit, at.capacity, ids,
        i + 1 == cycle.size() ? "the first" : "the next");
  }
  return text;
}

}  // namespace mtl::sim
