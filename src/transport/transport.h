#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/bounded_queue.h"
#include "transport/connection.h"
#include "transport/counters.h"
#include "transport/settings.h"

namespace mtl::transport {

/// Random words for ids, first PSNs and keys (T1, T2, T37): the core draws none itself.
class RandomWords {
 public:
  virtual std::uint64_t draw() = 0;

 protected:
  ~RandomWords() = default;
};

/// An endpoint of this node (T1).
struct EndpointSettings {
  bool accepts = false;   ///< connections that peers open
  std::uint64_t key = 0;  ///< that those who open them must know; 0: none is asked for
};

/// Names a connection of this node, also after it has ended: then it names none.
struct ConnectionHandle {
  std::uint32_t index = 0;
  ConnectionId id{};
  friend bool operator==(const ConnectionHandle&, const ConnectionHandle&) = default;
};

/// What happened to a connection, for its owner.
struct ConnectionEvent {
  enum class What : std::uint8_t {
    kUp,     ///< one that was opened here, or by the peer at an endpoint that accepts
    kEnded,  ///< the last event of each connection that the owner opened or was told of
  };
  What what{};
  ConnectionHandle connection;
  EndpointId endpoint{};
  Peer peer{};
  bool opened_here = false;
  EndReason reason = EndReason::kNone;  ///< kEnded
  RejectReason rejected{};              ///< kEnded with EndReason::kRejected
};

/// The connections of a node (protocol page, section 5): finds the one that a packet is for, opens
/// and accepts, rejects, and lets them send in turn. Sans I/O, like Link and Shard: packets, calls
/// and the time go in; packets and events are pulled. All memory is allocated by the constructor
/// and by add_endpoint(). One thread. `now` never goes back.
class Transport {
 public:
  /// Of connections, endpoints and answers to unknown peers that wait to be sent.
  static constexpr std::size_t kMaxEndpoints = 1024;
  static constexpr std::size_t kMaxAnswers = 64;
  static constexpr std::uint32_t kRejectsPerSecond = 1000;  ///< T9

  /// `settings` has no fault(). What is given outlives the transport.
  Transport(const Settings& settings, RandomWords& random, OperationLayer& operations);
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  ~Transport();

  /// Errors: it is there already; there are kMaxEndpoints.
  Result<void> add_endpoint(EndpointId endpoint, const EndpointSettings& settings);

  /// Opens a connection from `endpoint` to `peer`, whose endpoint demands `key` (0: none). Takes
  /// one that the peer is opening (T4). Errors: no such endpoint, an endpoint to itself (T1), one
  /// to the same peer that is UP or being opened already, no room.
  Result<ConnectionHandle> open(EndpointId endpoint, const Peer& peer, std::uint64_t key, Time now);
  /// T10; nothing if it has ended already. Its end comes as an event, like any other.
  void close(ConnectionHandle connection, Time now);

  /// A packet of proto 1 for this node, from network header to packet CRC, which has been checked;
  /// only looked at.
  void receive(std::span<const std::byte> packet, Time now);
  /// The next packet, complete with its CRC, in `out`: a fresh buffer with room for `settings.mtu`
  /// bytes. False: there is none now.
  bool next_packet(Buffer& out, Time now);
  /// Whether next_packet() may have something; false is certain.
  bool wants_to_send() const { return !answers_.empty() || !ready_.empty(); }
  /// When expire() has something to do, or earlier; kNever.
  Time next_deadline() const { return deadline_; }
  void expire(Time now);
  /// The next event; false if none waits.
  bool next_event(ConnectionEvent& event);

  /// The connection, nullptr if it has ended and its end was taken.
  const Connection* find(ConnectionHandle connection) const;
  Connection* find(ConnectionHandle connection);
  /// Operations of `connection` wait to be sent: to be called by the layer of operations when it
  /// was given some.
  void touch(Connection& connection, Time now);

