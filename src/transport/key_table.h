#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/ids.h"
#include "transport/operation.h"

namespace mtl::transport {

/// What a key allows (T37).
enum Right : std::uint8_t { kRightRead = 1, kRightWrite = 2, kRightAtomic = 4 };

/// A piece of memory that its owner gives to peers (T37).
struct Region {
  std::span<std::byte> memory;
  std::uint8_t rights = 0;            ///< Right, or'ed
  std::uint64_t first_offset = 0;     ///< what operations call its first byte
  ConnectionId only = kNoConnection;  ///< our id of the one connection that may use it; 0: all
};

/// One registration, never that of another while it could be met: 0 is none.
using Registration = std::uint32_t;

/// The keys of a node and what they open. All memory is allocated by the constructor. One thread.
class KeyTable {
 public:
  /// At most `keys` at a time.
  explicit KeyTable(std::uint32_t keys);

  /// Gives a key for `region` that its owner chose. Errors: the table is full; the key is given
  /// already; a region whose atomics would not be aligned.
  Result<void> give(Key key, const Region& region);
  /// A key with 40 bits of `random` that was not given before (of 16 million before, at least).
  Key draw(std::uint64_t random);
  /// T38: takes the key back; nothing reaches the memory through it from here on. Returns what was
  /// registered, 0 if the key is not given.
  Registration withdraw(Key key);

  struct Access {
    Status status = Status::kOk;
    std::byte* memory = nullptr;
    Registration registration = 0;
  };
  /// T37's checks, in its order, for `length` bytes (not 0) by the connection that we call `by`.
  /// `size`: of the places of an ATOMIC, to whose multiple the offset must be; else 1.
  Access access(Key key, ConnectionId by, std::uint64_t offset, std::uint64_t length, Right right,
                std::size_t size = 1) const;

  std::uint32_t size() const { return used_; }

 private:
  struct Entry {
    Key key{};
    Region region;
    Registration registration = 0;  ///< 0: the place is free
  };

  std::size_t home(Key key) const;
  std::size_t find(Key key) const;  ///< where it is, or the free place where it would be

  std::vector<Entry> entries_;  ///< open addressing, at most half full
  std::size_t mask_;
  std::uint32_t most_;
  std::uint32_t used_ = 0;
  Registration last_ = 0;
  std::uint32_t drawn_ = 0;
};

}  // namespace mtl::transport
