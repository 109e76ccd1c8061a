#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "link/link.h"

namespace mtl::runtime {

/// A stock of random words from the kernel, so that drawing one is no system call: bring-ups (L4)
/// happen inside a worker's pass. The owner tops it up when it has nothing else to do. One thread.
class RandomStock {
 public:
  static constexpr std::size_t kWords = 256;

  RandomStock() { top_up(); }

  /// A random word. Asks the kernel only if the stock is used up (kWords bring-ups in one stretch
  /// of work, which hold_down and the INIT exchange keep from happening).
  std::uint32_t word() {
    if (left_ == 0) top_up();
    return words_[--left_];
  }

  /// Numbers of a bring-up (L4): a nonce, not 0, and an epoch, 1..255, other than `last_epoch`.
  link::BringUp bring_up(std::uint8_t last_epoch);

  /// Whether less than half is left.
  bool low() const { return left_ < kWords / 2; }
  /// Fills the stock by getrandom(2).
  void top_up();

 private:
  std::array<std::uint32_t, kWords> words_{};
  std::size_t left_ = 0;
};

}  // namespace mtl::runtime
