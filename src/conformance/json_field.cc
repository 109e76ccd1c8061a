#include "conformance/json_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/stream_parser.hpp>
#include <fstream>
#include <iterator>
#include <system_error>

#include "conformance/hex.h"

namespace mtl::conformance {
namespace {

namespace json = boost::json;

/// "line L, column C" of an offset, both from 1.
std::string position(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') + 1;  // 0 when there is none
  return fmt::format("line {}, column {}", line, before.size() - start + 1);
}

Result<std::string> read_text(const std::filesystem::path& path, std::size_t max_bytes) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return Error{fmt::format("{}: {}", path.string(), error.message())};
  if (size > max_bytes) {
    return Error{fmt::format("{}: {} bytes are more than the {} that are read", path.string(), size,
                             max_bytes)};
  }
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) return Error{fmt::format("{}: cannot be read", path.string())};
  return text;
}

}  // namespace

Result<JsonFile> JsonFile::load(const std::filesystem::path& path, std::size_t max_bytes) {
  const auto text = read_text(path, max_bytes);
  if (!text) return text.error();
  json::stream_parser parser;
  json::error_code error;
  const std::size_t read = parser.write(*text, error);
  if (!error) parser.finish(error);
  if (error) {
    return Error{fmt::format("{}: {}: not JSON: {}", path.string(),
                             position(*text, std::min(read, text->size())), error.message())};
  }
  return of(path, parser.release());
}

JsonFile JsonFile::of(std::filesystem::path path, json::value root) {
  JsonFile file;
  file.path_ = std::move(path);
  file.root_ = std::move(root);
  return file;
}

void JsonFile::fail(const std::string& field, const std::string& what) {
  if (error_) return;
  error_ =
      Error{fmt::format("{}: {}: {}", path_.string(), field.empty() ? "the whole" : field, what)};
}

std::string JsonField::member_path(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void JsonField::only(std::initializer_list<std::string_view> names) const {
  if (value_ == nullptr) return;
  if (!value_->is_object()) return fail("must be an object");
  for (const auto& member : value_->get_object()) {
    const std::string_view key{member.key().data(), member.key().size()};
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      return file_->fail(member_path(key),
                         fmt::format("unknown field; known here: {}", fmt::join(names, ", ")));
    }
  }
}

JsonField JsonField::operator[](std::string_view name) const {
  if (auto field = find(name)) return *field;
  if (value_ != nullptr) file_->fail(member_path(name), "is missing");
  return {*file_, nullptr, member_path(name)};
}

std::optional<JsonField> JsonField::find(std::string_view name) const {
  if (!is_object()) return std::nullopt;
  const json::value* member = value_->get_object().if_contains({name.data(), name.size()});
  if (member == nullptr) return std::nullopt;
  return JsonField{*file_, member, member_path(name)};
}

std::vector<std::string> JsonField::names() const {
  std::vector<std::string> names;
  if (value_ == nullptr) return names;
  if (!value_->is_object()) {
    fail("must be an object");
    return names;
  }
  for (const auto& member : value_->get_object()) names.emplace_back(member.key());
  return names;
}

bool JsonField::boolean() const {
  if (value_ == nullptr) return false;
  if (!value_->is_bool()) {
    fail("must be true or false");
    return false;
  }
  return value_->get_bool();
}

std::uint64_t JsonField::number(std::uint64_t min, std::uint64_t max) const {
  if (value_ == nullptr) return min;
  // Boost.JSON holds what fits int64 as that, and only larger numbers as uint64.
  std::optional<std::uint64_t> n;
  if (value_->is_uint64()) n = value_->get_uint64();
  if (value_->is_int64() && value_->get_int64() >= 0) {
    n = static_cast<std::uint64_t>(value_->get_int64());
  }
  if (!n || *n < min || *n > max) {
    fail(fmt::format("must be an integer from {} to {}", min, max));
    return min;
  }
  return *n;
}

std::string JsonField::text() const {
  if (value_ == nullptr) return {};
  if (!value_->is_string()) {
    fail("must be a string");
    return {};
  }
  return std::string(value_->get_string());
}

std::vector<std::byte> JsonField::bytes() const {
  auto bytes = from_hex(text());
  if (!bytes) fail("must be an even number of hexadecimal digits");
  return bytes ? std::move(*bytes) : std::vector<std::byte>{};
}

Mac JsonField::mac() const {
  const auto mac = mac_from_text(text());
  if (!mac && value_ != nullptr) fail("must be a MAC address such as \"02:00:00:00:dd:00\"");
  return mac.value_or(Mac{});
}

std::vector<JsonField> JsonField::elements() const {
  std::vector<JsonField> fields;
  if (value_ == nullptr) return fields;
  if (!value_->is_array()) {
    fail("must be a list");
    return fields;
  }
  const json::array& list = value_->get_array();
  fields.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    fields.push_back({*file_, &list[i], fmt::format("{}[{}]", path_, i)});
  }
  return fields;
}

}  // namespace mtl::conformance
