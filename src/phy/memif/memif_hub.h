#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "phy/memif/memif_port.h"
#include "phy/memif/memif_segment.h"
#include "phy/memif/memif_session.h"

namespace mtl::phy {

/// What an operator says of one end of memif.
struct MemifEndConfig {
  MemifRole role = MemifRole::kServer;
  std::string socket;  ///< a path, or "@name" for an abstract name
  std::uint32_t id = 0;
  MemifSecret secret{};
  std::uint8_t log2_ring = 10;        ///< client: descriptors a ring, as a power of two
  std::uint32_t buffer_bytes = 9344;  ///< client: of each descriptor; a multiple of 64
  std::uint32_t max_region_mib = kMemifRegionMib;  ///< server: of a client's memory
};

/// The longest of a MemifEndConfig::socket, bytes.
inline constexpr std::size_t kMaxMemifSocket = 107;

/// The control connections of all memif ports of a process: listens for clients, connects to
/// servers again and again, speaks memif's protocol, and hands over the memory of each connection
/// that comes about and of none when it ends.
///
/// Nothing that a peer does holds it up or makes it hold more than a bounded amount: at most
/// kMaxStrangers connections a socket have not said whom they want, the oldest gives way; a
/// connection is made in kPatience or ended; and an end whose peer left gets the next one after a
/// rest.
///
/// Threads: one, the control thread, which calls process() when fd() is readable.
class MemifHub {
 public:
  static constexpr std::size_t kMaxStrangers = 16;
  static constexpr std::chrono::milliseconds kPatience{5000};
  /// A client's first retry, doubling up to the last.
  static constexpr std::chrono::milliseconds kFirstRetry{250};
  static constexpr std::chrono::milliseconds kLastRetry{1000};
  /// After a connection's end, before the next one: links come up and go at most so often.
  static constexpr std::chrono::milliseconds kRest{100};
  /// Likewise after a peer that broke the rings.
  static constexpr std::chrono::milliseconds kRestAfterBreak{1000};

  /// Makes a socket of type SEQPACKET that listens at `socket`, not blocking.
  using Listen = std::function<Result<Fd>(const std::string& socket)>;
  /// Ends what Listen made, before the descriptor is closed.
  using Unlisten = std::function<void(const std::string& socket)>;
  /// The memory of end `end`'s new connection, or nullptr: it has ended. What is handed over before
  /// has to be given up first.
  using Install = std::function<void(std::size_t end, std::unique_ptr<MemifSegment> segment)>;

  /// @param name what peers are told of us, at most 31 bytes
  static Result<std::unique_ptr<MemifHub>> open(std::string name, Listen listen,
                                                Unlisten unlisten = {});
  /// Tells connected peers that it goes.
  ~MemifHub();
  MemifHub(const MemifHub&) = delete;
  MemifHub& operator=(const MemifHub&) = delete;

  /// Another end; a server's socket listens from now on, and after start() it may be connected. The
  /// result is its number, the lowest that no end has. `port` is asked for broken(); it outlives
  /// the end. Errors: the socket cannot listen; two servers have the same id on it.
  Result<std::size_t> add(const MemifEndConfig& config, const MemifPort& port);
  /// Takes an end away: its peer is told, and nothing is handed over for it any more, its memory's
  /// end included. Of a socket's last end the socket goes, too. Not within Install.
  void remove(std::size_t end);
  /// Begins to connect; for ends that are added later, too.
  void start(Install install);

  /// Becomes readable when process() has something to do. For the life of the hub.
  int fd() const { return poll_.get(); }
  void process();
  /// About once a second or oftener: ends the connections that their ports have given up.
  void sample();

  /// Why end `end` has no peer, with the remedy; empty: it has.
  std::string fault(std::size_t end) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection;
  struct Listener {
    std::string socket;  ///< empty: the place is free
    Fd fd;
    std::string refused;                            ///< what the last stranger was sent away for
    std::optional<Clock::time_point> paused_until;  ///< until then it is not watched
  };
  struct End {
    MemifEndConfig config;
    const MemifPort* port = nullptr;
    std::optional<std::size_t> listener;
    Connection* connection = nullptr;
    MemifSession::Offer offer;
    std::string fault;
    std::chrono::milliseconds retry{kFirstRetry};
    Clock::time_point not_before{};
  };

  MemifHub(std::string name, Listen listen, Unlisten unlisten, EventfdRinger ringer);
  Result<std::size_t> listener_for(const std::string& socket);
  bool watch(int fd, std::uint64_t key);
  void accept_some(std::size_t listener);
  void drop_stranger(std::size_t listener);
  void stop_listening(std::size_t listener);
  void connect(End& end);
  Connection& add_connection(Fd socket, MemifSession session);
  const MemifSession::Offer* look_up(Connection& connection, std::uint32_t id);
  void pump(Connection& connection);
  bool read_message(Connection& connection);
  void send_all(Connection& connection);
  void bring_up(Connection& connection);
  void close(Connection& connection, const std::string& why);
  void run_due();
  void arm_timer();

  std::string name_;
  Listen listen_;
  Unlisten unlisten_;
  Install install_;  ///< empty until start()
  EventfdRinger ringer_;
  Fd poll_;
  Fd timer_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<End>> ends_;  ///< by number; nullptr: none has it
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_key_;
};

}  // namespace mtl::phy
