#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

/// Text forms of bytes, as traces write them.
namespace mtl::conformance {

/// Two lower-case digits for each byte.
std::string to_hex(std::span<const std::byte> bytes);
/// The bytes of an even number of hexadecimal digits of either case, else nullopt.
std::optional<std::vector<std::byte>> from_hex(std::string_view text);
/// Six pairs of digits, joined by colons.
std::string to_text(const Mac& mac);
/// The address of such a text, else nullopt.
std::optional<Mac> mac_from_text(std::string_view text);

}  // namespace mtl::conformance
