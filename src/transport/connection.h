#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/buffer.h"
#include "base/time.h"
#include "transport/codec.h"
#include "transport/counters.h"
#include "transport/operation_layer.h"
#include "transport/receive_flow.h"
#include "transport/round_trip.h"
#include "transport/send_flow.h"
#include "transport/settings.h"

namespace mtl::transport {

/// Between two values of entropy that stand for different paths: odd, so that all values come.
inline constexpr std::uint32_t kEntropyStep = 0x9E37;

/// The other end of a connection (T1).
struct Peer {
  NodeId node;
  EndpointId endpoint;
  Partition partition;
  friend bool operator==(const Peer&, const Peer&) = default;
};

enum class State : std::uint8_t {
  kFree,     ///< none
  kOpening,  ///< T4
  kUp,       ///< T4
  kClosing,  ///< ended, its CLOSE not answered yet (T10)
  kEnded,    ///< ended; its end is not taken yet
};
const char* name(State state);

/// Why a connection ended.
enum class EndReason : std::uint8_t {
  kNone,
  kClosed,       ///< by its owner
  kProtocol,     ///< the peer broke T16
  kDead,         ///< nothing heard, or no ack, for peer_timeout
  kPeerClose,    ///< T10
  kPeerRestart,  ///< T6, T8
  kRejected,     ///< T8
  kOpenTimeout,  ///< T4
};
/// Its name on the page.
const char* name(EndReason reason);

/// What the peer's OPEN told, as it binds us.
struct PeerTerms {
  std::uint16_t mtu = 0;  ///< the connection's: the smaller of both (T4)
  std::uint16_t reads = 0;
  std::uint32_t messages = 0;
  std::uint32_t eager = 0;
};

/// What the connections of a node share; all of it outlives them.
struct ConnectionContext {
  const Settings& settings;
  OperationLayer& operations;
  Counters& counters;
  PacketPool& request_packets;
  PacketPool& response_packets;
  HeldPool& held_packets;
};

/// One side of a connection: how it comes and goes (section 5.1), and the delivery of its four
/// flows (5.2, 5.3). A state machine without I/O: packets, calls and the time go in; packets are
/// pulled. All memory is allocated by the constructor; the object is used for one connection after
/// another.
///
///             open(), noted OPEN           OPEN that names our id (T6)
///   FREE ----------------------> OPENING ------------------------------> UP
///    ^                               |  REJECT, open_timeout              |  CLOSE, REJECT,
///    |  its end is taken             v                                    v  restart, own end
///    '------------------------- ENDED <--------------- CLOSING <----------'
///                                       CLOSE, REJECT, open_timeout
class Connection {
 public:
  Connection(const ConnectionContext& context, std::uint32_t index);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // What it is.
  std::uint32_t index() const { return index_; }  ///< in the node's table, 0 and up
  State state() const { return state_; }
  ConnectionId id() const { return id_; }
  ConnectionId peer_id() const { return peer_id_; }  ///< noted or known; 0: none
  EndpointId endpoint() const { return endpoint_; }
  const Peer& peer() const { return peer_; }
  const PeerTerms& terms() const { return terms_; }  ///< only once it was UP
  bool opened_here() const { return opened_here_; }
  EndReason end_reason() const { return end_reason_; }
  RejectReason reject_reason() const { return reject_reason_; }
  const RoundTrip& round_trip() const { return round_trip_; }
  const SendFlow& sending(Flow flow) const { return send_[index_of(flow)]; }
  const ReceiveFlow& receiving(Flow flow) const { return receive_[index_of(flow)]; }
  /// When something was last heard that passed T3 (T10); when it came UP at first.
  Time heard_at() const { return heard_at_; }

  // How it comes.
  /// FREE to OPENING. `psn` and `id` are drawn at random (T1, T2).
  void begin(EndpointId endpoint, const Peer& peer, ConnectionId id, Psn psn, Time now);
  /// The owner wants it: OPENs go out (T4), with `key` for the peer's endpoint.
  void open(std::uint64_t key, Time now);
  /// T5: an OPEN with connection 0 that belongs to this one.
  void on_first_open(const Packet& packet, const Open& open);
  /// T6: an OPEN with our id, of our pair. False: `stale`. It may have become UP.
  bool on_open(const Packet& packet, const Open& open, Time now);
  /// T8: a REJECT of its own OPENs.
  void on_reject(RejectReason reason, Time now);
  /// T8: the peer does not know `peer_id()`.
  void on_unknown_to_peer(Time now);
  /// T6: another connection of the pair has come UP.
  void on_replaced(Time now) { end(EndReason::kPeerRestart, now); }

  // How it goes.
  /// The owner is done with it: a CLOSE goes out if the peer knows of it (T10).
  void close(EndReason reason, Time now);
  /// A CLOSE with our id; true: it is to be answered by one to answer_to.
  bool on_close(ConnectionId& answer_to, Time now);
  /// ENDED to FREE.
  void free();

