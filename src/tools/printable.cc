#include "tools/printable.h"

#include <fmt/format.h>

#include <boost/locale/utf.hpp>
#include <iterator>

namespace mtl::tools {
namespace {

namespace utf = boost::locale::utf;

bool shown(utf::code_point c) {
  if (c == utf::illegal || c == utf::incomplete) return false;
  const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029;
  const bool turns = c == 0x200E || c == 0x200F || c == 0x061C || (c >= 0x202A && c <= 0x202E) ||
                     (c >= 0x2066 && c <= 0x2069);
  return !control && !turns;
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p != end) {
    const char* const start = p;
    const utf::code_point c = utf::utf_traits<char>::decode(p, end);
    const bool bad = c == utf::illegal || c == utf::incomplete;
    if (bad) p = start + 1;  // what follows may be the start of another character
    const std::string_view bytes(start, static_cast<std::size_t>(p - start));
    if (shown(c) || (bytes.size() == 1 && kept.find(bytes[0]) != std::string_view::npos)) {
      out += bytes;
      continue;
    }
    for (const char byte : bytes) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
  return out;
}

}  // namespace mtl::tools
