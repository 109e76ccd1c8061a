#include "runtime/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace mtl::runtime {
namespace {

constexpr std::uint32_t kEpochs = 255;  // 1..255

void fill(std::byte* out, std::size_t n) {
  while (n > 0) {
    const ssize_t got = getrandom(out, n, 0);
    if (got < 0) {
      // Only EINTR can happen on a kernel that has the call; without random numbers no link may
      // come up (a guessed nonce would accept a stranger), so there is nothing to go on with.
      if (errno == EINTR) continue;
      std::abort();
    }
    out += got;
    n -= static_cast<std::size_t>(got);
  }
}

}  // namespace

void RandomStock::top_up() {
  fill(reinterpret_cast<std::byte*>(words_.data() + left_),
       (kWords - left_) * sizeof(std::uint32_t));
  left_ = kWords;
}

link::BringUp RandomStock::bring_up(std::uint8_t last_epoch) {
  link::BringUp numbers;
  do {
    numbers.nonce = word();
  } while (numbers.nonce == 0);
  if (last_epoch == 0) {
    numbers.epoch = static_cast<std::uint8_t>(1 + word() % kEpochs);
  } else {
    // One of the 254 others: 1 to 254 steps on from the last, round 1..255.
    const std::uint32_t steps = 1 + word() % (kEpochs - 1);
    numbers.epoch = static_cast<std::uint8_t>(1 + (last_epoch - 1u + steps) % kEpochs);
  }
  return numbers;
}

}  // namespace mtl::runtime
