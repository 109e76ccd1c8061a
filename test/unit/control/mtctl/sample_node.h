#pragma once

#include <google/protobuf/text_format.h>

#include <cstdlib>

#include "mtlink/control.pb.h"

namespace mtl::tools {

/// A node as an operator may meet it, whose books balance: a switch with a trunk, impaired and with
/// faults behind it, a slot that nobody has claimed, and a port whose interface is gone.
inline mtlink::control::NodeState sample_node() {
  constexpr const char* kText = R"(
    node: 11 name: "sw1" version: "0.1.0" uptime_ns: 11525000000000 pid: 4242
    deadlock_check: "unproved" hop_choice: "hash" own_limit: 256
    ports {
      port: 0 name: "cable0" driver: "net_af_packet" device: "veth0" max_frame: 1514 enabled: true
      carrier: true worker: 0 frames_in: 1200 frames_out: 1100 bytes_in: 1572864 bytes_out: 900
      send_full: 3 impaired: 12
      drops { layer: "link" name: "bad_header_crc" count: 4 }
      drops { layer: "link" name: "duplicate" count: 2 }
      drops { layer: "phy" name: "impaired" count: 12 }
      impairment { drop_ppm: 10000 delay_us: 1500 seed: 7 }
      link {
        state: "up" peer_node: 12 peer_port: 3 peer_mac: "02:00:00:00:00:0c"
        mtu: 1484 round_trip_ns: 84000 unacknowledged: 5 queued: 2 held: 1
        kinds { kind: "DATA" in: 1003 out: 1030 } kinds { kind: "STATUS" in: 100 out: 60 }
        kinds { kind: "INIT" in: 3 out: 2 }
        packets_in: 1000 packets_acked: 1005 replays: 20 replay_timeouts: 6 ups: 2 frames_seen: 1110
        vcs { vc: 0 capacity: 64 occupied: 3 credit: 60 queued_cells: 12 marked: 3 }
      }
    }
    ports {
      port: 1 name: "slot1" driver: "local" device: "slot1" slot: true endpoint_node: 101 max_frame: 61440
      enabled: true carrier: false edge: true link { state: "down" down_reason: "no_carrier" }
    }
    ports {
      port: 2 name: "old" driver: "net_af_packet" device: "eth9" enabled: false
      fault: "interface eth9 is gone" link { state: "down" down_reason: "disabled" }
    }
    routes { dst: 12 tiers { hops { port: 0 } } }
    routes {
      dst: 21
      tiers { hops { port: 0 weight: 2 } hops { port: 2 } }
      tiers { hops { port: 1 raise: 1 } }
    }
    shards {
      shard: 0 accepted: 1000 made: 30 acked: 1005 delivered: 10 dropped: 8 held: 7 refused: 4
      drops { layer: "network" name: "no_route" count: 8 } drops { layer: "phy" name: "no_buffer" count: 1 }
    }
    shared_devices { name: "eth3" ports: 0 ports: 2 drops { layer: "link" name: "foreign" count: 6 } }
    workers {
      worker: 0 cpu: -1 loops: 5000 busy_cycles: 2000000000 idle_cycles: 1000000000 sleep_ns: 9000000000000
      sleeps: 777 cycles_hz: 2000000000
    }
    memory {
      pool_buffers: 4096 pool_free: 4000 buffer_bytes: 8388608 links_bytes: 524288 local_rings_bytes: 2097152
    }
  )";
  mtlink::control::NodeState node;
  if (!google::protobuf::TextFormat::ParseFromString(kText, &node)) std::abort();
  return node;
}

}  // namespace mtl::tools
