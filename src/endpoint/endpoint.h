#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/heap_pool.h"
#include "base/result.h"
#include "network/node.h"
#include "phy/pacer.h"
#include "phy/port.h"
#include "runtime/clock.h"
#include "runtime/idle.h"
#include "runtime/random.h"
#include "runtime/shard_loop.h"
#include "transport/operations.h"

namespace mtl::endpoint {

class SlotSession;
class TransportHost;

/// Where a datagram goes.
struct Address {
  NodeId node;
  Partition partition{};
  std::uint16_t entropy = 0;  ///< picks among equal paths; one flow keeps one (N8)
};

/// A datagram that has arrived; valid during the callback.
struct Datagram {
  NodeId src;
  Partition partition;
  std::uint16_t entropy = 0;
  bool congested = false;  ///< CE was set on the way (N12)
  std::span<const std::byte> payload;
};

/// A packet of ours was dropped, and it is known: the fabric says so by an echo error (N11), or
/// this node dropped it itself, when its link died (L9) and there was no other way.
struct Refusal {
  NodeId from;                        ///< the node that dropped it; this one's, too
  bool hop_limit_exceeded = false;    ///< else unreachable
  std::span<const std::byte> packet;  ///< its first 28 bytes, or all if it is shorter
};

enum class Send : std::uint8_t {
  kTaken,      ///< on its way: it arrives, or a named drop says why not
  kQueueFull,  ///< too many of ours wait for the link (N13): call progress() and try again
  kLinkDown,   ///< the link is not usable now; nothing was sent
  kTooLong,    ///< longer than max_payload()
};

/// What an endpoint on a port of its own is.
struct Settings {
  link::Config link;  ///< its port; link.port is 0
  std::uint8_t hop_limit = network::kDefaultHopLimit;
  std::uint32_t own_limit = 256;         ///< own packets that wait for the link (N13)
  std::optional<phy::PacerConfig> rate;  ///< sends no faster
};

/// A slot of the mtswitchd of this host.
struct SlotChoice {
  std::string control_socket;
  std::string name = {};            ///< of the slot; empty: any free one
  std::optional<NodeId> node = {};  ///< or by the node id that it gives
};

/// A node in this process: one link, datagrams (proto 4), echo requests answered and, if it is
/// started, the transport (proto 1).
///
/// Nothing runs by itself: progress() does what is due, wait() sleeps until something is. One
/// thread. An endpoint on a slot claims it again by itself when its mtswitchd was restarted.
class Endpoint final : private network::ShardOwner, private runtime::LoopOwner {
 public:
  /// Claims a slot. Errors: no daemon there, no such slot, claimed already.
  static Result<std::unique_ptr<Endpoint>> claim(const SlotChoice& choice);

  /// On a port that the caller opened (an Ethernet device, say), whose frames come from `pool`;
  /// both are the endpoint's from here on. Errors: settings that link::fault()
  /// or phy::fault() names.
  static Result<std::unique_ptr<Endpoint>> open(const Settings& settings,
                                                std::unique_ptr<BufferPool> pool,
                                                std::unique_ptr<phy::Port> port);
  /// As close(), without waiting for the port.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  NodeId node() const { return node_.config().node; }
  /// Longest payload that the link carries now; 0 while it is not usable.
  std::size_t max_payload() const;
  bool usable() const;
  /// Packets of ours that wait for the link, or for its acknowledgement.
  std::uint32_t pending() const;

  /// Who is called with what arrives, from within progress(); may send. Copies of a datagram can
  /// come when a link dies (L9).
  void on_datagram(std::function<void(const Datagram&)> handler) { handler_ = std::move(handler); }
  void on_refusal(std::function<void(const Refusal&)> handler) { refused_ = std::move(handler); }

  /// Sends a datagram whose `size` bytes of payload `fill` writes straight into the packet.
  Send send(const Address& to, std::size_t size,
            const std::function<void(std::span<std::byte>)>& fill);
  Send send(const Address& to, std::span<const std::byte> payload);