  // Delivery. Packets are of the pair and have our id (T3).
  /// A DATA or ACK; returns why it was dropped, if it was.
  std::optional<Drop> receive(const Packet& packet, Time now);
  /// The REPORT that E waits for is acknowledged (T28); only within OperationLayer::acknowledged().
  void report_acknowledged() { report_acknowledged_ = true; }
  PacketSlot* find_sent(Flow flow, Psn psn) { return send_[index_of(flow)].find(psn); }

  /// The next packet, written to `out`, which is fresh and has room for the mtu told; false: there
  /// is none, or memory for its making is lacking.
  bool next_packet(Buffer& out, Time now);
  /// Whether next_packet() has something, memory aside.
  bool wants_to_send(Time now) const;
  /// When expire() has something to do, or earlier; kNever.
  Time deadline(Time now) const;
  void expire(Time now);

 private:
  static constexpr std::size_t index_of(Flow flow) { return static_cast<std::size_t>(flow); }
  SendFlow& send(Flow flow) { return send_[index_of(flow)]; }
  ReceiveFlow& receive(Flow flow) { return receive_[index_of(flow)]; }

  void end(EndReason reason, Time now);
  void closed();
  void come_up(const Packet& packet, const Open& open, Time now);
  void repeat_from(Time now);
  bool repeat_due(Time now);
  void heard(Time now);

  std::optional<Drop> on_data(const Packet& packet, Time now);
  std::optional<Drop> on_request(const Packet& packet, std::size_t operations, Time now);
  void take_told(const Packet& packet, Time now);
  bool execute_in_turn(Flow flow, const DataBody& body, Time now);
  void execute_held(Time now);
  void expire_up(Time now);
  bool unacknowledged_too_long(Time now);

  PacketPool& pool(Flow flow) {
    return flow == Flow::kRequest ? context_.request_packets : context_.response_packets;
  }
  bool has_data(Flow flow, Time now) const;
  std::optional<Flow> pick_data(Time now) const;
  std::optional<Flow> ack_to_send(bool data_leaves) const;
  Flow speak_of() const;
  PacketSlot* new_data(Flow flow, Time now);
  void make_data(Flow flow, PacketSlot& slot, bool again, Buffer& out, Time now);
  void make_open(Buffer& out, Time now);
  void make_close(Buffer& out);
  void make_ack(Flow flow, bool ask, Buffer& out, Time now);
  std::uint16_t next_entropy();
  /// For the next that is not DATA: one path that loses all is not to be tried again and again.
  void take_another_path() {
    own_entropy_ = static_cast<std::uint16_t>(own_entropy_ + kEntropyStep);
  }
  std::byte* begin_packet(Buffer& out, const Header& header, std::uint8_t packet_class,
                          std::size_t body, std::uint16_t entropy);

  const ConnectionContext context_;
  const Settings& settings_;
  const Timers& timers_;
  const std::uint32_t index_;

  State state_ = State::kFree;
  ConnectionId id_{};
  ConnectionId peer_id_{};
  EndpointId endpoint_{};
  Peer peer_{};
  PeerTerms terms_;
  bool opened_here_ = false;
  EndReason end_reason_ = EndReason::kNone;
  RejectReason reject_reason_{};
  CloseReason close_reason_ = CloseReason::kDone;
  std::uint64_t key_ = 0;  ///< of the peer's endpoint
  Psn first_psn_{};
  std::uint32_t messages_told_ = 0;

  // Duties.
  bool first_open_due_ = false;  ///< with connection 0 and ASK (T4)
  bool answer_due_ = false;      ///< an OPEN to peer_id_, with ASK if not UP (T5, T6, T7)
  bool ask_due_ = false;         ///< an OPEN to peer_id_ with ASK though UP (T6)
  bool close_due_ = false;
  bool poll_due_ = false;  ///< an ACK with ASK (idle_interval)

  // Timers.
  Time repeat_at_ = kNever;  ///< OPEN or CLOSE
  Duration repeat_interval_{0};
  Time give_up_at_ = kNever;  ///< open_timeout
  Time heard_at_{};
  Time poll_at_ = kNever;
  Time unacknowledged_at_ = kNever;  ///< no DATA that lacks its ack was first sent before
  std::uint32_t asks_sent_ = 0;      ///< OPENs with ASK (T19)
  Time ask_sent_at_{};

  RoundTrip round_trip_;
  std::array<SendFlow, kFlows> send_;
  std::array<ReceiveFlow, kFlows> receive_;
  bool report_waits_ = false;         ///< E of the request flow stays (T28)
  bool report_acknowledged_ = false;  ///< and may go on when the packet's acks are all taken
  Flow turn_ = Flow::kRequest;        ///< whose new DATA goes first next time
  std::uint16_t entropy_ = 0;         ///< of the first of `spray` values
  std::uint16_t own_entropy_ = 0;     ///< of what is not DATA; another once it seems lost
  std::uint32_t sprayed_ = 0;
};

}  // namespace mtl::transport
