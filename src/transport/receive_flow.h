#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "transport/codec.h"
#include "transport/settings.h"

namespace mtl::transport {

/// A request that came before its turn: its body, until it is executed (T12).
struct HeldPacket {
  std::byte* body = nullptr;
  std::uint16_t size = 0;
  bool unordered = false;
  std::uint8_t operations = 0;
};

/// Memory for requests that are held, of all connections; allocated by the constructor. Packets are
/// copied into it: the buffer that a packet came in pays for credit on its link, which a held one
/// would keep from the very packet that is waited for. One thread.
class HeldPool {
 public:
  HeldPool(std::uint32_t packets, std::uint16_t mtu);
  /// A copy of `body`, nullptr when there is no room.
  HeldPacket* take(std::span<const std::byte> body);
  void give(HeldPacket* packet) { free_.push_back(packet); }
  std::size_t available() const { return free_.size(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::vector<HeldPacket> packets_;
  std::vector<HeldPacket*> free_;
};

/// The receiving side of one flow: what has arrived, what is to be executed next, and which acks
/// are due (T12, T13, T17, T18, T21).
class ReceiveFlow {
 public:
  ReceiveFlow(const Settings& settings, HeldPool& pool);

  /// Begins with `first` (T1), the window having been told in OPEN. Nothing may be held.
  void start(Psn first);
  /// Gives back what is held.
  void clear();

  Psn expected() const { return expected_; }  ///< E
  Marks marks() const { return marks_; }
  Psn last() const { return last_; }  ///< the PSN that arrived last; 0 before any did
  /// Of `last`, for an ACK made at `now`.
  std::uint32_t held(Time now) const;

  enum class Place : std::uint8_t { kNext, kAhead, kArrived, kBeyond };
  /// T12: kArrived is `duplicate`, kBeyond is `out_of_window`.
  Place place(Psn psn) const;
  /// A DATA at kNext or kAhead has arrived; `held` is what is to be executed in its turn, nullptr
  /// if it has been executed or is about to be.
  void arrived(Psn psn, bool congested, HeldPacket* held, Time now);
  /// A copy came.
  void copy(Time now);
  /// What has arrived at E has been executed: E moves past it.
  void executed();
  /// Moves E past what has arrived and was executed early, and takes what is held at E; nullptr if
  /// nothing has arrived there.
  HeldPacket* take_held();
  void give(HeldPacket* packet) { pool_.give(packet); }
  HeldPacket* hold(std::span<const std::byte> body) { return pool_.take(body); }

  // Acks (T17).
  void ack_due() { due_ = true; }
  bool due() const { return due_; }
  /// An arrival has not been told.
  bool untold() const { return untold_ != 0; }
  /// Whether something has arrived at or beyond E, so that only an ACK can tell (T17).
  bool beyond() const { return beyond_ != 0; }
  /// When an ack gets due by time alone, kNever.
  Time deadline() const { return untold_ != 0 && !due_ ? untold_at_ + ack_delay() : kNever; }
  void expire(Time now) { due_ = due_ || deadline() <= now; }
  /// A packet leaves that tells E and the window; `all`: everything that has arrived, too.
  void told(bool all);
  /// The bitmap from E on as an ACK carries it: words up to the last bit that is set.
  std::size_t bitmap(std::span<std::uint32_t, kMaxWords> words) const;

 private:
  static constexpr std::uint32_t kBits = std::uint32_t{1} << kMaxWindow;

  Duration ack_delay() const { return settings_.timers.ack_delay; }
  bool bit(Psn psn) const {
    return (arrived_[psn.value() % kBits / kWordBits] >> psn.value() % kWordBits & 1) != 0;
  }
  void flip(Psn psn) {
    arrived_[psn.value() % kBits / kWordBits] ^= std::uint32_t{1} << psn.value() % kWordBits;
  }
  void note(Time now);

  const Settings& settings_;
  HeldPool& pool_;
  std::vector<HeldPacket*> held_;  ///< by PSN
  std::uint32_t mask_;
  std::array<std::uint32_t, kBits / kWordBits> arrived_{};  ///< by PSN, at E and beyond
  Psn expected_;
  Psn limit_;  ///< the furthest E + 2^window told
  Psn last_;
  Time last_at_{};
  bool any_ = false;
  Marks marks_;
  std::uint32_t beyond_ = 0;  ///< bits set
  std::uint32_t untold_ = 0;  ///< arrivals, copies too
  Time untold_at_{};          ///< the first of them
  bool due_ = false;
};

}  // namespace mtl::transport
