#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/ids.h"

/// What a client of mtperf asks of `mtperf serve`, and how both say so to each other: messages with
/// a tag, beside those that are measured.
namespace mtl::mtperf {

enum class Mode : std::uint8_t {
  kWrite,   ///< puts into the server's memory
  kRead,    ///< gets out of it
  kSend,    ///< messages
  kStore,   ///< puts of some bytes each, many in a packet
  kLoad,    ///< gets of some bytes each, one after the other
  kAtomic,  ///< fetch-adds of 64 bits on one place
};
inline constexpr unsigned kModes = 6;
const char* name(Mode mode);

/// Messages that a peer may have under way (T33).
inline constexpr std::uint32_t kMessages = 256;

struct Job {
  Mode mode = Mode::kWrite;
  bool latency = false;     ///< to and fro, one at a time
  bool both = false;        ///< the server does the same to the client
  bool verify = false;      ///< contents are filled and compared
  std::uint32_t depth = 1;  ///< operations that are under way at a time
  std::uint64_t size = 0;   ///< bytes of each
  std::uint64_t seed = 0;

  /// Bytes of the peer's memory that its operations reach: a place for each one under way.
  std::uint64_t window() const { return size * depth; }
  /// Receives that are posted for it: no more messages come before they are taken (T33).
  std::uint32_t receives() const { return std::min(depth, kMessages); }
};

/// Bytes of memory that a job takes at the server, in all.
std::uint64_t server_memory(const Job& job);

/// Added to a job's seed for what the server sends.
inline constexpr std::uint64_t kServerSeed = 1;
inline constexpr std::uint32_t kMaxDepth = 4096;
inline constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 30;
/// What is wrong with it, or nullptr: names the option and its range.
const char* fault(const Job& job);

struct Control {
  enum class Kind : std::uint8_t {
    kJob = 1,      ///< client: `job`, `key` of its own memory, `operations` to be done (0: any)
    kReady = 2,    ///< server: `key` of its memory
    kRefused = 3,  ///< server: more memory than it gives
    kStop = 4,     ///< client: all is done; `cut_short`: the server's part need not be
    kResult = 5,   ///< server: what came, and what it did itself
  };
  Kind kind = Kind::kJob;
  Job job;
  transport::Key key{};
  bool cut_short = false;        ///< kStop
  std::uint64_t operations = 0;  ///< kJob; kResult: of the server's own, complete
  std::uint64_t received = 0;    ///< kResult: messages that came
  std::uint64_t altered = 0;     ///< kResult: of them, or of what was got
  std::uint64_t limit = 0;       ///< kRefused: bytes that it gives at most
  std::uint64_t took_ns = 0;     ///< kResult: the server's own operations
};
inline constexpr std::size_t kControlBytes = 80;
inline constexpr std::uint64_t kControlTag = 0x4D545046;  // "MTPF"

using ControlBytes = std::array<std::byte, kControlBytes>;
ControlBytes encode(const Control& control);
/// nullopt: not one of ours, or a job that fault() names.
std::optional<Control> decode_control(std::span<const std::byte> message);

}  // namespace mtl::mtperf
