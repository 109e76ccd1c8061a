#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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

/// The random numbers of one bring-up (L4): a nonce, not 0, and an epoch, 1..255, other than the
/// last.
struct BringUp {
  std::uint32_t nonce = 0;
  std::uint8_t epoch = 0;
};

/// Who owns a link: a node's shard. Called within the link's own calls; it may submit to this link
/// and release cells of it from within, and nothing else.
class Owner {
 public:
  /// Packets in order (L13), the notes' ingress set; the owner takes them, and their cells stay
  /// occupied until release().
  virtual void packets_in(PortId port, std::span<Buffer* const> packets) = 0;
  /// The peer acknowledged packets, the oldest first: the owner takes them back and frees the cells
  /// of their ingress.
  virtual void packets_acked(PortId port, std::span<Buffer* const> packets) = 0;
  /// A packet handed back on leaving UP (L9), in order; the owner takes it.
  virtual void packet_back(PortId port, Buffer* packet) = 0;
  /// Usability, peer parameters or state changed.
  virtual void link_changed(PortId port) = 0;
  /// Numbers for the next bring-up; `last_epoch` is 0 at first.
  virtual BringUp bring_up(PortId port, std::uint8_t last_epoch) = 0;
  /// Link::next_deadline() has come nearer, to `at`: for who does not want to ask each link.
  virtual void deadline_nearer(Time at) { (void)at; }

 protected:
  ~Owner() = default;
};

/// What a link counts beside drops. One writer: the link's thread.
struct Counters {
  DropCounters drops;
  std::array<Counter, kKinds> frames_in;   ///< by kind, after L3's checks
  std::array<Counter, kKinds> frames_out;  ///< by kind
  Counter frames_seen;                     ///< frames of our EtherType given to receive()
  Counter bytes_in;                        ///< bodies of DATA delivered
  Counter bytes_out;                       ///< bodies of DATA sent, again included
  Counter packets_in;                      ///< delivered to the owner in order
  Counter packets_acked;                   ///< released by the peer's ack
  Counter packets_back;                    ///< handed back (L9)
  Counter held_discarded;   ///< frames held out of order that a link's end discarded (L9)
  Counter replays;          ///< DATA sent again
  Counter replay_timeouts;  ///< expiries of the replay timer
  Counter polls;            ///< STATUS sent with POLL
  Counter credit_stalls;    ///< times that a VC's head began to lack credit
  Counter ups;              ///< times that the link came UP
  std::array<Counter, static_cast<std::size_t>(DownReason::kCount)> downs;
  std::array<Counter, kVcs> marked;  ///< packets that the owner set CE of, by VC (N12)
};

