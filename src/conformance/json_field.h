#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace mtl::conformance {

/// A JSON file being read into something checked. The first thing that is wrong stays; the fields
/// then give harmless defaults, so that a reader needs to look only once, at its end.
class JsonFile {
 public:
  /// Reads and parses `path`, of at most `max_bytes`; a syntax error is named with line and column.
  static Result<JsonFile> load(const std::filesystem::path& path, std::size_t max_bytes);

  /// What was parsed elsewhere; `path` names it in errors.
  static JsonFile of(std::filesystem::path path, boost::json::value root);

  const std::filesystem::path& path() const { return path_; }
  const boost::json::value& root() const { return root_; }
  void fail(const std::string& field, const std::string& what);
  const std::optional<Error>& error() const { return error_; }

 private:
  std::filesystem::path path_;
  boost::json::value root_;
  std::optional<Error> error_;
};

/// One value of a JsonFile, with its path ("dut.ports[0].mtu") for errors. Each getter checks type
/// and range, and on a fault tells the file and returns a default.
class JsonField {
 public:
  explicit JsonField(JsonFile& file) : file_(&file), value_(&file.root()) {}

  /// Says that this must be an object with members of these names only.
  void only(std::initializer_list<std::string_view> names) const;
  /// A member that must be there.
  JsonField operator[](std::string_view name) const;
  /// A member that may be absent.
  std::optional<JsonField> find(std::string_view name) const;
  bool is_object() const { return value_ != nullptr && value_->is_object(); }
  /// Names of an object's members.
  std::vector<std::string> names() const;

  bool is_null() const { return value_ == nullptr || value_->is_null(); }
  bool boolean() const;
  std::uint64_t number(std::uint64_t min, std::uint64_t max) const;
  std::string text() const;
  std::vector<std::byte> bytes() const;  ///< hexadecimal digits
  Mac mac() const;
  std::vector<JsonField> elements() const;

  void fail(const std::string& what) const { file_->fail(path_, what); }
  const std::string& path() const { return path_; }

 private:
  JsonField(JsonFile& file, const boost::json::value* value, std::string path)
      : file_(&file), value_(value), path_(std::move(path)) {}
  std::string member_path(std::string_view name) const;

  JsonFile* file_;
  const boost::json::value* value_;  ///< nullptr: missing, and already an error
  std::string path_;
};

/// A number that must fit T, as T.
template <class T>
T number_as(const JsonField& field, std::uint64_t min, std::uint64_t max) {
  return static_cast<T>(field.number(min, max));
}

}  // namespace mtl::conformance
