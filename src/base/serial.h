#pragma once

#include <cstdint>
#include <type_traits>

namespace mtl {

/// A cyclic counter with serial comparison (protocol page, preamble; RFC 1982): a is before b iff
/// 0 < (b - a) mod 2^n < 2^(n-1). Tag keeps the spaces apart: sequence numbers do not mix with
/// credit.
template <class Tag, class Rep>
class Serial {
  static_assert(std::is_unsigned_v<Rep>);

 public:
  constexpr Serial() = default;
  constexpr explicit Serial(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  /// How far this is ahead of `from`, modulo 2^n.
  constexpr Rep since(Serial from) const { return static_cast<Rep>(value_ - from.value_); }
  constexpr bool before(Serial other) const {
    const Rep d = other.since(*this);
    return d != 0 && d < kHalf;
  }
  constexpr bool after(Serial other) const { return other.before(*this); }
  /// Whether this lies in [from, from + length).
  constexpr bool in_window(Serial from, Rep length) const { return since(from) < length; }

  constexpr Serial operator+(Rep n) const { return Serial(static_cast<Rep>(value_ + n)); }
  constexpr Serial& operator+=(Rep n) {
    value_ = static_cast<Rep>(value_ + n);
    return *this;
  }
  friend constexpr bool operator==(Serial, Serial) = default;

 private:
  static constexpr Rep kHalf = static_cast<Rep>(Rep{1} << (sizeof(Rep) * 8 - 1));
  Rep value_ = 0;
};

/// Sequence number of a DATA frame on a link (L10).
using Seq = Serial<struct SeqTag, std::uint16_t>;
/// Cells given out, or used, for a VC in a session (L20, L21).
using CellCount = Serial<struct CellTag, std::uint16_t>;

}  // namespace mtl
