#include "base/mac_text.h"

namespace mtl {

std::string mac_text(const Mac& mac) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : mac) {
    if (!out.empty()) out += ':';
    out += kDigits[std::to_integer<unsigned>(byte) >> 4];
    out += kDigits[std::to_integer<unsigned>(byte) & 0xF];
  }
  return out;
}

}  // namespace mtl
