#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace google::protobuf {
class Message;
}

/// Protobuf messages in files that people write: text format or JSON, with errors that say where
/// and what to do. Control plane only; any thread, nothing is shared.
namespace mtl::control {

enum class FileFormat : std::uint8_t {
  kText,  ///< protobuf text format: .textproto, .txtpb
  kJson,  ///< protobuf's JSON mapping: .json
};

/// A place in a file, both counted from 1. Line 0: unknown.
struct Position {
  int line = 0;
  int column = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

/// Where the fields of a parsed message stand in its file. A path is made of field names as in the
/// .proto file and of indices from 0: "ports[1].link.window".
class Locations {
 public:
  Locations() = default;
  explicit Locations(std::string file) : file_(std::move(file)) {}

  void add(std::string path, Position position) { positions_.emplace(std::move(path), position); }
  /// Position of the field, or, if the file does not have it, of the nearest message around it that
  /// the file has. Nothing at all: line 0.
  Position find(std::string_view path) const;
  /// "file:line:column: " for the beginning of an error about `path`; "file: " where no line is
  /// known.
  std::string where(std::string_view path) const;
  /// Whether the file itself has the field.
  bool has(std::string_view path) const { return positions_.find(path) != positions_.end(); }
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::map<std::string, Position, std::less<>> positions_;
};

/// A message and where its fields stand: so that later checks of their meaning can name the place
/// too.
template <class M>
struct Located {
  M message;
  Locations locations;
  std::string where(std::string_view path) const { return locations.where(path); }
};

/// Longest file that is read.
inline constexpr std::size_t kMaxMessageFile = 16U << 20;
/// Deepest nesting of messages that is read.
inline constexpr int kMaxMessageDepth = 32;

/// The format that the file's name ends in, or an error that lists the endings known.
Result<FileFormat> format_of(const std::filesystem::path& file);

/// Parses `text` into `message` (what it held is lost). Every error begins "file:line:column: ";
/// unknown fields, values of the wrong type, fields given twice and members of a oneof given
/// together are errors. `file` is only named, not read.
Result<Locations> parse_message(std::string_view text, FileFormat format, std::string file,
                                google::protobuf::Message& message);

/// Reads and parses a file; its name tells the format. Errors of the file system name it and the
/// reason.
Result<Locations> load_message(const std::filesystem::path& file,
                               google::protobuf::Message& message);

template <class M>
Result<Located<M>> load(const std::filesystem::path& file) {
  Located<M> out;
  auto locations = load_message(file, out.message);
  if (!locations) return locations.error();
  out.locations = std::move(*locations);
  return out;
}

template <class M>
Result<Located<M>> parse(std::string_view text, FileFormat format, std::string file) {
  Located<M> out;
  auto locations = parse_message(text, format, std::move(file), out.message);
  if (!locations) return locations.error();
  out.locations = std::move(*locations);
  return out;
}

/// The message as parse_message() reads it, one field a line, field names as in the .proto file.
std::string to_text(const google::protobuf::Message& message, FileFormat format);

/// The candidate that a misspelt `word` most likely means: the one with the smallest edit distance
/// (insertions, deletions, exchanges and swaps of neighbours, case ignored), if that is at most a
/// third of the word's length, and at least 1; else empty. `candidates` outlive the result.
template <class Range>
std::string_view nearest(std::string_view word, const Range& candidates);

/// Edit distance of nearest().
std::size_t edit_distance(std::string_view a, std::string_view b);

template <class Range>
std::string_view nearest(std::string_view word, const Range& candidates) {
  std::string_view best;
  std::size_t least = word.size() / 3 < 1 ? 1 : word.size() / 3;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance > least || (distance == least && !best.empty())) continue;
    least = distance;
    best = candidate;
  }
  return best;
}

}  // namespace mtl::control
