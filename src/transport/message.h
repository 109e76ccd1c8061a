#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "transport/connection.h"
#include "transport/operation.h"
#include "transport/transport.h"

namespace mtl::transport {

/// Receives wait, and messages meet them, in a pool: of one connection, or shared by those of some
/// endpoints. Counted from 0.
using ReceivePool = std::uint32_t;

/// Memory for a message of a peer, as its poster tells it.
struct Receive {
  std::uint64_t context = 0;  ///< comes back with what was received
  /// The caller's, from the post until it is received. A longer message is cut: too_long.
  std::span<std::byte> to{};
  bool tagged = false;  ///< meets messages with a tag only, else those without one (T31)
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;  ///< bits of the tag that are not compared
  /// Meets messages of this connection only; absent: of any of the pool.
  std::optional<ConnectionHandle> from{};
};

/// A receive that is over, or the imm of a WRITE. What was posted ends once.
struct Received {
  enum class Kind : std::uint8_t {
    kMessage,
    kWriteImm,  ///< a WRITE with IMM is stored; it takes no receive (T31)
  };
  Kind kind = Kind::kMessage;
  std::uint64_t context = 0;  ///< of the receive
  ReceivePool pool = 0;
  ConnectionHandle connection;  ///< that it came on; it may have ended since
  Peer peer{};
  EndpointId endpoint{};  ///< ours
  /// kTooLong: the memory holds what has room there. kCancelled: by cancel_receive().
  Status status = Status::kOk;
  /// Not kNone: the connection ended before the message was complete, or, of a receive from that
  /// connection only, before one came. What is in the memory is undefined.
  EndReason ended = EndReason::kNone;
  bool tagged = false;
  std::uint64_t tag = 0;
  bool has_imm = false;
  std::uint64_t imm = 0;
  std::uint32_t total = 0;   ///< of the message
  std::uint32_t length = 0;  ///< bytes in the memory

  bool ok() const { return status == Status::kOk && ended == EndReason::kNone; }
};

/// What became of posting a receive.
enum class ReceivePosted : std::uint8_t {
  kTaken,
  kFull,     ///< Limits::receives are in use: take what was received, and try again
  kEnded,    ///< the connection that it is for has, and no message of it waits
  kInvalid,  ///< no such pool
};

}  // namespace mtl::transport
