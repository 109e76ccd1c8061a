#include "conformance/hex.h"

#include <cstdint>

namespace mtl::conformance {
namespace {

constexpr std::size_t kMacText = 17;  // six pairs and five colons

std::optional<std::uint8_t> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

std::optional<std::byte> byte_of(char high, char low) {
  const auto h = digit(high);
  const auto l = digit(low);
  if (!h || !l) return std::nullopt;
  return static_cast<std::byte>(*h << 4 | *l);
}

}  // namespace

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<std::size_t>(b >> 4)];
    text += kDigits[std::to_integer<std::size_t>(b & std::byte{0x0F})];
  }
  return text;
}

std::optional<std::vector<std::byte>> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const auto b = byte_of(text[i], text[i + 1]);
    if (!b) return std::nullopt;
    bytes.push_back(*b);
  }
  return bytes;
}

std::string to_text(const Mac& mac) {
  std::string text;
  for (const std::byte b : mac) {
    if (!text.empty()) text += ':';
    text += to_hex({&b, 1});
  }
  return text;
}

std::optional<Mac> mac_from_text(std::string_view text) {
  if (text.size() != kMacText) return std::nullopt;
  Mac mac{};
  for (std::size_t i = 0; i < mac.size(); ++i) {
    if (i > 0 && text[3 * i - 1] != ':') return std::nullopt;
    const auto b = byte_of(text[3 * i], text[3 * i + 1]);
    if (!b) return std::nullopt;
    mac[i] = *b;
  }
  return mac;
}

}  // namespace mtl::conformance
