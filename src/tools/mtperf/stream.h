#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

/// The payload of mtperf's datagrams, and what is kept of those that came. All integers big-endian.
namespace mtl::mtperf {

enum class Kind : std::uint8_t {
  kHello = 1,  ///< is there somebody? repeated until answered
  kHelloAck = 2,
  kData = 3,    ///< number, then content from the seed
  kEnd = 4,     ///< number: how many DATA were sent; extra: how many of them were refused, of which
                ///< kRefused tells the numbers
  kEndAck = 5,  ///< number: how many of them were received
  kRefused = 6,  ///< behind the header: numbers (u64) of DATA that a named drop ended on the way
};

/// First bytes of every payload. The first 16 of a packet's payload come back in an echo error, so
/// the number stands within them.
struct Header {
  Kind kind = Kind::kData;
  std::uint64_t number = 0;
  std::uint64_t run = 0;  ///< the sender's run: what an earlier one left is not ours
  std::uint64_t extra = 0;
};
inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kNumberedBytes = 16;  ///< with magic, kind and number

void encode(const Header& header, std::span<std::byte> out);
/// nullopt: not one of ours.
std::optional<Header> decode(std::span<const std::byte> payload);
/// Kind and number alone, of a payload that was cut to kNumberedBytes or more.
std::optional<Header> decode_head(std::span<const std::byte> payload);

/// Content of DATA `number` of `run`: fills or compares everything behind the header.
void fill_content(std::uint64_t run, std::uint64_t number, std::span<std::byte> content);
bool content_ok(std::uint64_t run, std::uint64_t number, std::span<const std::byte> content);

/// Payload size of DATA `number`: uniform in [least, most], the same at both ends.
/// `run` of these three is the seed of a sender's stream, the same in each of its runs.
std::size_t size_of(std::uint64_t run, std::uint64_t number, std::size_t least, std::size_t most);

/// Which numbers have come: each is told from a copy of it as long as it is at most kWindow behind
/// the furthest that came.
class Arrivals {
 public:
  static constexpr std::uint64_t kWindow = 1U << 20;
  Arrivals() : seen_(kWindow) {}

  enum class What : std::uint8_t { kNew, kCopy };
  What add(std::uint64_t number);
  /// Whether `number` has come; also true of what is too far behind to be known.
  bool has(std::uint64_t number) const;
  std::uint64_t received() const { return received_; }
  std::uint64_t copies() const { return copies_; }
  std::uint64_t out_of_order() const { return out_of_order_; }

 private:
  std::vector<bool> seen_;  ///< of the last kWindow numbers, by number modulo kWindow
  std::uint64_t next_ = 0;  ///< one past the furthest
  std::uint64_t received_ = 0;
  std::uint64_t copies_ = 0;
  std::uint64_t out_of_order_ = 0;
};

/// The order within each flow of one sender, copies left out.
class FlowOrder {
 public:
  /// A datagram of flow `entropy` has come for the first time.
  void add(std::uint16_t entropy, std::uint64_t number);
  /// Those that came after a higher number of their flow.
  std::uint64_t out_of_order() const { return out_of_order_; }

 private:
  std::unordered_map<std::uint16_t, std::uint64_t> next_;  ///< one past the furthest, by flow
  std::uint64_t out_of_order_ = 0;
};

}  // namespace mtl::mtperf
