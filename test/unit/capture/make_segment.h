#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "capture/segment.h"

namespace mtl::capture::test {

/// Both steps in one: the reader's memory, and the daemon's view of it.
inline Result<std::unique_ptr<Segment>> make_segment(std::size_t rings, std::uint64_t ring_bytes,
                                                     Fd& memory) {
  auto made = Segment::allocate(rings, ring_bytes);
  if (!made) return made.error();
  memory = std::move(*made);
  return Segment::adopt(memory, rings, ring_bytes);
}

}  // namespace mtl::capture::test
