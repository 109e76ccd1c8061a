#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/serial.h"

namespace mtl::link {

/// The sending side's sequence (L10, L16, L17): the frames that are unacknowledged, and those of
/// them that are to be sent again. Owns the packets it keeps.
class Sender {
 public:
  /// At most `window` frames are ever kept; the memory for them is allocated here.
  explicit Sender(std::uint16_t window);

  /// Starts a session in which at most `window` frames (capped by the constructor's) are
  /// unacknowledged. Nothing may be kept (take_oldest()).
  void reset(std::uint16_t window);

  Seq oldest() const { return una_; }  ///< una of L16
  Seq next() const { return next_; }   ///< seq of the next new DATA
  std::uint16_t outstanding() const { return next_.since(una_); }
  bool window_open() const { return outstanding() < window_; }

  /// A new frame leaves; keeps the packet. The window must be open.
  Seq sent(Buffer* packet);
  /// Whether `ack` is one of [una, next].
  bool valid_ack(Seq ack) const { return ack.since(una_) <= outstanding(); }
  /// The oldest unacknowledged packet, and una moves past it; the caller owns it. outstanding() is
  /// not 0.
  Buffer* take_oldest();
  /// Likewise all before `ack`, one of [una, next], the oldest first, as many as `out` has places
  /// for; returns how many.
  std::size_t take_acked(Seq ack, std::span<Buffer*> out);

  /// L17: `count` frames from `first` on that are still unacknowledged are to be sent again, once,
  /// in the order first listed.
  void send_again(Seq first, std::uint16_t count);
  /// The next frame to be sent again; false if none.
  bool next_again(Seq& seq, Buffer*& packet);
  bool again_waits() const { return again_count_ != 0; }

  std::size_t memory() const {
    return slots_.size() * sizeof(Slot) + again_.size() * sizeof(again_[0]);
  }

 private:
  struct Slot {
    Buffer* packet = nullptr;
    bool again = false;  ///< waits to be sent again
  };
  Slot& slot(Seq seq) { return slots_[seq.value() & mask_]; }
  void mark_again(Seq seq);

  std::vector<Slot> slots_;
  std::vector<Seq> again_;  ///< ring of sequence numbers to be sent again
  std::uint16_t cap_;
  std::uint16_t window_;
  std::uint16_t mask_;  ///< of the part in use: a small window stays in cache
  Seq una_;
  Seq next_;
  std::uint32_t again_head_ = 0;
  std::uint32_t again_length_ = 0;  ///< entries of again_, also of frames acknowledged since
  std::uint32_t again_count_ = 0;   ///< frames with Slot::again
};

}  // namespace mtl::link
