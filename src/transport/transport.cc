#include "transport/transport.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <string>
#include <utility>

namespace mtl::transport {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::uint32_t mask_for(std::uint32_t count) {
  return std::bit_ceil(count) - 1;
}

Peer peer_of(const Packet& packet, EndpointId endpoint) {
  return {packet.network.src, endpoint, packet.network.partition};
}

std::string text(EndpointId endpoint, const Peer& peer) {
  return "endpoint " + std::to_string(endpoint.value()) + " to endpoint " +
         std::to_string(peer.endpoint.value()) + " of node " + std::to_string(peer.node.value());
}

}  // namespace

Transport::Transport(const Settings& settings, RandomWords& random, OperationLayer& operations)
    : settings_(settings),
      random_(random),
      operations_(operations),
      request_packets_(settings.request_packets, settings.packet_blocks),
      response_packets_(settings.response_packets, settings.packet_blocks),
      held_packets_(settings.held_packets, settings.mtu),
      mask_(mask_for(settings.connections)),
      by_id_(mask_ + 1, kNone),
      by_peer_(mask_ + 1, kNone),
      deadlines_(settings.connections, kNever),
      ready_(settings.connections),
      events_(settings.connections),
      answers_(kMaxAnswers) {
  assert(fault(settings) == nullptr);
  const ConnectionContext context{settings_,        operations_,       counters_,
                                  request_packets_, response_packets_, held_packets_};
  for (std::uint32_t i = 0; i < settings.connections; ++i) entries_.emplace_back(context, i);
  free_.reserve(settings.connections);
  for (std::uint32_t i = settings.connections; i != 0; --i) free_.push_back(i - 1);
}

Transport::~Transport() = default;

Result<void> Transport::add_endpoint(EndpointId id, const EndpointSettings& settings) {
  if (endpoint(id) != nullptr) {
    return Error{"endpoint " + std::to_string(id.value()) + " is there already; choose another"};
  }
  if (endpoints_.size() == kMaxEndpoints) {
    return Error{"there are " + std::to_string(kMaxEndpoints) + " endpoints, as many as may be"};
  }
  endpoints_.push_back({id, settings});
  return {};
}

const Transport::LocalEndpoint* Transport::endpoint(EndpointId id) const {
  const auto found = std::find_if(endpoints_.begin(), endpoints_.end(),
                                  [&](const LocalEndpoint& e) { return e.id == id; });
  return found == endpoints_.end() ? nullptr : &*found;
}

// ---- the table of connections ----

Transport::Entry* Transport::by_id(ConnectionId id) {
  if (id == kNoConnection) return nullptr;
  for (std::uint32_t i = bucket_by_id(id); i != kNone; i = entries_[i].next_by_id) {
    Entry& entry = entries_[i];
    if (entry.connection.id() == id) {
      return entry.connection.state() == State::kEnded ? nullptr : &entry;
    }
  }
  return nullptr;
}

/// The connection of a pair in `state`, which is kOpening or kUp; of the latter one whose peer
/// calls it `peer_id`, if that is not 0.
Transport::Entry* Transport::of_pair(EndpointId endpoint, const Peer& peer, State state,
                                     ConnectionId peer_id) {
  for (std::uint32_t i = bucket_by_peer(peer.node); i != kNone; i = entries_[i].next_by_peer) {
    const Connection& c = entries_[i].connection;
    if (c.state() == state && c.endpoint() == endpoint && c.peer() == peer &&
        (peer_id == kNoConnection || c.peer_id() == peer_id)) {
      return &entries_[i];
    }
  }
  return nullptr;
}

/// A free place for a connection with `node`, of which there is one: one where earlier connections
/// with the node have left something, so that it bears that itself; else the one with the least.
std::uint32_t Transport::take_place(NodeId node) {
  std::size_t best = free_.size() - 1;
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t i = operations_.left_over() == 0 ? 0 : free_.size(); i-- != 0;) {
    const std::uint32_t left = operations_.left_over(free_[i]);
    const bool its = left != 0 && entries_[free_[i]].connection.peer().node == node;
    if (!its && left >= least) continue;
    least = its ? 0 : left;
    best = i;
    if (its) break;
  }
  std::swap(free_[best], free_.back());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return index;
}