  const Settings& settings() const { return settings_; }
  const Counters& counters() const { return counters_; }
  /// Connections that are not free.
  std::uint32_t in_use() const {
    return static_cast<std::uint32_t>(entries_.size() - free_.size());
  }
  PacketPool& packets(Flow flow) {
    return flow == Flow::kRequest ? request_packets_ : response_packets_;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  /// A connection and where it stands in the transport's lists.
  struct Entry {
    Entry(const ConnectionContext& context, std::uint32_t index) : connection(context, index) {}
    Connection connection;
    std::uint32_t next_by_id = kNone;
    std::uint32_t next_by_peer = kNone;
    bool queued = false;  ///< in ready_
    bool listed = false;  ///< in events_
    bool came_up = false;
    bool up_told = false;
    bool end_told = false;

    bool ended() const { return connection.end_reason() != EndReason::kNone; }
    /// The owner knows it, or is to know it.
    bool owned() const { return connection.opened_here() || came_up; }
    bool has_event() const { return (came_up && !up_told) || (ended() && owned() && !end_told); }
  };
  struct LocalEndpoint {
    EndpointId id;
    EndpointSettings settings;
  };
  /// A packet that is no connection's: a REJECT, or the CLOSE that answers one (T5, T9, T10).
  struct Answer {
    NodeId node;
    Partition partition;
    std::uint16_t entropy = 0;
    Type type = Type::kReject;
    ConnectionId connection;
    Reject reject;
  };

  std::optional<Drop> dispatch(const Packet& packet, Time now);
  std::optional<Drop> on_open(const Packet& packet, Time now);
  std::optional<Drop> on_first_open(const Packet& packet, const Open& open, Time now);
  std::optional<Drop> on_reject(const Packet& packet, Time now);
  std::optional<Drop> on_close(Entry& entry, const Packet& packet, Time now);
  void reject(const Packet& packet, ConnectionId connection, const Reject& reject, Time now);
  void answer(const Packet& to, Type type, ConnectionId connection, const Reject& reject);
  void make_answer(const Answer& answer, Buffer& out);
  bool take_reject(Time now);

  const LocalEndpoint* endpoint(EndpointId id) const;
  Entry* by_id(ConnectionId id);
  Entry* of_pair(EndpointId endpoint, const Peer& peer, State state, ConnectionId peer_id);
  Entry* begin(EndpointId endpoint, const Peer& peer, Time now);
  std::uint32_t take_place(NodeId node);
  bool leaves_room(NodeId node) const;
  void settle(Entry& entry, Time now);
  void feed_starved(Time now);
  void release(Entry& entry);
  static void unlink(std::uint32_t& head, std::uint32_t index, std::deque<Entry>& entries,
                     std::uint32_t Entry::*next);
  std::uint32_t& bucket_by_id(ConnectionId id) { return by_id_[id.value() & mask_]; }
  std::uint32_t& bucket_by_peer(NodeId node) { return by_peer_[node.value() & mask_]; }
  std::uint32_t bucket_by_peer(NodeId node) const { return by_peer_[node.value() & mask_]; }

  const Settings settings_;
  RandomWords& random_;
  OperationLayer& operations_;
  Counters counters_;
  PacketPool request_packets_;
  PacketPool response_packets_;
  HeldPool held_packets_;
  std::deque<Entry> entries_;  ///< by index; never grows
  std::vector<std::uint32_t> free_;
  std::uint32_t mask_;
  std::vector<std::uint32_t> by_id_;    ///< heads of chains
  std::vector<std::uint32_t> by_peer_;  ///< by node
  std::vector<Time> deadlines_;         ///< by index
  Time deadline_ = kNever;
  std::vector<LocalEndpoint> endpoints_;
  BoundedQueue<std::uint32_t> ready_;   ///< connections that may have something to send
  BoundedQueue<std::uint32_t> events_;  ///< that have an event for the owner
  BoundedQueue<Answer> answers_;
  bool starved_ = false;  ///< slots had run out when a connection was last looked at
  std::int64_t reject_second_ = -1;
  std::uint32_t rejects_ = 0;  ///< made in it
};

}  // namespace mtl::transport
