#include "endpoint/endpoint.h"

#include <algorithm>
#include <cstring>

#include "endpoint/slot_session.h"
#include "endpoint/transport_host.h"
#include "network/packet.h"

namespace mtl::endpoint {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLook = 50ms;  ///< how often the slot's daemon is looked at

network::NodeConfig node_config(const Settings& settings) {
  network::NodeConfig c;
  c.node = settings.link.node;
  c.hop_limit = settings.hop_limit;
  c.own_limit = settings.own_limit;
  c.ports.push_back({settings.link, std::nullopt, ShardId{0}});
  return c;
}

/// Everything goes out by the one port.
network::RouteTable only_port() {
  const std::vector<network::Tier> tiers{{network::NextHop{PortId{0}, 0}}};
  return std::move(*network::RouteTable::build({}, 1, &tiers));
}

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::claim(const SlotChoice& choice) {
  auto slot = SlotSession::claim(choice);
  if (!slot) return slot.error();
  const Settings settings = (*slot)->settings();
  auto pool = std::make_unique<HeapPool>(
      (*slot)->buffers(), static_cast<std::uint32_t>(link::kFrameHeader) + settings.link.mtu);
  auto port = (*slot)->attach(*pool);
  if (!port) return port.error();
  std::unique_ptr<Endpoint> endpoint(
      new Endpoint(settings, std::move(pool), std::move(*port), std::move(*slot)));
  endpoint->start(settings.rate);
  return endpoint;
}

Result<std::unique_ptr<Endpoint>> Endpoint::open(const Settings& settings,
                                                 std::unique_ptr<BufferPool> pool,
                                                 std::unique_ptr<phy::Port> port) {
  if (settings.link.port != kPort) return Error{"an endpoint's port is 0"};
  if (const char* why = link::fault(settings.link)) return Error{why};
  if (const char* why = settings.rate ? phy::fault(*settings.rate) : nullptr) return Error{why};
  if (link::kFrameHeader + settings.link.mtu > port->traits().max_frame) {
    return Error{"mtu " + std::to_string(settings.link.mtu) + " is more than " +
                 port->traits().device + " carries: at most " +
                 std::to_string(port->traits().max_frame - link::kFrameHeader)};
  }
  std::unique_ptr<Endpoint> endpoint(
      new Endpoint(settings, std::move(pool), std::move(port), nullptr));
  endpoint->start(settings.rate);
  return endpoint;
}

Endpoint::Endpoint(const Settings& settings, std::unique_ptr<BufferPool> pool,
                   std::unique_ptr<phy::Port> port, std::unique_ptr<SlotSession> slot)
    : node_(node_config(settings)),
      table_(only_port()),
      pool_(std::move(pool)),
      slot_(std::move(slot)),
      port_(std::move(port)),
      shard_(node_, ShardId{0}, *pool_, *this),
      loop_(shard_, this) {
  own_drops_.reserve(settings.link.send_window + std::size_t{settings.own_limit});
}

void Endpoint::start(const std::optional<phy::PacerConfig>& rate) {
  const Time now = clock_.now();
  shard_.set_table(&table_);
  pace(rate, now);
  loop_.attach(kPort, *port_, now);
  shard_.enable(kPort, now);
}

void Endpoint::pace(const std::optional<phy::PacerConfig>& rate, Time now) {
  loop_.set_pacer(kPort, rate ? std::make_unique<phy::Pacer>(*rate, now) : nullptr);
}

Endpoint::~Endpoint() {
  close();
}

std::size_t Endpoint::max_payload() const {
  return usable() ? link().link_mtu() - network::kMinPacket : 0;
}

bool Endpoint::usable() const {
  return link().usable();
}

std::uint32_t Endpoint::pending() const {
  return link().queued() + link().unacknowledged();
}

Send Endpoint::send(const Address& to, std::size_t size,
                    const std::function<void(std::span<std::byte>)>& fill) {
  if (!usable()) return Send::kLinkDown;
  if (size > max_payload()) return Send::kTooLong;
  // Before a buffer is taken and filled: the common answer of a flood.
  if (link().queued_own() >= node_.config().own_limit) return Send::kQueueFull;
  Buffer* packet = pool_->take();
  if (packet == nullptr) return Send::kQueueFull;
  packet->length = static_cast<std::uint32_t>(network::kMinPacket + size);
  packet->tailroom -= packet->length;
  network::encode({.hop_limit = node_.config().hop_limit,
                   .packet_class = network::kClassRequest,
                   .proto = static_cast<std::uint8_t>(network::Proto::kDatagram),
                   .dst = to.node,
                   .src = node(),
                   .entropy = to.entropy,
                   .partition = to.partition},
                  packet->data);
  fill({packet->data + network::kHeader, size});
  network::seal(packet->bytes());
  if (shard_.submit(packet, time()) == network::Submit::kTaken) return Send::kTaken;
  give_back(packet);
  return Send::kQueueFull;
}

Send Endpoint::send(const Address& to, std::span<const std::byte> payload) {
  return send(to, payload.size(), [&](std::span<std::byte> out) {
    if (!payload.empty()) std::memcpy(out.data(), payload.data(), payload.size());
  });
}

Result<void> Endpoint::start_transport(transport::Settings settings,
                                       const transport::Limits& limits) {
  if (transport_ != nullptr) return Error{"the transport was started before"};
  settings.node = node();
  settings.hop_limit = node_.config().hop_limit;
  settings.mtu = std::min(settings.mtu, link().config().mtu);
  if (const char* why = transport::fault(settings)) return Error{why};
  if (const char* why = transport::fault(limits, settings)) return Error{why};
  transport_ = std::make_unique<TransportHost>(settings, limits, shard_, *pool_, random_);
  return {};
}

transport::Operations* Endpoint::operations() {
  return transport_ == nullptr ? nullptr : &transport_->operations();
}

bool Endpoint::progress() {
  const Time now = clock_.now();
  if (slot_ != nullptr && now >= look_at_) keep_slot(now);
  in_pass_ = true;
  pass_now_ = now;
  const bool busy = loop_.pass(now);
  in_pass_ = false;
  return busy;
}

/// The daemon may be gone (killed, restarted): then the link has no carrier until the slot is ours
/// again.
void Endpoint::keep_slot(Time now) {
  look_at_ = now + kLook;
  if (random_.low()) random_.top_up();
  if (port_ != nullptr) {
    if (!slot_->lost()) return;
    loop_.detach(kPort, now);
    port_.reset();
  }
  if (const auto again = slot_->claim_again(); !again) {  // not there yet: looked for again
    slot_fault_ = again.error().message;
    return;
  }
  auto port = slot_->attach(*pool_);
  if (!port) {
    slot_fault_ = port.error().message;
    return;
  }
  slot_fault_.clear();
  port_ = std::move(*port);
  pace(slot_->settings().rate, now);
  loop_.attach(kPort, *port_, now);
  ++reclaims_;
}

void Endpoint::wait(Duration longest) {
  const Time now = clock_.now();
  Duration sleep = std::min(longest, loop_.next_deadline() - now);
  if (slot_ != nullptr) sleep = std::min(sleep, look_at_ - now);
  // A port without a doorbell is polled.
  if (!loop_.has_bells()) sleep = std::min<Duration>(sleep, 200us);
  if (transport_ != nullptr) {
    if (transport_->wants_to_send()) return;
    sleep = std::min(sleep, transport_->next_deadline() - now);
  }
  if (sleep <= Duration::zero() || !arrived_.empty() || !own_drops_.empty()) return;
  if (!sleeper_.prepare(loop_.media())) return;
  if (loop_.wants_a_pass() && loop_.has_bells()) {
    sleeper_.cancel(loop_.media());
    return;
  }
  sleeper_.wait(loop_.media(), sleep);
}

void Endpoint::close() {
  const Time now = clock_.now();
  shard_.disable(kPort, now);
  if (port_ == nullptr) return;
  loop_.set_pacer(kPort, nullptr);
  loop_.pass(now);  // the CLOSE, which waits for no rate
  loop_.detach(kPort, now);
  port_.reset();
}

void Endpoint::delivered(Buffer* packet, PortId, Vc) {
  arrived_.push(packet);
}

void Endpoint::answered(const Buffer&, PortId, Vc) {}

void Endpoint::own_dropped(network::EchoType type, const Buffer& packet) {
  if (!refused_ || own_drops_.size() == own_drops_.capacity()) return;
  OwnDrop& drop = own_drops_.emplace_back();
  drop.hop_limit_exceeded = type == network::EchoType::kHopLimitExceeded;
  drop.length = std::min<std::uint32_t>(packet.length, network::kErrorData);
  std::memcpy(drop.head.data(), packet.data, drop.length);
}

bool Endpoint::hand_over_own_drops() {
  const bool any = !own_drops_.empty();
  for (std::size_t i = 0; i < own_drops_.size(); ++i) {  // the handler may add to them
    const OwnDrop drop = own_drops_[i];
    refused_({node(), drop.hop_limit_exceeded, std::span(drop.head).first(drop.length)});
  }
  own_drops_.clear();
  return any;
}

void Endpoint::pass(ShardId, Buffer* buffer) {
  give_back(buffer);
}  // there is one shard alone

link::BringUp Endpoint::bring_up(PortId, std::uint8_t last_epoch) {
  return random_.bring_up(last_epoch);
}

void Endpoint::link_changed(PortId) {}

bool Endpoint::work(Time now) {
  bool busy = hand_over_own_drops();
  busy |= !arrived_.empty();
  while (!arrived_.empty()) {
    Buffer* packet = arrived_.pop();
    hand_over(*packet);
    shard_.release(packet, now);
  }
  if (transport_ != nullptr) busy |= transport_->work(now);
  return busy;
}

void Endpoint::hand_over(const Buffer& packet) {
  const network::Header h = network::decode(packet.bytes());
  const auto payload =
      packet.bytes().subspan(network::kHeader, packet.length - network::kMinPacket);
  if (h.proto == static_cast<std::uint8_t>(network::Proto::kDatagram)) {
    if (!handler_) return;
    handler_({h.src, h.partition, h.entropy, (h.flags & network::kFlagCe) != 0, payload});
    return;
  }
  if (h.proto == static_cast<std::uint8_t>(network::Proto::kTransport)) {
    if (transport_ != nullptr) transport_->receive(packet.bytes(), pass_now_);
    return;
  }
  const auto echo = network::decode_echo(packet.bytes());
  const auto is = [&](network::EchoType type) {
    return echo && echo->type == static_cast<std::uint8_t>(type);
  };
  const bool exceeded = is(network::EchoType::kHopLimitExceeded);
  if (!refused_ || (!exceeded && !is(network::EchoType::kUnreachable))) return;
  refused_({h.src, exceeded, payload.subspan(network::kEchoHeader)});
}

}  // namespace mtl::endpoint
