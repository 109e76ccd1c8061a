#include "transport/memory_access.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/byte_order.h"

namespace mtl::transport {
namespace {

template <class T>
void store_as(std::byte* memory, const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  __atomic_store_n(reinterpret_cast<T*>(memory), value, __ATOMIC_RELEASE);
}

template <class T>
void load_as(std::byte* to, const std::byte* memory) {
  const T value = __atomic_load_n(reinterpret_cast<const T*>(memory), __ATOMIC_ACQUIRE);
  std::memcpy(to, &value, sizeof value);
}

bool aligned(const std::byte* memory, std::size_t size) {
  return reinterpret_cast<std::uintptr_t>(memory) % size == 0;
}

std::uint32_t load_number(const std::byte* p, std::uint32_t) {
  return load32(p);
}
std::uint64_t load_number(const std::byte* p, std::uint64_t) {
  return load64(p);
}
void store_number(std::byte* p, std::uint32_t value) {
  store32(p, value);
}
void store_number(std::byte* p, std::uint64_t value) {
  store64(p, value);
}

/// What stands in a place after `op`; numbers are T, bits are Word.
template <class T, class Word>
Word changed(AtomicOp op, Word old, Word operand) {
  const T a = std::bit_cast<T>(old);
  const T b = std::bit_cast<T>(operand);
  switch (op) {
    case AtomicOp::kAdd:
      if constexpr (std::is_floating_point_v<T>) {
        return std::bit_cast<Word>(static_cast<T>(a + b));
      } else {
        return static_cast<Word>(old + operand);  // wraps, signed or not
      }
    case AtomicOp::kAnd:
      return old & operand;
    case AtomicOp::kOr:
      return old | operand;
    case AtomicOp::kXor:
      return old ^ operand;
    case AtomicOp::kMin:
      return b < a ? operand : old;
    case AtomicOp::kMax:
      return b > a ? operand : old;
    default:
      return operand;  // swap
  }
}

template <class T, class Word>
Word change(AtomicOp op, Word* place, Word operand, Word wanted) {
  Word old = __atomic_load_n(place, __ATOMIC_RELAXED);
  for (;;) {
    Word next = operand;
    if (op == AtomicOp::kCompareSwap) {
      if (old != wanted) return old;
    } else {
      next = changed<T, Word>(op, old, operand);
    }
    if (__atomic_compare_exchange_n(place, &old, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      return old;
    }
  }
}

template <class T, class Word>
void execute(AtomicOp op, std::byte* memory, std::span<const std::byte> operands,
             std::byte* results) {
  const bool compares = op == AtomicOp::kCompareSwap;
  const std::size_t bytes = compares ? operands.size() / 2 : operands.size();
  for (std::size_t at = 0; at < bytes; at += sizeof(Word)) {
    // For compare-swap all compare values, then all new ones.
    const Word first = load_number(operands.data() + at, Word{});
    const Word operand = compares ? load_number(operands.data() + bytes + at, Word{}) : first;
    const Word old = change<T, Word>(op, reinterpret_cast<Word*>(memory + at), operand, first);
    if (results != nullptr) store_number(results + at, old);
  }
}

}  // namespace

void store_to_memory(std::byte* memory, const std::byte* from, std::size_t size) {
  switch (aligned(memory, size == 0 ? 1 : size) ? size : 0) {
    case 1:
      return store_as<std::uint8_t>(memory, from);
    case 2:
      return store_as<std::uint16_t>(memory, from);
    case 4:
      return store_as<std::uint32_t>(memory, from);
    case 8:
      return store_as<std::uint64_t>(memory, from);
    default:
      if (size != 0) std::memcpy(memory, from, size);
  }
}

void load_from_memory(std::byte* to, const std::byte* memory, std::size_t size) {
  switch (aligned(memory, size == 0 ? 1 : size) ? size : 0) {
    case 1:
      return load_as<std::uint8_t>(to, memory);
    case 2:
      return load_as<std::uint16_t>(to, memory);
    case 4:
      return load_as<std::uint32_t>(to, memory);
    case 8:
      return load_as<std::uint64_t>(to, memory);
    default:
      if (size != 0) std::memcpy(to, memory, size);
  }
}

void execute_atomic(AtomicOp op, AtomicType type, std::byte* memory,
                    std::span<const std::byte> operands, std::byte* results) {
  switch (type) {
    case AtomicType::kU32:
      return execute<std::uint32_t, std::uint32_t>(op, memory, operands, results);
    case AtomicType::kU64:
      return execute<std::uint64_t, std::uint64_t>(op, memory, operands, results);
    case AtomicType::kI32:
      return execute<std::int32_t, std::uint32_t>(op, memory, operands, results);
    case AtomicType::kI64:
      return execute<std::int64_t, std::uint64_t>(op, memory, operands, results);
    case AtomicType::kF32:
      return execute<float, std::uint32_t>(op, memory, operands, results);
    case AtomicType::kF64:
      return execute<double, std::uint64_t>(op, memory, operands, results);
  }
}

void swap_order(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t size) {
  for (std::size_t at = 0; at < bytes; at += size) {
    if (size == 4) {
      std::uint32_t value;
      std::memcpy(&value, from + at, sizeof value);
      store32(to + at, value);
    } else {
      std::uint64_t value;
      std::memcpy(&value, from + at, sizeof value);
      store64(to + at, value);
    }
  }
}

}  // namespace mtl::transport