/// A connection in OPENING with an id of its own (T2); nullptr: no room.
Transport::Entry* Transport::begin(EndpointId endpoint, const Peer& peer, Time now) {
  if (free_.empty()) return nullptr;
  const std::uint32_t index = take_place(peer.node);
  const std::uint64_t word = random_.draw();
  ConnectionId id{static_cast<std::uint32_t>(word)};
  const auto taken = [&] {
    for (std::uint32_t i = bucket_by_id(id); i != kNone; i = entries_[i].next_by_id) {
      if (entries_[i].connection.id() == id) return true;
    }
    return id == kNoConnection;
  };
  while (taken()) id = ConnectionId{id.value() + 1};
  Entry& entry = entries_[index];
  entry.connection.begin(endpoint, peer, id, Psn{static_cast<std::uint32_t>(word >> 32)}, now);
  entry.came_up = entry.up_told = entry.end_told = false;
  entry.next_by_id = bucket_by_id(id);
  bucket_by_id(id) = index;
  entry.next_by_peer = bucket_by_peer(peer.node);
  bucket_by_peer(peer.node) = index;
  return &entry;
}

/// Whether a connection that `node` opens may take a place: those that it began, and that never
/// came UP, take no more than they leave to all others.
bool Transport::leaves_room(NodeId node) const {
  std::uint32_t begun = 0;
  for (std::uint32_t i = bucket_by_peer(node); i != kNone; i = entries_[i].next_by_peer) {
    const Connection& c = entries_[i].connection;
    if (c.peer().node == node && c.state() == State::kOpening && !c.opened_here()) ++begun;
  }
  return begun < free_.size();
}

void Transport::unlink(std::uint32_t& head, std::uint32_t index, std::deque<Entry>& entries,
                       std::uint32_t Entry::*next) {
  std::uint32_t* at = &head;
  while (*at != index) at = &(entries[*at].*next);
  *at = entries[index].*next;
}

void Transport::release(Entry& entry) {
  const std::uint32_t index = entry.connection.index();
  unlink(bucket_by_id(entry.connection.id()), index, entries_, &Entry::next_by_id);
  unlink(bucket_by_peer(entry.connection.peer().node), index, entries_, &Entry::next_by_peer);
  deadlines_[index] = kNever;
  entry.connection.free();
  free_.push_back(index);
}

/// After each event of a connection: what follows for the transport's lists.
void Transport::settle(Entry& entry, Time now) {
  Connection& c = entry.connection;
  if (c.state() == State::kFree) return;
  entry.came_up = entry.came_up || c.state() == State::kUp;
  if (!entry.listed && entry.has_event()) {
    entry.listed = true;
    events_.push(c.index());
  }
  if (c.state() == State::kEnded) {
    deadlines_[c.index()] = kNever;
    if (!entry.has_event()) release(entry);
    return;
  }
  if (request_packets_.available() == 0 || response_packets_.available() == 0) starved_ = true;
  deadlines_[c.index()] = c.deadline(now);
  deadline_ = std::min(deadline_, deadlines_[c.index()]);
  if (!entry.queued && c.wants_to_send(now)) {
    entry.queued = true;
    ready_.push(c.index());
  }
}

/// After each event: slots may have come free that any connection waits for.
void Transport::feed_starved(Time now) {
  if (!starved_ || request_packets_.available() == 0 || response_packets_.available() == 0) return;
  starved_ = false;
  for (Entry& entry : entries_) settle(entry, now);
}

const Connection* Transport::find(ConnectionHandle handle) const {
  if (handle.index >= entries_.size()) return nullptr;
  const Connection& c = entries_[handle.index].connection;
  return c.state() != State::kFree && c.id() == handle.id ? &c : nullptr;
}

Connection* Transport::find(ConnectionHandle handle) {
  return const_cast<Connection*>(std::as_const(*this).find(handle));
}

void Transport::touch(Connection& connection, Time now) {
  Entry& entry = entries_[connection.index()];
  if (!entry.queued) settle(entry, now);
}

// ---- the owner's calls ----

Result<ConnectionHandle> Transport::open(EndpointId endpoint, const Peer& peer, std::uint64_t key,
                                         Time now) {
  if (this->endpoint(endpoint) == nullptr) {
    return Error{"this node has no endpoint " + std::to_string(endpoint.value()) +
                 "; add it before it opens connections"};
  }
  if (peer.node == settings_.node && peer.endpoint == endpoint) {
    return Error{text(endpoint, peer) + ": an endpoint is not joined to itself"};
  }
  Entry* entry = of_pair(endpoint, peer, State::kOpening, kNoConnection);
  if (of_pair(endpoint, peer, State::kUp, kNoConnection) != nullptr ||
      (entry != nullptr && entry->connection.opened_here())) {
    return Error{text(endpoint, peer) + ": there is a connection already; close it first"};
  }
  if (entry == nullptr) entry = begin(endpoint, peer, now);
  if (entry == nullptr) {
    return Error{text(endpoint, peer) + ": there are " + std::to_string(settings_.connections) +
                 " connections already; raise `connections` or close one"};
  }
  entry->connection.open(key, now);
  settle(*entry, now);
  return ConnectionHandle{entry->connection.index(), entry->connection.id()};
}

