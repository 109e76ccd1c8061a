#include "tools/mtperf/stream.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/byte_order.h"

namespace mtl::mtperf {
namespace {

constexpr std::uint32_t kMagic = 0x4D545046;  // "MTPF"

/// The finaliser of splitmix64: a stream of 64-bit words by index.
std::uint64_t word(std::uint64_t run, std::uint64_t number, std::uint64_t index) {
  std::uint64_t x = run + number * 0x9E3779B97F4A7C15 + index * 0xD1342543DE82EF95;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

template <class Visit>
bool for_words(std::uint64_t run, std::uint64_t number, std::size_t size, Visit visit) {
  for (std::size_t at = 0, i = 0; at < size; at += 8, ++i) {
    std::array<std::byte, 8> bytes;
    store64(bytes.data(), word(run, number, i));
    if (!visit(at, bytes.data(), std::min<std::size_t>(8, size - at))) return false;
  }
  return true;
}

}  // namespace

void encode(const Header& header, std::span<std::byte> out) {
  store32(out.data(), kMagic);
  store32(out.data() + 4, static_cast<std::uint32_t>(header.kind));
  store64(out.data() + 8, header.number);
  store64(out.data() + 16, header.run);
  store64(out.data() + 24, header.extra);
}

std::optional<Header> decode_head(std::span<const std::byte> payload) {
  if (payload.size() < kNumberedBytes || load32(payload.data()) != kMagic) return std::nullopt;
  const std::uint32_t kind = load32(payload.data() + 4);
  if (kind < static_cast<std::uint32_t>(Kind::kHello) ||
      kind > static_cast<std::uint32_t>(Kind::kRefused)) {
    return std::nullopt;
  }
  return Header{.kind = static_cast<Kind>(kind), .number = load64(payload.data() + 8)};
}

std::optional<Header> decode(std::span<const std::byte> payload) {
  auto header = decode_head(payload);
  if (!header || payload.size() < kHeaderBytes) return std::nullopt;
  header->run = load64(payload.data() + 16);
  header->extra = load64(payload.data() + 24);
  return header;
}

void fill_content(std::uint64_t run, std::uint64_t number, std::span<std::byte> content) {
  for_words(run, number, content.size(), [&](std::size_t at, const std::byte* w, std::size_t n) {
    std::memcpy(content.data() + at, w, n);
    return true;
  });
}

bool content_ok(std::uint64_t run, std::uint64_t number, std::span<const std::byte> content) {
  return for_words(run, number, content.size(),
                   [&](std::size_t at, const std::byte* w, std::size_t n) {
                     return std::memcmp(content.data() + at, w, n) == 0;
                   });
}

std::size_t size_of(std::uint64_t run, std::uint64_t number, std::size_t least, std::size_t most) {
  const std::uint64_t span = most - least + 1;
  return least + word(run, number, ~std::uint64_t{0}) % span;
}

bool Arrivals::has(std::uint64_t number) const {
  return number < next_ && (next_ - number > kWindow || seen_[number % kWindow]);
}

void FlowOrder::add(std::uint16_t entropy, std::uint64_t number) {
  std::uint64_t& next = next_[entropy];
  if (number < next) {
    ++out_of_order_;
  } else {
    next = number + 1;
  }
}

Arrivals::What Arrivals::add(std::uint64_t number) {
  if (number >= next_) {
    // Numbers passed over have not come: their places may hold those of a window ago.
    const std::uint64_t clear = std::min(number - next_, kWindow);
    for (std::uint64_t i = 0; i < clear; ++i) seen_[(number - 1 - i) % kWindow] = false;
    next_ = number + 1;
    seen_[number % kWindow] = true;
    ++received_;
    return What::kNew;
  }
  if (next_ - number > kWindow || seen_[number % kWindow]) {
    ++copies_;  // so far behind it counts as a copy, and as lost if it was none
    return What::kCopy;
  }
  seen_[number % kWindow] = true;
  ++received_;
  ++out_of_order_;
  return What::kNew;
}

}  // namespace mtl::mtperf
