#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/ids.h"
#include "base/result.h"
#include "phy/segment_guard.h"

/// The memory that a capture shares: a ring for each worker, which writes it, and what is needed to
/// read them. The program that reads it makes it, as it writes the file, so that both count as its
/// own and its limits hold for them; the daemon takes it in, and believes nothing that stands
/// there.
namespace mtl::capture {

/// One interface of a capture: a port, from its coming to its going.
struct Interface {
  std::string name;   ///< of the port; up to 64 bytes are kept
  std::string about;  ///< for people: number, device; up to 160 bytes are kept
  PortId port{};
  VlanId vlan{};  ///< 0: no tag; the frames in the rings have none either way
  Mac mac{};      ///< ours
};

/// What stands before a frame in a ring. Both, and bytes up to a multiple of kRecordUnit, are one
/// record, which never lies across the end of its ring.
struct Record {
  static constexpr std::uint16_t kFiller = 0xFFFF;  ///< an interface: the rest of the ring is empty

  std::uint32_t bytes = 0;     ///< of the record, this header included
  std::uint32_t captured = 0;  ///< of the frame, behind this header
  std::uint32_t length = 0;    ///< of the frame, untagged
  std::uint16_t interface = 0;
  std::uint8_t direction = 0;  ///< Direction
  std::uint8_t outcome = 0;    ///< Outcome
  std::int64_t at = 0;         ///< the node's clock, nanoseconds
  std::uint64_t reasons = 0;   ///< Reasons
  std::uint64_t missed = 0;    ///< frames of this interface that this ring had no room for so far
};
inline constexpr std::size_t kRecordUnit = 64;
static_assert(sizeof(Record) == 40 && sizeof(Record) <= kRecordUnit);

class Segment {
 public:
  static constexpr std::uint64_t kMinRing = 1U << 18;  ///< several of the longest records
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;  ///< of all rings together
  /// Places for interfaces: a port that is removed and another that is added take two.
  static constexpr std::size_t kMaxInterfaces = 512;

  /// The reader: makes the memory, all of it there and its size sealed. `ring_bytes` is a power of
  /// two from kMinRing on. A lack of memory is an Error, but if a control group's limit is reached
  /// the kernel ends a process of the group instead: this one, rather than the daemon.
  static Result<Fd> allocate(std::size_t rings, std::uint64_t ring_bytes);
  /// The daemon: checks type, seals and size of what came over the control socket, and that all of
  /// it is there, so that using it takes no memory of ours; then maps it and begins anew.
  static Result<std::unique_ptr<Segment>> adopt(const Fd& memory, std::size_t rings,
                                                std::uint64_t ring_bytes);
  /// The daemon: fills the page tables for a further part of the memory, of kPopulated bytes at
  /// most, so that no worker has to, and nothing else waits long meanwhile. False: all is done.
  bool populate();
  static constexpr std::size_t kPopulated = std::size_t{1} << 22;
  /// The reader: checks the same and the header that the daemon has written.
  static Result<std::unique_ptr<Segment>> attach(const Fd& memory);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::size_t rings() const { return rings_; }
  std::uint64_t ring_bytes() const { return ring_bytes_; }
  std::byte* ring(std::size_t ring) const { return ring_base_ + ring * ring_bytes_; }
  /// Bytes of records ever put into a ring: written by its worker.
  std::atomic<std::uint64_t>& head(std::size_t ring) const;
  /// Bytes ever taken out of it: written by the reader, which the daemon believes nothing.
  std::atomic<std::uint64_t>& tail(std::size_t ring) const;
  /// Frames of an interface that a ring had no room for: written by the ring's worker.
  std::atomic<std::uint64_t>& missed(std::size_t ring, std::size_t interface) const;

  /// The daemon: a further interface; nullopt: there is no place left, which is counted. One
  /// thread. Workers may name it in records when they have been told of it later.
  std::optional<std::uint16_t> add_interface(const Interface& interface);
  /// The reader: how many there are by now, at most kMaxInterfaces.
  std::size_t interfaces() const;
  /// The reader: one of them.
  Interface interface(std::size_t index) const;

  /// The reader: how many found no place.
  std::size_t left_out() const;

 private:
  struct Header;
  struct Words;
  Segment(std::size_t rings, std::uint64_t ring_bytes);
  static std::size_t size_of(std::size_t rings, std::uint64_t ring_bytes);
  Result<void> check(const Fd& memory) const;
  Result<void> map(int memory);
  Result<void> guard();
  Header& header() const;
  Words& words(std::size_t ring) const;

  std::size_t rings_;  ///< these four are never read from the memory again
  std::uint64_t ring_bytes_;
  std::size_t bytes_;
  std::uint32_t added_ = 0;
  std::uint32_t left_out_ = 0;
  std::size_t populated_ = 0;
  std::byte* base_ = nullptr;
  std::byte* ring_base_ = nullptr;
  std::size_t reserved_ = 0;
  std::optional<phy::SegmentGuard> guard_;
};

}  // namespace mtl::capture