void Transport::close(ConnectionHandle handle, Time now) {
  Connection* c = find(handle);
  if (c == nullptr || (c->state() != State::kOpening && c->state() != State::kUp)) return;
  c->close(EndReason::kClosed, now);
  settle(entries_[handle.index], now);
  feed_starved(now);
}

bool Transport::next_event(ConnectionEvent& event) {
  if (events_.empty()) return false;
  Entry& entry = entries_[events_.pop()];
  const Connection& c = entry.connection;
  entry.listed = false;
  const bool up = entry.came_up && !entry.up_told;
  (up ? entry.up_told : entry.end_told) = true;
  event = {.what = up ? ConnectionEvent::What::kUp : ConnectionEvent::What::kEnded,
           .connection = {c.index(), c.id()},
           .endpoint = c.endpoint(),
           .peer = c.peer(),
           .opened_here = c.opened_here(),
           .reason = up ? EndReason::kNone : c.end_reason(),
           .rejected = c.reject_reason()};
  if (entry.has_event()) {
    entry.listed = true;
    events_.push(c.index());
  } else if (c.state() == State::kEnded) {
    release(entry);
  }
  return true;
}

// ---- packets in ----

void Transport::receive(std::span<const std::byte> bytes, Time now) {
  counters_.packets_in.add();
  const auto packet = decode(bytes);
  const auto drop = packet ? dispatch(*packet, now) : std::optional(Drop::kTransportMalformed);
  if (drop) {
    counters_.drops.add(*drop);
  } else {
    counters_.taken.add();
  }
  feed_starved(now);
}

/// T3 from the sixth check on; why the packet was dropped, if it was.
std::optional<Drop> Transport::dispatch(const Packet& packet, Time now) {
  if (packet.header.type == Type::kOpen) return on_open(packet, now);
  if (packet.header.type == Type::kReject) return on_reject(packet, now);
  const ConnectionId id = packet.header.connection;
  Entry* entry = by_id(id);
  if (entry == nullptr) {
    if (id != kNoConnection) reject(packet, kNoConnection, {RejectReason::kUnknown, id}, now);
    return Drop::kNoConnection;
  }
  Connection& c = entry->connection;
  if (peer_of(packet, c.peer().endpoint) != c.peer()) return Drop::kTransportWrongPeer;
  const auto drop =
      packet.header.type == Type::kClose ? on_close(*entry, packet, now) : c.receive(packet, now);
  settle(*entry, now);
  return drop;
}

std::optional<Drop> Transport::on_open(const Packet& packet, Time now) {
  const Open open = decode_open(packet.body);
  if (open.id == kNoConnection || open.mtu < kMinMtu) {
    reject(packet, open.id, {RejectReason::kBadOpen, kNoConnection}, now);
    return Drop::kRejected;
  }
  const ConnectionId id = packet.header.connection;
  if (id == kNoConnection) return on_first_open(packet, open, now);
  Entry* entry = by_id(id);
  if (entry == nullptr) {
    reject(packet, kNoConnection, {RejectReason::kUnknown, id}, now);
    return Drop::kNoConnection;
  }
  Connection& c = entry->connection;
  if (c.endpoint() != open.peer || c.peer() != peer_of(packet, open.endpoint)) {
    return Drop::kTransportWrongPeer;
  }
  if (c.state() == State::kClosing) return Drop::kNotUp;  // T10: it takes nothing else
  if (c.state() == State::kOpening) {
    Entry* other = of_pair(c.endpoint(), c.peer(), State::kUp, kNoConnection);
    if (other != nullptr) {
      other->connection.on_replaced(now);
      settle(*other, now);
    }
  }
  const bool taken = c.on_open(packet, open, now);
  settle(*entry, now);
  return taken ? std::nullopt : std::optional(Drop::kTransportStale);
}

/// T5.
std::optional<Drop> Transport::on_first_open(const Packet& packet, const Open& open, Time now) {
  const Peer peer = peer_of(packet, open.endpoint);
  Entry* entry = of_pair(open.peer, peer, State::kUp, open.id);
  if (entry == nullptr) entry = of_pair(open.peer, peer, State::kOpening, kNoConnection);
  if (entry == nullptr) {
    const LocalEndpoint* local = endpoint(open.peer);
    const bool itself = peer.node == settings_.node && peer.endpoint == open.peer;  // T1
    auto reason = RejectReason::kNoEndpoint;
    if (local != nullptr && local->settings.accepts && !itself) {
      const std::uint64_t key = local->settings.key;
      const bool wrong_key = key != 0 && key != open.key;
      if (!wrong_key && leaves_room(peer.node)) entry = begin(open.peer, peer, now);
      reason = wrong_key ? RejectReason::kWrongKey : RejectReason::kNoRoom;
    }
    if (entry == nullptr) {
      reject(packet, open.id, {reason, kNoConnection}, now);
      return Drop::kRejected;
    }
  }
  entry->connection.on_first_open(packet, open);
  settle(*entry, now);
  return std::nullopt;
}

