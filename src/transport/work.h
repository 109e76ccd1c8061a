#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "transport/connection.h"
#include "transport/operation.h"
#include "transport/transport.h"

namespace mtl::transport {

/// How an operation is to be treated; or'ed.
enum WorkFlag : std::uint16_t {
  /// No completion if it succeeds; it still counts for a flush.
  kSilent = 1,
  /// The data is copied now: the caller's memory is free again when post() returns. At most
  /// kMaxInjected bytes.
  kInject = 2,
  /// It begins only when all operations posted before it on the connection are complete.
  kFence = 4,
  /// It may wait for others to share its packet, for Limits::pack_delay at most.
  kMayWait = 8,
  /// A put may be stored before what was posted before it (T15). What is posted after it still
  /// comes
  /// after it.
  kMayOvertake = 16,
  /// A send: `tag` is told, so it meets tagged receives only.
  kTagged = 32,
  /// A send or put: `imm` is told. A put is then a message, too (T31), and may not overtake.
  kWithImm = 64,
  /// A send is complete only when it is received (COMPLETE, T35), not when it is executed.
  kConfirm = 128,
  /// A send is offered, whatever its length (T32).
  kOffered = 256,
};

/// An operation on the memory of a peer, or a message to it, as its poster tells it.
struct Work {
  enum class Kind : std::uint8_t {
    kPut,          ///< `from` is stored
    kGet,          ///< `to` is filled
    kAtomic,       ///< without result
    kFetchAtomic,  ///< atomic; old values go to `to`
    kFlush,        ///< complete when all posted before it on the connection is (T27)
    kSend,         ///< `from` is a message (T31)
  };
  Kind kind = Kind::kPut;
  std::uint16_t flags = 0;    ///< WorkFlag
  std::uint64_t context = 0;  ///< comes back with the completion
  Key key{};
  std::uint64_t offset = 0;
  /// The caller's, unchanged until the operation is complete (but kInject). Of atomics the operands
  /// in this machine's order, one for each place; they are always copied. Compare-swap: all compare
  /// values, then all new ones.
  std::span<const std::byte> from{};
  /// The caller's, until the operation is complete.
  std::span<std::byte> to{};
  AtomicOp op{};
  AtomicType type{};
  std::uint64_t tag = 0;
  std::uint64_t imm = 0;
};

inline constexpr std::size_t kMaxInjected = kMaxOperands;

/// What became of a post.
enum class Posted : std::uint8_t {
  kTaken,
  kFull,     ///< Limits::operations are in use: take completions, and try again
  kEnded,    ///< the connection has
  kInvalid,  ///< lengths or codes that T26 and T30 do not allow; kInject of too much
};

/// How an operation ended. An operation that was posted ends once, with one completion unless it is
/// kSilent and succeeded.
struct Completion {
  std::uint64_t context = 0;
  Work::Kind kind{};
  ConnectionHandle connection;
  Peer peer{};
  /// What the peer said, kOk unless it failed there. Codes that the page does not have may come.
  /// Of a send: kTooLong, its receive took less than all of it (T35); kCancelled, by cancel().
  Status status = Status::kOk;
  /// Not kNone: the connection ended first; the operation was executed once, or not at all (T10).
  EndReason ended = EndReason::kNone;
  Key key{};
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  ///< bytes of the peer's memory, or of the message
  Duration age{0};           ///< from its post to its end

  bool ok() const { return status == Status::kOk && ended == EndReason::kNone; }
};

}  // namespace mtl::transport
