#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mtl::control {

/// A JSON value that knows where it stands in its text.
struct JsonValue {
  enum class Kind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  std::size_t offset = 0;         ///< of its first byte
  bool boolean = false;           ///< of a bool
  std::string text;               ///< content of a string, digits of a number
  std::vector<JsonValue> items;   ///< of an array or object
  std::vector<std::string> keys;  ///< of an object, one for each item
  std::vector<std::size_t> key_offsets;
};

/// "an object", "a number", ... for sentences.
std::string_view name(JsonValue::Kind kind);

struct JsonFault {
  std::size_t offset = 0;
  std::string message;
};

/// Parses one JSON document; on failure fills `fault` and returns false. Nests to kMaxMessageDepth.
bool parse_json_tree(std::string_view text, JsonValue& root, JsonFault& fault);

}  // namespace mtl::control