/// T8.
std::optional<Drop> Transport::on_reject(const Packet& packet, Time now) {
  const Reject reject = decode_reject(packet.body);
  const NodeId from = packet.network.src;
  if (packet.header.connection != kNoConnection) {
    Entry* entry = by_id(packet.header.connection);
    if (entry == nullptr || entry->connection.state() != State::kOpening ||
        entry->connection.peer().node != from) {
      return Drop::kNoConnection;
    }
    entry->connection.on_reject(reject.reason, now);
    settle(*entry, now);
    return std::nullopt;
  }
  bool found = false;
  for (std::uint32_t i = bucket_by_peer(from); i != kNone;) {
    Entry& entry = entries_[i];
    i = entry.next_by_peer;  // it may be released
    Connection& c = entry.connection;
    if (c.state() == State::kEnded || c.peer().node != from || reject.id == kNoConnection ||
        c.peer_id() != reject.id) {
      continue;
    }
    found = true;
    c.on_unknown_to_peer(now);
    settle(entry, now);
  }
  return found ? std::nullopt : std::optional(Drop::kNoConnection);
}

std::optional<Drop> Transport::on_close(Entry& entry, const Packet& packet, Time now) {
  const bool opening = entry.connection.state() == State::kOpening;
  ConnectionId answer_to;
  if (entry.connection.on_close(answer_to, now)) answer(packet, Type::kClose, answer_to, {});
  return opening ? std::optional(Drop::kNotUp) : std::nullopt;  // T7
}

// ---- answers that are no connection's ----

bool Transport::take_reject(Time now) {
  const std::int64_t second = nanos(now) / kSecond;
  if (second != reject_second_) rejects_ = 0;
  reject_second_ = second;
  if (rejects_ == kRejectsPerSecond) return false;
  ++rejects_;
  return true;
}

void Transport::reject(const Packet& packet, ConnectionId connection, const Reject& reject,
                       Time now) {
  if (!take_reject(now)) {
    counters_.rejects_withheld.add();
    return;
  }
  answer(packet, Type::kReject, connection, reject);
}

void Transport::answer(const Packet& to, Type type, ConnectionId connection, const Reject& reject) {
  if (answers_.full()) {
    counters_.answers_withheld.add();
    return;
  }
  answers_.push(
      {to.network.src, to.network.partition, to.network.entropy, type, connection, reject});
}

void Transport::make_answer(const Answer& answer, Buffer& out) {
  counters_.packets_out[static_cast<std::size_t>(answer.type)].add();
  const bool reject = answer.type == Type::kReject;
  std::byte* body = write_headers(out,
                                  {.hop_limit = settings_.hop_limit,
                                   .packet_class = network::kClassResponse,
                                   .proto = static_cast<std::uint8_t>(network::Proto::kTransport),
                                   .dst = answer.node,
                                   .src = settings_.node,
                                   .entropy = answer.entropy,
                                   .partition = answer.partition},
                                  {.type = answer.type, .connection = answer.connection},
                                  reject ? kRejectBody : kCloseBody);
  if (reject) {
    encode(answer.reject, body);
  } else {
    encode(CloseReason::kDone, body);
  }
  network::seal(out.bytes());
}

// ---- packets out, and time ----

bool Transport::next_packet(Buffer& out, Time now) {
  if (!answers_.empty()) {
    make_answer(answers_.pop(), out);
    return true;
  }
  for (std::size_t tries = ready_.size(); tries != 0; --tries) {
    Entry& entry = entries_[ready_.pop()];
    entry.queued = false;
    const bool made = entry.connection.next_packet(out, now);
    settle(entry, now);  // behind the others, if it has more (T11)
    if (made) return true;
  }
  return false;
}

void Transport::expire(Time now) {
  if (deadline_ > now) return;
  for (std::uint32_t i = 0; i < deadlines_.size(); ++i) {
    if (deadlines_[i] > now) continue;
    entries_[i].connection.expire(now);
    settle(entries_[i], now);
  }
  feed_starved(now);
  deadline_ = *std::min_element(deadlines_.begin(), deadlines_.end());
}

}  // namespace mtl::transport
