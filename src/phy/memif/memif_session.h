#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "phy/memif/memif_message.h"

namespace mtl::phy {

enum class MemifRole : std::uint8_t { kServer, kClient };

inline constexpr std::uint8_t kMaxMemifLog2Ring = 14;  ///< DPDK's bound
/// Each is a descriptor that a peer makes us hold before it is connected.
inline constexpr std::size_t kMaxMemifRegions = 8;
/// Bound of all regions of a connection together, where nothing else is said. Regions may be
/// sparse: whoever touches a page first is charged for it, and a peer can make a server do so.
inline constexpr std::uint32_t kMemifRegionMib = 128;
/// Of one region; see SegmentGuard.
inline constexpr std::uint64_t kMaxMemifRegion =
    (std::uint64_t{1} << 31) - (std::uint64_t{1} << 22);

/// Of a ring's memory: a head of 128 bytes, then descriptors of 16.
constexpr std::uint64_t memif_ring_bytes(std::uint8_t log2) {
  return 128 + (std::uint64_t{16} << log2);
}

struct MemifRegion {
  Fd memory;
  std::uint64_t size = 0;
};
struct MemifRing {
  std::uint16_t region = 0;
  std::uint32_t offset = 0;
  std::uint8_t log2 = 0;
  Fd interrupt;  ///< eventfd by which the writer of the ring wakes its reader
};
/// The memory of a connection as the two agree on it.
struct MemifLayout {
  std::vector<MemifRegion> regions;
  MemifRing to_server;
  MemifRing to_client;
};

/// One end of one control connection of memif: messages with their descriptors go in, messages go
/// out. Knows no socket, no memory and no clock. One thread.
///
/// The peer is not trusted: what is out of place, out of range or out of order ends the session
/// with a DISCONNECT that says why.
class MemifSession {
 public:
  /// What a server has under an id.
  struct Offer {
    MemifSecret secret{};                            ///< all zeros: none is asked for
    bool taken = false;                              ///< another session has it
    std::uint32_t max_region_mib = kMemifRegionMib;  ///< of all regions together
  };
  /// nullptr: there is nothing under this id. Called when an INIT comes.
  using Lookup = std::function<const Offer*(std::uint32_t id)>;
  /// Makes a client's memory with rings of 2^log2 descriptors. Called when the server has let us
  /// in: one that greets and sends away costs no memory.
  using Make = std::function<Result<MemifLayout>(std::uint8_t log2)>;

  struct ClientConfig {
    std::uint32_t id = 0;
    MemifSecret secret{};
    std::uint8_t log2_ring = 10;  ///< 1..kMaxMemifLog2Ring; the server may want less
  };

  /// A server's end of a connection that was accepted; HELLO waits to be sent.
  static MemifSession server(std::string name, Lookup lookup);
  /// A client's end of a connection that was made.
  static MemifSession client(std::string name, const ClientConfig& config, Make make);

  /// A message that has come, and the descriptors that came with it. `bytes` of another length than
  /// a message's, and descriptors where none belong, end the session like any other nonsense.
  void receive(std::span<const std::byte> bytes, std::vector<Fd> fds);

  struct Out {
    MemifBytes bytes;
    int fd = -1;  ///< to be sent along; stays the session's
  };
  /// The next message to be sent, in order; nullopt: none.
  std::optional<Out> next();

  /// The peer wants to be connected (server) or says it is (client): the owner brings the memory
  /// into use and says connected() or disconnect().
  bool ready() const { return state_ == State::kReady; }
  /// What was agreed; once, when ready().
  MemifLayout take_layout() { return std::move(layout_); }
  void connected();
  /// Ends the session: the peer is told why. Nothing if it has ended.
  void disconnect(const std::string& reason);
  /// Nothing more is taken or made; what next() has yet may be sent.
  bool ended() const { return state_ == State::kEnded; }
  /// Of an ended session, one sentence's part: "it asked for id 7, which ...".
  const std::string& why() const { return why_; }

  bool up() const { return state_ == State::kUp; }
  /// It is up, or was before it ended.
  bool was_up() const { return was_up_; }
  /// Server: the id that the client was let in under; nullopt before.
  std::optional<std::uint32_t> id() const { return id_; }
  /// What the peer calls itself; printable.
  const std::string& peer() const { return peer_; }

 private:
  enum class State : std::uint8_t {
    kInit,        ///< server: waits for INIT
    kSetUp,       ///< server: regions and rings come
    kHello,       ///< client: waits for HELLO
    kAsking,      ///< client: waits for the ACK of its INIT
    kTelling,     ///< client: an ACK for each message of its own
    kConnecting,  ///< client: waits for CONNECTED
    kReady,
    kUp,
    kEnded,
  };
  MemifSession(MemifRole role, std::string name) : role_(role), name_(std::move(name)) {}

  void push(const MemifMessage& message, int fd = -1) { out_.push_back({encode(message), fd}); }
  void fail(const std::string& reason);

  void take(const MemifAck&, std::vector<Fd>&);
  void take(const MemifHello&, std::vector<Fd>&);
  void take(const MemifInit&, std::vector<Fd>&);
  void take(const MemifAddRegion&, std::vector<Fd>&);
  void take(const MemifAddRing&, std::vector<Fd>&);
  void take(const MemifConnect&, std::vector<Fd>&);
  void take(const MemifConnected&, std::vector<Fd>&);
  void take(const MemifDisconnect&, std::vector<Fd>&);
  bool ring_fits(const MemifRing& ring) const;
  bool make_memory();

  MemifRole role_;
  State state_ = State::kEnded;
  bool was_up_ = false;
  std::string name_;
  std::string peer_;
  std::string why_;
  std::deque<Out> out_;
  MemifLayout layout_;
  // Server.
  Lookup lookup_;
  std::optional<std::uint32_t> id_;
  std::uint64_t memory_ = 0;  ///< bytes of the regions so far
  std::uint32_t max_region_mib_ = kMemifRegionMib;
  // Client.
  ClientConfig config_;
  Make make_;
  std::uint8_t log2_ring_ = 0;  ///< what both can do
  std::deque<Out> to_tell_;     ///< one after each ACK
};

}  // namespace mtl::phy