  /// Starts the transport: connections, operations on the memory of peers and messages. Of
  /// `settings` node and hop_limit are the endpoint's own, whatever they are set to, and mtu at
  /// most its link's; a connection takes the smaller one of both ends (T4), which every link of the
  /// way must carry. Packets of proto 1 that came before are gone. Errors: it was started; what
  /// transport::fault() names.
  Result<void> start_transport(transport::Settings settings, const transport::Limits& limits);
  /// nullptr until it is started. It does something only within progress(): what is posted leaves
  /// with the next call, and completions, receives and events are there behind it. `now` of its
  /// functions is that of now().
  transport::Operations* operations();
  /// The time, within a handler that of the pass.
  Time now() const { return time(); }

  /// Does what is due; returns whether that was anything.
  bool progress();
  /// Sleeps until something may be due, at most for `longest`.
  void wait(Duration longest);
  /// Says CLOSE to the peer and lets go of the link. Pending packets are lost: wait for pending()
  /// to be 0 first.
  void close();

  const link::Link& link() const { return *shard_.link(kPort); }
  const network::ShardCounters& counters() const { return shard_.counters(); }
  const runtime::Clock& clock() const { return clock_; }
  /// Times that the slot was claimed again after its daemon was gone.
  std::uint64_t reclaims() const { return reclaims_; }
  /// Why the slot is not this endpoint's any more, for it is claimed again and again: its daemon is
  /// gone, or has the slot no more. Empty: it is, or the endpoint has none.
  const std::string& slot_fault() const { return slot_fault_; }

 private:
  static constexpr PortId kPort{0};

  Endpoint(const Settings& settings, std::unique_ptr<BufferPool> pool,
           std::unique_ptr<phy::Port> port, std::unique_ptr<SlotSession> slot);
  void start(const std::optional<phy::PacerConfig>& rate);
  void pace(const std::optional<phy::PacerConfig>& rate, Time now);
  void keep_slot(Time now);

  // network::ShardOwner
  void delivered(Buffer* packet, PortId port, Vc vc) override;
  void answered(const Buffer& request, PortId port, Vc vc) override;
  void own_dropped(network::EchoType type, const Buffer& packet) override;
  void pass(ShardId to, Buffer* buffer) override;
  link::BringUp bring_up(PortId port, std::uint8_t last_epoch) override;
  void link_changed(PortId port) override;
  // runtime::LoopOwner
  bool work(Time now) override;

  void hand_over(const Buffer& packet);
  bool hand_over_own_drops();
  /// Within a pass its time: what a handler sends must not be later than what the pass does after
  /// it.
  Time time() const { return in_pass_ ? pass_now_ : clock_.now(); }

  runtime::Clock clock_;
  runtime::RandomStock random_;
  runtime::Sleeper sleeper_;
  network::Node node_;
  network::RouteTable table_;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<SlotSession> slot_;  ///< nullptr on a port of its own
  std::unique_ptr<phy::Port> port_;    ///< nullptr while the slot is lost
  BufferQueue arrived_;
  /// What own_dropped() told, for the refusal handler: called after the shard's calls, since it may
  /// send. Its memory is for all that a link can hand back at once.
  struct OwnDrop {
    bool hop_limit_exceeded;
    std::uint32_t length;
    std::array<std::byte, network::kErrorData> head;
  };
  std::vector<OwnDrop> own_drops_;
  network::Shard shard_;
  runtime::ShardLoop loop_;
  std::unique_ptr<TransportHost> transport_;  ///< nullptr until it is started
  std::function<void(const Datagram&)> handler_;
  std::function<void(const Refusal&)> refused_;
  Time look_at_{};  ///< when to look at the slot's daemon next
  std::uint64_t reclaims_ = 0;
  std::string slot_fault_;
  bool in_pass_ = false;
  Time pass_now_{};
};

}  // namespace mtl::endpoint
