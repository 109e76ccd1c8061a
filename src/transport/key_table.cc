#include "transport/key_table.h"

#include <bit>
#include <string>

namespace mtl::transport {
namespace {

constexpr std::size_t kAtomicAlignment = 8;
constexpr unsigned kCountBits = 24;  ///< of a drawn key; the other 40 are random (T37)

}  // namespace

KeyTable::KeyTable(std::uint32_t keys)
    : entries_(std::bit_ceil(std::size_t{keys} * 2 + 2)), mask_(entries_.size() - 1), most_(keys) {}

std::size_t KeyTable::home(Key key) const {
  return (key.value() * 0x9E3779B97F4A7C15) >> 32 & mask_;
}

std::size_t KeyTable::find(Key key) const {
  std::size_t at = home(key);
  while (entries_[at].registration != 0 && entries_[at].key != key) at = (at + 1) & mask_;
  return at;
}

Result<void> KeyTable::give(Key key, const Region& region) {
  if (used_ == most_) {
    return Error{"there are " + std::to_string(most_) +
                 " keys already; raise `keys` or withdraw one"};
  }
  const auto address = reinterpret_cast<std::uintptr_t>(region.memory.data());
  if ((region.rights & kRightAtomic) != 0 &&
      (address - region.first_offset) % kAtomicAlignment != 0) {
    return Error{
        "memory for atomics at an address and first offset that differ modulo 8; align it"};
  }
  Entry& entry = entries_[find(key)];
  if (entry.registration != 0) {
    return Error{"key " + std::to_string(key.value()) + " is given already; choose another"};
  }
  if (++last_ == 0) ++last_;
  entry = {key, region, last_};
  ++used_;
  return {};
}

Key KeyTable::draw(std::uint64_t random) {
  for (;;) {
    ++drawn_;
    const Key key{random << kCountBits | (drawn_ & ((std::uint32_t{1} << kCountBits) - 1))};
    if (entries_[find(key)].registration == 0) return key;
  }
}

Registration KeyTable::withdraw(Key key) {
  std::size_t at = find(key);
  const Registration registration = entries_[at].registration;
  if (registration == 0) return 0;
  --used_;
  // Later entries move up, so that a search never meets a gap before what it looks for.
  for (std::size_t next = (at + 1) & mask_; entries_[next].registration != 0;
       next = (next + 1) & mask_) {
    const std::size_t wanted = home(entries_[next].key);
    if (((next - wanted) & mask_) < ((next - at) & mask_)) continue;
    entries_[at] = entries_[next];
    at = next;
  }
  entries_[at] = Entry{};
  return registration;
}

KeyTable::Access KeyTable::access(Key key, ConnectionId by, std::uint64_t offset,
                                  std::uint64_t length, Right right, std::size_t size) const {
  const Entry& entry = entries_[find(key)];
  const Region& region = entry.region;
  if (entry.registration == 0 || (region.only != kNoConnection && region.only != by)) {
    return {.status = Status::kBadKey};
  }
  if ((region.rights & right) == 0) return {.status = Status::kNoPermission};
  const std::uint64_t from = offset - region.first_offset;
  if (from > region.memory.size() || length > region.memory.size() - from) {
    return {.status = Status::kOutOfBounds};
  }
  if (offset % size != 0) return {.status = Status::kMisaligned};
  return {Status::kOk, region.memory.data() + from, entry.registration};
}

}  // namespace mtl::transport