/// One end of one link: bring-up, sequence, CRC, replay and credits (protocol page, sections 1 to
/// 3).
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
  /// `config` must have no fault(). The owner outlives the link, or rebind() is called.
  Link(const Config& config, Owner& owner);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link();

  // The owner's calls.
  /// The link has another owner from now on, on another thread if the two see to it that nothing
  /// of this call and those before comes after what follows. Not within a call of the link's.
  void rebind(Owner& owner) { owner_ = &owner; }
  void enable(Time now);
  void disable(Time now);
  void set_carrier(bool carrier, Time now);

  /// Frames from the port, the oldest first, data at the Ethernet header, 802.1Q tag taken out.
  /// Takes the buffers.
  void receive(std::span<Buffer* const> frames, Time now);
  void receive(Buffer* frame, Time now) { receive({&frame, 1}, now); }

  /// Queues a packet on its notes' egress_vc. Takes the buffer. Only when usable() and can_take().
  void submit(Buffer* packet, Time now);
  /// The owner set CE of a packet that it is about to submit on `vc` (N12).
  void count_marked(Vc vc) { counters_.marked[vc.value()].add(); }

  /// `count` cells of VC `vc` of this port's receive buffer are free again (L20), of whatever
  /// session.
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
  /// Why the link is DOWN, or last left UP; kNone while it is UP for the first time.
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
  /// Packets queued and not yet sent, cells of them on a VC (by the peer's cell), frames
  /// unacknowledged.
  std::uint32_t queued() const { return queued_; }
  /// Bytes of the packets queued.
  std::uint64_t queued_bytes() const { return queued_bytes_; }
  std::uint32_t queued_cells(Vc vc) const { return queue_cells_[vc.value()]; }
  /// N12: cells queued on a VC beyond which a packet that follows is marked; the most there is:
  /// never.
  std::uint32_t mark_cells() const { return mark_cells_; }
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

 private:
  // Bring-up (link.cc).
  void enter_init(Time now);
  void enter_up(Time now);
  void enter_down(DownReason reason);
  void leave_up(DownReason reason);
  void restart(DownReason reason, Time now);
  void on_init(const Init& init, const std::byte* frame, Time now);
  void on_init_in_init(const Init& init, const std::byte* frame, Time now);
  void on_init_in_up(const Init& init, const std::byte* frame, Time now);
  std::optional<Drop> refuse(const Init& init) const;
  bool told(std::uint32_t nonce) const;
  bool foreign(const std::byte* frame) const;
  void set_peer_mac(const std::optional<Mac>& mac);
  void drop(Drop reason, Buffer* buffer) {
    counters_.drops.add(reason);
    give_back(buffer);
  }

  /// L22: what is accepted never passes the allocation, so the difference is what is left of it.
  bool over_credit(std::size_t vc, std::uint16_t cells) const {
    return cells > allocation_[vc].since(accepted_[vc]);
  }

  // Frames of the session (session.cc).
  bool receive_expected(Buffer* frame, Time now);
  void receive_one(Buffer* frame, Time now);
  void hand_over();
  void on_session_frame(const Decoded& frame, Buffer* buffer, Time now);
  void on_data(const Header& header, Buffer* buffer, Time now);
  void accept(Seq seq, Receiver::Place place, const Receiver::Frame& frame, Time now);
  void deliver(const Receiver::Frame& frame, Time now);
  void on_status(const Header& header, std::span<const std::byte> body, Time now);
  void on_nack(std::span<const std::byte> body);
  bool on_ack(Seq ack, Time now);
  void on_limit(std::size_t vc, CellCount limit, Time now);
  void sample_round_trip(Duration sample);
  void head_changed(std::size_t vc, Time now);

  // Timers (timers.cc).
  bool expire_bring_up(Time now);
  bool expire_replay(Time now);
  bool expire_nack(Time now);
  bool expire_poll(Time now);
  bool expire_ack_and_credit(Time now);
  Time poll_time() const;
  Time exact_deadline();
  void arm(Time at) {
    if (at >= deadline_) return;
    deadline_ = at;
    owner_->deadline_nearer(at);
  }

  // Frames out (frames.cc).
  void make_close(FrameOut& out);
  void make_init(bool fresh, Time now, FrameOut& out);
  bool make_again(Time now, FrameOut& out);
  bool make_nack(Time now, FrameOut& out);
  bool make_data(Time now, FrameOut& out);
  bool make_status(Time now, FrameOut& out);
  void make_data_frame(Seq seq, Buffer* packet, bool replay, Time now, FrameOut& out);
  void finish(const Header& header, FrameOut& out, Time now);
  void tell_ack();
  void tell_allocation(std::size_t vc);
  bool nack_is_due() const { return receiver_.unlisted() != 0 || nack_by_timer_ || nack_more_; }
  bool status_is_due() const;

  const Config config_;
  Owner* owner_;
  const CellSize cell_;  ///< ours
  Counters counters_;

  // Bring-up.
  State state_ = State::kDown;
  DownReason down_reason_ = DownReason::kDisabled;
  bool enabled_ = false;
  bool carrier_ = false;
  bool heard_ = false;                               ///< a valid frame of the session has come in
  BringUp ours_;                                     ///< nonce and epoch of this bring-up
  std::optional<Init> peer_;                         ///< as L6 took it last
  std::optional<Mac> peer_mac_;                      ///< configured or learned
  std::array<std::byte, kEthernetHeader> ethernet_;  ///< of frames to it, or to kUnknownPeer
  std::uint64_t from_peer_ = 0;  ///< source and EtherType of its frames, as they lie in them
  CellSize peer_cell_{1};
  std::uint32_t mark_cells_ = kNeverMark;
  std::uint16_t link_mtu_ = 0;
  /// L6: each peer_nonce that an INIT of this bring-up carried; 0: none. Several peers may speak on
  /// one wire, or one may restart. Of more than these the oldest is forgotten: then an INIT too
  /// many goes before the STATUS of UP, which the peer ignores, or answers once (L7).
  std::array<std::uint32_t, 8> nonces_told_{};
  std::uint8_t nonce_turn_ = 0;  ///< the next place in it
  Time init_at_ = kNever;        ///< next INIT
  Time hold_until_ = kNever;     ///< end of hold_down
  bool init_fresh_due_ = false;  ///< the INIT of L4, which knows no peer
  bool init_due_ = false;
  struct PendingClose {
    CloseReason reason;
    std::uint8_t epoch;
    Mac mac;
  };
  std::optional<PendingClose> close_due_;

  // Receiving.
  static constexpr std::size_t kRun = 32;
  std::array<Buffer*, kRun> in_order_;  ///< packets that the owner is still to be told of
  std::size_t in_order_count_ = 0;
  Receiver receiver_;
  std::array<CellCount, kVcs> accepted_{};     ///< cells of frames accepted (L22)
  std::array<CellCount, kVcs> allocation_{};   ///< A (L20)
  std::array<CellCount, kVcs> told_{};         ///< allocation last told
  std::array<Time, kVcs> ahead_since_{};       ///< clock of L23 for the bits in ahead_
  std::array<std::uint16_t, kVcs> quarter_{};  ///< L23: a quarter of the capacity
  std::array<std::uint32_t, kVcs> occupied_{};
  std::uint8_t ahead_ = 0;          ///< VCs whose allocation differs from the one told
  std::uint8_t quarter_ahead_ = 0;  ///< VCs ahead by a quarter
  std::uint8_t credit_turn_ = 0;    ///< VC to look at first (L24)
  Seq ack_told_;
  Time ack_since_ = kNever;  ///< clock of L23; kNever: E is told
  Time last_valid_{};
  std::uint32_t status_t_tx_ = 0;  ///< of the last STATUS taken (3.3)
  Time status_at_ = kNever;        ///< its arrival; kNever: none in this session

  // Sending.
  Sender sender_;
  std::array<BufferQueue, kVcs> queues_;
  std::array<std::uint32_t, kVcs> queue_cells_{};
  std::array<CellCount, kVcs> limit_{};   ///< heard (L21)
  std::array<CellCount, kVcs> used_{};    ///< U (L21)
  std::array<Time, kVcs> lacks_since_{};  ///< L21, for the bits in lacking_
  std::uint8_t ready_ = 0;                ///< VCs whose head has credit
  std::uint8_t lacking_ = 0;              ///< VCs whose head lacks credit
  std::uint8_t turn_ = 0;                 ///< VC to look at first (L25)
  std::uint32_t queued_ = 0;
  std::uint32_t queued_own_ = 0;
  std::uint64_t queued_bytes_ = 0;
  Time replay_at_ = kNever;
  std::uint32_t timeouts_ = 0;  ///< in a row
  Time up_since_{};
  Time last_poll_{};
  Time last_sent_{};

  static constexpr std::uint32_t kNeverMark = 0xFFFFFFFF;
  void ask_for_status(bool& duty, Time now) {
    duty = true;
    if (status_due_since_ == kNever) status_due_since_ = now;
  }

  // Duties of the session, from events to next_frame().
  bool nack_by_timer_ = false;
  bool nack_more_ = false;          ///< a NACK did not hold all that was due
  Time status_due_since_ = kNever;  ///< when the oldest of the next two began to be due
  bool answer_due_ = false;         ///< STATUS on UP, to an INIT or a POLL (L23)
  bool poll_due_ = false;           ///< STATUS with POLL
  bool ack_due_ = false;            ///< after a duplicate, or ack_delay
  std::uint8_t credit_due_ = 0;     ///< VCs whose clock has run out
  bool keepalive_due_ = false;

  // Round trip and what follows it (L19, L27).
  Duration rtt_{0};
  Duration rtt_var_{0};
  Duration rtt_last_{0};
  Duration replay_timeout_;
  Duration nack_interval_;

  Time deadline_ = kNever;  ///< lower bound of all timers
};

}  // namespace mtl::link
