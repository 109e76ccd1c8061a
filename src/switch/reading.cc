#include "switch/reading.h"

namespace mtl::switchd {

DropReading read(const DropCounters& drops) {
  DropReading out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = drops.get(static_cast<Drop>(i));
  return out;
}

void MediumReading::add(const phy::PortCounters& counters) {
  frames_in += counters.frames_in.get();
  frames_out += counters.frames_out.get();
  bytes_in += counters.bytes_in.get();
  bytes_out += counters.bytes_out.get();
  send_full += counters.send_full.get();
  const DropReading more = read(counters.drops);
  for (std::size_t i = 0; i < drops.size(); ++i) drops[i] += more[i];
}

void MediumReading::add(const MediumReading& more) {
  frames_in += more.frames_in;
  frames_out += more.frames_out;
  bytes_in += more.bytes_in;
  bytes_out += more.bytes_out;
  send_full += more.send_full;
  for (std::size_t i = 0; i < drops.size(); ++i) drops[i] += more.drops[i];
}

void RemovedReading::add(const link::Counters& link, const MediumReading& former) {
  ++ports;
  packets_in += link.packets_in.get();
  packets_acked += link.packets_acked.get();
  packets_back += link.packets_back.get();
  medium.add(former);
  const DropReading more = read(link.drops);
  for (std::size_t i = 0; i < link_drops.size(); ++i) link_drops[i] += more[i];
}

void read(const link::Link& link, PortReading& out) {
  out.counters = link.counters();
  out.enabled = link.enabled();
  out.carrier = link.carrier();
  out.state = link.state();
  out.down_reason = link.down_reason();
  out.peer = link.peer();
  out.peer_mac = link.peer_mac();
  out.link_mtu = link.link_mtu();
  out.round_trip = link.round_trip();
  out.replay_timeout = link.replay_timeout();
  out.nack_interval = link.nack_interval();
  out.unacknowledged = link.unacknowledged();
  out.queued = link.queued();
  out.held = link.held();
  out.memory = link.memory();
  for (std::size_t v = 0; v < kVcs; ++v) {
    const Vc vc(static_cast<std::uint8_t>(v));
    out.vcs[v] = {link.occupied(vc), link.credit(vc), link.queued_cells(vc),
                  link.counters().marked[v].get()};
  }
}

void read(const network::Shard& shard, const network::Trunk& trunk, TrunkReading& out) {
  out.here = shard.link(trunk.leader()) != nullptr;
  if (!out.here) return;
  for (std::size_t i = 0; i < out.lanes.size(); ++i) {
    const network::Trunk::Lane& lane = trunk.lanes()[i];
    out.lanes[i] = {lane.port, lane.usable, shard.link(lane.port)->queued(), lane.packets.get(),
                    lane.flows};
  }
  out.spread = trunk.spread();
  out.moves = trunk.moves();
  out.forced_moves = trunk.forced_moves();
}

}  // namespace mtl::switchd
