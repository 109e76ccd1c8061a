#pragma once

#include <cstdint>

/// Counts the allocations of threads that ask for it: the proof that a fast path makes none.
/// Linking count_new.cc replaces the program's operator new.
namespace mtl::runtime::test {

/// Whether the calling thread's allocations count from now on.
void count_allocations_here(bool count);
/// Allocations counted so far, of all threads.
std::uint64_t allocations_counted();

}  // namespace mtl::runtime::test
