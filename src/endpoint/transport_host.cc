#include "endpoint/transport_host.h"

#include <algorithm>
#include <utility>

namespace mtl::endpoint {
namespace {

constexpr PortId kPort{0};

}  // namespace

TransportHost::TransportHost(const transport::Settings& settings, const transport::Limits& limits,
                             network::Shard& shard, BufferPool& pool, runtime::RandomStock& random)
    : shard_(shard),
      pool_(pool),
      random_(random),
      ahead_(std::min(kAhead, shard.node().config().own_limit)),
      operations_(settings, limits, *this) {}

TransportHost::~TransportHost() {
  if (spare_ != nullptr) give_back(spare_);
}

std::uint64_t TransportHost::draw() {
  const std::uint64_t high = random_.word();
  return high << 32 | random_.word();
}

/// While the link is not usable nothing is taken from the transport: what it keeps it sends when it
/// is, or gives up by its own timers.
bool TransportHost::link_takes() const {
  const link::Link& link = *shard_.link(kPort);
  return link.usable() && link.queued_own() < ahead_;
}

bool TransportHost::work(Time now) {
  bool busy = next_deadline() <= now;
  if (busy) transport().expire(now);
  while (wants_to_send()) {
    if (spare_ == nullptr) spare_ = pool_.take();
    if (spare_ == nullptr || !transport().next_packet(*spare_, now)) break;
    busy = true;
    Buffer* const packet = std::exchange(spare_, nullptr);
    if (shard_.submit(packet, now) == network::Submit::kTaken) continue;
    give_back(packet);  // lost, as on any way: it is sent again
    break;
  }
  return busy;
}

}  // namespace mtl::endpoint
