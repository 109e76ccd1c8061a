#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/counter.h"
#include "base/drop.h"
#include "base/ids.h"
#include "base/serial.h"
#include "base/time.h"
#include "link/codec.h"
#include "link/config.h"
#include "link/frame_out.h"
#include "link/receiver.h"
#include "link/sender.h"

namespace mtl::link {

enum class State : std::uint8_t { kDown, kInit, kUp };  // L4

/// Why the link last left UP, or is DOWN (L8).
enum class DownReason : std::uint8_t {
  kNone,
  kDisabled,
  kNoCarrier,
  kDead,
  kReplayExhausted,
  kPeerRestart,
  kPeerClose,
  kCount,
};
const char* name(State state);
const char* name(DownReason reason);

/// The random numbers of one bring-up (L4): a nonce, not 0, and an epoch, 1..255, other than the last.
struct BringUp {
  std::uint32_t nonce = 0;
  std::uint8_t epoch = 0;
};

/// Who owns a link: a node's shard. Called within the link's own calls; it may submit to this link
/// and release cells of it from within, and nothing else.
class Owner {
 public:
  /// A packet in order (L13), its notes' ingress set; the owner takes it, and its cells stay
  /// occupied until release().
  virtual void packet_in(PortId port, Buffer* packet) = 0;
  /// The peer acknowledged a packet: the owner takes it back and frees the cells of its ingress.
  virtual void packet_acked(PortId port, Buffer* packet) = 0;
  /// A packet handed back on leaving UP (L9), in order; the owner takes it.
  virtual void packet_back(PortId port, Buffer* packet) = 0;
  /// Usability, peer parameters or state changed.
  virtual void link_changed(PortId port) = 0;
  /// Numbers for the next bring-up; `last_epoch` is 0 at first.
  virtual BringUp bring_up(PortId port, std::uint8_t last_epoch) = 0;

 protected:
  ~Owner() = default;
};

/// What a link counts beside drops. One writer: the link's thread.
struct Counters {
  DropCounters drops;
  std::array<Counter, kKinds> frames_in;   ///< by kind, after L3's checks
  std::array<Counter, kKinds> frames_out;  ///< by kind
  Counter frames_seen;        ///< frames of our EtherType given to receive()
  Counter bytes_in;           ///< bodies of DATA delivered
  Counter bytes_out;          ///< bodies of DATA sent, again included
  Counter packets_in;         ///< delivered to the owner in order
  Counter packets_acked;      ///< released by the peer's ack
  Counter packets_back;       ///< handed back (L9)
  Counter held_discarded;     ///< frames held out of order that a link's end discarded (L9)
  Counter replays;            ///< DATA sent again
  Counter replay_timeouts;    ///< expiries of the replay timer
  Counter polls;              ///< STATUS sent with POLL
  Counter credit_stalls;      ///< times that a VC's head began to lack credit
  Counter ups;                ///< times that the link came UP
  std::array<Counter, static_cast<std::size_t>(DownReason::kCount)> downs;
};

/// One end of one link: bring-up, sequence, CRC, replay and credits (protocol page, sections 1 to 3).
///
/// A state machine without I/O: frames, calls and the time go in; packets come out by Owner, frames
/// are pulled by next_frame() when the port has room. All memory is allocated by the constructor.
/// One thread. `now` never goes back.
///
///        enable, carrier                 INIT with our nonce (L6)
///   DOWN ---------------> INIT ------------------------------------> UP
///    ^  <---------------   ^ <---------------------------------------'|
///    |  disable, no carrier '  dead, peer_restart, peer_close         |
///    '----------------------------------------------------------------'
///       disabled, no_carrier, replay_exhausted (hold_down, then INIT)
class Link {
 public:
  /// `config` must have no fault(). The owner outlives the link.
  Link(const Config& config, Owner& owner);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  // The owner's calls.
  void enable(Time now);
  void disable(Time now);
  void set_carrier(bool carrier, Time now);

  /// A frame from the port, data at its Ethernet header, 802.1Q tag taken out. Takes the buffer.
  void receive(Buffer* frame, Time now);

  /// Queues a packet on its notes' egress_vc. Takes the buffer. Only when usable() and can_take().
  void submit(Buffer* packet, Time now);

  /// `count` cells of VC `vc` of this port's receive buffer are free again (L20), of whatever session.
  void release(Vc vc, std::uint16_t count, Time now);

  /// The next instant at which expire() has something to do, or earlier; kNever if nothing.
  Time next_deadline() const { return deadline_; }
  /// Handles the first timer, in C2's order, that is due at `now`; false if none was. Frames are to
  /// be pulled before the next call.
  bool expire(Time now);

  /// Makes the next frame that is due (L26's order); false if none. The frame counts as sent.
  bool next_frame(Time now, FrameOut& out);
  /// Whether next_frame() may have something; false is certain.
  bool wants_to_send() const;

  // What others may know.
  State state() const { return state_; }
  DownReason down_reason() const { return down_reason_; }
  bool enabled() const { return enabled_; }
  bool carrier() const { return carrier_; }
  /// N7: UP, and a valid frame of the session has come in.
  bool usable() const { return state_ == State::kUp && heard_; }
  /// N7: whether the peer can ever take a packet of `length` bytes on `vc`.
  bool can_take(std::uint32_t length, Vc vc) const;
  std::uint16_t link_mtu() const { return link_mtu_; }
  /// What the peer's last accepted INIT said; nullopt before one came in this bring-up.
  const std::optional<Init>& peer() const { return peer_; }
  const std::optional<Mac>& peer_mac() const { return peer_mac_; }
  const Config& config() const { return config_; }
  const Counters& counters() const { return counters_; }
  /// Packets queued and not yet sent, cells of them on a VC (by the peer's cell), frames unacknowledged.
  std::uint32_t queued() const { return queued_; }
  std::uint32_t queued_cells(Vc vc) const { return queue_cells_[vc.value()]; }
  std::uint32_t queued_own() const { return queued_own_; }
  std::uint32_t unacknowledged() const { return sender_.outstanding(); }
  std::uint32_t held() const { return receiver_.held(); }
  /// Cells of our receive buffer occupied by packets of any session.
  std::uint32_t occupied(Vc vc) const { return occupied_[vc.value()]; }
  /// Credit left at the peer for a VC.
  std::uint16_t credit(Vc vc) const;
  /// Smoothed round trip and last sample (L19); zero before one.
  Duration round_trip() const { return rtt_; }
  Duration last_round_trip() const { return rtt_last_; }
  Duration replay_timeout() const { return replay_timeout_; }
  Duration nack_interval() const { return nack_interval_; }
  /// Bytes that the constructor allocated for this configuration.
  std::size_t memory() const;
};

}  // namespace mtl::link
