#pragma once

#include <cstddef>
#include <span>

#include "transport/operation.h"

/// How the memory of an application is read and written for peers: other threads use it meanwhile.
namespace mtl::transport {

/// Copies `size` bytes; where size is 1, 2, 4 or 8 and the place in the application's memory is
/// aligned to it, undivided (T29).
void store_to_memory(std::byte* memory, const std::byte* from, std::size_t size);
void load_from_memory(std::byte* to, const std::byte* memory, std::size_t size);

/// T30: carries out `op` at successive places from `memory` on, each undivided. `operands` are as
/// on the wire; `op` and `type` are supported() and the operands whole; memory is aligned to the
/// type. Old values go to `results` as on the wire, unless it is nullptr.
void execute_atomic(AtomicOp op, AtomicType type, std::byte* memory,
                    std::span<const std::byte> operands, std::byte* results);

/// Turns a row of numbers of `size` bytes (4 or 8) from this machine's order to the wire's, or
/// back.
void swap_order(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t size);

}  // namespace mtl::transport
